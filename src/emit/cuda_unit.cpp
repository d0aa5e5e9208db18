// The steps of a program as kernels, products and fills, and the text of the kernels. Equal kernels are
// printed once.
#include "emit/cuda_unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "emit/cuda_join.h"
#include "emit/kernel_text.h"
#include "emit/names.h"
#include "emit/target.h"
#include "etrace/error.h"

namespace etrace::emit {

namespace unit_builder {
namespace {

class UnitBuilder final : public CudaBuilder {  // NOLINT(cppcoreguidelines-virtual-class-destructor): final
 public:
  explicit UnitBuilder(const EmitProgram& p) : p_(p) {
    unit_.constants = p.constants;
    unit_.arena_bytes = p.arena_bytes;
  }

  CudaUnit run() {
    place_votes();
    std::vector<Slot> slots;
    if (!votes_.empty()) slots.push_back(beginning_of_votes());
    unit_.steps = block(p_.entry, std::move(slots));
    unit_.source =
        comment(CommentText(p_.name), ": emitted by etrace.") + "\n" + headers() + declarations_ + functions_;
    return std::move(unit_);
  }

  // For the rows of operations ------------------------------------------------------------------------------
  CudaPlace place(ValueId v) override { return place(v, 0, {}); }
  CudaPlace constant(const Tensor& t) override {
    for (std::size_t k = 0; k < unit_.constants.size(); ++k)
      if (unit_.constants[k] == t) return {CudaPlace::Constant, k};
    unit_.constants.push_back(t);
    return {CudaPlace::Constant, unit_.constants.size() - 1};
  }
  CudaPlace scratch(std::size_t bytes) override {
    const auto at = static_cast<std::int64_t>(scratch_);
    scratch_ += (bytes + 255) / 256 * 256;
    unit_.scratch_bytes = std::max(unit_.scratch_bytes, scratch_);
    return {CudaPlace::Scratch, 0, at};
  }
  void launch(const std::string& label, const CudaCode& code, std::vector<CudaPlace> pointers,
              int eqn) override {
    if (code.scratch_bytes > 0) pointers.push_back(scratch(code.scratch_bytes));
    if (code.counters > 0) {
      // Kernels run one after the other, and leave zeros.
      pointers.push_back({CudaPlace::Counters, 0});
      unit_.counters = std::max(unit_.counters, code.counters);
    }
    if (code.blocks > std::numeric_limits<std::int32_t>::max())
      throw NotSupportedError(
          "emit", fmt::format("'{}' has more positions than a grid of a CUDA device",
                              eqn < 0 ? "" : p_.eqns[static_cast<std::size_t>(eqn)].about().str()));
    if (joining_ && may_join(code)) {
      waiting_.push_back({label, code, std::move(pointers), std::exchange(notes_, {}), eqn});
      return;
    }
    launch_now(label, code, std::move(pointers), eqn);
  }
  void product(CudaProduct q) override { out_->push_back({std::move(q)}); }
  void declare(const std::string& text) override {
    if (declarations_.find(text) == std::string::npos) declarations_ += text;
  }
  std::string unique(const std::string& label) override { return fmt::format("{}{}", label, named_++); }

