// One nest as a tree of loops. Statements stand at the depth of the innermost loop that they vary with.
// Vectors are left to the compiler, which is told that the innermost loop has no dependences: so one text
// serves every width, every compiler and every target, and a lane rounds as a lone number does.
//
// Folds come in three forms, all in the order of ops/reduce_order.h:
//   columns   without a line, the vector axis is kept: blocks of accumulators, folded row by row
//   chain     the same where no axis is kept, or nothing is a vector
//   lines     blocks of a line in lanes (runtime/etp_fold.h), in place where the line is one axis; where it
//             is several, its elements are laid side by side first, some hundred at a time
// A nest with a time axis walks it inside blocks of the vector axis, or of the axis around a short one, so
// that what it carries stays near and every time reads a stretch of memory.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "emit/eqn_text.h"
#include "emit/target.h"
#include "emit/tree_builder.h"
#include "etrace/error.h"
#include "runtime/etp_fold.h"

namespace etrace::emit {

namespace {

std::string variable_type(Dtype t) { return t == Dtype::Bool ? "_Bool" : std::string(c_type(t)); }

// The functions of etp_fold.h for it.
std::string fold_functions(const Stmt& fold) {
  constexpr const char* names[] = {"sum", "product", "max", "min", "and", "or"};
  return fmt::format("etp_fold_{}_{}", names[static_cast<std::size_t>(fold.op)], short_name(fold.dtype));
}

std::string join_text(const Stmt& fold, const std::string& a, const std::string& b) {
  return fold_text(fold.op, fold.dtype, a, b);
}

class NestLoops {
 public:
  NestLoops(const EmitProgram& p, const Nest& n)
      : p_(p), t_(*p.target), n_(n), pointers_(nest_pointers(n)), lane_(n.lane), out_(t_) {
    for (std::size_t i = 0; i < n.axes.size(); ++i) {
      const int a = static_cast<int>(i);
      if (n.axes[i].folds())
        (n.axes[i].kind == Axis::Line ? line_ : chain_).push_back(a);
      else if (n.axes[i].kind == Axis::Time)
        time_ = a;
      else if (a != lane_)
        outer_.push_back(a);
    }
    if (time_ >= 0 && lane_ >= 0 && !outer_.empty() && 2 * size(lane_) <= t_.block) {
      block_ = outer_.back();
      outer_.pop_back();
    }
    for (const Stmt& s : n.body) analyse(s);
  }

  LoopFunction run() {
    declare_votes();
    hoisted(0);
    if (const auto go = condition()) out_.add(Leave{"!" + name(static_cast<int>(*go))});
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
    out_.close_to(1);
    count_votes();
    return {.name = {}, .pointers = parameters(), .ranged = ranged(), .body = out_.take()};
  }

 private:
  using Mask = std::set<int>;  // axes

  // Loops -------------------------------------------------------------------------------------------------
  Index size(int a) const { return n_.axes[static_cast<std::size_t>(a)].size; }
  bool is_each(int a) const { return n_.axes[static_cast<std::size_t>(a)].kind == Axis::Each; }
  std::string begin(int a) const { return a == block_ ? "j" : first(a); }
  std::string end(int a) const { return a == block_ ? "j + n" : last(a); }
  // Of the positions that the function walks through.
  bool ranged() const { return t_.most_parts > 1; }
  std::string first(int a) const { return ranged() && a == 0 && is_each(a) ? "lo" : "0"; }
  std::string last(int a) const { return ranged() && a == 0 && is_each(a) ? "hi" : std::to_string(size(a)); }

