#include "core/make_program.h"

#include <fmt/format.h>

namespace etrace {

void Results::add(std::string name, PortRole role, const Array& value) {
  ports.push_back({std::move(name), role, value.aval()});
  values.push_back(value);
}

void Results::add_all(const char* name, PortRole role, ArraySpan list) {
  for (std::size_t i = 0; i < list.size(); ++i) add(fmt::format("{}{}", name, i), role, list[i]);
}

void Results::replace(std::size_t first, ArraySpan list) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    aliases.push_back({values.size(), first + i});
    add(arguments[first + i].name, arguments[first + i].role, list[i]);
  }
}

Program make_program(std::string name, std::vector<Port> arguments,
                     const std::function<void(ArraySpan, Results&)>& f) {
  Program p;
  p.name = std::move(name);
  p.arguments = std::move(arguments);
  Avals types;
  for (const Port& port : p.arguments) types.push_back(port.aval);
  Results results{p.arguments};
  p.jaxpr = make_jaxpr(
      [&](ArraySpan in) {
        f(in, results);
        return results.values;
      },
      types);
  p.results = std::move(results.ports);
  p.aliases = std::move(results.aliases);
  return p;
}

std::vector<Port> joined_ports(std::initializer_list<std::span<const Port>> parts) {
  std::vector<Port> out;
  for (const std::span<const Port> part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

}  // namespace etrace
