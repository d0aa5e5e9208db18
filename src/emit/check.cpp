// The grammar of an emitted program: every access lies inside its value, for all positions of the loops.
#include "emit/passes.h"
#include "etrace/error.h"

namespace etrace::emit {

namespace {

class Checker {
 public:
  explicit Checker(const EmitProgram& p) : p_(p) {
    for (const Loop& l : p.loops) loops_.push_back(l.length);
  }

  void block(const Block& b) {
    for (const Item& item : b) std::visit([&](const auto& s) { step(s); }, item.step);
  }

 private:
  const Value& value(ValueId v) const {
    ETRACE_CHECK(v >= 0 && static_cast<std::size_t>(v) < p_.values.size());
    return p_.values[static_cast<std::size_t>(v)];
  }
  void inside(ValueId v, const Form& f, const Dims& sizes) const {
    const Value& x = value(v);
    ETRACE_CHECK(x.home != Value::View && x.home != Value::Inside && x.home != Value::Splat);
    ETRACE_CHECK(f.step.size() == sizes.size());
    const Bounds b = bounds(f, {sizes, loops_});
    ETRACE_CHECK(b.low >= 0 && b.high < x.elements());
  }

  void step(const Nest& n) const {
    Dims sizes;
    bool folds = false;
    Axis::Kind last = Axis::Each;
    for (const Axis& a : n.axes) {
      ETRACE_CHECK(a.size > 1 && a.kind >= last && last != Axis::Time);
      ETRACE_CHECK(!(folds && a.kind == Axis::Time));
      folds = folds || a.folds();
      last = a.kind;
      sizes.push_back(a.size);
    }
    for (std::size_t s = 0; s < n.body.size(); ++s) {
      const Stmt& stmt = n.body[s];
      for (const int i : stmt.in) ETRACE_CHECK(i >= 0 && static_cast<std::size_t>(i) < s);
      // The number that a lookup adds is clipped by the formula that gives it.
      if (accesses(stmt)) inside(stmt.value, stmt.at, sizes);
      if (writes(stmt)) {
        ETRACE_CHECK(value(stmt.value).home != Value::Constant);
        ETRACE_CHECK(value(stmt.value).aval.dtype == stmt.dtype);
      }
      if (stmt.kind == Stmt::Vote)  // one element, at every position of the loops
        ETRACE_CHECK(stmt.dtype == Dtype::Bool && stmt.at.step == Dims(sizes.size(), 0));
      if (stmt.kind == Stmt::Fold) ETRACE_CHECK(folds);
    }
  }
  void step(const Product& q) const {
    const auto matrix = [&](const Matrices& m, Index rows, Index columns) {
      Dims sizes = q.batch;
      sizes.push_back(rows);
      sizes.push_back(columns);
      if (rows > 0 && columns > 0) inside(m.value, m.at, sizes);
    };
    matrix(q.a, q.rows, q.depth);
    matrix(q.b, q.depth, q.columns);
    matrix(q.c, q.rows, q.columns);
    ETRACE_CHECK(q.columns == 1 || q.c.at.step[q.batch.size() + 1] == 1);
  }
  void step(const Call& q) const {
    for (const auto* list : {&q.in, &q.out})
      for (const ValueId v : *list)
        ETRACE_CHECK(value(v).home != Value::View && value(v).home != Value::Splat);
  }
  void step(const Region& q) {
    for (const Block& b : q.blocks) block(b);
  }

  const EmitProgram& p_;
  std::vector<Index> loops_;
};

}  // namespace

void check(const EmitProgram& p) { Checker(p).block(p.entry); }

}  // namespace etrace::emit
