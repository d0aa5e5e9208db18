// A nest as a kernel. A thread has one position of the Each axes: their last one, along which memory is
// written, runs fastest; where there are very many of them it has several, so that more of memory is on its
// way at once. A time axis is a loop inside the thread. Folds come in two forms:
//   alone     a thread folds by itself: enough results to fill the device, or short folds
//   together  a block has `side` results side by side and divides their folds among its threads; what these
//   have
//             found is joined by halves. A very long fold is divided among blocks too: the last one to be
//             done joins what they left in scratch, in their order.
// So the order of every sum follows from sizes alone.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "emit/cuda_kernels.h"
#include "emit/eqn_text.h"
#include "emit/target.h"
#include "emit/tree_builder.h"
#include "etrace/error.h"

namespace etrace::emit {

namespace nest_kernels {
namespace {

constexpr Index kEnough = 8192;  // results that fill a device, one thread each
constexpr Index kShort = 32;     // elements that one thread folds in no time
constexpr Index kPerThread = 8;  // elements that make another thread of a block worth it
constexpr Index kLong = 16384;   // elements of a fold that several blocks divide
constexpr Index kMostChunks = 64;
constexpr int kThreads = 256;
constexpr Index kSharedBytes = 40 * 1024;
constexpr Index kVeryMany = 1 << 19;  // positions: a thread takes several

std::string type_of(Dtype t) { return t == Dtype::Bool ? "bool" : std::string(c_type(t)); }

class NestKernel {
 public:
  NestKernel(const EmitProgram& p, const Nest& n) : p_(p), n_(n), pointers_(nest_pointers(n)) {
    for (std::size_t i = 0; i < n.axes.size(); ++i) {
      const int a = static_cast<int>(i);
      if (n.axes[i].folds())
        fold_.push_back(a);
      else if (n.axes[i].kind == Axis::Time)
        time_ = a;
      else
        each_.push_back(a);
    }
    if (time_ >= 0 && times_are_apart()) {  // one more axis of positions
      each_.insert(each_.begin(), time_);
      time_ = -1;
    }
    for (const Stmt& s : n.body) {
      analyse(s);
      if (time_ >= 0 && s.kind == Stmt::Store && s.at.step[static_cast<std::size_t>(time_)] == 0 &&
          !carried(s))
        carried_.push_back(&s);
    }
    positions_ = count(each_), length_ = count(fold_);
    index_ = fits_int() ? "int" : "int64_t";
  }

  CudaCode run() {
    for (std::size_t k = 0; k < pointers_.size(); ++k) {
      bool written = false;
      for (const Stmt& s : n_.body) written = written || (writes(s) && pointer_of(s) == k);
      const auto type = c_type(p_.value(pointers_[k].value).aval.dtype);
      line(fmt::format("{0}{1}* const x{2} = ({0}{1}*)p.at[{2}];", written ? "" : "const ", type, k));
    }
    if (const auto go = condition()) {
      const std::set<std::size_t> needs = needed({*go});
      line("{");
      for (const std::size_t s : needs) statement(s);
      line(fmt::format("if (!{}) return;", name(static_cast<int>(*go))));
      line("}");
    }
    if (fold_.empty() || positions_ >= kEnough || length_ <= kShort)
      alone();
    else
      together();
    code_.body = std::move(text_);
    return std::move(code_);
  }

 private:
  using Mask = std::set<int>;  // axes

  // Every time writes a stretch of its own, and reads nothing that is written here.
  bool times_are_apart() const {
    for (const Stmt& s : n_.body) {
      if (s.kind == Stmt::Load && is_written(s.value)) return false;
      if (!writes(s)) continue;
      Index reach = 0;
      for (std::size_t a = 0; a < s.at.step.size(); ++a)
        if (static_cast<int>(a) != time_) reach += std::abs(s.at.step[a]) * (n_.axes[a].size - 1);
      if (std::abs(s.at.step[static_cast<std::size_t>(time_)]) <= reach) return false;
    }
    return true;
  }

