// The trace as a product of an input side and an output side, both low-pass filtered (pp_prop, ES-D-RTRL).
//   εx ← αx·εx + x        εf ← αf·D·εf + (1−αf)·∂h/∂y
//   grad θ = pull-back of y at x = εx with cotangent Σ_a signal·εf / (1 − αf^n)
// n counts the steps that εf has seen. The pull-back is linear in εx and in the cotangent, so the steps of a
// window share one, with the sum over them inside a product. Relations that share x share εx.
//
// In a window the filter moves from the input side to the cotangents c_k, where things are dense anyway:
//   Σ_k εx_k ⊗ c_k = Σ_k x_k ⊗ c̃_k + εx_0 ⊗ (αx·c̃_1)        c̃_k = c_k + αx·c̃_{k+1}
// so the product is with x itself, which is not copied and, where neurons spike, mostly zeros.
#include "learn/rules/filtered_sides.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "learn/traces/lists.h"
#include "learn/traces/operator_rules.h"
#include "learn/traces/routing.h"
#include "learn/traces/window.h"

namespace etrace {

namespace {

// Slots in order: for every relation the input side, unless an earlier relation has the same x, and then one
// output side per group.
struct FilterLayout {
  struct Relation {
    std::optional<std::size_t> x;  // slot
    std::size_t kept_x = 0;        // which kept value feeds it
    bool owns_x = false;
    std::vector<std::size_t> groups;  // slots
  };
  std::vector<Relation> relations;
  std::vector<TraceSlot> slots;
  std::vector<bool> zero_jacobian;  // per group

  explicit FilterLayout(const ETraceGraph& g) {
    for (const HiddenGroup& group : g.hidden_groups) zero_jacobian.push_back(has_zero_jacobian(group));
    std::size_t kept = 0;
    for (std::size_t r = 0; r < g.hidden_param_op_relations.size(); ++r) {
      const HiddenParamOpRelation& relation = g.hidden_param_op_relations[r];
      Relation entry;
      if (etp_rules(*relation.primitive)->x_operand) {
        for (std::size_t q = 0; q < r && !entry.x; ++q)
          if (same_x(g.hidden_param_op_relations[q], relation)) {
            entry.x = relations[q].x;
            entry.kept_x = relations[q].kept_x;
          }
        if (!entry.x) {
          entry.owns_x = true;
          entry.x = slots.size();
          entry.kept_x = kept++;
          slots.push_back({fmt::format("relation{}/x", r), x_trace_aval(relation), PortRole::Trace, r});
        }
      }
      for (const std::size_t k : relation.hidden_groups) {
        const HiddenGroup& group = g.hidden_groups[k];
        entry.groups.push_back(slots.size());
        slots.push_back({fmt::format("relation{}/group{}/df", r, k),
                         {relation.y_var.aval.dtype, {group.num_state(), group.varshape().size()}},
                         PortRole::Trace,
                         r});
      }
      relations.push_back(std::move(entry));
    }
  }

