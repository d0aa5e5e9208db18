// Rows: normalisation, dropout, shapes.
#include "nn_options.h"

namespace etrace::python {

void bind_nn_norm(nb::module_&) {
  const auto in = arg<Shape>("in_size");
  layer<nn::LayerNorm>("LayerNorm", "Layer", in);
  layer<nn::RMSNorm>("RMSNorm", "Layer", in);
  layer<nn::GroupNorm>("GroupNorm", "Layer", in);
  layer<nn::BatchNorm>("BatchNorm", "Layer", in);
  layer<nn::PReLU>("PReLU", "Layer", in);
  layer<nn::Dropout>("Dropout", "Layer");
  layer<nn::Flatten>("Flatten", "Layer", in);
  layer<nn::Unflatten>("Unflatten", "Layer", arg<Shape>("out_size"));
}

}  // namespace etrace::python