  Index size(int a) const { return n_.axes[static_cast<std::size_t>(a)].size; }
  Index count(const std::vector<int>& axes) const {
    Index n = 1;
    for (const int a : axes) n *= size(a);
    return n;
  }
  // Whether 32 bits count positions and elements.
  bool fits_int() const {
    constexpr Index most = std::numeric_limits<std::int32_t>::max() / 2;
    if (positions_ > most || length_ > most) return false;
    return std::all_of(pointers_.begin(), pointers_.end(),
                       [&](const Pointer& q) { return p_.value(q.value).elements() <= most; });
  }

  // Statements --------------------------------------------------------------------------------------------
  bool inner_axis(int a) const { return a == time_ || n_.axes[static_cast<std::size_t>(a)].folds(); }
  bool is_written(ValueId v) const {
    return std::any_of(n_.body.begin(), n_.body.end(),
                       [&](const Stmt& s) { return writes(s) && s.value == v; });
  }
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
    if (s.kind == Stmt::Fold) std::erase_if(m, [&](int a) { return inner_axis(a); });
    const bool varies_inside = std::any_of(m.begin(), m.end(), [&](int a) { return inner_axis(a); });
    if (writes(s) && !fold_.empty()) late = !varies_inside;  // once, not at every position of the folds
    inside_.push_back(!late && (varies_inside || (writes(s) && time_ >= 0)));
    varies_.push_back(std::move(m));
    late_.push_back(late);
  }

