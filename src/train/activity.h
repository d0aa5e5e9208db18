// How often the spiking neurons of a model fire: a layer that is silent or fires in every step learns
// nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "etrace/module.h"
#include "etrace/tasks.h"
#include "learn/run/score_run.h"

#pragma GCC visibility push(default)
namespace etrace::train {

struct LayerActivity {
  std::string layer;            // the module's path; "model" for the model itself
  std::int64_t units = 0;       // positions of the layer
  double rate = 0.0;            // spikes per step of a unit, on average
  std::int64_t silent = 0;      // units that never fire
  std::int64_t saturated = 0;   // units that fire in nine of ten steps or more
  std::vector<double> rates{};  // of each unit

  bool is_silent() const { return 2 * silent > units; }
  bool is_saturated() const { return 2 * saturated > units; }
};

// What the units of a layer, or the numbers of a hidden state, did in one sample after the other.
struct SeenActivity {
  std::string name;                         // "rnn/h", or the path of spiking neurons
  bool spikes = false;                      // values are 0 or 1
  std::int64_t units = 0, steps = 0;        // of each sample
  std::vector<std::vector<float>> samples;  // [unit, step], row by row
};

// The same lines for people: a line for each layer, and what to do about those that are silent or saturated.
std::string activity_text(const std::vector<LayerActivity>&);
std::string activity_advice(const std::vector<LayerActivity>&);  // empty: all is well

// Counts the spikes of every nn::Neuron of a model over batches of a task. Made while the states have their
// initial values; sequences start from them. The module must outlive it.
class ActivityWatch {
 public:
  ActivityWatch(const std::shared_ptr<Module>&, const Arrays& example, const std::string& backend);
  ~ActivityWatch();

  bool has_neurons() const;
  std::vector<LayerActivity> operator()(const TaskBatch&);
  // Of the first samples of a batch: spikes of neurons, and hidden states of what is not in neurons.
  // Made for this call, from the states that the module has at the moment.
  std::vector<SeenActivity> seen(const TaskBatch&, std::int64_t samples) const;

 private:
  struct Watched;
  std::unique_ptr<ScoreRun> run_of(Watched&) const;

  std::shared_ptr<Module> module_;
  Arrays example_;
  std::string backend_;
  std::shared_ptr<Watched> watched_;
  std::unique_ptr<ScoreRun> run_;
};

}  // namespace etrace::train
#pragma GCC visibility pop
