#include "learn/plan/step_split.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "etrace/control.h"
#include "etrace/ops/index.h"
#include "etrace/ops/numpy.h"
#include "transform/env.h"

namespace etrace {

namespace {

using Ids = std::unordered_set<std::uint64_t>;
constexpr unsigned kData = 1, kState = 2;  // what a value depends on

class Dependence {
 public:
  Dependence(const Jaxpr& jaxpr, const std::vector<StepSplit::Input>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == StepSplit::Input::PerStep) bits_[jaxpr.invars[i].id] = kData;
      if (inputs[i] == StepSplit::Input::Carried) bits_[jaxpr.invars[i].id] = kState;
    }
    for (const Eqn& eqn : jaxpr.eqns) {
      unsigned bits = 0;
      for (const Atom& a : eqn.in) bits |= of(a);
      for (const Var& v : eqn.out) bits_[v.id] = bits;
    }
  }
  unsigned of(const Atom& a) const {
    const Var* v = as_var(a);
    const auto it = v == nullptr ? bits_.end() : bits_.find(v->id);
    return it == bits_.end() ? 0 : it->second;
  }

 private:
  std::unordered_map<std::uint64_t, unsigned> bits_;
};

constexpr std::int64_t kWide = 8;  // times the largest port of a step

// Results, and inputs that a step has of its own.
std::int64_t largest_port(const Jaxpr& jaxpr, const std::vector<StepSplit::Input>& inputs) {
  std::int64_t most = 1;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] != StepSplit::Input::Fixed) most = std::max(most, jaxpr.invars[i].aval.shape.size());
  for (const Atom& a : jaxpr.outs) most = std::max(most, aval_of(a).shape.size());
  return most;
}

// Everything that the first `count` results need.
Ids needed_for(const Jaxpr& jaxpr, std::size_t count) {
  Ids out;
  for (std::size_t i = 0; i < count; ++i)
    if (const Var* v = as_var(jaxpr.outs[i])) out.insert(v->id);
  for (std::size_t i = jaxpr.eqns.size(); i-- > 0;) {
    const Eqn& eqn = jaxpr.eqns[i];
    if (std::none_of(eqn.out.begin(), eqn.out.end(), [&](const Var& v) { return out.contains(v.id); }))
      continue;
    for (const Atom& a : eqn.in)
      if (const Var* v = as_var(a)) out.insert(v->id);
  }
  return out;
}

}  // namespace

StepSplit::StepSplit(ClosedJaxpr step, std::vector<Input> inputs, std::vector<bool> per_sample)
    : step_(std::move(step)), inputs_(std::move(inputs)), per_sample_(std::move(per_sample)) {
  const Jaxpr& jaxpr = step_.jaxpr;
  num_carried_ = static_cast<std::size_t>(std::count(inputs_.begin(), inputs_.end(), Input::Carried));
  const Dependence depends(jaxpr, inputs_);
  const Ids sequential = needed_for(jaxpr, num_carried_);
  const std::int64_t wide = kWide * largest_port(jaxpr, inputs_);
  Ids from_wide;  // what wide values reach, and themselves
  std::vector<Part*> places;
  for (const Eqn& eqn : jaxpr.eqns) {
    const unsigned bits = eqn.out.empty() ? 0 : depends.of(eqn.out[0]);
    const bool needed =
        std::any_of(eqn.out.begin(), eqn.out.end(), [&](const Var& v) { return sequential.contains(v.id); });
    const bool widens =
        std::any_of(eqn.out.begin(), eqn.out.end(), [&](const Var& v) { return v.aval.shape.size() > wide; });
    const bool narrows = std::any_of(eqn.in.begin(), eqn.in.end(), [&](const Atom& a) {
      const Var* v = as_var(a);
      return v != nullptr && from_wide.contains(v->id);
    });
    places.push_back(bits == 0           ? &fixed_
                     : needed            ? (bits == kData ? &before_ : &body_)
                     : widens || narrows ? &wide_
                                         : &after_);
    if (places.back() == &wide_)
      for (const Var& v : eqn.out) from_wide.insert(v.id);
  }
  read_in_loop(places);
  for (std::size_t i = 0; i < places.size(); ++i) places[i]->eqns.push_back(jaxpr.eqns[i]);
  // What a part reads from elsewhere, and what others read from it.
  Ids constants;
  for (const Var& v : jaxpr.constvars) constants.insert(v.id);
  const auto read_by = [&](Part& part) {
    Ids own;
    for (const Eqn& eqn : part.eqns) {
      for (const Atom& a : eqn.in)
        if (const Var* v = as_var(a); v != nullptr && !own.contains(v->id) && !constants.contains(v->id)) {
          part.in.push_back(*v);
          own.insert(v->id);  // once
        }
      for (const Var& v : eqn.out) own.insert(v.id);
    }
  };
  for (Part* part : {&fixed_, &before_, &body_, &after_, &wide_}) read_by(*part);
  Ids read;  // across parts, or as a result
  for (const Part* part : {&before_, &body_, &after_, &wide_})
    for (const Var& v : part->in) read.insert(v.id);
  for (const Atom& a : jaxpr.outs)
    if (const Var* v = as_var(a)) read.insert(v->id);
  for (Part* part : {&fixed_, &before_, &body_, &after_, &wide_})
    for (const Eqn& eqn : part->eqns)
      for (const Var& v : eqn.out)
        if (read.contains(v.id)) part->out.push_back(v);
  for (std::size_t i = num_carried_; i < jaxpr.outs.size(); ++i)
    out_stacked_.push_back(depends.of(jaxpr.outs[i]) != 0);
}

