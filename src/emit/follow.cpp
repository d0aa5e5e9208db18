// The proof that passes keep a program's meaning and that its places are right: the program is followed
// element by element with names in place of numbers. A formula's name is made of its text and the names of
// its operands, a copy keeps the name, and what was overwritten has none. Before and after passes that fuse,
// reorder, write in place and share memory, the names of all results are the same. It knows nothing of how
// these passes decide. The positions of a nest run forwards and backwards, and loops that threads share by
// rows time by time and row by row: nobody promised an order.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "emit/emit.h"
#include "etrace/error.h"
#include "interp/named_memory.h"

namespace etrace::emit {

namespace {

using Name = NamedMemory::Name;

Name mixed(Name a, Name b) {
  Name x = a * 0x9e3779b97f4a7c15U + b + 0x7f4a7c15U;
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9U;
  return x ^ (x >> 29);
}
Name named(std::string_view text) {
  Name out = text.size();
  for (const char c : text) out = mixed(out, static_cast<unsigned char>(c));
  return out;
}

class Follower {
 public:
  Follower(const EmitProgram& p, const FollowOptions& how) : p_(p), how_(how), times_(p.loops.size(), 0) {}

  std::vector<Name> run() {
    for (std::size_t i = 0; i < p_.arguments.size(); ++i)
      for (Index e = 0; e < p_.value(p_.arguments[i]).elements(); ++e)
        memory_.set(range(p_.arguments[i], e), mixed(named("argument"), mixed(i, static_cast<Name>(e))));
    block(p_.entry);
    std::vector<Name> out{flow_};
    for (const ValueId r : p_.results)
      for (Index e = 0; e < p_.value(r).elements(); ++e) out.push_back(read(r, e));
    return out;
  }

 private:
  // Memory ------------------------------------------------------------------------------------------------
  // Values without a place have a block of their own; so have arguments and results.
  MemoryRange range(ValueId v, Index first, Index count = 1) const {
    const Value& x = p_.value(v);
    if (x.home == Value::Inside) return range(x.base, first + at_time(x.at), count);
    const std::size_t width = size_of(x.aval.dtype);
    const bool shared = x.home == Value::Arena;
    const int arena = p_.typed_arenas.empty() ? 0 : static_cast<int>(x.aval.dtype);
    const std::size_t begin = (shared ? x.index : 0) + static_cast<std::size_t>(first) * width;
    return {shared ? -1 - arena : v, begin, begin + static_cast<std::size_t>(count) * width};
  }
  Index at_time(const Form& f) const {
    Index at = f.first;
    for (const auto& [loop, stride] : f.time) at += times_[static_cast<std::size_t>(loop)] * stride;
    return at;
  }
  Name read(ValueId v, Index e) const {
    const Value& x = p_.value(v);
    if (x.home == Value::Constant) return mixed(named("constant"), mixed(x.index, static_cast<Name>(e)));
    const std::optional<Name> found = memory_.at(range(v, e));
    ETRACE_CHECK(found.has_value());  // what a step reads has been overwritten, or was never written
    return *found;
  }
  Name read_all(ValueId v) const {
    Name out = 0;
    for (Index e = 0; e < p_.value(v).elements(); ++e) out = mixed(out, read(v, e));
    return out;
  }

  // Steps -------------------------------------------------------------------------------------------------
  void block(const Block& b) {
    for (const Item& item : b) std::visit([&](const auto& s) { step(s); }, item.step);
  }

  // A position of the axes [first, last) after the other: f().
  template <class F>
  void positions(const Nest& n, std::size_t first, std::size_t last, Dims& at, const F& f) const {
    if (first == last) return f();
    const Axis& axis = n.axes[first];
    const bool down = axis.kind == Axis::Each ? how_.backwards : axis.reverse;
    const auto [low, high] = first == 0 && axis.kind == Axis::Each ? shared(axis.size) : Part{0, axis.size};
    for (Index k = low; k < high; ++k) {
      at[first] = down ? low + high - 1 - k : k;
      positions(n, first + 1, last, at, f);
    }
  }

  // What of `size` positions is followed: all, or those of a row.
  struct Part {
    Index first, last;
  };
  Part shared(Index size) const {
    if (rows_ == 0) return {0, size};
    ETRACE_CHECK(size % rows_ == 0);
    return {size / rows_ * row_, size / rows_ * (row_ + 1)};
  }

