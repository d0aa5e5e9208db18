#include "verify/position_coupling.h"

#include <algorithm>
#include <map>

#include "compiler/mixing.h"
#include "compiler/position_graph.h"
#include "compiler/program_between.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/index.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/numpy.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "ops/dot_dims.h"

namespace etrace {

namespace {

bool is_given(const ETraceGraph& g, const Atom& a) {
  const Var* v = as_var(a);
  if (v == nullptr) return false;
  const Jaxpr& program = g.module_info.jaxpr();
  for (std::size_t i = 0; i < program.invars.size(); ++i)
    if (program.invars[i] == *v) return g.module_info.model.inputs[i].role == Role::Param;
  return std::find(program.constvars.begin(), program.constvars.end(), *v) != program.constvars.end();
}

// A product with parameters or constants as they stand. One that is masked may have no entry where it
// matters.
bool is_by_given_weight(const ETraceGraph& g, const Eqn& product) {
  std::size_t given = 0;
  for (const Atom& a : product.in) given += is_given(g, a) ? 1 : 0;
  return is_etp(*product.prim) ? given + 1 == product.in.size() : given > 0;
}

// From which positions of the sources every entry of a value comes, through operators that move entries, work
// on each, add some of them, or multiply rows by a matrix. Whatever else a value went through, nothing is
// known of it.
class EntrySources {
 public:
  EntrySources(const ETraceGraph& g, const Jaxpr& program, const std::vector<Var>& sources,
               const std::vector<Atom>& results, std::int64_t positions)
      : g_(g), step_(g.module_info.model.program), positions_(positions) {
    for (const Var& v : sources) enter(v);
    for (const Eqn* eqn : derivative_ways(program, results)) follow(*eqn);
  }

  // Do entries of a value surely come from other positions than their own? All must be read alike: where few
  // positions are read, what the others get may end there.
  bool moved(const Atom& a) const {
    const Entries* entries = of(a);
    if (entries == nullptr || !divides(entries->size())) return false;
    const std::size_t each = entries->size() / static_cast<std::size_t>(positions_);
    std::vector<std::size_t> readers(static_cast<std::size_t>(positions_), 0);
    bool other = false;
    for (std::size_t i = 0; i < entries->size(); ++i) {
      if ((*entries)[i].size() != entries->front().size()) return false;
      for (const std::int64_t from : (*entries)[i]) {
        ++readers[static_cast<std::size_t>(from)];
        other = other || from != static_cast<std::int64_t>(i / each);
      }
    }
    return other && std::count(readers.begin(), readers.end(), readers.front()) == positions_;
  }

 private:
  using Entries = std::vector<std::vector<std::int64_t>>;  // sorted positions per entry
  static constexpr std::size_t kMost = 1 << 20;            // numbers per value that are looked at

  bool divides(std::size_t entries) const {
    return entries > 0 && entries % static_cast<std::size_t>(positions_) == 0;
  }
  const Entries* of(const Atom& a) const {
    const Var* v = as_var(a);
    const auto it = v == nullptr ? known_.end() : known_.find(v->id);
    return it == known_.end() ? nullptr : &it->second;
  }
  bool is_unknown(const Atom& a) const {
    const Var* v = as_var(a);
    return v != nullptr && unknown_.contains(v->id);
  }
  // Positions lead; what stands behind them are states of one position.
  void enter(const Var& v) {
    const auto size = static_cast<std::size_t>(v.aval.shape.size());
    if (!divides(size)) {
      unknown_.insert(v.id);
      return;
    }
    Entries entries(size);
    for (std::size_t i = 0; i < size; ++i)
      entries[i] = {static_cast<std::int64_t>(i / (size / static_cast<std::size_t>(positions_)))};
    known_.emplace(v.id, std::move(entries));
  }

  void follow(const Eqn& eqn) {
    const auto any = [&](const auto& what) { return std::any_of(eqn.in.begin(), eqn.in.end(), what); };
    const bool lost = any([&](const Atom& a) { return is_unknown(a); });
    if (!lost && !any([&](const Atom& a) { return of(a) != nullptr; })) return;
    std::vector<Entries> out;
    if (!lost && is_entry_by_entry(eqn))
      out = {each(eqn)};
    else if (!lost && eqn.prim == &reduce_sum_p)
      out = {added(eqn)};
    else if (!lost && is_full_product(eqn))
      out = {multiplied(eqn)};
    else if (!lost && is_movement(eqn))
      out = moved_by(eqn);
    for (std::size_t k = 0; k < eqn.out.size(); ++k) {
      std::size_t numbers = 0;
      for (const auto& entry : k < out.size() ? out[k] : Entries()) numbers += entry.size();
      if (k < out.size() && numbers < kMost && is_floating(eqn.out[k].aval.dtype))
        known_.insert_or_assign(eqn.out[k].id, std::move(out[k]));
      else
        unknown_.insert(eqn.out[k].id);
    }
  }

  bool is_entry_by_entry(const Eqn& eqn) const {
    const auto size = static_cast<std::size_t>(eqn.out[0].aval.shape.size());
    return eqn.prim->spec.elementwise && nested_jaxprs(eqn).empty() &&
           std::all_of(eqn.in.begin(), eqn.in.end(), [&](const Atom& a) {
             const Entries* in = of(a);
             return in == nullptr || in->size() == size || in->size() == 1;
           });
  }
  static bool is_movement(const Eqn& eqn) {
    static const Primitive* const all[] = {&broadcast_in_dim_p, &reshape_p, &squeeze_p, &expand_dims_p,
                                           &transpose_p,        &rev_p,     &split_p,   &slice_p,
                                           &concatenate_p,      &stack_p,   &gather_p};
    return std::find(std::begin(all), std::end(all), eqn.prim) != std::end(all);
  }
  static void unite(std::vector<std::int64_t>& into, const std::vector<std::int64_t>& more) {
    std::vector<std::int64_t> both;
    std::set_union(into.begin(), into.end(), more.begin(), more.end(), std::back_inserter(both));
    into = std::move(both);
  }

