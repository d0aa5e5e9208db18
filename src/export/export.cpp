// From a learner to files. The programs are those that Learner::step runs (device_plan.cpp); the emitter
// makes loops of them, and model_text.cpp a C file with what users call.
#include "etrace/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/memory.h"
#include "emit/emit.h"
#include "emit/names.h"
#include "etrace/error.h"
#include "export/cost.h"
#include "export/model_text.h"
#include "learn/plan/room.h"

namespace etrace {

namespace {

constexpr std::int64_t kMostBytes = 32
                                    << 20;  // more than microcontrollers have; the text is several times that

void require_name(const std::string& name) {
  if (name.empty() || name != emit::identifier(name) || (name[0] >= '0' && name[0] <= '9'))
    throw ValueError("export",
                     fmt::format("the name '{}' cannot begin names in C; take letters, digits and _, "
                                 "at most {}",
                                 name, emit::kMostIdentifier));
  constexpr std::string_view taken[] = {"main", "board",  "host",   "check", "cortex_m", "riscv",
                                        "math", "stddef", "stdint", "stdio", "stdlib",   "string"};
  if (name[0] == '_' || name.starts_with("etp_") || name == "etp" ||
      std::find(std::begin(taken), std::end(taken), name) != std::end(taken))
    throw ValueError("export", fmt::format("the name '{}' is taken: names in C that begin with _ or etp_ "
                                           "are not free, and {} are files of examples and of the C library",
                                           name, fmt::join(taken, ", ")));
}

std::int64_t& part_for(ExportReport& r, PortRole role) {
  switch (role) {
    case PortRole::Param:
      return r.params;
    case PortRole::State:
      return r.states;
    case PortRole::Trace:
      return r.traces;
    case PortRole::OptimizerSlot:
      return r.optimizer;
    default:
      return r.other;
  }
}

[[noreturn]] void refuse_budget(const Learner& learner, const ExportReport& r, std::int64_t limit) {
  std::string help;
  const auto add = [&](const std::string& what, std::int64_t ram) {
    help += fmt::format("\n  {}: {}{}", what, bytes_text(ram), ram <= limit ? "" : ", still too much");
  };
  const std::string own(learner.rule().name());
  if (const auto half = trace_bytes_with(learner.graph(), learner.options().vjp_method, own,
                                         {{"trace_dtype", Attr("bf16")}});
      half && *half < r.traces)
    add(own + " with traces of 16 bits (--trace-dtype bf16)", r.ram() - r.traces + *half);
  for (const RuleRow* row : rule_rows()) {
    if (row->name == own || row->compared.empty()) continue;
    const auto bytes =
        trace_bytes_with(learner.graph(), learner.options().vjp_method, row->name, row->compared.front());
    if (bytes && *bytes < r.traces) add(fmt::format("the rule {}", row->name), r.ram() - r.traces + *bytes);
  }
  if (r.optimizer > 64) add("the optimiser sgd, which remembers nothing", r.ram() - r.optimizer);
  throw ValueError(
      "export",
      fmt::format("the model needs {} of RAM (parameters {}, traces {}, optimiser {}, "
                  "states and counters {}, values in between {}), but there are {}.{}{}",
                  bytes_text(r.ram()), bytes_text(r.params), bytes_text(r.traces), bytes_text(r.optimizer),
                  bytes_text(r.states + r.other), bytes_text(r.scratch), bytes_text(limit),
                  help.empty() ? " Make it smaller." : " What would help:", help));
}

// Beside the rates, which are numbers of type f64 in every learner.
bool carries_doubles(const device::DevicePlan& plan) {
  return std::any_of(plan.carried.begin(), plan.carried.end(), [](const device::Carried& c) {
    return c.value.dtype() == Dtype::F64 && c.port.role != PortRole::Hyperparameter;
  });
}

void require_no_library(const device::ModelText& text, const ExportOptions& o) {
  if (text.library.empty() || o.libm) return;
  throw NotSupportedError(
      "export",
      fmt::format("the model calls {} of the C library, whose last bits differ from machine to machine; "
                  "if that may be, say so (--libm)",
                  fmt::join(text.library, ", ")));
}

}  // namespace

std::string ExportReport::to_string() const {
  std::string out;
  const auto line = [&](const std::string& what, const std::string& value) {
    out += fmt::format("{:<28}{}\n", what, value);
  };
  const auto bytes = [](std::int64_t n) { return fmt::format("{:>9} bytes", n); };
  line("parameters", bytes(params));
  line("traces", bytes(traces));
  line("optimiser", bytes(optimizer));
  line("states", bytes(states));
  line("counters and rates", bytes(other));
  line("values in between", bytes(scratch));
  line("RAM, static", bytes(ram()));
  line("RAM, stack, at most", bytes(stack));
  line("flash, constants", bytes(constants));
  line("flash, code", bytes(code) + " (an estimate)");
  line("multiplications per step", fmt::format("{:>9}", multiply_adds));
  line("instructions per step",
       fmt::format("{:>9} with a target, {} without (an estimate)", instructions, step_instructions));
  for (const std::string& note : notes) out += note + "\n";
  return out;
}

namespace {

// Whether the file is one that etrace wrote, or there is none.
bool may_replace(const std::string& path) {
  return !std::filesystem::exists(path) || read_file(path).find("Written by etrace") != std::string::npos;
}

}  // namespace

std::vector<std::string> ExportedModel::write(const std::string& folder) const {
  namespace fs = std::filesystem;
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const fs::path path = fs::path(folder) / files[i].path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error)
      throw IoError("export", fmt::format("cannot make the folder {}: {}", path.parent_path().string(),
                                          error.message()));
    const bool own = path.stem() == name && (path.extension() == ".c" || path.extension() == ".h");
    if (!own && fs::exists(path)) {
      kept.push_back(files[i].path);
      continue;
    }
    if (!may_replace(path.string()))
      throw IoError("export", fmt::format("{} is there, and etrace did not write it; choose another name "
                                          "(--name) or folder",
                                          path.string()));
    write_file(path.string(), files[i].text);
  }
  return kept;
}