 private:
  // Text ----------------------------------------------------------------------------------------------------
  std::string headers() const {
    const Words called(functions_), declared(declarations_);
    const auto uses = [&](const char* start) { return called.has_from(start) || declared.has_from(start); };
    std::string out = kernel_text("etp_cuda.h") + kernel_text("etp_scalar.h");
    if (uses("etp_sin_") || uses("etp_cos_")) out += kernel_text("etp_trig.h");
    out += kernel_text("etp_math.h");
    if (uses("etp_random_")) out += kernel_text("etp_rng.h") + kernel_text("etp_draw.h");
    out += kernel_text("etp_rounded.h");
    const bool products = uses("etp_product") || uses("etp_row_product");
    if (uses("etp_trace_") || products) out += kernel_text("etp_cuda_vector.h");
    if (products) out += kernel_text("etp_cuda_product.h");
    if (uses("etp_trace_")) out += kernel_text("etp_cuda_trace.h");
    return out + "\n";
  }
  void launch_now(const std::string& label, const CudaCode& code, std::vector<CudaPlace> pointers, int eqn) {
    const std::size_t kernel = kernel_of(label, code, pointers.size(), eqn);
    out_->push_back({CudaLaunch{kernel, code.blocks, std::move(pointers), eqn}});
  }
  std::string notes_text() const {
    std::string out;
    for (const int e : notes_) out += comment(p_.eqns[static_cast<std::size_t>(e)].about()) + "\n";
    return out;
  }
  std::size_t kernel_of(const std::string& label, const CudaCode& code, std::size_t pointers, int eqn) {
    const std::string key = fmt::format("{} {} {}", pointers, code.threads, code.body);
    const auto [it, is_new] = known_.try_emplace(key, unit_.kernels.size());
    if (is_new) {
      const std::string path = eqn < 0 ? "" : identifier(p_.eqns[static_cast<std::size_t>(eqn)].path);
      const std::string name =
          fmt::format("{}{}{}{}", label, unit_.kernels.size(), path.empty() ? "" : "_", path);
      if (notes_.empty() && eqn >= 0) notes_ = {eqn};
      functions_ += notes_text();
      functions_ +=
          fmt::format("ETP_KERNEL({}, {}, {}) {{\n{}}}\n\n", name, pointers, code.threads, code.body);
      unit_.kernels.push_back({name, code.threads, pointers});
    }
    notes_.clear();
    return it->second;
  }

  // Places --------------------------------------------------------------------------------------------------
  CudaPlace place(ValueId v, Index first, const std::vector<std::pair<int, Index>>& time) {
    const Value& x = p_.value(v);
    const auto width = static_cast<Index>(size_of(x.aval.dtype));
    if (const auto vote = votes_.find(v); vote != votes_.end()) return {CudaPlace::Scratch, 0, vote->second};
    if (x.home == Value::Inside) {
      ETRACE_CHECK(time.empty() && first == 0);
      return place(x.base, x.at.first, x.at.time);
    }
    CudaPlace out{home_of(x.home), x.index, first * width};
    if (x.home == Value::Arena) {
      out.first += static_cast<std::int64_t>(x.index);
      out.index = 0;
    }
    for (const auto& [loop, stride] : time) out.time.emplace_back(loop, stride * width);
    return out;
  }
  static CudaPlace::Home home_of(Value::Home home) {
    switch (home) {
      case Value::Argument:
        return CudaPlace::Argument;
      case Value::Result:
        return CudaPlace::Result;
      case Value::Constant:
        return CudaPlace::Constant;
      case Value::Arena:
        return CudaPlace::Arena;
      default:
        internal_error("a value that is used has a place", __FILE__, __LINE__);
    }
  }
  static CudaPlace moved(CudaPlace at, Index bytes) {
    at.first += bytes;
    return at;
  }

  // Votes of steps outside loops stand side by side in front of the scratch memory: one fill begins them all.
  void place_votes() {
    std::map<ValueId, int> writers;
    for (const Item& item : p_.entry)
      for (const ValueId v : uses(p_, item).writes) ++writers[v];
    for (const Item& item : p_.entry) {
      const auto* nest = std::get_if<Nest>(&item.step);
      if (nest == nullptr) continue;
      for (const Stmt& s : nest->body)
        if (s.kind == Stmt::Vote && s.op == FoldCode::And && p_.value(s.value).home == Value::Arena &&
            p_.value(s.value).elements() == 1 && writers[s.value] == 1 && s.at.time.empty() &&
            s.at.first == 0)
          votes_.try_emplace(s.value, static_cast<Index>(votes_.size()));
    }
    before_scratch_ = (votes_.size() + 255) / 256 * 256;
    unit_.scratch_bytes = before_scratch_;
  }

