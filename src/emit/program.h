// The program between jaxpr and text: what is stored where, which loops run in which order. It knows no
// target, and a printer decides nothing.
//
//   Nest     fused loops over one space of positions: loads, scalar formulas, folds, stores
//   Product  matrix products
//   Call     the kernel of a row
//   Region   scan, while, cond: blocks that run again, or one of several
//
// An element of an array is named by a Form: its row-major number as a linear function of loop variables.
// Views (broadcast, transpose, slice, reshape …) only change Forms. Start with Nest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "emit/form.h"
#include "etrace/emission.h"
#include "etrace/primitive.h"
#include "etrace/program.h"

namespace etrace::emit {

using ValueId = int;
inline constexpr ValueId kNoValue = -1;

// An array of the program, and where its elements are.
struct Value {
  enum Home : std::uint8_t {
    Unplaced,  // in the arena, once buffers() has run
    Arena,
    Argument,
    Result,
    Constant,
    Splat,   // every element is `number`: no storage
    Inside,  // a stretch of `base`
    View,    // elements of `base`; never written
  };
  Aval aval;
  std::string name{};  // of a port, else of the module that computed it
  Home home = Unplaced;
  std::size_t index = 0;    // of the argument, result or constant; byte offset in the arena
  ValueId base = kNoValue;  // Inside, View: a value that is neither
  Dims axes{};              // View: the value's sizes, perhaps some of them split
  Form at{};                // Inside: first element (no steps); View: the element, by `axes`
  Literal number{};
  int depth = 0;  // of the block that defines it
  std::int64_t elements() const { return aval.shape.size(); }
};

// Loops -----------------------------------------------------------------------------------------------------
struct Axis {
  // Chain and Line are what a fold goes over, in the order of ops/reduce_order.h: it follows from the axes
  // alone, whatever they read.
  enum Kind : std::uint8_t { Each, Chain, Line, Time };
  Index size = 1;
  Kind kind = Each;
  bool reverse = false;  // Time: runs down
  bool folds() const { return kind == Chain || kind == Line; }
  bool operator==(const Axis&) const = default;
};

struct Stmt {
  enum Kind : std::uint8_t { Load, Number, Position, Apply, Fold, Store };
  Kind kind = Apply;
  Dtype dtype = Dtype::F32;
  std::string text{};        // Apply: an expression, $k stands for in[k]; Number: a literal
  std::vector<int> in{};     // statements before this one. Load: a number to add to `at`, or none
  ValueId value = kNoValue;  // Load, Store: neither View nor Inside
  Form at{};                 // Load, Store: which element; Position: the number itself
  FoldCode::Op op = FoldCode::Sum;
  int cost = 0;
  int eqn = -1;  // EmitProgram::eqns
};

inline bool has_form(const Stmt& s) {
  return s.kind == Stmt::Load || s.kind == Stmt::Store || s.kind == Stmt::Position;
}

// for every position of the Each axes { for every position of the others { body } rest of the body }:
// statements that need the result of a Fold run after it. Instead of axes that are folded there may be one
// Time axis: its positions run in order, and what a position writes the next one may read.
struct Nest {
  std::vector<Axis> axes;  // outermost first, in the order of their kinds
  std::vector<Stmt> body;
  // By schedule():
  int lane = -1;    // the vector axis; -1: all scalar
  Index parts = 1;  // pieces of the outermost axis, for threads
};

inline bool has_folds(const Nest& n) { return !n.axes.empty() && n.axes.back().folds(); }
inline bool has_time(const Nest& n) { return !n.axes.empty() && n.axes.back().kind == Axis::Time; }

// Other steps -----------------------------------------------------------------------------------------------
// The matrices inside a value; `at` has a step for every batch axis, for the rows and for the columns.
struct Matrices {
  ValueId value = kNoValue;
  Form at{};
};
// C[batch, i, j] = Σ_k A[batch, i, k]·B[batch, k, j], or the same onto what C holds.
struct Product {
  Dtype dtype = Dtype::F32;
  Dims batch{};
  Index rows = 0, columns = 0, depth = 0;
  Matrices a, b, c;
  bool onto = false;
  int eqn = -1;
};

// Operands and results are stored, row-major.
struct Call {
  const Primitive* prim = nullptr;
  Params params;
  std::vector<ValueId> in, out;
  Kernel kernel;  // made once, to know its scratch memory and whether it works in place
  int eqn = -1;
};

struct Item;
using Block = std::vector<Item>;

struct Region {
  enum Kind : std::uint8_t { Scan, While, Cond };
  Kind kind = Scan;
  int loop = -1;                 // Scan: EmitProgram::loops
  ValueId predicate = kNoValue;  // While: blocks[0] computes it; Cond: the index of the branch
  std::vector<Block> blocks{};   // Scan: body; While: condition, body; Cond: branches
  int eqn = -1;
};

struct Item {
  std::variant<Nest, Product, Call, Region> step;
};

// The program -----------------------------------------------------------------------------------------------
struct Loop {
  Index length = 0;
  bool reverse = false;  // the variable runs down
};
struct SourceEqn {
  std::string text;  // "c:f32[32,256] = add a b"
  std::string path;  // "rnn.W"; empty if unknown
};

struct EmitProgram {
  std::string name;
  std::vector<Value> values;
  std::vector<Loop> loops;
  std::vector<SourceEqn> eqns;
  std::vector<ValueId> arguments;
  std::vector<ValueId> results;  // an aliased result is its argument
  Tensors constants;
  Block entry;
  std::size_t arena_bytes = 0;
};

// What a step reads and writes, in values that are neither View nor Inside. Of a Region: all of its blocks.
struct Uses {
  std::vector<ValueId> reads, writes;  // ascending
};
Uses uses(const EmitProgram&, const Item&);
ValueId root(const EmitProgram&, ValueId);

}  // namespace etrace::emit
