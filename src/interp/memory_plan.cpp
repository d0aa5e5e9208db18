// Planning in five parts: number the values; decide which aliased results are written in place, which orders
// the equations; order them; give every result its place; order the copies that remain. Start at
// Planner::plan.
#include "interp/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>
#include <unordered_map>

#include "etrace/error.h"
#include "interp/arena.h"

namespace etrace {

Values number_values(const Jaxpr& jaxpr, const std::vector<Kernel>& kernels) {
  Values out;
  std::unordered_map<std::uint64_t, std::size_t> of;  // by id of the Var
  auto add = [&](Values::Source source, std::size_t index, std::size_t result, std::size_t bytes) {
    out.all.push_back({source, index, result, bytes});
    return out.all.size() - 1;
  };
  auto value_of = [&](const Atom& a) {
    if (const Var* v = as_var(a)) return of.at(v->id);
    out.literals.push_back(std::get<Literal>(a));
    return add(Values::Source::Literal, out.literals.size() - 1, 0, aval_of(a).bytes());
  };
  for (std::size_t i = 0; i < jaxpr.constvars.size(); ++i)
    of[jaxpr.constvars[i].id] = add(Values::Source::Constant, i, 0, jaxpr.constvars[i].aval.bytes());
  for (std::size_t i = 0; i < jaxpr.invars.size(); ++i)
    out.arguments.push_back(of[jaxpr.invars[i].id] =
                                add(Values::Source::Argument, i, 0, jaxpr.invars[i].aval.bytes()));
  for (std::size_t e = 0; e < jaxpr.eqns.size(); ++e) {
    const Eqn& eqn = jaxpr.eqns[e];
    std::vector<std::size_t>&operands = out.operands.emplace_back(), &results = out.results.emplace_back();
    for (const Atom& a : eqn.in) operands.push_back(value_of(a));
    for (std::size_t k = 0; k < eqn.out.size(); ++k)
      results.push_back(of[eqn.out[k].id] = kernels[e].view
                                                ? operands[0]
                                                : add(Values::Source::Call, e, k, eqn.out[k].aval.bytes()));
  }
  for (const Atom& a : jaxpr.outs) out.outs.push_back(value_of(a));
  return out;
}

bool may_replace(const Kernel& kernel, const std::vector<std::size_t>& operands, std::size_t result,
                 std::size_t value) {
  bool read = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] != value) continue;
    read = true;
    if (std::none_of(kernel.in_place.begin(), kernel.in_place.end(),
                     [&](const InPlace& p) { return p.result == result && p.operand == i; }))
      return false;
  }
  return read;
}

namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// Which equation must run before which.
class Order {
 public:
  Order(const Values& values, const std::vector<Kernel>& kernels) : after_(kernels.size()) {
    for (std::size_t e = 0; e < kernels.size(); ++e) {
      called_.push_back(!kernels[e].view);
      if (!called_[e]) continue;
      for (const std::size_t v : values.operands[e])
        if (values.is_computed(v)) require(values.all[v].index, e);
    }
  }

  void require(std::size_t first, std::size_t then) {
    if (first != then) after_[first].push_back(then);
  }

  // Whether `later` has to wait for `first`.
  bool reaches(std::size_t first, std::size_t later) const {
    std::vector<bool> seen(after_.size(), false);
    std::vector<std::size_t> open{first};
    while (!open.empty()) {
      const std::size_t e = open.back();
      open.pop_back();
      if (e == later) return true;
      for (const std::size_t next : after_[e])
        if (!seen[next]) seen[next] = true, open.push_back(next);
    }
    return false;
  }

  // As in the program, except for what must wait.
  std::vector<std::size_t> sorted() const {
    std::vector<std::size_t> waits(after_.size(), 0), out;
    for (const auto& list : after_)
      for (const std::size_t e : list) ++waits[e];
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t e = 0; e < waits.size(); ++e)
      if (waits[e] == 0 && called_[e]) ready.push(e);
    while (!ready.empty()) {
      out.push_back(ready.top());
      ready.pop();
      for (const std::size_t e : after_[out.back()])
        if (--waits[e] == 0) ready.push(e);
    }
    return out;
  }

 private:
  std::vector<std::vector<std::size_t>> after_;
  std::vector<bool> called_;
};

