// The translation unit: prologue, one function per different nest, the entry function, the module.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "emit/c_printer.h"
#include "emit/kernel_text.h"
#include "etrace/error.h"

namespace etrace::emit {

namespace {

// Comments must not end early.
std::string comment(std::string text) {
  for (std::size_t i = text.find("*/"); i != std::string::npos; i = text.find("*/", i))
    text.replace(i, 2, "* /");
  return text;
}

class ProgramPrinter {
 public:
  // With a list of steps, they are timed.
  explicit ProgramPrinter(const EmitProgram& p, std::vector<TimedStep>* timed = nullptr)
      : p_(p), steps_(host_steps(p)), timed_(timed) {}

  std::string run() {
    block(p_.entry);
    std::string out = fmt::format("/* {}: emitted by etrace. */\n", comment(p_.name));
    out += kernel_text("etp_abi.h") + kernel_text("etp_scalar.h");
    const auto uses_any = [&](std::initializer_list<const char*> names) {
      return std::any_of(names.begin(), names.end(),
                         [&](const char* n) { return functions_.find(n) != std::string::npos; });
    };
    if (uses_any({"etp_"})) out += kernel_text("etp_math.h");
    if (uses_any({"etp_random"})) out += kernel_text("etp_rng.h") + kernel_text("etp_draw.h");
    out += kSupport;
    if (timed_ != nullptr) out += fmt::format(kClock, std::max<std::size_t>(timed_->size(), 1));
    out += functions_;
    out +=
        "\nstatic void run(const etp_run* r) {\n"
        "  const etp_host* const h = r->host;\n"
        "  char* const m = (char*)r->arena;\n"
        "  const char* const* const a = (const char* const*)r->arguments;\n"
        "  char* const* const y = (char* const*)r->results;\n"
        "  const char* const* const c = (const char* const*)r->constants;\n"
        "  (void)h, (void)m, (void)a, (void)y, (void)c;\n" +
        entry_ + "}\n";
    out += fmt::format(
        "\n__attribute__((visibility(\"default\"))) const etp_module etrace_module = {{\n"
        "    ETP_ABI_VERSION, {}, {}, {}, {}, \"{}\", run}};\n",
        p_.arena_bytes, p_.arguments.size(), p_.results.size(), p_.constants.size(), c_string(p_.name));
    return out;
  }

 private:
  static constexpr const char* kSupport = R"(
typedef struct {
  void (*f)(char* const* p, int64_t lo, int64_t hi);
  char* const* p;
  int64_t size, parts;
} etp_split;
static void etp_part(void* data, int64_t part) {
  const etp_split* s = (const etp_split*)data;
  s->f(s->p, s->size * part / s->parts, s->size * (part + 1) / s->parts);
}

)";

  static constexpr const char* kClock = R"(
#include <time.h>
__attribute__((visibility("default"))) int64_t etrace_times[{}][2];
static int64_t etp_nanoseconds(void) {{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}}

)";

  static std::string c_string(const std::string& text) {
    std::string out;
    for (const char ch : text) {
      if (ch == '"' || ch == '\\') out += '\\';
      if (static_cast<unsigned char>(ch) >= 32) out += ch;
    }
    return out;
  }

  void line(const std::string& text) { entry_ += std::string(2 * depth_, ' ') + text + "\n"; }
  void open(const std::string& text) {
    line(text + "{");
    ++depth_;
  }
  void close() {
    --depth_;
    line("}");
  }

  // Pointers ----------------------------------------------------------------------------------------------
  std::string pointer(ValueId v, Index first, const std::vector<std::pair<int, Index>>& time) const {
    const Value& x = p_.values[static_cast<std::size_t>(v)];
    const auto width = static_cast<Index>(size_of(x.aval.dtype));
    if (x.home == Value::Inside) {
      ETRACE_CHECK(time.empty() && first == 0);
      return pointer(x.base, x.at.first, x.at.time);
    }
    std::string text;
    switch (x.home) {
      case Value::Arena:
        text = fmt::format("m + {}", x.index);
        break;
      case Value::Argument:
        text = fmt::format("(char*)a[{}]", x.index);
        break;
      case Value::Result:
        text = fmt::format("y[{}]", x.index);
        break;
      case Value::Constant:
        text = fmt::format("(char*)c[{}]", x.index);
        break;
      default:
        internal_error("a value that is used has a place", __FILE__, __LINE__);
    }
    if (first != 0) text += fmt::format(" + {}", first * width);
    for (const auto& [loop, stride] : time) text += fmt::format(" + t{} * {}", loop, stride * width);
    return text;
  }
  std::string pointer(ValueId v) const { return pointer(v, 0, {}); }

  // Steps -------------------------------------------------------------------------------------------------
  void block(const Block& b) {
    for (const Item& item : b) std::visit([&](const auto& s) { step(s); }, item.step);
  }

  std::string about(int eqn) const {
    if (eqn < 0) return "";
    const SourceEqn& e = p_.eqns[static_cast<std::size_t>(eqn)];
    return comment(e.text + (e.path.empty() ? "" : "    " + e.path));
  }
  // Around the line of a step.
  void start_clock(TimedStep step) {
    if (timed_ == nullptr) return;
    timed_->push_back(std::move(step));
    line(fmt::format("etrace_times[{}][0] -= etp_nanoseconds();", timed_->size() - 1));
  }
  void stop_clock() {
    if (timed_ == nullptr) return;
    line(fmt::format("etrace_times[{0}][0] += etp_nanoseconds(), ++etrace_times[{0}][1];",
                     timed_->size() - 1));
  }

