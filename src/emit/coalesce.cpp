// Copies that remain after fusion move what a product, a kernel or a loop has made to where it belongs: a
// carry, a slot of a stacked result, an argument that the run replaces. Where nobody looks at that place in
// between, the step writes there at once. A number that a nest puts into such a place and beside it into one
// for later steps is written once: they read it where it stays.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>

#include "emit/passes.h"

namespace etrace::emit {

namespace {

// Stores all of `from`, in order, into a stretch of another value.
struct Move {
  ValueId from = kNoValue, to = kNoValue;
  Form at{};  // no steps: where it begins
  std::size_t pieces = 1;
  bool twin = false;  // one nest stores the same numbers into both
};

class Coalescing {
 public:
  Coalescing(EmitProgram& p, bool kernels_only) : p_(p), kernels_only_(kernels_only) {}
  void run() {
    if (kernels_only_) continue_in_place(p_.entry, 1, -1);
    block(p_.entry);
  }

 private:
  Value& value(ValueId v) { return p_.values[static_cast<std::size_t>(v)]; }

  void block(Block& b) {
    for (Item& item : b)
      if (auto* region = std::get_if<Region>(&item.step))
        for (Block& inner : region->blocks) block(inner);
    for (bool again = true; again;) {
      again = false;
      std::vector<Uses> all;
      for (const Item& item : b) all.push_back(uses(p_, item));
      for (std::size_t q = 0; q < b.size() && !again; ++q)
        for (const Move& m : moves(b[q]))
          if (refusal(b, all, q, m) == nullptr) {
            replace(m);
            again = true;
            break;
          }
    }
    if (p_.why != nullptr && !kernels_only_) explain(b);
  }
  // Copies that stay.
  void explain(const Block& b) {
    std::vector<Uses> all;
    for (const Item& item : b) all.push_back(uses(p_, item));
    for (std::size_t q = 0; q < b.size(); ++q)
      for (const Move& m : moves(b[q])) {
        int maker = -1;
        for (std::size_t k = 0; k < q && maker < 0; ++k)
          if (std::binary_search(all[k].writes.begin(), all[k].writes.end(), m.from))
            maker = eqn_of(b[k], m.from);
        p_.why->push_back({Refusal::WriteInPlace, maker, eqn_of(b[q], m.to), refusal(b, all, q, m)});
      }
  }

  // A product that goes on from what another step gave begins as a copy of that. If nobody else reads it, the
  // product goes on right there: in the same block, or in a loop in which every step has a place of its own.
  void continue_in_place(Block& b, int depth, int loop) {
    for (std::size_t q = 0; q < b.size(); ++q) {
      if (auto* region = std::get_if<Region>(&b[q].step)) {
        for (Block& inner : region->blocks)
          continue_in_place(inner, depth + 1, region->kind == Region::Scan ? region->loop : -1);
        continue;
      }
      const std::optional<Move> m = beginning(b[q], depth, loop);
      if (!m || !goes_on(b, q, m->from) || readers(p_.entry, m->to) != 1) continue;
      bool written = false;  // from here on, or by another step of the loop
      for (std::size_t k = value(m->to).depth == depth ? q : 0; k < b.size() && !written; ++k) {
        const Uses u = uses(p_, b[k]);
        written = std::binary_search(u.writes.begin(), u.writes.end(), m->to);
      }
      if (!written) replace(*m);
    }
  }
  // A nest that does no more than fill a value of its block from a stretch of one made in this block or in
  // the one around it.
  std::optional<Move> beginning(const Item& item, int depth, int loop) {
    const auto* n = std::get_if<Nest>(&item.step);
    if (n == nullptr || n->body.size() != 2 || n->body[1].kind != Stmt::Store) return std::nullopt;
    const Stmt &x = n->body[0], &s = n->body[1];
    if (x.kind != Stmt::Load || !x.in.empty() || x.dtype != s.dtype || x.value == s.value ||
        x.at.step != s.at.step || !s.at.time.empty())
      return std::nullopt;
    const Value &from = value(s.value), &to = value(x.value);
    std::vector<Index> first{s.at.first};
    if (from.home != Value::Unplaced || to.home != Value::Unplaced || from.depth != depth ||
        !covers(*n, s.at.step, first, from.elements()))
      return std::nullopt;
    if (to.depth != depth) {
      const auto own = std::find_if(x.at.time.begin(), x.at.time.end(),
                                    [&](const auto& term) { return term.first == loop; });
      if (to.depth != depth - 1 || loop < 0 || own == x.at.time.end() ||
          std::abs(own->second) < from.elements())
        return std::nullopt;
    }
    return Move{s.value, x.value, {x.at.first, {}, x.at.time}, 1};
  }
  static bool goes_on(const Block& b, std::size_t q, ValueId v) {
    return std::any_of(b.begin() + static_cast<std::ptrdiff_t>(q), b.end(), [&](const Item& item) {
      const auto* product = std::get_if<Product>(&item.step);
      return product != nullptr && product->onto && product->c.value == v;
    });
  }
  std::size_t readers(const Block& b, ValueId v) const {
    std::size_t n = 0;
    for (const Item& item : b) {
      if (const auto* region = std::get_if<Region>(&item.step)) {
        for (const Block& inner : region->blocks) n += readers(inner, v);
        n += region->predicate != kNoValue && root(p_, region->predicate) == v ? 1 : 0;
        continue;
      }
      if (const auto* product = std::get_if<Product>(&item.step)) {  // what it goes on from does not count
        n += root(p_, product->a.value) == v || root(p_, product->b.value) == v ? 1 : 0;
        continue;
      }
      const Uses u = uses(p_, item);
      n += std::binary_search(u.reads.begin(), u.reads.end(), v) ? 1 : 0;
    }
    return n;
  }

