// Programs with ports: checks and text.
#include "etrace/program.h"

#include <fmt/format.h>

#include <vector>

#include "etrace/error.h"

namespace etrace {

std::string_view name(PortRole role) {
  switch (role) {
    case PortRole::Param:
      return "param";
    case PortRole::State:
      return "state";
    case PortRole::Trace:
      return "trace";
    case PortRole::RuleParam:
      return "rule_param";
    case PortRole::Counter:
      return "counter";
    case PortRole::OptimizerSlot:
      return "optimizer_slot";
    case PortRole::Hyperparameter:
      return "hyperparameter";
    case PortRole::Arg:
      return "arg";
    case PortRole::Slice:
      return "slice";
    case PortRole::Weight:
      return "weight";
    case PortRole::Key:
      return "key";
    case PortRole::Signal:
      return "signal";
    case PortRole::Loss:
      return "loss";
    case PortRole::Result:
      return "result";
    case PortRole::Finite:
      return "finite";
    case PortRole::Aux:
      return "aux";
    case PortRole::Gradient:
      return "gradient";
  }
  return "";
}

namespace {

void check_ports(const Program& p, const char* what, const std::vector<Port>& ports, const Avals& types) {
  if (ports.size() != types.size())
    throw CompilationError("program",
                           fmt::format("{}: {} ports for {} {}s", p.name, ports.size(), types.size(), what));
  for (std::size_t i = 0; i < ports.size(); ++i)
    if (ports[i].aval != types[i])
      throw CompilationError(
          "program", fmt::format("{}: {} {} has type {}, but the jaxpr says {}", p.name, what, ports[i].name,
                                 to_string(ports[i].aval), to_string(types[i])));
}

std::string port_line(const Port& port, std::size_t index) {
  return fmt::format("  {:>3} {:<15} {:<40} {}\n", index, name(port.role), port.name, to_string(port.aval));
}

void check_replaced(const Program& p, const std::vector<Alias>& list, std::vector<bool>& used) {
  for (std::size_t k = 0; k < list.size(); ++k) {
    const Alias& a = list[k];
    if (a.result >= p.results.size() || a.argument >= p.arguments.size() || used[a.argument] ||
        (k > 0 && list[k - 1].result >= a.result))
      throw CompilationError("program",
                             fmt::format("{}: alias {} is out of range or out of order", p.name, k));
    used[a.argument] = true;
    if (p.results[a.result].aval != p.arguments[a.argument].aval)
      throw CompilationError(
          "program",
          fmt::format("{}: {} cannot replace {}: their types are {} and {}", p.name, p.results[a.result].name,
                      p.arguments[a.argument].name, to_string(p.results[a.result].aval),
                      to_string(p.arguments[a.argument].aval)));
  }
}

}  // namespace

void check(const Program& p) {
  check(p.jaxpr);
  check_ports(p, "argument", p.arguments, p.jaxpr.in_avals());
  check_ports(p, "result", p.results, p.jaxpr.out_avals());
  std::vector<bool> used(p.arguments.size(), false);
  check_replaced(p, p.aliases, used);
  check_replaced(p, p.exchanges, used);
}

std::string to_string(const Program& p) {
  std::string out = p.name + "\narguments\n";
  for (std::size_t i = 0; i < p.arguments.size(); ++i) out += port_line(p.arguments[i], i);
  out += "results\n";
  for (std::size_t i = 0; i < p.results.size(); ++i) {
    out += port_line(p.results[i], i);
    for (const Alias& a : p.aliases)
      if (a.result == i) out.insert(out.size() - 1, fmt::format("  replaces argument {}", a.argument));
    for (const Alias& a : p.exchanges)
      if (a.result == i)
        out.insert(out.size() - 1, fmt::format("  changes places with argument {}", a.argument));
  }
  return out + to_string(p.jaxpr) + "\n";
}

}  // namespace etrace
