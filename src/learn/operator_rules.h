// What the traces need of an operator, derived from its forward function and its anchor map.
#pragma once

#include "etrace/etp.h"
#include "etrace/learning.h"

namespace etrace {

// One trainable operand of one relation, seen from one hidden group.
class TraceSlots {
 public:
  TraceSlots(const HiddenParamOpRelation&, const TrainableSource&, const HiddenGroup&, Compat);

  Aval trace_aval() const;  // ([B], slots…, M)
  // ∂h/∂θ of this step alone: slots of the operand, given ∂h/∂y.
  Array instant(ArraySpan operands, const Array& df) const;
  // Σ_b D[anchor, a, b]·e[slot, b]
  Array recurrent(const Array& jacobian, const Array& trace) const;
  // Gradient of the operand: Σ over batch, positions and states of signal·trace.
  Array solve(ArraySpan operands, const Array& signal, const Array& trace) const;
  // Gradient of the operand when y has cotangent ct and the data input is x (factorised rule).
  Array pull(ArraySpan operands, const Array& x, const Array& ct) const;

 private:
  void drop_positions();
  bool has_batch() const { return batch_ > 0; }
  Array to_slots(const Array& per_position) const;  // [y…, k…] -> [slots…, k…], one sample
  Array sample_vjp(ArraySpan operands, const Array& ct) const;      // one sample: slots without position axes
  Array sample_instant(ArraySpan operands, const Array& df) const;  // one sample: [slots…, M]

  const HiddenParamOpRelation* relation_;
  std::size_t operand_;
  AnchorMap anchors_;
  Shape sample_y_;
  std::int64_t batch_ = 0;   // 0: no batch axis
  bool batched_op_ = false;  // operands carry the batch axis, too
  std::int64_t width_ = 1;   // M
  bool effective_ = false;   // slots of an effective weight
  std::vector<int> summed_;  // axes of y that the reference sums before it uses the anchors (compat only)
};

}  // namespace etrace