  // Whole values that a nest copies, in one piece or in several.
  std::vector<Move> moves(const Item& item) {
    const auto* n = std::get_if<Nest>(&item.step);
    if (n == nullptr) return {};
    std::map<std::tuple<ValueId, ValueId, Index, std::vector<std::pair<int, Index>>, Dims>,
             std::vector<Index>>
        pieces;
    for (const Stmt& s : n->body) {
      if (s.kind != Stmt::Store) continue;
      const Stmt& x = n->body[static_cast<std::size_t>(s.in[0])];
      if (x.kind != Stmt::Load || !x.in.empty() || x.value == s.value || x.dtype != s.dtype ||
          x.at.step != s.at.step || !x.at.time.empty())
        continue;
      pieces[{x.value, s.value, s.at.first - x.at.first, s.at.time, s.at.step}].push_back(x.at.first);
    }
    std::vector<Move> out;
    for (const auto& [key, firsts] : pieces) {
      const auto& [from, to, offset, time, step] = key;
      if (covers(*n, step, firsts, value(from).elements()))
        out.push_back({from, to, {offset, {}, time}, firsts.size()});
    }
    if (!kernels_only_) add_twins(*n, out);
    return out;
  }
  // Whole values that a nest makes and stores a second time, as an argument that is replaced or as a result.
  void add_twins(const Nest& n, std::vector<Move>& out) {
    if (has_time(n)) return;
    std::map<std::tuple<ValueId, ValueId, Index, Dims>, std::vector<Index>> pieces;
    for (const Stmt& kept : n.body) {
      if (kept.kind != Stmt::Store || !stays(value(kept.value))) continue;
      for (const Stmt& s : n.body)
        if (s.kind == Stmt::Store && s.in == kept.in && s.dtype == kept.dtype && s.at.step == kept.at.step &&
            s.at.time.empty() && kept.at.time.empty() && value(s.value).home == Value::Unplaced)
          pieces[{s.value, kept.value, kept.at.first - s.at.first, s.at.step}].push_back(s.at.first);
    }
    for (const auto& [key, firsts] : pieces) {
      const auto& [from, to, offset, step] = key;
      if (covers(n, step, firsts, value(from).elements()))
        out.push_back({from, to, {offset, {}, {}}, firsts.size(), true});
    }
  }
  static bool stays(const Value& v) { return v.home == Value::Argument || v.home == Value::Result; }
  // Every number from 0 on exactly once: the positions of one piece, and those where pieces begin, count
  // through all numbers like digits.
  static bool covers(const Nest& n, const Dims& step, const std::vector<Index>& firsts, Index elements) {
    std::vector<std::pair<Index, Index>> digits;  // what one more is worth, and how many there are
    for (std::size_t a = 0; a < n.axes.size(); ++a) digits.emplace_back(step[a], n.axes[a].size);
    if (!add_digits(firsts, digits)) return false;
    std::sort(digits.begin(), digits.end());
    Index reach = 1;
    for (const auto& [worth, size] : digits) {
      if (worth != reach) return false;
      reach *= size;
    }
    return reach == elements;
  }
  // Pieces begin at all sums of some steps, as they do after short axes were written out.
  static bool add_digits(std::vector<Index> firsts, std::vector<std::pair<Index, Index>>& digits) {
    std::sort(firsts.begin(), firsts.end());
    if (firsts[0] != 0) return false;
    while (firsts.size() > 1) {
      const Index worth = firsts[1];
      std::size_t size = 2;
      while (size < firsts.size() && firsts[size] == static_cast<Index>(size) * worth) ++size;
      if (firsts.size() % size != 0) return false;
      std::vector<Index> outer;
      for (std::size_t k = 0; k < firsts.size(); ++k) {
        if (k % size == 0) outer.push_back(firsts[k]);
        if (firsts[k] != outer.back() + static_cast<Index>(k % size) * worth) return false;
      }
      digits.emplace_back(worth, static_cast<Index>(size));
      firsts = std::move(outer);
    }
    return true;
  }

