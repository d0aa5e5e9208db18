#include "etrace/metrics.h"

#include <limits>

#include "etrace/ops/numpy.h"
#include "nn/check.h"
#include "ops/class_label.h"

namespace etrace {

Arrays Metric::update(ArraySpan sums, const Array& prediction, const Array& target,
                      const Array& weight) const {
  if (sums.size() != start_.size())
    throw ValueError("metrics", name_ + " was given " + std::to_string(sums.size()) + " sums; it has " +
                                    std::to_string(start_.size()) + ", begin with start()");
  return update_(sums, prediction, target, weight);
}

Array Metric::value(ArraySpan sums) const {
  if (sums.size() != start_.size())
    throw ValueError("metrics", name_ + " was given " + std::to_string(sums.size()) + " sums; it has " +
                                    std::to_string(start_.size()) + ", begin with start()");
  return value_(sums);
}

Array Metric::of(const Array& prediction, const Array& target, const Array& weight) const {
  return value(update(start_, prediction, target, weight));
}

namespace metrics {

namespace {

// Weights of that shape in f64; ones where none are given.
Array weights_of(const std::string& who, const Array& weight, const Shape& shape) {
  if (!weight.defined()) return full(shape, 1.0, Dtype::F64);
  if (weight.shape() != shape)
    throw ValueError("metrics", who + " was given weights of type " + to_string(weight.aval()) +
                                    " for entries of shape " + to_string(shape));
  return convert(weight, Dtype::F64);
}

Array quotient(const Array& a, const Array& b) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Array none = equal_to(b, 0.0);
  return where(none, full_like(a, nan), a / where(none, full_like(b, 1.0), b));
}

// Σ w·x and Σ w of some function of the batch.
using Entries = std::function<Array(const Array& prediction, const Array& target)>;
Metric mean_of(const std::string& name, const Entries& entries,
               const std::function<Array(const Array&)>& finish = {}) {
  const Array zero = full({}, 0.0, Dtype::F64);
  return {name,
          {zero, zero},
          [=](ArraySpan sums, const Array& prediction, const Array& target, const Array& weight) {
            const Array x = entries(prediction, target), w = weights_of(name, weight, x.shape());
            return Arrays{sums[0] + sum(convert(x, Dtype::F64) * w), sums[1] + sum(w)};
          },
          [=](ArraySpan sums) {
            const Array m = quotient(sums[0], sums[1]);
            return finish ? finish(m) : m;
          }};
}

// The labels, which name one of the scores where their weight is not zero.
Array checked_labels(const std::string& who, const Array& scores, const Array& labels, const Array& weight) {
  const bool fits = scores.rank() > 0 && labels.defined() && is_integer(labels.dtype()) &&
                    scores.shape().without(scores.rank() - 1) == labels.shape();
  if (!fits)
    throw ValueError("metrics", who + " was given scores " + to_string(scores.aval()) + " and targets " +
                                    (labels.defined() ? to_string(labels.aval()) : std::string("none")) +
                                    "; expected […, classes] and whole numbers […]");
  const Array counts = weight.defined() ? weights_of(who, weight, labels.shape()) : weight;
  return class_labels("metrics", labels, scores.shape().back(), counts);
}

// The same of scores and labels.
Metric mean_of_labels(const std::string& name, const Entries& entries,
                      const std::function<Array(const Array&)>& finish = {}) {
  const Metric mean = mean_of(name, entries, finish);
  return {name, mean.start(),
          [=](ArraySpan sums, const Array& scores, const Array& labels, const Array& weight) {
            return mean.update(sums, scores, checked_labels(name, scores, labels, weight), weight);
          },
          [=](ArraySpan sums) { return mean.value(sums); }};
}

void require_pair(const std::string& who, const Array& prediction, const Array& target) {
  if (!target.defined() || prediction.shape() != target.shape())
    throw ValueError("metrics", who + " was given predictions " + to_string(prediction.aval()) +
                                    " and targets " +
                                    (target.defined() ? to_string(target.aval()) : std::string("none")) +
                                    "; expected the same shape");
}

// The entry of the last axis that the label names; 0 where it names none.
Array picked(const Array& scores, const Array& labels) {
  const Array one = one_hot(labels, scores.shape().back(), scores.dtype());
  return sum(where(greater(one, 0.5), scores, full_like(scores, 0.0)), {-1});
}

Array is_class(const Array& labels, const Array& scores) {
  return logical_and(greater_equal(labels, 0), less(labels, static_cast<int>(scores.shape().back())));
}

Metric of_confusion(const std::string& name, std::int64_t classes,
                    const std::function<Array(const Array&)>& finish) {
  if (classes < 1) throw ValueError("metrics", name + " of " + std::to_string(classes) + " classes");
  return {name,
          {full({classes, classes}, 0.0, Dtype::F64)},
          [=](ArraySpan sums, const Array& scores, const Array& given, const Array& weight) {
            const Array labels = checked_labels(name, scores, given, weight);
            if (scores.shape().back() != classes)
              throw ValueError("metrics", name + " of " + std::to_string(classes) +
                                              " classes was given scores " + to_string(scores.aval()));
            const Array w = reshape(weights_of(name, weight, labels.shape()), {-1, 1});
            const Array truth = reshape(one_hot(labels, classes, Dtype::F64), {-1, classes});
            const Array said = reshape(one_hot(argmax(scores), classes, Dtype::F64), {-1, classes});
            return Arrays{sums[0] + matmul_plain(transpose(truth * w), said)};
          },
          [=](ArraySpan sums) { return finish(sums[0]); }};
}

// Of counts per class: found and right, said, there.
using PerClass = std::function<Array(const Array& right, const Array& said, const Array& there)>;
Metric class_score(const std::string& name, std::int64_t classes, Averaged how, const PerClass& score) {
  return of_confusion(name, classes, [=](const Array& counts) {
    const Array right = diag(counts), said = sum(counts, {0}), there = sum(counts, {1});
    if (how == Averaged::Micro) return score(sum(right), sum(said), sum(there));
    const Array each = score(right, said, there);
    if (how == Averaged::PerClass) return each;
    const Array occurs = greater(said + there, 0.0);
    const Array weight = how == Averaged::Weighted ? there : convert(occurs, Dtype::F64);
    return quotient(sum(where(occurs, each * weight, full_like(each, 0.0))), sum(weight));
  });
}

// a/b, and 0 where a class is never said or never there.
Array share(const Array& a, const Array& b) {
  const Array none = equal_to(b, 0.0);
  return where(none, full_like(a, 0.0), a / where(none, full_like(b, 1.0), b));
}

}  // namespace

Metric accuracy() {
  return mean_of_labels("accuracy", [](const Array& scores, const Array& labels) {
    return equal_to(argmax(scores), convert(labels, Dtype::I32));
  });
}

Metric top_k(std::int64_t k) {
  if (k < 1) throw ValueError("metrics", "top_k with k = " + std::to_string(k) + "; expected at least 1");
  return mean_of_labels("top_k", [=](const Array& scores, const Array& labels) {
    const Array own = expand_dims(picked(scores, labels), {static_cast<std::int64_t>(labels.rank())});
    const Array larger = sum(convert(greater(scores, broadcast_to(own, scores.shape())), Dtype::I32), {-1});
    return logical_and(less(larger, static_cast<int>(k)), is_class(labels, scores));
  });
}

Metric confusion(std::int64_t classes) {
  return of_confusion("confusion", classes, [](const Array& counts) { return counts; });
}

Metric f1(std::int64_t classes, Averaged how) {
  return class_score("f1", classes, how, [](const Array& right, const Array& said, const Array& there) {
    return share(2.0 * right, said + there);
  });
}
Metric precision(std::int64_t classes, Averaged how) {
  return class_score("precision", classes, how,
                     [](const Array& right, const Array& said, const Array&) { return share(right, said); });
}
Metric recall(std::int64_t classes, Averaged how) {
  return class_score("recall", classes, how, [](const Array& right, const Array&, const Array& there) {
    return share(right, there);
  });
}

Metric perplexity() {
  return mean_of_labels(
      "perplexity",
      [](const Array& scores, const Array& labels) {
        return -picked(log_softmax(convert(scores, Dtype::F64)), labels);
      },
      [](const Array& m) { return exp(m); });
}

Metric mean_squared_error() {
  return mean_of("mean_squared_error", [](const Array& p, const Array& t) {
    require_pair("mean_squared_error", p, t);
    return square(convert(p, Dtype::F64) - convert(t, Dtype::F64));
  });
}

// Targets are taken relative to the first batch's mean, so that the sum of squares does not cancel.
Metric r2() {
  const Array zero = full({}, 0.0, Dtype::F64);
  return {"r2",
          {zero, zero, zero, zero, zero},  // Σw, Σw·d, Σw·d², Σw·(t − p)²; d = t − shift; shift
          [](ArraySpan s, const Array& prediction, const Array& target, const Array& weight) {
            require_pair("r2", prediction, target);
            const Array p = convert(prediction, Dtype::F64), t = convert(target, Dtype::F64);
            const Array w = weights_of("r2", weight, t.shape());
            const Array shift = where(equal_to(s[0], 0.0), mean(t), s[4]);
            const Array d = t - shift;
            return Arrays{s[0] + sum(w), s[1] + sum(w * d), s[2] + sum(w * square(d)),
                          s[3] + sum(w * square(t - p)), shift};
          },
          [](ArraySpan s) {
            const Array spread = s[2] - square(s[1]) / where(equal_to(s[0], 0.0), full_like(s[0], 1.0), s[0]);
            return 1.0 - quotient(s[3], spread);
          }};
}

Metric average() {
  return mean_of("average", [](const Array& x, const Array&) { return x; });
}

Metric firing_rate(double dt) {
  if (!(dt > 0.0)) throw ValueError("metrics", "firing_rate with dt = " + std::to_string(dt) + " ms");
  return mean_of(
      "firing_rate", [](const Array& spikes, const Array&) { return spikes; },
      [=](const Array& m) { return m * (1000.0 / dt); });
}

Metric sparsity() {
  return mean_of("sparsity", [](const Array& x, const Array&) { return equal_to(x, zeros_like(x)); });
}

}  // namespace metrics
}  // namespace etrace
