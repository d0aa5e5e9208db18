// Places in the arena. A value is alive from its first to its last use; one that a loop reads from outside,
// or carries, for as long as the loop runs.
#include <algorithm>
#include <map>

#include "emit/passes.h"
#include "emit/target.h"
#include "interp/arena.h"

namespace etrace::emit {

namespace {

struct Life {
  int first = -1, last = -1;
  void touch(int at) {
    if (first < 0) first = at;
    last = std::max(last, at);
  }
};

class Placement {
 public:
  explicit Placement(EmitProgram& p) : p_(p), life_(p.values.size()) {}

  void run() {
    walk(p_.entry, 1);
    std::map<int, std::vector<ValueId>> births, deaths;
    for (std::size_t v = 0; v < p_.values.size(); ++v) {
      if (p_.values[v].home != Value::Unplaced || life_[v].first < 0) continue;
      births[life_[v].first].push_back(static_cast<ValueId>(v));
      deaths[last_of(static_cast<ValueId>(v))].push_back(static_cast<ValueId>(v));
    }
    for (int at = 0; at < now_; ++at) {
      for (const ValueId v : births[at]) {
        const ValueId donor = donor_for(v, at);
        if (donor != kNoValue) {
          value(v).index = value(donor).index;
          given_[donor] = true;
        } else {
          value(v).index = planner(v).take(value(v).aval.bytes());
        }
        value(v).home = Value::Arena;
      }
      for (const ValueId v : deaths[at])
        if (!given_.contains(v)) planner(v).give(value(v).index, value(v).aval.bytes());
    }
    for (const auto& [dtype, planner] : planners_) {
      p_.arena_bytes += planner.high_water();
      if (p_.target->memory == Target::Static) p_.typed_arenas.emplace_back(dtype, planner.high_water());
    }
  }

 private:
  Value& value(ValueId v) { return p_.values[static_cast<std::size_t>(v)]; }

  void walk(const Block& block, int depth) {
    for (const Item& item : block) {
      const Uses u = uses(p_, item);
      const int start = now_++;
      if (const auto* region = std::get_if<Region>(&item.step)) {
        for (const Block& b : region->blocks) walk(b, depth + 1);
        const int end = now_++;
        if (region->rows > 0)  // threads are at different steps: what one is done with, another one reads
          for (const auto* list : {&u.reads, &u.writes})
            for (const ValueId v : *list) kept_until_[v] = end;
        for (const auto* list : {&u.reads, &u.writes})
          for (const ValueId v : *list)
            if (value(v).depth <= depth) {
              life(v).touch(start);
              life(v).touch(end);
              life(v).first = std::min(life(v).first, start);
            }
        continue;
      }
      for (const auto* list : {&u.reads, &u.writes})
        for (const ValueId v : *list) life(v).touch(start);
      at_[start] = &item;
    }
  }
  int last_of(ValueId v) const {
    const auto kept = kept_until_.find(v);
    return std::max(life_[static_cast<std::size_t>(v)].last, kept == kept_until_.end() ? -1 : kept->second);
  }
  Life& life(ValueId v) { return life_[static_cast<std::size_t>(v)]; }

  // A value that dies in the step that makes v, and whose every element is read before it is overwritten.
  ValueId donor_for(ValueId v, int at) {
    const auto it = at_.find(at);
    if (it == at_.end()) return kNoValue;
    const auto fits = [&](ValueId d) {
      return d != v && value(d).home == Value::Arena && life(d).last == at && life(d).first < at &&
             !given_.contains(d) && value(d).aval.bytes() == value(v).aval.bytes() &&
             &planner(d) == &planner(v);
    };
    if (const auto* call = std::get_if<Call>(&it->second->step)) {
      for (const InPlace& pair : call->in_place) {
        const ValueId d = call->in[pair.operand];
        const auto here = [&](ValueId x) { return root(p_, x) == d; };
        const bool once = std::count_if(call->in.begin(), call->in.end(), here) == 1;
        if (call->out[pair.result] == v && once && fits(d)) return d;
      }
      return kNoValue;
    }
    const auto* nest = std::get_if<Nest>(&it->second->step);
    if (nest == nullptr) return kNoValue;
    const Stmt* store = nullptr;
    for (const Stmt& s : nest->body)
      if (s.kind == Stmt::Store && s.value == v) {
        if (store != nullptr) return kNoValue;
        store = &s;
      }
    if (store == nullptr) return kNoValue;
    // What stays in place while time goes on would be overwritten before the next time reads it.
    if (has_time(*nest) && store->at.step.back() == 0) return kNoValue;
    for (const Stmt& s : nest->body)
      if (s.kind == Stmt::Load && fits(s.value) && same_elements(*nest, s.value, *store)) return s.value;
    return kNoValue;
  }
  bool same_elements(const Nest& nest, ValueId d, const Stmt& store) {
    if (size_of(value(d).aval.dtype) != size_of(value(store.value).aval.dtype)) return false;
    return std::all_of(nest.body.begin(), nest.body.end(), [&](const Stmt& s) {
      return s.value != d || (s.kind == Stmt::Load && s.in.empty() && s.at == store.at);
    });
  }

  EmitProgram& p_;
  std::vector<Life> life_;
  std::map<int, const Item*> at_;
  std::map<ValueId, int> kept_until_;  // beyond its last use
  std::map<ValueId, bool> given_;
  // One arena, or one for every type: then no element is ever read as another type.
  ArenaPlanner& planner(ValueId v) {
    if (p_.target->memory == Target::Host) return planners_[Dtype::F64];
    const Dtype dtype = value(v).aval.dtype;
    return planners_.try_emplace(dtype, size_of(dtype)).first->second;
  }
  std::map<Dtype, ArenaPlanner> planners_;
  int now_ = 0;
};

}  // namespace

void place_buffers(EmitProgram& p) { Placement(p).run(); }

}  // namespace etrace::emit
