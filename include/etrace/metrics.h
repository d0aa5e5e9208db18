// Metrics that add up over batches. A metric is three pure functions of arrays, so it runs at once or becomes
// part of a program: a scan over a sequence, the step function of a learner.
//
//   const Metric accuracy = metrics::accuracy();
//   Arrays sums = accuracy.start();
//   sums = accuracy.update(sums, logits, labels);            // as often as there are batches
//   const double score = accuracy.value(sums).item<double>();
//
// Every metric is a mean over all entries of all batches (entries of `weight` zero do not count), whatever
// the sizes of the batches. Sums are f64. ValueError where shapes disagree, and for a label that names no
// class (not where its weight is zero).
#pragma once

#include <functional>
#include <string>

#include "etrace/array.h"

#pragma GCC visibility push(default)
namespace etrace {

class Metric {
 public:
  using Update = std::function<Arrays(ArraySpan sums, const Array& prediction, const Array& target,
                                      const Array& weight)>;
  using Value = std::function<Array(ArraySpan sums)>;
  Metric(std::string name, Arrays start, Update update, Value value)
      : name_(std::move(name)),
        start_(std::move(start)),
        update_(std::move(update)),
        value_(std::move(value)) {}

  const std::string& name() const { return name_; }
  const Arrays& start() const { return start_; }
  // ValueError for a wrong number of sums. An undefined weight counts everything once.
  Arrays update(ArraySpan sums, const Array& prediction, const Array& target = {},
                const Array& weight = {}) const;
  Array value(ArraySpan sums) const;  // NaN if nothing was counted
  Array of(const Array& prediction, const Array& target = {}, const Array& weight = {}) const;  // one batch

 private:
  std::string name_;
  Arrays start_;
  Update update_;
  Value value_;
};

namespace metrics {

// Scores of classes: predictions […, classes], targets whole numbers […], weights […].
Metric accuracy();                       // the largest score is that of the target
Metric top_k(std::int64_t k);            // fewer than k scores are larger
Metric confusion(std::int64_t classes);  // counts [classes, classes]: row the target, column the prediction
enum class Averaged : std::uint8_t {
  Macro,     // the mean over classes that occur
  Micro,     // all classes together: the accuracy
  Weighted,  // by how often a class is the target
  PerClass,  // [classes]
};
Metric f1(std::int64_t classes, Averaged = Averaged::Macro);         // 2·P·R/(P + R)
Metric precision(std::int64_t classes, Averaged = Averaged::Macro);  // P: share of predictions that are right
Metric recall(std::int64_t classes, Averaged = Averaged::Macro);     // R: share of targets that are found
Metric perplexity();                                                 // e^(mean cross-entropy)

// Numbers: predictions, targets and weights of one shape.
Metric mean_squared_error();
Metric r2();  // 1 − Σ(t − p)²/Σ(t − mean t)²

// Of one array, without targets; weights of its shape.
Metric average();
Metric firing_rate(double dt = 1.0);  // spikes per second; dt in ms
Metric sparsity();                    // the share of zeros

}  // namespace metrics
}  // namespace etrace
#pragma GCC visibility pop
