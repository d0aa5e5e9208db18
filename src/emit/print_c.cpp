// A unit as C. Nothing is decided here: every loop, name and place stands in the tree.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "emit/c_printer.h"
#include "emit/c_text.h"
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

std::string list(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ", ") + item;
  return out.empty() ? "0" : out;
}

bool identical(const Tensor& a, const Tensor& b) {
  return a.aval() == b.aval() && std::memcmp(a.bytes(), b.bytes(), a.aval().bytes()) == 0;
}

class Printer {
 public:
  explicit Printer(const Unit& u) : u_(u), p_(*u.program), t_(*p_.target), index_(c_type(t_.index)) {}

  std::string run() {
    const std::string functions = loops(), entry = steps();
    const bool host = t_.memory == Target::Host;
    return comment(CommentText(p_.name), ": emitted by etrace.") + "\n" + headers(functions, t_) +
           (u_.clocks > 0 ? fmt::format(kClock, u_.clocks) : "") + (host ? calls() : memory()) + functions +
           rows_ + (host ? host_entry(entry) : own_entry(entry));
  }

  // The loops, then the function that runs them.
  std::string run_as(const std::string& parameters) {
    const std::string functions = loops(), entry = steps();
    return functions +
           fmt::format("static void {}({}) {{\n", u_.name, parameters.empty() ? "void" : parameters) +
           buffers() + entry + "}\n\n";
  }

 private:
  std::string loops() {
    for (const LoopFunction& f : u_.functions) function(f);
    return std::exchange(out_, {});
  }
  std::string steps() {
    tree(u_.entry);
    return std::exchange(out_, {});
  }

