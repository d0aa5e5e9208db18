// One nest as a C function. Statements stand at the depth of the innermost loop that they vary with. Vectors
// are left to the compiler, which is told that the innermost loop has no dependences (omp simd): so one text
// serves every width, every compiler and every target, and a lane rounds as a lone number does.
//
// Folds come in two forms:
//   columns   the vector axis is kept: blocks of accumulators, folded row by row
//   lines     the vector axis is folded: 16 lanes, joined after every 4096 elements
// A nest with a time axis walks it inside blocks of the vector axis, or of the axis around a short one, so
// that what it carries stays near and every time reads a stretch of memory.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "emit/c_printer.h"
#include "emit/eqn_text.h"
#include "etrace/error.h"

namespace etrace::emit {

namespace {

constexpr Index kLanes = 16, kLineBlock = 4096, kColumnBlock = 512;

std::string variable_type(Dtype t) { return t == Dtype::Bool ? "_Bool" : std::string(c_type(t)); }

// Sums and products of floats are formed in f64.
bool is_wide(const Stmt& fold) {
  return fold.dtype == Dtype::F32 && (fold.op == FoldCode::Sum || fold.op == FoldCode::Product);
}
std::string accumulator_type(const Stmt& fold) {
  return is_wide(fold) ? "double" : std::string(c_type(fold.dtype));
}

std::string join_text(const Stmt& fold, const std::string& a, const std::string& b) {
  return fold_text(fold.op, fold.dtype, a, b);
}

class NestPrinter {
 public:
  NestPrinter(const EmitProgram& p, const Nest& n)
      : p_(p), n_(n), pointers_(nest_pointers(n)), lane_(n.lane) {
    for (std::size_t i = 0; i < n.axes.size(); ++i) {
      const int a = static_cast<int>(i);
      if (n.axes[i].kind == Axis::Fold)
        folds_.push_back(a);
      else if (n.axes[i].kind == Axis::Time)
        time_ = a;
      else if (a != lane_)
        outer_.push_back(a);
    }
    if (time_ >= 0 && lane_ >= 0 && !outer_.empty() && 2 * size(lane_) <= kColumnBlock) {
      block_ = outer_.back();
      outer_.pop_back();
    }
    for (const Stmt& s : n.body) analyse(s);
  }

  std::string run(const std::string& name) {
    out_ = fmt::format("static void {}(char* const* p, int64_t lo, int64_t hi) {{\n", name);
    declare_pointers();
    hoisted(0);
    for (std::size_t k = 0; k < outer_.size(); ++k) {
      open_loop(outer_[k]);
      hoisted(k + 1);
    }
    if (time_ >= 0)
      timed();
    else if (folds_.empty())
      plain();
    else if (lane_ >= 0 && is_each(lane_))
      columns();
    else
      lines();
    while (depth_ > 1) close();
    return out_ + "}\n";
  }

 private:
  using Mask = std::set<int>;  // axes

  // Text --------------------------------------------------------------------------------------------------
  void line(const std::string& text) { out_ += std::string(2 * depth_, ' ') + text + "\n"; }
  void open(const std::string& text) {
    line(text + "{");
    ++depth_;
  }
  void close() {
    --depth_;
    line("}");
  }
  Index size(int a) const { return n_.axes[static_cast<std::size_t>(a)].size; }
  bool is_each(int a) const { return n_.axes[static_cast<std::size_t>(a)].kind == Axis::Each; }
  std::string begin(int a) const { return a == block_ ? "j" : first(a); }
  std::string end(int a) const { return a == block_ ? "j + n" : last(a); }
  // Of the positions that the function walks through.
  std::string first(int a) const { return a == 0 && is_each(a) ? "lo" : "0"; }
  std::string last(int a) const { return a == 0 && is_each(a) ? "hi" : std::to_string(size(a)); }

