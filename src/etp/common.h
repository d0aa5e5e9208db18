// What the eligibility-trace operators share: checks of operands by name, functions on weights held as
// programs, bias, and the batching rule that keeps an operator's identity. Private to etp/; a new operator
// starts from matmul.cpp.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/transform.h"
#include "ops/structure_common.h"

namespace etrace::etp {

using structure::Sample;
using structure::Samples;
using structure::Source;
using structure::to_dim;
using structure::to_index;

bool has_bias(const Params&);

// Typing ----------------------------------------------------------------------------------------------------
constexpr std::int64_t kAny = -1;  // an axis of any size

// An operand, and the static parameter that may hold a function of it.
struct Operand {
  Operand(const char* operand_name, const char* function = "") : name(operand_name), fn(function) {}
  std::string name, fn;
};

// The operands of an equation under their names, with the types that the operator computes on: those behind
// the functions of weights. A failed check names the operator, the operand and all types.
class Operands {
 public:
  // `operands` without the bias, which follows them iff the parameter has_bias is true. A function must take
  // its operand and give one array (CompilationError, ValueError) of the same element type (TypeError).
  Operands(std::string_view op, const Params& params, std::span<const Aval> in,
           std::initializer_list<Operand> operands);

  const Aval& operator[](std::size_t i) const { return seen_[i]; }
  const Shape& shape(std::size_t i) const { return seen_[i].shape; }
  bool biased() const { return has_bias(params_); }
  const Aval& bias() const { return seen_.back(); }

  void expect(std::size_t i, const Dims& sizes) const;  // ValueError: rank and sizes, kAny free
  void expect_bias(const Dims& sizes) const;            // nothing without a bias
  // An element type that holds all operands. TypeError unless the operator can compute on it.
  Avals result(const Shape&) const;

  [[noreturn]] void refuse(const std::string& message) const;  // ValueError, followed by all types

 private:
  Aval seen(std::size_t i) const;
  std::string list() const;
  std::string op_;
  const Params& params_;
  std::span<const Aval> in_;
  std::vector<Operand> operands_;
  Avals seen_;
};

// The type of f(w) for the function held by params[key] (none: that of w).
Aval type_behind(const Params&, std::string_view key, const Aval& w);
// The types of an equation's operands as its operator computes on them.
Avals types_behind(const EtpRules&, const Params&, std::span<const Aval> in);

// Values ----------------------------------------------------------------------------------------------------
// f(w) for the function held by params[key] (none: w itself).
Array apply_fn(const Params&, std::string_view key, const Array& w);
// y + g(b) if there is a bias (the last operand); NumPy's broadcasting.
Array add_bias(const Params&, const Array& y, ArraySpan operands);
// The type of an operator's result: that of all operands together.
Dtype common_dtype(ArraySpan);
// x·W over the last axis of x and the first of W.
Array dense(const Array& x, const Array& weight);

// The program of a function on `operand`, as a parameter; null for an empty function. CompilationError if it
// uses a value of the trace around the operator.
Attr trace_fn(std::string_view op, std::string_view key, const WeightFn&, const Array& operand);
// Appends the bias, if any, and the parameters has_bias and bias_fn; then binds.
Array bind_with_bias(const Primitive&, Arrays operands, const Array& bias, const WeightFn& bias_fn,
                     const Params& params);

// Rules -----------------------------------------------------------------------------------------------------
std::vector<Trainable> weight_only(const Params&);      // "weight" is operand 1
std::vector<Trainable> weight_and_bias(const Params&);  // and "bias" operand 2, if there is one
std::vector<bool> all_to_all(const Params&, std::int64_t n);
Shape sample_shape(const Aval& y, bool batched);  // without the batch axis
AnchorMap anchored_at(const Shape& slots, std::vector<int> y_axes);
AnchorMap anchored_at_self(const Shape& y);  // one slot for each position of y
// Position of y (flat, one sample) that each slot (flat) belongs to.
std::vector<std::int64_t> anchor_positions(const AnchorMap&, const Shape& y);

// Element of a source's values (flat, one sample) that each slot (flat) reads; empty without values.
std::vector<std::int64_t> source_positions(const TraceSource&, const Shape& slots, bool batched);
// A source without data (bias, element-wise weight), or one whose axes are given; none if the weight function
// is not element by element.
std::optional<TraceSource> trace_source(const Params&, std::string_view fn_key, const Array& weight,
                                        const Array& values = {}, std::vector<int> axes = {});

// What the trace of one trainable is made of.
struct TraceForm {
  // The function of the operand, if slots are those of its result, and gradients are pulled back through it:
  // it changes the shape, or is not element by element, so that it would spread a parameter over positions.
  JaxprPtr function;
  Params params;  // of the equation, without that function
  Avals in;       // what the operator computes on; the operand is what `function` gives
  AnchorMap anchors;
  bool effective = false;  // slots of the effective weight
  // The derivative as a product: types and places only, its arrays are tracers that have ended. None: it is
  // taken by reverse mode, slot by slot.
  std::optional<TraceSource> source;
  bool source_of_x = false;  // and follows from x and what is fixed, without other data
};
// `fixed[i]`: operand i is the same in all steps (it follows from parameters and constants). What a gain or
// an effective weight reads must be; where it is not, the gain becomes part of the data, and every position
// keeps the derivative for itself. `keep_function`: slots are always those of the operand.
TraceForm trace_form(const Primitive&, const Params&, std::string_view key, std::span<const Aval> in,
                     const Aval& y, const std::vector<bool>& fixed, bool keep_function = false);
// The first operand that is not fixed and that the results of f depend on.
std::optional<std::size_t> data_read(const Avals& in, const std::vector<bool>& fixed, const Function& f);
bool element_by_element(const ClosedJaxpr& fn);

// Mapped over x alone, an operator becomes its batched form; otherwise its lowering is mapped.
using LowerRule = decltype(PrimitiveSpec::lower);
Arrays promoting_batch(const EtpRules&, const LowerRule&, const Params&, ArraySpan x,
                       const std::vector<bool>& batched, std::int64_t n);

// Rows ------------------------------------------------------------------------------------------------------
// One operator on data with a leading batch axis and on a single sample: two rows from one definition. What
// differs between them is asked for by `batched`.
struct Form {
  std::string_view op;  // the row's name
  bool batched;
  // [any, sizes…] or [sizes…]
  Dims data(Dims sizes) const {
    if (batched) sizes.insert(sizes.begin(), kAny);
    return sizes;
  }
  // The same with the batch of x.
  Shape result(const Aval& x, Dims sizes) const {
    if (batched) sizes.insert(sizes.begin(), x.shape[0]);
    return Shape(sizes);
  }
};
struct OperatorPair {
  std::string batched_name, batched_doc, name, doc;
  std::vector<std::string> params;
  std::function<Avals(const Form&, const Params&, std::span<const Aval> in)> types;
  LowerRule lower;
  std::function<Samples(std::uint64_t seed, bool batched)> samples;
  EtpRules rules;  // without `batched` and `batched_form`
  decltype(PrimitiveSpec::facts) facts = {};
};
PrimitiveSpec batched_row(const OperatorPair&);
PrimitiveSpec single_row(const OperatorPair&, const Primitive& batched_form);

}  // namespace etrace::etp