// What reads a few places of a state, as a delay does of its ring, reads them in the loop: after it, all that
// the state was at every step would have to be handed on.
void StepSplit::read_in_loop(std::vector<Part*>& places) {
  const std::vector<Eqn>& eqns = step_.jaxpr.eqns;
  std::unordered_map<std::uint64_t, std::size_t> made_by;
  for (std::size_t i = 0; i < eqns.size(); ++i)
    for (const Var& v : eqns[i].out) made_by[v.id] = i;
  Ids carried;
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i] == Input::Carried) carried.insert(step_.jaxpr.invars[i].id);
  const auto place_of = [&](const Atom& a) -> Part* {
    const Var* v = as_var(a);
    const auto it = v == nullptr ? made_by.end() : made_by.find(v->id);
    return it == made_by.end() ? nullptr : places[it->second];
  };
  const auto of_loop = [&](const Atom& a) {
    return place_of(a) == &body_ || (as_var(a) != nullptr && carried.contains(as_var(a)->id));
  };
  // The equations after the loop that one needs, none of them larger than what it gives; itself included.
  const auto with_makers = [&](const auto& self, std::size_t i, std::int64_t most,
                               std::vector<std::size_t>& all) {
    for (const Var& v : eqns[i].out)
      if (v.aval.shape.size() > most) return false;
    all.push_back(i);
    for (const Atom& a : eqns[i].in) {
      if (place_of(a) == &wide_) return false;
      if (place_of(a) == &after_ && !self(self, made_by.at(as_var(a)->id), most, all)) return false;
    }
    return true;
  };
  for (std::size_t i = 0; i < eqns.size(); ++i) {
    const Eqn& eqn = eqns[i];
    if (places[i] != &after_ || (eqn.prim != &gather_p && eqn.prim != &dynamic_slice_p)) continue;
    const std::int64_t read = eqn.out[0].aval.shape.size();
    std::vector<std::size_t> all;
    if (!of_loop(eqn.in[0]) || aval_of(eqn.in[0]).shape.size() < 2 * read) continue;
    if (!with_makers(with_makers, i, read, all)) continue;
    for (const std::size_t k : all) places[k] = &body_;
  }
}

Arrays StepSplit::eval(const Part& part, ArraySpan in) const {
  Jaxpr jaxpr{step_.jaxpr.constvars, part.in, part.eqns, {}};
  jaxpr.outs.assign(part.out.begin(), part.out.end());
  const Arrays consts = to_arrays(step_.consts);
  return eval_jaxpr(jaxpr, consts, in);
}

Array StepSplit::Result::all_steps(std::size_t i, std::int64_t steps) const {
  if (stacked[i]) return outs[i];
  return broadcast_to(expand_dims(outs[i], {0}), outs[i].shape().with_front(steps));
}

Array unless_frozen(const Array& active, const Array& next, const Array& old, bool per_sample) {
  if (!active.defined()) return next;
  if (active.rank() == 0) return where(active, next, old);
  if (!per_sample) return where(any(active), next, old);
  Dims dims(next.rank(), 1);
  dims[0] = active.shape()[0];
  return where(reshape(active, dims), next, old);
}

// One step: written out.
StepSplit::Result StepSplit::run_once(ArraySpan inputs, const Array& active) const {
  Arrays now;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    now.push_back(inputs_[i] == Input::PerStep ? squeeze(inputs[i], {0}) : inputs[i]);
  const Arrays out = eval_jaxpr(step_, now);
  Result r;
  r.stacked = out_stacked_;
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs_[i] == Input::Carried) {
      r.carried.push_back(unless_frozen(active.defined() ? squeeze(active, {0}) : active, out[next], now[i],
                                        per_sample_[next]));
      ++next;
    }
  for (std::size_t i = num_carried_; i < out.size(); ++i)
    r.outs.push_back(out_stacked_[i - num_carried_] ? expand_dims(out[i], {0}) : out[i]);
  return r;
}

