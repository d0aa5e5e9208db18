#include "emit/builder.h"

#include <algorithm>
#include <cstring>

#include "etrace/error.h"

namespace etrace::emit {

// Values ----------------------------------------------------------------------------------------------------
ValueId Builder::add_value(Value v) {
  v.depth = depth();
  p_.values.push_back(std::move(v));
  return static_cast<ValueId>(p_.values.size()) - 1;
}

ValueId Builder::stored(const Aval& aval, std::string name) {
  return add_value({.aval = aval, .name = std::move(name)});
}

ValueId Builder::splat(const Aval& aval, const Literal& number) {
  return add_value({.aval = aval, .home = Value::Splat, .number = number});
}

ValueId Builder::constant(const Tensor& t) {
  const std::size_t width = size_of(t.dtype());
  bool equal = t.size() > 0;
  for (std::int64_t i = 1; i < t.size() && equal; ++i)
    equal = std::memcmp(t.bytes(), t.bytes() + static_cast<std::size_t>(i) * width, width) == 0;
  const bool computed_on = t.dtype() != Dtype::F16 && t.dtype() != Dtype::BF16;
  if (equal && computed_on) return splat(t.aval(), {t.dtype(), t.at(0)});
  p_.constants.push_back(t);
  return add_value({.aval = t.aval(), .home = Value::Constant, .index = p_.constants.size() - 1});
}

ValueId Builder::view(const Aval& aval, ValueId of, Form at) {
  const Value base = value(of);
  if (base.home == Value::Splat) return splat(aval, base.number);
  Dims axes = aval.shape.to_dims();
  if (base.home == Value::View) {
    Extents e = extents({});
    for (;;) {
      e.axes = axes;
      const Decoded d = decode(at, e, base.axes);
      if (d.result == Decoded::No) return view(aval, contiguous(of), at);
      if (d.result == Decoded::Done) {
        at = substitute(base.at, d.indices, axes.size());
        break;
      }
      split_axis(at, d.axis, d.inner);
      axes[d.axis] /= d.inner;
      axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(d.axis) + 1, d.inner);
    }
    of = base.base;
  }
  if (base.home == Value::Inside) {
    Form offset = base.at;
    offset.step.assign(at.step.size(), 0);
    at = sum(at, offset);
    of = base.base;
  }
  // In the order of memory it is a stretch.
  const Dims strides = row_major(axes);
  bool stretch = true;
  for (std::size_t a = 0; a < axes.size(); ++a)
    stretch = stretch && (axes[a] == 1 || at.step[a] == strides[a]);
  if (stretch) {
    at.step.clear();
    return add_value({.aval = aval, .name = value(of).name, .home = Value::Inside, .base = of, .at = at});
  }
  return add_value(
      {.aval = aval, .name = value(of).name, .home = Value::View, .base = of, .axes = axes, .at = at});
}

ValueId Builder::reshaped(const Aval& aval, ValueId of) {
  return view(aval, of, {0, row_major(aval.shape.to_dims()), {}});
}

ValueId Builder::contiguous(ValueId v) {
  const Value::Home home = value(v).home;
  if (home != Value::View && home != Value::Splat) return v;
  // Once, where the value was made: it may be read again, and in a loop.
  const int made = value(v).depth;
  ETRACE_CHECK(made >= 1 && made <= depth());
  std::vector<Block*> inner(blocks_.begin() + made, blocks_.end());
  blocks_.resize(static_cast<std::size_t>(made));
  const ValueId copied = stored(value(v).aval, value(v).name);
  copy(v, copied);
  blocks_.insert(blocks_.end(), inner.begin(), inner.end());
  if (home == Value::View) {
    Value& old = value(v);
    old.home = Value::Inside;
    old.base = copied;
    old.axes.clear();
    old.at = {};
  }
  return copied;
}

ValueId root(const EmitProgram& p, ValueId v) {
  const Value& x = p.values[static_cast<std::size_t>(v)];
  return x.home == Value::Inside || x.home == Value::View ? x.base : v;
}

// Nests -----------------------------------------------------------------------------------------------------
Extents Builder::extents(const Nest& nest) const {
  Extents e;
  for (const Axis& a : nest.axes) e.axes.push_back(a.size);
  for (const Loop& l : p_.loops) e.loops.push_back(l.length);
  return e;
}