 private:
  static bool same_x(const HiddenParamOpRelation& a, const HiddenParamOpRelation& b) {
    return a.x_var && b.x_var && *a.x_var == *b.x_var && x_trace_aval(a) == x_trace_aval(b) &&
           etp_rules(*a.primitive)->x_representation == nullptr &&
           etp_rules(*b.primitive)->x_representation == nullptr;
  }
};

// 1 − α^n, at least 1e-8; 1 from the thousandth step on.
Array age_correction(const Array& age, double decay, Dtype dtype) {
  if (decay == 0.0) return full(age.shape(), 1.0, dtype);
  const Array n = convert(age, Dtype::F64);
  const Array c = maximum(1.0 - exp(n * std::log(decay)), 1e-8);
  return convert(where(n > 1000.0, full({}, 1.0, Dtype::F64), c), dtype);
}

Arrays with_step_axis(ArraySpan values) {
  Arrays out;
  for (const Array& v : values) out.push_back(v.defined() ? expand_dims(v, {0}) : v);
  return out;
}

constexpr std::int64_t kFilterBack = 4;  // steps from which one more product, for the entry, pays

// What meets every step's x, and what meets εx at the entry of the window.
struct FilteredBack {
  Array each, entry;  // [K, X], [1, X]
};
// Which εx a step's cotangent meets: the one with its own x in it, or the one from before.
enum class Meets : std::uint8_t { After, Before };
// c [K, X]; active [K] or undefined: steps that the filter does not see.
FilteredBack filter_back(const Array& c, double decay, const Array& active, Meets meets) {
  const bool without_own = meets == Meets::Before;
  Arrays xs{c};
  if (active.defined()) xs.push_back(active);
  const ScanResult r = scan(
      [&](ArraySpan carry, ArraySpan now) -> ScanResult {
        const Array met = without_own ? carry[0] : now[0] + carry[0];
        Array each = met, left = decay * met;
        if (active.defined()) {
          each = where(now[1], met, full_like(met, 0.0));
          left = where(now[1], left, met);
        }
        return {{without_own ? now[0] + left : left}, {each}};
      },
      {zeros_of({c.dtype(), c.shape().without(0)})}, xs, {.reverse = true});
  return {r.ys[0], expand_dims(r.carry[0], {0})};
}

class FilteredSides final : public BoundRule {
 public:
  FilteredSides(const ETraceGraph& g, SideOptions options)
      : g_(g),
        layout_(g),
        options_(std::move(options)),
        decay_x_(options_.decay_x),
        decay_f_(options_.decay_f) {
    for (std::size_t k = 0; k < layout_.zero_jacobian.size(); ++k)
      if (options_.leak_f) layout_.zero_jacobian[k] = false;
  }

  std::vector<TraceSlot> slots() const override { return layout_.slots; }

  std::vector<EligibilityTrace> traces(ArraySpan, ArraySpan memory) const override {
    std::vector<EligibilityTrace> out;
    for (std::size_t r = 0; r < layout_.relations.size(); ++r) {
      const HiddenParamOpRelation& relation = g_.hidden_param_op_relations[r];
      std::vector<StatePath> params;
      for (const TrainableSource& t : relation.trainables)
        for (const auto& leaf : t.leaves)
          if (std::find(params.begin(), params.end(), leaf.first) == params.end())
            params.push_back(leaf.first);
      if (const auto x = layout_.relations[r].x)
        out.push_back({fmt::format("relation{}/x", r), memory[*x], params});
      for (std::size_t k = 0; k < relation.hidden_groups.size(); ++k) {
        const HiddenGroup& group = g_.hidden_groups[relation.hidden_groups[k]];
        const Array& f = memory[layout_.relations[r].groups[k]];
        Dims dims = group.varshape().to_dims();
        dims.push_back(group.num_state());
        out.push_back(
            {fmt::format("relation{}/group{}/df", r, group.index), reshape(transpose(f), dims), params});
      }
    }
    return out;
  }

  Arrays keep(const StepData& data) const override {
    Arrays out;
    for (std::size_t r = 0; r < layout_.relations.size(); ++r) {
      if (!layout_.relations[r].owns_x) continue;
      const HiddenParamOpRelation& relation = g_.hidden_param_op_relations[r];
      out.push_back(x_trace(relation, data.operands[r][*etp_rules(*relation.primitive)->x_operand]));
    }
    return out;
  }

  OwnStep own_step() const override { return OwnStep::Factors; }
  Advanced advance(const WindowData& w, ArraySpan old, const Signals& signals) const override;

  // The reference counts the calls, this one included; the correction of the old trace is that of its own
  // age.
  Arrays contract(const WindowData& w, ArraySpan memory, ArraySpan signal) const override {
    const Array age = g_.options.compat == Compat::Braintrace ? w.calls + Array(1) : w.age;
    const Arrays sides = with_step_axis(memory);
    GradientRouter router(g_, w.params);
    const Array ages = expand_dims(age, {0});
    for (std::size_t r = 0; r < layout_.relations.size(); ++r) {
      const FilterLayout::Relation& entry = layout_.relations[r];
      Arrays f;
      for (const std::size_t slot : entry.groups) f.push_back(sides[slot]);
      add_gradients(router, w, r, {entry.x ? sides[*entry.x] : Array(), {}, {}}, f,
                    signals_of(with_step_axis(signal)), ages, Meets::After);
    }
    return router.result();
  }