StepSplit::Result StepSplit::run(std::int64_t steps, ArraySpan inputs, const Array& active) const {
  if (steps == 1) return run_once(inputs, active);
  const Jaxpr& jaxpr = step_.jaxpr;
  Env fixed, stacked;  // values that are the same for all steps; [K, …]
  for (std::size_t i = 0; i < step_.consts.size(); ++i) fixed.set(jaxpr.constvars[i], step_.consts[i]);
  Arrays init;
  std::vector<Var> carried;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs_[i] == Input::Fixed) fixed.set(jaxpr.invars[i], inputs[i]);
    if (inputs_[i] == Input::PerStep) stacked.set(jaxpr.invars[i], inputs[i]);
    if (inputs_[i] != Input::Carried) continue;
    init.push_back(inputs[i]);
    carried.push_back(jaxpr.invars[i]);
  }
  const auto keep = [](Env& env, const std::vector<Var>& vars, ArraySpan values) {
    for (std::size_t i = 0; i < vars.size(); ++i) env.set(vars[i], values[i]);
  };
  keep(fixed, fixed_.out, eval(fixed_, fixed.get_all(fixed_.in)));

  // A part for all steps, from what is stacked and what is fixed: at once, or one after the other.
  const auto for_all = [&](const Part& part, bool at_once) {
    std::vector<Var> mapped;
    for (const Var& v : part.in)
      if (stacked.get(v).defined()) mapped.push_back(v);
    if (part.out.empty()) return;
    const Function one = [&](ArraySpan now) {
      Env env = fixed;
      keep(env, mapped, now);
      return eval(part, env.get_all(part.in));
    };
    const Arrays xs = stacked.get_all(mapped);
    const auto one_by_one = [&] {
      return scan(
                 [&](ArraySpan, ArraySpan now) -> ScanResult {
                   return {{}, one(now)};
                 },
                 {}, xs, {.length = steps})
          .ys;
    };
    keep(stacked, part.out, at_once ? vmap(one)(xs) : one_by_one());
  };
  for_all(before_, true);

  // The loop: reads what is stacked, hands on its own values and the states at entry.
  std::vector<Var> read;
  const auto read_stacked = [&](const Var& v) {
    if (stacked.get(v).defined() && std::find(read.begin(), read.end(), v) == read.end()) read.push_back(v);
  };
  for (const Var& v : body_.in) read_stacked(v);
  for (std::size_t i = 0; i < num_carried_; ++i)  // new values that need no state
    if (const Var* v = as_var(jaxpr.outs[i])) read_stacked(*v);
  Arrays xs = stacked.get_all(read);
  if (active.defined()) xs.push_back(active);
  std::vector<Var> handed_on;
  Ids wanted;
  for (const Part* part : {&after_, &wide_})
    for (const Var& v : part->in) wanted.insert(v.id);
  for (std::size_t i = num_carried_; i < jaxpr.outs.size(); ++i)
    if (const Var* v = as_var(jaxpr.outs[i])) wanted.insert(v->id);
  for (const std::vector<Var>* list : std::array<const std::vector<Var>*, 2>{&carried, &body_.out})
    for (const Var& v : *list)
      if (wanted.contains(v.id)) handed_on.push_back(v);
  ScanResult loop = scan(
      [&](ArraySpan carry, ArraySpan now) -> ScanResult {
        Env env = fixed;
        keep(env, carried, carry);
        keep(env, read, now.first(read.size()));
        keep(env, body_.out, eval(body_, env.get_all(body_.in)));
        ScanResult s;
        for (std::size_t i = 0; i < num_carried_; ++i) {
          const Array next = env.get(jaxpr.outs[i]);
          s.carry.push_back(
              unless_frozen(active.defined() ? now.back() : Array(), next, carry[i], per_sample_[i]));
        }
        s.ys = env.get_all(handed_on);
        return s;
      },
      init, xs, {.length = steps});
  keep(stacked, handed_on, loop.ys);
  for_all(after_, true);
  for_all(wide_, false);

  Result r;
  r.carried = std::move(loop.carry);
  r.stacked = out_stacked_;
  for (std::size_t i = num_carried_; i < jaxpr.outs.size(); ++i) {
    const Var* v = as_var(jaxpr.outs[i]);
    r.outs.push_back(v != nullptr && stacked.get(*v).defined() ? stacked.get(*v) : fixed.get(jaxpr.outs[i]));
  }
  return r;
}

}  // namespace etrace