class Planner {
 public:
  Planner(const Values& values, const std::vector<Kernel>& kernels, const std::vector<Alias>& aliases)
      : values_(values),
        kernels_(kernels),
        aliases_(aliases),
        order_(values, kernels),
        replaced_by_(values.arguments.size(), kNone),
        replaces_(values.outs.size(), kNone),
        home_(values.size()),
        in_place_(values.outs.size(), kNone),
        readers_(values.size()),
        last_use_(values.size(), 0) {
    for (const Alias& a : aliases) {
      replaced_by_[a.argument] = a.result;
      replaces_[a.result] = a.argument;
    }
    for (std::size_t e = 0; e < kernels.size(); ++e)
      if (!kernels[e].view)
        for (const std::size_t v : values.operands[e]) readers_[v].push_back(e);
  }

  MemoryPlan plan() {
    write_in_place();
    claim_results();
    number_steps();
    place_values();
    plan_copies();
    plan_.arena_bytes = arena_.high_water();
    return std::move(plan_);
  }

 private:
  // Aliases, the largest first: each that can be written in place orders the equations.
  void write_in_place() {
    std::vector<std::size_t> by_size(aliases_.size());
    std::iota(by_size.begin(), by_size.end(), 0);
    std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
      return bytes_of(aliases_[a]) > bytes_of(aliases_[b]);
    });
    for (const std::size_t i : by_size) {
      const auto [result, argument] = aliases_[i];
      const std::size_t value = values_.outs[result], old = values_.arguments[argument];
      if (!values_.is_computed(value) || home_[value] || moved_at_end(argument)) continue;
      if (!can_wait_for_readers(value, old)) continue;
      in_place_[result] = value;
      std::vector<std::size_t> chain;
      if (!find_chain(value, old, chain)) chain = {value};
      for (const std::size_t v : chain) home_[v] = Place{Place::Result, result};
      const std::size_t first_writer = values_.all[chain.back()].index;
      for (const std::size_t reader : readers_[old]) order_.require(reader, first_writer);
    }
  }

  // From a value back to the old one that it replaces, by kernels in place of values that nobody else reads:
  // the whole chain can lie there.
  bool find_chain(std::size_t value, std::size_t old, std::vector<std::size_t>& chain) const {
    const auto& [source, eqn, result, bytes] = values_.all[value];
    chain.push_back(value);
    const std::vector<std::size_t>& operands = values_.operands[eqn];
    for (auto it = operands.begin(); it != operands.end(); ++it) {
      const std::size_t u = *it;
      if (std::find(operands.begin(), it, u) != it || !may_replace(kernels_[eqn], operands, result, u))
        continue;
      if (u == old ? can_wait_for_readers(value, old)
                   : values_.is_computed(u) && read_once(u) && find_chain(u, old, chain))
        return true;
    }
    chain.pop_back();
    return false;
  }
  bool read_once(std::size_t v) const {
    const auto elsewhere = [&](std::size_t e) { return e != readers_[v][0]; };
    return !home_[v] && !readers_[v].empty() &&
           std::none_of(readers_[v].begin(), readers_[v].end(), elsewhere) &&
           std::find(values_.outs.begin(), values_.outs.end(), v) == values_.outs.end();
  }

  std::size_t bytes_of(const Alias& a) const { return values_.all[values_.outs[a.result]].bytes; }

  // The argument itself is what replaces another one: its old value is needed at the end.
  bool moved_at_end(std::size_t argument) const {
    for (const Alias& a : aliases_)
      if (a.argument != argument && values_.outs[a.result] == values_.arguments[argument]) return true;
    return false;
  }

  // All other reads of the old value can come before the equation that writes the new one.
  bool can_wait_for_readers(std::size_t value, std::size_t old) const {
    const auto [source, writer, result, bytes] = values_.all[value];
    for (const std::size_t reader : readers_[old])
      if (reader == writer ? !may_replace(kernels_[writer], values_.operands[writer], result, old)
                           : order_.reaches(writer, reader))
        return false;
    return true;
  }

  // The first plain result that names a value is where it is computed.
  void claim_results() {
    for (std::size_t r = 0; r < values_.outs.size(); ++r) {
      const std::size_t v = values_.outs[r];
      if (replaces_[r] == kNone && values_.is_computed(v) && !home_[v]) home_[v] = Place{Place::Result, r};
    }
  }

  // When each value is read for the last time; the end of the run is one more step.
  void number_steps() {
    const std::vector<std::size_t> order = order_.sorted();
    end_ = order.size();
    step_of_.assign(kernels_.size(), kNone);
    for (std::size_t i = 0; i < order.size(); ++i) {
      plan_.calls.push_back({order[i], {}, {}, 0});
      step_of_[order[i]] = i;
      for (const std::size_t v : values_.operands[order[i]]) last_use_[v] = i;
      for (const std::size_t v : values_.results[order[i]]) last_use_[v] = i;
    }
    for (std::size_t r = 0; r < values_.outs.size(); ++r)
      if (!copied_before(r)) last_use_[values_.outs[r]] = end_;
  }

  // Arguments that are plain results are copied before anything is overwritten.
  bool copied_before(std::size_t r) const {
    return replaces_[r] == kNone && values_.is_argument(values_.outs[r]);
  }

  void place_values() {
    places_.resize(values_.size());
    for (std::size_t v = 0; v < values_.size(); ++v) {
      const auto& [source, index, result, bytes] = values_.all[v];
      if (source == Values::Source::Argument) places_[v] = {Place::Argument, index};
      if (source == Values::Source::Constant) places_[v] = {Place::Constant, index};
      if (source == Values::Source::Literal) places_[v] = {Place::Literal, index};
    }
    handed_on_.assign(values_.size(), false);
    for (std::size_t step = 0; step < plan_.calls.size(); ++step) {
      MemoryPlan::Call& call = plan_.calls[step];
      const std::size_t results = values_.results[call.eqn].size();
      for (std::size_t k = 0; k < results; ++k) place_at_home(call.eqn, k);
      for (std::size_t k = 0; k < results; ++k) place_result(call.eqn, k, step);
      const std::size_t scratch = kernels_[call.eqn].scratch_bytes;
      if (scratch != 0) {
        call.scratch = arena_.take(scratch);
        arena_.give(call.scratch, scratch);
      }
      release_dead(values_.operands[call.eqn], step);
      release_dead(values_.results[call.eqn], step);
      for (const std::size_t v : values_.operands[call.eqn]) call.in.push_back(places_[v]);
      for (const std::size_t v : values_.results[call.eqn]) call.out.push_back(places_[v]);
    }
  }

  void place_at_home(std::size_t eqn, std::size_t k) {
    const std::size_t v = values_.results[eqn][k];
    if (!home_[v]) return;
    places_[v] = *home_[v];
    for (const std::size_t u : values_.operands[eqn])  // what lay there is nobody else's to overwrite
      if (places_[u] == *home_[v] || places_[u] == Place{Place::Argument, replaces_[home_[v]->index]})
        handed_on_[u] = true;
  }

  void place_result(std::size_t eqn, std::size_t k, std::size_t step) {
    const std::size_t v = values_.results[eqn][k];
    if (home_[v]) return;
    for (const std::size_t u : values_.operands[eqn])
      if (last_use_[u] == step && !handed_on_[u] && may_replace(kernels_[eqn], values_.operands[eqn], k, u))
        if (const std::optional<Place> place = storage_for(v, u)) {
          places_[v] = *place;
          handed_on_[u] = true;
          return;
        }
    places_[v] = {Place::Arena, arena_.take(values_.all[v].bytes)};
  }

  // The storage of a dying operand, if it is ours to write.
  std::optional<Place> storage_for(std::size_t v, std::size_t dying) const {
    const Place place = places_[dying];
    if (place.kind == Place::Arena) return place;
    // An argument that is to be replaced, or an earlier value on the way to what replaces it.
    std::size_t r = kNone;
    if (place.kind == Place::Argument) r = replaced_by_[place.index];
    if (place.kind == Place::Result && replaces_[place.index] != kNone) r = place.index;
    if (r == kNone || !free_until_last_use(v, r)) return {};
    return Place{Place::Result, r};
  }

  // The value that finally comes to result r may be written while v lies there only by a kernel in place.
  bool free_until_last_use(std::size_t v, std::size_t r) const {
    if (in_place_[r] == kNone) return last_use_[v] < end_;
    const auto& [source, writer, result, bytes] = values_.all[in_place_[r]];
    if (last_use_[v] != step_of_[writer]) return last_use_[v] < step_of_[writer];
    return may_replace(kernels_[writer], values_.operands[writer], result, v);
  }

  void release_dead(const std::vector<std::size_t>& values, std::size_t step) {
    for (const std::size_t v : values) {
      if (last_use_[v] != step || handed_on_[v]) continue;
      handed_on_[v] = true;
      if (places_[v].kind == Place::Arena) arena_.give(places_[v].index, values_.all[v].bytes);
    }
  }

  void plan_copies() {
    std::vector<MemoryPlan::Copy> moves;
    for (std::size_t r = 0; r < values_.outs.size(); ++r) {
      const std::size_t v = values_.outs[r];
      const MemoryPlan::Copy copy{{Place::Result, r}, places_[v], values_.all[v].bytes};
      if (copy.bytes == 0 || copy.from == copy.to) continue;
      if (copied_before(r))
        plan_.before.push_back(copy);
      else
        moves.push_back(copy);
    }
    order_moves(std::move(moves));
  }

  // A move comes after those that read the argument it overwrites; in a circle one argument is saved first.
  void order_moves(std::vector<MemoryPlan::Copy> moves) {
    const auto overwrites = [&](const MemoryPlan::Copy& writer, const MemoryPlan::Copy& reader) {
      return reader.from.kind == Place::Argument && replaces_[writer.to.index] == reader.from.index;
    };
    while (!moves.empty()) {
      const auto free = std::find_if(moves.begin(), moves.end(), [&](const MemoryPlan::Copy& m) {
        return std::none_of(moves.begin(), moves.end(), [&](const MemoryPlan::Copy& other) {
          return &other != &m && overwrites(m, other);
        });
      });
      if (free != moves.end()) {
        plan_.after.push_back(*free);
        moves.erase(free);
        continue;
      }
      const Place from{Place::Argument, replaces_[moves[0].to.index]};
      const Place saved{Place::Arena, arena_.take(moves[0].bytes)};
      plan_.after.push_back({saved, from, moves[0].bytes});
      for (MemoryPlan::Copy& m : moves)
        if (m.from == from) m.from = saved;
    }
  }

  const Values& values_;
  const std::vector<Kernel>& kernels_;
  const std::vector<Alias>& aliases_;
  Order order_;
  std::vector<std::size_t> replaced_by_, replaces_;  // result of an argument, argument of a result
  std::vector<std::optional<Place>> home_;           // of values that are computed where they leave the run
  std::vector<std::size_t> in_place_;                // by result: the value written over its argument
  std::vector<std::vector<std::size_t>> readers_;
  std::vector<std::size_t> last_use_, step_of_;
  std::size_t end_ = 0;
  std::vector<Place> places_;
  std::vector<bool> handed_on_;  // storage that another value has, or that was given back
  ArenaPlanner arena_;
  MemoryPlan plan_;
};

}  // namespace