  std::size_t pointer_of(const Stmt& s) const {
    const Pointer want{s.value, s.at.first, s.at.time};
    return static_cast<std::size_t>(std::find(pointers_.begin(), pointers_.end(), want) - pointers_.begin());
  }
  // What a thread carries from time to time stays in a register: which of them this access is.
  std::optional<std::size_t> carried(const Stmt& s) const {
    for (std::size_t k = 0; k < carried_.size(); ++k)
      if (accesses(s) && s.value == carried_[k]->value && s.at == carried_[k]->at && s.kind != Stmt::Vote)
        return k;
    return std::nullopt;
  }
  void load_carried() {
    for (std::size_t k = 0; k < carried_.size(); ++k) {
      const bool read = std::any_of(n_.body.begin(), n_.body.end(),
                                    [&](const Stmt& s) { return s.kind == Stmt::Load && carried(s) == k; });
      line(
          fmt::format("{} c{}{};", c_type(carried_[k]->dtype), k, read ? " = " + element(*carried_[k]) : ""));
    }
  }
  void store_carried() {
    for (std::size_t k = 0; k < carried_.size(); ++k)
      line(fmt::format("{} = c{};", element(*carried_[k]), k));
  }
  std::string name(int s) const {
    const Stmt& stmt = n_.body[static_cast<std::size_t>(s)];
    if (stmt.kind == Stmt::Number) return stmt.text[0] == '-' ? "(" + stmt.text + ")" : stmt.text;
    return fmt::format("v{}{}", s, behind_);
  }
  std::string element(const Stmt& s) const {
    std::string at = form_text(s.at, 0, behind_);
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
  // A product is rounded before anything is added to it (etp_rounded.h).
  static std::string rounded(const Stmt& s, const std::string& text) {
    const bool may_be_product = is_floating(s.dtype) && text.find_first_of("*(") != std::string::npos;
    return may_be_product ? "ETP_ROUNDED(" + text + ")" : text;
  }
  void statement(std::size_t s) {
    const Stmt& stmt = n_.body[s];
    const auto let = [&](const std::string& value) {
      line(fmt::format("const {} v{}{} = {};", type_of(stmt.dtype), s, behind_, value));
    };
    switch (stmt.kind) {
      case Stmt::Number:
      case Stmt::Fold:  // by whoever has folded
        return;
      case Stmt::Load:
        return let(carried(stmt) ? fmt::format("c{}", *carried(stmt)) : element(stmt));
      case Stmt::Position:
        return let(form_text(stmt.at, stmt.at.first, behind_));
      case Stmt::Apply:
        return let(rounded(stmt, apply_text(stmt)));
      case Stmt::Store:
        return line(fmt::format("{} = {};",
                                carried(stmt) ? fmt::format("c{}", *carried(stmt)) : element(stmt),
                                name(stmt.in[0])));
      case Stmt::Vote:  // all who see it write the same
        return line(fmt::format("if ({}{}) {} = {};", stmt.op == FoldCode::And ? "!" : "", name(stmt.in[0]),
                                element(stmt), stmt.op == FoldCode::And ? 0 : 1));
    }
  }

  // All statements that the wanted ones need. What is before a fold is not asked for by what comes after it.
  std::set<std::size_t> needed(const std::vector<std::size_t>& wanted) const {
    std::set<std::size_t> out(wanted.begin(), wanted.end());
    for (std::size_t s = n_.body.size(); s-- > 0;)
      if (out.contains(s) && n_.body[s].kind != Stmt::Fold)
        for (const int i : n_.body[s].in) out.insert(static_cast<std::size_t>(i));
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
  std::set<std::size_t> before_folds() const {
    std::vector<std::size_t> wanted =
        statements([&](std::size_t s, const Stmt& stmt) { return writes(stmt) && !late_[s]; });
    for (const std::size_t f : folds()) wanted.push_back(static_cast<std::size_t>(n_.body[f].in[0]));
    return needed(wanted);
  }
  std::set<std::size_t> after_folds() const {
    return needed(statements([&](std::size_t s, const Stmt& stmt) { return writes(stmt) && late_[s]; }));
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
      const bool constant = varies_[which].empty() && !late_[which];
      if (!stays || !constant || found.value_or(which) != which) return std::nullopt;
      found = which;
    }
    return found;
  }

  // Positions ---------------------------------------------------------------------------------------------
  void line(const std::string& text) { text_ += std::string(2 * depth_, ' ') + text + "\n"; }
  void open(const std::string& head) {
    line(head + " {");
    ++depth_;
  }
  void close() {
    --depth_;
    line("}");
  }
  bool asked(int axis) const {
    return std::any_of(n_.body.begin(), n_.body.end(), [&](const Stmt& s) {
      return has_form(s) && s.at.step[static_cast<std::size_t>(axis)] != 0;
    });
  }
  // The indices of a position number along these axes.
  void decode(const std::vector<int>& axes, const std::string& number) {
    Index inside = 1;
    for (std::size_t k = axes.size(); k-- > 0;) {
      std::string at = inside == 1 ? number : fmt::format("{} / {}", number, inside);
      if (k > 0) at += fmt::format(" % {}", size(axes[k]));
      if (asked(axes[k])) line(fmt::format("const {} i{}{} = {};", index_, axes[k], behind_, at));
      inside *= size(axes[k]);
    }
  }
  void open_loop(int a) {
    const bool down = n_.axes[static_cast<std::size_t>(a)].reverse;
    open(down ? fmt::format("for ({} i{} = {}; i{} >= 0; --i{})", index_, a, size(a) - 1, a, a)
              : fmt::format("for ({} i{} = 0; i{} < {}; ++i{})", index_, a, a, size(a), a));
  }

  // Folds -------------------------------------------------------------------------------------------------
  bool is_wide(const Stmt& fold) const { return emit::is_wide(*p_.target, fold.op, fold.dtype); }
  std::string sum_type(const Stmt& fold) const {
    return is_wide(fold) ? "double" : std::string(c_type(fold.dtype));
  }
  std::size_t sum_bytes(const Stmt& fold) const { return is_wide(fold) ? 8 : size_of(fold.dtype); }
  void declare_sums() {
    for (const std::size_t f : folds())
      line(fmt::format("{} s{} = {};", sum_type(n_.body[f]), f,
                       neutral_text(n_.body[f].op, n_.body[f].dtype)));
  }
  void join(std::size_t f, const std::string& into, const std::string& with) {
    line(fmt::format("{} = {};", into, fold_text(n_.body[f].op, n_.body[f].dtype, into, with)));
  }
  void fold_step() {
    for (const std::size_t f : folds())
      join(f, fmt::format("s{}", f), (is_wide(n_.body[f]) ? "(double)" : "") + name(n_.body[f].in[0]));
  }
  void results(const std::set<std::size_t>& known) {
    for (const std::size_t s : after_folds()) {
      if (known.contains(s)) continue;
      const Stmt& stmt = n_.body[s];
      if (stmt.kind == Stmt::Fold)
        line(fmt::format("const {} v{} = {};", type_of(stmt.dtype), s,
                         rounded(stmt, fmt::format("({})s{}", c_type(stmt.dtype), s))));
      else
        statement(s);
    }
  }

  // How many positions a thread takes: statement by statement for all of them, which have nothing to do with
  // each other.
  Index several() const {
    if (!fold_.empty() || time_ >= 0 || positions_ < kVeryMany) return 1;
    return positions_ % (4 * kThreads) == 0 ? 4 : positions_ % (2 * kThreads) == 0 ? 2 : 1;
  }
  void several_each(Index several) {
    code_.threads = kThreads;
    code_.blocks = positions_ / (several * kThreads);
    line(fmt::format("const {0} i = ({0})blockIdx.x * {1} + threadIdx.x;", index_, several * kThreads));
    const auto for_each = [&](const auto& f) {
      for (Index k = 0; k < several; ++k) {
        behind_ = fmt::format("_{}", k);
        f(k);
      }
      behind_.clear();
    };
    for_each([&](Index k) { decode(each_, fmt::format("(i + {})", k * kThreads)); });
    for (const std::size_t s : needed(statements([](std::size_t, const Stmt& x) { return writes(x); })))
      for_each([&](Index) { statement(s); });
  }

  void alone() {
    if (const Index n = several(); n > 1) return several_each(n);
    code_.threads = positions_ <= 4096 ? 64 : kThreads;
    code_.blocks = (positions_ + code_.threads - 1) / code_.threads;
    if (positions_ > 1) {
      line(fmt::format("const {0} i = ({0})blockIdx.x * {1} + threadIdx.x;", index_, code_.threads));
      line(fmt::format("if (i >= {}) return;", positions_));
    } else {
      line("if (threadIdx.x > 0) return;");
    }
    decode(each_, "i");
    const bool loops = !fold_.empty() || time_ >= 0;
    const std::set<std::size_t> all =
        fold_.empty() ? needed(statements([](std::size_t, const Stmt& s) { return writes(s); }))
                      : before_folds();
    std::set<std::size_t> known;  // outside the loops
    for (const std::size_t s : all)
      if (!loops || !inside_[s]) {
        statement(s);
        known.insert(s);
      }
    if (!loops) return;
    declare_sums();
    load_carried();
    std::vector<int> inner = fold_;
    if (time_ >= 0) inner.push_back(time_);
    for (const int a : inner) open_loop(a);
    for (const std::size_t s : all)
      if (inside_[s]) statement(s);
    fold_step();
    for (std::size_t k = 0; k < inner.size(); ++k) close();
    store_carried();
    results(known);
  }

  // Whether neighbouring results read neighbouring elements.
  bool side_by_side() const {
    if (each_.empty()) return false;
    double merit = 0;
    for (const Stmt& s : n_.body) {
      if (s.kind != Stmt::Load) continue;
      if (s.at.step[static_cast<std::size_t>(each_.back())] == 1) merit += 1;
      if (s.at.step[static_cast<std::size_t>(fold_.back())] == 1) merit -= 1;
    }
    return merit > 0 && positions_ > 1;
  }

  void together() {
    Index side = 1, threads = 32;
    if (side_by_side())
      while (side < 32 && side < positions_) side *= 2;
    while (threads < 256 && threads / side * kPerThread < length_) threads *= 2;
    const auto sums = static_cast<Index>(folds().size());
    while (threads > 32 && sums * threads * 8 > kSharedBytes) threads /= 2;
    threads = std::max(threads, side);
    const Index each = threads / side, groups = (positions_ + side - 1) / side;
    Index chunks = 1;
    if (length_ >= kLong && groups < 128)
      chunks = std::clamp<Index>(std::min(length_ / (kLong / 4), 256 / groups), 1, kMostChunks);
    code_.threads = static_cast<int>(threads);
    code_.blocks = groups * chunks;
    code_.has_barrier = true;

    for (const std::size_t f : folds())
      line(fmt::format("__shared__ {} shared{}[{}];", sum_type(n_.body[f]), f, threads));
    line(fmt::format("const int own = threadIdx.x % {0}, turn = threadIdx.x / {0};", side));
    line(fmt::format("const {} group = blockIdx.x / {};", index_, chunks));
    if (chunks > 1) line(fmt::format("const int chunk = blockIdx.x % {};", chunks));
    line(fmt::format("const {} i = group * {} + own;", index_, side));
    declare_sums();
    const std::set<std::size_t> all = before_folds();
    open(fmt::format("if (i < {})", positions_));
    decode(each_, "i");
    for (const std::size_t s : all)
      if (!inside_[s]) statement(s);
    const std::string begin = chunks > 1 ? fmt::format("chunk * {} + turn", each) : "turn";
    open(fmt::format("for ({} f = {}; f < {}; f += {})", index_, begin, length_, each * chunks));
    decode(fold_, "f");
    for (const std::size_t s : all)
      if (inside_[s]) statement(s);
    fold_step();
    close();
    close();
    for (const std::size_t f : folds()) line(fmt::format("shared{0}[threadIdx.x] = s{0};", f));
    line("__syncthreads();");
    open(fmt::format("for (int w = {}; w > 0; w /= 2)", each / 2));
    open("if (turn < w)");
    for (const std::size_t f : folds())
      join(f, fmt::format("shared{}[threadIdx.x]", f),
           fmt::format("shared{}[threadIdx.x + w * {}]", f, side));
    close();
    line("__syncthreads();");
    close();
    if (chunks > 1) join_chunks(side, chunks, groups);
    line(fmt::format("if (turn > 0 || i >= {}) return;", positions_));
    if (chunks == 1)
      for (const std::size_t f : folds()) line(fmt::format("s{0} = shared{0}[threadIdx.x];", f));
    decode(each_, "i");
    results({});
  }

  // All blocks of a group leave what they have found; the last one goes on with all of it.
  void join_chunks(Index side, Index chunks, Index groups) {
    std::size_t offset = 0;
    for (const std::size_t f : folds()) {
      line(fmt::format("{0}* const left{1} = ({0}*)(p.at[{2}] + {3});", sum_type(n_.body[f]), f,
                       pointers_.size(), offset));
      line(fmt::format("if (turn == 0) left{0}[(group * {1} + chunk) * {2} + own] = shared{0}[threadIdx.x];",
                       f, chunks, side));
      offset += (static_cast<std::size_t>(groups * chunks * side) * sum_bytes(n_.body[f]) + 63) / 64 * 64;
    }
    line("__shared__ int arrived;");
    line("__threadfence();");
    line("__syncthreads();");
    line(fmt::format("if (threadIdx.x == 0) arrived = atomicAdd((int*)p.at[{}] + group, 1);",
                     pointers_.size() + 1));
    line("__syncthreads();");
    line(fmt::format("if (arrived < {}) return;", chunks - 1));
    line("__threadfence();");
    line(fmt::format("if (threadIdx.x == 0) ((int*)p.at[{}])[group] = 0;", pointers_.size() + 1));
    for (const std::size_t f : folds()) {
      line(fmt::format("s{} = {};", f, neutral_text(n_.body[f].op, n_.body[f].dtype)));
      open(fmt::format("for (int c = 0; c < {}; ++c)", chunks));
      join(f, fmt::format("s{}", f), fmt::format("left{}[(group * {} + c) * {} + own]", f, chunks, side));
      close();
    }
    code_.scratch_bytes = offset;
    code_.counters = static_cast<std::size_t>(groups);
  }

  const EmitProgram& p_;
  const Nest& n_;
  const std::vector<Pointer> pointers_;
  int time_ = -1;
  std::vector<int> each_, fold_;
  std::vector<Mask> varies_;
  std::vector<const Stmt*> carried_;  // stores to one place at all times
  std::vector<bool> late_, inside_;   // after the folds; within the loops of a thread
  Index positions_ = 1, length_ = 1;
  std::string index_, text_, behind_;  // what stands behind the names of one of several positions
  std::size_t depth_ = 1;
  CudaCode code_;
};

}  // namespace
}  // namespace nest_kernels

CudaCode cuda_nest(const EmitProgram& p, const Nest& n) { return nest_kernels::NestKernel(p, n).run(); }

}  // namespace etrace::emit
