#include "learn/plan/room.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/memory.h"
#include "etrace/error.h"

namespace etrace {

std::optional<std::int64_t> trace_bytes_with(const ETraceGraph& g, VjpMethod method, std::string_view name,
                                             const RuleOptions& options) {
  try {
    const std::shared_ptr<const LearningRule> rule = make_rule(name, options);
    CompileOptions wanted = g.options;
    rule->configure(wanted);
    const ETraceGraph graph = compile_etrace_graph(g.module_info.model, wanted);
    const PlanBuilder builder(graph, *rule, method);
    std::int64_t bytes = 0;
    for (const TraceSlot& s : builder.memory())
      if (s.role == PortRole::Trace) bytes += static_cast<std::int64_t>(s.aval.bytes());
    return bytes;
  } catch (const Error&) {
    return std::nullopt;
  }
}

namespace {

std::int64_t param_bytes(const ETraceGraph& g) {
  std::int64_t total = 0;
  for (const InputRecord& in : g.module_info.model.inputs)
    if (in.role == Role::Param) total += static_cast<std::int64_t>(in.init.aval().bytes());
  return total;
}

}  // namespace

void require_room(const ETraceGraph& g, const LearningRule& rule, VjpMethod method, const ExecutionChoice& e,
                  std::string_view backend, std::size_t free) {
  const std::int64_t params = 2 * param_bytes(g), kept = e.window * e.kept_bytes,
                     all = params + e.trace_bytes + kept,
                     limit = static_cast<std::int64_t>(std::min<std::size_t>(free, kUncountable));
  if (all <= limit) return;
  std::string help;
  const auto add = [&](const std::string& what, std::int64_t bytes) {
    help += fmt::format("\n  {}: {}{}", what, bytes_text(bytes), bytes <= limit ? "" : ", still too much");
  };
  if (e.window > 1) {
    const std::int64_t room = limit - params - e.trace_bytes,
                       steps = room < e.kept_bytes ? 1 : room / std::max<std::int64_t>(1, e.kept_bytes);
    add(fmt::format("windows of {} (execution_window)",
                    steps == 1 ? "one step" : fmt::format("{} steps", steps)),
        params + e.trace_bytes + steps * e.kept_bytes);
  }
  const std::string own = rule.name();
  if (const auto half = trace_bytes_with(g, method, own, {{"trace_dtype", Attr("bf16")}});
      half && *half < e.trace_bytes)
    add(own + " with traces of 16 bits (trace_dtype bf16)", params + *half + kept);
  for (const RuleRow* row : rule_rows()) {
    if (row->name == own || row->compared.empty()) continue;
    const auto bytes = trace_bytes_with(g, method, row->name, row->compared.front());
    if (bytes && *bytes < e.trace_bytes) add("the rule " + row->name, params + *bytes + kept);
  }
  throw ValueError(
      "memory",
      fmt::format(
          "out of memory: {} takes {} in the memory of the backend {} (parameters and their gradients "
          "{}, traces {}, windows of {} steps {}), and {} are free. What would take less:{}\n  a smaller "
          "batch",
          own, bytes_text(all), backend, bytes_text(params), bytes_text(e.trace_bytes), e.window,
          bytes_text(kept), bytes_text(limit), help));
}

}  // namespace etrace
