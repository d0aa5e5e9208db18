// A unit as C. Nothing is decided here: every loop, name and place stands in the tree.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "emit/c_printer.h"
#include "emit/kernel_text.h"
#include "emit/loop_tree.h"
#include "emit/target.h"
#include "etrace/error.h"

namespace etrace::emit {

namespace {

constexpr const char* kClock = R"(
#include <time.h>
__attribute__((visibility("default"))) int64_t etrace_times[{}][2];
static int64_t etp_nanoseconds(void) {{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}}

)";

// Comments must not end early.
std::string comment(std::string text) {
  for (std::size_t i = text.find("*/"); i != std::string::npos; i = text.find("*/", i))
    text.replace(i, 2, "* /");
  return text;
}

std::string c_string(const std::string& text) {
  std::string out;
  for (const char ch : text) {
    if (ch == '"' || ch == '\\') out += '\\';
    if (static_cast<unsigned char>(ch) >= 32) out += ch;
  }
  return out;
}

std::string list(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ", ") + item;
  return out.empty() ? "0" : out;
}

class Printer {
 public:
  explicit Printer(const Unit& u) : u_(u), p_(*u.program), t_(*p_.target), index_(c_type(t_.index)) {}

  std::string run() {
    for (const LoopFunction& f : u_.functions) function(f);
    const std::string functions = std::move(out_);
    out_.clear();
    tree(u_.entry);
    const std::string entry = std::move(out_);
    const bool host = t_.memory == Target::Host;
    return fmt::format("/* {}: emitted by etrace. */\n", comment(p_.name)) + headers(functions) +
           (u_.clocks > 0 ? fmt::format(kClock, u_.clocks) : "") + (host ? calls() : memory()) + functions +
           (host ? host_entry(entry) : own_entry(entry));
  }

 private:
  // The headers of runtime/ that the functions need.
  std::string headers(const std::string& functions) const {
    const auto uses = [&](const char* name) { return functions.find(name) != std::string::npos; };
    std::string out = t_.memory == Target::Host ? kernel_text("etp_abi.h") + kernel_text("etp_descriptors.h")
                                                : kernel_text("etp_standard.h");
    out += kernel_text("etp_scalar.h");
    if (uses("etp_")) out += kernel_text("etp_math.h");
    if (uses("etp_fold_")) out += kernel_text("etp_fold.h") + kernel_text("etp_fold_types.h");
    if (uses("etp_mark_")) out += kernel_text("etp_mark.h");
    if (uses("etp_random")) out += kernel_text("etp_rng.h") + kernel_text("etp_draw.h");
    return out + kernel_text("etp_rounded.h") + (t_.most_parts > 1 ? kernel_text("etp_parts.h") : "");
  }

  static std::string number(const std::string& callee) {
    std::string out = "call_";
    for (const char ch : callee) out += std::isalnum(static_cast<unsigned char>(ch)) != 0 ? ch : '_';
    return out;
  }
  std::string calls() const {
    std::string numbers, names, out;
    for (const std::string& name : u_.callees) {
      numbers += number(name) + ", ";
      names += "\"" + c_string(name) + "\", ";
    }
    for (const Unit::Descriptor& d : u_.descriptors)
      out += fmt::format("static const {} {} = {{{}}};\n", d.type, d.name, d.fields);
    return fmt::format(
               "/* What the host has to find, by name. */\nenum {{{}callee_count}};\n"
               "static const char* const callees[] = {{{}0}};\n\n",
               numbers, names) +
           out;
  }
  std::string buffers() const {
    std::string out;
    for (const Unit::Buffer& b : u_.buffers)
      out += fmt::format("  char* const {} = {}; /* {} */\n", b.name, b.at, comment(b.note));
    return out;
  }
  std::string host_entry(const std::string& body) const {
    return "\nstatic void run(const etp_run* r) {\n"
           "  const etp_context* const x = r->context;\n"
           "  const etp_callee* const f = r->callees;\n"
           "  char* const m = (char*)r->arena;\n"
           "  const char* const* const a = (const char* const*)r->arguments;\n"
           "  char* const* const y = (char* const*)r->results;\n"
           "  const char* const* const c = (const char* const*)r->constants;\n"
           "  (void)x, (void)f, (void)m, (void)a, (void)y, (void)c;\n" +
           buffers() + body +
           fmt::format(
               "}}\n\n__attribute__((visibility(\"default\"))) const etp_module etrace_module = {{\n"
               "    ETP_ABI_VERSION, {}, {}, {}, {}, {}, {}, \"{}\", callees, run}};\n",
               p_.arena_bytes, p_.arguments.size(), p_.results.size(), p_.constants.size(),
               host_steps(p_).products.size(), u_.callees.size(), c_string(p_.name));
  }
  std::string own_entry(const std::string& body) const {
    return fmt::format(
               "\nvoid {0}(const void* const* a, void* const* results);\n"
               "void {0}(const void* const* a, void* const* results) {{\n"
               "  char* const* const y = (char* const*)results;\n  (void)a, (void)y;\n",
               u_.name) +
           buffers() + body + "}\n";
  }
  static std::string number_of(const Tensor& x, Index i) {
    if (x.dtype() != Dtype::F16 && x.dtype() != Dtype::BF16) return c_number({x.dtype(), x.at(i)});
    return std::to_string(reinterpret_cast<const std::uint16_t*>(x.bytes())[i]);
  }
  // Static arrays: the arena of every type, and the constants.
  std::string memory() const {
    std::string out;
    for (const auto& [dtype, bytes] : p_.typed_arenas)
      out += fmt::format("static {} {}_{}[{}];\n", c_type(dtype), u_.name, short_name(dtype),
                         bytes / size_of(dtype));
    for (const std::size_t k : u_.constants) {
      const Tensor& x = p_.constants[k];
      out += fmt::format("static const {} {}_k{}[] = {{", c_type(x.dtype()), u_.name, k);
      for (Index i = 0; i < x.size(); ++i)
        out += (i == 0 ? "" : i % 8 == 0 ? ",\n    " : ", ") + number_of(x, i);
      out += "};\n";
    }
    return out + "\n";
  }

