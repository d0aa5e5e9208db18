// What nobody needs: statements, stores, steps.
#include <algorithm>

#include "emit/passes.h"

namespace etrace::emit {

namespace {

class DeadCode {
 public:
  explicit DeadCode(EmitProgram& p) : p_(p) {}

  void run() {
    do {
      changed_ = false;
      read_.assign(p_.values.size(), false);
      for (const ValueId v : p_.results) read_[static_cast<std::size_t>(v)] = true;
      mark(p_.entry);
      sweep(p_.entry);
    } while (changed_);
  }

 private:
  bool is_read(ValueId v) const { return read_[static_cast<std::size_t>(root(p_, v))]; }

  void mark_value(ValueId v) { read_[static_cast<std::size_t>(root(p_, v))] = true; }
  void mark(const Block& b) {
    for (const Item& item : b) {
      if (const auto* region = std::get_if<Region>(&item.step)) {
        if (region->predicate != kNoValue) mark_value(region->predicate);
        for (const Block& inner : region->blocks) mark(inner);
      } else if (const auto* product = std::get_if<Product>(&item.step)) {
        mark_value(product->a.value);  // what it adds to, somebody else must want
        mark_value(product->b.value);
      } else {
        for (const ValueId v : uses(p_, item).reads) mark_value(v);
      }
    }
  }

  void sweep(Block& b) {
    for (Item& item : b) {
      if (auto* nest = std::get_if<Nest>(&item.step)) sweep(*nest);
      if (auto* region = std::get_if<Region>(&item.step))
        for (Block& inner : region->blocks) sweep(inner);
    }
    const std::size_t before = b.size();
    std::erase_if(b, [&](const Item& item) { return is_useless(item); });
    changed_ = changed_ || b.size() != before;
  }

  bool is_useless(const Item& item) const {
    if (const auto* nest = std::get_if<Nest>(&item.step)) return nest->body.empty();
    if (const auto* product = std::get_if<Product>(&item.step)) return !is_read(product->c.value);
    if (const auto* call = std::get_if<Call>(&item.step))
      return std::none_of(call->out.begin(), call->out.end(), [&](ValueId v) { return is_read(v); });
    const auto& region = std::get<Region>(item.step);
    // A while loop ends by itself: nothing in it can be seen from outside.
    const Uses u = uses(p_, item);
    return std::none_of(u.writes.begin(), u.writes.end(), [&](ValueId v) { return is_read(v); }) ||
           (region.kind != Region::While && std::all_of(region.blocks.begin(), region.blocks.end(),
                                                        [](const Block& b) { return b.empty(); }));
  }

  void sweep(Nest& n) {
    std::vector<bool> keep(n.body.size(), false);
    for (std::size_t s = n.body.size(); s-- > 0;) {
      if (writes(n.body[s])) keep[s] = is_read(n.body[s].value);
      if (keep[s])
        for (const int i : n.body[s].in) keep[static_cast<std::size_t>(i)] = true;
    }
    if (std::find(keep.begin(), keep.end(), false) == keep.end()) return;
    changed_ = true;
    std::vector<int> moved(n.body.size(), -1);
    std::vector<Stmt> body;
    for (std::size_t s = 0; s < n.body.size(); ++s) {
      if (!keep[s]) continue;
      moved[s] = static_cast<int>(body.size());
      body.push_back(std::move(n.body[s]));
      for (int& i : body.back().in) i = moved[static_cast<std::size_t>(i)];
    }
    n.body = std::move(body);
  }

  EmitProgram& p_;
  std::vector<bool> read_;
  bool changed_ = false;
};

}  // namespace

void remove_dead(EmitProgram& p) { DeadCode(p).run(); }

}  // namespace etrace::emit
