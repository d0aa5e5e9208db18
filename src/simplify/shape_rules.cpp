// Rules for operations that move data without changing it. One form for each movement: what keeps the order
// of the elements is a reshape, a uniform array is a broadcast literal, and chains are one step or none.
#include <algorithm>
#include <numeric>

#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "simplify/rewrite.h"

namespace etrace {

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
std::int64_t dim(std::size_t i) { return static_cast<std::int64_t>(i); }
const Aval& result_of(const Eqn& eqn) { return eqn.out[0].aval; }

Dims longer_axes(const Shape& shape) {  // axes of other sizes than 1
  Dims out;
  for (std::size_t i = 0; i < shape.rank(); ++i)
    if (shape[i] != 1) out.push_back(dim(i));
  return out;
}

// The same shape but for axes of size 1.
bool same_but_units(const Shape& a, const Shape& b) {
  const auto longer = [](const Shape& s) {
    Dims out = s.to_dims();
    std::erase(out, 1);
    return out;
  };
  return longer(a) == longer(b);
}

Atom reshaped(Rewriter& rw, const Atom& x, const Shape& shape) {
  if (aval_of(x).shape == shape) return x;
  return rw.write(reshape_p, {x}, {{"new_sizes", shape}, {"dimensions", nullptr}});
}

// Uniform
// -----------------------------------------------------------------------------------------------------
// Whatever is moved, chosen or repeated: the same value everywhere.
std::optional<Atom> moves_uniform(Rewriter& rw, const Eqn& eqn) {
  const std::optional<Literal> first = rw.uniform(eqn.in[0]);
  if (!first) return std::nullopt;
  for (const Atom& a : eqn.in)
    if (const auto other = rw.uniform(a); !other || !(*other == *first)) return std::nullopt;
  if (eqn.prim == &broadcast_in_dim_p && as_var(eqn.in[0]) == nullptr && !result_of(eqn).shape.is_scalar())
    return std::nullopt;  // this is how it is written
  return rw.full(result_of(eqn), *first);
}

// Reshapes
// ----------------------------------------------------------------------------------------------------
std::optional<Atom> to_reshape(Rewriter& rw, const Eqn& eqn) {
  return reshaped(rw, eqn.in[0], result_of(eqn).shape);
}

// reshape ∘ reshape, and none where the shape is the same.
std::optional<Atom> reshape_chain(Rewriter& rw, const Eqn& eqn) {
  if (aval_of(eqn.in[0]) == result_of(eqn)) return eqn.in[0];
  if (const Eqn* inner = rw.definition(eqn.in[0], reshape_p))
    return reshaped(rw, inner->in[0], result_of(eqn).shape);
  return std::nullopt;
}

// Transposes
// --------------------------------------------------------------------------------------------------
bool keeps_element_order(const Shape& from, const Dims& permutation) {
  Dims order = permutation;
  std::erase_if(order, [&](std::int64_t a) { return from[at(a)] == 1; });
  return std::is_sorted(order.begin(), order.end());
}

std::optional<Atom> transpose_as_reshape(Rewriter& rw, const Eqn& eqn) {
  if (!keeps_element_order(aval_of(eqn.in[0]).shape, eqn.params.dims("permutation"))) return std::nullopt;
  return reshaped(rw, eqn.in[0], result_of(eqn).shape);
}

std::optional<Atom> transpose_chain(Rewriter& rw, const Eqn& eqn) {
  const Eqn* inner = rw.definition(eqn.in[0], transpose_p);
  if (inner == nullptr) return std::nullopt;
  const Dims first = inner->params.dims("permutation");
  Dims both;
  for (const std::int64_t axis : eqn.params.dims("permutation")) both.push_back(first[at(axis)]);
  return rw.write(transpose_p, {inner->in[0]}, {{"permutation", both}});
}

// Repeats after the transposition: less is moved.
std::optional<Atom> transpose_of_broadcast(Rewriter& rw, const Eqn& eqn) {
  const Eqn* inner = rw.definition(eqn.in[0], broadcast_in_dim_p);
  if (inner == nullptr) return std::nullopt;
  const Dims permutation = eqn.params.dims("permutation"), axes = inner->params.dims("broadcast_dimensions");
  Dims target(permutation.size());  // where an axis of the broadcast array goes
  for (std::size_t i = 0; i < permutation.size(); ++i) target[at(permutation[i])] = dim(i);
  Dims order(axes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return target[at(axes[at(a)])] < target[at(axes[at(b)])];
  });
  Dims to;
  for (const std::int64_t i : order) to.push_back(target[at(axes[at(i)])]);
  const Atom x = rw.write(transpose_p, {inner->in[0]}, {{"permutation", order}});
  return rw.write(broadcast_in_dim_p, {x}, {{"shape", result_of(eqn).shape}, {"broadcast_dimensions", to}});
}