  void open_loop(int a, Range::Kind kind = Range::Serial) {
    const bool down = n_.axes[static_cast<std::size_t>(a)].reverse;
    out_.open({.kind = kind,
               .variable = fmt::format("i{}", a),
               .from = down ? std::to_string(size(a) - 1) : begin(a),
               .to = down ? "0" : end(a),
               .down = down,
               .joined = kind == Range::Vector ? joined_votes() : std::vector<std::string>{}});
  }
  void open_vector(const std::string& variable, const std::string& from, const std::string& to) {
    open_vector(variable, from, to, joined_votes());
  }
  void open_vector(const std::string& variable, const std::string& from, const std::string& to,
                   std::vector<std::string> joined) {
    out_.open({.kind = t_.vectors ? Range::Vector : Range::Serial,
               .variable = variable,
               .from = from,
               .to = to,
               .joined = std::move(joined)});
  }
  void close() { out_.close(); }
  // The position on an axis that has no loop variable of its own, if anybody asks for it.
  void position(int axis, const std::string& at) {
    const bool asked = std::any_of(n_.body.begin(), n_.body.end(), [&](const Stmt& s) {
      return has_form(s) && s.at.step[static_cast<std::size_t>(axis)] != 0;
    });
    if (asked) out_.number(fmt::format("i{}", axis), at);
  }

  std::vector<LoopFunction::Parameter> parameters() const {
    std::vector<LoopFunction::Parameter> out;
    for (std::size_t k = 0; k < pointers_.size(); ++k) {
      bool written = false;
      for (const Stmt& s : n_.body) written = written || (writes(s) && pointer_of(s) == k);
      out.push_back({std::string(c_type(p_.value(pointers_[k].value).aval.dtype)), written});
    }
    return out;
  }
  std::size_t pointer_of(const Stmt& s) const {
    const Pointer want{s.value, s.at.first, s.at.time};
    return static_cast<std::size_t>(std::find(pointers_.begin(), pointers_.end(), want) - pointers_.begin());
  }

