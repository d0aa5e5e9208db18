// Loops over time that carry every position by itself, without products between positions, become a time
// axis inside one nest: a recurrence then runs in near memory, in vectors and on all threads, and what comes
// before and after it for all times can join it.
//
// First a loop is taken apart: steps that share nothing that one of them writes need not run together.
#include <algorithm>
#include <numeric>

#include "emit/passes.h"

namespace etrace::emit {

namespace {

class TimeWalk {
 public:
  explicit TimeWalk(EmitProgram& p) : p_(p) {}
  void run() { block(p_.entry, 1); }

 private:
  void block(Block& b, int depth) {
    Block out;
    for (Item& item : b) {
      auto* region = std::get_if<Region>(&item.step);
      if (region == nullptr) {
        out.push_back(std::move(item));
        continue;
      }
      for (Block& inner : region->blocks) block(inner, depth + 1);
      if (region->kind == Region::Scan)
        take_apart(*region, out, depth);
      else
        out.push_back(std::move(item));
    }
    b = std::move(out);
  }

  static bool meet(const std::vector<ValueId>& a, const std::vector<ValueId>& b) {
    return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
  }

  // Nests that stand alone leave the loop; the rest stays one.
  void take_apart(Region& region, Block& out, int depth) {
    Block& body = region.blocks[0];
    std::vector<Uses> all;
    for (const Item& item : body) all.push_back(uses(p_, item));
    Block rest;
    for (std::size_t i = 0; i < body.size(); ++i) {
      auto* nest = std::get_if<Nest>(&body[i].step);
      bool alone = nest != nullptr;
      for (std::size_t j = 0; j < body.size() && alone; ++j)
        alone = i == j || (!meet(all[i].writes, all[j].writes) && !meet(all[i].writes, all[j].reads) &&
                           !meet(all[i].reads, all[j].writes));
      if (!alone || !with_time_axis(*nest, region.loop)) {
        rest.push_back(std::move(body[i]));
        continue;
      }
      for (const ValueId v : all[i].writes)
        p_.values[static_cast<std::size_t>(v)].depth =
            std::min(p_.values[static_cast<std::size_t>(v)].depth, depth);
      out.push_back(std::move(body[i]));
    }
    if (rest.empty()) return;
    if (p_.why != nullptr) explain(region, rest);
    body = std::move(rest);
    out.push_back({std::move(region)});
  }

  // Why steps stay in the loop.
  void explain(const Region& region, const Block& rest) {
    std::vector<Uses> all;
    for (const Item& item : rest) all.push_back(uses(p_, item));
    for (std::size_t i = 0; i < rest.size(); ++i) {
      const char* why = "it reads or writes a value at several positions";
      if (!std::holds_alternative<Nest>(rest[i].step)) why = "it is no loop over positions";
      for (std::size_t j = 0; j < rest.size(); ++j)
        if (i != j && std::holds_alternative<Nest>(rest[i].step) &&
            (meet(all[i].writes, all[j].writes) || meet(all[i].writes, all[j].reads) ||
             meet(all[i].reads, all[j].writes)))
          why = "it shares a value with another step of the loop";
      p_.why->push_back({Refusal::LeaveLoop, region.eqn, eqn_of(rest[i]), why});
    }
  }

  // The loop becomes the nest's last axis, if every value that it writes is either written at another place
  // at every time or carried position by position.
  bool with_time_axis(Nest& n, int loop) {
    for (const Axis& a : n.axes)
      if (a.kind != Axis::Each) return false;
    Dims sizes;
    for (const Axis& a : n.axes) sizes.push_back(a.size);
    for (const Stmt& s : n.body) {
      if (s.kind == Stmt::Vote) return false;  // one for each time
      if (s.kind != Stmt::Store) continue;
      for (const Stmt& t : n.body) {
        if (t.value != s.value || (t.kind != Stmt::Load && t.kind != Stmt::Store)) continue;
        if (t.kind == Stmt::Load && !t.in.empty()) return false;
        if (t.at != s.at && !never_meet(t.at, s.at, sizes)) return false;
      }
    }
    const Loop& l = p_.loops[static_cast<std::size_t>(loop)];
    n.axes.push_back({l.length, Axis::Time, l.reverse});
    for (Stmt& s : n.body) {
      if (!has_form(s)) continue;
      Index step = 0;
      std::erase_if(s.at.time, [&](const auto& term) {
        if (term.first == loop) step = term.second;
        return term.first == loop;
      });
      s.at.step.push_back(step);
    }
    return true;
  }

  EmitProgram& p_;
};

}  // namespace

void walk_time(EmitProgram& p) { TimeWalk(p).run(); }

}  // namespace etrace::emit
