#include "etrace/plan_text.h"
#include "control/loops.h"

#include <fmt/format.h>

#include "etrace/control.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/trace_window.h"
#include "etrace/primitive.h"
#include "etrace/trace_passes.h"
#include "ops/partial_dot.h"

namespace etrace {

namespace {

std::int64_t elements(const Avals& types) {
  std::int64_t n = 0;
  for (const Aval& a : types) n += a.shape.size();
  return n;
}

Avals operand_types(const Eqn& eqn) {
  Avals out;
  for (const Atom& a : eqn.in) out.push_back(aval_of(a));
  return out;
}
Avals result_types_of(const Eqn& eqn) {
  Avals out;
  for (const Var& v : eqn.out) out.push_back(v.aval);
  return out;
}

// 2·M·N·K: every result is a sum over the axes that the left operand loses, or over a stretch of one.
double product_operations(const Eqn& eqn) {
  const double out = static_cast<double>(eqn.out[0].aval.shape.size());
  if (eqn.prim == &partial_dot_p) return 2.0 * out * static_cast<double>(dot_stretch(eqn.params).depth);
  double contracted = 1.0;
  const Attr* numbers = eqn.params.find("dimension_numbers");
  const Attr::List* lists = numbers != nullptr ? numbers->list_items() : nullptr;
  if (lists != nullptr && !lists->empty())
    if (const Attr::List* contracting = (*lists)[0].list_items();
        contracting != nullptr && !contracting->empty())
      if (const Dims* axes = (*contracting)[0].ints())
        for (const std::int64_t a : *axes)
          contracted *= static_cast<double>(aval_of(eqn.in[0]).shape[static_cast<std::size_t>(a)]);
  return 2.0 * out * contracted;
}

// Every element of the kernel meets every position once.
double convolution_operations(const Eqn& eqn) {
  const Aval kernel = aval_of(eqn.in[1]);
  const double out = static_cast<double>(eqn.out[0].aval.shape.size()),
               all = static_cast<double>(kernel.shape.size());
  return 2.0 * out * all / std::max(1.0, static_cast<double>(kernel.shape[0]));
}

// A trace is read and written once, and K steps are added to it.
double trace_operations(const Eqn& eqn) {
  const Avals in = operand_types(eqn);
  const double trace = static_cast<double>(in[0].shape.size());
  double steps = 1.0;
  for (const Aval& a : in)
    if (a.shape.rank() == 4 && &a != &in[1]) steps = std::max(steps, static_cast<double>(a.shape[0]));
  return trace * (4.0 + 2.0 * steps);
}

void add(ProgramCounts& into, const ClosedJaxpr& program, double times) {
  for (const Tensor& t : program.consts) into.constant_bytes += static_cast<std::int64_t>(t.aval().bytes());
  for (const Eqn& eqn : program.jaxpr.eqns) {
    ++into.equations;
    const bool convolution = eqn.prim == &conv_general_dilated_p,
               product = eqn.prim->spec.product && !convolution, trace = is_trace_pass(eqn),
               loop = is_scan(eqn) || is_while(eqn);
    into.products += product || convolution ? 1 : 0;
    into.trace_passes += trace ? 1 : 0;
    into.loops += loop ? 1 : 0;
    const std::vector<JaxprPtr> bodies = nested_jaxprs(eqn);
    const double runs = is_scan(eqn) ? static_cast<double>(eqn.params.integer("length")) : 1.0;
    for (const JaxprPtr& body : bodies) add(into, *body, times * runs);
    if (!bodies.empty()) continue;
    into.operations += times * (product       ? product_operations(eqn)
                                : convolution ? convolution_operations(eqn)
                                : trace       ? trace_operations(eqn)
                                              : static_cast<double>(std::max(elements(operand_types(eqn)),
                                                                             elements(result_types_of(eqn)))));
  }
}

std::string port_table(const std::vector<Port>& ports) {
  std::string out;
  for (std::size_t i = 0; i < ports.size(); ++i)
    out += fmt::format("  {:>3}  {:<14} {:<36} {:<16} {:>12} bytes\n", i, name(ports[i].role), ports[i].name,
                       to_string(ports[i].aval), ports[i].aval.bytes());
  return out;
}

}  // namespace

ProgramCounts counts_of(const ClosedJaxpr& program) {
  ProgramCounts out;
  add(out, program, 1.0);
  return out;
}

std::string program_text(const Program& p, bool equations) {
  std::string out = fmt::format("program {}\n arguments\n{} results\n", p.name, port_table(p.arguments));
  std::string results = port_table(p.results);
  std::size_t line = 0, alias = 0, exchange = 0;
  std::string rows;
  for (std::size_t i = 0; i < p.results.size(); ++i) {
    const std::size_t end = results.find('\n', line);
    rows += results.substr(line, end - line);
    if (alias < p.aliases.size() && p.aliases[alias].result == i)
      rows += fmt::format("  in place of argument {}", p.aliases[alias++].argument);
    if (exchange < p.exchanges.size() && p.exchanges[exchange].result == i)
      rows += fmt::format("  changes places with argument {}", p.exchanges[exchange++].argument);
    rows += "\n";
    line = end + 1;
  }
  const ProgramCounts c = counts_of(p.jaxpr);
  out += rows +
         fmt::format(
             " {} equations, {} products, {} loops, {} passes over a trace, constants {} bytes, about {:.3g} "
             "operations\n",
             c.equations, c.products, c.loops, c.trace_passes, c.constant_bytes, c.operations);
  for (const TracePass& t : trace_passes(p.jaxpr))
    out += fmt::format(" the trace {} is passed {} in the form {} on {} thread{}: {}\n", t.trace,
                       t.steps == 1 ? "each step" : fmt::format("every {} steps", t.steps), name(t.form),
                       t.threads, t.threads == 1 ? "" : "s", t.reason);
  if (equations) out += to_string(p.jaxpr.jaxpr) + "\n";
  return out;
}

}  // namespace etrace
