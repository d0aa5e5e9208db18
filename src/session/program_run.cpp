#include "session/program_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "etrace/error.h"

namespace etrace {

namespace {

const Port* find_port(const std::vector<Port>& ports, PortRole role, std::string_view name) {
  const auto it = std::find_if(ports.begin(), ports.end(),
                               [&](const Port& p) { return p.role == role && p.name == name; });
  return it == ports.end() ? nullptr : &*it;
}

const Port& port(const Program& p, const std::vector<Port>& ports, PortRole role, std::string_view wanted) {
  if (const Port* found = find_port(ports, role, wanted)) return *found;
  std::vector<std::string> known;
  for (const Port& each : ports) known.push_back(fmt::format("{} {}", name(each.role), each.name));
  throw ValueError("program", fmt::format("{} has no port {} {}; it has: {}", p.name, name(role), wanted,
                                          fmt::join(known, ", ")));
}

// The argument whose place a result takes; null: none.
const Port* replaced(const Program& p, std::size_t result) {
  for (const std::vector<Alias>* list : {&p.aliases, &p.exchanges})
    for (const Alias& a : *list)
      if (a.result == result) return &p.arguments[a.argument];
  return nullptr;
}

Launch on_own_places(Session& session, Program p, std::shared_ptr<const Runnable> code) {
  for (const Port& each : p.arguments) session.add(each.role, each.name, Tensor::zeros(each.aval));
  return Launch(session, std::move(p), std::move(code));
}

}  // namespace

ProgramRun::ProgramRun(Program p, std::shared_ptr<const Runnable> code, const DeviceMemory* memory)
    : session_(std::make_unique<Session>(memory)),
      launch_(on_own_places(*session_, std::move(p), std::move(code))) {
  const Program& own = program();
  for (std::size_t i = 0; i < own.results.size(); ++i)
    if (replaced(own, i) == nullptr) launch_.keep(i);
}

ProgramRun::ProgramRun(const Backend& backend, const Program& p)
    : ProgramRun(p, backend.compile(p), backend.memory()) {}

bool ProgramRun::takes(PortRole role, std::string_view name) const {
  return find_port(program().arguments, role, name) != nullptr;
}

void ProgramRun::set(PortRole role, std::string_view name, const Tensor& value) {
  const Port& to = port(program(), program().arguments, role, name);
  if (value.aval() != to.aval)
    throw ValueError("program",
                     fmt::format("{} {} of {} has type {}, but the value has {}", etrace::name(role), name,
                                 program().name, to_string(to.aval), to_string(value.aval())));
  session_->set(role, name, value);
}

Tensor ProgramRun::result(PortRole role, std::string_view name) {
  const Program& p = program();
  const auto i = static_cast<std::size_t>(&port(p, p.results, role, name) - p.results.data());
  if (const Port* place = replaced(p, i)) return session_->value(place->role, place->name);
  const Tensor kept = launch_.keep(i);
  return Tensor::copy_of(kept.aval(), kept.bytes());
}

}  // namespace etrace
