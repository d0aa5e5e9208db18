// Built-in models: a row per model in the table at the end.
#include "etrace/models.h"

#include "base/nearest.h"
#include "etrace/error.h"
#include "etrace/nn.h"
#include "etrace/ops/numpy.h"

namespace etrace {

namespace {

nn::CellOptions cell_options(const ModelOptions& o) { return {.dtype = o.dtype, .seed = o.seed}; }
nn::LinearOptions linear_options(const ModelOptions& o) { return {.dtype = o.dtype, .seed = o.seed}; }

template <class Cell>
struct OneLayer : Module {
  explicit OneLayer(const ModelOptions& o)
      : rnn(child<Cell>("rnn", o.sizes[0], o.sizes[1], cell_options(o))),
        out(child<nn::Linear>("out", o.sizes[1], o.sizes[2], linear_options(o))) {}
  Array update(const Array& x) override { return out(rnn(x)); }
  Cell& rnn;
  nn::Linear& out;
};

template <class Cell>
struct TwoLayer : Module {
  explicit TwoLayer(const ModelOptions& o)
      : rnn1(child<Cell>("rnn1", o.sizes[0], o.sizes[1], cell_options(o))),
        rnn2(child<Cell>("rnn2", o.sizes[1], o.sizes[2], cell_options(o))),
        out(child<nn::Linear>("out", o.sizes[2], o.sizes[3], linear_options(o))) {}
  Array update(const Array& x) override { return out(rnn2(rnn1(x))); }
  Cell &rnn1, &rnn2;
  nn::Linear& out;
};

// A layer of spiking neurons whose states are the model's own, and a leaky readout of its spikes.
template <nn::Synapse kSynapse>
struct Spiking : nn::LIFLayer {
  explicit Spiking(const ModelOptions& o)
      : LIFLayer(o.sizes[0], o.sizes[1], {.neuron = {.dtype = o.dtype}, .synapse = kSynapse, .seed = o.seed}),
        out(child<nn::LeakyRateReadout>(
            "out", o.sizes[1], o.sizes[2],
            nn::LeakyRateReadoutOptions{.tau = 10.0, .dtype = o.dtype, .seed = o.seed})) {}
  Array update(const Array& x) override { return out(LIFLayer::update(x)); }
  nn::LeakyRateReadout& out;
};

template <class M>
std::shared_ptr<Module> make(const ModelOptions& options) {
  return std::make_shared<M>(options);
}

const std::vector<BuiltinModel>& table() {
  static const std::vector<BuiltinModel> rows{
      {"gru", "a gated recurrent layer and a linear readout", {3, 8, 1}, make<OneLayer<nn::GRUCell>>},
      {"lif",
       "spiking neurons with soft reset, recurrent spikes, a leaky readout",
       {4, 16, 2},
       make<Spiking<nn::Synapse::Delta>>},
      {"lif_expon",
       "spiking neurons with exponential synapses, recurrent spikes, a leaky readout",
       {4, 16, 2},
       make<Spiking<nn::Synapse::Expon>>},
      {"lstm",
       "a layer with gates and a memory cell, and a linear readout",
       {3, 8, 1},
       make<OneLayer<nn::LSTMCell>>},
      {"mini_gru",
       "a recurrent layer with one gate and a linear readout",
       {3, 8, 1},
       make<OneLayer<nn::MiniGRU>>},
      {"rnn",
       "a recurrent layer with relu and a linear readout",
       {3, 8, 1},
       make<OneLayer<nn::ValinaRNNCell>>},
      {"two_layer_gru",
       "two gated recurrent layers and a linear readout",
       {3, 8, 8, 1},
       make<TwoLayer<nn::GRUCell>>},
      {"two_layer_rnn",
       "two recurrent layers with relu and a linear readout",
       {10, 32, 16, 5},
       make<TwoLayer<nn::ValinaRNNCell>>},
  };
  return rows;
}

}  // namespace

std::span<const BuiltinModel> builtin_models() { return table(); }

const BuiltinModel* find_builtin_model(std::string_view name) {
  for (const BuiltinModel& m : table())
    if (m.name == name) return &m;
  return nullptr;
}

ReadyModel make_model(std::string_view name, const ModelOptions& options) {
  const BuiltinModel* found = find_builtin_model(name);
  if (found == nullptr) throw ValueError("models", no_such_name("built-in model", name, row_names(table())));
  ModelOptions complete = options;
  if (complete.sizes.empty()) complete.sizes = found->sizes;
  if (complete.sizes.size() != found->sizes.size())
    throw ValueError("models", "the model " + std::string(name) + " has " +
                                   std::to_string(found->sizes.size()) +
                                   " sizes (input, hidden, output) but was given " +
                                   std::to_string(complete.sizes.size()));
  ReadyModel ready{found->make(complete), {}};
  init_all_states(*ready.module, complete.batch);
  const Shape features{complete.sizes[0]};
  ready.example = {zeros(complete.batch ? features.with_front(*complete.batch) : features, complete.dtype)};
  return ready;
}

}  // namespace etrace