  struct Order {
    std::vector<bool> late;  // after the folds, once
    std::size_t each = 0;    // axes
  };
  static Order order_of(const Nest& n) {
    Order out;
    while (out.each < n.axes.size() && n.axes[out.each].kind == Axis::Each) ++out.each;
    std::vector<bool> inside(n.body.size(), false);  // varies with what is folded
    for (std::size_t s = 0; s < n.body.size(); ++s) {
      const Stmt& stmt = n.body[s];
      bool late = stmt.kind == Stmt::Fold;
      for (const int i : stmt.in) {
        late = late || out.late[static_cast<std::size_t>(i)];
        inside[s] = inside[s] || inside[static_cast<std::size_t>(i)];
      }
      for (std::size_t a = out.each; has_form(stmt) && a < n.axes.size(); ++a)
        inside[s] = inside[s] || stmt.at.step[a] != 0;
      if (stmt.kind == Stmt::Fold) inside[s] = false;
      if (writes(stmt) && has_folds(n)) late = !inside[s];
      out.late.push_back(late);
    }
    return out;
  }

  void step(const Nest& n) {
    const Order order = order_of(n);
    Dims at(n.axes.size(), 0);
    std::vector<Name> names(n.body.size(), 0);
    for (std::size_t s = 0; s < n.body.size(); ++s)  // a lookup may find any element
      if (n.body[s].kind == Stmt::Load && !n.body[s].in.empty()) names[s] = read_all(n.body[s].value);
    const std::vector<Name> whole = names;
    votes_.clear();
    positions(n, 0, order.each, at, [&] {
      for (std::size_t s = 0; s < n.body.size(); ++s)
        if (n.body[s].kind == Stmt::Fold)
          names[s] = mixed(static_cast<Name>(n.body[s].op), static_cast<Name>(n.body[s].dtype));
      positions(n, order.each, n.axes.size(), at, [&] {
        for (std::size_t s = 0; s < n.body.size(); ++s)
          if (n.body[s].kind == Stmt::Fold)
            names[s] = mixed(names[s], names[static_cast<std::size_t>(n.body[s].in[0])]);
          else if (!order.late[s])
            statement(n.body[s], s, at, whole, names);
      });
      for (std::size_t s = 0; s < n.body.size(); ++s)
        if (order.late[s] && n.body[s].kind != Stmt::Fold) statement(n.body[s], s, at, whole, names);
    });
    count_votes(n);
  }
  // Votes have no order, and to say something twice changes nothing.
  void count_votes(const Nest& n) {
    for (const auto& [s, all] : votes_) {
      Name name = mixed(named("vote"), static_cast<Name>(n.body[s].op));
      for (const Name vote : all) name = mixed(name, vote);
      memory_.set(range(n.body[s].value, at_time(n.body[s].at)), name);
    }
  }
  void statement(const Stmt& s, std::size_t number, const Dims& at, const std::vector<Name>& whole,
                 std::vector<Name>& names) {
    Index element = has_form(s) ? at_time(s.at) : 0;
    for (std::size_t a = 0; has_form(s) && a < at.size(); ++a) element += s.at.step[a] * at[a];
    Name& name = names[number];
    const auto operand = [&](std::size_t k) { return names[static_cast<std::size_t>(s.in[k])]; };
    switch (s.kind) {
      case Stmt::Load:
        name = s.in.empty() ? read(s.value, element)
                            : mixed(whole[number], mixed(operand(0), static_cast<Name>(element)));
        break;
      case Stmt::Number:
        name = mixed(static_cast<Name>(s.dtype), named(s.text));
        break;
      case Stmt::Position:
        name = mixed(named("position"), static_cast<Name>(element));
        break;
      case Stmt::Apply:
        name = mixed(static_cast<Name>(s.dtype), named(s.text));
        for (std::size_t k = 0; k < s.in.size(); ++k) name = mixed(name, operand(k));
        break;
      case Stmt::Store:
        memory_.set(range(s.value, element), operand(0));
        break;
      case Stmt::Vote:
        votes_[number].insert(operand(0));
        break;
      case Stmt::Fold:
        break;
    }
  }

