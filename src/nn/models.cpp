// Built-in models: a row per model in the table at the end.
#include "etrace/models.h"

#include <algorithm>
#include <cmath>

#include "base/nearest.h"
#include "etrace/error.h"
#include "etrace/nn.h"
#include "etrace/ops/numpy.h"

namespace etrace {

namespace {

nn::CellOptions cell_options(const ModelOptions& o) {
  return {.dtype = o.dtype, .seed = o.seed, .memory = o.memory};
}
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

// Neurons of any kind, driven by the input and by what they fired: I = gain·([x, s]·W + b) + offset, and a
// leaky readout of their spikes. Gain and offset bring the current into the range of the neuron's units; rows
// of W for the input and for the spikes have a fan each, and those of the input a factor, so that neurons
// fire from the start.
struct Drive {
  double gain = 1.0, offset = 0.0;
  double input = 1.0, recurrent = 1.0;  // factors of the blocks of W
  double readout_tau = 10.0;
};
// The factor of the input with which neurons of gain 4 fire in some steps and not in most.
double input_factor(const ModelOptions& o) { return o.input_rms > 0.0 ? 0.8 / o.input_rms : 2.0; }

nn::LinearOptions synapse_options(const ModelOptions& o, const Drive& drive) {
  nn::LinearOptions out = linear_options(o);
  const nn::Initializer usual = out.weight_init;
  out.weight_init = nn::init::stacked_rows(o.sizes[0], nn::init::scaled(usual, drive.input),
                                           nn::init::scaled(usual, drive.recurrent));
  return out;
}

template <class Neurons, class Options>
struct Population : Module {
  Population(const ModelOptions& o, Options neuron, const Drive& drive)
      : neurons(child<Neurons>("neurons", o.sizes[1], neuron)),
        syn(child<nn::Linear>("syn", o.sizes[0] + o.sizes[1], o.sizes[1], synapse_options(o, drive))),
        out(child<nn::LeakyRateReadout>(
            "out", o.sizes[1], o.sizes[2],
            nn::LeakyRateReadoutOptions{.tau = drive.readout_tau, .dtype = o.dtype, .seed = o.seed})),
        gain(drive.gain),
        offset(drive.offset) {}
  Array update(const Array& x) override {
    const Array fired = neurons.spikes();
    const Array current = gain * syn(nn::join_input(x, fired)) + offset;
    return out(neurons.step(fired, {.current = current}));
  }
  Neurons& neurons;
  nn::Linear& syn;
  nn::LeakyRateReadout& out;
  double gain, offset;
};

template <class Neurons, class Options>
std::shared_ptr<Module> population(const ModelOptions& o, Options neuron, const Drive& drive) {
  neuron.dtype = o.dtype;
  return std::make_shared<Population<Neurons, Options>>(o, neuron, drive);
}

// Adaptive neurons for tasks that last: thresholds recover within half to twice that time, each neuron in its
// own, and membrane and readout are slower in longer tasks.
std::shared_ptr<Module> adaptive_population(const ModelOptions& o) {
  nn::ALIFOptions neuron;
  Drive drive{.gain = 4.0, .input = input_factor(o)};
  if (o.memory > 0.0) {
    const std::int64_t n = o.sizes[1];
    std::vector<double> tau;
    for (std::int64_t i = 0; i < n; ++i)
      tau.push_back(0.5 * o.memory *
                    std::pow(4.0, n == 1 ? 1.0 : static_cast<double>(i) / static_cast<double>(n - 1)));
    neuron.tau_a = convert(Array(Tensor::of(tau, Shape{n})), o.dtype);
    neuron.tau = std::clamp(o.memory / 50.0, 5.0, 20.0);
    drive.readout_tau = std::clamp(o.memory / 25.0, 10.0, 20.0);
  }
  return population<nn::ALIF>(o, neuron, drive);
}

// The linear recurrent unit returns as many features as it takes.
struct LinearRecurrentUnit : Module {
  explicit LinearRecurrentUnit(const ModelOptions& o)
      : rnn(child<nn::LRUCell>("rnn", o.sizes[0], o.sizes[1],
                               nn::LRUOptions{.dtype = o.dtype, .seed = o.seed})),
        out(child<nn::Linear>("out", o.sizes[0], o.sizes[2], linear_options(o))) {}
  Array update(const Array& x) override { return out(rnn(x)); }
  nn::LRUCell& rnn;
  nn::Linear& out;
};

// A convolutional cell along the input, whose entries are positions with one channel.
template <class Cell>
struct AlongTheInput : Module {
  explicit AlongTheInput(const ModelOptions& o)
      : image(child<nn::Unflatten>("image", Shape{o.sizes[0], 1})),
        rnn(child<Cell>("rnn", Shape{o.sizes[0], 1}, o.sizes[1], Dims{3},
                        nn::ConvCellOptions{.dtype = o.dtype, .seed = o.seed, .memory = o.memory})),
        flat(child<nn::Flatten>("flat", Shape{o.sizes[0], o.sizes[1]})),
        out(child<nn::Linear>("out", o.sizes[0] * o.sizes[1], o.sizes[2], linear_options(o))) {}
  Array update(const Array& x) override { return out(flat(rnn(image(x)))); }
  nn::Unflatten& image;
  Cell& rnn;
  nn::Flatten& flat;
  nn::Linear& out;
};

// Normalisation, convolution, spiking positions, a spiking layer and a readout.
struct ConvolutionalSpiking : Module {
  static constexpr std::int64_t kChannels = 4;
  explicit ConvolutionalSpiking(const ModelOptions& o)
      : image(child<nn::Unflatten>("image", Shape{o.sizes[0], 1})),
        norm(child<nn::GroupNorm>("norm", Shape{o.sizes[0], 1},
                                  nn::GroupNormOptions{.groups = 1, .dtype = o.dtype})),
        conv(child<nn::Conv1d>(
            "conv", Shape{o.sizes[0], 1}, kChannels, Dims{3},
            nn::ConvLayerOptions{.bias_init = nn::init::zeros(), .dtype = o.dtype, .seed = o.seed})),
        spiking(child<nn::LIF>("spiking", nn::Size{o.sizes[0], kChannels},
                               nn::LIFOptions{.R = 4.0, .dtype = o.dtype})),
        pool(child<nn::AvgPool1d>("pool", Dims{std::min<std::int64_t>(2, o.sizes[0])})),
        flat(child<nn::Flatten>("flat", Shape{pooled(o.sizes[0]), kChannels})),
        layer(child<nn::LIFLayer>(
            "layer", pooled(o.sizes[0]) * kChannels, o.sizes[1],
            nn::LIFLayerOptions{.neuron = {.dtype = o.dtype}, .input_scale = 2.0, .seed = o.seed})),
        out(child<nn::LeakyRateReadout>(
            "out", o.sizes[1], o.sizes[2],
            nn::LeakyRateReadoutOptions{.tau = 10.0, .dtype = o.dtype, .seed = o.seed})) {}
  Array update(const Array& x) override {
    const Array seen = pool(spiking(conv(norm(image(x)))));
    return out(layer(flat(seen)));
  }
  static std::int64_t pooled(std::int64_t n) { return n < 2 ? n : n / 2; }
  nn::Unflatten& image;
  nn::GroupNorm& norm;
  nn::Conv1d& conv;
  nn::LIF& spiking;
  nn::AvgPool1d& pool;
  nn::Flatten& flat;
  nn::LIFLayer& layer;
  nn::LeakyRateReadout& out;
};

template <class M>
std::shared_ptr<Module> make(const ModelOptions& options) {
  return std::make_shared<M>(options);
}

const std::vector<BuiltinModel>& table() {
  static const std::vector<BuiltinModel> rows{
      {"adex",
       "adaptive exponential neurons in steps of 0.5 ms, recurrent spikes, a leaky readout",
       {4, 16, 2},
       [](const ModelOptions& o) {
         return population<nn::AdEx>(o, nn::AdExOptions{.dt = 0.5}, {.gain = 20.0, .offset = 40.0});
       }},
      {"alif",
       "spiking neurons with adapting thresholds, recurrent spikes, a leaky readout",
       {4, 16, 2},
       adaptive_population},
      {"cfn",
       "a chaos-free recurrent layer with two gates and a linear readout",
       {3, 8, 1},
       make<OneLayer<nn::CFNCell>>},
      {"conv_gru",
       "a gated recurrent layer with convolutions along the input, and a linear readout",
       {6, 3, 1},
       make<AlongTheInput<nn::ConvGRUCell>>},
      {"conv_lstm",
       "a layer with a memory cell and convolutions along the input, and a linear readout",
       {6, 3, 1},
       make<AlongTheInput<nn::ConvLSTMCell>>},
      {"conv_rnn",
       "a recurrent layer with convolutions along the input, and a linear readout",
       {6, 3, 1},
       make<AlongTheInput<nn::ConvRNNCell>>},
      {"conv_snn",
       "normalisation, convolution, spiking positions, a spiking layer, a leaky readout",
       {12, 16, 2},
       make<ConvolutionalSpiking>},
      {"current_gif",
       "spiking neurons with a slow current after each spike, recurrent spikes, a leaky readout",
       {4, 16, 2},
       [](const ModelOptions& o) {
         return population<nn::CurrentGif>(o, nn::CurrentGifOptions{}, {.gain = 20.0});
       }},
      {"gif",
       "generalised integrate-and-fire neurons, recurrent spikes, a leaky readout",
       {4, 16, 2},
       [](const ModelOptions& o) {
         return population<nn::Gif>(o, nn::GifOptions{.a = 0.01, .A1 = 0.3, .A2 = -0.1},
                                    {.gain = 2.0, .offset = 1.0});
       }},
      {"gru", "a gated recurrent layer and a linear readout", {3, 8, 1}, make<OneLayer<nn::GRUCell>>},
      {"hodgkin_huxley",
       "Hodgkin and Huxley's neurons in steps of 0.1 ms, recurrent spikes, a leaky readout",
       {4, 16, 2},
       [](const ModelOptions& o) {
         return population<nn::HodgkinHuxley>(
             o, nn::HodgkinHuxleyOptions{.dt = 0.1, .surrogate = nn::surrogate::sigmoid(1.0)},
             {.gain = 100.0, .offset = 100.0});
       }},
      {"if",
       "spiking neurons that rest at 0, recurrent spikes, a leaky readout",
       {4, 16, 2},
       [](const ModelOptions& o) {
         return population<nn::IF>(o, nn::LIFOptions{}, {.gain = 4.0, .input = input_factor(o)});
       }},
      {"izhikevich",
       "Izhikevich's neurons in steps of 0.5 ms, recurrent spikes, a leaky readout",
       {4, 16, 2},
       [](const ModelOptions& o) {
         return population<nn::Izhikevich>(o, nn::IzhikevichOptions{.dt = 0.5},
                                           {.gain = 20.0, .offset = 20.0});
       }},
      {"lif",
       "spiking neurons with soft reset, recurrent spikes, a leaky readout",
       {4, 16, 2},
       make<Spiking<nn::Synapse::Delta>>},
      {"lif_expon",
       "spiking neurons with exponential synapses, recurrent spikes, a leaky readout",
       {4, 16, 2},
       make<Spiking<nn::Synapse::Expon>>},
      {"lif_ref",
       "spiking neurons with a refractory period of 2 ms, recurrent spikes, a leaky readout",
       {4, 16, 2},
       [](const ModelOptions& o) {
         return population<nn::LIFRef>(o, nn::LIFOptions{.tau_ref = 2.0},
                                       {.gain = 4.0, .input = input_factor(o)});
       }},
      {"lru",
       "a linear recurrent unit with complex states and a linear readout",
       {3, 8, 1},
       make<LinearRecurrentUnit>},
      {"lstm",
       "a layer with gates and a memory cell, and a linear readout",
       {3, 8, 1},
       make<OneLayer<nn::LSTMCell>>},
      {"mgu",
       "a recurrent layer with one gate that also forgets, and a linear readout",
       {3, 8, 1},
       make<OneLayer<nn::MGUCell>>},
      {"mini_gru",
       "a recurrent layer with one gate and a linear readout",
       {3, 8, 1},
       make<OneLayer<nn::MiniGRU>>},
      {"mini_lstm",
       "a recurrent layer with two gates, linear in its memory, and a linear readout",
       {3, 8, 1},
       make<OneLayer<nn::MiniLSTM>>},
      {"minimal_rnn",
       "a recurrent layer with one gate over what it takes in, and a linear readout",
       {3, 8, 1},
       make<OneLayer<nn::MinimalRNNCell>>},
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
      {"urlstm",
       "a layer with a memory cell and refined gates, and a linear readout",
       {3, 8, 1},
       make<OneLayer<nn::URLSTMCell>>},
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