  void open_loop(int a) {
    if (n_.axes[static_cast<std::size_t>(a)].reverse)
      return open(fmt::format("for (int64_t i{0} = {1}; i{0} >= 0; --i{0}) ", a, size(a) - 1));
    open(fmt::format("for (int64_t i{0} = {1}; i{0} < {2}; ++i{0}) ", a, begin(a), end(a)));
  }
  void open_simd(const std::string& variable, const std::string& from, const std::string& to) {
    out_ += "#pragma omp simd\n";
    open(fmt::format("for (int64_t {0} = {1}; {0} < {2}; ++{0}) ", variable, from, to));
  }

  void declare_pointers() {
    for (std::size_t k = 0; k < pointers_.size(); ++k) {
      bool written = false;
      for (const Stmt& s : n_.body) written = written || (s.kind == Stmt::Store && pointer_of(s) == k);
      const std::string type(c_type(p_.values[static_cast<std::size_t>(pointers_[k].value)].aval.dtype));
      line(written ? fmt::format("{0}* const x{1} = ({0}*)p[{1}];", type, k)
                   : fmt::format("const {0}* const x{1} = (const {0}*)p[{1}];", type, k));
    }
  }
  std::size_t pointer_of(const Stmt& s) const {
    const Pointer want{s.value, s.at.first, s.at.time};
    return static_cast<std::size_t>(std::find(pointers_.begin(), pointers_.end(), want) - pointers_.begin());
  }

  // Statements --------------------------------------------------------------------------------------------
  void analyse(const Stmt& s) {
    Mask m;
    bool late = s.kind == Stmt::Fold;
    for (const int i : s.in) {
      m.insert(varies_[static_cast<std::size_t>(i)].begin(), varies_[static_cast<std::size_t>(i)].end());
      late = late || late_[static_cast<std::size_t>(i)];
    }
    if (has_form(s))
      for (std::size_t a = 0; a < s.at.step.size(); ++a)
        if (s.at.step[a] != 0) m.insert(static_cast<int>(a));
    if (s.kind == Stmt::Load && time_ >= 0 && is_written(s.value)) m.insert(time_);  // what it carries
    if (s.kind == Stmt::Fold)
      for (const int a : folds_) m.erase(a);
    if (s.kind == Stmt::Store && !folds_.empty())  // once, not at every position of the folds
      late = std::none_of(folds_.begin(), folds_.end(), [&](int a) { return m.contains(a); });
    varies_.push_back(m);
    late_.push_back(late);
    hoist_.push_back(s.kind == Stmt::Store || late ? -1 : loops_needed(m, outer_));
  }
  bool is_written(ValueId v) const {
    return std::any_of(n_.body.begin(), n_.body.end(),
                       [&](const Stmt& s) { return s.kind == Stmt::Store && s.value == v; });
  }
  // How many of these loops must be open for something that varies so; -1: others too.
  static int loops_needed(const Mask& m, const std::vector<int>& loops) {
    int depth = 0;
    for (const int a : m) {
      const auto it = std::find(loops.begin(), loops.end(), a);
      if (it == loops.end()) return -1;
      depth = std::max(depth, static_cast<int>(it - loops.begin()) + 1);
    }
    return depth;
  }
  void hoisted(std::size_t depth) {
    const std::vector<bool> use = used();
    for (std::size_t s = 0; s < n_.body.size(); ++s)
      if (use[s] && hoist_[s] == static_cast<int>(depth)) statement(s);
  }
  std::vector<bool> used() const {
    std::vector<bool> use(n_.body.size(), false);
    for (std::size_t s = n_.body.size(); s-- > 0;) {
      if (n_.body[s].kind == Stmt::Store) use[s] = true;
      if (use[s])
        for (const int i : n_.body[s].in) use[static_cast<std::size_t>(i)] = true;
    }
    return use;
  }

