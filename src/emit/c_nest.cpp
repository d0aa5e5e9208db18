// One nest as a C function. Statements stand at the depth of the innermost loop that they vary with. Vectors
// are left to the compiler, which is told that the innermost loop has no dependences (omp simd): so one text
// serves every width, every compiler and every target, and a lane rounds as a lone number does.
//
// Folds come in three forms, all in the order of ops/reduce_order.h:
//   columns   without a line, the vector axis is kept: blocks of accumulators, folded row by row
//   chain     the same where no axis is kept
//   lines     blocks of a line in lanes (runtime/etp_fold.h), in place where the line is one axis; where it
//   is
//             several, its elements are laid side by side first, some hundred at a time
// A nest with a time axis walks it inside blocks of the vector axis, or of the axis around a short one, so
// that what it carries stays near and every time reads a stretch of memory.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "emit/c_printer.h"
#include "emit/eqn_text.h"
#include "etrace/error.h"
#include "runtime/etp_fold.h"

namespace etrace::emit {

namespace {

constexpr Index kColumnBlock = 512;
constexpr Index kSideBySide = 512;  // elements of a line: whole lanes

std::string variable_type(Dtype t) { return t == Dtype::Bool ? "_Bool" : std::string(c_type(t)); }

// Sums and products of floats are formed in f64.
bool is_wide(const Stmt& fold) {
  return fold.dtype == Dtype::F32 && (fold.op == FoldCode::Sum || fold.op == FoldCode::Product);
}
std::string accumulator_type(const Stmt& fold) {
  return is_wide(fold) ? "double" : std::string(c_type(fold.dtype));
}

// The functions of etp_fold.h for it.
std::string fold_functions(const Stmt& fold) {
  constexpr const char* names[] = {"sum", "product", "max", "min", "and", "or"};
  return fmt::format("etp_fold_{}_{}", names[static_cast<std::size_t>(fold.op)], short_name(fold.dtype));
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
      if (n.axes[i].folds())
        (n.axes[i].kind == Axis::Line ? line_ : chain_).push_back(a);
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
    else if (!has_folds(n_))
      plain();
    else if (!line_.empty())
      lines();
    else if (lane_ >= 0)
      columns();
    else
      chain();
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
    const auto is_folded = [&](int a) { return n_.axes[static_cast<std::size_t>(a)].folds(); };
    if (s.kind == Stmt::Fold) std::erase_if(m, is_folded);
    if (s.kind == Stmt::Store && has_folds(n_))  // once, not at every position of the folds
      late = std::none_of(m.begin(), m.end(), is_folded);
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

  // A product, which may hide in a function, is rounded before anything is added to it (kSupport of
  // c_program.cpp).
  static std::string rounded(const Stmt& s, const std::string& text) {
    const bool may_be_product = is_floating(s.dtype) && text.find_first_of("*(") != std::string::npos;
    return may_be_product ? "ETP_ROUNDED(" + text + ")" : text;
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
        return line(head + rounded(stmt, apply_text(stmt)) + ";");
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
    innermost(all, open_axes);
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
        line(fmt::format("const {} v{} = {};", variable_type(stmt.dtype), s,
                         rounded(stmt, fmt::format("({}){}", c_type(stmt.dtype), sum(s)))));
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
    const std::vector<int> open_axes = open_inner(chain_, before);
    open_lanes();
    innermost(before, open_axes);
    for (const std::size_t f : folds()) fold_step(f, fmt::format("s{}[k]", f));
    close();
    for (std::size_t k = 0; k < chain_.size(); ++k) close();
    open_lanes();
    after_folds([](std::size_t f) { return fmt::format("s{}[k]", f); });
    close();
    close();
  }

  // What stands inside all loops: all that was not printed further outside.
  void innermost(const std::vector<std::size_t>& all, const std::vector<int>& open_axes) {
    for (const std::size_t s : all)
      if (n_.body[s].kind == Stmt::Store || loops_needed(varies_[s], open_axes) < 0) statement(s);
  }
  void declare_totals() {
    for (const std::size_t f : folds())
      line(fmt::format("{} s{} = {};", accumulator_type(n_.body[f]), f, neutral(f)));
  }

  void chain() {
    declare_totals();
    const std::vector<std::size_t> before = before_folds();
    innermost(before, open_inner(chain_, before));
    for (const std::size_t f : folds()) fold_step(f, fmt::format("s{}", f));
    for (std::size_t k = 0; k < chain_.size(); ++k) close();
    after_folds([](std::size_t f) { return fmt::format("s{}", f); });
  }

  void lines() {
    declare_totals();
    const std::vector<std::size_t> before = before_folds();
    const std::vector<int> open_axes = open_inner(chain_, before);
    Index length = 1;
    for (const int a : line_) length *= size(a);
    open(fmt::format("for (int64_t j = 0; j < {}; j += {}) ", length, ETP_FOLD_BLOCK));
    line(length > ETP_FOLD_BLOCK
             ? fmt::format("const int64_t n = {0} - j < {1} ? {0} - j : {1};", length, ETP_FOLD_BLOCK)
             : fmt::format("const int64_t n = {};", length));
    for (const std::size_t f : folds()) {
      line(fmt::format("{} l{}[{}];", accumulator_type(n_.body[f]), f, ETP_FOLD_LANES));
      line(fmt::format("for (int64_t k = 0; k < {}; ++k) l{}[k] = {};", ETP_FOLD_LANES, f, neutral(f)));
    }
    if (line_.size() == 1)
      block_in_lanes(before, open_axes, length);
    else
      block_side_by_side(before, open_axes);
    for (const std::size_t f : folds())
      line(fmt::format("s{0} = {1};", f,
                       join_text(n_.body[f], fmt::format("s{}", f),
                                 fmt::format("{}_end(l{})", fold_functions(n_.body[f]), f))));
    close();
    for (std::size_t k = 0; k < chain_.size(); ++k) close();
    after_folds([](std::size_t f) { return fmt::format("s{}", f); });
  }

  // Elements [j, j + n) of a line that is one axis.
  void block_in_lanes(const std::vector<std::size_t>& before, const std::vector<int>& open_axes,
                      Index length) {
    const auto body = [&](const char* position) {
      line(fmt::format("const int64_t i{} = {};", line_.back(), position));
      innermost(before, open_axes);
      for (const std::size_t f : folds()) fold_step(f, fmt::format("l{}[k]", f));
    };
    line("int64_t i = 0;");
    if (length >= ETP_FOLD_LANES) {
      open(fmt::format("for (; i + {0} <= n; i += {0}) ", ETP_FOLD_LANES));
      open_simd("k", "0", std::to_string(ETP_FOLD_LANES));
      body("j + i + k");
      close();
      close();
    }
    if (length % ETP_FOLD_LANES != 0) {
      open("for (int64_t k = 0; i < n; ++i, ++k) ");
      body("j + i");
      close();
    }
  }

  // The same of a line that is several axes: row by row of the last one.
  void block_side_by_side(const std::vector<std::size_t>& before, std::vector<int> open_axes) {
    const int last = line_.back();
    const Index row = size(last);
    open(fmt::format("for (int64_t b = j; b < j + n; b += {}) ", kSideBySide));
    line(fmt::format("const int64_t e = b + {0} < j + n ? b + {0} : j + n;", kSideBySide));
    for (const std::size_t f : folds())
      line(fmt::format("{} e{}[{}];", c_type(n_.body[f].dtype), f, kSideBySide));
    open(fmt::format("for (int64_t r = b / {0}; r * {0} < e; ++r) ", row));
    Index inside = 1;
    for (std::size_t k = line_.size() - 1; k-- > 0;) {
      const std::string at = inside == 1 ? "r" : fmt::format("r / {}", inside);
      line(fmt::format("const int64_t i{} = {}{};", line_[k], at,
                       k == 0 ? "" : fmt::format(" % {}", size(line_[k]))));
      inside *= size(line_[k]);
    }
    const std::vector<int> known = open_axes;
    open_axes.insert(open_axes.end(), line_.begin(), line_.end() - 1);
    for (const std::size_t s : before)
      if (n_.body[s].kind != Stmt::Store && loops_needed(varies_[s], known) < 0 &&
          loops_needed(varies_[s], open_axes) >= 0)
        statement(s);
    open_simd(fmt::format("i{}", last), fmt::format("(r * {0} < b ? b - r * {0} : 0)", row),
              fmt::format("(e - r * {0} < {0} ? e - r * {0} : {0})", row));
    innermost(before, open_axes);
    for (const std::size_t f : folds())
      line(fmt::format("e{}[r * {} + i{} - b] = {};", f, row, last, name(n_.body[f].in[0])));
    close();
    close();
    for (const std::size_t f : folds())
      line(fmt::format("{}_add(l{}, e{}, e - b);", fold_functions(n_.body[f]), f, f));
    close();
  }

  const EmitProgram& p_;
  const Nest& n_;
  const std::vector<Pointer> pointers_;
  const int lane_;
  int time_ = -1, block_ = -1;  // axes; block: one that is walked in stretches, around a short vector axis
  std::vector<int> chain_, line_, outer_;  // axes; outer: Each axes that are none of the others
  std::vector<Mask> varies_;               // per statement: axes that it varies with
  std::vector<bool> late_;                 // runs after the folds
  std::vector<int> hoist_;                 // outer loops that must be open; -1: it stands further inside
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
