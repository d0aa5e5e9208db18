// What a loop over time computes beside its recurrence leaves the loop, before it or after it: a product of
// every time becomes one product, and a nest a loop of its own, which may become an axis (walk_time). On a
// device a step of a loop costs a launch at every time, whatever it computes.
//
// Steps that touch one value which the loop carries on have to stay together; a step may go before them if
// nothing of theirs reaches it, and behind them if it reaches nothing of theirs. A value of one time that is
// then read from elsewhere gets room for all times.
#include <algorithm>
#include <map>

#include "emit/passes.h"
#include "emit/target.h"

namespace etrace::emit {

namespace {

class LoopSplit {
 public:
  LoopSplit(EmitProgram& p, Region& region, int depth)
      : p_(p), region_(region), body_(region.blocks[0]), loop_(region.loop), depth_(depth) {}

  // The steps of the region, in place of it.
  Block run() {
    const std::size_t n = body_.size();
    for (const Item& item : body_) uses_.push_back(uses(p_, item));
    find_values();
    connect();
    where_.assign(n, Where::Inside);
    for (std::size_t i = 0; i < n; ++i) may_leave_.push_back(is_simple(i));
    while (place()) {
    }
    Block before, rest, after;
    for (std::size_t i = 0; i < n; ++i) {
      if (where_[i] == Where::Inside) {
        rest.push_back(std::move(body_[i]));
        continue;
      }
      Block& to = where_[i] == Where::Before ? before : after;
      to.push_back(taken_out(std::move(body_[i])));
    }
    Block out = std::move(before);
    if (!rest.empty()) {
      body_ = std::move(rest);
      out.push_back({std::move(region_)});
    }
    std::move(after.begin(), after.end(), std::back_inserter(out));
    return out;
  }

 private:
  enum class Where : std::uint8_t { Inside, Before, After };

  const Loop& loop() const { return p_.loops[static_cast<std::size_t>(loop_)]; }
  static bool contains(const std::vector<ValueId>& list, ValueId v) {
    return std::binary_search(list.begin(), list.end(), v);
  }

  // f(form, extents) for every access of a step to a value; false if it is not known by forms.
  template <class F>
  bool for_forms(Item& item, ValueId v, const F& f) {
    if (auto* nest = std::get_if<Nest>(&item.step)) {
      Dims sizes;
      for (const Axis& a : nest->axes) sizes.push_back(a.size);
      for (Stmt& s : nest->body)
        if (accesses(s) && s.value == v) f(s.at, sizes, s.kind == Stmt::Load && !s.in.empty());
      return true;
    }
    if (auto* q = std::get_if<Product>(&item.step)) {
      const auto matrix = [&](Matrices& m, Index rows, Index columns) {
        Dims sizes = q->batch;
        sizes.insert(sizes.end(), {rows, columns});
        if (m.value == v) f(m.at, sizes, false);
      };
      matrix(q->a, q->rows, q->depth);
      matrix(q->b, q->depth, q->columns);
      matrix(q->c, q->rows, q->columns);
      return true;
    }
    return false;
  }