  void line(const std::string& text) { out_ += std::string(2 * depth_, ' ') + text + "\n"; }
  void body(const std::string& head, const Tree& t, const char* last = nullptr) {
    line(head + " {");
    ++depth_;
    tree(t);
    if (last != nullptr) line(last);
    --depth_;
    line("}");
  }
  void tree(const Tree& t) {
    for (const Node& node : t) std::visit([&](const auto& n) { print(n); }, node.what);
  }

  void function(const LoopFunction& f) {
    for (const std::string& note : f.notes) out_ += "/* " + comment(note) + " */\n";
    out_ += fmt::format("static void {}(char* const* p{}) {{\n", f.name,
                        f.ranged ? fmt::format(", {0} lo, {0} hi", index_) : "");
    for (std::size_t k = 0; k < f.pointers.size(); ++k)
      line(fmt::format("{0}{1}* const x{2} = ({0}{1}*)p[{2}];", f.pointers[k].written ? "" : "const ",
                       f.pointers[k].type, k));
    tree(f.body);
    out_ += "}\n\n";
  }

  void print(const For& loop) {
    const Range& n = loop.range;
    if (n.kind == Range::Vector)
      out_ += "#pragma omp simd" + (n.joined.empty() ? "" : " reduction(|: " + list(n.joined) + ")") + "\n";
    const std::string step = n.down        ? "--" + n.variable
                             : n.step == 1 ? "++" + n.variable
                                           : fmt::format("{} += {}", n.variable, n.step);
    body(fmt::format("for ({} {} = {}; {} {} {}; {})", index_, n.variable, n.from, n.variable,
                     n.down ? ">=" : "<", n.to, step),
         loop.body);
  }
  void print(const Let& n) {
    line(fmt::format("{}{} {} = {};", n.varies ? "" : "const ", n.type, n.name, n.value));
  }
  void print(const Lanes& n) {
    line(fmt::format("{} {}[{}]{};", n.type, n.name, n.size, n.zero ? " = {0}" : ""));
  }
  void print(const Set& n) { line(n.to + " = " + n.value + ";"); }
  void print(const Do& n) { line(n.call + ";"); }
  void print(const If& n) { body("if (" + n.condition + ")", n.body); }
  void print(const Leave& n) { line("if (" + n.condition + ") return;"); }
  void print(const Note& n) { line("/* " + comment(n.text) + " */"); }
  void print(const RunLoops& n) {
    const std::string pointers = "(char*[]){" + list(n.pointers) + "}";
    if (t_.most_parts == 1)
      line(fmt::format("{}({});", n.function, pointers));
    else if (n.parts == 1)
      line(fmt::format("{}({}, 0, {});", n.function, pointers, n.size));
    else
      line(fmt::format("x->parallel(x->pool, {0}, etp_part, &(etp_split){{{1}, {2}, {3}, {0}}});", n.parts,
                       n.function, pointers, n.size));
  }
  void print(const CallLibrary& n) {
    const std::string f = "f[" + number(n.callee) + "]";
    line(fmt::format("{}.run({}, x, (const void* const[]){{{}}}, (void* const[]){{{}}}, r->scratch);", f,
                     n.descriptor.empty() ? f + ".descriptor" : "&" + n.descriptor, list(n.in), list(n.out)));
  }
  void print(const Repeat& n) {
    line("for (;;) {");
    ++depth_;
    tree(n.condition);
    line("if (!" + n.predicate + ") break;");
    tree(n.body);
    --depth_;
    line("}");
  }
  void print(const Choose& n) {
    line("switch (" + n.index + ") {");
    ++depth_;
    for (std::size_t k = 0; k < n.cases.size(); ++k) body(fmt::format("case {}:", k), n.cases[k], "break;");
    --depth_;
    line("}");
  }
  void print(const Clock& n) {
    line(n.start ? fmt::format("etrace_times[{}][0] -= etp_nanoseconds();", n.step)
                 : fmt::format("etrace_times[{0}][0] += etp_nanoseconds(), ++etrace_times[{0}][1];", n.step));
  }

  const Unit& u_;
  const EmitProgram& p_;
  const Target& t_;
  const std::string index_;
  std::string out_;
  std::size_t depth_ = 1;
};

}  // namespace

std::string print_c(const EmitProgram& p) { return Printer(unit_of(p, nullptr)).run(); }
std::string print_timed_c(const EmitProgram& p, std::vector<TimedStep>& steps) {
  steps.clear();
  const Unit unit = unit_of(p, &steps);
  return Printer(unit).run();
}

}  // namespace etrace::emit