  Entries each(const Eqn& eqn) const {
    Entries out(static_cast<std::size_t>(eqn.out[0].aval.shape.size()));
    for (const Atom& a : eqn.in)
      if (const Entries* in = of(a))
        for (std::size_t i = 0; i < out.size(); ++i) unite(out[i], (*in)[in->size() == 1 ? 0 : i]);
    return out;
  }
  Entries added(const Eqn& eqn) const {
    const Shape& shape = aval_of(eqn.in[0]).shape;
    const Dims axes = eqn.params.dims("axes");
    Entries out(static_cast<std::size_t>(eqn.out[0].aval.shape.size()));
    const Entries& in = *of(eqn.in[0]);
    for (std::size_t i = 0; i < in.size(); ++i) {
      std::int64_t rest = static_cast<std::int64_t>(i), to = 0, stride = 1;
      for (std::size_t a = shape.rank(); a-- > 0; rest /= shape[a]) {
        if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(a)) != axes.end()) continue;
        to += rest % shape[a] * stride;
        stride *= shape[a];
      }
      unite(out[static_cast<std::size_t>(to)], in[i]);
    }
    return out;
  }

  // Rows times a matrix: every entry of a row acts on all of the result's.
  bool is_full_product(const Eqn& eqn) const {
    if (!sums_fully(eqn) || !is_by_given_weight(g_, eqn) || of(eqn.in[0]) == nullptr) return false;
    if (std::any_of(eqn.in.begin() + 1, eqn.in.end(), [&](const Atom& a) { return of(a) != nullptr; }))
      return false;
    if (!eqn.prim->spec.product) return true;
    const DotDims d = dot_dims(eqn.params);
    return d.lhs_batch.empty() &&
           d.lhs_contract == Dims{static_cast<std::int64_t>(aval_of(eqn.in[0]).shape.rank()) - 1};
  }
  Entries multiplied(const Eqn& eqn) const {
    const Entries& x = *of(eqn.in[0]);
    Entries out(static_cast<std::size_t>(eqn.out[0].aval.shape.size()));
    const auto width = static_cast<std::size_t>(aval_of(eqn.in[0]).shape.back());
    const std::size_t rows = x.size() / width, each = out.size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<std::int64_t> all;
      for (std::size_t i = 0; i < width; ++i) unite(all, x[row * width + i]);
      for (std::size_t i = 0; i < each; ++i) out[row * each + i] = all;
    }
    return out;
  }

  // The operator itself says where entries go: it moves their numbers, counted from one.
  std::vector<Entries> moved_by(const Eqn& eqn) const {
    Arrays numbered;
    std::vector<const std::vector<std::int64_t>*> entries;
    for (const Atom& a : eqn.in) {
      const Aval type = aval_of(a);
      if (!is_floating(type.dtype)) {
        const std::optional<Array> value = constant(a);
        if (!value) return {};
        numbered.push_back(*value);
        continue;
      }
      std::vector<double> ids(static_cast<std::size_t>(type.shape.size()), 0.0);
      if (const Entries* in = of(a))
        for (std::size_t i = 0; i < ids.size(); ++i) {
          entries.push_back(&(*in)[i]);
          ids[i] = static_cast<double>(entries.size());
        }
      numbered.push_back(array(ids, type.shape, Dtype::F64));
    }
    std::vector<Entries> out;
    for (const Array& moved : bind_primitive(*eqn.prim, numbered, eqn.params)) {
      Entries to;
      for (const double id : moved.tensor().to_doubles())
        to.push_back(id == 0.0 ? std::vector<std::int64_t>() : *entries[static_cast<std::size_t>(id) - 1]);
      out.push_back(std::move(to));
    }
    return out;
  }
  std::optional<Array> constant(const Atom& a) const {
    const Var* v = as_var(a);
    if (v == nullptr) return std::nullopt;
    for (std::size_t i = 0; i < step_.consts.size(); ++i)
      if (step_.jaxpr.constvars[i] == *v) return step_.consts[i];
    return std::nullopt;
  }

  const ETraceGraph& g_;
  const ClosedJaxpr& step_;
  std::int64_t positions_;
  std::map<std::uint64_t, Entries> known_;
  VarIds unknown_;
};

}  // namespace

Degree positions_couple(const ETraceGraph& g, const Jaxpr& program, const std::vector<Var>& sources,
                        const std::vector<Atom>& results, const HiddenGroup& group) {
  if (group.varshape().size() == 1) return Degree::Never;
  Jaxpr part = program;
  part.outs = results;
  const PositionSweep sweep = sweep_positions(part, sources, group.varshape(), Compat::None);
  if (sweep.preserving()) return Degree::Never;
  const Eqn* at = sweep.mixing != nullptr ? sweep.mixing : sweep.at;
  const bool surely =
      at != nullptr && (at->prim == &reduce_sum_p || (sums_fully(*at) && is_by_given_weight(g, *at)));
  if (surely) return Degree::Surely;
  const EntrySources entries(g, program, sources, results, group.varshape().size());
  const bool moved =
      std::any_of(results.begin(), results.end(), [&](const Atom& a) { return entries.moved(a); });
  return moved ? Degree::Surely : Degree::Possibly;
}

}  // namespace etrace
