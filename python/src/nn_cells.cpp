// Rows: recurrent cells.
#include "nn_options.h"

namespace etrace::python {

namespace {
template <class L>
void cell(const char* name) {
  layer<L>(name, "Layer", arg<std::int64_t>("in_size"), arg<std::int64_t>("out_size"));
}
template <class L>
void conv_cell(const char* name) {
  layer<L>(name, "Layer", arg<Shape>("in_size"), arg<std::int64_t>("out_channels"), arg<Dims>("kernel_size"));
}
}  // namespace

void bind_nn_cells(nb::module_&) {
  cell<nn::VanillaRNNCell>("VanillaRNNCell");
  cell<nn::GRUCell>("GRUCell");
  cell<nn::MGUCell>("MGUCell");
  cell<nn::LSTMCell>("LSTMCell");
  cell<nn::URLSTMCell>("URLSTMCell");
  cell<nn::MinimalRNNCell>("MinimalRNNCell");
  cell<nn::MiniGRU>("MiniGRU");
  cell<nn::MiniLSTM>("MiniLSTM");
  cell<nn::CFNCell>("CFNCell");
  layer<nn::LRUCell>("LRUCell", "Layer", arg<std::int64_t>("model_size"), arg<std::int64_t>("hidden_size"));
  conv_cell<nn::ConvRNNCell>("ConvRNNCell");
  conv_cell<nn::ConvGRUCell>("ConvGRUCell");
  conv_cell<nn::ConvLSTMCell>("ConvLSTMCell");
}

}  // namespace etrace::python
