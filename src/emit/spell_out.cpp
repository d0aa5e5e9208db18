// Short axes are written out: every position becomes statements of its own. The states of a neuron, which lie
// side by side on an axis of size two or three, become separate values this way, and a fold over them an
// ordinary formula; then each can stay in a register.
#include <fmt/format.h>

#include <algorithm>

#include "emit/eqn_text.h"
#include "emit/passes.h"
#include "emit/target.h"
#include "runtime/etp_fold.h"

namespace etrace::emit {

namespace {

class SpellOut {
 public:
  SpellOut(const Target& t, Nest& n, std::vector<std::size_t> axes) : t_(t), n_(n), axes_(std::move(axes)) {
    for (const std::size_t a : axes_) {
      count_ *= n_.axes[a].size;
      if (n_.axes[a].kind == Axis::Line) line_ *= n_.axes[a].size;
    }
  }

  void run() {
    for (const Stmt& s : n_.body) add(s);
    for (auto a = axes_.rbegin(); a != axes_.rend(); ++a) {
      n_.axes.erase(n_.axes.begin() + static_cast<std::ptrdiff_t>(*a));
      for (Stmt& s : body_)
        if (has_form(s)) s.at.step.erase(s.at.step.begin() + static_cast<std::ptrdiff_t>(*a));
    }
    n_.body = std::move(body_);
  }

 private:
  // One copy, or one for every position.
  void add(const Stmt& s) {
    if (s.kind == Stmt::Fold && folds_written_out()) return add_fold(s);
    bool varies = false;
    for (const int i : s.in) varies = varies || copies_[static_cast<std::size_t>(i)].size() > 1;
    if (has_form(s))
      for (const std::size_t a : axes_) varies = varies || s.at.step[a] != 0;
    std::vector<int> copies;
    for (Index k = 0; k < (varies ? count_ : 1); ++k) {
      Stmt copy = s;
      for (int& i : copy.in) i = copy_of(i, k);
      if (has_form(s)) copy.at.first += offset(s.at, k);
      copies.push_back(static_cast<int>(body_.size()));
      body_.push_back(std::move(copy));
    }
    copies_.push_back(std::move(copies));
  }
  int copy_of(int s, Index k) const {
    const std::vector<int>& all = copies_[static_cast<std::size_t>(s)];
    return all[all.size() > 1 ? static_cast<std::size_t>(k) : 0];
  }
  // Row-major over the axes that go.
  Index offset(const Form& f, Index k) const {
    Index sum = 0;
    for (auto a = axes_.rbegin(); a != axes_.rend(); ++a) {
      sum += k % n_.axes[*a].size * f.step[*a];
      k /= n_.axes[*a].size;
    }
    return sum;
  }

  bool folds_written_out() const { return n_.axes[axes_[0]].folds(); }

  // In the order of ops/reduce_order.h; a line this short is one block, with an element at most per lane.
  // Sums and products of f32 are formed in f64; of two numbers the result is the same in f32.
  void add_fold(const Stmt& s) {
    const bool wide = is_wide(t_, s.op, s.dtype) && count_ > 2;
    const bool sum = s.op == FoldCode::Sum && is_floating(s.dtype);
    const char* zero = s.dtype == Dtype::F32 && !wide ? "0.0f" : "0.0";
    Stmt out{.kind = Stmt::Apply, .dtype = s.dtype, .cost = static_cast<int>(count_), .eqn = s.eqn};
    std::string total;
    for (Index start = 0; start < count_; start += line_) {
      std::vector<std::string> lanes;
      for (Index k = start; k < start + line_; ++k) {
        std::string e = fmt::format("{}${}", wide ? "(double)" : "", k);
        if (sum && (k == 0 || line_ > 1)) e = fmt::format("({} + {})", zero, e);
        lanes.push_back(e);
        out.in.push_back(copy_of(s.in[0], k));
      }
      for (std::size_t w = ETP_FOLD_LANES / 2; w > 0; w /= 2)
        for (std::size_t l = 0; l < w && l + w < lanes.size(); ++l)
          lanes[l] = "(" + fold_text(s.op, s.dtype, lanes[l], lanes[l + w]) + ")";
      total = total.empty() ? lanes[0] : "(" + fold_text(s.op, s.dtype, total, lanes[0]) + ")";
    }
    out.text = (wide ? "(float)" : "") + total;
    copies_.push_back({static_cast<int>(body_.size())});
    body_.push_back(std::move(out));
  }

  const Target& t_;
  Nest& n_;
  const std::vector<std::size_t> axes_;
  Index count_ = 1, line_ = 1;  // positions, and those of a line
  std::vector<Stmt> body_;
  std::vector<std::vector<int>> copies_;
};

void spell_out_nest(const Target& t, Nest& n) {
  std::vector<std::size_t> folds;
  Index fold_size = 1;
  for (std::size_t a = 0; a < n.axes.size(); ++a)
    if (n.axes[a].folds()) {
      folds.push_back(a);
      fold_size *= n.axes[a].size;
    }
  if (!folds.empty() && fold_size <= t.short_fold &&
      n.body.size() * static_cast<std::size_t>(fold_size) <= t.most_spelled)
    SpellOut(t, n, folds).run();
  for (bool again = true; again;) {
    again = false;
    Index rest = 1;
    for (const Axis& a : n.axes) rest *= a.size;
    for (std::size_t a = 0; a < n.axes.size() && !again; ++a) {
      const Index size = n.axes[a].size;
      // Enough must be left for vectors.
      if (n.axes[a].kind != Axis::Each || size > t.short_each || rest / size < 4 * t.lanes ||
          n.body.size() * static_cast<std::size_t>(size) > t.most_spelled)
        continue;
      SpellOut(t, n, {a}).run();
      again = true;
    }
  }
}

}  // namespace

void spell_out(EmitProgram& p) {
  for_each_nest(p.entry, [&](Nest& n) { spell_out_nest(*p.target, n); });
}

}  // namespace etrace::emit