  // Values -------------------------------------------------------------------------------------------------
  enum class Kind : std::uint8_t {
    Constant,  // nothing in the loop writes it
    PerTime,   // every time has its own stretch of it
    Fresh,     // made anew at every time
    Carried,   // all else
  };
  void find_values() {
    for (const Uses& u : uses_)
      for (const auto* list : {&u.reads, &u.writes})
        for (const ValueId v : *list) kinds_.try_emplace(v, Kind::Constant);
    for (auto& [v, kind] : kinds_) {
      const bool written = std::any_of(uses_.begin(), uses_.end(),
                                       [&, value = v](const Uses& u) { return contains(u.writes, value); });
      if (!written) continue;
      const Value& x = p_.value(v);
      kind = x.home == Value::Unplaced && x.depth > depth_ ? Kind::Fresh
             : is_per_time(v)                              ? Kind::PerTime
                                                           : Kind::Carried;
    }
  }
  static Index stride_of(const Form& f, int loop) {
    for (const auto& [l, stride] : f.time)
      if (l == loop) return stride;
    return 0;
  }
  bool is_per_time(ValueId v) {
    Index stride = 0;
    bool ok = true;
    for (std::size_t i = 0; i < body_.size(); ++i) {
      if (!contains(uses_[i].reads, v) && !contains(uses_[i].writes, v)) continue;
      const bool known = for_forms(body_[i], v, [&](Form& f, const Dims& sizes, bool looked_up) {
        const Index own = stride_of(f, loop_);
        if (stride == 0) stride = own;
        Form rest = f;
        rest.time.clear();
        const Bounds b = bounds(rest, {sizes, {}});
        ok = ok && !looked_up && f.time.size() == 1 && own > 0 && own == stride && b.low >= 0 && b.high < own;
      });
      ok = ok && known;
    }
    return ok;
  }
  // Whether a value of one time can get room for all times. Not if a table says which element is read: it
  // then counts as read as a whole, with the times to come.
  bool can_grow(ValueId v) {
    for (const Value& x : p_.values)
      if (x.base == v && (x.home == Value::Inside || x.home == Value::View)) return false;
    bool ok = true;
    for (std::size_t i = 0; i < body_.size(); ++i) {
      if (!contains(uses_[i].reads, v) && !contains(uses_[i].writes, v)) continue;
      const bool known =
          for_forms(body_[i], v, [&](Form&, const Dims&, bool looked_up) { ok = ok && !looked_up; });
      ok = ok && known;
    }
    return ok;
  }
  void grow(ValueId v) {
    Value& x = p_.values[static_cast<std::size_t>(v)];
    const Index elements = x.elements();
    if (elements == 0) return;
    for (Item& item : body_)
      for_forms(item, v, [&](Form& f, const Dims&, bool) {
        f.time.emplace_back(loop_, elements);
        std::sort(f.time.begin(), f.time.end());
      });
    Dims sizes = x.aval.shape.to_dims();
    sizes.insert(sizes.begin(), loop().length);
    x.aval = {x.aval.dtype, sizes};
    x.depth = depth_;
  }

  // Steps --------------------------------------------------------------------------------------------------
  bool conflict(std::size_t i, std::size_t j, ValueId v) const {
    const bool wi = contains(uses_[i].writes, v), wj = contains(uses_[j].writes, v);
    return (wi && (wj || contains(uses_[j].reads, v))) || (wj && contains(uses_[i].reads, v));
  }
  // reach_[i][j]: step i, at some time, has to run before step j, at that time or later.
  void connect() {
    const std::size_t n = body_.size();
    reach_.assign(n, std::vector<bool>(n, false));
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        for (const auto& [v, kind] : kinds_)
          if (conflict(i, j, v) && (i < j || kind == Kind::Carried)) reach_[i][j] = true;
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
          if (reach_[i][k] && reach_[k][j]) reach_[i][j] = true;
  }
  // A product that every time has its own result of, or a nest that walks positions.
  bool is_simple(std::size_t i) {
    if (auto* q = std::get_if<Product>(&body_[i].step)) {
      if (reach_[i][i]) return false;
      const Kind kind = kinds_.at(q->c.value);
      return (kind == Kind::Fresh || kind == Kind::PerTime) && q->c.value != q->a.value &&
             q->c.value != q->b.value;
    }
    const auto* nest = std::get_if<Nest>(&body_[i].step);
    if (nest == nullptr) return false;
    return std::all_of(nest->body.begin(), nest->body.end(),
                       [](const Stmt& s) { return s.kind != Stmt::Vote; }) &&
           std::all_of(nest->axes.begin(), nest->axes.end(),
                       [](const Axis& a) { return a.kind == Axis::Each; });
  }
  // Who leaves, and where to; true if a value cannot grow as that would need: somebody stays, and all is
  // looked at anew.
  bool place() {
    const std::size_t n = body_.size();
    // Those that stay: who may not leave, and who stands between two of them.
    for (std::size_t i = 0; i < n; ++i) where_[i] = may_leave_[i] ? Where::After : Where::Inside;
    const auto stays = [&](std::size_t j) { return where_[j] == Where::Inside; };
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < n; ++i) {
        if (stays(i)) continue;
        bool from = false, to = false;
        for (std::size_t j = 0; j < n; ++j)
          if (j != i && stays(j)) from = from || reach_[j][i], to = to || reach_[i][j];
        // Two that leave and wait for each other would be one loop.
        bool tied = false;
        for (std::size_t j = 0; j < n; ++j) tied = tied || (j != i && reach_[i][j] && reach_[j][i]);
        if ((from && to) || tied) {
          where_[i] = Where::Inside;
          changed = true;
        } else {
          where_[i] = to ? Where::Before : Where::After;
        }
      }
    }
    // What leaves without need behind the loop must not be read before it.
    for (const auto& [v, kind] : kinds_) {
      if (kind != Kind::Fresh) continue;
      std::vector<std::size_t> users;
      bool apart = false;
      for (std::size_t i = 0; i < n; ++i)
        if (contains(uses_[i].reads, v) || contains(uses_[i].writes, v)) {
          apart = apart || where_[i] != Where::Inside;
          users.push_back(i);
        }
      if (!apart || users.empty() || can_grow(v)) continue;
      for (const std::size_t i : users) may_leave_[i] = false;
      return true;
    }
    for (const auto& [v, kind] : kinds_) {
      bool apart = false;
      for (std::size_t i = 0; i < n; ++i)
        apart = apart ||
                ((contains(uses_[i].reads, v) || contains(uses_[i].writes, v)) && where_[i] != Where::Inside);
      if (kind == Kind::Fresh && apart) grow(v);
    }
    return false;
  }

