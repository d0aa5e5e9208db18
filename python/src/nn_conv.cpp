// Rows: convolutions and pools.
#include "nn_options.h"

namespace etrace::python {

namespace {
template <class L>
void fixed(const char* name) {
  layer<L>(name, "Layer", arg<Dims>("window"));
}
template <class L>
void adaptive(const char* name) {
  layer<L>(name, "Layer", arg<Dims>("out_size"), arg<bool>("channel_first", false));
}
template <class L>
void conv(const char* name, const char* parent) {
  layer<L>(name, parent, arg<Shape>("in_size"), arg<std::int64_t>("out_channels"), arg<Dims>("kernel_size"));
}
}  // namespace

void bind_nn_conv(nb::module_&) {
  conv<nn::Conv>("Conv", "WeightLayer");
  conv<nn::Conv1d>("Conv1d", "Conv");
  conv<nn::Conv2d>("Conv2d", "Conv");
  conv<nn::Conv3d>("Conv3d", "Conv");
  fixed<nn::AvgPool1d>("AvgPool1d");
  fixed<nn::AvgPool2d>("AvgPool2d");
  fixed<nn::AvgPool3d>("AvgPool3d");
  fixed<nn::MaxPool1d>("MaxPool1d");
  fixed<nn::MaxPool2d>("MaxPool2d");
  fixed<nn::MaxPool3d>("MaxPool3d");
  adaptive<nn::AdaptiveAvgPool1d>("AdaptiveAvgPool1d");
  adaptive<nn::AdaptiveAvgPool2d>("AdaptiveAvgPool2d");
  adaptive<nn::AdaptiveAvgPool3d>("AdaptiveAvgPool3d");
  adaptive<nn::AdaptiveMaxPool1d>("AdaptiveMaxPool1d");
  adaptive<nn::AdaptiveMaxPool2d>("AdaptiveMaxPool2d");
  adaptive<nn::AdaptiveMaxPool3d>("AdaptiveMaxPool3d");
}

}  // namespace etrace::python