  bool is_wide(const Stmt& fold) const { return emit::is_wide(t_, fold.op, fold.dtype); }
  std::string accumulator_type(const Stmt& fold) const {
    return is_wide(fold) ? "double" : std::string(c_type(fold.dtype));
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
    if (writes(s) && has_folds(n_))  // once, not at every position of the folds
      late = std::none_of(m.begin(), m.end(), is_folded);
    varies_.push_back(m);
    late_.push_back(late);
    hoist_.push_back(writes(s) || late ? -1 : loops_needed(m, outer_));
  }
  bool is_written(ValueId v) const {
    return std::any_of(n_.body.begin(), n_.body.end(),
                       [&](const Stmt& s) { return writes(s) && s.value == v; });
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
      if (writes(n_.body[s])) use[s] = true;
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

  // A product, which may hide in a function, is rounded before anything is added to it (etp_rounded.h).
  static std::string rounded(const Stmt& s, const std::string& text) {
    const bool may_be_product = is_floating(s.dtype) && text.find_first_of("*(") != std::string::npos;
    return may_be_product ? "ETP_ROUNDED(" + text + ")" : text;
  }

  void statement(std::size_t s) {
    const Stmt& stmt = n_.body[s];
    const auto let = [&](std::string value) {
      out_.add(Let{variable_type(stmt.dtype), fmt::format("v{}", s), std::move(value)});
    };
    switch (stmt.kind) {
      case Stmt::Number:
      case Stmt::Fold:  // by after_folds()
        return;
      case Stmt::Load:
        return let(element(stmt));
      case Stmt::Position:
        return let(form_text(stmt.at, stmt.at.first));
      case Stmt::Apply:
        return let(rounded(stmt, apply_text(stmt)));
      case Stmt::Store:
        return out_.add(Set{element(stmt), name(stmt.in[0])});
      case Stmt::Vote: {
        const std::string seen = fmt::format("b{}{}", s, votes_in_lanes() ? "[k]" : "");
        return out_.add(Set{seen, seen + " | " + vote_text(stmt)});
      }
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
        statements([&](std::size_t s, const Stmt& stmt) { return writes(stmt) && !late_[s]; });
    for (const std::size_t f : folds()) wanted.push_back(static_cast<std::size_t>(n_.body[f].in[0]));
    return needed(wanted);
  }

  // Votes: what was seen is set by whoever sees it; before the nest runs it is not. Whether a number is
  // finite is seen by integers of its width, so that vectors have as many lanes; the sign bit tells.
  std::vector<std::size_t> votes() const {
    return statements([](std::size_t, const Stmt& s) { return s.kind == Stmt::Vote; });
  }
  std::optional<Dtype> looks_at(const Stmt& vote) const {
    const Stmt& about = n_.body[static_cast<std::size_t>(vote.in[0])];
    for (const Dtype t : {Dtype::F32, Dtype::F64})
      if (t_.vectors && vote.op == FoldCode::And && about.kind == Stmt::Apply &&
          about.text == fmt::format("etp_is_finite_{}($0)", short_name(t)))
        return t;
    return std::nullopt;
  }
  std::string vote_text(const Stmt& vote) const {
    const Stmt& about = n_.body[static_cast<std::size_t>(vote.in[0])];
    if (const auto t = looks_at(vote))
      return fmt::format("etp_mark_{}({})", short_name(*t), name(about.in[0]));
    return (vote.op == FoldCode::And ? "!" : "") + name(vote.in[0]);
  }
  std::string vote_type(std::size_t v) const {
    return looks_at(n_.body[v]) == Dtype::F64 ? "uint64_t" : "uint32_t";
  }
  // Loops over stretches of lanes have a vote for every lane: with a reduction, GCC 12 leaves them scalar.
  bool votes_in_lanes() const {
    return lane_ >= 0 && (time_ >= 0 ? block_ < 0 : has_folds(n_) && line_.empty());
  }
  std::vector<std::string> joined_votes() const {
    std::vector<std::string> out;
    if (!votes_in_lanes())
      for (const std::size_t v : votes()) out.push_back(fmt::format("b{}", v));
    return out;
  }
  Index vote_lanes() const { return std::min(t_.block, size(lane_)); }
  void declare_votes() {
    for (const std::size_t v : votes())
      if (votes_in_lanes())
        out_.add(Lanes{vote_type(v), fmt::format("b{}", v), vote_lanes(), true});
      else
        out_.add(Let{vote_type(v), fmt::format("b{}", v), "0", true});
  }
  void count_votes() {
    for (const std::size_t v : votes()) {
      std::string seen = fmt::format("b{}", v);
      if (votes_in_lanes()) {
        const std::string all = fmt::format("a{}", v);
        out_.add(Let{vote_type(v), all, "0", true});
        open_vector("k", "0", std::to_string(vote_lanes()), {all});
        out_.add(Set{all, all + " | " + seen + "[k]"});
        close();
        seen = all;
      }
      if (const auto t = looks_at(n_.body[v])) seen += *t == Dtype::F64 ? " >> 63" : " >> 31";
      const std::string value = n_.body[v].op == FoldCode::And ? "0" : "1";
      Tree then;  // threads may see the same at once
      if (t_.most_parts > 1)
        then.push_back(
            {Do{fmt::format("__atomic_store_n(&{}, {}, __ATOMIC_RELAXED)", element(n_.body[v]), value)}});
      else
        then.push_back({Set{element(n_.body[v]), value}});
      out_.add(If{seen, std::move(then)});
    }
  }

  // A nest that only chooses between what is there and something new, by one truth value, does nothing where
  // that says so: the truth value's statement, or none.
  std::optional<std::size_t> condition() const {
    std::optional<std::size_t> found;
    for (const Stmt& s : n_.body) {
      if (s.kind == Stmt::Vote) return std::nullopt;
      if (s.kind != Stmt::Store) continue;
      const Stmt& choice = n_.body[static_cast<std::size_t>(s.in[0])];
      if (choice.kind != Stmt::Apply || choice.text != "$0 ? $1 : $2") return std::nullopt;
      const auto which = static_cast<std::size_t>(choice.in[0]);
      const Stmt& old = n_.body[static_cast<std::size_t>(choice.in[2])];
      const bool stays = old.kind == Stmt::Load && old.in.empty() && old.value == s.value && old.at == s.at;
      if (!stays || hoist_[which] != 0 || found.value_or(which) != which) return std::nullopt;
      found = which;
    }
    return found;
  }

  // No folds ----------------------------------------------------------------------------------------------
  std::vector<std::size_t> for_stores() const {
    return needed(statements([](std::size_t, const Stmt& s) { return writes(s); }));
  }
  void plain() {
    if (lane_ >= 0) open_loop(lane_, Range::Vector);
    for (const std::size_t s : for_stores()) statement(s);
    if (lane_ >= 0) close();
  }

  void timed() {
    const std::size_t outside = out_.depth();
    const bool blocks_of_lanes = lane_ >= 0 && block_ < 0;
    if (blocks_of_lanes)
      open_block(lane_, t_.block);
    else if (lane_ >= 0)
      open_block(block_, t_.block / size(lane_));
    const std::vector<std::size_t> all = for_stores();
    const std::vector<int> open_axes =
        open_inner(block_ < 0 ? std::vector<int>{time_} : std::vector<int>{time_, block_}, all);
    if (blocks_of_lanes)
      open_lanes();
    else if (lane_ >= 0)
      open_loop(lane_, Range::Vector);
    innermost(all, open_axes);
    out_.close_to(outside);
  }

  // A stretch of an axis; and lanes, where that is the vector's.
  void open_block(int axis, Index length) {
    out_.open({.variable = "j", .from = first(axis), .to = last(axis), .step = length});
    out_.stretch(last(axis), length);
  }
  void open_lanes() {
    open_vector("k", "0", "n");
    position(lane_, "j + k");
  }

  // Folds ---------------------------------------------------------------------------------------------------
  void fold_step(std::size_t f, const std::string& into) {
    const Stmt& s = n_.body[f];
    out_.add(Set{into, join_text(s, into, (is_wide(s) ? "(double)" : "") + name(s.in[0]))});
  }
  // All begin with the neutral element.
  void accumulators(std::size_t f, const std::string& name, Index size, const std::string& used) {
    out_.add(Lanes{accumulator_type(n_.body[f]), name, size});
    out_.open({.variable = "k", .from = "0", .to = used});
    out_.add(Set{name + "[k]", neutral(f)});
    close();
  }
  std::string neutral(std::size_t f) const { return neutral_text(n_.body[f].op, n_.body[f].dtype); }

  // Stores of what the folds gave; sum(f) is where.
  template <class Sum>
  void after_folds(Sum sum) {
    const auto stores = statements([&](std::size_t s, const Stmt& stmt) { return writes(stmt) && late_[s]; });
    for (const std::size_t s : needed(stores)) {
      const Stmt& stmt = n_.body[s];
      if (stmt.kind == Stmt::Fold)
        out_.add(Let{variable_type(stmt.dtype), fmt::format("v{}", s),
                     rounded(stmt, fmt::format("({}){}", c_type(stmt.dtype), sum(s)))});
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
        if (!writes(n_.body[s]) && loops_needed(varies_[s], open_axes) == static_cast<int>(open_axes.size()))
          statement(s);
    }
    return open_axes;
  }

  void columns() {
    open_block(lane_, t_.block);
    for (const std::size_t f : folds()) accumulators(f, fmt::format("s{}", f), t_.block, "n");
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
      if (writes(n_.body[s]) || loops_needed(varies_[s], open_axes) < 0) statement(s);
  }
  void declare_totals() {
    for (const std::size_t f : folds())
      out_.add(Let{accumulator_type(n_.body[f]), fmt::format("s{}", f), neutral(f), true});
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
    out_.open({.variable = "j", .from = "0", .to = std::to_string(length), .step = ETP_FOLD_BLOCK});
    if (length > ETP_FOLD_BLOCK)
      out_.stretch(std::to_string(length), ETP_FOLD_BLOCK);
    else
      out_.number("n", std::to_string(length));
    for (const std::size_t f : folds())
      accumulators(f, fmt::format("l{}", f), ETP_FOLD_LANES, std::to_string(ETP_FOLD_LANES));
    if (line_.size() == 1)
      block_in_lanes(before, open_axes, length);
    else
      block_side_by_side(before, open_axes);
    for (const std::size_t f : folds())
      out_.add(
          Set{fmt::format("s{}", f), join_text(n_.body[f], fmt::format("s{}", f),
                                               fmt::format("{}_end(l{})", fold_functions(n_.body[f]), f))});
    close();
    for (std::size_t k = 0; k < chain_.size(); ++k) close();
    after_folds([](std::size_t f) { return fmt::format("s{}", f); });
  }

  // Elements [j, j + n) of a line that is one axis.
  void block_in_lanes(const std::vector<std::size_t>& before, const std::vector<int>& open_axes,
                      Index length) {
    const auto body = [&](const std::string& at) {
      position(line_.back(), at);
      innermost(before, open_axes);
      for (const std::size_t f : folds()) fold_step(f, fmt::format("l{}[k]", f));
      close();
    };
    const int rest = static_cast<int>(length % ETP_FOLD_LANES);
    if (length >= ETP_FOLD_LANES) {
      out_.open({.variable = "i",
                 .from = "0",
                 .to = fmt::format("n - {}", ETP_FOLD_LANES - 1),
                 .step = ETP_FOLD_LANES});
      open_vector("k", "0", std::to_string(ETP_FOLD_LANES));
      body("j + i + k");
      close();
    }
    if (rest != 0) {
      out_.open({.variable = "k", .from = "0", .to = fmt::format("n % {}", ETP_FOLD_LANES)});
      body(fmt::format("j + n - n % {} + k", ETP_FOLD_LANES));
    }
  }

  // The same of a line that is several axes: row by row of the last one.
  void block_side_by_side(const std::vector<std::size_t>& before, std::vector<int> open_axes) {
    const int last = line_.back();
    const Index row = size(last);
    out_.open({.variable = "b", .from = "j", .to = "j + n", .step = t_.block});
    out_.number("e", fmt::format("b + {0} < j + n ? b + {0} : j + n", t_.block));
    for (const std::size_t f : folds())
      out_.add(Lanes{std::string(c_type(n_.body[f].dtype)), fmt::format("e{}", f), t_.block});
    out_.open({.variable = "r",
               .from = fmt::format("b / {}", row),
               .to = fmt::format("(e + {}) / {}", row - 1, row)});
    Index inside = 1;
    for (std::size_t k = line_.size() - 1; k-- > 0;) {
      const std::string at = inside == 1 ? "r" : fmt::format("r / {}", inside);
      position(line_[k], at + (k == 0 ? "" : fmt::format(" % {}", size(line_[k]))));
      inside *= size(line_[k]);
    }
    const std::vector<int> known = open_axes;
    open_axes.insert(open_axes.end(), line_.begin(), line_.end() - 1);
    for (const std::size_t s : before)
      if (!writes(n_.body[s]) && loops_needed(varies_[s], known) < 0 &&
          loops_needed(varies_[s], open_axes) >= 0)
        statement(s);
    open_vector(fmt::format("i{}", last), fmt::format("(r * {0} < b ? b - r * {0} : 0)", row),
                fmt::format("(e - r * {0} < {0} ? e - r * {0} : {0})", row));
    innermost(before, open_axes);
    for (const std::size_t f : folds())
      out_.add(Set{fmt::format("e{}[r * {} + i{} - b]", f, row, last), name(n_.body[f].in[0])});
    close();
    close();
    for (const std::size_t f : folds())
      out_.add(Do{fmt::format("{}_add(l{}, e{}, e - b)", fold_functions(n_.body[f]), f, f)});
    close();
  }

  const EmitProgram& p_;
  const Target& t_;
  const Nest& n_;
  const std::vector<Pointer> pointers_;
  const int lane_;
  int time_ = -1, block_ = -1;  // axes; block: one that is walked in stretches, around a short vector axis
  std::vector<int> chain_, line_, outer_;  // axes; outer: Each axes that are none of the others
  std::vector<Mask> varies_;               // per statement: axes that it varies with
  std::vector<bool> late_;                 // runs after the folds
  std::vector<int> hoist_;                 // outer loops that must be open; -1: it stands further inside
  TreeBuilder out_;
};

}  // namespace

std::vector<Pointer> nest_pointers(const Nest& n) {
  std::vector<Pointer> out;
  for (const Stmt& s : n.body) {
    if (!accesses(s)) continue;
    const Pointer p{s.value, s.at.first, s.at.time};
    if (std::find(out.begin(), out.end(), p) == out.end()) out.push_back(p);
  }
  return out;
}

LoopFunction loops_of(const EmitProgram& p, const Nest& n) { return NestLoops(p, n).run(); }

}  // namespace etrace::emit
