// The proof: exported code beside the native engine, on the same data, compared bit by bit. What is printed
// by a small harness around the exported functions is compared with what this process finds.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "emit/names.h"
#include "etrace/backend.h"
#include "etrace/emission.h"
#include "etrace/error.h"
#include "export/device_plan.h"
#include "export/project_files.h"
#include "native/toolchain.h"
#include "native/work_folder.h"

namespace etrace {

namespace {

using device::Carried;
using device::DevicePlan;

constexpr std::uint32_t kSeed = 2463534242U;
constexpr std::int64_t kWithout = 8;  // every so many steps is one without a target

std::uint32_t next_word(std::uint32_t& s) {
  s ^= s << 13, s ^= s >> 17, s ^= s << 5;
  return s;
}

// Fowler, Noll and Vo's hash, 32 bits, of bytes in order.
struct Hash {
  std::uint32_t value = 2166136261U;
  void add(const void* data, std::size_t bytes) {
    const auto* p = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) value = (value ^ p[i]) * 16777619U;
  }
};

// Random data: numbers in -1 … 1 that every float holds, labels of classes, zeros and ones.
struct Source {
  Aval aval;
  std::int64_t classes = 0;

  void fill(std::uint32_t& seed, Tensor& x) const {
    for (std::int64_t i = 0; i < aval.shape.size(); ++i) {
      const std::uint32_t w = next_word(seed);
      const double number = static_cast<double>(static_cast<std::int32_t>(w >> 8)) * 0x1p-23 - 1.0;
      const std::int64_t whole = (w >> 8) % (classes > 0 ? classes : 2);
      auto* at = static_cast<std::byte*>(x.writable()) + static_cast<std::size_t>(i) * size_of(aval.dtype);
      const auto put = [&](auto value) { std::memcpy(at, &value, sizeof value); };
      switch (aval.dtype) {
        case Dtype::F32:
          put(classes > 0 ? static_cast<float>(whole) : static_cast<float>(number));
          break;
        case Dtype::F64:
          put(classes > 0 ? static_cast<double>(whole) : number);
          break;
        case Dtype::I64:
          put(whole);
          break;
        case Dtype::I32:
        case Dtype::U32:
          put(static_cast<std::int32_t>(whole));
          break;
        case Dtype::Bool:
          put(static_cast<std::uint8_t>(whole));
          break;
        default:
          throw NotSupportedError("export", fmt::format("no random data of type {}", to_string(aval)));
      }
    }
  }
  std::string c_code(const std::string& name) const {
    const bool number = is_floating(aval.dtype) && classes == 0;
    return fmt::format(
        "    for (i = 0; i < {}; ++i) {{\n      const uint32_t w = next_word();\n      {}[i] = ({}){};\n    "
        "}}\n",
        aval.shape.size(), name, c_type(aval.dtype),
        number ? fmt::format("(({})(int32_t)(w >> 8) * 0x1p-23{} - 1)", c_type(aval.dtype),
                             aval.dtype == Dtype::F32 ? "f" : "")
               : fmt::format("((w >> 8) % {})", classes > 0 ? classes : 2));
  }
};

std::vector<Source> sources_of(const DevicePlan& plan) {
  std::vector<Source> out;
  for (const Aval& a : plan.inputs) out.push_back({a});
  out.push_back({plan.target});
  for (const device::Labels& l : plan.labels) out[l.slice].classes = l.classes;
  return out;
}

// In a line of its own.
std::string shown(const Carried& c) { return emit::CommentText(c.port.name).str(); }

// The native engine ----------------------------------------------------------------------------------------
class NativeRun {
 public:
  NativeRun(const DevicePlan& plan, std::int64_t updates) : plan_(plan), sources_(sources_of(plan)) {
    for (const Carried& c : plan.carried) values_.push_back(Tensor::copy_of(c.value.aval(), c.value.bytes()));
    for (const Source& s : sources_) data_.push_back(Tensor::zeros(s.aval));
    for (const Aval& a : plan.outputs) outputs_.push_back(Tensor::zeros(a));
    for (const Port& p : plan.learn.results)
      if (p.role == PortRole::Loss) loss_ = Tensor::zeros(p.aval);
    const Backend& native = find_backend("native");
    const auto evolve = native.compile(plan.evolve), learn = native.compile(plan.learn);
    std::uint32_t seed = kSeed;
    for (std::int64_t k = 0, done = 0; done < updates; ++k) {
      const bool target = k % kWithout != kWithout - 1;
      for (std::size_t i = 0; i < sources_.size(); ++i) sources_[i].fill(seed, data_[i]);
      run(target ? *learn : *evolve, target ? plan.learn : plan.evolve);
      ++steps;
      done += target ? 1 : 0;
      finite += finite_ != 0 ? 1 : 0;
      if (finite_ == 0) continue;
      for (const Tensor& y : outputs_) hash_.add(y.bytes(), y.aval().bytes());
      if (target) hash_.add(loss_.bytes(), loss_.aval().bytes());
    }
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> out{fmt::format("finite {:08x}", finite),
                                 fmt::format("results {:08x}", hash_.value)};
    for (std::size_t i = 0; i < values_.size(); ++i) {
      Hash h;
      h.add(values_[i].bytes(), values_[i].aval().bytes());
      out.push_back(
          fmt::format("{} {} {:08x}", name(plan_.carried[i].port.role), shown(plan_.carried[i]), h.value));
    }
    return out;
  }
  std::int64_t steps = 0, finite = 0;