// Broadcasts
// --------------------------------------------------------------------------------------------------
std::optional<Atom> broadcast_as_reshape(Rewriter& rw, const Eqn& eqn) {
  const Aval from = aval_of(eqn.in[0]);
  if (as_var(eqn.in[0]) == nullptr || from.shape.size() != result_of(eqn).shape.size()) return std::nullopt;
  return reshaped(rw, eqn.in[0], result_of(eqn).shape);
}

std::optional<Atom> broadcast_chain(Rewriter& rw, const Eqn& eqn) {
  const Dims axes = eqn.params.dims("broadcast_dimensions");
  if (const Eqn* inner = rw.definition(eqn.in[0], broadcast_in_dim_p)) {
    Dims both;
    for (const std::int64_t axis : inner->params.dims("broadcast_dimensions")) both.push_back(axes[at(axis)]);
    return rw.write(broadcast_in_dim_p, {inner->in[0]}, eqn.params.with("broadcast_dimensions", both));
  }
  // A reshape that only adds axes of size 1 is part of the broadcast.
  const Eqn* inner = rw.definition(eqn.in[0], reshape_p);
  if (inner == nullptr) return std::nullopt;
  const Shape from = aval_of(inner->in[0]).shape, middle = aval_of(eqn.in[0]).shape;
  if (!same_but_units(from, middle) || longer_axes(from).size() != from.rank()) return std::nullopt;
  Dims to;
  for (const std::int64_t axis : longer_axes(middle)) to.push_back(axes[at(axis)]);
  return rw.write(broadcast_in_dim_p, {inner->in[0]}, eqn.params.with("broadcast_dimensions", to));
}

// Reductions
// -------------------------------------------------------------------------------------------------- Over
// axes of size 1 nothing is joined.
std::optional<Atom> reduce_units(Rewriter& rw, const Eqn& eqn) {
  if (aval_of(eqn.in[0]).shape.size() != result_of(eqn).shape.size() || result_of(eqn).shape.size() == 0)
    return std::nullopt;
  return reshaped(rw, eqn.in[0], result_of(eqn).shape);
}

// Joined before axes of size 1 come and go: the same elements in the same order.
std::optional<Atom> reduce_of_reshape(Rewriter& rw, const Eqn& eqn) {
  const Eqn* inner = rw.definition(eqn.in[0], reshape_p);
  if (inner == nullptr || !rw.used_once(eqn.in[0])) return std::nullopt;
  const Shape from = aval_of(inner->in[0]).shape, middle = aval_of(eqn.in[0]).shape;
  if (!same_but_units(from, middle)) return std::nullopt;
  const Dims source = longer_axes(from), moved = longer_axes(middle), old = eqn.params.dims("axes");
  Dims axes;
  for (std::size_t i = 0; i < moved.size(); ++i)
    if (std::find(old.begin(), old.end(), moved[i]) != old.end()) axes.push_back(source[i]);
  return reshaped(rw, rw.write(*eqn.prim, {inner->in[0]}, eqn.params.with("axes", axes)),
                  result_of(eqn).shape);
}