  // The equations of a nest, one per line.
  std::vector<int> comment_nest(const Nest& n) {
    std::vector<int> seen;
    for (const Stmt& s : n.body)
      if (s.eqn >= 0 && std::find(seen.begin(), seen.end(), s.eqn) == seen.end()) seen.push_back(s.eqn);
    std::sort(seen.begin(), seen.end());
    for (const int e : seen) line("/* " + about(e) + " */");
    return seen;
  }

  void step(const Nest& n) {
    const std::string text = print_nest(p_, n, "NAME");
    const auto [it, is_new] = names_.try_emplace(text, fmt::format("n{}", names_.size()));
    if (is_new) functions_ += print_nest(p_, n, it->second) + "\n";
    start_clock({TimedStep::Loops, it->second, comment_nest(n)});
    std::string list;
    for (const Pointer& q : nest_pointers(n))
      list += (list.empty() ? "" : ", ") + pointer(q.value, q.first, q.time);
    const Index size = n.axes.empty() ? 1 : n.axes[0].size;
    if (n.parts == 1)
      line(fmt::format("{}((char*[]){{{}}}, 0, {});", it->second, list, size));
    else
      line(fmt::format("h->parallel({0}, etp_part, &(etp_split){{{1}, (char*[]){{{2}}}, {3}, {0}}});",
                       n.parts, it->second, list, size));
    stop_clock();
  }

  void step(const Product& q) {
    const auto number =
        std::find(steps_.products.begin(), steps_.products.end(), &q) - steps_.products.begin();
    line("/* " + about(q.eqn) + " */");
    start_clock({TimedStep::Product, "", {q.eqn}});
    std::string at[3];
    const Matrices* all[] = {&q.a, &q.b, &q.c};
    for (std::size_t k = 0; k < q.batch.size(); ++k)
      open(fmt::format("for (int64_t b{0} = 0; b{0} < {1}; ++b{0}) ", k, q.batch[k]));
    for (std::size_t i = 0; i < 3; ++i) {
      at[i] = pointer(all[i]->value, all[i]->at.first, all[i]->at.time);
      const Index width = static_cast<Index>(size_of(q.dtype));
      for (std::size_t k = 0; k < q.batch.size(); ++k)
        if (all[i]->at.step[k] != 0) at[i] += fmt::format(" + b{} * {}", k, all[i]->at.step[k] * width);
    }
    line(fmt::format("h->product(r->context, {}, {}, {}, {}, r->scratch);", number, at[0], at[1], at[2]));
    for (std::size_t k = 0; k < q.batch.size(); ++k) close();
    stop_clock();
  }

  void step(const Call& q) {
    const auto number = std::find(steps_.calls.begin(), steps_.calls.end(), &q) - steps_.calls.begin();
    line("/* " + about(q.eqn) + " */");
    start_clock({TimedStep::Call, "", {q.eqn}});
    const auto list = [&](const std::vector<ValueId>& values) {
      std::string text;
      for (const ValueId v : values) text += (text.empty() ? "" : ", ") + pointer(v);
      return text.empty() ? "0" : text;
    };
    line(fmt::format(
        "h->call(r->context, {}, (const void* const[]){{{}}}, (void* const[]){{{}}}, r->scratch);", number,
        list(q.in), list(q.out)));
    stop_clock();
  }

  void step(const Region& q) {
    line("/* " + about(q.eqn) + " */");
    switch (q.kind) {
      case Region::Scan: {
        const Loop& loop = p_.loops[static_cast<std::size_t>(q.loop)];
        open(loop.reverse
                 ? fmt::format("for (int64_t t{0} = {1}; t{0} >= 0; --t{0}) ", q.loop, loop.length - 1)
                 : fmt::format("for (int64_t t{0} = 0; t{0} < {1}; ++t{0}) ", q.loop, loop.length));
        block(q.blocks[0]);
        return close();
      }
      case Region::While:
        open("for (;;) ");
        block(q.blocks[0]);
        line(fmt::format("if (!*(const uint8_t*)({})) break;", pointer(q.predicate)));
        block(q.blocks[1]);
        return close();
      case Region::Cond: {
        const bool is_bool = p_.values[static_cast<std::size_t>(q.predicate)].aval.dtype == Dtype::Bool;
        open(fmt::format("switch (etp_clip(*(const {}*)({}), {})) ", is_bool ? "uint8_t" : "int32_t",
                         pointer(q.predicate), q.blocks.size() - 1));
        for (std::size_t k = 0; k < q.blocks.size(); ++k) {
          open(fmt::format("case {}: ", k));
          block(q.blocks[k]);
          line("break;");
          close();
        }
        return close();
      }
    }
  }

  const EmitProgram& p_;
  const HostSteps steps_;
  std::vector<TimedStep>* timed_;
  std::map<std::string, std::string> names_;  // text of a nest -> its function
  std::string functions_, entry_;
  std::size_t depth_ = 1;
};

void collect(const Block& b, HostSteps& out) {
  for (const Item& item : b) {
    if (const auto* call = std::get_if<Call>(&item.step)) out.calls.push_back(call);
    if (const auto* product = std::get_if<Product>(&item.step)) out.products.push_back(product);
    if (const auto* region = std::get_if<Region>(&item.step))
      for (const Block& inner : region->blocks) collect(inner, out);
  }
}

}  // namespace

HostSteps host_steps(const EmitProgram& p) {
  HostSteps out;
  collect(p.entry, out);
  return out;
}

std::string print_c(const EmitProgram& p) { return ProgramPrinter(p).run(); }
std::string print_timed_c(const EmitProgram& p, std::vector<TimedStep>& steps) {
  steps.clear();
  return ProgramPrinter(p, &steps).run();
}

}  // namespace etrace::emit