 private:
  void* place(const Port& p) {
    if (const Carried* c = plan_.find(p))
      return values_[static_cast<std::size_t>(c - plan_.carried.data())].writable();
    if (p.role == PortRole::Finite) return &finite_;
    if (p.role == PortRole::Loss) return loss_.writable();
    const std::size_t i = std::stoul(p.name.substr(p.name.find_first_of("0123456789")));
    return p.role == PortRole::Arg || p.role == PortRole::Slice ? data_[i].writable()
                                                                : outputs_[i].writable();
  }
  void run(const Runnable& code, const Program& p) {
    std::vector<const void*> arguments;
    std::vector<void*> results;
    for (const Port& port : p.arguments) arguments.push_back(place(port));
    for (const Port& port : p.results) results.push_back(place(port));
    code.run(arguments.data(), results.data());
  }

  const DevicePlan& plan_;
  const std::vector<Source> sources_;
  Tensors values_, data_, outputs_;
  Tensor loss_;
  std::uint8_t finite_ = 0;
  Hash hash_;
};

// The harness ----------------------------------------------------------------------------------------------
constexpr const char* kHarness = R"(@INCLUDE@ "@name@.h"
@INCLUDE@ "board.h"

static uint32_t seed = 2463534242u;
static uint32_t next_word(void) {
  seed ^= seed << 13, seed ^= seed >> 17, seed ^= seed << 5;
  return seed;
}
static uint32_t add(uint32_t h, const void* data, uint32_t bytes) {
  const unsigned char* p = data;
  uint32_t i;
  for (i = 0; i < bytes; ++i) h = (h ^ p[i]) * 16777619u;
  return h;
}
static void put(const char* what, const char* path, uint32_t n) {
  char text[11];
  int i;
  for (i = 0; i < 8; ++i) text[i + 1] = "0123456789abcdef"[n >> (28 - 4 * i) & 15];
  text[0] = ' ', text[9] = '\n', text[10] = 0;
  board_put(what);
  if (path[0] != 0) board_put(" ");
  board_put(path);
  board_put(text);
}
)";

std::string harness(const DevicePlan& plan, const std::string& model, std::int64_t steps) {
  const std::vector<Source> sources = sources_of(plan);
  const auto numbered = [](const char* name, std::size_t i, std::size_t n) {
    return n == 1 ? std::string(name) : fmt::format("{}{}", name, i);
  };
  std::string arrays, fill, given, hash;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const bool target = i + 1 == sources.size();
    const std::string x = target ? "target" : numbered("x", i, sources.size() - 1);
    arrays += fmt::format("static {} {}[{}];\n", c_type(sources[i].aval.dtype), x,
                          std::max<std::int64_t>(1, sources[i].aval.shape.size()));
    fill += sources[i].c_code(x);
    if (!target) given += x + ", ";
  }
  std::string outputs;
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    const std::string y = numbered("y", i, plan.outputs.size());
    arrays += fmt::format("static {} {}[{}];\n", c_type(plan.outputs[i].dtype), y,
                          std::max<std::int64_t>(1, plan.outputs[i].shape.size()));
    outputs += ", " + y;
    hash += fmt::format("      h = add(h, {}, {});\n", y, plan.outputs[i].bytes());
  }
  arrays += "static const char* const names[] = {\n";
  for (const Carried& c : plan.carried) arrays += "    " + emit::string_literal(shown(c)) + ",\n";
  arrays += "};\n";
  std::string main = fmt::format(
      R"(
int main(void) {{
  uint32_t h = 2166136261u, finite = 0, spent = 0, runs = 0;
  int32_t k, i, good;
  if (!@name@_init()) {{
    board_put("fused\n");
    board_exit(2);
  }}
  board_paint_stack();
  for (k = 0; k < {0}; ++k) {{
    uint32_t before;
{1}    before = board_ticks();
    if (k % {2} != {2} - 1) {{
      good = @name@_step_target({3}target{4});
      spent += (board_ticks() - before) & 0xffffffu;
      ++runs;
    }} else {{
      good = @name@_step({6});
    }}
    finite += (uint32_t)good;
    if (good) {{
{5}      if (k % {2} != {2} - 1) {{
        const @LOSS@ loss = @name@_loss();
        h = add(h, &loss, sizeof loss);
      }}
    }}
  }}
  k = (int32_t)board_stack_used();
  put("finite", "", finite);
  put("results", "", h);
  for (i = 0; i < @NAME@_ARRAYS; ++i) {{
    uint32_t own = 2166136261u;
    if (@name@_arrays[i].size != 0) own = add(own, @name@_arrays[i].data, @name@_arrays[i].bytes);
    put(@name@_arrays[i].role, names[i], own);
  }}
  put("#instructions", "", (uint32_t)((uint64_t)spent * board_tick() / runs / 100u));
  put("#stack", "", (uint32_t)k);
  board_exit(0);
  return 0;
}}
)",
      steps, fill, kWithout, given, outputs, hash, (given + outputs.substr(2)));
  std::string loss = "float";
  for (const Port& p : plan.learn.results)
    if (p.role == PortRole::Loss) loss = c_type(p.aval.dtype);
  for (std::size_t at = main.find("@LOSS@"); at != std::string::npos; at = main.find("@LOSS@"))
    main.replace(at, 6, loss);
  return device::with_name(kHarness, model) + arrays + device::with_name(std::move(main), model);
}

