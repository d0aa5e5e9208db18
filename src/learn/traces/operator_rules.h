// What the traces need of an operator, derived from its forward function, its anchor map and its source.
#pragma once

#include "etrace/etp.h"
#include "etrace/learning_rule.h"
#include "etrace/ops/trace_window.h"

namespace etrace {

// NotSupportedError if a group lives inside a loop that is traced inside.
void refuse_inner_loops(const ETraceGraph&, const std::string& rule, const char* why);
// NotSupportedError if the derivative of an operator reads data besides x.
void refuse_further_data(const ETraceGraph&, const std::string& rule, const char* why);

// x of a relation as factorised traces keep it (embedding: the one-hot of the index), and its type.
Array x_trace(const HiddenParamOpRelation&, const Array& x);
Aval x_trace_aval(const HiddenParamOpRelation&);

// One trainable operand of one relation, seen from one hidden group. Inside, a group's values stand as [K, M,
// B, P]: steps, states of a position, samples, positions of one sample of y.
class TraceSlots {
 public:
  // `copies`: of the group's states, where a rule follows a lift of them.
  TraceSlots(const HiddenParamOpRelation&, const TrainableSource&, const HiddenGroup&, Compat,
             std::int64_t copies = 1);

  // [B, M, slots…], and as documents show it, ([B], slots…, M).
  Aval trace_aval(std::optional<Dtype> stored) const;
  Array unpack(const Array& trace) const;
  Array pack(const Array& shown) const;

  // What the derivative of y takes from the data of one step, [J, B, elements]; undefined: nothing. J counts
  // the positions that the reference sums too early (compat only), else 1.
  Array source(ArraySpan operands) const;
  // [K, J, …] of every step; K·J steps of the window.
  TraceWindow window(ArraySpan operands, const Array& sources) const;
  const TracePattern& pattern() const { return pattern_; }

  // A group's values [K, M…, B·P] as the window wants them: split by sample, and the positions of compat
  // summed (for what multiplies) or lined up as steps (for what is injected).
  Array summed(const Array& per_position) const;
  Array lined_up(const Array& per_position) const;
  bool sums_positions() const { return folded_ != 1; }
  // ∂y/∂θ is the step's x and nothing else: no gain, no derivative taken, no effective weight, no other data.
  bool is_product_of_data() const;
  // The trace after one step from nothing: f [M, B·P].
  Array made_of(ArraySpan operands, const Array& f) const;
  bool has_source() const { return !pattern_.source_strides.empty() || !pattern_.source_table.empty(); }

  // From the gradient of the slots to that of the operand.
  Array to_operand(ArraySpan operands, const Array& slot_gradient) const;
  // Gradient of the operand when y has cotangents ct [K, *y] and the data input is x [K, …] (factorised
  // rule).
  Array pull(ArraySpan operands, const Array& x, const Array& ct) const;

 private:
  void fold_positions();
  Array spread(const Array& per_position) const;
  std::vector<std::size_t> data_operands() const;
  Arrays filled(ArraySpan operands) const;
  Arrays behind_function(ArraySpan operands) const;
  Array derivative(ArraySpan operands) const;  // ∂y[anchor]/∂θ[slot] by reverse mode, ([B],) slots…
  Array sample_derivative(ArraySpan operands) const;
  Array sample_vjp(ArraySpan operands, const Array& ct) const;
  Array split_samples(const Array& per_position) const;

  const HiddenParamOpRelation* relation_;
  std::size_t operand_;
  std::string key_;
  // The operand's function where slots are those of its result, and the equation's parameters without it.
  JaxprPtr function_;
  Params params_;
  AnchorMap anchors_;
  Shape sample_y_;
  std::int64_t batch_ = 1;
  bool has_batch_ = false;   // the hidden states carry a batch axis
  bool batched_op_ = false;  // operands carry it, too
  std::int64_t width_ = 1;   // M
  bool effective_ = false;   // slots of an effective weight
  bool has_gain_ = false;
  bool source_of_x_ = false;
  bool derived_ = false;  // the source is the derivative itself, slot by slot
  TracePattern pattern_;
  // compat: positions of y whose derivatives stand as steps of their own: those that are summed before the
  // anchors are used, or all of them, where a function spreads a parameter over positions.
  std::int64_t folded_ = 1;
  std::vector<int> folded_y_axes_;
  bool spread_ = false;
  std::int64_t positions_ = 1;  // of one sample, as the window has them
};

}  // namespace etrace
