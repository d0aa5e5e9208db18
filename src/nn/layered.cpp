#include "etrace/layered.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "base/nearest.h"
#include "etrace/error.h"
#include "etrace/nn.h"
#include "etrace/ops/numpy.h"

namespace etrace::nn {

namespace {

// The options of one layer, each of which must be asked for.
class Asked {
 public:
  Asked(std::size_t number, const LayerWords& words) : number_(number), words_(words) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw ValueError("layers", fmt::format("layer {} ({}): {}", number_, words_.type, what));
  }
  const std::string* find(const char* name) const {
    const std::string* found = nullptr;
    for (const auto& [key, value] : words_.options)
      if (key == name) found = &value;
    return found;
  }
  double number(const char* name, double otherwise) {
    const std::string* text = find(name);
    if (text == nullptr) return otherwise;
    double value = 0.0;
    const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || stop != text->data() + text->size() || !std::isfinite(value))
      refuse(fmt::format("{} is '{}', expected a number", name, *text));
    return value;
  }
  std::int64_t size(std::optional<std::int64_t> otherwise = {}) {
    if (find("size") == nullptr) {
      if (otherwise) return *otherwise;
      refuse("size is missing; how many units?");
    }
    const double value = number("size", 0.0);
    if (value < 1.0 || value != std::floor(value) || value > 1e9)
      refuse(fmt::format("size is {}, expected a whole number from 1 on", value));
    return static_cast<std::int64_t>(value);
  }
  bool truth(const char* name, bool otherwise) {
    const std::string* text = find(name);
    if (text == nullptr) return otherwise;
    if (*text != "true" && *text != "false")
      refuse(fmt::format("{} is '{}', expected true or false", name, *text));
    return *text == "true";
  }
  std::string word(const char* name, const std::string& otherwise, const std::vector<std::string>& allowed) {
    const std::string* text = find(name);
    if (text == nullptr) return otherwise;
    if (std::find(allowed.begin(), allowed.end(), *text) == allowed.end())
      refuse(fmt::format("{} is '{}'{}; expected one of {}", name, *text, did_you_mean(*text, allowed),
                         fmt::join(allowed, ", ")));
    return *text;
  }
  // Before anything is made, so that a slip of the pen is not taken for what is missing.
  void require_known(const LayerType& type) const {
    const std::vector<std::string> known = row_names(type.options);
    for (const auto& [key, value] : words_.options)
      if (std::find(known.begin(), known.end(), key) == known.end())
        refuse(fmt::format("there is no option '{}'{}; expected {}", key, did_you_mean(key, known),
                           known.empty() ? "none" : fmt::format("one of {}", fmt::join(known, ", "))));
  }

 private:
  std::size_t number_;
  const LayerWords& words_;
};

// What layers are put between.
struct Place {
  std::int64_t in, outputs;  // features that come in, and those of the model's result
  const ModelOptions& model;
  bool first;
};
// A layer that was made, and how many features it gives.
struct Made {
  std::shared_ptr<Module> module;
  std::int64_t features;
  bool spikes = false, readout = false;
};

template <class Cell>
Made make_cell(Asked& a, const Place& p) {
  const std::int64_t size = a.size();
  const double memory = a.number("memory", p.model.memory);
  if (memory < 0.0) a.refuse("memory is below 0");
  return {std::make_shared<Cell>(p.in, size,
                                 CellOptions{.dtype = p.model.dtype, .seed = p.model.seed, .memory = memory}),
          size};
}

Made make_lru(Asked& a, const Place& p) {
  return {std::make_shared<LRUCell>(p.in, a.size(), LRUOptions{.dtype = p.model.dtype, .seed = p.model.seed}),
          p.in};
}

// Neurons that are driven by the input and, if wanted, by what they fired.
template <class Neurons>
struct NeuronLayer : Module {
  NeuronLayer(std::int64_t in, std::int64_t size, const typename Neurons::Options& options,
              const LinearOptions& weights, double gain, bool recurrent)
      : neurons(child<Neurons>("neurons", size, options)),
        syn(child<Linear>("syn", recurrent ? in + size : in, size, weights)),
        gain(gain),
        recurrent(recurrent) {}
  Array update(const Array& x) override {
    const Array fired = neurons.spikes();
    const Array current = gain * syn(recurrent ? join_input(x, fired) : x);
    return neurons.step(fired, {.current = current});
  }
  Neurons& neurons;
  Linear& syn;
  double gain;
  bool recurrent;
};

