// The translation unit: prologue, one function per different nest, the entry function, the module. Functions
// and buffers carry the model's paths; a number makes them different, not readable.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>

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

// "rnn/Wz/weight.bias" -> rnn_Wz_weight_bias; cut where it gets long.
std::string identifier(const std::string& path) {
  std::string out;
  for (const char ch : path.substr(0, 48))
    out += std::isalnum(static_cast<unsigned char>(ch)) != 0 ? ch : '_';
  return out;
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
    if (uses_any({"etp_fold_"})) out += kernel_text("etp_fold.h") + kernel_text("etp_fold_types.h");
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
        declarations() + entry_ + "}\n";
    out += fmt::format(
        "\n__attribute__((visibility(\"default\"))) const etp_module etrace_module = {{\n"
        "    ETP_ABI_VERSION, {}, {}, {}, {}, \"{}\", run}};\n",
        p_.arena_bytes, p_.arguments.size(), p_.results.size(), p_.constants.size(), c_string(p_.name));
    return out;
  }

 private:
  static constexpr const char* kSupport = R"(
/* gcc 12 fuses products with sums and differences that stand side by side (vfmaddsub), whatever
 * -ffp-contract says. It does not look through this, and vectors and speed stay as they are. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define ETP_ROUNDED(x) __builtin_assoc_barrier(x)
#endif
#endif
#ifndef ETP_ROUNDED
#define ETP_ROUNDED(x) (x)
#endif

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
  std::string pointer(ValueId v, Index first, const std::vector<std::pair<int, Index>>& time) {
    const Value& x = p_.values[static_cast<std::size_t>(v)];
    const auto width = static_cast<Index>(size_of(x.aval.dtype));
    if (x.home == Value::Inside) {
      ETRACE_CHECK(time.empty() && first == 0);
      return pointer(x.base, x.at.first, x.at.time);
    }
    std::string text = buffer(v);
    if (first != 0) text += fmt::format(" + {}", first * width);
    for (const auto& [loop, stride] : time) text += fmt::format(" + t{} * {}", loop, stride * width);
    return text;
  }
  std::string pointer(ValueId v) { return pointer(v, 0, {}); }

  // The variable of `run` that points to a value: in and out are ports, by number, k constants, and v is what
  // lies in between.
  std::string buffer(ValueId v) {
    const Value& x = p_.values[static_cast<std::size_t>(v)];
    const std::string what = to_string(x.aval) + (x.name.empty() ? "" : " ") + x.name;
    const bool shared = x.home == Value::Arena;  // one after the other, values lie at the same place
    const auto [it, is_new] = buffers_.try_emplace({x.home, x.index, shared ? what : ""});
    if (is_new) {
      const std::size_t number = shared ? buffers_.size() - 1 : x.index;
      it->second = {
          fmt::format("{}{}{}{}", prefix(x.home), number, x.name.empty() ? "" : "_", identifier(x.name)),
          what};
    }
    return it->second.variable;
  }
  static const char* prefix(Value::Home home) {
    switch (home) {
      case Value::Argument:
        return "in";
      case Value::Result:
        return "out";
      case Value::Constant:
        return "k";
      case Value::Arena:
        return "v";
      default:
        internal_error("a value that is used has a place", __FILE__, __LINE__);
    }
  }
  std::string declarations() const {
    std::string out;
    for (const auto& [place, named] : buffers_) {
      const auto [home, index, unused] = place;
      const std::string at = home == Value::Arena      ? fmt::format("m + {}", index)
                             : home == Value::Argument ? fmt::format("(char*)a[{}]", index)
                             : home == Value::Result   ? fmt::format("y[{}]", index)
                                                       : fmt::format("(char*)c[{}]", index);
      out += fmt::format("  char* const {} = {}; /* {} */\n", named.variable, at, comment(named.what));
    }
    return out;
  }

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

  static std::vector<int> eqns_of(const Nest& n) {
    std::vector<int> seen;
    for (const Stmt& s : n.body)
      if (s.eqn >= 0 && std::find(seen.begin(), seen.end(), s.eqn) == seen.end()) seen.push_back(s.eqn);
    std::sort(seen.begin(), seen.end());
    return seen;
  }
  // The module that most of the equations come from.
  std::string path_of(const std::vector<int>& eqns) const {
    std::map<std::string, int> count;
    for (const int e : eqns) ++count[p_.eqns[static_cast<std::size_t>(e)].path];
    count.erase("");
    const auto most = std::max_element(count.begin(), count.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == count.end() ? "" : most->first;
  }

  void step(const Nest& n) {
    const std::vector<int> eqns = eqns_of(n);
    const auto [it, is_new] = names_.try_emplace(print_nest(p_, n, "NAME"));
    if (is_new) {
      const std::string path = identifier(path_of(eqns));
      it->second = fmt::format("loop{}{}{}", names_.size() - 1, path.empty() ? "" : "_", path);
      for (const int e : eqns) functions_ += "/* " + about(e) + " */\n";
      functions_ += print_nest(p_, n, it->second) + "\n";
    }
    for (const int e : eqns) line("/* " + about(e) + " */");
    start_clock({TimedStep::Loops, it->second, eqns});
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
  struct Named {
    std::string variable, what;
  };
  std::map<std::tuple<Value::Home, std::size_t, std::string>, Named> buffers_;  // home, index, value
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
