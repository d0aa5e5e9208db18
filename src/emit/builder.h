// Values, views and nests while a program is lowered. Private to emit/.
#pragma once

#include <span>

#include "emit/program.h"

namespace etrace::emit {

class Builder {
 public:
  explicit Builder(EmitProgram& p) : p_(p) {}

  // Blocks: the innermost open one takes new items. A value belongs to the block in which it was made.
  void open(Block& b) { blocks_.push_back(&b); }
  void close() { blocks_.pop_back(); }
  int depth() const { return static_cast<int>(blocks_.size()); }
  void push(Item item) { blocks_.back()->push_back(std::move(item)); }

  // Values.
  ValueId stored(const Aval&, std::string name = {});
  ValueId splat(const Aval&, const Literal&);
  ValueId constant(const Tensor&);  // all elements equal: a splat
  // Element `at` of `of` at every position of the result; `at` has a step for each axis of aval.shape.
  ValueId view(const Aval&, ValueId of, Form at);
  ValueId reshaped(const Aval&, ValueId of);
  // The same numbers in memory, row-major: the value itself, or a copy made in the value's own block.
  ValueId contiguous(ValueId);
  const Value& value(ValueId v) const { return p_.values[static_cast<std::size_t>(v)]; }
  Value& value(ValueId v) { return p_.values[static_cast<std::size_t>(v)]; }
  EmitProgram& program() { return p_; }

  // Nests.
  Extents extents(const Nest&) const;
  // A nest over these sizes; axes of size 1 are left out. `axis_of` says which axis stands for which size.
  static Nest over(const Dims& sizes, std::vector<int>* axis_of = nullptr);
  // Adds a statement; `flat` is over the nest's axes. Views are followed and the nest's axes split as
  // needed, so forms kept outside the nest must be passed as `kept`.
  int load(Nest&, ValueId, Form flat, std::span<Form* const> kept = {}, int eqn = -1);
  static int add(Nest&, Stmt);
  void store(Nest&, ValueId, Form flat, int from, int eqn = -1);

  void copy(ValueId from, ValueId to, int eqn = -1);
  // All at once: what is read is the old values.
  struct Assignment {
    ValueId from, to;
  };
  void assign(std::vector<Assignment>, int eqn = -1);
  ValueId root(ValueId v) const { return emit::root(p_, v); }

 private:
  ValueId add_value(Value);
  bool resolve(Nest&, std::size_t stmt, std::span<Form* const> kept);

  EmitProgram& p_;
  std::vector<Block*> blocks_;
};

// A linear form for a position in an array of these sizes as the axes of Builder::over see it.
Form position_form(const Nest&, const std::vector<int>& axis_of, const IndexForm&);

void split_axis(Nest&, std::size_t axis, Index inner);

}  // namespace etrace::emit
