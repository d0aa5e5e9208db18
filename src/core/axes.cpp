// Axes of results from axes of operands, read off what a row says; see the header.
#include "etrace/axes.h"

#include <algorithm>
#include <variant>

#include "core/dataflow.h"

namespace etrace {

AxisSource& AxisSource::operator|=(const AxisSource& other) {
  if (kind == Nothing)
    *this = other;
  else if (other.kind != Nothing && *this != other)
    kind = Any;
  return *this;
}

AxisTable::AxisTable(std::span<const Aval> in, std::span<const Aval> out) {
  for (const Aval& y : out)
    from.emplace_back(y.shape.rank(), std::vector<AxisSource>(in.size(), AxisSource{}));
}

AxisTable AxisTable::aligned(const EmitRequest& q) {
  AxisTable t(q);
  for (std::size_t k = 0; k < q.out.size(); ++k) {
    const Shape& y = q.out[k].shape;
    for (std::size_t a = 0; a < y.rank(); ++a)
      for (std::size_t i = 0; i < q.in.size(); ++i) {
        const Shape& x = q.x(i).shape;
        if (x.rank() == y.rank() && x[a] == y[a])
          t.keep(a, i, a, k);
        else if (x.is_scalar() || (x.rank() == y.rank() && x[a] == 1))
          t.at(a, i, k) = {AxisSource::Same};
      }
  }
  return t;
}

AxisTable& AxisTable::mix(std::size_t axis) {
  for (auto& result : from)
    for (AxisSource& s : result[axis]) s = {};
  return *this;
}

namespace {

// Numbers of elements of an operand as a row-major array, as a linear form of the indices of a result gives
// them.
class LinearRead {
 public:
  LinearRead(const IndexForm& at, const Dims& sizes, const Shape& operand)
      : at_(at), sizes_(sizes), operand_(operand), strides_(strides_of(operand)) {}

  AxisSource along(std::size_t axis) const {
    if (at_.step[axis] == 0 || sizes_[axis] == 1) return {AxisSource::Same};
    for (std::size_t a = 0; a < operand_.rank(); ++a)
      if (operand_[a] > 1 && strides_[a] == at_.step[axis] && operand_[a] == sizes_[axis] && apart(axis, a))
        return {AxisSource::Along, a};
    return {};
  }

 private:
  // Do all other terms leave the operand's index along `a` alone? They are whole multiples of what one round
  // of it is worth, or stay below one step of it.
  bool apart(std::size_t axis, std::size_t a) const {
    const std::int64_t round = strides_[a] * operand_[a];
    std::int64_t least = ((at_.first % round) + round) % round, most = least;
    for (std::size_t b = 0; b < at_.step.size(); ++b) {
      if (b == axis || at_.step[b] % round == 0) continue;
      const std::int64_t reach = at_.step[b] * std::max<std::int64_t>(sizes_[b] - 1, 0);
      (reach < 0 ? least : most) += reach;
    }
    return least >= 0 && most < strides_[a];
  }

