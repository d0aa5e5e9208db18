// y(t) = x(t − d), zeros before the first step; d is the same for all, or one per entry
#pragma once

#include "etrace/etp.h"
#include "etrace/nn/constant.h"
#include "etrace/nn/init.h"
#include "etrace/nn/weight_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// What came in during the last `length` steps, in a ring: state `ring` [length, size] and `next`, the place
// of the oldest entry. Delays are numbers of steps. No state is a hidden one: online rules carry no credit
// through a delay, windows with reverse mode inside do.
class DelayLine : public Module {
 public:
  DelayLine(const Shape& size, std::int64_t length, Dtype);
  void push(const Array& x);             // x becomes the newest entry
  Array read(const Dims& delays) const;  // [batch, delays, size]: 0 is the newest entry
  const Shape& size() const { return size_; }
  std::int64_t length() const { return length_; }

  ShortTermState &ring, &next;

 private:
  bool batched() const { return ring.avals()[0].shape.rank() == size_.rank() + 2; }
  Shape size_;
  std::int64_t length_;
};

struct DelayOptions {
  Time dt = 1.0;
  Dtype dtype = Dtype::F32;
};

// The delay must be a whole number of steps (ValueError).
class Delay : public Dynamics {
 public:
  Delay(const Size&, const Time& delay, const DelayOptions& = {});
  Array update(const Array& x) override;

 private:
  Dims steps_;                 // the different delays, ascending
  Array choice_;               // one per entry: which of them; undefined: all the first
  DelayLine* line_ = nullptr;  // null: no delay at all
};

struct DelayedLinearOptions {
  Time dt = 1.0;
  Initializer weight_init =
      {};                      // of the stored weights [nnz]; empty: normal, variance 2/mean number of inputs
  Initializer bias_init = {};  // empty: no bias
  Unit unit = {};              // of the weights
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
};

// y_j(t) = Σ_i w_ij·x_i(t − d_ij) + b_j: a delay per synapse. `delays` has one entry per entry of the
// pattern. One parameter `weight` with the leaves bias [out] and weight [nnz], in the pattern's order.
class DelayedLinear : public WeightLayer {
 public:
  DelayedLinear(const SparsePattern&, const Time& delays, const DelayedLinearOptions& = {});
  Array update(const Array& x) override;

  ParamState& weight;

 private:
  Dims steps_;             // the different delays, ascending
  SparsePattern pattern_;  // from [delays·in] to [out]
  std::int64_t in_size_;
  DelayLine& line_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