  // Steps ---------------------------------------------------------------------------------------------------
  // One step, or kernels that become one launch.
  struct Slot {
    CudaSteps steps{};
    std::vector<CudaPart> parts{};
    CudaAccess access{};
  };
  CudaSteps block(const Block& b, std::vector<Slot> slots = {}) {
    for (const Item& item : b) {
      Slot now;
      out_ = &now.steps;
      scratch_ = before_scratch_;
      std::visit([&](const auto& s) { step(s); }, item.step);
      joining_ = false;
      now.parts = std::exchange(waiting_, {});
      now.access = access(item);
      if (now.parts.size() != 1 || !join(slots, now)) slots.push_back(std::move(now));
    }
    CudaSteps out;
    for (Slot& s : slots) {
      out_ = &out;
      for (CudaStep& each : s.steps) out.push_back(std::move(each));
      launch_parts(s.parts);
    }
    return out;
  }
  // To the last launch that has room, unless the order of it or of what comes after it matters.
  static bool join(std::vector<Slot>& slots, const Slot& now) {
    for (std::size_t k = slots.size(); k-- > 0;) {
      if (conflict(slots[k].access, now.access)) return false;
      if (slots[k].parts.empty() || !fits(slots[k].parts, now.parts[0])) continue;
      slots[k].parts.push_back(now.parts[0]);
      slots[k].access.add(now.access);
      return true;
    }
    return false;
  }
  void launch_parts(const std::vector<CudaPart>& parts) {
    if (parts.size() == 1) {
      notes_ = parts[0].notes;
      launch_now(parts[0].label, parts[0].code, parts[0].pointers, parts[0].eqn);
    }
    if (parts.size() < 2) return;
    std::vector<std::string> names;
    std::vector<CudaPlace> pointers;
    for (const CudaPart& p : parts) {
      const auto [it, is_new] = parts_.try_emplace(part_function("", p));
      if (is_new) {
        it->second = unique(p.label + "_part");
        notes_ = p.notes;
        functions_ += notes_text() + part_function(it->second, p);
      }
      names.push_back(it->second);
      pointers.insert(pointers.end(), p.pointers.begin(), p.pointers.end());
    }
    notes_.clear();
    launch_now("joined", joined(parts, names), std::move(pointers), -1);
  }

  CudaAccess access(const Item& item) const {
    CudaAccess out;
    if (const auto* r = std::get_if<Region>(&item.step)) out.everything = r->kind != Region::Scan;
    if (const auto* n = std::get_if<Nest>(&item.step)) {
      for (const Stmt& s : n->body)
        if (accesses(s)) add_elements(*n, s, writes(s) ? out.writes : out.reads);
      return out;
    }
    const Uses all = uses(p_, item);
    for (const ValueId v : all.reads) add_range(v, out.reads);
    for (const ValueId v : all.writes) add_range(v, out.writes);
    return out;
  }
  void add_range(ValueId v, std::vector<CudaRange>& to) const {
    const Value& x = p_.value(v);
    if (const auto vote = votes_.find(v); vote != votes_.end()) {
      to.push_back({CudaPlace::Scratch, 0, vote->second, vote->second + 1});
    } else if (x.home == Value::Arena) {
      const auto first = static_cast<std::int64_t>(x.index);
      to.push_back({CudaPlace::Arena, 0, first, first + static_cast<std::int64_t>(x.aval.bytes())});
    } else if (x.home != Value::Splat) {
      to.push_back({home_of(x.home), x.index, 0, std::numeric_limits<std::int64_t>::max()});
    }
  }

  // From the first element that a statement may touch to the last one, as far as they are known here.
  void add_elements(const Nest& n, const Stmt& s, std::vector<CudaRange>& to) const {
    const std::size_t before = to.size();
    add_range(s.value, to);
    if (to.size() == before || votes_.contains(s.value) || !s.at.time.empty() ||
        (s.kind == Stmt::Load && !s.in.empty()))
      return;
    Index first = s.at.first, last = s.at.first;
    for (std::size_t a = 0; a < s.at.step.size(); ++a) {
      const Index reach = s.at.step[a] * (n.axes[a].size - 1);
      (reach < 0 ? first : last) += reach;
    }
    const auto width = static_cast<Index>(size_of(p_.value(s.value).aval.dtype));
    CudaRange& range = to.back();
    range.end = range.begin + (last + 1) * width;
    range.begin += first * width;
  }

