// Rows: activations as layers. Their functions are in nn_functions.cpp.
#include "nn_options.h"

namespace etrace::python {

void bind_nn_activation(nb::module_&) {
  using D = double;
  const auto axis = arg<int>("axis", -1);
  const auto bound = arg<D>("bound", 0.5);
  layer<nn::Identity>("Identity", "Layer");
  layer<nn::CELU>("CELU", "Layer", arg<D>("alpha", 1.0));
  layer<nn::ELU>("ELU", "Layer", arg<D>("alpha", 1.0));
  layer<nn::GELU>("GELU", "Layer", arg<bool>("approximate", true));
  layer<nn::GLU>("GLU", "Layer", axis);
  layer<nn::HardShrink>("HardShrink", "Layer", bound);
  layer<nn::HardSigmoid>("HardSigmoid", "Layer");
  layer<nn::HardSiLU>("HardSiLU", "Layer");
  layer<nn::HardTanh>("HardTanh", "Layer", arg<D>("low", -1.0), arg<D>("high", 1.0));
  layer<nn::LeakyReLU>("LeakyReLU", "Layer", arg<D>("slope", 0.01));
  layer<nn::LogSigmoid>("LogSigmoid", "Layer");
  layer<nn::LogSoftmax>("LogSoftmax", "Layer", axis);
  layer<nn::Mish>("Mish", "Layer");
  layer<nn::ReLU>("ReLU", "Layer");
  layer<nn::ReLU6>("ReLU6", "Layer");
  layer<nn::SELU>("SELU", "Layer");
  layer<nn::Sigmoid>("Sigmoid", "Layer");
  layer<nn::SiLU>("SiLU", "Layer");
  layer<nn::Softmax>("Softmax", "Layer", axis);
  layer<nn::Softmin>("Softmin", "Layer", axis);
  layer<nn::Softplus>("Softplus", "Layer");
  layer<nn::SoftShrink>("SoftShrink", "Layer", bound);
  layer<nn::SoftSign>("SoftSign", "Layer");
  layer<nn::Tanh>("Tanh", "Layer");
  layer<nn::TanhShrink>("TanhShrink", "Layer");
  layer<nn::Threshold>("Threshold", "Layer", arg<D>("bound"), arg<D>("value"));
}

}  // namespace etrace::python
