// A primitive is one table row: every rule of an operation stands in one file, beside its name.
// A null slot means that the operation has no such rule; where `lower` is given, the missing rules follow
// from it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etrace/array.h"
#include "etrace/ir.h"

struct etp_context;  // kernels/etp_abi.h: where kernels run

#pragma GCC visibility push(default)
namespace etrace {

// Kernels ---------------------------------------------------------------------------------------------------
struct KernelArgs {
  const void* const* in;  // one per operand, row-major
  void* const* out;       // one per result
  void* scratch;          // Kernel::scratch_bytes, 64-byte aligned
};
// A result that may lie where an operand of as many bytes lies.
struct InPlace {
  std::size_t result, operand;
};
struct NamedKernel;  // core/named_kernel.h
struct Kernel {
  // Everything is decided when it is made: a call allocates nothing and changes nothing in the kernel, so
  // that several threads may call it at once.
  std::function<void(const KernelArgs&)> run;
  std::size_t scratch_bytes = 0;
  // Pairs may be used together, each result and each operand once. The kernel then must not read an element
  // of the operand after it has written there; all other operands lie elsewhere.
  std::vector<InPlace> in_place = {};
  bool view =
      false;  // result 0 is operand 0, byte by byte: where both may share storage nothing needs to run
  // Set if all it does is to call a kernel of the table: emitted code then calls that.
  std::shared_ptr<const NamedKernel> named = {};
};
struct KernelRequest {
  const Params& params;
  std::span<const Aval> in, out;
  const etp_context& context;
  const Aval& x(std::size_t i) const { return in[i]; }
  const Aval& y(std::size_t i = 0) const { return out[i]; }
};

// Rules -----------------------------------------------------------------------------------------------------
// In every rule an Array that is not `defined()` is a symbolic zero (tangents, cotangents) or, in
// `transpose`, an operand whose value is not known because the operation is linear in it.
struct EtpRules;     // etrace/etp.h
struct EmitRequest;  // etrace/emission.h
struct Emission;
struct AxisTable;  // etrace/axes.h
struct Facts;      // etrace/facts.h
struct FactRequest;
struct BodyUse;  // etrace/bodies.h
struct ValuesAndTangents {
  Arrays y, dy;
};
// A rule is any callable, so that rows can be made at run time: a rule may hold what it needs.
struct PrimitiveSpec {
  std::string name = {};
  std::string doc = {};  // one line: the formula

  // The static parameters by name. A model file's equation with any other is refused, and named.
  std::vector<std::string> params = {};
  // Parameters that other systems write beside them and that mean nothing here (placement, precision, names
  // for people): model files may have them, and they are dropped.
  std::vector<std::string> ignored_params = {};

  // Each element of the result depends on the elements of the operands at the same place only.
  bool elementwise = false;
  // Sums products of elements of two operands: a matrix product, a convolution.
  bool product = false;
  // No derivative passes it, whatever its values are.
  bool ends_derivatives = false;

  // Types of the results. CompilationError or ValueError/TypeError for operands that do not fit. Required.
  std::function<Avals(const Params&, std::span<const Aval> in)> abstract = {};

  // Evaluation by native code.
  std::function<Kernel(const KernelRequest&)> kernel = {};

  // The same function in terms of other primitives: gives kernel, jvp and batch where these are null.
  std::function<Arrays(const Params&, ArraySpan x)> lower = {};

  // The same function for emitted code (etrace/emission.h). Null: by `lower`, else the kernel is called.
  Emission (*emit)(const EmitRequest&) = {};

  // Where each axis of the results comes from (etrace/axes.h). Null: as `emit` says, else as `lower` does; a
  // row with none of these is not known to keep any two positions apart.
  std::function<AxisTable(const EmitRequest&)> axes = {};

  // What is known of the results' values, given what is known of those of the operands (etrace/facts.h).
  // Null: what follows from `emit` for elements that are moved or added; else nothing.
  std::function<Facts(const FactRequest&)> facts = {};

  // dy = J(x)·dx, given x and y = f(x); only called with at least one defined dx. Results may be symbolic
  // zeros.
  std::function<Arrays(const Params&, ArraySpan x, ArraySpan y, ArraySpan dx)> jvp = {};

  // Cotangents of the undefined operands, given those of the results (at least one defined). One entry per
  // operand, undefined for operands with a value. `in` are the operands' types.
  std::function<Arrays(const Params&, ArraySpan ct, ArraySpan x, std::span<const Aval> in)> transpose = {};

  // The operation mapped over a leading axis of size n: operand i carries it iff batched[i] (at least one
  // does). Every result carries it.
  std::function<Arrays(const Params&, ArraySpan x, const std::vector<bool>& batched, std::int64_t n)> batch =
      {};

  // For operations with bodies, in place of `jvp`: values and tangents together.
  std::function<ValuesAndTangents(const Params&, ArraySpan x, ArraySpan dx)> jvp_joint = {};
  // The same for reverse mode: x are known now, dx only later; dy may use dx in linear operations only.
  std::function<ValuesAndTangents(const Params&, ArraySpan x, ArraySpan dx)> linearize = {};

  // For operations with bodies: the same equation without what only unused results need. The results left are
  // a superset of the used ones.
  std::function<Eqn(const Eqn&, const std::vector<bool>& used)> prune = {};
  // How values pass between the equation and its bodies (etrace/bodies.h). Null, with a body: not known.
  std::function<std::vector<BodyUse>(const Eqn&)> bodies = {};

  // Set iff the operation can own a trainable weight that is learned online; see make_etp (etrace/etp.h).
  std::shared_ptr<const EtpRules> etp = {};

  // Samples for the generic test suite: example operands with parameters. Required (enforced by the suite).
  struct Sample {
    Arrays operands;
    Params params;
    bool differentiable = true;  // false: skip the derivative tests at this point (kinks, integers)
  };
  std::function<std::vector<Sample>(std::uint64_t seed)> samples = {};
};

// Pinned: its address is its identity. Rows link themselves into primitives() while the program starts.
class Primitive {
 public:
  explicit Primitive(PrimitiveSpec spec);
  ~Primitive();  // leaves the table
  Primitive(const Primitive&) = delete;
  Primitive& operator=(const Primitive&) = delete;

  const PrimitiveSpec spec;
  std::string_view name() const { return spec.name; }
};

std::vector<const Primitive*> primitives();              // sorted by name
const Primitive* find_primitive(std::string_view name);  // null if unknown: used by readers only

// Is `key` a static parameter of this operation; is it one that readers drop?
bool knows_param(const Primitive&, std::string_view key);
bool ignores_param(const Primitive&, std::string_view key);

// The one primitive that recording itself writes: arrays of one value enter a program as a broadcast literal.
extern const Primitive broadcast_in_dim_p;

// The only interception point. All operands concrete: runs now. A tracer among them: recorded by the
// innermost recorder; arrays of enclosing recordings are captured. TypeError for an undefined operand. (Not
// called `bind`: argument-dependent lookup would prefer std::bind for vectors and spans of arrays.)
Arrays bind_primitive(const Primitive&, ArraySpan in, const Params& params = {});
Arrays bind_primitive(const Primitive&, std::initializer_list<Array> in, const Params& params = {});
// The same for an operation with one result.
inline Array bind1(const Primitive& p, std::initializer_list<Array> in, const Params& params = {}) {
  return bind_primitive(p, in, params)[0];
}

// Types of the results; adds the primitive's name to the error of a failing rule.
Avals abstract_eval(const Primitive&, const Params&, std::span<const Aval> in);

}  // namespace etrace
#pragma GCC visibility pop