// Sums of zeros; maxima and the like of one value.
std::optional<Atom> reduce_uniform(Rewriter& rw, const Eqn& eqn) {
  const auto value = rw.uniform(eqn.in[0]);
  if (!value || aval_of(eqn.in[0]).shape.size() == 0) return std::nullopt;
  if (eqn.prim != &reduce_sum_p) return rw.full(result_of(eqn), *value);
  if (to_double(value->value) != 0.0) return std::nullopt;
  return rw.full(result_of(eqn),
                 {value->dtype, Scalar(is_floating(value->dtype) ? Scalar(0.0) : Scalar(std::int64_t{0}))});
}

// Parts
// -------------------------------------------------------------------------------------------------------
struct Range {
  Dims start, limit, strides;
};
Range range_of(const Eqn& eqn) {
  const std::size_t rank = result_of(eqn).shape.rank();
  return {eqn.params.dims("start_indices"), eqn.params.dims("limit_indices"),
          eqn.params.dims_or("strides", Dims(rank, 1))};
}
bool unit_strides(const Range& r) {
  return std::all_of(r.strides.begin(), r.strides.end(), [](std::int64_t s) { return s == 1; });
}
Atom sliced(Rewriter& rw, const Atom& x, const Dims& start, const Dims& limit) {
  return rw.write(slice_p, {x}, {{"start_indices", start}, {"limit_indices", limit}, {"strides", nullptr}});
}

std::optional<Atom> whole_slice(Rewriter&, const Eqn& eqn) {
  if (aval_of(eqn.in[0]) == result_of(eqn)) return eqn.in[0];
  return std::nullopt;
}

std::optional<Atom> slice_chain(Rewriter& rw, const Eqn& eqn) {
  const Eqn* inner = rw.definition(eqn.in[0], slice_p);
  if (inner == nullptr) return std::nullopt;
  const Range r = range_of(eqn), first = range_of(*inner);
  if (!unit_strides(r) || !unit_strides(first)) return std::nullopt;
  Dims start, limit;
  for (std::size_t i = 0; i < r.start.size(); ++i) {
    start.push_back(first.start[i] + r.start[i]);
    limit.push_back(first.start[i] + r.limit[i]);
  }
  return sliced(rw, inner->in[0], start, limit);
}

// A part of one operand is that part of it.
std::optional<Atom> slice_of_concatenate(Rewriter& rw, const Eqn& eqn) {
  const Eqn* inner = rw.definition(eqn.in[0], concatenate_p);
  const Range r = range_of(eqn);
  if (inner == nullptr || !unit_strides(r)) return std::nullopt;
  const std::size_t axis = at(inner->params.integer("dimension"));
  std::int64_t begin = 0;
  for (const Atom& piece : inner->in) {
    const std::int64_t end = begin + aval_of(piece).shape[axis];
    if (r.start[axis] >= begin && r.limit[axis] <= end && r.limit[axis] > r.start[axis]) {
      Dims start = r.start, limit = r.limit;
      start[axis] -= begin;
      limit[axis] -= begin;
      return sliced(rw, piece, start, limit);
    }
    begin = end;
  }
  return std::nullopt;
}

// One entry of a stack is that operand.
std::optional<Atom> slice_of_stack(Rewriter& rw, const Eqn& eqn) {
  const Eqn* inner = rw.definition(eqn.in[0], stack_p);
  const Range r = range_of(eqn);
  if (inner == nullptr || !unit_strides(r)) return std::nullopt;
  const std::size_t axis = at(inner->params.integer("axis"));
  if (r.limit[axis] != r.start[axis] + 1) return std::nullopt;
  const Atom piece = inner->in[at(r.start[axis])];
  Dims start = r.start, limit = r.limit;
  start.erase(start.begin() + dim(axis));
  limit.erase(limit.begin() + dim(axis));
  return reshaped(rw, sliced(rw, piece, start, limit), result_of(eqn).shape);
}

