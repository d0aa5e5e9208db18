#include "learn/plan/window_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/memory.h"
#include "etrace/error.h"

namespace etrace {

namespace {

constexpr std::int64_t kUsual = 32, kMost = 64;           // steps
constexpr std::int64_t kNear = std::int64_t{16} << 20;    // bytes of a window that stays near
constexpr std::int64_t kCached = std::int64_t{48} << 20;  // and of one that caches still help
constexpr std::int64_t kLargePass = 48;                   // passed / kept, from which on longer windows pay

std::int64_t bytes(const Aval& a) { return static_cast<std::int64_t>(a.bytes()); }

std::int64_t element_bytes(const HiddenGroup& group) {
  return static_cast<std::int64_t>(size_of(group.hidden_states.front().invar.aval.dtype));
}

// What a window keeps of each step: x and y of every relation, f and the signal of every state, and D. Under
// SnAp the widened D is made when its turn comes, from D between positions at most.
std::int64_t kept_per_step(const ETraceGraph& g) {
  std::int64_t total = 0;
  for (const HiddenParamOpRelation& r : g.hidden_param_op_relations) {
    if (r.x_var) total += bytes(r.x_var->aval) + bytes(r.y_var.aval);
    for (const std::size_t k : r.hidden_groups) {
      const HiddenGroup& group = g.hidden_groups[k];
      total += group.varshape().size() * group.num_state() *
               static_cast<std::int64_t>(size_of(r.y_var.aval.dtype));
    }
  }
  for (const HiddenGroup& group : g.hidden_groups) {
    const std::int64_t states = group.num_state();
    total += group.varshape().size() * (states * states + states) * element_bytes(group);
  }
  return total;
}

// SnAp: one step's widened Jacobian, its product with those of later steps, and both at work.
std::int64_t widened_bytes(const ETraceGraph& g) {
  std::int64_t total = 0;
  for (const HiddenGroup& group : g.hidden_groups)
    if (group.snap && !group.snap->degenerate()) {
      const std::int64_t width = group.trace_state_width();
      total += 3 * group.varshape().size() * width * width * element_bytes(group);
    }
  return total;
}

std::int64_t gradient_bytes(const ETraceGraph& g) {
  std::int64_t total = 0;
  for (const InputRecord& in : g.module_info.model.inputs)
    if (in.role == Role::Param) total += bytes(in.init.aval());
  return total;
}

}  // namespace

ExecutionChoice choose_window(const ETraceGraph& g, const BoundRule& rule, std::optional<std::int64_t> wanted,
                              std::optional<std::int64_t> memory_limit) {
  ExecutionChoice out;
  for (const TraceSlot& s : rule.slots()) out.trace_bytes += bytes(s.aval);
  out.kept_bytes = kept_per_step(g);
  const std::int64_t always = out.trace_bytes + widened_bytes(g), least = always + out.kept_bytes;
  if (memory_limit && least > *memory_limit)
    throw ValueError(
        "compile", fmt::format("memory_limit is {}, but the traces take {} and one step {}; raise it, use a "
                               "rule that keeps less (`explain` lists them), a smaller batch, or trace_dtype "
                               "bf16",
                               bytes_text(*memory_limit), bytes_text(out.trace_bytes),
                               bytes_text(least - out.trace_bytes)));
  const auto fits = [&](std::int64_t steps) {
    return !memory_limit || always + steps * out.kept_bytes <= *memory_limit;
  };
  if (wanted) {
    out.window = *wanted;
    out.reason = "as asked for";
    if (!fits(*wanted))
      throw ValueError("compile",
                       fmt::format("memory_limit is {}, but windows of {} steps take {} beside {} of "
                                   "traces; leave execution_window out to have it chosen",
                                   bytes_text(*memory_limit), *wanted, bytes_text(*wanted * out.kept_bytes),
                                   bytes_text(out.trace_bytes)));
    return out;
  }
  out.window = kUsual;
  out.reason = "the usual length";
  const std::int64_t passed = out.trace_bytes + gradient_bytes(g);
  if (passed > kLargePass * out.kept_bytes && kMost * out.kept_bytes <= kNear) {
    out.window = kMost;
    out.reason =
        fmt::format("traces and gradients are {} times what a step keeps, so passing them seldom pays",
                    passed / std::max<std::int64_t>(1, out.kept_bytes));
  }
  while (out.window > 8 && out.window * out.kept_bytes > kCached) {
    out.window /= 2;
    out.reason = fmt::format("a longer window would keep more than {}", bytes_text(kCached));
  }
  while (!fits(out.window)) {
    out.window /= 2;
    out.reason = fmt::format("a longer window would pass memory_limit {}", bytes_text(*memory_limit));
  }
  return out;
}

std::string ExecutionChoice::to_string() const {
  return fmt::format("{} at once: {}. Traces {}, and {} kept per step of a window.",
                     window == 1 ? "single steps" : fmt::format("{} steps", window), reason,
                     bytes_text(trace_bytes), bytes_text(kept_bytes));
}

}  // namespace etrace