  // A step of the loop by itself.
  Item taken_out(Item item) {
    if (auto* q = std::get_if<Product>(&item.step)) {
      at_all_times(*q);
      return item;
    }
    Region own{.kind = Region::Scan, .loop = loop_, .blocks = std::vector<Block>(1), .eqn = region_.eqn};
    own.blocks[0].push_back(std::move(item));
    return {std::move(own)};
  }
  // Times are more rows, or one more batch axis.
  void at_all_times(Product& q) const {
    const Index length = loop().length;
    const std::size_t row = q.batch.size();
    const auto take = [&](Form& f) {
      const Index stride = stride_of(f, loop_);
      std::erase_if(f.time, [&](const auto& term) { return term.first == loop_; });
      return stride;
    };
    const Index a = take(q.a.at), b = take(q.b.at), c = take(q.c.at);
    if (q.rows == 1) q.a.at.step[row] = a, q.c.at.step[row] = c;
    if (q.batch.empty() && b == 0 && c >= q.columns && a == q.rows * q.a.at.step[row] &&
        c == q.rows * q.c.at.step[row]) {
      q.rows *= length;
      return;
    }
    q.batch.push_back(length);
    const auto insert = [&](Form& f, Index stride) {
      f.step.insert(f.step.begin() + static_cast<std::ptrdiff_t>(row), stride);
    };
    insert(q.a.at, a), insert(q.b.at, b), insert(q.c.at, c);
  }

  EmitProgram& p_;
  Region& region_;
  Block& body_;
  const int loop_;
  const int depth_;  // of the block that the region stands in
  std::vector<Uses> uses_;
  std::map<ValueId, Kind> kinds_;
  std::vector<std::vector<bool>> reach_;
  std::vector<Where> where_;
  std::vector<bool> may_leave_;
};

void split_block(EmitProgram& p, Block& b, int depth) {
  Block out;
  for (Item& item : b) {
    auto* region = std::get_if<Region>(&item.step);
    if (region == nullptr) {
      out.push_back(std::move(item));
      continue;
    }
    for (Block& inner : region->blocks) split_block(p, inner, depth + 1);
    if (region->kind != Region::Scan) {
      out.push_back(std::move(item));
      continue;
    }
    Block parts = LoopSplit(p, *region, depth).run();
    std::move(parts.begin(), parts.end(), std::back_inserter(out));
  }
  b = std::move(out);
}

}  // namespace

void split_loops(EmitProgram& p) {
  if (p.target->splits_loops) split_block(p, p.entry, 1);
}

}  // namespace etrace::emit
