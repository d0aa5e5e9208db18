// Neighbouring nests become one where they walk the same positions: a value that one computes and the other
// reads stays in a register, and if nobody else reads it, it has no memory at all.
//
// The items of a block are nodes of a graph; an edge says that one must run before the other. Two nodes may
// become one if no third one has to run between them.
#include <algorithm>
#include <cstdint>
#include <set>

#include "emit/merge.h"
#include "emit/passes.h"
#include "emit/target.h"

namespace etrace::emit {

namespace {

constexpr const char* kBetween = "another step has to run in between";

class BlockFusion {
 public:
  BlockFusion(EmitProgram& p, Block& b, bool loops_to_come) : p_(p), block_(b), loops_(loops_to_come) {}

  void run() {
    for (Item& item : block_) nodes_.push_back({std::move(item), {}, {}, {}, true});
    for (Node& n : nodes_) look_at(n);
    connect();
    bool changed = true;
    while (changed) changed = join_producers();
    changed = true;
    while (changed) changed = join_siblings();
    if (p_.why != nullptr && !loops_) explain();
    put_in_order();
  }

 private:
  // A stretch of a value that a step reads or writes. Variables of loops around the block are the same for
  // all of its steps.
  struct Touch {
    ValueId value;
    Index low, high;
    std::vector<std::pair<int, Index>> time;
    bool write;
  };
  struct Node {
    Item item;
    Uses uses;
    std::vector<Touch> touches;
    std::vector<bool> before;  // nodes that must run first, directly or not
    bool alive;
  };

  static bool meet(const std::vector<ValueId>& a, const std::vector<ValueId>& b) {
    for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
      if (*i == *j) return true;
      *i < *j ? ++i : ++j;
    }
    return false;
  }
  void look_at(Node& n) {
    n.uses = uses(p_, n.item);
    n.touches.clear();
    if (const auto* nest = std::get_if<Nest>(&n.item.step)) {
      Dims sizes;
      for (const Axis& a : nest->axes) sizes.push_back(a.size);
      for (const Stmt& s : nest->body) {
        if (!accesses(s)) continue;
        Form f = s.at;
        f.time.clear();
        Bounds b = bounds(f, {sizes, {}});
        if (!s.in.empty() && s.kind == Stmt::Load)
          b = {0, p_.values[static_cast<std::size_t>(s.value)].elements()};
        n.touches.push_back({s.value, b.low, b.high, s.at.time, writes(s)});
      }
    } else {
      for (const bool write : {false, true})
        for (const ValueId v : write ? n.uses.writes : n.uses.reads)
          n.touches.push_back({v, 0, p_.values[static_cast<std::size_t>(v)].elements(), {{-1, 0}}, write});
    }
  }
  static bool depends(const Node& a, const Node& b) {
    if (!meet(a.uses.writes, b.uses.reads) && !meet(a.uses.reads, b.uses.writes) &&
        !meet(a.uses.writes, b.uses.writes))
      return false;
    for (const Touch& x : a.touches)
      for (const Touch& y : b.touches)
        if (x.value == y.value && (x.write || y.write) &&
            (x.time != y.time || (x.low <= y.high && y.low <= x.high)))
          return true;
    return false;
  }

  void connect() {
    const std::size_t n = nodes_.size();
    for (std::size_t j = 0; j < n; ++j) {
      nodes_[j].before.assign(n, false);
      for (std::size_t i = 0; i < j; ++i)
        if (!nodes_[j].before[i] && depends(nodes_[j], nodes_[i])) add_before(j, i);
    }
  }
  void add_before(std::size_t j, std::size_t i) {
    for (std::size_t k = 0; k < nodes_.size(); ++k)
      if (nodes_[i].before[k]) nodes_[j].before[k] = true;
    nodes_[j].before[i] = true;
  }

  Nest* nest(std::size_t i) { return nodes_[i].alive ? std::get_if<Nest>(&nodes_[i].item.step) : nullptr; }

  // A nest with every nest whose results it reads: the first nests first, so that a value is made where its
  // operands are near; or the last first, so that it need not wait in memory for what else its reader needs.
  bool join_producers() {
    bool changed = false;
    for (std::size_t n = nodes_.size(), k = 0; k < n; ++k) {
      const std::size_t j = p_.target->fuses_late ? n - 1 - k : k;
      for (std::size_t i = nodes_.size(); i-- > 0 && nest(j) != nullptr;)
        if (i != j && nest(i) != nullptr && meet(nodes_[i].uses.writes, nodes_[j].uses.reads) &&
            try_join(i, j))
          changed = true;
    }
    return changed;
  }

  // Nests that read the same.
  bool join_siblings() {
    bool changed = false;
    for (std::size_t j = 0; j < nodes_.size(); ++j)
      for (std::size_t i = 0; i < j && nest(j) != nullptr; ++i)
        if (nest(i) != nullptr && meet(nodes_[i].uses.reads, nodes_[j].uses.reads) && try_join(i, j))
          changed = true;
    return changed;
  }