  std::string name(int s) const {
    const Stmt& stmt = n_.body[static_cast<std::size_t>(s)];
    if (stmt.kind == Stmt::Number) return stmt.text[0] == '-' ? "(" + stmt.text + ")" : stmt.text;
    return fmt::format("v{}", s);
  }
  static std::string form_text(const Form& f, Index constant) {
    std::string text;
    for (std::size_t a = 0; a < f.step.size(); ++a) {
      const Index step = f.step[a];
      if (step == 0) continue;
      const std::string term = step == 1 || step == -1 ? fmt::format("i{}", a)
                                                       : fmt::format("i{} * {}", a, step < 0 ? -step : step);
      text += text.empty() ? (step < 0 ? "-" : "") + term : (step < 0 ? " - " : " + ") + term;
    }
    if (text.empty()) return std::to_string(constant);
    if (constant != 0)
      text += fmt::format(" {} {}", constant < 0 ? '-' : '+', constant < 0 ? -constant : constant);
    return text;
  }
  std::string element(const Stmt& s) const {
    std::string at = form_text(s.at, 0);
    if (s.kind == Stmt::Load && !s.in.empty()) at += " + " + name(s.in[0]);
    return fmt::format("x{}[{}]", pointer_of(s), at);
  }
  std::string apply_text(const Stmt& s) const {
    std::string text;
    for (std::size_t i = 0; i < s.text.size(); ++i) {
      if (s.text[i] != '$') {
        text += s.text[i];
        continue;
      }
      std::size_t operand = 0;
      while (i + 1 < s.text.size() && s.text[i + 1] >= '0' && s.text[i + 1] <= '9')
        operand = operand * 10 + static_cast<std::size_t>(s.text[++i] - '0');
      text += name(s.in[operand]);
    }
    return text;
  }

  void statement(std::size_t s) {
    const Stmt& stmt = n_.body[s];
    const std::string head = fmt::format("const {} v{} = ", variable_type(stmt.dtype), s);
    switch (stmt.kind) {
      case Stmt::Number:
      case Stmt::Fold:  // by after_folds()
        return;
      case Stmt::Load:
        return line(head + element(stmt) + ";");
      case Stmt::Position:
        return line(head + form_text(stmt.at, stmt.at.first) + ";");
      case Stmt::Apply:
        return line(head + apply_text(stmt) + ";");
      case Stmt::Store:
        return line(element(stmt) + " = " + name(stmt.in[0]) + ";");
    }
  }

  // All statements that the wanted ones need, except those that stand outside already. What is before a fold
  // is not asked for by what comes after it.
  std::vector<std::size_t> needed(const std::vector<std::size_t>& wanted) const {
    std::vector<bool> use(n_.body.size(), false);
    for (const std::size_t s : wanted) use[s] = true;
    for (std::size_t s = n_.body.size(); s-- > 0;)
      if (use[s] && n_.body[s].kind != Stmt::Fold)
        for (const int i : n_.body[s].in) use[static_cast<std::size_t>(i)] = true;
    std::vector<std::size_t> out;
    for (std::size_t s = 0; s < n_.body.size(); ++s)
      if (use[s] && hoist_[s] < 0) out.push_back(s);
    return out;
  }
  template <class Keep>
  std::vector<std::size_t> statements(Keep keep) const {
    std::vector<std::size_t> out;
    for (std::size_t s = 0; s < n_.body.size(); ++s)
      if (keep(s, n_.body[s])) out.push_back(s);
    return out;
  }
  std::vector<std::size_t> folds() const {
    return statements([](std::size_t, const Stmt& s) { return s.kind == Stmt::Fold; });
  }
  // What runs inside the loops of a fold.
  std::vector<std::size_t> before_folds() const {
    std::vector<std::size_t> wanted =
        statements([&](std::size_t s, const Stmt& stmt) { return stmt.kind == Stmt::Store && !late_[s]; });
    for (const std::size_t f : folds()) wanted.push_back(static_cast<std::size_t>(n_.body[f].in[0]));
    return needed(wanted);
  }

