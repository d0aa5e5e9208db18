#include "session/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/make_program.h"
#include "etrace/error.h"
#include "etrace/host.h"

namespace etrace {

namespace {
Tensor copied(const Tensor& t) { return Tensor::copy_of(t.aval(), t.bytes()); }
}  // namespace

std::uint64_t Session::fresh_version() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

Session::~Session() {
  give_back(places_);
  give_back(parts_);
}

void Session::give_back(std::vector<Place>& places) {
  for (Place& p : places)
    if (p.source != nullptr && p.source->is_kept_by(*this)) p.source->bring_back(Array(on_host(p)));
}

void Session::add(PortRole role, std::string name, Tensor value) {
  places_.push_back({role, std::move(name), std::move(value)});
  ++generation_;
}

void Session::attach(PortRole role, std::string_view name, std::shared_ptr<void> owner,
                     VersionedArray& source) {
  Place& p = find(role, name);
  p.owner = std::move(owner);
  p.source = &source;
  p.seen = 0;
}

void Session::use(const std::shared_ptr<void>& owner, std::span<const Part> parts) {
  if (uses(owner.get())) return;
  std::vector<Place> next;
  for (const Part& p : parts) next.push_back({p.role, p.name, {}, owner, p.source, 0});
  give_back(parts_);
  parts_ = std::move(next);
  guest_ = owner.get();
  ++generation_;
}

std::size_t Session::ticket_of(PortRole role, std::string_view name) const {
  std::size_t ticket = 0;
  for (const std::vector<Place>* list : {&places_, &parts_})
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

void Session::refresh(Place& p) {
  if (p.source == nullptr || p.source->version() == p.seen) return;
  if (p.value.defined() && p.source->aval() != p.value.aval())
    throw ValueError(
        "session", fmt::format("{} {} has become {}, but the programs were made for {}", etrace::name(p.role),
                               p.name, to_string(p.source->aval()), to_string(p.value.aval())));
  put(p, p.source->get().tensor());
  p.seen = p.source->version();
}

void Session::put(Place& p, Tensor value) {
  p.value = std::move(value);
  p.version = fresh_version();
  p.device_is_older = true;
  p.host_is_older = false;
}

void* Session::on_device(Place& p) {
  const std::size_t bytes = p.value.aval().bytes();
  if (p.device == nullptr) p.device = memory_->allocate(bytes);
  if (p.device_is_older) memory_->upload(p.device.get(), p.value.bytes(), bytes);
  p.device_is_older = false;
  return p.device.get();
}

// Who holds the older value keeps it.
const Tensor& Session::on_host(Place& p) {
  if (!p.host_is_older) return p.value;
  if (!p.value.unique()) p.value = Tensor::uninitialized(p.value.aval());
  memory_->download(p.value.writable(), p.device.get(), p.value.aval().bytes());
  p.host_is_older = false;
  return p.value;
}

void Session::seen(Place& p, const void* bytes) {
  if (!p.value.unique()) p.value = Tensor::uninitialized(p.value.aval());
  std::memcpy(p.value.writable(), bytes, p.value.aval().bytes());
  p.host_is_older = false;
}

const void* Session::read(Place& p) {
  refresh(p);
  return memory_ == nullptr ? p.value.bytes() : on_device(p);
}

void Session::claim(Place& p, std::size_t ticket) {
  refresh(p);
  if (p.source == nullptr) return;
  p.source->kept_by(*this, ticket);
  p.seen = p.source->version();
}

void* Session::write(Place& p, std::size_t ticket) {
  claim(p, ticket);
  p.version = fresh_version();
  if (memory_ != nullptr) {
    void* const there = on_device(p);
    p.host_is_older = true;
    return there;
  }
  if (!p.value.unique()) p.value = copied(p.value);
  return p.value.writable();
}

void* Session::successor(Place& p, std::size_t ticket) {
  claim(p, ticket);
  const Aval& type = p.value.aval();
  if (memory_ != nullptr) {
    if (p.device_spare == nullptr) p.device_spare = memory_->allocate(type.bytes());
    return p.device_spare.get();
  }
  if (!p.spare.defined() || !p.spare.unique() || p.spare.aval() != type)
    p.spare = Tensor::uninitialized(type);
  return p.spare.writable();
}

void Session::exchange(Place& p) {
  p.version = fresh_version();
  if (memory_ != nullptr) {
    std::swap(p.device, p.device_spare);
    p.host_is_older = true;
  } else {
    std::swap(p.value, p.spare);
  }
}

// A copy: the buffer goes on changing. What was downloaded does not.
Array Session::hand_over(std::size_t ticket) {
  Place& p = at(ticket);
  return Array(memory_ == nullptr ? copied(p.value) : on_host(p));
}

Tensor Session::value(PortRole role, std::string_view name) {
  Place& p = find(role, name);
  return p.source != nullptr ? p.source->get().tensor() : on_host(p);
}

void Session::set(PortRole role, std::string_view name, const Tensor& value) {
  Place& p = find(role, name);
  if (p.source != nullptr)
    p.source->set(Array(value));
  else
    put(p, value.own());
}

std::int64_t Session::integer(PortRole role, std::string_view name) {
  Place& p = find(role, name);
  refresh(p);
  return to_int(on_host(p).at(0));
}

Tensor Session::taken(PortRole role, std::string_view name) {
  Place& p = find(role, name);
  ETRACE_CHECK(p.source == nullptr);
  on_host(p);
  return std::exchange(p.value, Tensor());
}

void Session::clear(PortRole role, std::string_view name, const Aval& type) {
  Place& p = find(role, name);
  ETRACE_CHECK(p.source == nullptr);
  if (!p.value.defined() || !p.value.unique() || p.value.aval() != type)
    p.value = memory_ == nullptr ? Tensor::zeros(type) : Tensor::uninitialized(type);
  else if (memory_ == nullptr)
    std::memset(p.value.writable(), 0, type.bytes());
  p.version = fresh_version();
  if (memory_ == nullptr) return;
  if (p.device == nullptr) p.device = memory_->allocate(type.bytes());
  memory_->clear(p.device.get(), type.bytes());
  p.device_is_older = false;
  p.host_is_older = true;
}

void Session::bring_back() {
  for (std::vector<Place>* list : {&places_, &parts_})
    for (const Place& p : *list)
      if (p.source != nullptr) p.source->get();
}

// Launches --------------------------------------------------------------------------------------------------
Launch::Launch(Session& session, Program program, std::shared_ptr<const Runnable> code)
    : session_(session),
      program_(std::move(program)),
      code_(std::move(code)),
      in_(program_.arguments.size()),
      out_(program_.results.size()),
      versions_(program_.arguments.size()) {
  if (session.memory_ != nullptr) {
    outside_.resize(in_.size() + out_.size());
    host_in_.resize(in_.size());
    host_out_.resize(out_.size());
  }
  const auto answer = [&](const char* name) -> const bool* {
    for (std::size_t i = 0; i < program_.results.size(); ++i)
      if (is_answer(program_.results[i], name)) return reinterpret_cast<const bool*>(keep(i).bytes());
    return nullptr;
  };
  finite_ = answer(kFinitePort);
  updated_ = answer(kUpdatedPort);
  bind();
}

void Launch::bind() {
  generation_ = session_.generation_;
  bound_.clear();
  std::fill(versions_.begin(), versions_.end(), 0);
  for (std::size_t i = 0; i < in_.size(); ++i) {
    const Port& port = program_.arguments[i];
    const std::size_t ticket = session_.ticket_of(port.role, port.name);
    if (ticket == static_cast<std::size_t>(-1)) continue;
    Bound b{i, ticket, {}, {}};
    for (const Alias& a : program_.aliases)
      if (a.argument == i) b.result = a.result;
    for (const Alias& a : program_.exchanges)
      if (a.argument == i) b.successor = a.result;
    b.counts = session_.memory_ != nullptr && (b.result || b.successor) && port.aval.shape.rank() == 0 &&
               (port.aval.dtype == Dtype::I32 || port.aval.dtype == Dtype::I64);
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
  take(result, own.writable());
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
    if (b.successor) out_[*b.successor] = session_.successor(p, b.ticket);
    versions_[b.argument] = b.result ? 0 : p.version;  // what is replaced has its version afterwards
  }
}

// On a device what is given and taken has buffers of the launch's own there.
void Launch::point_outside() {
  const auto buffer = [&](std::size_t i, const Port& port) {
    if (outside_[i] == nullptr) outside_[i] = session_.memory_->allocate(port.aval.bytes());
    return outside_[i].get();
  };
  for (std::size_t i = 0; i < in_.size(); ++i)
    if (std::none_of(bound_.begin(), bound_.end(), [&](const Bound& b) { return b.argument == i; }))
      in_[i] = buffer(i, program_.arguments[i]);
  for (std::size_t i = 0; i < out_.size(); ++i)
    if (host_out_[i] != nullptr) out_[i] = buffer(in_.size() + i, program_.results[i]);
}

// What goes to the device before a run, and comes back behind it. Counters come along: who drives a learner
// asks for them at every step.
void Launch::list_copies() {
  given_.clear();
  taken_.clear();
  for (std::size_t i = 0; i < host_in_.size(); ++i)
    if (host_in_[i] != nullptr)
      given_.push_back({outside_[i].get(), host_in_[i], program_.arguments[i].aval.bytes()});
  for (std::size_t i = 0; i < host_out_.size(); ++i)
    if (host_out_[i] != nullptr) taken_.push_back({host_out_[i], out_[i], program_.results[i].aval.bytes()});
  for (Bound& b : bound_)
    if (b.counts)
      taken_.push_back(
          {&b.count, out_[b.result ? *b.result : *b.successor], program_.arguments[b.argument].aval.bytes()});
}

bool Launch::give_ahead(std::size_t argument, const void* data) {
  if (outside_.empty()) return false;
  const std::size_t bytes = program_.arguments[argument].aval.bytes();
  if (ahead_.empty()) ahead_.resize(in_.size());
  if (ahead_[argument] == nullptr) {
    try {
      ahead_[argument] = session_.memory_->allocate(bytes);
    } catch (const ValueError&) {  // no room to spare: the next run is given its data in its turn
      given_ahead_.clear();
      return false;
    }
  }
  session_.memory_->upload_ahead(ahead_[argument].get(), data, bytes);
  given_ahead_.push_back(argument);
  return true;
}

void Launch::take_ahead() {
  for (const std::size_t i : given_ahead_) {
    std::swap(outside_[i], ahead_[i]);
    host_in_[i] = nullptr;
  }
  given_ahead_.clear();
}

void Launch::prepare() {
  point_to_places();
  if (!outside_.empty()) point_outside();
  code_->prepare();
}

void Launch::start() {
  check_interrupt();
  point_to_places();
  is_done_ = false;
  if (outside_.empty()) return code_->run_at(versions_.data(), in_.data(), out_.data());
  point_outside();
  list_copies();
  is_done_ = code_->run_between(given_, in_.data(), out_.data(), taken_);
  if (is_done_) return;
  for (const DeviceMemory::Upload& g : given_) session_.memory_->upload(g.to, g.from_host, g.bytes);
  code_->run_at(versions_.data(), in_.data(), out_.data());
}

bool Launch::finish() {
  if (outside_.empty() || (!is_done_ && taken_.empty()))
    code_->wait();
  else if (!is_done_)
    session_.memory_->download_all(taken_);  // which waits for the run
  is_done_ = true;
  const bool finite = finite_ == nullptr || *finite_;
  for (const Bound& b : bound_) {
    Session::Place& p = session_.at(b.ticket);
    if (b.successor && finite) session_.exchange(p);
    if (b.counts && (finite || !b.successor)) session_.seen(p, &b.count);
  }
  return finite;
}

bool Launch::left_some() const {
  return updated_ != nullptr && !*updated_ && (finite_ == nullptr || *finite_);
}

}  // namespace etrace
