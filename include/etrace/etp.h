// Eligibility-trace operators (ETP): ordinary differentiable, batchable primitives that the compiler
// recognises by identity. A parameter takes part in online learning iff one of these consumes it.
//
// An operator's author supplies the forward function (`lower` of its row), the layout of its trainable
// operands, and the anchor map: which output position each trace slot belongs to. Everything else follows
// (docs/decisions/0009-derived-trace-rules.md).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etrace/array.h"
#include "etrace/ops/sparse.h"
#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

struct Trainable {
  std::string key;      // "weight", "bias", "lora_a" …
  std::size_t operand;  // its position among the equation's operands
  std::string fn = {};  // the static parameter that holds a function of it; empty: the operator has none
};

// Trace slots of one trainable, for one sample (no batch axis, no state axis), and where they land.
//   dense W[i,o]: slots (I, O), y axis 0 <- slot axis 1        conv K: slots (space…, kernel…), y axes <-
//   space, out channel sparse w[p]:  slots (nnz),  y position <- table col(p)     bias:   slots of y itself
struct AnchorMap {
  Shape slots;
  std::vector<int> y_axes;         // for each axis of y: the slot axis that gives its index
  SharedList table;                // if not empty: slot (flat) -> position of y (flat), in place of y_axes
  std::vector<int> position_axes;  // slot axes that the parameter does not have; summed when the gradient is
                                   // formed, which leaves the parameter's elements in order
};

// A trainable that acts through an effective weight W, whose slots its trace has (LoRA: W = alpha·f(B)·g(A)
// for B).
struct EffectiveWeight {
  std::string key;
  std::function<Array(const Params&, ArraySpan operands)> weight = {};                        // W
  std::function<Array(const Params&, ArraySpan operands, const Array& weight)> forward = {};  // y by W
};

// Where ∂y[anchor]/∂θ[slot] comes from, when it is a product: gain[θ]·values[source of the slot].
struct TraceSource {
  Array values;           // ([B],) axes…; undefined: 1
  std::vector<int> axes;  // for each axis of values (batch apart): the slot axis that gives its index
  SharedList table;       // if not empty: slot (flat) -> element of values (flat), in place of axes
  Array gain;  // shape of the parameter: derivative of its weight function; undefined: 1. What changes from
               // step to step belongs to `values`; a gain that does is used as if there were no source.
  Dims strides = {};  // if not empty: step of the element of values (flat) per slot axis, in place of axes
};

struct EtpRules {
  bool batched = false;  // the result and all operands but the trainable ones carry a leading batch axis
  bool gradient_enabled = false;             // may lie on the way from another operator's y to a hidden state
  std::optional<std::size_t> x_operand = 0;  // none: the operator has no data input
  const Primitive* batched_form = nullptr;   // what vmap over x alone turns it into
  std::function<std::vector<Trainable>(const Params&)> trainables = {};
  // `in` and `y` are the equation's types, batch axis included; a weight has the type that its function
  // gives.
  std::function<AnchorMap(const Params&, std::string_view key, std::span<const Aval> in, const Aval& y)>
      anchors = {};
  // One-step adjacency of a hidden axis of length n that feeds x and receives y: a[p*n + q] = "p depends on
  // q". Empty: no statement (all-to-all is assumed).
  std::function<std::vector<bool>(const Params&, std::int64_t n)> adjacency = {};
  // What the factorised rule filters in place of x (embedding: the one-hot of the index).
  std::function<Array(const Params&, const Array& x, std::span<const Aval> in)> x_representation = {};
  std::optional<EffectiveWeight> effective = {};
  // For speed: the derivative as a product. None (or no rule): it is taken by reverse mode, slot by slot, and
  // as large as a trace. With an effective weight, the derivative with respect to that.
  std::function<std::optional<TraceSource>(const Params&, std::string_view key, ArraySpan operands)> source =
      {};
};
// For the slot `etp` of a row.
std::shared_ptr<const EtpRules> make_etp(EtpRules rules);
const EtpRules* etp_rules(const Primitive&);  // null: not an ETP operator
inline bool is_etp(const Primitive& p) { return etp_rules(p) != nullptr; }

// For authors of operators: tests a row's rules against the derivative of its forward function. Wherever a
// trainable touches an output position that its slot does not belong to, CompilationError names operator,
// key, slot and position.
void validate_etp(const Primitive&, const std::vector<PrimitiveSpec::Sample>& samples);

// An operator of one's own, for the rest of the program: the row is checked on its samples first, its typing
// rule against the forward function and its ETP rules (if any) against that function's derivative.
// CompilationError says what is wrong, and the table stays as it was. A complete operator:
// examples/04_custom_operator.cpp.
const Primitive& register_primitive(const PrimitiveSpec&);

