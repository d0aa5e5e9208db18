#include "learn/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "etrace/error.h"

namespace etrace {

namespace {
Tensor copied(const Tensor& t) { return Tensor::copy_of(t.aval(), t.bytes()); }
}  // namespace

Session::~Session() {
  give_back(places_);
  give_back(slots_);
}

void Session::give_back(std::vector<Place>& places) {
  for (Place& p : places)
    if (p.source != nullptr && p.source->is_kept_by(*this)) p.source->bring_back(Array(std::move(p.value)));
}

void Session::add(PortRole role, std::string name, Tensor value) {
  places_.push_back({role, std::move(name), std::move(value)});
  ++generation_;
}

void Session::attach(PortRole role, std::string_view name, const std::shared_ptr<State>& owner,
                     std::size_t leaf) {
  Place& p = find(role, name);
  p.owner = owner;
  p.source = &owner->leaf(leaf);
  p.seen = 0;
}

void Session::use(const optim::Optimizer& optimizer, std::span<const ParamLeafId> leaves) {
  const auto& stored = optimizer.stored_state();
  if (optimizer_ == stored.get()) return;
  const std::vector<std::string> wanted = optimizer.state_names(leaves),
                                 known = optimizer.state_names(optimizer.leaves());
  std::vector<Place> next;
  for (const std::string& name : wanted) {
    const auto it = std::find(known.begin(), known.end(), name);
    if (it == known.end())
      throw ValueError("optimizer",
                       fmt::format("the optimiser is bound to another model: it holds no state {}", name));
    VersionedArray& source = (*stored)[static_cast<std::size_t>(it - known.begin())];
    next.push_back({PortRole::OptimizerSlot, "optimizer/" + name, {}, stored, &source, 0});
  }
  give_back(slots_);
  slots_ = std::move(next);
  optimizer_ = stored.get();
  ++generation_;
}

std::size_t Session::ticket_of(PortRole role, std::string_view name) const {
  std::size_t ticket = 0;
  for (const std::vector<Place>* list : {&places_, &slots_})
    for (const Place& p : *list) {
      if (p.role == role && p.name == name) return ticket;
      ++ticket;
    }
  return static_cast<std::size_t>(-1);
}

Session::Place& Session::find(PortRole role, std::string_view name) {
  const std::size_t ticket = ticket_of(role, name);
  ETRACE_CHECK(ticket != static_cast<std::size_t>(-1));
  return at(ticket);
}

const void* Session::read(Place& p) {
  if (p.source != nullptr && p.source->version() != p.seen) {
    p.value = p.source->get().tensor();
    p.seen = p.source->version();
  }
  return p.value.bytes();
}

void* Session::write(Place& p, std::size_t ticket) {
  read(p);
  if (p.source != nullptr) {
    p.source->kept_by(*this, ticket);
    p.seen = p.source->version();
  }
  if (!p.value.unique()) p.value = copied(p.value);
  return p.value.writable();
}

// A copy: the buffer goes on changing.
Array Session::hand_over(std::size_t ticket) { return Array(copied(at(ticket).value)); }

Tensor Session::value(PortRole role, std::string_view name) {
  Place& p = find(role, name);
  if (p.source != nullptr) return p.source->get().tensor();
  return p.value;
}

void Session::set(PortRole role, std::string_view name, const Tensor& value) {
  Place& p = find(role, name);
  if (p.source != nullptr)
    p.source->set(Array(value));
  else
    p.value = value;
}

std::int64_t Session::integer(PortRole role, std::string_view name) {
  Place& p = find(role, name);
  read(p);
  return to_int(p.value.at(0));
}

Tensor Session::taken(PortRole role, std::string_view name) {
  Place& p = find(role, name);
  ETRACE_CHECK(p.source == nullptr);
  return std::exchange(p.value, Tensor());
}

void Session::bring_back() {
  for (std::vector<Place>* list : {&places_, &slots_})
    for (const Place& p : *list)
      if (p.source != nullptr) p.source->get();
}

// Launches --------------------------------------------------------------------------------------------------
Launch::Launch(Session& session, Program program, std::shared_ptr<const Runnable> code)
    : session_(session),
      program_(std::move(program)),
      code_(std::move(code)),
      in_(program_.arguments.size()),
      out_(program_.results.size()) {
  for (std::size_t i = 0; i < program_.results.size(); ++i)
    if (program_.results[i].role == PortRole::Finite) finite_ = i;
  if (finite_) keep(*finite_);
  bind();
}

void Launch::bind() {
  generation_ = session_.generation_;
  bound_.clear();
  for (std::size_t i = 0; i < in_.size(); ++i) {
    const Port& port = program_.arguments[i];
    const std::size_t ticket = session_.ticket_of(port.role, port.name);
    if (ticket == static_cast<std::size_t>(-1)) continue;
    Bound b{i, ticket, {}};
    for (const Alias& a : program_.aliases)
      if (a.argument == i) b.result = a.result;
    bound_.push_back(b);
  }
}

std::size_t Launch::argument(PortRole role, std::string_view name) const {
  for (std::size_t i = 0; i < program_.arguments.size(); ++i)
    if (program_.arguments[i].role == role && program_.arguments[i].name == name) return i;
  internal_error("a program has the port that is asked for", __FILE__, __LINE__);
}

std::size_t Launch::result(PortRole role, std::string_view name) const {
  for (std::size_t i = 0; i < program_.results.size(); ++i)
    if (program_.results[i].role == role && program_.results[i].name == name) return i;
  internal_error("a program has the port that is asked for", __FILE__, __LINE__);
}

Tensor Launch::keep(std::size_t result) {
  for (const auto& [index, tensor] : kept_)
    if (index == result) return tensor;
  Tensor own = Tensor::zeros(program_.results[result].aval);
  out_[result] = own.writable();
  kept_.emplace_back(result, own);
  return own;
}

void Launch::point_to_places() {
  if (generation_ != session_.generation_) bind();
  for (const Bound& b : bound_) {
    Session::Place& p = session_.at(b.ticket);
    if (b.result)
      in_[b.argument] = out_[*b.result] = session_.write(p, b.ticket);
    else
      in_[b.argument] = session_.read(p);
  }
}

void Launch::prepare() {
  point_to_places();
  code_->prepare();
}

bool Launch::run() {
  point_to_places();
  code_->run(in_.data(), out_.data());
  return !finite_ || *static_cast<const bool*>(out_[*finite_]);
}

}  // namespace etrace
