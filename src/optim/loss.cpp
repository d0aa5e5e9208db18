// Losses and their table.
#include "etrace/loss.h"

#include <fmt/format.h>

#include <array>

#include "base/nearest.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "ops/class_label.h"
#include "optim/check.h"

namespace etrace::loss {

namespace {

void require_prediction(std::string_view loss, const Array& prediction, const Array& target) {
  if (!prediction.defined() || !target.defined())
    throw TypeError(std::string(loss), "the prediction or the target is undefined; give both");
  if (prediction.dtype() != Dtype::F32 && prediction.dtype() != Dtype::F64)
    throw TypeError(std::string(loss), "the prediction is " + to_string(prediction.aval()) + " (target " +
                                           to_string(target.aval()) + "); expected f32 or f64, convert() it");
  if (prediction.size() == 0)
    throw ValueError(std::string(loss), "a prediction of type " + to_string(prediction.aval()) +
                                            " has no element to average over");
}

[[noreturn]] void refuse_shapes(std::string_view loss, const Array& prediction, const Array& target,
                                std::string_view expected) {
  throw ValueError(std::string(loss),
                   fmt::format("a prediction of type {} against a target of type {}; {}",
                               to_string(prediction.aval()), to_string(target.aval()), expected));
}

// The target in the type of the prediction; both have one shape.
Array matching_target(std::string_view loss, const Array& prediction, const Array& target) {
  require_prediction(loss, prediction, target);
  if (prediction.shape() != target.shape())
    refuse_shapes(loss, prediction, target, "both must have the same shape, nothing is broadcast");
  return convert(target, prediction.dtype());
}

void require_last_axis(std::string_view loss, const Array& prediction, const Array& target,
                       std::string_view holds) {
  if (prediction.rank() == 0)
    refuse_shapes(loss, prediction, target, fmt::format("expected a last axis that holds the {}", holds));
}

// Weights of the classes, in the shape and type of the logits.
Array class_weights(const Array& logits, const Array& labels) {
  if (is_floating(labels.dtype())) {
    if (labels.shape() == logits.shape().without(logits.rank() - 1))
      refuse_shapes("cross_entropy", logits, labels,
                    "labels are whole numbers (convert() them to i32); floating targets are weights of the "
                    "classes, in the shape of the logits");
    return matching_target("cross_entropy", logits, labels);
  }
  if (!is_integer(labels.dtype()))
    throw TypeError("cross_entropy", "labels of type " + to_string(labels.aval()) + " for logits of type " +
                                         to_string(logits.aval()) +
                                         "; expected whole numbers, or floating weights of the classes");
  if (labels.shape() != logits.shape().without(logits.rank() - 1))
    refuse_shapes("cross_entropy", logits, labels,
                  "whole-number labels have the shape of the logits without their last axis (convert() "
                  "one-hot integers to a floating type)");
  const std::int64_t classes = logits.dim(-1);
  return one_hot(class_labels("cross_entropy", labels, classes), classes, logits.dtype());
}

// 1/|x| over the last axis; 1 for a vector of length zero, where the root has no derivative.
Array inverse_norm(const Array& x) {
  const Array squares = sum(square(x), {-1});
  return rsqrt(where(squares > 0.0, squares, ones_like(squares)));
}

}  // namespace

Array mse(const Array& prediction, const Array& target) {
  return mean(square(prediction - matching_target("mse", prediction, target)));
}

Array cross_entropy(const Array& logits, const Array& labels) {
  require_prediction("cross_entropy", logits, labels);
  require_last_axis("cross_entropy", logits, labels, "classes");
  const Array weights = class_weights(logits, labels);
  // A class of weight 0 adds nothing even if its logit is −∞ (a class that is ruled out).
  const Array weighted = weights * log_softmax(logits);
  return -mean(sum(where(equal_to(weights, 0.0), zeros_like(weighted), weighted), {-1}));
}

Array binary_cross_entropy(const Array& logits, const Array& targets) {
  const Array t = matching_target("binary_cross_entropy", logits, targets);
  return mean(softplus(logits) - t * logits);
}

Array cosine(const Array& prediction, const Array& target) {
  const Array t = matching_target("cosine", prediction, target);
  require_last_axis("cosine", prediction, target, "components");
  const Array similarity = sum(prediction * t, {-1}) * inverse_norm(prediction) * inverse_norm(t);
  return mean(1.0 - similarity);
}

Array huber(const Array& prediction, const Array& target, double delta) {
  optim::require_positive("huber", "delta", delta);
  const Array error = abs(prediction - matching_target("huber", prediction, target));
  const Array inner = minimum(error, delta);  // both branches are inner·(|e| − inner/2)
  return mean(inner * (error - 0.5 * inner));
}

// The table -------------------------------------------------------------------------------------------------
namespace {
constexpr std::array<Entry, 5> kLosses{{
    {"binary_cross_entropy", "independent yes/no targets in [0, 1], from logits", binary_cross_entropy},
    {"cosine", "one minus the cosine similarity over the last axis", cosine},
    {"cross_entropy", "one class out of several, from logits; labels or class weights", cross_entropy},
    {"huber", "quadratic up to an error of 1, linear beyond",
     [](const Array& prediction, const Array& target) { return huber(prediction, target); }},
    {"mse", "mean squared error", mse},
}};
}  // namespace

std::span<const Entry> all() { return kLosses; }

const Entry& find(std::string_view name) {
  for (const Entry& entry : kLosses)
    if (entry.name == name) return entry;
  throw ValueError("loss", no_such_name("loss", name, row_names(kLosses)));
}

}  // namespace etrace::loss
