// Modules: the tree of children and states, and the walk over it.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "etrace/error.h"
#include "etrace/module.h"

namespace etrace {

namespace {

std::string text_of(const PathPart& part) { return to_string(StatePath{part}); }

// "rnn1/W/weight": the place of a member of the module that is being made.
std::string place_of(const PathPart& name) {
  StatePath path;
  for (const std::string& part : OriginScope::current().module) path.emplace_back(part);
  path.push_back(name);
  return to_string(path);
}

std::string text_of(const Module::Member& member) {
  return member.module != nullptr ? "module" : std::string(member.state->type());
}

}  // namespace

// Module ----------------------------------------------------------------------------------------------------
Module::Module() : mode_(std::make_shared<ModeState>()) {}
Module::~Module() = default;

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

std::vector<std::string> Module::scope_of(const PathPart& child) const { return {text_of(child)}; }
void Module::rename(std::vector<std::string> scope) { scope_ = std::move(scope); }

void Module::adopt(PathPart name, std::shared_ptr<Module> module) {
  module->rename(scope_of(name));
  module->follow(mode_);
  add_member({std::move(name), std::move(module), nullptr});
}

void Module::add_state(std::string name, std::shared_ptr<State> state) {
  state->name_ = name;
  add_member({std::move(name), nullptr, std::move(state)});
}

void Module::add_member(Member member) {
  // Files name states "a/b".
  if (const auto* name = std::get_if<std::string>(&member.name);
      name != nullptr && (name->empty() || name->find('/') != std::string::npos))
    throw ValueError("module", "'" + *name + "' cannot name a member; expected a name without '/'",
                     OriginScope::current());
  const auto at = std::lower_bound(members_.begin(), members_.end(), member,
                                   [](const Member& a, const Member& b) { return a.name < b.name; });
  if (at != members_.end() && at->name == member.name)
    throw CompilationError("module", "the name " + place_of(at->name) + " (" + text_of(*at) + ") is taken; " +
                                         place_of(member.name) + " (" + text_of(member) +
                                         ") needs another one");
  members_.insert(at, std::move(member));
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

// A list is never called, so its elements add its name to theirs.
std::vector<std::string> ModuleList::scope_of(const PathPart& child) const {
  std::vector<std::string> scope = scope_;
  scope.push_back(text_of(child));
  return scope;
}

void ModuleList::rename(std::vector<std::string> scope) {
  scope_ = std::move(scope);
  for (const Member& m : members_) m.module->rename(scope_of(m.name));
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