  // Why the maker of a value may not write where the copy q would put it; null: it may.
  const char* refusal(const Block& b, const std::vector<Uses>& all, std::size_t q, const Move& m) {
    if (m.twin) return refusal_of_twin(b, all, q, m);
    const Value& from = value(m.from);
    if (from.home != Value::Unplaced) return "what is copied has a place of its own";
    if (from.depth < value(m.to).depth) return "what is copied outlives the place";
    const auto has = [](const std::vector<ValueId>& list, ValueId v) {
      return std::binary_search(list.begin(), list.end(), v);
    };
    std::size_t first = b.size(), last = 0;
    for (std::size_t k = 0; k < b.size(); ++k)
      if (has(all[k].writes, m.from) || has(all[k].reads, m.from)) {
        first = std::min(first, k);
        last = k;
      }
    if (first >= q || !has(all[first].writes, m.from)) return "what is copied was not made in this block";
    const auto& maker = b[first].step;
    if (kernels_only_ && !std::holds_alternative<Product>(maker) && !std::holds_alternative<Call>(maker))
      return "it is no product and no kernel";
    if (uses_outside(b, m.from)) return "what is copied is needed elsewhere";
    for (std::size_t k = first; k <= last; ++k) {
      if (k == q) {
        // The nest itself may touch the target there, and nowhere else.
        if (!only_at(b[q], m)) return "the copy's loop touches the place itself";
        continue;
      }
      if (is_copy_back(b[k], m)) continue;
      if (has(all[k].writes, m.to)) return "the place is written in between";
      if (k > q && has(all[k].writes, m.from)) return "a loop goes on with it, and the copy stays as it was";
      if (has(all[k].reads, m.to) && k < q && !in_place(b[k], m)) return "what lies there is still read";
    }
    return nullptr;
  }

  // Why later steps may not read what the nest q has stored where it stays.
  const char* refusal_of_twin(const Block& b, const std::vector<Uses>& all, std::size_t q, const Move& m) {
    const auto has = [](const std::vector<ValueId>& list, ValueId v) {
      return std::binary_search(list.begin(), list.end(), v);
    };
    if (value(m.from).depth < value(m.to).depth) return "what is stored twice outlives the place";
    if (uses_outside(b, m.from)) return "what is stored twice is needed elsewhere";
    std::size_t last = q;
    for (std::size_t k = 0; k < b.size(); ++k) {
      if (has(all[k].writes, m.from) && k != q) return "what is stored twice is made in several steps";
      if (has(all[k].reads, m.from)) last = k;
      if (has(all[k].reads, m.from) && k <= q) return "its own loop reads what is stored twice";
    }
    for (std::size_t k = q + 1; k <= last; ++k)
      if (has(all[k].writes, m.to)) return "the place is written in between";
    return nullptr;
  }

  // Values of inner blocks are seen by those alone; one of an outer block could be read behind our back.
  bool uses_outside(const Block& b, ValueId v) const {
    std::size_t here = 0, everywhere = 0;
    count(b, v, here);
    count(p_.entry, v, everywhere);
    return here != everywhere;
  }
  void count(const Block& b, ValueId v, std::size_t& n) const {
    for (const Item& item : b) {
      if (const auto* region = std::get_if<Region>(&item.step)) {
        for (const Block& inner : region->blocks) count(inner, v, n);
        if (region->predicate != kNoValue && root(p_, region->predicate) == v) ++n;
        continue;
      }
      const Uses u = uses(p_, item);
      n += static_cast<std::size_t>(std::count(u.reads.begin(), u.reads.end(), v) +
                                    std::count(u.writes.begin(), u.writes.end(), v));
    }
  }

