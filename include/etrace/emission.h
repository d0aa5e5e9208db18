// What a row says about emitted code: PrimitiveSpec::emit fills in one of these. It describes the operation
// element by element, so that emitters for any target can join it with its neighbours; where it is stored and
// in which loop it runs is not the row's business. A row without `emit` is expanded by its `lower`; one that
// has neither is run by its kernel.
//
// Start with MapCode: most operations are one line of C.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "etrace/aval.h"
#include "etrace/ir.h"

#pragma GCC visibility push(default)
namespace etrace {

struct EmitRequest {
  const Params& params;
  std::span<const Aval> in, out;
  const Aval& x(std::size_t i) const { return in[i]; }
  const Aval& y(std::size_t i = 0) const { return out[i]; }
};

// first + Σ step[a]·i[a] of a position i in the result.
struct IndexForm {
  std::int64_t first = 0;
  Dims step;
};

// y[i] = text. In the text $0, $1 … are what was read, #0, #1 … are index forms (int64_t), $t and $r are the
// element types of the first operand and of the result as they end names of etp_*.h ("f32"). Functions in it
// come from src/runtime/etp_math.h, etp_scalar.h and etp_rng.h.
struct MapCode {
  std::string text;
  int cost = 1;  // in additions
  struct Read {
    std::size_t operand;
    IndexForm at;        // the element of the operand, in row-major order
    std::string lookup;  // C expression (int64_t) in earlier reads that is added to `at`; empty: none
  };
  std::vector<Read> reads = {};  // empty: $k is operand k, axes of size 1 repeated
  std::vector<IndexForm> indices = {};
};

// y's elements are elements of operands. Position i of a piece, counted from `start`, is the element `at` of
// its operand.
struct ViewCode {
  struct Piece {
    std::size_t operand;
    Dims start, size;
    IndexForm at;
  };
  std::vector<Piece> pieces;
  std::optional<std::size_t> fill = {};  // scalar operand: the elements that no piece covers
};

// y has the elements of x in the same order.
struct ReshapeCode {};

// y = x ∘ x ∘ … over axes. Sums and products of f32 are formed in f64.
struct FoldCode {
  enum Op : std::uint8_t { Sum, Product, Max, Min, And, Or };
  Op op;
  Dims axes;
};

// y[batch, i, j] = Σ_k a[batch, i, k]·b[batch, j, k]; every element one chain of fused multiply-adds in the
// order of k, the contracted axes in the order given. With a third operand the chains begin at its elements.
struct ProductCode {
  Dims lhs_contract, rhs_contract, lhs_batch, rhs_batch;
  // Of a single contracted axis: the entries from start on, `depth` of them; none: all.
  std::int64_t lhs_start = 0, rhs_start = 0;
  std::optional<std::int64_t> depth = {};
};

// The row's kernel is called.
struct KernelCode {};

struct Emission : std::variant<KernelCode, MapCode, ViewCode, ReshapeCode, FoldCode, ProductCode> {
  using variant::variant;
};

std::string c_number(const Literal&);  // a C expression of the element's type
std::string_view c_type(Dtype);        // of an element in memory: bool is uint8_t, f16 and bf16 are uint16_t

}  // namespace etrace
#pragma GCC visibility pop