  // A loop computes what it reads: if that becomes a nest, the two will walk through time together, and what
  // the loop gives need not be stored. A fold has an order of its own, in which that could not be.
  bool follows_loop(std::size_t i) const {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& n) {
      return n.alive && std::holds_alternative<Region>(n.item.step) &&
             meet(n.uses.writes, nodes_[i].uses.reads);
    });
  }

  // A step that has to run after i and before j.
  std::size_t between(std::size_t i, std::size_t j) const {
    std::size_t k = 0;
    while (k < nodes_.size() &&
           (!nodes_[k].alive || k == i || k == j || !nodes_[k].before[i] || !nodes_[j].before[k]))
      ++k;
    return k;
  }

  // The two as one; null, and why not. i must be able to run right before j.
  std::optional<Nest> joined(std::size_t i, std::size_t j, const char*& why) {
    why = "the other one has to run first";
    if (nodes_[i].before[j]) return std::nullopt;
    why = kBetween;
    if (between(i, j) < nodes_.size()) return std::nullopt;
    why = "a fold would part it from the loop that it follows";
    if (loops_ && has_folds(*nest(j)) && !has_folds(*nest(i)) && follows_loop(i)) return std::nullopt;
    std::optional<Nest> merged = merge(*nest(i), *nest(j), why);
    if (!merged) return std::nullopt;
    why = "together they have more statements than one loop may have";
    if (merged->body.size() > p_.target->most_stmts) return std::nullopt;
    std::set<std::pair<ValueId, Index>> pointers;
    for (const Stmt& s : merged->body)
      if (s.kind == Stmt::Load || s.kind == Stmt::Store) pointers.emplace(s.value, s.at.first);
    why = "together they read and write at more places than one loop may";
    if (pointers.size() > p_.target->most_pointers) return std::nullopt;
    return merged;
  }

  // Nests that share a value and stay apart.
  void explain() {
    const auto shared = [](const std::vector<ValueId>& a, const std::vector<ValueId>& b) {
      const auto it = std::find_first_of(a.begin(), a.end(), b.begin(), b.end());
      return it == a.end() ? kNoValue : *it;
    };
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for (std::size_t j = 0; j < nodes_.size(); ++j) {
        if (i == j || nest(i) == nullptr || nest(j) == nullptr || nodes_[i].before[j]) continue;
        ValueId v = shared(nodes_[i].uses.writes, nodes_[j].uses.reads);
        if (v == kNoValue && i < j) v = shared(nodes_[i].uses.reads, nodes_[j].uses.reads);
        const char* why = nullptr;
        if (v == kNoValue || joined(i, j, why)) continue;
        std::string reason = why;
        if (const std::size_t k = between(i, j); why == kBetween)
          if (const int e = eqn_of(nodes_[k].item); e >= 0)
            reason += ": " + p_.eqns[static_cast<std::size_t>(e)].text;
        p_.why->push_back(
            {Refusal::Fuse, eqn_of(nodes_[i].item, v), eqn_of(nodes_[j].item, v), std::move(reason)});
      }
  }

  // Node j takes i in.
  bool try_join(std::size_t i, std::size_t j) {
    const char* why = nullptr;
    std::optional<Nest> merged = joined(i, j, why);
    if (!merged) return false;
    nodes_[j].item.step = std::move(*merged);
    look_at(nodes_[j]);
    nodes_[i].alive = false;
    // Whoever waited for i now waits for j, and j for all that i waited for.
    for (std::size_t k = 0; k < nodes_.size(); ++k)
      if (nodes_[i].before[k]) nodes_[j].before[k] = true;
    nodes_[j].before[i] = false;
    for (std::size_t k = 0; k < nodes_.size(); ++k) {
      const bool waits = k != j && (nodes_[k].before[i] || nodes_[k].before[j]);
      nodes_[k].before[i] = false;
      if (waits) add_before(k, j);
    }
    return true;
  }

  // The earliest that can run comes first.
  void put_in_order() {
    const std::size_t n = nodes_.size();
    std::vector<std::size_t> waits(n, 0);
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t k = 0; k < n; ++k)
        if (nodes_[k].alive && nodes_[j].before[k]) ++waits[j];
    std::set<std::size_t> ready;
    for (std::size_t j = 0; j < n; ++j)
      if (nodes_[j].alive && waits[j] == 0) ready.insert(j);
    block_.clear();
    while (!ready.empty()) {
      const std::size_t k = *ready.begin();
      ready.erase(ready.begin());
      block_.push_back(std::move(nodes_[k].item));
      for (std::size_t j = 0; j < n; ++j)
        if (nodes_[j].alive && nodes_[j].before[k] && --waits[j] == 0) ready.insert(j);
    }
  }

  EmitProgram& p_;
  Block& block_;
  bool loops_;
  std::vector<Node> nodes_;
};

void fuse_block(EmitProgram& p, Block& b, bool loops_to_come) {
  for (Item& item : b)
    if (auto* region = std::get_if<Region>(&item.step))
      for (Block& inner : region->blocks) fuse_block(p, inner, loops_to_come);
  BlockFusion(p, b, loops_to_come).run();
}

}  // namespace

void fuse_around_loops(EmitProgram& p) { fuse_block(p, p.entry, true); }
void fuse(EmitProgram& p) { fuse_block(p, p.entry, false); }

}  // namespace etrace::emit
