// Modules: the tree of children and states, and the walk over it.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "etrace/error.h"
#include "etrace/module.h"
#include "module/draw.h"
#include "module/stateful_trace.h"

namespace etrace {

namespace {

std::string text_of(const PathPart& part) { return to_string(StatePath{part}); }

// "rnn1/W/weight"
std::string joined(const std::vector<std::string>& place) {
  std::string out;
  for (const std::string& part : place) out += (out.empty() ? "" : "/") + part;
  return out;
}

auto position(auto& members, const PathPart& name) {
  return std::lower_bound(members.begin(), members.end(), name,
                          [](const Module::Member& a, const PathPart& b) { return a.name < b; });
}

std::string text_of(const Module::Member& member) {
  return member.module != nullptr ? "module" : std::string(member.state->type());
}

}  // namespace

// Module ----------------------------------------------------------------------------------------------------
Module::Module() : mode_(std::make_shared<ModeState>()), place_(OriginScope::current().module) {}

Module::~Module() {
  for (const Member& m : members_)  // who outlives us is free for another place
    if (is_home_of(m)) m.module->at_home_ = false;
}

void Module::train(bool on) { mode_->set(full({}, on, Dtype::Bool)); }

bool Module::is_training() const {
  const Array mode = mode_->value();
  if (mode.is_tracer())
    throw NotSupportedError("module",
                            "is_training() was asked inside a traced step, whose program shall serve both "
                            "modes; use where(training(), a, b)",
                            Origin{scope_, {}, 0});
  return std::get<bool>(mode.tensor().at(0));
}

void Module::follow(const std::shared_ptr<ModeState>& mode) {
  if (mode_ == mode) return;
  const std::shared_ptr<ModeState> before = std::exchange(mode_, mode);
  for (const Member& m : members_)  // a module that another tree made follows that one
    if (m.module != nullptr && m.module->mode_ == before) m.module->follow(mode);
}

Array Module::update(const Array&) {
  throw NotSupportedError("module",
                          "this module defines no step for one input; override update() or update_all()",
                          OriginScope::current());
}

Arrays Module::update_all(ArraySpan x) {
  if (x.size() != 1)
    throw ValueError("module",
                     "update() takes one input but " + std::to_string(x.size()) +
                         " were given; override update_all() for several",
                     OriginScope::current());
  return {update(x[0])};
}

Arrays Module::operator()(ArraySpan x) {
  const OriginScope here(Origin{scope_, {}, 0});
  return update_all(x);
}

Array Module::operator()(const Array& x) {
  Arrays results = (*this)(ArraySpan(&x, 1));
  if (results.size() != 1)
    throw ValueError("module",
                     "this module returns " + std::to_string(results.size()) +
                         " results; call it with a list of inputs to get a list of results",
                     Origin{scope_, {}, 0});
  return std::move(results[0]);
}

namespace {
template <class T>
std::shared_ptr<T> owner_of(T& object) {
  std::shared_ptr<T> owner = object.weak_from_this().lock();
  if (owner == nullptr)
    throw ValueError(
        "module", "only what a module has made (child(), add(), param() …) can be shared; this has no owner",
        OriginScope::current());
  return owner;
}
}  // namespace

void Module::share_object(std::string name, Module& module) {
  add_member({std::move(name), owner_of(module), nullptr});
}
void Module::share_object(std::string name, State& state) {
  add_member({std::move(name), nullptr, owner_of(state)});
}

void Module::add_state(std::string name, std::shared_ptr<State> state) {
  take_in({std::move(name), nullptr, std::move(state)});
}

void Module::add_member(Member member) {
  require_member(member);
  // Files name states "a/b".
  if (const auto* name = std::get_if<std::string>(&member.name);
      name != nullptr && (name->empty() || name->find('/') != std::string::npos))
    throw ValueError("module", "'" + *name + "' cannot name a member; expected a name without '/'",
                     Origin{place_, {}, 0});
  const auto at = position(members_, member.name);
  if (at != members_.end() && at->name == member.name)
    throw CompilationError("module", "the name " + joined(place_of(at->name)) + " (" + text_of(*at) +
                                         ") is taken; " + joined(place_of(member.name)) + " (" +
                                         text_of(member) + ") needs another one");
  members_.insert(at, std::move(member));
}

// Places ----------------------------------------------------------------------------------------------------
std::vector<std::string> Module::place_of(const PathPart& member) const {
  std::vector<std::string> place = place_;
  place.push_back(text_of(member));
  return place;
}

// Who is never called leaves it to its elements to say its name.
std::vector<std::string> Module::scope_of(const PathPart& child) const {
  std::vector<std::string> scope;
  if (is_container()) scope = scope_;
  scope.push_back(text_of(child));
  return scope;
}

void Module::rename(std::vector<std::string> scope) {
  scope_ = std::move(scope);
  if (!is_container()) return;
  for (const Member& m : members_)
    if (is_home_of(m)) m.module->rename(scope_of(m.name));
}

bool Module::is_home_of(const Member& m) const {
  return m.module != nullptr && m.module->at_home_ && m.module->place_ == place_of(m.name);
}

void Module::take_in(Member member) {
  const PathPart name = member.name;
  const std::shared_ptr<Module> module = member.module;
  const std::shared_ptr<State> state = member.state;
  add_member(std::move(member));
  if (state != nullptr) {
    state->name_ = text_of(name);
    return;
  }
  module->move_to(place_of(name));
  module->at_home_ = true;
  module->rename(scope_of(name));
  module->follow(mode_);
}

void Module::let_go(const Member& m) {
  if (m.state != nullptr && m.state->name_ == text_of(m.name)) m.state->name_.clear();
  if (!is_home_of(m)) return;
  m.module->at_home_ = false;
  m.module->rename({});
  if (m.module->mode_ != mode_) return;
  const auto own = std::make_shared<ModeState>();
  own->set(mode_->value());
  m.module->follow(own);
}

void Module::move_to(std::vector<std::string> place) {
  if (place == place_) return;
  std::vector<const Member*> own;
  for (const Member& m : members_)
    if (is_home_of(m)) own.push_back(&m);
  const std::vector<std::string> before = std::exchange(place_, std::move(place));
  for (const Member* m : own) m->module->move_to(place_of(m->name));
  for (const Member& m : members_)
    if (m.state != nullptr && m.state->draw_ != nullptr && m.state->draw_->place == before) {
      m.state->draw_->place = place_;
      m.state->draw_->again = true;
    }
}

void Module::remember(State& state, std::function<NamedArrays()> draw) {
  state.draw_ = std::make_unique<State::Draw>(State::Draw{std::move(draw), place_, false});
}

// From outside ----------------------------------------------------------------------------------------------
namespace {
bool holds(const Module& module, const Module& wanted) {
  if (&module == &wanted) return true;
  return std::any_of(module.members().begin(), module.members().end(), [&](const Module::Member& m) {
    return m.module != nullptr && holds(*m.module, wanted);
  });
}
}  // namespace

void Module::require_attachable(const Member& m) const {
  if (m.module == nullptr && m.state == nullptr)
    throw ValueError("module", "nothing was given to be attached as " + joined(place_of(m.name)));
  if (m.module != nullptr && holds(*m.module, *this))
    throw ValueError("module",
                     "a module cannot be attached as " + joined(place_of(m.name)) + ": it would hold itself");
}

void Module::attach(Member m) {
  require_attachable(m);
  const bool at_home = m.module != nullptr ? m.module->at_home_ : !m.state->name_.empty();
  if (at_home)
    add_member(std::move(m));
  else
    take_in(std::move(m));
}

std::size_t Module::position_of_attached(const PathPart& name) const {
  const auto it =
      std::find_if(members_.begin(), members_.end(), [&](const Member& m) { return m.name == name; });
  if (it == members_.end()) {
    std::string known;
    for (const Member& m : members_) known += (known.empty() ? "" : ", ") + text_of(m.name);
    throw ValueError("module", "there is no member " + joined(place_of(name)) +
                                   " to take away; there are: " + (known.empty() ? "none" : known));
  }
  if (!it->attached)
    throw NotSupportedError("module", joined(place_of(name)) +
                                          " is a part of its module, which goes on using it; only what was "
                                          "attached can be taken away. Set its values instead");
  if (StatefulTrace::active() != nullptr)
    throw ValueError("module", joined(place_of(name)) +
                                   " cannot be replaced or taken away while a step is recorded, which refers "
                                   "to it; do that outside of update");
  return static_cast<std::size_t>(it - members_.begin());
}

void Module::detach(const PathPart& name) {
  const auto at = members_.begin() + static_cast<std::ptrdiff_t>(position_of_attached(name));
  if (is_container() && std::holds_alternative<std::int64_t>(name) && at + 1 != members_.end())
    throw ValueError("module", "element " + text_of(name) + " of a list of " +
                                   std::to_string(members_.size()) +
                                   " modules; only the last can be taken away");
  const Member gone = *at;
  members_.erase(at);
  let_go(gone);
}

// Nothing is taken away before what takes its place is known to fit.
void Module::replace(Member m) {
  const auto same = [&](const Member& other) { return other.name == m.name; };
  if (std::none_of(members_.begin(), members_.end(), same)) return attach(std::move(m));
  Member& place = members_[position_of_attached(m.name)];
  require_attachable(m);
  if (place.module == m.module && place.state == m.state) return;
  Member before = std::exchange(place, m);
  try {
    require_member(place);
  } catch (...) {
    place = std::move(before);
    throw;
  }
  let_go(before);
  if (m.module != nullptr ? m.module->at_home_ : !m.state->name_.empty()) return;
  members_.erase(members_.begin() + (&place - members_.data()));
  take_in(std::move(m));
}

void Module::attach(PathPart name, std::shared_ptr<Module> module) {
  attach(Member{std::move(name), std::move(module), nullptr, true});
}
void Module::attach(PathPart name, std::shared_ptr<State> state) {
  attach(Member{std::move(name), nullptr, std::move(state), true});
}
void Module::replace(PathPart name, std::shared_ptr<Module> module) {
  replace(Member{std::move(name), std::move(module), nullptr, true});
}
void Module::replace(PathPart name, std::shared_ptr<State> state) {
  replace(Member{std::move(name), nullptr, std::move(state), true});
}

ParamState& Module::param(std::string name, const Array& value) {
  return state<ParamState>(std::move(name), value);
}
ParamState& Module::param(std::string name, NamedArrays leaves) {
  return state<ParamState>(std::move(name), std::move(leaves));
}
HiddenState& Module::hidden(std::string name, const Shape& shape, Dtype dtype) {
  return state<HiddenState>(std::move(name), full(shape, 0.0, dtype));
}
HiddenGroupState& Module::hidden_group(std::string name, const Shape& shape, Dtype dtype) {
  return state<HiddenGroupState>(std::move(name), full(shape, 0.0, dtype));
}
HiddenTreeState& Module::hidden_tree(std::string name, const NamedArrays& init) {
  return state<HiddenTreeState>(std::move(name), init);
}
RandomState& Module::random_key(std::string name, std::uint64_t seed) {
  return state<RandomState>(std::move(name), seed);
}
ShortTermState& Module::short_term(std::string name, const Array& init, bool per_sample) {
  return state<ShortTermState>(std::move(name), init, per_sample);
}
LongTermState& Module::long_term(std::string name, const Array& value) {
  return state<LongTermState>(std::move(name), value);
}

// Lists -----------------------------------------------------------------------------------------------------
Module& ModuleList::operator[](std::size_t i) const {
  if (i >= size())
    throw ValueError("module",
                     "element " + std::to_string(i) + " of a list of " + std::to_string(size()) + " modules",
                     OriginScope::current());
  return *members()[i].module;
}

void ModuleList::require_member(const Member& m) const {
  const auto* index = std::get_if<std::int64_t>(&m.name);
  const auto count = static_cast<std::int64_t>(size());
  if (m.module != nullptr && index != nullptr && *index >= 0 && *index <= count) return;
  throw ValueError("module", "a list of " + std::to_string(count) + " modules was given a " + text_of(m) +
                                 " as " + text_of(m.name) + "; expected a module at 0 to " +
                                 std::to_string(count));
}

void ModuleDict::require_member(const Member& m) const {
  if (m.module != nullptr && std::holds_alternative<std::string>(m.name)) return;
  throw ValueError("module", "a dictionary of modules was given a " + text_of(m) + " as " + text_of(m.name) +
                                 "; expected a module under a name");
}

Sequential::Sequential() : layers(child<ModuleList>("layers")) {}

Array Sequential::update(const Array& x) {
  Array y = x;
  for (std::size_t i = 0; i < layers.size(); ++i) y = layers[i](y);
  return y;
}

// Walks -----------------------------------------------------------------------------------------------------
namespace {
struct Walk {
  StateKind kind;
  std::vector<StateEntry> found;
  std::unordered_set<const void*> seen;
  StatePath path;

  void visit(const Module& module) {
    if (!seen.insert(&module).second) return;
    for (const Module::Member& m : module.members()) {
      path.push_back(m.name);
      if (m.module != nullptr)
        visit(*m.module);
      else if (seen.insert(m.state.get()).second && is_a(m.state->kind(), kind))
        found.push_back({path, m.state.get()});
      path.pop_back();
    }
  }
};

template <class F>
void for_each_short_term(Module& module, F f) {
  for (const StateEntry& entry : states(module, StateKind::ShortTerm))
    f(dynamic_cast<ShortTermState&>(*entry.state));
}
}  // namespace

std::vector<StateEntry> states(const Module& module, StateKind kind) {
  Walk walk{kind, {}, {}, {}};
  walk.visit(module);
  return std::move(walk.found);
}

State* find_state(const Module& module, const StatePath& path) {
  for (const StateEntry& entry : states(module))
    if (entry.path == path) return entry.state;
  return nullptr;
}

void init_all_states(Module& module, std::optional<std::int64_t> batch) {
  for_each_short_term(module, [&](ShortTermState& s) { s.init(batch); });
}

void reset_all_states(Module& module) {
  for_each_short_term(module, [](ShortTermState& s) { s.reset(); });
}

}  // namespace etrace