 private:
  // [K, *varshape, S] -> [K, S, X]
  Arrays signals_of(ArraySpan signals) const {
    Arrays out;
    for (std::size_t k = 0; k < signals.size(); ++k)
      out.push_back(states_first(g_.hidden_groups[k], signals[k], 1));
    return out;
  }

  // The input side of one relation: as every step's signal meets it, [K, …]; in a window also what every step
  // adds, and what was there at its entry.
  struct InputSide {
    Array met, added, entry;
  };

  // Gradients of one relation from its sides [K, …], signals [K, S, X] per group, and ages [K].
  void add_gradients(GradientRouter& router, const WindowData& w, std::size_t r, const InputSide& x,
                     ArraySpan f, ArraySpan signals, const Array& ages, Meets meets) const {
    const HiddenParamOpRelation& relation = g_.hidden_param_op_relations[r];
    for (std::size_t k = 0; k < relation.hidden_groups.size(); ++k) {
      const HiddenGroup& group = g_.hidden_groups[relation.hidden_groups[k]];
      const std::int64_t steps = f[k].shape()[0];
      const Array scale = reshape(age_correction(ages, decay_f_, f[k].dtype()), {steps, 1});
      const Array ct = reduce_sum(signals[group.index] * f[k], {1}) / scale;  // [K, X]
      std::optional<FilteredBack> back;
      for (const TrainableSource& t : relation.trainables) {
        const TraceSlots slots(relation, t, group, g_.options.compat);
        const auto pulled = [&](const Array& data, const Array& c) {
          return slots.pull(w.operands[r], data,
                            reshape(c, group.varshape().with_front(c.shape()[0]).to_dims()));
        };
        if (!x.added.defined() || !slots.has_source() || !slots.is_product_of_data()) {
          router.add(t, pulled(x.met, ct));
          continue;
        }
        if (!back) back = filter_back(ct, decay_x_, w.active, meets);
        router.add(t, pulled(x.added, back->each) + pulled(x.entry, back->entry));
      }
    }
  }

  // Per relation its x, if it has one, then its f per group.
  Arrays by_relation(ArraySpan slots) const {
    Arrays out;
    for (const FilterLayout::Relation& entry : layout_.relations) {
      if (entry.x) out.push_back(slots[*entry.x]);
      for (const std::size_t slot : entry.groups) out.push_back(slots[slot]);
    }
    return out;
  }

  // One step: both sides after it, and as its signal meets them, by relation.
  struct Moved {
    Arrays after, met;
  };
  Moved move(ArraySpan old, ArraySpan x, ArraySpan df, ArraySpan jacobians,
             std::span<const OwnPart> own) const {
    Moved out{Arrays(layout_.slots.size()), {}};
    std::size_t next_df = 0;
    for (std::size_t r = 0; r < layout_.relations.size(); ++r) {
      const FilterLayout::Relation& entry = layout_.relations[r];
      if (entry.owns_x) out.after[*entry.x] = decay_x_ * old[*entry.x] + x[entry.kept_x];
      const bool without_own = !own[r].meets_signal;
      if (entry.x) out.met.push_back((without_own ? ArraySpan(old) : ArraySpan(out.after))[*entry.x]);
      for (std::size_t k = 0; k < entry.groups.size(); ++k) {
        const std::size_t slot = entry.groups[k], group = g_.hidden_param_op_relations[r].hidden_groups[k];
        const Array injected = (1.0 - decay_f_) * df[next_df++];
        const Array carried = layout_.zero_jacobian[group] ? Array()
                              : options_.leak_f
                                  ? old[slot]
                                  : reduce_sum(jacobians[group] * expand_dims(old[slot], {0}), {1});
        out.after[slot] = carried.defined() ? decay_f_ * carried + injected : injected;
        out.met.push_back(!without_own        ? out.after[slot]
                          : carried.defined() ? carried
                                              : full_like(injected, 0.0));
      }
    }
    return out;
  }