  // No folds ----------------------------------------------------------------------------------------------
  std::vector<std::size_t> for_stores() const {
    return needed(statements([](std::size_t, const Stmt& s) { return s.kind == Stmt::Store; }));
  }
  void plain() {
    if (lane_ >= 0) open_simd(fmt::format("i{}", lane_), begin(lane_), end(lane_));
    for (const std::size_t s : for_stores()) statement(s);
    if (lane_ >= 0) close();
  }

  void timed() {
    const std::size_t outside = depth_;
    const bool blocks_of_lanes = lane_ >= 0 && block_ < 0;
    if (blocks_of_lanes)
      open_block(lane_, kColumnBlock);
    else if (lane_ >= 0)
      open_block(block_, kColumnBlock / size(lane_));
    const std::vector<std::size_t> all = for_stores();
    const std::vector<int> open_axes =
        open_inner(block_ < 0 ? std::vector<int>{time_} : std::vector<int>{time_, block_}, all);
    if (blocks_of_lanes)
      open_lanes();
    else if (lane_ >= 0)
      open_simd(fmt::format("i{}", lane_), begin(lane_), end(lane_));
    for (const std::size_t s : all)
      if (n_.body[s].kind == Stmt::Store || loops_needed(varies_[s], open_axes) < 0) statement(s);
    while (depth_ > outside) close();
  }

  // A stretch of an axis; and lanes, where that is the vector's.
  void open_block(int axis, Index length) {
    open(fmt::format("for (int64_t j = {}; j < {}; j += {}) ", first(axis), last(axis), length));
    line(fmt::format("const int64_t n = {0} - j < {1} ? {0} - j : {1};", last(axis), length));
  }
  void open_lanes() {
    open_simd("k", "0", "n");
    line(fmt::format("const int64_t i{} = j + k;", lane_));
  }

  // Folds ---------------------------------------------------------------------------------------------------
  void fold_step(std::size_t f, const std::string& into) {
    const Stmt& s = n_.body[f];
    line(into + " = " + join_text(s, into, (is_wide(s) ? "(double)" : "") + name(s.in[0])) + ";");
  }
  std::string neutral(std::size_t f) const { return neutral_text(n_.body[f].op, n_.body[f].dtype); }

  // Stores of what the folds gave; sum(f) is where.
  template <class Sum>
  void after_folds(Sum sum) {
    const auto stores =
        statements([&](std::size_t s, const Stmt& stmt) { return stmt.kind == Stmt::Store && late_[s]; });
    for (const std::size_t s : needed(stores)) {
      const Stmt& stmt = n_.body[s];
      if (stmt.kind == Stmt::Fold)
        line(fmt::format("const {} v{} = ({}){};", variable_type(stmt.dtype), s, c_type(stmt.dtype), sum(s)));
      else
        statement(s);
    }
  }

  // Opens these loops, with what is known inside them; returns all that are open then.
  std::vector<int> open_inner(const std::vector<int>& axes, const std::vector<std::size_t>& before) {
    std::vector<int> open_axes = outer_;
    for (const int a : axes) {
      open_loop(a);
      open_axes.push_back(a);
      for (const std::size_t s : before)
        if (n_.body[s].kind != Stmt::Store &&
            loops_needed(varies_[s], open_axes) == static_cast<int>(open_axes.size()))
          statement(s);
    }
    return open_axes;
  }

  void columns() {
    open_block(lane_, kColumnBlock);
    for (const std::size_t f : folds()) {
      line(fmt::format("{} s{}[{}];", accumulator_type(n_.body[f]), f, kColumnBlock));
      line(fmt::format("for (int64_t k = 0; k < n; ++k) s{}[k] = {};", f, neutral(f)));
    }
    const std::vector<std::size_t> before = before_folds();
    const std::vector<int> open_axes = open_inner(folds_, before);
    open_lanes();
    for (const std::size_t s : before)
      if (n_.body[s].kind == Stmt::Store || loops_needed(varies_[s], open_axes) < 0) statement(s);
    for (const std::size_t f : folds()) fold_step(f, fmt::format("s{}[k]", f));
    close();
    for (std::size_t k = 0; k < folds_.size(); ++k) close();
    open_lanes();
    after_folds([](std::size_t f) { return fmt::format("s{}[k]", f); });
    close();
    close();
  }

