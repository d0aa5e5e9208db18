#include "export/model_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "emit/c_text.h"
#include "emit/names.h"
#include "etrace/emission.h"
#include "etrace/error.h"
#include "etrace/version.h"

namespace etrace::device {

namespace {

std::string upper(std::string text) {
  for (char& ch : text) ch = static_cast<char>(std::toupper(static_cast<unsigned char>(ch)));
  return text;
}

bool all_zero(const Tensor& x) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(x.bytes());
  return std::all_of(bytes, bytes + x.aval().bytes(), [](unsigned char b) { return b == 0; });
}

// "x", or "x0", "x1" … of several.
std::string numbered(const char* name, std::size_t i, std::size_t count) {
  return count == 1 ? name : fmt::format("{}{}", name, i);
}

// Identifiers of names that differ in signs alone, or behind what is cut, get numbers.
std::vector<std::string> different(std::vector<std::string> names) {
  std::set<std::string> taken;
  for (std::string& one : names) {
    const std::string base = one;
    for (int k = 2; !base.empty() && !taken.insert(one).second; ++k) one = fmt::format("{}_{}", base, k);
  }
  return names;
}

std::string join(const std::vector<std::string>& items) { return fmt::format("{}", fmt::join(items, ", ")); }

constexpr const char* kGuards = R"C(
#if defined(__FAST_MATH__)
#error "no -ffast-math: rounding and numbers that are not finite matter here"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "numbers must be rounded to their type after every operation (FLT_EVAL_METHOD 0)"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

)C";

// A product and a sum that must not become one operation.
constexpr const char* kSelfTest = R"(
static int {0}_rounds_twice(void) {{
  static const volatile float a = 1.000244140625f, c = -1.00048828125f; /* 1 + 2^-12, -(1 + 2^-11) */
  const float x = a, z = c;
  const float p = x * x;
  return p + z == 0.0f;
}}
)";

class Text {
 public:
  Text(const DevicePlan& plan, const ExportOptions& options, const std::string& about, std::int64_t stack)
      : plan_(plan),
        name_(options.name),
        upper_(upper(options.name)),
        about_(about),
        stack_(stack),
        names_(array_names(plan, options.name)),
        setters_(setters()) {}

  ModelText run(const emit::EmitProgram& evolve, const emit::EmitProgram& learn) {
    const emit::StandAlone file{name_,
                                {{&evolve, name_ + "_evolve", join(parameters(false, true)),
                                  places(plan_.evolve.arguments), places(plan_.evolve.results)},
                                 {&learn, name_ + "_learn", join(parameters(true, true)),
                                  places(plan_.learn.arguments), places(plan_.learn.results)}}};
    const emit::StandAloneText text = print_stand_alone(file);
    ModelText out;
    out.scratch = static_cast<std::int64_t>(text.arena_bytes) + 8;  // and the last loss
    out.constants = static_cast<std::int64_t>(text.constant_bytes);
    out.library = emit::library_calls(text.functions);
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (plan_.carried[i].constant || !all_zero(plan_.carried[i].value))
        out.constants += static_cast<std::int64_t>(plan_.carried[i].value.aval().bytes());
    out.header = header(out);
    out.source = fmt::format("/* {}.c: {}\n{} */\n", name_, about_.str(), kHowToCompile) + kGuards +
                 text.headers + fmt::format("#include \"{}.h\"\n\n", name_) + arrays() + text.memory +
                 fmt::format("static {} {}_last_loss[1];\n\n", c_type(loss_type()), name_) + text.functions +
                 api();
    return out;
  }

 private:
  static constexpr const char* kHowToCompile =
      " * Written by etrace " ETRACE_VERSION
      ", not to be changed by hand. No allocation, no library but memcpy and memset;\n"
      " * one instance, not to be called from two threads at once. Every fused multiply-add is spelled out: "
      "compile\n"
      " * with -ffp-contract=off (the default of -std=c99) and without -ffast-math, with -fno-math-errno to "
      "use the\n"
      " * machine's square root. The bits are then those of the native engine, on every machine.";