  // "call0_matrix_product"
  std::string number(const std::string& callee) const {
    const auto at = std::find(u_.callees.begin(), u_.callees.end(), callee);
    return fmt::format("call{}_{}", at - u_.callees.begin(), identifier(callee));
  }
  std::string calls() const {
    std::string numbers, names, out;
    for (const std::string& name : u_.callees) {
      numbers += number(name) + ", ";
      names += string_literal(name) + ", ";
    }
    for (const Unit::Descriptor& d : u_.descriptors)
      out += fmt::format("static const {} {} = {{{}}};\n", d.type, d.name, d.fields);
    return fmt::format(
               "/* What the host has to find, by name. */\nenum {{{}callee_count}};\n"
               "static const char* const callees[] = {{{}0}};\n\n",
               numbers, names) +
           out;
  }
  std::string buffers() const { return buffers({}, true); }
  std::string buffers(std::string_view body, bool all = false) const {
    const Words used(body);
    std::string out;
    for (const Unit::Buffer& b : u_.buffers)
      if (all || used.has(b.name))
        out += fmt::format("  char* const {} = {}; {}\n", b.name, b.at, comment(b.note));
    return out;
  }
  static std::string of_run() {
    return "  const etp_callee* const f = r->callees;\n"
           "  char* const m = (char*)r->arena;\n"
           "  const char* const* const a = (const char* const*)r->arguments;\n"
           "  char* const* const y = (char* const*)r->results;\n"
           "  const char* const* const c = (const char* const*)r->constants;\n"
           "  (void)x, (void)f, (void)m, (void)a, (void)y, (void)c;\n";
  }
  std::string host_entry(const std::string& body) const {
    return "\nstatic void run(const etp_run* r) {\n"
           "  const etp_context* const x = r->context;\n" +
           of_run() + buffers() + body +
           fmt::format(
               "}}\n\n__attribute__((visibility(\"default\"))) const etp_module etrace_module = {{\n"
               "    ETP_ABI_VERSION, {}, {}, {}, {}, {}, {}, \"etrace\", callees, run}};\n",
               p_.arena_bytes, p_.arguments.size(), p_.results.size(), p_.constants.size(),
               host_steps(p_).products.size(), u_.callees.size());
  }
  std::string own_entry(const std::string& body) const {
    return fmt::format(
               "\nvoid {0}(const void* const* a, void* const* results);\n"
               "void {0}(const void* const* a, void* const* results) {{\n"
               "  char* const* const y = (char* const*)results;\n  (void)a, (void)y;\n",
               u_.name) +
           buffers() + body + "}\n";
  }
  // Static arrays: the arena of every type, and the constants.
  std::string memory() const {
    std::string out;
    for (const auto& [dtype, bytes] : p_.typed_arenas)
      out += fmt::format("static {} {}_{}[{}];\n", c_type(dtype), u_.arena, short_name(dtype),
                         bytes / size_of(dtype));
    for (const std::size_t k : u_.constants)
      out += constant_text(fmt::format("{}_k{}", u_.name, k), p_.constants[k]);
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
    for (const CommentText& note : f.notes) out_ += comment(note) + "\n";
    std::vector<std::string> pointers;
    for (std::size_t k = 0; k < f.pointers.size(); ++k)
      pointers.push_back(
          fmt::format("{}{}* const x{}", f.pointers[k].written ? "" : "const ", f.pointers[k].type, k));
    if (t_.memory == Target::Static) {
      out_ += fmt::format("ETP_LOOP void {}({}) {{\n", f.name, list(pointers));
    } else {
      out_ += fmt::format("static void {}(char* const* p{}) {{\n", f.name,
                          f.ranged ? fmt::format(", {0} lo, {0} hi", index_) : "");
      for (std::size_t k = 0; k < f.pointers.size(); ++k)
        line(fmt::format("{0} = ({1}{2}*)p[{3}];", pointers[k], f.pointers[k].written ? "" : "const ",
                         f.pointers[k].type, k));
    }
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
  void print(const Skip& n) { line("if (" + n.condition + ") continue;"); }
  void print(const Leave& n) { line("if (" + n.condition + ") return;"); }
  void print(const Note& n) { line(comment(n.text)); }
  void print(const RunLoops& n) {
    if (t_.memory == Target::Static) {
      std::vector<std::string> given;
      for (const std::string& p : n.pointers) given.push_back("(void*)(" + p + ")");
      return line(fmt::format("{}({});", n.function, list(given)));
    }
    const std::string pointers = "(char*[]){" + list(n.pointers) + "}";
    if (t_.most_parts == 1)
      line(fmt::format("{}({});", n.function, pointers));
    else if (n.per_row > 0)
      line(fmt::format("{0}({1}, lo * {2}, hi * {2});", n.function, pointers, n.per_row));
    else if (n.parts == 1)
      line(fmt::format("{}({}, 0, {});", n.function, pointers, n.size));
    else
      line(fmt::format("x->parallel(x->pool, {0}, etp_part, &(etp_split){{{1}, {2}, {3}, {0}}});", n.parts,
                       n.function, pointers, n.size));
  }
  void print(const CallLibrary& n) {
    const std::string f = "f[" + number(n.callee) + "]";
    if (n.per_row > 0)
      return line(
          fmt::format("{}.run(&(etp_matrix_product){{{}}}, x, (const void* const[]){{{}}}, "
                      "(void* const[]){{{}}}, scratch);",
                      f, of_rows(n), list(n.in), list(n.out)));
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
  // The fields of a product's descriptor, of the rows [lo, hi).
  std::string of_rows(const CallLibrary& n) const {
    const auto d = std::find_if(u_.descriptors.begin(), u_.descriptors.end(),
                                [&](const Unit::Descriptor& each) { return each.name == n.descriptor; });
    return fmt::format("{}, .rows = (hi - lo) * {}", d->fields, n.per_row);
  }
  void print(const ShareRows& n) {
    std::string text = std::exchange(out_, {});
    const std::size_t depth = std::exchange(depth_, 1);
    tree(n.own);
    const std::string own = std::exchange(out_, std::move(text));
    depth_ = depth;
    const std::string name = fmt::format("rows{}", row_functions_++);
    rows_ += fmt::format(
                 "/* Some of {} rows, at all times. */\n"
                 "static void {}(void* data, int64_t part) {{\n"
                 "  const etp_row_split* const s = (const etp_row_split*)data;\n"
                 "  const etp_run* const r = s->run;\n"
                 "  const int64_t lo = s->rows * part / s->parts, hi = s->rows * (part + 1) / s->parts;\n"
                 "  const etp_context alone = etp_alone(r->context), *const x = &alone;\n"
                 "  char* const scratch = (char*)r->scratch + part * r->row_scratch;\n"
                 "  (void)scratch;\n",
                 n.rows, name) +
             of_run() + buffers(own) + own + "}\n\n";
    const std::string parts = fmt::format("etp_row_parts(x->threads, {}, {})", n.rows, n.most_parts);
    body(fmt::format("if ({} > 1)", parts),
         {{Do{fmt::format("etp_share_rows(r, {}, {}, {})", name, n.rows, parts)}}});
    body("else", n.together);
  }
  void print(const Clock& n) {
    if (n.of_rows)
      return line(fmt::format(
          "if (part == 0) etrace_times[{0}][0] {1}= etp_nanoseconds(), etrace_times[{0}][1] += {2};", n.step,
          n.start ? "-" : "+", n.start ? 0 : 1));
    line(n.start ? fmt::format("etrace_times[{}][0] -= etp_nanoseconds();", n.step)
                 : fmt::format("etrace_times[{0}][0] += etp_nanoseconds(), ++etrace_times[{0}][1];", n.step));
  }

  const Unit& u_;
  const EmitProgram& p_;
  const Target& t_;
  const std::string index_;
  std::string out_;
  std::size_t depth_ = 1;
  std::string rows_;  // functions of ShareRows
  std::size_t row_functions_ = 0;
};

}  // namespace

std::string print_c(const EmitProgram& p) { return Printer(unit_of(p)).run(); }
std::string print_timed_c(const EmitProgram& p, std::vector<TimedStep>& steps) {
  steps.clear();
  const Unit unit = unit_of(p, {.timed = &steps});
  return Printer(unit).run();
}

StandAloneText print_stand_alone(const StandAlone& file) {
  StandAloneText out;
  std::map<Dtype, std::size_t> arena;                     // bytes, as much as the largest program needs
  std::vector<std::pair<Tensor, std::string>> constants;  // equal ones are one
  std::vector<bool> used;
  std::vector<LoopFunction> known;
  for (const StandAlone::Function& f : file.functions) {
    const EmitProgram& p = *f.program;
    for (const auto& [dtype, bytes] : p.typed_arenas) arena[dtype] = std::max(arena[dtype], bytes);
    UnitOptions options{.name = f.name, .arena = file.name, .arguments = f.arguments, .results = f.results};
    std::vector<std::size_t> place;
    for (const Tensor& x : p.constants) {
      auto same = std::find_if(constants.begin(), constants.end(),
                               [&](const auto& c) { return identical(c.first, x); });
      if (same == constants.end())
        same = constants.insert(same, {x, fmt::format("{}_k{}", file.name, constants.size())});
      place.push_back(static_cast<std::size_t>(same - constants.begin()));
      options.constants.push_back(same->second);
    }
    options.known = known;
    const Unit unit = unit_of(p, std::move(options));
    used.resize(constants.size(), false);
    for (const std::size_t k : unit.constants) used[place[k]] = true;
    known.insert(known.end(), unit.functions.begin(), unit.functions.end());
    out.functions += Printer(unit).run_as(f.parameters);
  }
  for (const auto& [dtype, bytes] : arena) {
    out.memory += fmt::format("static {} {}_{}[{}];\n", c_type(dtype), file.name, short_name(dtype),
                              bytes / size_of(dtype));
    out.arena_bytes += bytes;
  }
  for (std::size_t k = 0; k < constants.size(); ++k) {
    if (!used[k]) continue;
    out.memory += constant_text(constants[k].second, constants[k].first);
    out.constant_bytes += constants[k].first.aval().bytes();
  }
  if (!file.functions.empty()) out.headers = headers(out.functions, *file.functions[0].program->target);
  return out;
}

}  // namespace etrace::emit