std::vector<TracePassWish> passes_for_devices(const Learner& learner, const Loss& loss,
                                              const optim::Optimizer& optimizer, const Aval& target) {
  std::vector<TracePassWish> out;
  for (const TracePass& t : device::plan_device(learner, loss, optimizer, target).without_code())
    if (std::none_of(out.begin(), out.end(), [&](const TracePassWish& w) { return w.trace == t.trace; }))
      out.push_back({t.trace, TraceForm::Rows});
  return out;
}

ExportedModel export_learner(const Learner& learner, const Loss& loss, const optim::Optimizer& optimizer,
                             const Aval& target, const ExportOptions& options) {
  require_name(options.name);
  const ExportTarget& target_row = find_export_target(options.target);
  const device::DevicePlan plan = device::plan_device(learner, loss, optimizer, target);
  plan.require_code();
  std::int64_t bytes = 0;
  for (const device::Carried& c : plan.carried) bytes += static_cast<std::int64_t>(c.value.aval().bytes());
  if (bytes > kMostBytes)
    throw ValueError("export",
                     fmt::format("the learner carries {} from step to step, and a file for a device "
                                 "may have {}; make the model smaller, or choose a rule with less "
                                 "memory (`etrace rules`)",
                                 bytes_text(bytes), bytes_text(kMostBytes)));
  emit::Target code = emit::find_target("c99");
  code.skip_zeros = options.skip_zeros;
  const emit::EmitProgram evolve = emit::build(plan.evolve, code), learn = emit::build(plan.learn, code);

  ExportedModel out;
  out.name = options.name;
  out.inputs = plan.inputs, out.outputs = plan.outputs, out.target = plan.target;
  ExportReport& r = out.report;
  r.stack = std::max(device::stack_of(evolve), device::stack_of(learn));
  const std::string about = fmt::format("a learner, {}, {}", learner.describe(), optimizer.name());
  const device::ModelText text = device::model_text(plan, evolve, learn, options, about, r.stack);
  require_no_library(text, options);
  for (const device::Carried& c : plan.carried)
    if (!c.constant) part_for(r, c.port.role) += static_cast<std::int64_t>(c.value.aval().bytes());
  r.scratch = text.scratch;
  r.constants = text.constants;
  const device::Cost cost = device::cost_of(learn, target_row.doubles),
                     less = device::cost_of(evolve, target_row.doubles);
  constexpr std::int64_t kApi = 900;  // functions around the loops, and mathematics
  r.code = kApi + cost.code + less.code / 2;
  if (!target_row.doubles && carries_doubles(plan))
    r.notes.push_back(
        fmt::format("numbers of type f64, which {} computes in software, about 45 times slower "
                    "than f32 (--dtype f32)",
                    target_row.name));
  r.multiply_adds = cost.multiply_adds;
  r.instructions = cost.instructions;
  r.step_instructions = less.instructions;
  if (!cost.is_bound) r.notes.emplace_back("a loop runs until a condition holds: it is counted once");
  if (!text.library.empty())
    r.notes.push_back(fmt::format("calls {} of the C library: link with -lm", fmt::join(text.library, ", ")));
  if (options.ram && r.ram() > *options.ram) refuse_budget(learner, r, *options.ram);
  out.files = {{options.name + ".c", text.source}, {options.name + ".h", text.header}};
  return out;
}

}  // namespace etrace
