#include "etrace/trace_passes.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"
#include "etrace/error.h"
#include "learn/plan/bodies.h"

namespace etrace {

namespace {

void collect(const ClosedJaxpr& program, std::vector<TracePass>& out) {
  for (const Eqn& eqn : program.jaxpr.eqns) {
    if (is_trace_pass(eqn)) out.push_back(trace_pass_of(eqn));
    for (const JaxprPtr& body : nested_jaxprs(eqn)) collect(*body, out);
  }
}

[[noreturn]] void refuse_form(const Eqn& eqn, TraceForm form, std::int64_t steps) {
  std::vector<std::string> fit;
  for (const TraceForm f : forms_that_fit(eqn)) fit.emplace_back(name(f));
  throw ValueError("trace_passes",
                   fmt::format("the form {} does not fit {} ({}) in passes of {} step{}; there fit: {}",
                               name(form), eqn.params.text_or("trace", ""), to_string(aval_of(eqn.in[0])),
                               steps, steps == 1 ? "" : "s", fmt::join(fit, ", ")));
}

void apply(Eqn& eqn, const TracePassWish& wish) {
  if (wish.trace != "*" && wish.trace != eqn.params.text_or("trace", "")) return;
  if (wish.threads) eqn.params = eqn.params.with("threads", *wish.threads);
  const std::int64_t steps = aval_of(eqn.in[2]).shape[0];
  if (!wish.form || !concerns(*wish.form, steps)) return;
  const std::vector<TraceForm> fit = forms_that_fit(eqn);
  if (std::find(fit.begin(), fit.end(), *wish.form) == fit.end()) refuse_form(eqn, *wish.form, steps);
  eqn.params = eqn.params.with("form", name(*wish.form));
}

ClosedJaxpr applied(ClosedJaxpr program, std::span<const TracePassWish> wishes) {
  for (Eqn& eqn : program.jaxpr.eqns) {
    if (is_trace_pass(eqn))
      for (const TracePassWish& w : wishes) apply(eqn, w);
    map_bodies(eqn, [&](const ClosedJaxpr& body) { return applied(body, wishes); });
  }
  return program;
}

}  // namespace

std::vector<TracePass> trace_passes(const ClosedJaxpr& program) {
  std::vector<TracePass> out;
  collect(program, out);
  return out;
}

Program with_trace_passes(Program p, std::span<const TracePassWish> wishes) {
  if (!wishes.empty()) p.jaxpr = applied(std::move(p.jaxpr), wishes);
  return p;
}

void require_known(std::span<const TracePassWish> wishes, const std::vector<std::string>& traces) {
  for (const TracePassWish& w : wishes) {
    if (w.threads && *w.threads < 1)
      throw ValueError("trace_passes",
                       fmt::format("{} threads for {}; it must be at least 1", *w.threads, w.trace));
    if (w.trace == "*" || std::find(traces.begin(), traces.end(), w.trace) != traces.end()) continue;
    throw ValueError("trace_passes", fmt::format("there is no trace {}{}; there are: {}", w.trace,
                                                 did_you_mean(w.trace, traces), fmt::join(traces, ", ")));
  }
}

}  // namespace etrace
