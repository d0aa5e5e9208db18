// Rows: synapses and delays.
#include "nn_options.h"

namespace etrace::python {

void bind_nn_synapses(nb::module_&) {
  const auto size = arg<nn::Size>("size");
  layer<nn::Expon>("Expon", "Dynamics", size);
  layer<nn::Alpha>("Alpha", "Dynamics", size);
  layer<nn::DualExpon>("DualExpon", "Dynamics", size);
  layer<nn::AMPA>("AMPA", "Dynamics", size);
  layer<nn::GABAa>("GABAa", "AMPA", size);
  layer<nn::NMDA>("NMDA", "Dynamics", size);
  layer<nn::STD>("STD", "Dynamics", size);
  layer<nn::STP>("STP", "Dynamics", size);
  layer<nn::Delay>("Delay", "Dynamics", size, arg<nn::Time>("delay"));
}

}  // namespace etrace::python
