// What `etrace bench` measures: a gradient per step of a workload, by one rule, form, engine and number of
// threads. bench.cpp chooses and prints.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/thread_pool.h"

namespace etrace::bench {

// Seconds of one call, the best of several: at least `least` seconds and two calls, after one that is not
// counted.
double best_seconds(const std::function<void()>&, double least);

// Limits of the machine with one number of threads; passes over buffers are measured once per size.
class Limits {
 public:
  explicit Limits(int threads);
  int threads() const { return pool_->size(); }
  double update_seconds(std::size_t bytes);     // one read and one write of the buffer, in place
  double update_bandwidth(), copy_bandwidth();  // bytes per second, read and written, of a large buffer
  double fma_rate();                            // operations per second
  double hand_over(double alone) const;         // seconds, after so many of the caller's own

 private:
  std::unique_ptr<ThreadPool> pool_;
  std::map<std::size_t, double> passes_;
  double fma_ = 0.0;
};

enum class Rule : std::uint8_t { DRtrl, PpProp, MultiStep, Bptt };
enum class ExecutionForm : std::uint8_t { Step, Window };
const char* name(Rule);           // "D_RTRL"
const char* name(ExecutionForm);  // "step"

struct Row {
  std::string work;
  Rule rule = Rule::DRtrl;
  std::int64_t batch = 1;
  ExecutionForm form = ExecutionForm::Window;
  std::string backend = "native";
  int threads = 1;
  std::int64_t units = 0;  // 0: the workload's own
  std::int64_t steps = 0;  // of the sequence; 0: as many as suit the batch
  // Steps at once of online rules in the form `window`; 0: what the learner chooses. multi_step has kWindow.
  std::int64_t window = 0;
};
struct Measured {
  double seconds_per_step = 0.0;
  double limit = 0.0;       // seconds per step that the machine needs at least
  std::int64_t window = 0;  // steps that ran at once
  std::size_t trace_bytes = 0;
  std::size_t grown_bytes = 0;  // by how much the process grew at its largest, data included
};
// Runs on the default pool, which has as many threads as the limits.
Measured measure(const Row&, Limits&, double least_seconds);

// Steps of a window of multi_step and of the part `start`.
inline constexpr std::int64_t kWindow = 32;

// From a model to its first gradient, in seconds: the best of `repeats` learners, of one for `cold`. All
// but `model` begin with a model that has its weights, as bench/peer_*.py do.
struct StartTimes {
  double model = 0.0;  // its weights drawn
  double build = 0.0;  // the learner: graph, plan, empty traces
  double first_step = 0.0,
         first_window = 0.0;  // until the interpreter has the gradient of 1 step, of kWindow
  // Until native code for a window is ready, with an empty cache and with a full one.
  double cold = 0.0, cached = 0.0;
  double cached_window = 0.0;  // until native code from the cache has the gradient of kWindow steps
};
StartTimes start_times(const std::string& work, Rule, std::int64_t batch, int repeats);

// W5 with so many synapses, trained by D_RTRL in windows, native: the largest growth of the process since
// before the model was made, and the time of a step with its share of the update.
struct SparseRow {
  std::int64_t synapses = 1'000'000;
  std::string optimizer = "sgd";  // or "adam"
  bool in_program = true;  // the update inside the program (etrace_train); false: a gradient, then update()
  int threads = 1;
};
struct SparseMeasured {
  std::size_t model_bytes = 0, learner_bytes = 0;  // grown when the model, and the learner, were made
  std::size_t peak_bytes = 0;
  double seconds_per_step = 0.0;
};
SparseMeasured measure_sparse(const SparseRow&);

// One step after the other, called from outside; sorted.
std::vector<double> step_latencies(const std::string& work, Rule, const std::string& backend,
                                   std::int64_t steps);

// The process's memory: its largest since the last reset, and now.
void reset_peak_memory();
std::size_t peak_memory();
std::size_t memory_now();

}  // namespace etrace::bench