  const IndexForm& at_;
  const Dims& sizes_;
  const Shape& operand_;
  Dims strides_;
};

void forget(AxisTable& t) {
  for (auto& axis : t.from[0])
    for (AxisSource& s : axis) s = {AxisSource::Nothing};
}

AxisTable axes_by(const EmitRequest& q, const MapCode& code) {
  if (code.reads.empty() && code.indices.empty()) return AxisTable::aligned(q);
  AxisTable t(q);
  forget(t);
  const Dims sizes = q.y().shape.to_dims();
  for (const MapCode::Read& read : code.reads) {
    const LinearRead at(read.at, sizes, q.x(read.operand).shape);
    for (std::size_t a = 0; a < sizes.size(); ++a)
      t.at(a, read.operand) |= read.lookup.empty() ? at.along(a) : AxisSource{};
  }
  return t;
}

AxisTable axes_by(const EmitRequest& q, const ViewCode& code) {
  AxisTable t(q);
  forget(t);
  const Shape& y = q.y().shape;
  for (const ViewCode::Piece& piece : code.pieces) {
    const LinearRead at(piece.at, piece.size, q.x(piece.operand).shape);
    for (std::size_t a = 0; a < y.rank(); ++a)
      t.at(a, piece.operand) |= piece.start[a] == 0 && piece.size[a] == y[a] ? at.along(a) : AxisSource{};
  }
  for (std::size_t a = 0; code.fill && a < y.rank(); ++a) t.at(a, *code.fill) = {};
  return t;
}

AxisTable axes_by(const EmitRequest& q, const ReshapeCode&) {
  AxisTable t(q);
  const Shape &x = q.x(0).shape, &y = q.y().shape;
  const Dims in_x = strides_of(x), in_y = strides_of(y);
  for (std::size_t b = 0; b < y.rank(); ++b) {
    if (y[b] == 1) t.at(b, 0) = {AxisSource::Same};
    for (std::size_t a = 0; y[b] != 1 && a < x.rank(); ++a)
      if (x[a] == y[b] && in_x[a] == in_y[b]) t.keep(b, 0, a);
  }
  return t;
}

bool holds(const Dims& axes, std::size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
}

AxisTable axes_by(const EmitRequest& q, const FoldCode& code) {
  AxisTable t(q);
  for (std::size_t a = 0, b = 0; a < q.x(0).shape.rank(); ++a)
    if (!holds(code.axes, a)) t.keep(b++, 0, a);
  return t;
}

AxisTable axes_by(const EmitRequest& q, const ProductCode& code) {
  AxisTable t(q);
  const std::size_t batch = code.lhs_batch.size();
  for (std::size_t k = 0; k < batch; ++k) {
    t.keep(k, 0, static_cast<std::size_t>(code.lhs_batch[k]));
    t.keep(k, 1, static_cast<std::size_t>(code.rhs_batch[k]));
  }
  std::size_t b = batch;
  for (const std::size_t side : {0, 1}) {
    const Dims &contract = side == 0 ? code.lhs_contract : code.rhs_contract,
               &shared = side == 0 ? code.lhs_batch : code.rhs_batch;
    for (std::size_t a = 0; a < q.x(side).shape.rank(); ++a) {
      if (holds(contract, a) || holds(shared, a)) continue;
      t.keep(b, side, a);
      t.at(b++, 1 - side) = {AxisSource::Same};
    }
  }
  for (std::size_t a = 0; q.in.size() > 2 && a < b; ++a) t.keep(a, 2, a);
  return t;
}

AxisTable axes_by(const EmitRequest& q, const KernelCode&) { return AxisTable(q); }

// Of every value of a program, how its axes come from axes of the inputs.
struct InputAxes {
  std::vector<bool> depends = {};                  // by input
  std::vector<std::vector<AxisSource>> axes = {};  // by axis, then by input
};
class Composition : public DataflowRules<InputAxes> {
 public:
  using Value = InputAxes;
  explicit Composition(std::size_t inputs) : inputs_(inputs) {}

  Value input(std::size_t i, const Aval& type) const {
    Value v = of_none(type.shape.rank());
    v.depends[i] = true;
    for (std::size_t a = 0; a < v.axes.size(); ++a) v.axes[a][i] = {AxisSource::Along, a};
    return v;
  }

  static bool reached(const Value& v) { return holds_any(v.depends); }
  static bool follows_choices() { return true; }

  std::vector<Value> step(const Eqn& eqn, const std::vector<Value>& in) const {
    const AxisTable t = axes_of(eqn);
    std::vector<Value> out;
    for (std::size_t k = 0; k < eqn.out.size(); ++k) {
      Value y = of_none(eqn.out[k].aval.shape.rank());
      for (std::size_t i = 0; i < in.size(); ++i)
        for (std::size_t of = 0; of < inputs_; ++of) {
          if (!reached(in[i]) || !in[i].depends[of]) continue;
          y.depends[of] = true;
          for (std::size_t b = 0; b < y.axes.size(); ++b) {
            const AxisSource& s = t.at(b, i, k);
            y.axes[b][of] |= s.kind == AxisSource::Along ? in[i].axes[s.axis][of] : s;
          }
        }
      out.push_back(std::move(y));
    }
    return out;
  }