// Operands without elements, and joins of one.
std::optional<Atom> small_concatenate(Rewriter& rw, const Eqn& eqn) {
  std::vector<Atom> in;
  for (const Atom& a : eqn.in)
    if (aval_of(a).shape.size() != 0) in.push_back(a);
  if (in.empty() || (in.size() == eqn.in.size() && in.size() > 1)) return std::nullopt;
  return in.size() == 1 ? in[0] : rw.write(concatenate_p, in, eqn.params);
}

// All parts of one array put together again.
std::optional<Atom> concatenate_of_slices(Rewriter& rw, const Eqn& eqn) {
  const std::size_t axis = at(eqn.params.integer("dimension"));
  const Var* whole = nullptr;
  std::int64_t begin = 0;
  for (const Atom& a : eqn.in) {
    const Eqn* part = rw.definition(a, slice_p);
    if (part == nullptr || as_var(part->in[0]) == nullptr) return std::nullopt;
    const Range r = range_of(*part);
    if (!unit_strides(r) || r.start[axis] != begin) return std::nullopt;
    if (whole != nullptr && !(*whole == *as_var(part->in[0]))) return std::nullopt;
    whole = as_var(part->in[0]);
    begin = r.limit[axis];
  }
  if (whole == nullptr || whole->aval != result_of(eqn)) return std::nullopt;
  return *whole;
}

std::optional<Atom> stack_of_one(Rewriter& rw, const Eqn& eqn) {
  if (eqn.in.size() != 1) return std::nullopt;
  return reshaped(rw, eqn.in[0], result_of(eqn).shape);
}

std::optional<Atom> no_padding(Rewriter&, const Eqn& eqn) {
  for (const Attr& row : *eqn.params.find("padding_config")->list_items())
    for (const std::int64_t n : *row.ints())
      if (n != 0) return std::nullopt;
  return eqn.in[0];
}

std::optional<Atom> empty_padding(Rewriter&, const Eqn& eqn) {
  return result_of(eqn).shape.is_scalar() ? std::optional(eqn.in[0]) : std::nullopt;
}

std::optional<Atom> rev_of_units(Rewriter&, const Eqn& eqn) {
  for (const std::int64_t axis : eqn.params.dims("dimensions"))
    if (result_of(eqn).shape[at(axis)] != 1) return std::nullopt;
  return eqn.in[0];
}

std::optional<Atom> rev_twice(Rewriter& rw, const Eqn& eqn) {
  const Eqn* inner = rw.definition(eqn.in[0], rev_p);
  if (inner == nullptr) return std::nullopt;
  Dims a = inner->params.dims("dimensions"), b = eqn.params.dims("dimensions");
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b ? std::optional(inner->in[0]) : std::nullopt;
}

// Through elementwise operations
// ------------------------------------------------------------------------------ What an operand repeats,
// with axes of size 1 where it repeats: a literal, a scalar or a smaller array.
struct Narrowed {
  Atom source;
  Shape shape;
};
std::optional<Narrowed> narrowed(const Rewriter& rw, const Atom& x) {
  if (aval_of(x).shape.is_scalar()) return std::nullopt;
  if (const auto value = rw.uniform(x)) return Narrowed{*value, {}};
  const Eqn* eqn = rw.definition(x, broadcast_in_dim_p);
  if (eqn == nullptr) return std::nullopt;
  const Shape from = aval_of(eqn->in[0]).shape;
  if (from.is_scalar()) return Narrowed{eqn->in[0], {}};
  Shape shape = aval_of(x).shape;
  const Dims axes = eqn->params.dims("broadcast_dimensions");
  for (std::size_t i = 0; i < shape.rank(); ++i) shape = shape.with(i, 1);
  for (std::size_t i = 0; i < axes.size(); ++i) shape = shape.with(at(axes[i]), from[i]);
  return Narrowed{eqn->in[0], shape};
}

