#include "support/hostile_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "emit/c_printer.h"
#include "emit/cuda_unit.h"
#include "emit/emit.h"
#include "emit/kernel_text.h"
#include "etrace/etrace.h"
#include "etrace/export.h"
#include "io/step_outputs.h"
#include "learn/plan/bodies.h"
#include "native/compile.h"
#include "native/module.h"
#include "support/c_tokens.h"

namespace etrace::testing {

std::string hostile_name(Dice& dice) {
  using namespace std::string_literals;
  static const std::vector<std::string> parts{
      // Ends of comments, over joined lines and by trigraphs.
      "*/"s, "*\\\n/"s, "*\\\r\n/"s, "*\\ \n/"s, "*?\?/\n/"s, "*?\?/\r/"s, "/*"s, "//"s, "/\\\n*"s,
      "/?\?/\n/"s, "\\"s, "\\\n"s, "?\?/"s, "?\?/\n"s, "?\?="s, "?\?"s, "?"s, "*"s, "/"s, "%"s, "%..."s,
      "%2A/"s,
      // Ends of lines.
      "\n"s, "\r"s, "\r\n"s, "\v"s, "\f"s, "\x85"s, "\xc2\x85"s, "\xe2\x80\xa8"s, "\xe2\x80\xa9"s, "\0"s,
      // Strings, characters, directives, digraphs, pragmas.
      "\""s, "'"s, "\\\""s, "R\"("s, ")\""s, "u8R\"x("s, "#"s, "\n#include \"/etc/passwd\"\n"s,
      "\n#error x\n"s, "\n%:define int long\n"s, "%:"s, "<:"s, "?\?<"s, "_Pragma(\"once\")"s,
      "\n#line 1 \"x\"\n"s, "__LINE__"s, "__attribute__((constructor))"s, "asm(\"nop\")"s,
      " extern int system(const char*); "s, ";"s, "}"s, "{"s,
      // Placeholders, shells, make, CMake, pages.
      "{}"s, "{0}"s, "{:999999}"s, "$0"s, "#0"s, "$t"s, "%s%n"s, "@name@"s, "@INCLUDE@"s, "@X@"s,
      "$(shell id)"s, "`id`"s, "$(id)"s, "${X}"s, "; id"s, "| id"s, "-o"s, "@file"s, "../"s, "<b>"s,
      "</script>"s, "<!--"s, "&lt;"s, "]]>"s, "\x1b[31m"s,
      // Words of ours and of the language.
      "int"s, "static"s, "loop0"s, "in0_"s, "v1_x"s, "k0"s, "callee_count"s, "etp_sin_f32"s, "etp_fold_"s,
      "etp_mark_"s, "etp_random"s, "etp_trace_"s, "etp_tan_f32"s, "etp_cos_f64(x)"s, "rows0"s, "lr"s, ":"s,
      "."s, "_"s, "__"s,
      // Other letters, valid and not.
      "é"s, "λ"s, "\U0001F600"s, "\xff\xfe"s, "\xc0\xaf"s, "\xed\xa0\x80"s, "\xe2\x80"s, " "s, "\t"s, "a"s,
      "Z"s};
  if (dice.chance(0.02)) return "";
  std::string out;
  const std::size_t count = 1 + dice.below(dice.chance(0.05) ? 60 : 8);
  for (std::size_t k = 0; k < count; ++k) {
    if (dice.chance(0.25))
      out += static_cast<char>(dice.below(256));
    else
      out += dice.of(parts);
    if (dice.chance(0.01)) out += std::string(dice.below(3000), "*/\\?a"[dice.below(5)]);
  }
  return out;
}

std::string Renaming::operator()(const std::string& name) {
  if (name.empty()) return name;  // what has none is called by its number
  const auto [it, is_new] = names_.try_emplace(name);
  if (!is_new) return it->second;
  do it->second = draw_();
  while (it->second.empty() || !given_.insert(it->second).second);
  return it->second;
}

Renaming plain_names() {
  return Renaming([k = 0]() mutable { return fmt::format("n{:04}", k++); });
}
Renaming hostile_names(Dice& dice) {
  return Renaming([&dice, k = 0]() mutable { return fmt::format("n{:04}", k++) + hostile_name(dice); });
}
Renaming bare_names(Dice& dice) {
  return Renaming([&dice] { return hostile_name(dice); });
}

namespace {

void rename(Jaxpr& j, Renaming& names) {
  for (Eqn& e : j.eqns) {
    for (std::string& part : e.origin.module) part = names(part);
    e.origin.file = names(e.origin.file);
    map_bodies(e, [&](ClosedJaxpr body) {
      rename(body.jaxpr, names);
      return body;
    });
  }
}

void rename(StatePath& path, Renaming& names) {
  for (PathPart& part : path)
    if (auto* text = std::get_if<std::string>(&part)) *text = names(*text);
}

}  // namespace

Program renamed(Program p, Renaming& names) {
  p.name = names(p.name);
  for (auto* ports : {&p.arguments, &p.results})
    for (Port& port : *ports) port.name = names(port.name);
  rename(p.jaxpr.jaxpr, names);
  return p;
}

Model renamed(Model m, Renaming& names) {
  for (std::string* text : {&m.name, &m.source, &m.equations, &m.note}) *text = names(*text);
  for (InputRecord& in : m.inputs) rename(in.path, names), rename(in.leaf_key, names);
  for (OutputRecord& out : m.outputs) rename(out.path, names), rename(out.leaf_key, names);
  rename(m.program.jaxpr, names);
  m.expected = nullptr;
  return m;
}

std::vector<emit::EmitProgram> built(const Program& p) {
  std::vector<emit::EmitProgram> out;
  for (const emit::Target& target : emit::targets()) try {
      out.push_back(emit::build(p, target));
    } catch (const NotSupportedError&) {  // it has no code for it
    }
  return out;
}

emit::EmitProgram renamed(emit::EmitProgram p, Renaming& names) {
  p.name = names(p.name);
  for (emit::Value& v : p.values) v.name = names(v.name);
  for (emit::SourceEqn& e : p.eqns) e.path = names(e.path);
  return p;
}

namespace {

// Of the headers of ours that it holds, which are long and the same everywhere, the names alone.
std::string without_headers(std::string text) {
  for (std::size_t k = 0; k < emit::kNumKernelHeaders; ++k)
    if (const std::size_t at = text.find(emit::kKernelHeaders[k].text); at != std::string::npos)
      text.replace(at, emit::kKernelHeaders[k].text.size(), std::string(emit::kKernelHeaders[k].name) + "\n");
  return text;
}

}  // namespace

Texts printed(const std::vector<emit::EmitProgram>& all) {
  Texts out;
  for (const emit::EmitProgram& p : all) {
    const std::string name(p.target->name);
    out.emplace_back(name, name == "cuda" ? emit::to_string(emit::cuda_unit(p)) : emit::print_c(p));
    if (p.target != &emit::native_target()) continue;
    std::vector<emit::TimedStep> steps;
    out.emplace_back("native with clocks", emit::print_timed_c(p, steps));
    out.emplace_back("key of native", native::key_definition(without_headers(out.front().second)));
  }
  for (auto& [what, text] : out) text = without_headers(std::move(text));
  return out;
}

namespace {

Aval first_result(const Model& m) {
  for (std::size_t i = 0; i < m.outputs.size(); ++i)
    if (m.outputs[i].role == Role::Out && m.outputs[i].index == 0) return aval_of(m.program.jaxpr.outs[i]);
  throw ValueError("names", "the model has no result");
}

}  // namespace

std::vector<Program> learner_programs(const Model& m, const LearningRule& rule) {
  CompileOptions options;
  rule.configure(options);
  const ETraceGraph graph = compile_etrace_graph(m, options);
  const PlanBuilder builder(graph, rule, VjpMethod::SingleStep);
  Avals slices = argument_types(m);
  slices.push_back(first_result(m));
  const StepFunction loss = [](StepCall& step, ArraySpan s) {
    const std::vector<StepInput> args(s.begin(), s.end() - 1);
    return LossAndAux{loss::mse(step(args)[0], s.back())};
  };
  std::vector<Program> out;
  for (const Program& p : builder.plan(loss, slices, 3).programs) out.push_back(lean(p));
  return out;
}

Texts exported_texts(const Model& m, const LearningRule& rule, const std::string& optimizer) {
  try {
    CompileOptions options;
    rule.configure(options);
    const Learner learner(compile_etrace_graph(m, options), rule, {.backend = "interpreter"});
    ExportedModel made =
        export_learner(learner, loss::mse, *optim::make(optimizer, {}), first_result(m), {.libm = true});
    if (made.inputs.size() == 1 && made.outputs.size() == 1) {
      add_project(made, export_targets().front());
      add_arduino(made);
    }
    Texts out;
    for (ExportedFile& f : made.files) out.emplace_back(f.path, without_headers(std::move(f.text)));
    return out;
  } catch (const Error&) {  // it has no code, or nothing in it is learned
    return {};
  }
}

std::string difference_of_texts(const Texts& a, const Texts& b, std::span<const CLanguage> languages) {
  if (a.size() != b.size()) return fmt::format("{} texts, and {}", a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto& [what, text] = a[i];
    if (what != b[i].first) return what + " and " + b[i].first;
    const bool is_c = what.find('.') == std::string::npos || what.ends_with(".c") || what.ends_with(".h") ||
                      what.ends_with(".ino");
    if (is_c) {
      if (const std::string found = difference_of_programs(what, text, b[i].second, languages);
          !found.empty())
        return found;
    } else if (text != b[i].second) {
      return what + " is another text";
    }
  }
  return "";
}

}  // namespace etrace::testing