  static Index matrix_element(const Form& f, Index at, const Dims& batch, Index row, Index column) {
    for (std::size_t k = 0; k < batch.size(); ++k) at += f.step[k] * batch[k];
    return at + f.step[batch.size()] * row + f.step[batch.size() + 1] * column;
  }
  void step(const Product& q) {
    Index batches = 1;
    for (const Index n : q.batch) batches *= n;
    for (Index b = 0; b < batches; ++b) {
      Dims at(q.batch.size(), 0);
      Index rest = b;
      for (std::size_t k = q.batch.size(); k-- > 0; rest /= q.batch[k]) at[k] = rest % q.batch[k];
      product(q, at);
    }
  }
  void product(const Product& q, const Dims& batch) {
    std::vector<MemoryRange> used;
    // Names of lines of a factor: rows of A, columns of B.
    const auto lines = [&](const Matrices& m, Index count, Part part, bool rows) {
      std::vector<Name> out(static_cast<std::size_t>(count), 0);
      for (Index l = part.first; l < part.last; ++l)
        for (Index k = 0; k < q.depth; ++k) {
          const Index e = matrix_element(m.at, at_time(m.at), batch, rows ? l : k, rows ? k : l);
          out[static_cast<std::size_t>(l)] = mixed(out[static_cast<std::size_t>(l)], read(m.value, e));
          used.push_back(range(m.value, e));
        }
      return out;
    };
    const std::vector<Name> a = lines(q.a, q.rows, shared(q.rows), true),
                            b = lines(q.b, q.columns, {0, q.columns}, false);
    const auto before = [](const MemoryRange& x, const MemoryRange& y) {
      return std::pair(x.block, x.begin) < std::pair(y.block, y.begin);
    };
    std::sort(used.begin(), used.end(), before);
    for (Index i = shared(q.rows).first; i < shared(q.rows).last; ++i)
      for (Index j = 0; j < q.columns; ++j) {
        const Index e = matrix_element(q.c.at, at_time(q.c.at), batch, i, j);
        const MemoryRange to = range(q.c.value, e);
        const Name old = q.onto ? read(q.c.value, e) : named("product");
        ETRACE_CHECK(!std::binary_search(used.begin(), used.end(), to, before));  // a factor is overwritten
        memory_.set(to, mixed(old, mixed(a[static_cast<std::size_t>(i)], b[static_cast<std::size_t>(j)])));
      }
  }

  void step(const Call& q) {
    Name name = mixed(named("call"), static_cast<Name>(q.eqn));
    std::vector<MemoryRange> read_from, written;
    for (const ValueId v : q.in) {
      name = mixed(name, read_all(v));
      read_from.push_back(range(v, 0, p_.value(v).elements()));
    }
    for (const ValueId v : q.out) written.push_back(range(v, 0, p_.value(v).elements()));
    check_overlaps(q.in_place, read_from, written, {-100, 0, 0});
    for (std::size_t k = 0; k < q.out.size(); ++k)
      for (Index e = 0; e < p_.value(q.out[k]).elements(); ++e)
        memory_.set(range(q.out[k], e), mixed(name, mixed(k, static_cast<Name>(e))));
  }

  void scan(const Region& q) {
    const Loop& loop = p_.loops[static_cast<std::size_t>(q.loop)];
    for (Index k = 0; k < loop.length; ++k) {
      times_[static_cast<std::size_t>(q.loop)] = loop.reverse ? loop.length - 1 - k : k;
      block(q.blocks[0]);
    }
  }
  // Threads may run all times of a row before those of the row in front of it.
  void scan_by_rows(const Region& q) {
    rows_ = q.rows;
    for (row_ = q.rows; row_-- > 0;) scan(q);
    rows_ = 0;
  }

  // Nobody knows how often a loop will run, and which branch: some of each are followed.
  void step(const Region& q) {
    if (q.kind == Region::Scan) {
      if (q.rows > 0 && how_.backwards)
        scan_by_rows(q);
      else
        scan(q);
    } else if (q.kind == Region::While) {
      for (int pass = 0; pass < 3; ++pass) {
        block(q.blocks[0]);
        flow_ += read(q.predicate, 0);
        if (pass < 2) block(q.blocks[1]);
      }
    } else {
      flow_ += read(q.predicate, 0);
      block(q.blocks[how_.branch % q.blocks.size()]);
    }
  }

  const EmitProgram& p_;
  const FollowOptions how_;
  NamedMemory memory_;
  std::map<std::size_t, std::set<Name>> votes_;  // of the nest at hand, by statement
  std::vector<Index> times_;
  Index rows_ = 0, row_ = 0;  // of the loop that is followed row by row
  Name flow_ = 0;             // of everything that was decided
};

double work_of(const EmitProgram& p, const Block& b) {
  double work = 0;
  for (const Item& item : b) {
    if (const auto* n = std::get_if<Nest>(&item.step)) {
      double size = static_cast<double>(n->body.size());
      for (const Axis& a : n->axes) size *= static_cast<double>(a.size);
      work += size;
    } else if (const auto* region = std::get_if<Region>(&item.step)) {
      const double times = region->kind == Region::Scan
                               ? static_cast<double>(p.loops[static_cast<std::size_t>(region->loop)].length)
                               : 3;
      for (const Block& inner : region->blocks) work += times * work_of(p, inner);
    } else {
      const Uses u = uses(p, item);
      for (const auto* list : {&u.reads, &u.writes})
        for (const ValueId v : *list) work += static_cast<double>(p.value(v).elements());
    }
  }
  return work;
}

}  // namespace

std::vector<std::uint64_t> follow(const EmitProgram& p, const FollowOptions& how) {
  return Follower(p, how).run();
}
double work_to_follow(const EmitProgram& p) { return work_of(p, p.entry); }

}  // namespace etrace::emit