  bool only_at(const Item& item, const Move& m) const {
    const auto& n = std::get<Nest>(item.step);
    std::size_t stores = 0;
    for (const Stmt& s : n.body) {
      if (s.value != m.to || !accesses(s)) continue;
      if (s.kind != Stmt::Store) return false;
      ++stores;
    }
    return stores == m.pieces;
  }

  // `from` begins as a copy of the very place it shall move to.
  bool is_copy_back(const Item& item, const Move& m) const {
    const auto* n = std::get_if<Nest>(&item.step);
    if (n == nullptr) return false;
    return std::all_of(n->body.begin(), n->body.end(), [&](const Stmt& s) {
      if (s.kind == Stmt::Load) return s.in.empty();
      if (s.kind != Stmt::Store || s.value != m.from) return false;
      const Stmt& x = n->body[static_cast<std::size_t>(s.in[0])];
      return x.kind == Stmt::Load && x.value == m.to && x.at.step == s.at.step && s.at.time.empty() &&
             x.at.time == m.at.time && x.at.first == s.at.first + m.at.first;
    });
  }

  // A kernel that may write a result over the operand it reads from there.
  bool in_place(const Item& item, const Move& m) const {
    const auto* call = std::get_if<Call>(&item.step);
    if (call == nullptr || m.at.first != 0 || !m.at.time.empty()) return false;
    std::size_t reads = 0;
    for (const ValueId v : call->in)
      if (root(p_, v) == m.to) ++reads;
    return reads == 1 && std::any_of(call->in_place.begin(), call->in_place.end(), [&](const InPlace& pair) {
             return call->out[pair.result] == m.from && call->in[pair.operand] == m.to;
           });
  }

  // From now on `from` is that place.
  void replace(const Move& m) {
    Value& v = value(m.from);
    v.home = Value::Inside;
    v.base = m.to;
    v.at = m.at;
    for (Value& other : p_.values)
      if ((other.home == Value::Inside || other.home == Value::View) && other.base == m.from) {
        other.base = m.to;
        other.at = moved(other.at, m);
      }
    rewrite(p_.entry, m);
  }
  static Form moved(const Form& f, const Move& m) {
    Form offset = m.at;
    offset.step.assign(f.step.size(), 0);
    return sum(f, offset);
  }
  void rewrite(Block& b, const Move& m) {
    for (Item& item : b) {
      if (auto* n = std::get_if<Nest>(&item.step)) {
        for (Stmt& s : n->body)
          if (accesses(s) && s.value == m.from) {
            s.value = m.to;
            s.at = moved(s.at, m);
          }
        drop_self_copies(*n);
      }
      if (auto* q = std::get_if<Product>(&item.step))
        for (Matrices* x : {&q->a, &q->b, &q->c})
          if (x->value == m.from) {
            x->value = m.to;
            x->at = moved(x->at, m);
          }
      if (auto* region = std::get_if<Region>(&item.step))
        for (Block& inner : region->blocks) rewrite(inner, m);
    }
  }
  // x = x, and the second x = y.
  static void drop_self_copies(Nest& n) {
    for (std::size_t k = n.body.size(); k-- > 0;) {
      const Stmt& s = n.body[k];
      if (s.kind != Stmt::Store) continue;
      const Stmt& x = n.body[static_cast<std::size_t>(s.in[0])];
      const bool to_itself = x.kind == Stmt::Load && x.in.empty() && x.value == s.value && x.at == s.at;
      const bool again = std::any_of(n.body.begin(), n.body.begin() + static_cast<std::ptrdiff_t>(k),
                                     [&](const Stmt& other) {
                                       return other.kind == Stmt::Store && other.value == s.value &&
                                              other.in == s.in && other.at == s.at;
                                     });
      if (!to_itself && !again) continue;
      n.body.erase(n.body.begin() + static_cast<std::ptrdiff_t>(k));
      for (Stmt& later : n.body)
        for (int& i : later.in) i -= i > static_cast<int>(k) ? 1 : 0;
    }
  }

  EmitProgram& p_;
  const bool kernels_only_;
};

}  // namespace

void coalesce(EmitProgram& p) { Coalescing(p, false).run(); }
void coalesce_kernels(EmitProgram& p) { Coalescing(p, true).run(); }

}  // namespace etrace::emit