// Compilers and boards -------------------------------------------------------------------------------------
std::vector<std::string> words(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> out;
  for (std::string w; in >> w;) out.push_back(w);
  return out;
}
void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}
bool answers(std::string_view program) {
  return native::run_process({std::string(program), "--version"}).status == 0;
}

std::string_view package_of(std::string_view tool) {
  constexpr std::pair<std::string_view, std::string_view> packages[] = {
      {"arm-none-eabi-gcc", "gcc-arm-none-eabi"},
      {"riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf"},
      {"qemu-system-arm", "qemu-system-arm"},
      {"qemu-system-riscv32", "qemu-system-misc"}};
  for (const auto& [name, package] : packages)
    if (name == tool) return package;
  return tool;
}

std::uint32_t number_after(const std::string& line) {
  return static_cast<std::uint32_t>(std::stoul(line.substr(line.rfind(' ') + 1), nullptr, 16));
}

class Board {
 public:
  Board(const ExportTarget& t, std::string folder, std::string model)
      : t_(t), folder_(std::move(folder)), model_(std::move(model)) {}

  ExportCheck::Run run(const std::vector<std::string>& expected) const {
    using Answer = ExportCheck::Run::Answer;
    ExportCheck::Run out{std::string(t_.name), Answer::NotRun, ""};
    const bool host = t_.compiler.empty();
    for (const std::string_view tool : {t_.compiler, t_.emulator})
      if (!tool.empty() && !answers(tool)) {
        out.text = fmt::format("{} is not installed; Debian has it in {}", tool, package_of(tool));
        return out;
      }
    std::string reason;
    const auto cc = host ? native::find_compiler(reason) : std::nullopt;
    if (host && !cc) {
      out.text = reason;
      return out;
    }
    std::vector<std::string> command = host ? cc->command : words(t_.compiler);
    append(command, {"-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O2"});
    append(command,
           host ? std::vector<std::string>{"-ffp-contract=off", "-fno-math-errno"} : words(t_.flags));
    const std::string object = file(std::string(t_.name) + ".o");
    std::vector<std::string> compile = command;
    append(compile, {"-c", file(model_ + ".c"), "-o", object});
    native::Finished made = native::run_process(compile);
    if (made.status == 0) {
      out.code_bytes = code_size(object);
      if (!host) command.push_back("-T" + file(t_.linker));
      append(command, {object, file("check.c"), file(host ? "host.c" : t_.startup), "-o", elf(),
                       host ? "-lm" : "-lgcc"});
      made = native::run_process(command);
    }
    if (made.status != 0 && made.output.find("overflowed by") != std::string::npos) {
      out.text =
          fmt::format("the board {} has too little memory for it (linker script {})", t_.machine, t_.linker);
      return out;
    }
    if (made.status != 0) {
      out.answer = Answer::Different;
      out.text = fmt::format("{} does not compile it:\n{}", command[0], made.output.substr(0, 2000));
      return out;
    }
    std::vector<std::string> start{elf()};
    if (!host) {
      start = {std::string(t_.emulator), "-M", std::string(t_.machine)};
      if (t_.name == "rv32") append(start, {"-bios", "none"});
      append(start, {"-nographic", "-monitor", "none", "-serial", "none", "-semihosting-config",
                     "enable=on,target=native", "-icount", "shift=0", "-kernel", elf()});
      start.insert(start.begin(), {"timeout", "300"});
    }
    compare(native::run_process(start), expected, out);
    return out;
  }

