// Which loops over time threads may take by rows, mostly samples: every step of the loop reads, of what the
// loop writes, nothing but what it has written in the same row. A thread then runs all times for rows of its
// own, and nobody waits for anybody in between.
//
// The proof is of places. Row r of a value owns the elements r·stride + [0, stride), and the same again every
// rows·stride elements (states and times lie one behind the other). Every access by row r to a value that the
// loop writes has to fall into what row r owns.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "emit/passes.h"
#include "emit/target.h"
#include "etrace/error.h"

namespace etrace::emit {

namespace {

class RowsOfLoop {
 public:
  RowsOfLoop(const EmitProgram& p, const Region& loop) : p_(p), body_(loop.blocks[0]) {}

  // How many rows there are; 0: none of their own, and why().
  Index find() {
    for (const Item& item : body_)
      if (!std::visit([&](const auto& s) { return count(s); }, item.step)) return 0;
    if (rows_ < 2) return refuse("its steps have no rows in common");
    for (const Item& item : body_)
      for (const ValueId v : uses(p_, item).writes) written_.insert(v);
    for (const Item& item : body_)
      if (!std::visit([&](const auto& s) { return look_at(s); }, item.step)) return 0;
    return rows_;
  }
  const char* why() const { return why_; }
  int where() const { return where_; }  // an equation; -1: none

 private:
  Index refuse(const char* why, int eqn = -1) {
    why_ = why;
    where_ = eqn;
    return 0;
  }

  // The rows are what the outermost axes of all steps have in common.
  bool count(const Nest& n) {
    if (n.axes.empty() || n.axes[0].kind != Axis::Each)
      return refuse("a step has no positions that could be shared", eqn_of({n})) != 0;
    rows_ = std::gcd(rows_, n.axes[0].size);
    return true;
  }
  bool count(const Product& q) {
    if (!q.batch.empty()) return refuse("a product of many matrices", q.eqn) != 0;
    rows_ = std::gcd(rows_, q.rows);
    return true;
  }
  bool count(const Call& q) { return refuse("a kernel shares its work by itself", q.eqn) != 0; }
  bool count(const Region& q) { return refuse("a loop or a choice inside", q.eqn) != 0; }

  bool look_at(const Nest& n) {
    Dims sizes;
    for (const Axis& a : n.axes) sizes.push_back(a.size);
    for (const Stmt& s : n.body) {
      if (s.kind == Stmt::Vote) return refuse("a truth value of all rows", s.eqn) != 0;
      if (!accesses(s) || !written_.contains(s.value)) continue;
      if (s.kind == Stmt::Load && !s.in.empty())
        return refuse("which element is read is known at run time only", s.eqn) != 0;
      if (!owns(s.value, s.at, sizes)) return refuse("a row reads or writes another one's", s.eqn) != 0;
    }
    return true;
  }
  bool look_at(const Product& q) {
    const bool own = !written_.contains(q.b.value) && owns(q.c.value, q.c.at, {q.rows, q.columns}) &&
                     (!written_.contains(q.a.value) || owns(q.a.value, q.a.at, {q.rows, q.depth}));
    return own || refuse("a row reads or writes another one's", q.eqn) != 0;
  }
  bool look_at(const Call&) { return false; }
  bool look_at(const Region&) { return false; }

  // The first of `sizes` is shared.
  bool owns(ValueId v, const Form& at, const Dims& sizes) {
    const Index stride = at.step[0] * (sizes[0] / rows_), all = stride * rows_;
    if (stride <= 0 || strides_.try_emplace(v, stride).first->second != stride) return false;
    const auto moves_all = [&](Index step) { return step % all == 0; };
    if (!std::all_of(at.time.begin(), at.time.end(), [&](const auto& t) { return moves_all(t.second); }))
      return false;
    Index low = (at.first % all + all) % all, high = low + at.step[0] * (sizes[0] / rows_ - 1);
    for (std::size_t a = 1; a < sizes.size(); ++a)
      if (!moves_all(at.step[a])) (at.step[a] < 0 ? low : high) += at.step[a] * (sizes[a] - 1);
    return low >= 0 && high < stride;
  }

  const EmitProgram& p_;
  const Block& body_;
  Index rows_ = 0;
  std::set<ValueId> written_;
  std::map<ValueId, Index> strides_;
  const char* why_ = nullptr;
  int where_ = -1;
};

// Additions of a step, as choose_parts() counts them, and bytes that every row reads again.
struct Cost {
  double work = 0.0;
  std::size_t matrices = 0;
};
Cost cost_of(const Block& body) {
  Cost out;
  for (const Item& item : body) {
    if (const auto* n = std::get_if<Nest>(&item.step)) out.work += work_of(*n);
    if (const auto* q = std::get_if<Product>(&item.step)) {
      out.work += static_cast<double>(q->rows) * static_cast<double>(q->columns * q->depth);
      out.matrices += static_cast<std::size_t>(q->columns * q->depth) * size_of(q->dtype);
    }
  }
  return out;
}

}  // namespace

void share_rows(EmitProgram& p) {
  const Target& t = *p.target;
  if (t.most_parts == 1 || !t.has_products()) return;
  for (Item& item : p.entry) {
    auto* loop = std::get_if<Region>(&item.step);
    if (loop == nullptr || loop->kind != Region::Scan) continue;
    const Cost cost = cost_of(loop->blocks[0]);
    const double work = cost.work * static_cast<double>(p.loops[static_cast<std::size_t>(loop->loop)].length);
    RowsOfLoop rows(p, *loop);
    const char* why = nullptr;
    int where = loop->eqn;
    if (work < 2 * t.part_work)
      why = "it has little to do";
    else if (cost.matrices > t.near_bytes)
      why = "every thread would read all of its matrices at every time, and they are large";
    else if (const Index n = rows.find(); n == 0)
      why = rows.why(), where = rows.where();
    else
      loop->rows = n, loop->most_parts = static_cast<Index>(std::min(work / t.part_work, 4096.0));
    if (why != nullptr && p.why != nullptr) p.why->push_back({Refusal::ShareRows, loop->eqn, where, why});
  }
}

}  // namespace etrace::emit
