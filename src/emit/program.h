// The program between jaxpr and text: what is stored where, which loops run in which order. What may differ
// between targets is asked of a Target (target.h); loop_tree.h has what is printed.
//
//   Nest     fused loops over one space of positions: loads, scalar formulas, folds, stores
//   Product  matrix products
//   Call     a kernel of the table (kernels/kernels.h), or the code of a row that the host runs
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

#include "core/named_kernel.h"
#include "emit/form.h"
#include "emit/names.h"
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
  // Vote: a truth value of every position, joined into the one that `value` is. Their order does not matter,
  // so that votes join any nest and threads may divide it.
  enum Kind : std::uint8_t { Load, Number, Position, Apply, Fold, Store, Vote };
  Kind kind = Apply;
  Dtype dtype = Dtype::F32;
  std::string text{};               // Apply: an expression, $k stands for in[k]; Number: a literal
  std::vector<int> in{};            // statements before this one. Load: a number to add to `at`, or none
  ValueId value = kNoValue;         // Load, Store, Vote: neither View nor Inside
  Form at{};                        // Load, Store, Vote: which element; Position: the number itself
  FoldCode::Op op = FoldCode::Sum;  // Fold; Vote: And, Or
  int cost = 0;
  int eqn = -1;  // EmitProgram::eqns
};

inline bool writes(const Stmt& s) { return s.kind == Stmt::Store || s.kind == Stmt::Vote; }
inline bool accesses(const Stmt& s) { return s.kind == Stmt::Load || writes(s); }
inline bool has_form(const Stmt& s) { return accesses(s) || s.kind == Stmt::Position; }

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
  std::vector<ValueId> in, out;  // of the equation
  Avals in_types, out_types;
  std::vector<InPlace> in_place;
  std::shared_ptr<const NamedKernel> kernel;  // null: the host runs the row
  std::vector<std::size_t> tables;            // of the kernel: EmitProgram::constants
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
  // By share_rows(), of a Scan: threads may run all times for some of so many rows, in at most so many parts;
  // 0: they may not. A step's outermost axis (a product's rows) has as many positions, or a multiple.
  Index rows = 0, most_parts = 1;
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
  CommentText about() const { return CommentText(text + (path.empty() ? "" : "    " + path)); }
};

// What a pass did not do, and why: two equations, or one and the loop around it.
struct Refusal {
  enum Kind : std::uint8_t { Fuse, WriteInPlace, LeaveLoop, Vectorise, ShareRows } kind;
  int first, second;  // EmitProgram::eqns; -1: there is none
  std::string reason;
  bool operator==(const Refusal&) const = default;
};

struct Target;

struct EmitProgram {
  std::string name;
  const Target* target = nullptr;
  std::vector<Value> values;
  std::vector<Loop> loops;
  std::vector<SourceEqn> eqns;
  std::vector<ValueId> arguments;
  std::vector<ValueId> results;  // an aliased result is its argument
  Tensors constants;
  Block entry;
  std::size_t arena_bytes = 0;
  // Targets with static memory: bytes of the arena that each type has.
  std::vector<std::pair<Dtype, std::size_t>> typed_arenas;

  std::vector<Refusal>* why = nullptr;  // null: nobody asks

  const Value& value(ValueId v) const { return values[static_cast<std::size_t>(v)]; }
};

// What a step reads and writes, in values that are neither View nor Inside. Of a Region: all of its blocks.
struct Uses {
  std::vector<ValueId> reads, writes;  // ascending
};
Uses uses(const EmitProgram&, const Item&);
// An equation that stands for a step: what writes or reads this value, else the first one; -1: none.
int eqn_of(const Item&, ValueId = kNoValue);
ValueId root(const EmitProgram&, ValueId);

}  // namespace etrace::emit