  // Votes start as if nobody had any.
  Slot beginning_of_votes() const {
    const auto count = static_cast<Index>(votes_.size());
    const CudaPlace at{CudaPlace::Scratch, 0};
    Slot out;
    out.access.writes.push_back({CudaPlace::Scratch, 0, 0, count});
    constexpr Index kThreads = 64;
    if (count > kThreads) {
      out.steps.push_back({CudaFill{at, 1, count}});
      return out;
    }
    CudaCode code{fmt::format("  if (threadIdx.x < {}) p.at[0][threadIdx.x] = 1;\n", count)};
    code.threads = kThreads;
    out.parts.push_back({"votes", std::move(code), {at}, {}, -1});
    return out;
  }

  void step(const Nest& n) {
    for (const Stmt& s : n.body)  // votes: as if nobody had any
      if (s.kind == Stmt::Vote && !votes_.contains(s.value))
        out_->push_back({CudaFill{place(s.value, s.at.first, s.at.time),
                                  static_cast<std::uint8_t>(s.op == FoldCode::And ? 1 : 0), 1}});
    std::vector<CudaPlace> pointers;
    for (const Pointer& q : nest_pointers(n)) pointers.push_back(place(q.value, q.first, q.time));
    for (const Stmt& s : n.body)
      if (s.eqn >= 0 && std::find(notes_.begin(), notes_.end(), s.eqn) == notes_.end())
        notes_.push_back(s.eqn);
    std::sort(notes_.begin(), notes_.end());
    const int eqn = path_eqn();
    joining_ = out_->empty();
    launch("loop", cuda_nest(p_, n), std::move(pointers), eqn);
  }
  // An equation of the module that most of them come from.
  int path_eqn() const {
    std::map<std::string, int> count;
    for (const int e : notes_) ++count[p_.eqns[static_cast<std::size_t>(e)].path];
    count.erase("");
    const auto most = std::max_element(count.begin(), count.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    for (const int e : notes_)
      if (most == count.end() || p_.eqns[static_cast<std::size_t>(e)].path == most->first) return e;
    return -1;
  }

  void step(const Product& q) {
    const std::size_t row = q.batch.size(), column = row + 1;
    CudaProduct d{q.dtype,
                  q.rows,
                  q.columns,
                  q.depth,
                  q.a.at.step[row],
                  q.a.at.step[column],
                  q.b.at.step[row],
                  q.b.at.step[column],
                  q.c.at.step[row],
                  place(q.a.value, q.a.at.first, q.a.at.time),
                  place(q.b.value, q.b.at.first, q.b.at.time),
                  place(q.c.value, q.c.at.first, q.c.at.time),
                  q.onto};
    d.eqn = q.eqn;
    if (q.rows == 0 || q.columns == 0) return;
    batches(q, d, 0);
  }
  // The last batch axis is one step for a library, the others are steps of their own.
  void batches(const Product& q, CudaProduct d, std::size_t axis) {
    const auto width = static_cast<Index>(size_of(q.dtype));
    if (axis + 1 == q.batch.size() && takes(d)) {
      d.batch = q.batch[axis];
      d.a_batch = q.a.at.step[axis], d.b_batch = q.b.at.step[axis], d.c_batch = q.c.at.step[axis];
      if (d.batch > 0) product(std::move(d));
      return;
    }
    if (q.batch.empty() && is_small_row(d)) {
      joining_ = true;
      return own_product(d);
    }
    if (axis == q.batch.size()) return takes(d) ? product(std::move(d)) : own_product(d);
    for (Index i = 0; i < q.batch[axis]; ++i) {
      CudaProduct one = d;
      one.a = moved(d.a, i * q.a.at.step[axis] * width);
      one.b = moved(d.b, i * q.b.at.step[axis] * width);
      one.c = moved(d.c, i * q.c.at.step[axis] * width);
      batches(q, std::move(one), axis + 1);
    }
  }
  // Whether a library of products takes these strides: one of each matrix is 1, the other at least as long.
  static bool takes(const CudaProduct& d) {
    constexpr Index most = std::numeric_limits<std::int32_t>::max();
    const auto fits = [&](Index outer, Index outer_step, Index inner, Index inner_step) {
      return (inner == 1 || inner_step == 1) &&
             (outer == 1 || (outer_step >= std::max<Index>(inner, 1) && outer_step <= most));
    };
    const auto matrix = [&](Index m, Index m_step, Index n, Index n_step) {
      return fits(m, m_step, n, n_step) || fits(n, n_step, m, m_step);
    };
    return is_floating(d.dtype) && d.depth > 0 && std::max({d.rows, d.columns, d.depth}) <= most &&
           matrix(d.rows, d.a_row, d.depth, d.a_depth) && matrix(d.depth, d.b_depth, d.columns, d.b_column) &&
           fits(d.rows, d.c_row, d.columns, 1);
  }
  static bool is_small_row(const CudaProduct& d) {
    constexpr Index kSmall = 1 << 18;
    return d.rows == 1 && is_floating(d.dtype) && d.depth > 0 && d.columns * d.depth <= kSmall;
  }
  void own_product(const CudaProduct& d) {
    const std::string g = fmt::format(
        "{{\n  typedef {} T;\n  static constexpr int64_t rows = {}, columns = {}, depth = {}, onto = {}, "
        "a_row = {}, "
        "a_depth = {}, b_depth = {}, b_column = {}, c_row = {};\n}};\n",
        c_type(d.dtype), d.rows, d.columns, d.depth, d.onto ? 1 : 0, d.a_row, d.a_depth, d.b_depth,
        d.b_column, d.c_row);
    const std::string name = geometry("product", g);
    CudaCode code{fmt::format("  etp_product<{}>(p);\n", name)};
    code.blocks = ((d.rows + 15) / 16) * ((d.columns + 15) / 16);
    code.has_barrier = true;
    if (is_small_row(d)) {
      code.body = fmt::format("  etp_row_product<{}>(p, blockIdx.x);\n", name);
      code.threads = 512;
    }
    launch("product", code, {d.a, d.b, d.c}, d.eqn);
  }
  // A struct of constants; equal ones are one.
  std::string geometry(const std::string& label, const std::string& text) {
    const auto [it, is_new] = geometries_.try_emplace(label + text);
    if (is_new) {
      it->second = unique(label + "_shape");
      declarations_ += fmt::format("struct {} {}", it->second, text);
    }
    return it->second;
  }

  void step(const Call& q) {
    const CudaRow* row = find_cuda_row(q.prim->name());
    ETRACE_CHECK(row != nullptr);
    row->emit(*this, p_, q);
  }

  void step(const Region& q) {
    CudaSteps* const out = out_;
    const auto inner = [&](std::size_t k) { return block(q.blocks[k]); };
    switch (q.kind) {
      case Region::Scan: {
        const Loop& loop = p_.loops[static_cast<std::size_t>(q.loop)];
        out->push_back({CudaLoop{q.loop, loop.length, loop.reverse, inner(0)}});
        break;
      }
      case Region::While: {
        CudaSteps condition = inner(0), body = inner(1);
        out->push_back({CudaWhile{std::move(condition), place(q.predicate), std::move(body), q.eqn}});
        break;
      }
      case Region::Cond: {
        CudaCond cond{place(q.predicate), p_.value(q.predicate).aval.dtype, {}, q.eqn};
        for (std::size_t k = 0; k < q.blocks.size(); ++k) cond.branches.push_back(inner(k));
        out->push_back({std::move(cond)});
        break;
      }
    }
    out_ = out;
  }

  const EmitProgram& p_;
  CudaUnit unit_;
  CudaSteps* out_ = nullptr;
  std::string declarations_, functions_;
  std::map<std::string, std::size_t> known_;       // kernels by what they are
  std::map<std::string, std::string> parts_;       // functions of joined kernels by what they are
  bool joining_ = false;                           // the step at hand may be part of a launch …
  std::vector<CudaPart> waiting_;                  // … and is one
  std::map<std::string, std::string> geometries_;  // names of structs by what they are
  std::vector<int> notes_;                         // equations of the kernel at hand
  std::size_t scratch_ = 0;                        // taken by the step at hand
  std::map<ValueId, Index> votes_;                 // where they stand
  std::size_t before_scratch_ = 0;
  int named_ = 0;
};

}  // namespace
}  // namespace unit_builder

CudaUnit cuda_unit(const EmitProgram& p) { return unit_builder::UnitBuilder(p).run(); }

std::optional<int> host_decides(const CudaSteps& steps) {
  for (const CudaStep& s : steps) {
    if (const auto* w = std::get_if<CudaWhile>(&s.what)) return w->eqn;
    if (const auto* c = std::get_if<CudaCond>(&s.what)) return c->eqn;
    if (const auto* l = std::get_if<CudaLoop>(&s.what))
      if (const auto inner = host_decides(l->body)) return inner;
  }
  return std::nullopt;
}

std::int64_t launches_of(const CudaSteps& steps) {
  std::int64_t n = 0;
  for (const CudaStep& s : steps) {
    if (const auto* l = std::get_if<CudaLoop>(&s.what))
      n += l->length * launches_of(l->body);
    else if (const auto* w = std::get_if<CudaWhile>(&s.what))
      n += launches_of(w->condition) + launches_of(w->body);
    else if (const auto* c = std::get_if<CudaCond>(&s.what))
      for (const CudaSteps& b : c->branches) n += launches_of(b);
    else
      ++n;
  }
  return n;
}

namespace {

void add_lines(const CudaUnit& u, const CudaSteps& steps, std::size_t depth, std::string& out) {
  const auto line = [&](const std::string& text) { out += std::string(2 * depth, ' ') + text + "\n"; };
  for (const CudaStep& s : steps) {
    if (const auto* l = std::get_if<CudaLaunch>(&s.what)) {
      const CudaKernel& k = u.kernels[l->kernel];
      line(fmt::format("{} <<<{}, {}>>>", k.name, l->blocks, k.threads));
    } else if (const auto* q = std::get_if<CudaProduct>(&s.what)) {
      line(fmt::format("product {} {} x {} x {}, {} times{}", name(q->dtype), q->rows, q->depth, q->columns,
                       q->batch, q->onto ? ", onto" : ""));
    } else if (const auto* f = std::get_if<CudaFill>(&s.what)) {
      line(fmt::format("fill {} bytes with {}", f->bytes, f->value));
    } else if (const auto* loop = std::get_if<CudaLoop>(&s.what)) {
      line(fmt::format("{} times{}:", loop->length, loop->reverse ? ", backwards" : ""));
      add_lines(u, loop->body, depth + 1, out);
    } else if (const auto* w = std::get_if<CudaWhile>(&s.what)) {
      line("while:");
      add_lines(u, w->condition, depth + 1, out);
      line("do:");
      add_lines(u, w->body, depth + 1, out);
    } else if (const auto* c = std::get_if<CudaCond>(&s.what)) {
      for (std::size_t k = 0; k < c->branches.size(); ++k) {
        line(fmt::format("if {}:", k));
        add_lines(u, c->branches[k], depth + 1, out);
      }
    }
  }
}

}  // namespace

std::string to_string(const CudaUnit& u) {
  std::string lines;
  add_lines(u, u.steps, 1, lines);
  return fmt::format("{}/* {} launches:\n{}*/\n", u.source, launches_of(u.steps), lines);
}

}  // namespace etrace::emit