template <class Neurons, class Options>
Made neuron_layer(Asked& a, const Place& p, Options options) {
  const std::int64_t size = a.size();
  options.dtype = p.model.dtype;
  options.V_th = a.number("threshold", 1.0);
  options.reset = a.word("reset", "soft", {"soft", "hard"}) == "soft" ? Reset::Soft : Reset::Hard;
  const bool recurrent = a.truth("recurrent", true);
  const double gain = a.number("gain", 4.0),
               usual = p.first && p.model.input_rms > 0.0 ? 0.8 / p.model.input_rms : 2.0,
               input = a.number("input_scale", usual), back = a.number("recurrent_scale", 1.0);
  LinearOptions weights{.dtype = p.model.dtype, .seed = p.model.seed};
  const Initializer drawn = weights.weight_init;
  weights.weight_init = recurrent
                            ? init::stacked_rows(p.in, init::scaled(drawn, input), init::scaled(drawn, back))
                            : init::scaled(drawn, input);
  return {std::make_shared<NeuronLayer<Neurons>>(p.in, size, options, weights, gain, recurrent), size, true};
}

Made make_lif(Asked& a, const Place& p) {
  LIFOptions o;
  o.tau = a.number("tau", 5.0);
  return neuron_layer<LIF>(a, p, o);
}
Made make_if(Asked& a, const Place& p) { return neuron_layer<IF>(a, p, LIFOptions{}); }
Made make_lif_ref(Asked& a, const Place& p) {
  LIFOptions o;
  o.tau = a.number("tau", 5.0);
  o.tau_ref = a.number("tau_ref", 2.0);
  return neuron_layer<LIFRef>(a, p, o);
}
Made make_alif(Asked& a, const Place& p) {
  ALIFOptions o;
  o.tau = a.number("tau", std::clamp(p.model.memory / 50.0, 5.0, 20.0));
  o.tau_a = a.number("tau_a", p.model.memory > 0.0 ? p.model.memory : 100.0);
  o.beta = a.number("beta", 0.1);
  return neuron_layer<ALIF>(a, p, o);
}

struct DenseLayer : Module {
  DenseLayer(std::int64_t in, std::int64_t out, const LinearOptions& o, std::string activation)
      : linear(child<Linear>("linear", in, out, o)), activation(std::move(activation)) {}
  Array update(const Array& x) override {
    const Array y = linear(x);
    if (activation == "relu") return relu(y);
    if (activation == "tanh") return tanh(y);
    if (activation == "sigmoid") return sigmoid(y);
    return activation == "gelu" ? gelu(y) : y;
  }
  Linear& linear;
  std::string activation;
};
Made make_linear(Asked& a, const Place& p) {
  const bool readout = a.find("size") == nullptr;
  const std::int64_t size = a.size(p.outputs);
  const std::string activation = a.word("activation", "none", {"none", "relu", "tanh", "sigmoid", "gelu"});
  return {std::make_shared<DenseLayer>(
              p.in, size, LinearOptions{.dtype = p.model.dtype, .seed = p.model.seed}, activation),
          size, false, readout};
}
Made make_leaky_readout(Asked& a, const Place& p) {
  const double tau = a.number("tau", std::clamp(p.model.memory / 25.0, 10.0, 20.0));
  return {
      std::make_shared<LeakyRateReadout>(
          p.in, p.outputs, LeakyRateReadoutOptions{.tau = tau, .dtype = p.model.dtype, .seed = p.model.seed}),
      p.outputs, false, true};
}
Made make_layer_norm(Asked&, const Place& p) {
  return {std::make_shared<LayerNorm>(p.in, NormOptions{.dtype = p.model.dtype}), p.in};
}

struct TypeRow {
  LayerType type;
  Made (*make)(Asked&, const Place&);
};

std::vector<LayerOption> neuron_options(std::vector<LayerOption> own) {
  for (const LayerOption& o :
       {LayerOption{"size", "neurons"}, LayerOption{"threshold", "that V must reach to fire (1)"},
        LayerOption{"reset", "soft or hard"}, LayerOption{"recurrent", "whether spikes come back (true)"},
        LayerOption{"gain", "of the current (4)"},
        LayerOption{"input_scale",
                    "factor of the first weights of the input (default: from the size of the data)"},
        LayerOption{"recurrent_scale", "the same for the spikes (1)"}})
    own.push_back(o);
  return own;
}

