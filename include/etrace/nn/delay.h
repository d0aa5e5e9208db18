// y(t) = x(t − d), zeros before the first step; d is the same for all, or one per entry
#pragma once

#include "etrace/etp.h"
#include "etrace/nn/constant.h"
#include "etrace/nn/init.h"
#include "etrace/nn/weight_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// What a delay keeps of the past.
enum class DelayMemory : std::uint8_t {
  // One ring: states `ring` [longest delay + 1, size] and `next`, the place of the oldest entry, which every
  // sample has its own. A step writes one entry and reads one, whatever the delay; gradients of windows still
  // grow with the ring. No state is a hidden one: online rules carry no credit through the delay, windows
  // with
  // reverse mode inside do.
  Ring,
  // Hidden states past_1, past_2 … [size], one per step of the longest delay, which pass on their values.
  // Online rules carry credit through the delay, exactly where the transition of what is delayed keeps
  // positions apart; a trace of weights before the delay holds that many states more per position.
  Hidden,
};

// What came in during the last steps. Delays are numbers of steps, up to `longest`.
class DelayLine : public Module {
 public:
  DelayLine(const Shape& size, std::int64_t longest, DelayMemory, Dtype);
  // Takes x in and gives what came each of these numbers of steps ago; 0: x itself.
  Arrays through(const Array& x, const Dims& delays);
  const Shape& size() const { return size_; }
  std::int64_t longest() const { return longest_; }

 private:
  Arrays through_ring(const Array& x, const Dims& delays);
  Arrays through_states(const Array& x, const Dims& delays);
  bool batched() const;
  Shape size_;
  std::int64_t longest_;
  ShortTermState *ring_ = nullptr, *next_ = nullptr;  // null with DelayMemory::Hidden
  std::vector<HiddenState*> past_;                    // past_1 …; empty with DelayMemory::Ring
};

struct DelayOptions {
  Time dt = 1.0;
  DelayMemory memory = DelayMemory::Ring;
  Unit unit = {};  // of x, if it has one
  Dtype dtype = Dtype::F32;
};

// The delay must be a whole number of steps (ValueError).
class Delay : public LinearDynamics {
 public:
  using Options = DelayOptions;
  Delay(const Size&, const Time& delay, const DelayOptions& = {});
  Array update(const Array& x) override;

 private:
  Dims steps_;                 // the different delays, ascending
  Array choice_;               // one per entry: which of them; undefined: all the first
  DelayLine* line_ = nullptr;  // null: no delay at all
};

struct DelayedLinearOptions {
  Time dt = 1.0;
  DelayMemory memory = DelayMemory::Ring;
  Initializer weight_init =
      {};                      // of the stored weights [nnz]; empty: normal, variance 2/mean number of inputs
  Initializer bias_init = {};  // empty: no bias
  Unit unit = {};              // of the weights
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
};

// y_j(t) = Σ_i w_ij·x_i(t − d_ij) + b_j: a delay per synapse. `delays` has one entry per entry of the
// pattern. The weights come after the delay, so their own credit is that of a Linear, whatever keeps the
// past; DelayMemory::Hidden is for credit of what x comes from; x are numbers, as spikes are. One parameter
// `weight` with the leaves bias [out] and weight [nnz], in the pattern's order.
class DelayedLinear : public WeightLayer {
 public:
  using Options = DelayedLinearOptions;
  using Module::operator();
  Quantity operator()(const Quantity& x) { return {Module::operator()(x.decimal()), weight_unit()}; }
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