Nest Builder::over(const Dims& sizes, std::vector<int>* axis_of) {
  Nest nest;
  if (axis_of != nullptr) axis_of->assign(sizes.size(), -1);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    if (axis_of != nullptr) (*axis_of)[i] = static_cast<int>(nest.axes.size());
    nest.axes.push_back({sizes[i], Axis::Each});
  }
  return nest;
}

Form position_form(const Nest& nest, const std::vector<int>& axis_of, const IndexForm& f) {
  Form out = constant_form(f.first, nest.axes.size());
  for (std::size_t i = 0; i < f.step.size(); ++i)
    if (axis_of[i] >= 0) out.step[static_cast<std::size_t>(axis_of[i])] += f.step[i];
  return out;
}

void split_axis(Nest& nest, std::size_t axis, Index inner) {
  Axis& outer = nest.axes[axis];
  outer.size /= inner;
  const Axis second{inner, outer.kind};
  nest.axes.insert(nest.axes.begin() + static_cast<std::ptrdiff_t>(axis) + 1, second);
  for (Stmt& s : nest.body)
    if (has_form(s)) split_axis(s.at, axis, inner);
}

int Builder::add(Nest& nest, Stmt s) {
  nest.body.push_back(std::move(s));
  return static_cast<int>(nest.body.size()) - 1;
}

int Builder::load(Nest& nest, ValueId v, Form flat, std::span<Form* const> kept, int eqn) {
  for (;;) {
    const Value& x = value(v);
    if (x.home == Value::Splat)
      return add(nest, {.kind = Stmt::Number, .dtype = x.aval.dtype, .text = c_number(x.number), .eqn = eqn});
    if (x.home == Value::Inside) {
      Form offset = x.at;
      offset.step.assign(flat.step.size(), 0);
      flat = sum(flat, offset);
      v = x.base;
      continue;
    }
    if (x.home != Value::View)
      return add(nest, {.kind = Stmt::Load, .dtype = x.aval.dtype, .value = v, .at = flat, .eqn = eqn});
    const Decoded d = decode(flat, extents(nest), x.axes);
    if (d.result == Decoded::No) {
      v = contiguous(v);
    } else if (d.result == Decoded::Done) {
      flat = substitute(x.at, d.indices, nest.axes.size());
      v = x.base;
    } else {
      split_axis(nest, d.axis, d.inner);
      split_axis(flat, d.axis, d.inner);
      for (Form* f : kept) split_axis(*f, d.axis, d.inner);
    }
  }
}

void Builder::store(Nest& nest, ValueId v, Form flat, int from, int eqn) {
  const Value& x = value(v);
  ETRACE_CHECK(x.home != Value::View && x.home != Value::Splat);
  if (x.home == Value::Inside) {
    Form offset = x.at;
    offset.step.assign(flat.step.size(), 0);
    flat = sum(flat, offset);
    v = x.base;
  }
  add(nest, {.kind = Stmt::Store, .dtype = x.aval.dtype, .in = {from}, .value = v, .at = flat, .eqn = eqn});
}

void Builder::copy(ValueId from, ValueId to, int eqn) {
  if (value(to).elements() == 0) return;
  std::vector<int> axis_of;
  const Dims sizes = value(to).aval.shape.to_dims();
  Nest nest = over(sizes, &axis_of);
  const Form flat = position_form(nest, axis_of, {0, row_major(sizes)});
  Form target = flat;
  Form* kept[] = {&target};
  const int x = load(nest, from, flat, kept, eqn);
  store(nest, to, target, x, eqn);
  push({std::move(nest)});
}

void Builder::assign(std::vector<Assignment> all, int eqn) {
  std::erase_if(all, [&](const Assignment& a) { return a.from == a.to || value(a.to).elements() == 0; });
  const auto set_aside = [&](Assignment& a) {
    const ValueId kept = stored(value(a.from).aval);
    copy(a.from, kept, eqn);
    a.from = kept;
  };
  for (Assignment& a : all)
    if (root(a.from) == root(a.to)) set_aside(a);  // moves elements about
  while (!all.empty()) {
    // One whose target nobody else still reads.
    const auto next = std::find_if(all.begin(), all.end(), [&](const Assignment& a) {
      return std::none_of(all.begin(), all.end(),
                          [&](const Assignment& other) { return root(other.from) == root(a.to); });
    });
    if (next == all.end()) {
      set_aside(all.front());
      continue;
    }
    copy(next->from, next->to, eqn);
    all.erase(next);
  }
}

}  // namespace etrace::emit