extern const Primitive etp_mm_p, etp_mv_p;      // x, W[, b]; params: has_bias, weight_fn, bias_fn
extern const Primitive etp_gmm_p, etp_gmv_p;    // x, W[G,K,N][, b[G,N]]
extern const Primitive etp_emb_p, etp_emb_v_p;  // indices, table; params: weight_fn
extern const Primitive etp_einsum_p;            // x, W; params: equation, weight_fn
extern const Primitive etp_elemwise_p;          // w; params: weight_fn
extern const Primitive etp_conv_p;              // x, K[, b]; params: see conv below, kernel_fn, bias_fn
extern const Primitive etp_sp_mm_p,
    etp_sp_mv_p;  // x, data[, b]; params: sparse_mat, has_bias, weight_fn, bias_fn
extern const Primitive etp_lora_mm_p,
    etp_lora_mv_p;  // x, B, A[, b]; params: alpha, has_bias, b_fn, a_fn, bias_fn

// A transform of a weight inside the operator: any function of it that keeps the element type. Empty:
// identity.
using WeightFn = std::function<Array(const Array&)>;

struct MatmulOptions {
  WeightFn weight_fn, bias_fn;
};
// y = x·f(W) + g(b); x [B,I] or [I], W [I,O], b [O]. ValueError names einsum for other ranks.
Array matmul(const Array& x, const Array& weight, const Array& bias = {}, const MatmulOptions& = {});
// y[…,g,n] = Σ_k x[…,g,k] f(W)[g,k,n] + h(b)[g,n]; x [B,G,K] or [G,K]
Array grouped_matmul(const Array& x, const Array& weight, const Array& bias = {}, const MatmulOptions& = {});
// y = f(w), any shape
Array element_wise(const Array& weight, const WeightFn& weight_fn = {});
// y = f(T)[indices]; integer indices [B] or scalar. Negative indices wrap once; out of range gives NaN.
Array embedding(const Array& indices, const Array& weight, const WeightFn& weight_fn = {});
// "bi,io->bo": the first letter of x and y is the batch
Array einsum(std::string_view equation, const Array& x, const Array& weight, const WeightFn& weight_fn = {});

// A fixed sparse pattern of shape (I, O): entry p stands at (row(p), col(p)). Copies share the lists.
class SparsePattern {
 public:
  static SparsePattern csr(std::int64_t rows, std::int64_t cols, Dims indptr, Dims indices);
  static SparsePattern csc(std::int64_t rows, std::int64_t cols, Dims indptr, Dims indices);
  static SparsePattern coo(std::int64_t rows, std::int64_t cols, Dims row, Dims col);
  static SparsePattern from_attr(const Attr&);  // the file's form; CompilationError if it is malformed
  Attr to_attr() const { return data_->attr; }  // keeps the kind it was made from

  std::int64_t rows() const { return entries().rows; }
  std::int64_t cols() const { return entries().cols; }
  std::int64_t nnz() const { return static_cast<std::int64_t>(entries().row.size()); }
  const Table& row() const { return entries().row.values(); }
  const Table& col() const { return entries().col.values(); }
  const SparseEntries& entries() const { return data_->entries; }

 private:
  struct Data {
    Attr attr;  // the file's form; shares its lists with the entries, where it has them
    SparseEntries entries;
  };
  explicit SparsePattern(Data);
  explicit SparsePattern(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  static SparsePattern compressed(const char* kind, std::int64_t rows, std::int64_t cols,
                                  const SharedList& indptr, const SharedList& indices, Attr);
  static SparsePattern listed(std::int64_t rows, std::int64_t cols, const SharedList& row,
                              const SharedList& col, Attr);
  static SparsePattern read(const Attr&);
  struct Known;
  std::shared_ptr<const Data> data_;
};
// y = x·sparse(f(w)) + g(b)
Array sparse_matmul(const Array& x, const Array& weight, const SparsePattern&, const Array& bias = {},
                    const MatmulOptions& = {});

struct LoraOptions {
  double alpha = 1.0;
  WeightFn b_fn, a_fn, bias_fn;
};
// y = alpha·x·f(B)·g(A) + h(b); B [I,R], A [R,O]
Array lora_matmul(const Array& x, const Array& b, const Array& a, const Array& bias = {},
                  const LoraOptions& = {});

struct EtpConvOptions {
  Dims strides;                  // one per spatial axis; required for more than one
  std::string padding = "SAME";  // "SAME", "VALID", or explicit pairs below
  std::vector<std::pair<std::int64_t, std::int64_t>> explicit_padding;
  Dims lhs_dilation, rhs_dilation;
  std::int64_t feature_group_count = 1, batch_group_count = 1;
  std::vector<std::string> layout;  // {"NHWC", "HWIO", "NHWC"}; empty: batch, channel, space / out, in, space
  WeightFn kernel_fn, bias_fn;
};
// Cross-correlation, always batched; a rank-1 bias stands on the channel axis, others must broadcast as
// given.
Array conv(const Array& x, const Array& kernel, const Array& bias = {}, const EtpConvOptions& = {});

}  // namespace etrace
#pragma GCC visibility pop