const std::vector<TypeRow>& rows() {
  static const std::vector<LayerOption> cell{
      {"size", "units"}, {"memory", "steps that it holds what it has taken in, at the start"}};
  static const std::vector<TypeRow> table{
      {{"ALIF", "spiking neurons with adapting thresholds",
        neuron_options({{"tau", "of the membrane, in steps"},
                        {"tau_a", "of the threshold"},
                        {"beta", "by which a spike raises it (0.1)"}})},
       make_alif},
      {{"CFN", "a chaos-free recurrent layer", cell}, make_cell<CFNCell>},
      {{"GRU", "a gated recurrent layer", cell}, make_cell<GRUCell>},
      {{"IF", "spiking neurons that do not leak", neuron_options({})}, make_if},
      {{"LIF", "spiking neurons that leak", neuron_options({{"tau", "of the membrane, in steps (5)"}})},
       make_lif},
      {{"LIFRef", "the same with a pause after a spike",
        neuron_options({{"tau", "of the membrane, in steps (5)"}, {"tau_ref", "steps of the pause (2)"}})},
       make_lif_ref},
      {{"LRU", "a linear recurrent unit; gives as many features as it takes", {{"size", "complex states"}}},
       make_lru},
      {{"LSTM", "a layer with gates and a memory cell", cell}, make_cell<LSTMCell>},
      {{"LayerNorm", "every sample gets mean 0 and variance 1, then a scale and a shift", {}},
       make_layer_norm},
      {{"LeakyReadout", "a readout that averages spikes over time; last", {{"tau", "in steps (10)"}}},
       make_leaky_readout},
      {{"Linear",
        "weights and biases; without a size the readout, last",
        {{"size", "features (default: as many as the task asks for)"},
         {"activation", "none, relu, tanh, sigmoid or gelu"}}},
       make_linear},
      {{"MGU", "a recurrent layer with one gate", cell}, make_cell<MGUCell>},
      {{"MiniGRU", "a recurrent layer with one gate, linear in its state", cell}, make_cell<MiniGRU>},
      {{"MiniLSTM", "the same with two gates", cell}, make_cell<MiniLSTM>},
      {{"MinimalRNN", "a recurrent layer with one gate over what it takes in", cell},
       make_cell<MinimalRNNCell>},
      {{"RNN", "a recurrent layer with relu", cell}, make_cell<ValinaRNNCell>},
      {{"URLSTM", "a layer with a memory cell and refined gates", cell}, make_cell<URLSTMCell>},
  };
  return table;
}

// One after the other: layer1, layer2 …, and the readout `out`.
struct Stack : Module {
  void add(const std::string& name, std::shared_ptr<Module> layer) {
    order.push_back(layer.get());
    attach(name, std::move(layer));
  }
  Array update(const Array& x) override {
    Array y = x;
    for (Module* layer : order) y = (*layer)(y);
    return y;
  }
  std::vector<Module*> order;
};

const TypeRow& row_of(std::size_t number, const std::string& type) {
  std::vector<std::string> names;
  for (const TypeRow& r : rows()) {
    if (r.type.name == type) return r;
    names.push_back(r.type.name);
  }
  throw ValueError("layers", fmt::format("layer {}: there is no type '{}'{}; expected one of {}", number,
                                         type, did_you_mean(type, names), fmt::join(names, ", ")));
}

}  // namespace

LayerWords LayerWords::parse(const std::string& text) {
  LayerWords out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0)
      throw ValueError("layers", fmt::format("'{}' is no layer: expected type=NAME,OPTION=VALUE…, as in "
                                             "type=LIF,size=128",
                                             text));
    const std::string key = part.substr(0, equals), value = part.substr(equals + 1);
    if (key == "type")
      out.type = value;
    else
      out.options.emplace_back(key, value);
    at = end + 1;
  }
  if (out.type.empty())
    throw ValueError("layers", fmt::format("'{}' does not say its type: expected type=NAME,…", text));
  return out;
}

std::string LayerWords::to_string() const {
  std::string out = "type=" + type;
  for (const auto& [key, value] : options) out += fmt::format(",{}={}", key, value);
  return out;
}

const std::vector<LayerType>& layer_types() {
  static const std::vector<LayerType> types = [] {
    std::vector<LayerType> out;
    for (const TypeRow& r : rows()) out.push_back(r.type);
    return out;
  }();
  return types;
}

std::shared_ptr<Module> layered(const std::vector<LayerWords>& layers, const ModelOptions& options) {
  if (layers.empty()) throw ValueError("layers", "a model needs a layer at least");
  if (options.sizes.size() != 2)
    throw ValueError("layers", "a model of layers is made for the features of its input and of its output");
  auto stack = std::make_shared<Stack>();
  Place place{options.sizes[0], options.sizes[1], options, true};
  Made last{};
  std::vector<LayerWords> all = layers;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Asked asked(i + 1, all[i]);
    if (last.readout) asked.refuse("the layer before it is the readout, which is the last");
    const TypeRow& row = row_of(i + 1, all[i].type);
    asked.require_known(row.type);
    last = row.make(asked, place);
    // Behind the last one that was given comes the readout that fits.
    if (i + 1 == all.size() && !last.readout) all.push_back({last.spikes ? "LeakyReadout" : "Linear", {}});
    stack->add(last.readout ? "out" : fmt::format("layer{}", i + 1), last.module);
    place.in = last.features;
    place.first = false;
  }
  return stack;
}

}  // namespace etrace::nn