  Dtype loss_type() const {
    for (const Port& p : plan_.learn.results)
      if (p.role == PortRole::Loss) return p.aval.dtype;
    internal_error("a learning step has a loss", __FILE__, __LINE__);
  }

  std::vector<std::string> parameters(bool target, bool inside) const {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i)
      out.push_back(
          fmt::format("const {}* {}", c_type(plan_.inputs[i].dtype), numbered("x", i, plan_.inputs.size())));
    if (target) out.push_back(fmt::format("const {}* target", c_type(plan_.target.dtype)));
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i)
      out.push_back(
          fmt::format("{}* {}", c_type(plan_.outputs[i].dtype), numbered("y", i, plan_.outputs.size())));
    if (inside) out.emplace_back("uint8_t* finite");
    return out;
  }
  std::vector<std::string> given(bool target) const {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i)
      out.push_back(numbered("x", i, plan_.inputs.size()));
    if (target) out.emplace_back("target");
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i)
      out.push_back(numbered("y", i, plan_.outputs.size()));
    out.emplace_back("&finite");
    return out;
  }

  // 3 of "slice3".
  static std::size_t number_in(const Port& p) {
    const std::size_t digits = p.name.find_first_of("0123456789");
    ETRACE_CHECK(digits != std::string::npos);
    return std::stoul(p.name.substr(digits));
  }
  // Where the ports of a program lie.
  std::vector<std::string> places(const std::vector<Port>& ports) const {
    std::vector<std::string> out;
    for (const Port& p : ports) {
      if (const Carried* c = plan_.find(p)) {
        out.push_back(names_[static_cast<std::size_t>(c - plan_.carried.data())]);
        continue;
      }
      switch (p.role) {
        case PortRole::Arg:
        case PortRole::Slice:  // the model's arguments, then the target
          out.push_back(number_in(p) < plan_.inputs.size() ? numbered("x", number_in(p), plan_.inputs.size())
                                                           : "target");
          break;
        case PortRole::Result:
        case PortRole::Aux:
          out.push_back(numbered("y", number_in(p), plan_.outputs.size()));
          break;
        case PortRole::Loss:
          out.push_back(name_ + "_last_loss");
          break;
        case PortRole::Finite:
          out.emplace_back("finite");
          break;
        default:
          throw NotSupportedError("export",
                                  fmt::format("the program has a {} {}, which a device does not know",
                                              etrace::name(p.role), p.name));
      }
    }
    return out;
  }

  std::string header(const ModelText& sizes) const {
    std::string out = fmt::format("/* {}.h: {}\n{} */\n", name_, about_.str(), kHowToCompile);
    out += fmt::format(
        "#ifndef {0}_H\n#define {0}_H\n\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" "
        "{{\n#endif\n\n",
        upper_);
    const auto size = [&](const std::string& what, const Aval& a) {
      out += fmt::format("#define {}_{}_SIZE {}\n", upper_, upper(what), a.shape.size());
    };
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i)
      size(numbered("x", i, plan_.inputs.size()), plan_.inputs[i]);
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i)
      size(numbered("y", i, plan_.outputs.size()), plan_.outputs[i]);
    size("target", plan_.target);
    std::int64_t carried = 0;
    for (const Carried& c : plan_.carried)
      if (!c.constant) carried += static_cast<std::int64_t>(c.value.aval().bytes());
    out += fmt::format(
        "#define {0}_RAM_BYTES {1} /* static */\n#define {0}_STACK_BYTES {2} /* at most, for the functions "
        "below "
        "*/\n#define {0}_CONSTANT_BYTES {3} /* in flash, beside the code */\n\n",
        upper_, carried + sizes.scratch, stack_, sizes.constants);
    out += fmt::format(
        "/* Parameters, states and traces as they were when this was written. 0: the compiler has put "
        "products and\n"
        " * sums together that must stay apart; see above. */\n"
        "int {0}_init(void);\n\n"
        "/* One step: y from x. States and traces move on. Returns 1; or 0 if anything was, or would have "
        "become,\n"
        " * infinite or NaN{1}: then nothing has changed, and y is not to be used. Arrays must not overlap. "
        "*/\n"
        "int {0}_step({2});\n\n"
        "/* The same with a target: the loss, its gradient, and an update of the parameters. */\n"
        "int {0}_step_target({3});\n"
        "{4} {0}_loss(void); /* of the last step with a target */\n\n",
        name_, plan_.labels.empty() ? "" : ", or a label names no class", join(parameters(false, false)),
        join(parameters(true, false)), c_type(loss_type()));
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (!setters_[i].empty())
        out += fmt::format("{}\nvoid {}(double rate);\n",
                           emit::comment(emit::CommentText(plan_.carried[i].port.name)), setters_[i]);
    out += "\n/* What is carried on, by name. */\n";
    for (std::size_t i = 0; i < names_.size(); ++i)
      out += fmt::format("extern {}{} {}[{}]; {}\n", plan_.carried[i].constant ? "const " : "",
                         c_type(plan_.carried[i].value.dtype()), names_[i], elements(i), described(i));
    out += fmt::format(
        "\n/* The same by path. type: {1}. */\ntypedef struct {0}_array {{\n"
        "  const char *role, *path, *type;\n  const void* data;\n  uint32_t size; /* elements */\n"
        "  uint32_t bytes;\n  uint8_t constant;\n}} {0}_array;\n"
        "#define {2}_ARRAYS {3}\nextern const {0}_array {0}_arrays[{2}_ARRAYS];\n"
        "const {0}_array* {0}_find(const char* role, const char* path); /* null: there is none */\n\n"
        "#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {2}_H */\n",
        name_, "\"f32\", \"i32\" …", upper_, names_.size());
    return out;
  }

  std::string described(std::size_t i) const {
    const Carried& c = plan_.carried[i];
    return emit::comment(emit::CommentText(
        fmt::format("{} {} {}", etrace::name(c.port.role), to_string(c.value.aval()), c.port.name)));
  }
  static bool is_rate(const std::string& name) {
    const std::size_t at = name.find('/');
    return name.compare(at + 1, 2, "lr") == 0;
  }
  // By array: model_set_learning_rate, and model_set_learning_rate_GROUP for a group's own; empty where it is
  // no rate.
  std::vector<std::string> setters() const {
    std::vector<std::string> out;
    for (const Carried& c : plan_.carried) {
      const std::string& path = c.port.name;
      const std::size_t colon = path.find(':');
      const bool rate = c.port.role == PortRole::Hyperparameter && is_rate(path);
      out.push_back(
          !rate ? ""
                : name_ + "_set_learning_rate" +
                      (colon == std::string::npos ? "" : "_" + emit::identifier(path.substr(colon + 1))));
    }
    return different(std::move(out));
  }
  // No role is called so: the name is free.
  std::string start_of(std::size_t i) const { return name_ + "_start" + names_[i].substr(name_.size()); }
  std::int64_t elements(std::size_t i) const {
    return std::max<std::int64_t>(1, plan_.carried[i].value.size());
  }

  std::string arrays() const {
    std::string out;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const Carried& c = plan_.carried[i];
      if (c.constant) {
        out += emit::constant_text(names_[i], c.value).substr(std::string_view("static ").size());
        continue;
      }
      out += fmt::format("{} {}[{}];\n", c_type(c.value.dtype()), names_[i], elements(i));
      if (!all_zero(c.value)) out += emit::constant_text(start_of(i), c.value);
    }
    return out + "\n";
  }

  // Data is not looked at by the programs: they take it as finite.
  std::string checks(bool target) const {
    std::string out;
    const auto look = [&](const Aval& a, const std::string& x, std::int64_t classes) {
      std::string wrong;
      if (classes > 0) wrong = fmt::format("{0}[i] < 0 || {0}[i] >= {1}", x, classes);
      if (a.dtype == Dtype::F32 || a.dtype == Dtype::F64)
        wrong = fmt::format("!etp_is_finite_{}({}[i]){}", short_name(a.dtype), x,
                            wrong.empty() ? "" : " || " + wrong);
      if (wrong.empty()) return;
      out += fmt::format("  for (i = 0; i < {}; ++i)\n    if ({}) return 0;\n", a.shape.size(), wrong);
    };
    const auto classes = [&](std::size_t slice) -> std::int64_t {
      for (const Labels& l : plan_.labels)
        if (target && l.slice == slice) return l.classes;
      return 0;
    };
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i)
      look(plan_.inputs[i], numbered("x", i, plan_.inputs.size()), classes(i));
    if (target) look(plan_.target, "target", classes(plan_.inputs.size()));
    return out;
  }

  std::string call(bool target) const {
    const std::string look = checks(target);
    return fmt::format(
        "int {0}_step{1}({2}) {{\n  uint8_t finite = 0;\n{3}{4}  {0}_{5}({6});\n  return finite;\n}}\n",
        name_, target ? "_target" : "", join(parameters(target, false)), look.empty() ? "" : "  int32_t i;\n",
        look, target ? "learn" : "evolve", join(given(target)));
  }

  std::string api() const {
    std::string out = fmt::format(fmt::runtime(kSelfTest), name_);
    out += fmt::format("\nint {}_init(void) {{\n", name_);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const Carried& c = plan_.carried[i];
      if (c.constant) continue;
      out += all_zero(c.value)
                 ? fmt::format("  __builtin_memset({0}, 0, sizeof {0});\n", names_[i])
                 : fmt::format("  __builtin_memcpy({0}, {1}, sizeof {0});\n", names_[i], start_of(i));
    }
    out += fmt::format("  {0}_last_loss[0] = 0;\n  return {0}_rounds_twice();\n}}\n\n", name_);
    out += call(false) + "\n" + call(true);
    out +=
        fmt::format("\n{} {}_loss(void) {{ return {}_last_loss[0]; }}\n", c_type(loss_type()), name_, name_);
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (!setters_[i].empty())
        out += fmt::format("void {}(double rate) {{ {}[0] = rate; }}\n", setters_[i], names_[i]);
    out += fmt::format("\nconst {0}_array {0}_arrays[{1}_ARRAYS] = {{\n", name_, upper_);
    for (std::size_t i = 0; i < names_.size(); ++i)
      out += fmt::format(
          "    {{\"{}\", {}, \"{}\", {}, {}, sizeof {}, {}}},\n", etrace::name(plan_.carried[i].port.role),
          emit::string_literal(plan_.carried[i].port.name), short_name(plan_.carried[i].value.dtype()),
          names_[i], plan_.carried[i].value.size(), names_[i], plan_.carried[i].constant ? 1 : 0);
    out += "};\n\n";
    out += fmt::format(
        "static int {0}_same(const char* a, const char* b) {{\n  while (*a != 0 && *a == *b) ++a, ++b;\n"
        "  return *a == *b;\n}}\n"
        "const {0}_array* {0}_find(const char* role, const char* path) {{\n  int32_t i;\n"
        "  for (i = 0; i < {1}_ARRAYS; ++i)\n"
        "    if ({0}_same({0}_arrays[i].role, role) && {0}_same({0}_arrays[i].path, path)) return "
        "&{0}_arrays[i];\n"
        "  return 0;\n}}\n",
        name_, upper_);
    return out;
  }

  const DevicePlan& plan_;
  const std::string name_, upper_;
  const emit::CommentText about_;
  const std::int64_t stack_;
  const std::vector<std::string> names_, setters_;
};

}  // namespace

std::vector<std::string> array_names(const DevicePlan& plan, const std::string& prefix) {
  std::vector<std::string> out;
  for (const Carried& c : plan.carried)
    out.push_back(fmt::format("{}_{}_{}", prefix, etrace::name(c.port.role), emit::identifier(c.port.name)));
  return different(std::move(out));
}

ModelText model_text(const DevicePlan& plan, const emit::EmitProgram& evolve, const emit::EmitProgram& learn,
                     const ExportOptions& options, const std::string& about, std::int64_t stack) {
  return Text(plan, options, about, stack).run(evolve, learn);
}

}  // namespace etrace::device