  const ETraceGraph& g_;
  FilterLayout layout_;
  SideOptions options_;
  double decay_x_, decay_f_;
};

BoundRule::Advanced FilteredSides::advance(const WindowData& w, ArraySpan old, const Signals& signals) const {
  if (w.active.defined() && w.active.rank() == 2)
    throw NotSupportedError(options_.rule,
                            "padding that differs between the samples of a batch: the smoothing counts "
                            "steps of the whole batch. Use a mask without freeze, or D_RTRL");
  // Everything that differs between steps, as one list: x, df, D, active.
  Arrays xs = w.kept;
  for (std::size_t r = 0; r < w.df.size(); ++r)
    for (std::size_t k = 0; k < w.df[r].size(); ++k)
      xs.push_back(
          states_first(g_.hidden_groups[g_.hidden_param_op_relations[r].hidden_groups[k]], w.df[r][k], 1));
  const std::size_t num_x = w.kept.size(), num_df = xs.size() - num_x, num_d = w.jacobians.size();
  for (std::size_t k = 0; k < num_d; ++k) xs.push_back(states_first(g_.hidden_groups[k], w.jacobians[k], 2));
  if (w.active.defined()) xs.push_back(w.active);
  const bool learns = !signals.each_step.empty(), reads_before = !signals.before_step.empty();
  const ScanResult r = over_steps(
      w.steps,
      [&](ArraySpan before, ArraySpan now) -> ScanResult {
        Moved m = move(before, now.first(num_x), now.subspan(num_x, num_df),
                       now.subspan(num_x + num_df, num_d), w.own);
        if (w.active.defined())
          for (std::size_t i = 0; i < m.after.size(); ++i)
            m.after[i] = where(now.back(), m.after[i], before[i]);
        return {m.after, joined({learns ? m.met : Arrays{}, reads_before ? by_relation(before) : Arrays{}})};
      },
      Arrays(old.begin(), old.end()), xs);
  Advanced result{r.carry, {}};
  if (learns) {
    // Ages before and after each step.
    const Array counted = w.active.defined() ? cumsum(convert(w.active, Dtype::I32), 0)
                                             : arange(w.steps, Dtype::I32) + Array(1);
    const Array after = w.age + counted,
                before = after - (w.active.defined() ? convert(w.active, Dtype::I32) : ones_like(counted));
    GradientRouter router(g_, w.params);
    ArraySpan sides = r.ys;
    const auto add = [&](const Arrays& signal, bool own) {
      for (std::size_t i = 0; i < layout_.relations.size(); ++i) {
        const FilterLayout::Relation& entry = layout_.relations[i];
        InputSide x;
        if (entry.x) x.met = take_front(sides, 1)[0];
        if (entry.x && w.steps >= kFilterBack) {
          x.added = w.kept[entry.kept_x];
          x.entry = expand_dims(old[*entry.x], {0});
        }
        const bool meets_own = own && w.own[i].meets_signal;
        add_gradients(router, w, i, x, take_front(sides, entry.groups.size()), signal,
                      meets_own ? after : before, meets_own ? Meets::After : Meets::Before);
      }
    };
    add(signals_of(signals.each_step), true);
    if (reads_before) add(signals_of(signals.before_step), false);
    result.gradients = router.result();
  }
  if (!signals.entry.empty()) {
    const Arrays entry = contract(w, old, signals.entry);
    result.gradients.resize(entry.size());
    for (std::size_t i = 0; i < entry.size(); ++i)
      result.gradients[i] = add_cotangents(result.gradients[i], entry[i]);
  }
  return result;
}

}  // namespace

std::unique_ptr<const BoundRule> filtered_sides(const ETraceGraph& g, const SideOptions& options) {
  refuse_inner_loops(g, options.rule, "the factorised trace has one x per step");
  refuse_further_data(g, options.rule, "the factorised trace filters x alone");
  return std::make_unique<FilteredSides>(g, options);
}

}  // namespace etrace