// Elementwise operations repeat scalars and axes of size 1 by themselves.
std::optional<Atom> narrow_operands(Rewriter& rw, const Eqn& eqn) {
  if (eqn.in.size() < 2) return std::nullopt;
  Avals types;
  for (const Atom& a : eqn.in) types.push_back(aval_of(a));
  std::vector<Atom> in = eqn.in;
  bool changed = false;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto small = narrowed(rw, in[i]);
    if (!small || small->shape == types[i].shape) continue;
    const Aval before = std::exchange(types[i], {types[i].dtype, small->shape});
    if (!Rewriter::accepts(eqn, types, result_of(eqn))) {  // others must give the result its shape
      types[i] = before;
      continue;
    }
    in[i] = reshaped(rw, small->source, small->shape);
    changed = true;
  }
  if (!changed) return std::nullopt;
  return rw.write(*eqn.prim, in, eqn.params);
}

bool is_movement(const Eqn& eqn) {
  return eqn.prim == &reshape_p || eqn.prim == &transpose_p || eqn.prim == &broadcast_in_dim_p;
}

// op(move a, move b) = move op(a, b): one movement in place of several, and behind the operation, where it
// meets others. Only if a movement goes for it.
std::optional<Atom> movement_after(Rewriter& rw, const Eqn& eqn) {
  const Eqn* first = nullptr;
  bool saves = false;
  std::vector<Atom> in;
  for (const Atom& a : eqn.in) {
    if (aval_of(a).shape.is_scalar()) {
      in.push_back(a);
      continue;
    }
    const Eqn* move = rw.definition(a);
    if (move == nullptr || !is_movement(*move) || as_var(move->in[0]) == nullptr) return std::nullopt;
    const Shape from = aval_of(move->in[0]).shape;
    if (first == nullptr) first = move;
    if (move->prim != first->prim || !(move->params == first->params) ||
        !(from == aval_of(first->in[0]).shape))
      return std::nullopt;
    saves = saves || rw.used_once(a) || move->prim == &broadcast_in_dim_p;
    in.push_back(move->in[0]);
  }
  if (first == nullptr || !saves) return std::nullopt;
  Avals types;
  for (const Atom& a : in) types.push_back(aval_of(a));
  if (!Rewriter::accepts(eqn, types, {result_of(eqn).dtype, aval_of(first->in[0]).shape}))
    return std::nullopt;
  return rw.write(*first->prim, {rw.write(*eqn.prim, in, eqn.params)}, first->params);
}

}  // namespace

void add_shape_rules(RuleTable& t) {
  t.add({&squeeze_p, &expand_dims_p}, to_reshape);
  t.add({&reshape_p, &transpose_p, &broadcast_in_dim_p, &slice_p, &rev_p, &concatenate_p, &stack_p, &pad_p,
         &copy_p, &stop_gradient_p},
        moves_uniform);
  t.add(reshape_p, reshape_chain);
  t.add(transpose_p, transpose_as_reshape);
  t.add(transpose_p, transpose_chain);
  t.add(transpose_p, transpose_of_broadcast);
  t.add(broadcast_in_dim_p, broadcast_as_reshape);
  t.add(broadcast_in_dim_p, broadcast_chain);
  t.add({&reduce_sum_p, &reduce_prod_p, &reduce_max_p, &reduce_min_p, &reduce_and_p, &reduce_or_p},
        reduce_units);
  t.add({&reduce_sum_p, &reduce_max_p, &reduce_min_p, &reduce_and_p, &reduce_or_p}, reduce_uniform);
  t.add({&reduce_sum_p, &reduce_prod_p, &reduce_max_p, &reduce_min_p, &reduce_and_p, &reduce_or_p},
        reduce_of_reshape);
  t.add(slice_p, whole_slice);
  t.add(slice_p, slice_chain);
  t.add(slice_p, slice_of_concatenate);
  t.add(slice_p, slice_of_stack);
  t.add(concatenate_p, small_concatenate);
  t.add(concatenate_p, concatenate_of_slices);
  t.add(stack_p, stack_of_one);
  t.add(pad_p, empty_padding);
  t.add(pad_p, no_padding);
  t.add(rev_p, rev_of_units);
  t.add(rev_p, rev_twice);
  t.add_elementwise(movement_after);
  t.add_elementwise(narrow_operands);
}

}  // namespace etrace
