// Losses: a prediction and a target in, one number out. Written in Array operations, so they run at once or
// become part of the program that is being recorded, and can be differentiated.
//
// Every loss is a mean over all axes, the batch included (cross_entropy and cosine: over all but the last,
// which holds the classes or components). It has the element type of the prediction, to which the target is
// converted.
//
// Errors: TypeError if the prediction is not f32 or f64; ValueError if the shapes disagree (nothing
// broadcasts: a forgotten axis would otherwise go unnoticed) or if there is nothing to average.
#pragma once

#include <span>
#include <string_view>

#include "etrace/array.h"

#pragma GCC visibility push(default)
namespace etrace::loss {

Array mse(const Array& prediction, const Array& target);  // mean of (p − t)²

// −Σ_c target_c · log softmax(logits)_c over the last axis. Labels are whole numbers of the shape of the
// logits without their last axis, or floating weights of the classes (one-hot, a distribution) of the
// logits' shape. ValueError for a label that names no class. Learners look at the labels of what they are
// given before it runs; in any other recorded program such a label counts as a sample without loss.
Array cross_entropy(const Array& logits, const Array& labels);

// −t·log σ(x) − (1 − t)·log(1 − σ(x)) as softplus(x) − t·x, which never overflows. Targets in [0, 1].
Array binary_cross_entropy(const Array& logits, const Array& targets);

// 1 − ⟨p, t⟩ / (|p|·|t|) over the last axis. A vector of length zero counts as orthogonal to everything; its
// derivative is finite (towards the other vector, with length one), so that learning can leave that point.
Array cosine(const Array& prediction, const Array& target);

// e²/2 where |e| ≤ delta, else delta·(|e| − delta/2), with e = p − t. ValueError unless delta > 0.
Array huber(const Array& prediction, const Array& target, double delta = 1.0);

// By name, for command lines.
struct Entry {
  std::string_view name, doc;
  Array (*function)(const Array& prediction, const Array& target);
};
std::span<const Entry> all();              // names ascending
const Entry& find(std::string_view name);  // ValueError lists the names

}  // namespace etrace::loss
#pragma GCC visibility pop
