// Recording programs with ports.
#pragma once

#include <functional>

#include "etrace/array.h"
#include "etrace/program.h"

namespace etrace {

// Answers of a program, of role Finite. The first: what it would carry on is finite; if not, it has carried
// on nothing. The second: no new value of a parameter or a slot of the optimiser was not finite; elements of
// which it was keep the old one.
inline constexpr const char *kFinitePort = "finite", *kUpdatedPort = "updated";
inline bool is_answer(const Port& p, std::string_view name) {
  return p.role == PortRole::Finite && p.name == name;
}

// Results with their ports, in the order they are added.
struct Results {
  const std::vector<Port>& arguments;
  Arrays values = {};
  std::vector<Port> ports = {};
  std::vector<Alias> aliases = {};

  void add(std::string name, PortRole role, const Array& value);
  void add_all(const char* name, PortRole role, ArraySpan list);  // name0, name1 …
  // New values for arguments from `first` on.
  void replace(std::size_t first, ArraySpan list);
};

Program make_program(std::string name, std::vector<Port> arguments,
                     const std::function<void(ArraySpan, Results&)>& f);

std::vector<Port> joined_ports(std::initializer_list<std::span<const Port>> parts);

}  // namespace etrace
