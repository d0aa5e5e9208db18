// Rows: spiking neurons.
#include "nn_options.h"

namespace etrace::python {

nn::LIFOptions Reader<nn::LIFOptions>::read(const Place& at, nb::handle h) {
  if (!nb::isinstance<nb::dict>(h)) at.wrong_type("a dictionary of the options of LIF", h);
  nn::LIFOptions o;
  FieldTable fields(at.who + "." + at.name);
  fields_of(fields, o);
  fields.set_all(nb::borrow<nb::dict>(h));
  return o;
}

namespace {
template <class L>
void neuron(const char* name, const char* parent = "Neuron") {
  layer<L>(name, parent, arg<nn::Size>("size"));
}
}  // namespace

void bind_nn_neurons(nb::module_&) {
  const auto in = arg<std::int64_t>("in_size"), out = arg<std::int64_t>("out_size");
  neuron<nn::LIF>("LIF");
  neuron<nn::IF>("IF", "LIF");
  neuron<nn::LIFRef>("LIFRef", "LIF");
  neuron<nn::ALIF>("ALIF");
  neuron<nn::Gif>("Gif");
  neuron<nn::CurrentGif>("CurrentGif");
  neuron<nn::AdEx>("AdEx");
  neuron<nn::Izhikevich>("Izhikevich");
  neuron<nn::HodgkinHuxley>("HodgkinHuxley");
  layer<nn::LIFLayer>("LIFLayer", "LIF", in, out);
  layer<nn::LeakySpikeReadout>("LeakySpikeReadout", "IF", in, out);
  layer<nn::LeakyRateReadout>("LeakyRateReadout", "Dynamics", in, out);
}

}  // namespace etrace::python
