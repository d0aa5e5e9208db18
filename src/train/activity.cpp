// The model with the spikes of its neurons as further results; see the header.
#include "train/activity.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "etrace/nn/neuron.h"
#include "etrace/ops/numpy.h"

namespace etrace::train {

namespace {

struct WatchedLayer {
  std::string path;
  const nn::Neuron* neurons;
};
struct WatchedState {
  std::string path;  // with the leaf's key
  const State* state;
  std::size_t leaf;
};

void find_neurons(const Module& module, const std::string& path, std::vector<WatchedLayer>& out) {
  if (const auto* neurons = dynamic_cast<const nn::Neuron*>(&module)) {
    const bool known =
        std::any_of(out.begin(), out.end(), [&](const auto& l) { return l.neurons == neurons; });
    if (!known) out.push_back({path.empty() ? "model" : path, neurons});
  }
  for (const Module::Member& m : module.members()) {
    if (m.module == nullptr) continue;
    const std::string name = to_string(StatePath{m.name});
    find_neurons(*m.module, path.empty() ? name : path + "/" + name, out);
  }
}

// Those of neurons are left out: their spikes say more.
void find_states(const Module& module, const std::string& path, std::vector<WatchedState>& out) {
  if (dynamic_cast<const nn::Neuron*>(&module) != nullptr) return;
  for (const Module::Member& m : module.members()) {
    const std::string name = to_string(StatePath{m.name}), here = path.empty() ? name : path + "/" + name;
    if (m.module) find_states(*m.module, here, out);
    if (!m.state || !is_a(m.state->kind(), StateKind::Hidden)) continue;
    const auto& keys = m.state->leaf_keys();
    for (std::size_t i = 0; i < m.state->avals().size(); ++i)
      out.push_back({keys.empty() ? here : here + "." + keys[i], m.state.get(), i});
  }
}

LayerActivity activity_of(const std::string& layer, const Tensor& spikes, std::int64_t batch,
                          std::int64_t counted) {
  // [steps, batch, positions…], of which the samples that fill up the last batch do not count.
  const Shape& shape = spikes.aval().shape;
  const std::vector<double> s = spikes.to_doubles();
  const std::int64_t steps = shape[0], units = steps == 0 ? 0 : shape.size() / (steps * batch);
  LayerActivity out{.layer = layer, .units = units};
  out.rates.assign(static_cast<std::size_t>(units), 0.0);
  for (std::int64_t t = 0; t < steps; ++t)
    for (std::int64_t b = 0; b < counted; ++b)
      for (std::int64_t u = 0; u < units; ++u)
        out.rates[static_cast<std::size_t>(u)] += s[static_cast<std::size_t>((t * batch + b) * units + u)];
  constexpr double kSaturated = 0.9;
  for (double& r : out.rates) {
    r /= static_cast<double>(steps * counted);
    out.rate += r / static_cast<double>(units);
    out.silent += r == 0.0;
    out.saturated += r >= kSaturated;
  }
  return out;
}

}  // namespace

// The model, and beside its output what is watched.
struct ActivityWatch::Watched : Module {
  explicit Watched(Module& inner) : model(share("model", inner)) { find_neurons(inner, "", layers); }
  Arrays update_all(ArraySpan x) override {
    Arrays out = model(x);
    out.resize(1);
    for (const WatchedLayer& l : layers) out.push_back(l.neurons->spikes());
    for (const WatchedState& s : states) out.push_back(s.state->leaves()[s.leaf]);
    return out;
  }
  Module& model;
  std::vector<WatchedLayer> layers;
  std::vector<WatchedState> states;
};

ActivityWatch::ActivityWatch(const std::shared_ptr<Module>& module, const Arrays& example,
                             const std::string& backend)
    : module_(module), example_(example), backend_(backend), watched_(std::make_shared<Watched>(*module)) {
  if (has_neurons()) run_ = run_of(*watched_);
}

// Forward, with what is watched as further results of each step.
std::unique_ptr<ScoreRun> ActivityWatch::run_of(Watched& watched) const {
  const StepFunction step = [](StepCall& model, ArraySpan slices) {
    const Arrays out = model({slices[0]});
    return LossAndAux{sum(out[0]) * 0.0, Arrays(out.begin() + 1, out.end())};
  };
  const Model traced = trace_step(watched, example_, "activity").model;
  auto run = std::make_unique<ScoreRun>(traced, step, Avals{example_[0].aval()}, backend_);
  run->follow(watched);
  return run;
}

ActivityWatch::~ActivityWatch() = default;

bool ActivityWatch::has_neurons() const { return !watched_->layers.empty(); }

std::vector<LayerActivity> ActivityWatch::operator()(const TaskBatch& batch) {
  std::vector<LayerActivity> out;
  if (!has_neurons()) return out;
  const ScoreRun::Scores seen = (*run_)(Arrays{batch.inputs});
  const std::int64_t samples = batch.inputs.dim(1);
  for (std::size_t i = 0; i < seen.aux.size(); ++i)
    out.push_back(
        activity_of(watched_->layers[i].path, seen.aux[i], samples, batch.samples.value_or(samples)));
  return out;
}

std::vector<SeenActivity> ActivityWatch::seen(const TaskBatch& batch, std::int64_t samples) const {
  Watched watched(*module_);
  find_states(*module_, "", watched.states);
  const Tensors values = (*run_of(watched))(Arrays{batch.inputs}).aux;
  const std::int64_t size = batch.inputs.dim(1), shown = std::min(samples, batch.samples.value_or(size));
  std::vector<SeenActivity> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool spikes = i < watched.layers.size();
    const Shape& shape = values[i].aval().shape;         // [steps, batch, positions…]
    if (shape.rank() < 2 || shape[1] != size) continue;  // it is of no sample alone
    SeenActivity s{.name = spikes ? watched.layers[i].path : watched.states[i - watched.layers.size()].path,
                   .spikes = spikes,
                   .units = shape[0] == 0 ? 0 : shape.size() / (shape[0] * size),
                   .steps = shape[0]};
    const std::vector<double> numbers = values[i].to_doubles();
    for (std::int64_t b = 0; b < shown; ++b) {
      std::vector<float> sample;
      for (std::int64_t u = 0; u < s.units; ++u)
        for (std::int64_t t = 0; t < s.steps; ++t)
          sample.push_back(
              static_cast<float>(numbers[static_cast<std::size_t>((t * size + b) * s.units + u)]));
      s.samples.push_back(std::move(sample));
    }
    out.push_back(std::move(s));
  }
  return out;
}

std::string activity_text(const std::vector<LayerActivity>& layers) {
  std::string text;
  for (const LayerActivity& l : layers)
    text += fmt::format("  spikes of {}: {:.3f} per step and unit, {} of {} units silent, {} saturated\n",
                        l.layer, l.rate, l.silent, l.units, l.saturated);
  return text;
}

std::string activity_advice(const std::vector<LayerActivity>& layers) {
  std::string text;
  for (const LayerActivity& l : layers) {
    if (l.is_silent())
      text += fmt::format(
          "{} of {} units of {} never fire, and what never fires teaches nothing: give the layer stronger "
          "input "
          "(a larger rate or gain), a lower threshold, or a surrogate that is wide enough to reach it\n",
          l.silent, l.units, l.layer);
    if (l.is_saturated())
      text += fmt::format(
          "{} of {} units of {} fire in nearly every step, and so say nothing: give the layer weaker input "
          "(a "
          "smaller rate or gain), a higher threshold, or stronger adaptation\n",
          l.saturated, l.units, l.layer);
  }
  return text;
}

}  // namespace etrace::train