 private:
  std::string file(std::string_view name) const { return folder_ + "/" + std::string(name); }
  std::string elf() const { return file(std::string(t_.name) + ".elf"); }

  // Of the functions alone, as the tool of the compiler's family sees it. 0 if there is none.
  std::int64_t code_size(const std::string& object) const {
    std::string tool = "size";
    if (const std::size_t gcc = t_.compiler.rfind("gcc");
        !t_.compiler.empty() && gcc != std::string_view::npos)
      tool = std::string(t_.compiler.substr(0, gcc)) + "size";
    const native::Finished sizes = native::run_process({tool, "-A", object});
    std::istringstream lines(sizes.output);
    std::int64_t all = 0;
    for (std::string line; std::getline(lines, line);) {
      const std::vector<std::string> w = words(line);
      if (w.size() >= 2 && w[0].starts_with(".text")) all += std::stoll(w[1]);
    }
    return all;
  }

  static void compare(const native::Finished& done, const std::vector<std::string>& expected,
                      ExportCheck::Run& out) {
    using Answer = ExportCheck::Run::Answer;
    out.answer = Answer::Different;
    if (done.status != 0) {
      out.text = done.output.starts_with("fused")
                     ? "the compiler fused products and sums"
                     : fmt::format("it ended with status {}: {}", done.status, done.output.substr(0, 500));
      return;
    }
    std::istringstream in(done.output);
    std::vector<std::string> found;
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("#instructions"))
        out.instructions = number_after(line);
      else if (line.starts_with("#stack"))
        out.stack = number_after(line);
      else
        found.push_back(line);
    }
    for (std::size_t i = 0; i < std::max(found.size(), expected.size()); ++i) {
      const std::string a = i < expected.size() ? expected[i] : "(nothing)",
                        b = i < found.size() ? found[i] : "(nothing)";
      if (a == b) continue;
      out.text += fmt::format("{}native: {}, here: {}", out.text.empty() ? "" : "; ", a, b);
    }
    if (out.text.empty()) out.answer = Answer::Same;
  }

  const ExportTarget& t_;
  const std::string folder_, model_;
};

}  // namespace

bool ExportCheck::same() const {
  bool any = false;
  for (const Run& r : runs) {
    if (r.answer == Run::Answer::Different) return false;
    any = any || r.answer == Run::Answer::Same;
  }
  return any;
}

bool ExportCheck::all_ran() const {
  return std::none_of(runs.begin(), runs.end(), [](const Run& r) { return r.answer == Run::Answer::NotRun; });
}

ExportCheck check_export(const Learner& learner, const Loss& loss, const optim::Optimizer& optimizer,
                         const Aval& target, const ExportOptions& options, const ExportCheckOptions& check) {
  std::vector<const ExportTarget*> targets;
  for (const std::string& t : check.targets) targets.push_back(&find_export_target(t));
  const ExportedModel exported = export_learner(learner, loss, optimizer, target, options);
  const DevicePlan plan = device::plan_device(learner, loss, optimizer, target);
  const NativeRun native_run(plan, check.updates);
  const native::WorkFolder folder(std::filesystem::temp_directory_path().string());
  exported.write(folder.path());
  write_file(folder.path() + "/check.c", harness(plan, options.name, native_run.steps));
  for (const char* f :
       {"board.h", "host.c", "cortex_m.c", "riscv.c", "cortex_m.ld", "cortex_m55.ld", "riscv.ld"})
    write_file(folder.path() + "/" + f, device::project_file(f, options.name));
  ExportCheck out;
  out.steps = native_run.steps, out.finite_steps = native_run.finite;
  for (const ExportTarget* t : targets) {
    out.runs.push_back(Board(*t, folder.path(), options.name).run(native_run.lines()));
    ExportCheck::Run& r = out.runs.back();
    if (r.answer == ExportCheck::Run::Answer::Same && r.stack > exported.report.stack + 256) {
      r.answer = ExportCheck::Run::Answer::Different;
      r.text = fmt::format("it took {} bytes of stack, but {} were stated", r.stack, exported.report.stack);
    }
  }
  return out;
}

}  // namespace etrace