MemoryPlan plan_memory(const Values& values, const std::vector<Kernel>& kernels,
                       const std::vector<Alias>& aliases) {
  MemoryPlan plan = Planner(values, kernels, aliases).plan();
  check_plan(plan, values, kernels, aliases);
  return plan;
}

std::vector<Alias> natural_aliases(const Jaxpr& jaxpr, const Values& values,
                                   const std::vector<Kernel>& kernels) {
  std::vector<Alias> out;
  std::vector<bool> taken(values.arguments.size(), false);
  std::vector<std::size_t> reads(values.size(), 0);
  for (std::size_t e = 0; e < kernels.size(); ++e)
    if (!kernels[e].view)
      for (const std::size_t v : values.operands[e]) ++reads[v];
  for (const std::size_t v : values.outs) ++reads[v];
  for (std::size_t r = 0; r < values.outs.size(); ++r) {
    const Aval type = aval_of(jaxpr.outs[r]);
    std::size_t v = values.outs[r];
    while (values.is_computed(v)) {  // backwards through kernels in place of a value that nobody else reads
      const auto& [source, eqn, result, bytes] = values.all[v];
      std::size_t from = kNone;
      for (const std::size_t u : values.operands[eqn])
        if (from == kNone && reads[u] == 1 && may_replace(kernels[eqn], values.operands[eqn], result, u) &&
            (values.is_computed(u) || values.is_argument(u)))
          from = u;
      if (from == kNone) break;
      v = from;
    }
    if (!values.is_argument(v)) continue;
    const std::size_t a = values.all[v].index;
    if (taken[a] || jaxpr.invars[a].aval != type) continue;
    taken[a] = true;
    out.push_back({r, a});
  }
  return out;
}

}  // namespace etrace