  static bool join(Value& into, const Value& more) {
    if (!reached(more)) return false;
    if (!reached(into)) {
      into = more;
      return true;
    }
    const Value before = into;
    for (std::size_t i = 0; i < more.depends.size(); ++i)
      into.depends[i] = into.depends[i] || more.depends[i];
    for (std::size_t a = 0; a < more.axes.size(); ++a)
      for (std::size_t i = 0; i < more.axes[a].size(); ++i) into.axes[a][i] |= more.axes[a][i];
    return into.depends != before.depends || into.axes != before.axes;
  }
  static Value sliced(Value v) {
    if (reached(v)) v.axes.erase(v.axes.begin());
    return v;
  }
  // What is made in one round may depend on all before.
  static Value stacked(Value v) {
    if (!reached(v)) return v;
    v.axes.insert(v.axes.begin(), std::vector<AxisSource>(v.depends.size(), AxisSource{AxisSource::Nothing}));
    for (std::size_t i = 0; i < v.depends.size(); ++i)
      if (v.depends[i]) v.axes[0][i] = {};
    return v;
  }
  // A choice is one for all elements.
  void chosen(const Eqn& eqn, const Value& by, std::vector<Value>& out) const {
    for (std::size_t k = 0; reached(by) && k < out.size(); ++k) {
      Value y = of_none(eqn.out[k].aval.shape.rank());
      y.depends = by.depends;
      for (auto& axis : y.axes)
        for (std::size_t i = 0; i < inputs_; ++i)
          if (by.depends[i]) axis[i] = {AxisSource::Same};
      join(out[k], y);
    }
  }

 private:
  static bool holds_any(const std::vector<bool>& m) { return std::find(m.begin(), m.end(), true) != m.end(); }
  Value of_none(std::size_t rank) const {
    return {std::vector<bool>(inputs_, false),
            {rank, std::vector<AxisSource>(inputs_, AxisSource{AxisSource::Nothing})}};
  }

  std::size_t inputs_;
};

// Of a program of these inputs and results.
AxisTable axes_by(const EmitRequest& q, const Jaxpr& program) {
  Composition rules(q.in.size());
  Dataflow<Composition> flow(rules);
  for (std::size_t i = 0; i < q.in.size(); ++i) flow.set(program.invars[i], rules.input(i, q.x(i)));
  flow.run(program);
  AxisTable t(q);
  for (std::size_t k = 0; k < q.out.size(); ++k) {
    const InputAxes y = flow.at(program.outs[k]);
    for (std::size_t b = 0; b < q.y(k).shape.rank(); ++b)
      for (std::size_t i = 0; i < q.in.size(); ++i)
        t.at(b, i, k) = Composition::reached(y) ? y.axes[b][i] : AxisSource{AxisSource::Nothing};
  }
  return t;
}

// The operation alone.
Jaxpr one_equation(const Primitive& prim, const EmitRequest& q) {
  Jaxpr out;
  for (const Aval& a : q.in) out.invars.push_back(fresh_var(a));
  std::vector<Var> results;
  for (const Aval& a : q.out) results.push_back(fresh_var(a));
  out.outs.assign(results.begin(), results.end());
  out.eqns.push_back(make_eqn(prim, {out.invars.begin(), out.invars.end()}, std::move(results), q.params));
  return out;
}

}  // namespace

AxisTable axes_of(const Primitive& prim, const EmitRequest& q) {
  if (prim.spec.axes != nullptr) return prim.spec.axes(q);
  if (prim.spec.elementwise) return AxisTable::aligned(q);
  if (prim.spec.bodies != nullptr) return axes_by(q, one_equation(prim, q));
  const Emission code = prim.spec.emit != nullptr ? prim.spec.emit(q) : Emission(KernelCode{});
  if (!std::holds_alternative<KernelCode>(static_cast<const Emission::variant&>(code)))
    return std::visit([&](const auto& c) { return axes_by(q, c); },
                      static_cast<const Emission::variant&>(code));
  if (prim.spec.lower != nullptr)
    return axes_by(q, record(q.in, [&](ArraySpan x) { return prim.spec.lower(q.params, x); }).jaxpr);
  return AxisTable(q);
}

AxisTable axes_of(const Eqn& eqn) {
  Avals in, out;
  for (const Atom& a : eqn.in) in.push_back(aval_of(a));
  for (const Var& v : eqn.out) out.push_back(v.aval);
  return axes_of(*eqn.prim, {eqn.params, in, out});
}

std::vector<BodyUse> bodies_of(const Eqn& eqn) {
  return eqn.prim->spec.bodies != nullptr ? eqn.prim->spec.bodies(eqn) : std::vector<BodyUse>{};
}

BodyUse call_use(JaxprPtr body, std::size_t first) {
  BodyUse use{std::move(body), {}};
  for (std::size_t i = 0; i < use.body->jaxpr.invars.size(); ++i) use.in.push_back({first + i});
  for (std::size_t i = 0; i < use.body->jaxpr.outs.size(); ++i) use.out.push_back({i});
  return use;
}

}  // namespace etrace