  void lines() {
    const int axis = folds_.back();
    const Index length = size(axis);
    for (const std::size_t f : folds())
      line(fmt::format("{} s{} = {};", accumulator_type(n_.body[f]), f, neutral(f)));
    const std::vector<std::size_t> before = before_folds();
    const std::vector<int> open_axes = open_inner({folds_.begin(), folds_.end() - 1}, before);
    open(fmt::format("for (int64_t j = 0; j < {}; j += {}) ", length, kLineBlock));
    line(length > kLineBlock
             ? fmt::format("const int64_t n = {0} - j < {1} ? {0} - j : {1};", length, kLineBlock)
             : fmt::format("const int64_t n = {};", length));
    for (const std::size_t f : folds()) {
      line(fmt::format("{} l{}[{}];", accumulator_type(n_.body[f]), f, kLanes));
      line(fmt::format("for (int64_t k = 0; k < {}; ++k) l{}[k] = {};", kLanes, f, neutral(f)));
    }
    const auto body = [&](const char* position) {
      line(fmt::format("const int64_t i{} = {};", axis, position));
      for (const std::size_t s : before)
        if (n_.body[s].kind == Stmt::Store || loops_needed(varies_[s], open_axes) < 0) statement(s);
      for (const std::size_t f : folds()) fold_step(f, fmt::format("l{}[k]", f));
    };
    line("int64_t i = 0;");
    if (length >= kLanes) {
      open(fmt::format("for (; i + {0} <= n; i += {0}) ", kLanes));
      open_simd("k", "0", std::to_string(kLanes));
      body("j + i + k");
      close();
      close();
    }
    if (length % kLanes != 0) {
      open("for (int64_t k = 0; i < n; ++i, ++k) ");
      body("j + i");
      close();
    }
    for (const std::size_t f : folds()) {
      const std::string l = fmt::format("l{}", f), s = fmt::format("s{}", f);
      line(fmt::format("for (int64_t w = {}; w > 0; w /= 2)", kLanes / 2));
      line(fmt::format("  for (int64_t k = 0; k < w; ++k) {}[k] = {};", l,
                       join_text(n_.body[f], l + "[k]", l + "[k + w]")));
      line(s + " = " + join_text(n_.body[f], s, l + "[0]") + ";");
    }
    close();
    for (std::size_t k = 0; k + 1 < folds_.size(); ++k) close();
    after_folds([](std::size_t f) { return fmt::format("s{}", f); });
  }

  const EmitProgram& p_;
  const Nest& n_;
  const std::vector<Pointer> pointers_;
  const int lane_;
  int time_ = -1, block_ = -1;  // axes; block: one that is walked in stretches, around a short vector axis
  std::vector<int> folds_, outer_;  // axes; outer: Each axes that are neither
  std::vector<Mask> varies_;        // per statement: axes that it varies with
  std::vector<bool> late_;          // runs after the folds
  std::vector<int> hoist_;          // outer loops that must be open; -1: it stands further inside
  std::string out_;
  std::size_t depth_ = 1;
};

}  // namespace

std::vector<Pointer> nest_pointers(const Nest& n) {
  std::vector<Pointer> out;
  for (const Stmt& s : n.body) {
    if (s.kind != Stmt::Load && s.kind != Stmt::Store) continue;
    const Pointer p{s.value, s.at.first, s.at.time};
    if (std::find(out.begin(), out.end(), p) == out.end()) out.push_back(p);
  }
  return out;
}

std::string print_nest(const EmitProgram& p, const Nest& n, const std::string& name) {
  return NestPrinter(p, n).run(name);
}

}  // namespace etrace::emit
