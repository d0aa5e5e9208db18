// States: places that hold a value from step to step.
#include <algorithm>
#include <array>

#include "etrace/error.h"
#include "etrace/module.h"
#include "etrace/ops/shape.h"
#include "etrace/random.h"
#include "etrace/transform.h"
#include "module/draw.h"
#include "module/state_reads.h"
#include "module/stateful_trace.h"

namespace etrace {

namespace {

struct KindRow {
  std::string_view name;
  StateKind parent;
};
constexpr std::array<KindRow, 10> kKinds{{
    {"State", StateKind::Any},
    {"LongTermState", StateKind::Any},
    {"ParamState", StateKind::LongTerm},
    {"RandomState", StateKind::LongTerm},
    {"ModeState", StateKind::LongTerm},
    {"ShortTermState", StateKind::Any},
    {"HiddenState", StateKind::ShortTerm},
    {"HiddenGroupState", StateKind::Hidden},
    {"HiddenTreeState", StateKind::HiddenGroup},
    {"KeyState", StateKind::ShortTerm},
}};
const KindRow& row(StateKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

std::string quoted_list(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "'" : ", '") + n + "'";
  return out;
}

void require_value(StateKind kind, const Array& value) {
  if (!value.defined())
    throw TypeError("state", "a " + std::string(name(kind)) + " was made without a value");
  // A state that ends with the step would leave nothing to write back to.
  if (StatefulTrace::active() != nullptr || value.is_tracer())
    throw NotSupportedError("state",
                            "a " + std::string(name(kind)) +
                                " was made inside a traced step; make states where their module is made",
                            OriginScope::current());
}

}  // namespace

std::string_view name(StateKind kind) { return row(kind).name; }

std::optional<StateKind> state_kind(std::string_view name) {
  for (std::size_t i = 0; i < kKinds.size(); ++i)
    if (kKinds[i].name == name) return static_cast<StateKind>(i);
  return std::nullopt;
}

bool is_a(StateKind kind, StateKind other) {
  while (kind != other && kind != StateKind::Any) kind = row(kind).parent;
  return kind == other;
}

// State -----------------------------------------------------------------------------------------------------
State::State(StateKind kind, const Array& value) : kind_(kind) {
  require_value(kind, value);
  leaves_.emplace_back(value);
}

State::State(StateKind kind, const Array& value, Unchecked) : kind_(kind) { leaves_.emplace_back(value); }

State::State(StateKind kind, NamedArrays leaves) : kind_(kind) {
  std::sort(leaves.begin(), leaves.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [key, value] : leaves) {
    require_value(kind, value);
    if (!keys_.empty() && keys_.back() == key)
      throw ValueError("state", "a " + std::string(name(kind)) + " has two leaves named '" + key + "'");
    keys_.push_back(std::move(key));
    leaves_.emplace_back(std::move(value));
  }
  if (keys_.empty()) throw ValueError("state", "a " + std::string(name(kind)) + " was made without leaves");
}

State::~State() = default;

std::string State::describe() const {
  return std::string(type()) + (name_.empty() ? "" : " '" + name_ + "'");
}

bool State::has_leaf(std::string_view key) const {
  return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
}

std::size_t State::position(std::string_view leaf) const {
  const auto it = std::find(keys_.begin(), keys_.end(), leaf);
  if (it == keys_.end())
    throw ValueError("state",
                     describe() + " has no leaf '" + std::string(leaf) + "'; it has " +
                         (keys_.empty() ? "one array without a name" : quoted_list(keys_)),
                     OriginScope::current());
  return static_cast<std::size_t>(it - keys_.begin());
}

std::size_t State::only_leaf() const {
  if (!keys_.empty())
    throw TypeError("state", describe() + " is a dictionary; name the leaf: " + quoted_list(keys_),
                    OriginScope::current());
  return 0;
}

void State::settle() const {
  if (draw_ == nullptr) return;
  const std::unique_ptr<Draw> draw = std::exchange(draw_, nullptr);
  if (!draw->again) return;
  const OriginScope here(Origin{draw->place, {}, 0}, OriginScope::Absolute);
  NamedArrays drawn = draw->values();
  std::sort(drawn.begin(), drawn.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  ETRACE_CHECK(drawn.size() == leaves_.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    if (drawn[i].second.aval() != leaves_[i].aval())
      throw ValueError("state",
                       "an initialiser gave " + to_string(drawn[i].second.aval()) + " for " + describe() +
                           ", and " + to_string(leaves_[i].aval()) + " before; it must keep to one type",
                       OriginScope::current());
  for (std::size_t i = 0; i < leaves_.size(); ++i) leaves_[i].exchange(std::move(drawn[i].second));
}

VersionedArray& State::leaf(std::size_t i) {
  settle();
  return leaves_[i];
}

const std::vector<VersionedArray>& State::touched() const {
  settle();
  StateReads::count();
  if (StatefulTrace* trace = StatefulTrace::active())
    trace->touch(*this);
  else if (StateReads* reads = StateReads::active())
    reads->touch(*this);
  return leaves_;
}

Array State::value() const { return touched()[only_leaf()].get(); }
Array State::value(std::string_view leaf) const { return touched()[position(leaf)].get(); }
Arrays State::leaves() const {
  Arrays out;
  for (const VersionedArray& leaf : touched()) out.push_back(leaf.get());
  return out;
}
Avals State::avals() const {
  Avals out;
  for (const VersionedArray& leaf : leaves_) out.push_back(leaf.aval());
  return out;
}

void State::set(const Array& value) { put(only_leaf(), value); }
void State::set(std::string_view leaf, const Array& value) { put(position(leaf), value); }

void State::set_leaves(ArraySpan values) {
  if (values.size() != leaves_.size())
    throw ValueError("state",
                     describe() + " has " + std::to_string(leaves_.size()) + " leaves but was given " +
                         std::to_string(values.size()) + " values",
                     OriginScope::current());
  for (std::size_t i = 0; i < values.size(); ++i) put(i, values[i]);
}

void State::put(std::size_t leaf, const Array& value) {
  settle();
  if (StatefulTrace* trace = StatefulTrace::active()) {
    trace->require_writable(*this);
    trace->touch(*this);
  } else if (const StateReads* reads = StateReads::active()) {
    reads->refuse_write(*this);
  } else if (value.is_tracer()) {
    throw NotSupportedError(
        "state",
        describe() +
            " was set to a traced value outside of trace_step, which is where a step with "
            "states can be traced",
        OriginScope::current());
  }
  Array next = fitted(value, leaves_[leaf].aval());
  if (StatefulTrace::active() != nullptr)
    leaves_[leaf].exchange(std::move(next));
  else
    leaves_[leaf].set(std::move(next));
}

Array State::fitted(const Array& value, const Aval& type) const {
  if (value.is_weak()) return full(type.shape, *value.splat(), type.dtype);
  const Aval& found = value.aval();
  const std::string what = describe() + " holds " + to_string(type) + " but was set to " + to_string(found);
  if (found.dtype != type.dtype)
    throw TypeError("state", what + "; give it the element type of the step, or convert()",
                    OriginScope::current());
  if (found.shape == type.shape) return value;
  const bool batched = is_a(kind_, StateKind::ShortTerm) && found.shape.rank() == type.shape.rank() + 1;
  throw ValueError(
      "state",
      what + (batched ? "; if the first axis is a batch, call init_all_states(model, batch) first"
                      : "; a state keeps its shape"),
      OriginScope::current());
}

void State::replace(Arrays leaves) {
  if (StatefulTrace::active() != nullptr)
    throw NotSupportedError("state",
                            describe() +
                                " was initialised inside a traced step; call init_all_states or "
                                "reset_all_states before the sequence",
                            OriginScope::current());
  for (std::size_t i = 0; i < leaves_.size(); ++i) leaves_[i].set(std::move(leaves[i]));
}

// LongTermState ---------------------------------------------------------------------------------------------
namespace {
bool is_key(const Aval& a) { return a == Aval{Dtype::U32, {2}}; }

Array checked_key(const Array& key) {
  if (key.defined() && !is_key(key.aval()))
    throw TypeError("state", "a RandomState holds a random key u32[2] but was given " +
                                 to_string(key.aval()) + "; make one with random::key(seed)");
  return key;
}
}  // namespace

RandomState::RandomState(std::uint64_t seed) : RandomState(random::key(seed)) {}
RandomState::RandomState(const Array& key) : LongTermState(StateKind::Random, checked_key(key)) {}

Array RandomState::next() {
  const Array keys = random::split(value());
  set(squeeze(slice_axis(keys, 0, 0, 1), {0}));
  return squeeze(slice_axis(keys, 0, 1, 2), {0});
}

void RandomState::seed(std::uint64_t seed) { set(random::key(seed)); }

ModeState::ModeState() : LongTermState(StateKind::Mode, full({}, true, Dtype::Bool), Unchecked{}) {}

// ShortTermState --------------------------------------------------------------------------------------------
ShortTermState::ShortTermState(StateKind kind, const Array& init, bool per_sample)
    : State(kind, init), init_(leaves()), per_sample_(per_sample) {}

ShortTermState::ShortTermState(NamedArrays init, bool per_sample)
    : State(StateKind::ShortTerm, std::move(init)), init_(leaves()), per_sample_(per_sample) {}

void ShortTermState::init(std::optional<std::int64_t> batch) {
  if (batch && *batch < 0)
    throw ValueError("state", "a batch of " + std::to_string(*batch) + " samples; expected 0 or more");
  Arrays values = init_;
  if (batch && per_sample_)
    for (Array& v : values)
      v = is_a(kind(), StateKind::Key) ? random::split(v, *batch)
                                       : broadcast_to(v, v.shape().with_front(*batch));
  replace(std::move(values));
  batch_ = batch;
  ++times_;
}

// KeyState --------------------------------------------------------------------------------------------------
namespace {
Array checked_keys(const Array& keys, bool per_sample) {
  if (!keys.defined()) return keys;
  const Aval& a = keys.aval();
  const bool fits = a.dtype == Dtype::U32 && a.shape.rank() > 0 && a.shape.back() == 2;
  if (!fits || (per_sample && a.shape.rank() != 1))
    throw TypeError("state", std::string("a KeyState holds a random key u32[2]") +
                                 (per_sample ? "" : ", or several, u32[…, 2],") + " but was given " +
                                 to_string(a) + "; make one with random::key(seed)");
  return keys;
}
}  // namespace

KeyState::KeyState(std::uint64_t seed, bool per_sample) : KeyState(random::key(seed), per_sample) {}
KeyState::KeyState(const Array& key, bool per_sample)
    : ShortTermState(StateKind::Key, checked_keys(key, per_sample), per_sample) {}

Array KeyState::next() {
  const Function one = [](ArraySpan key) {
    const Array two = random::split(key[0]);
    return Arrays{squeeze(slice_axis(two, 0, 0, 1), {0}), squeeze(slice_axis(two, 0, 1, 2), {0})};
  };
  const Array keys = value();
  const bool several = keys.rank() > 1;
  const Array flat = several ? reshape(keys, {keys.shape().size() / 2, 2}) : keys;
  const Arrays found = several ? vmap(one)(Arrays{flat}) : one(Arrays{flat});
  set(reshape(found[0], keys.shape().to_dims()));
  return reshape(found[1], keys.shape().to_dims());
}

void KeyState::seed(std::uint64_t seed) { start_from(random::key(seed)); }

void KeyState::start_from(const Array& key) {
  checked_key(key);
  const Shape& shape = init_[0].shape();
  init_[0] = shape.rank() == 1 ? key : reshape(random::split(key, shape.size() / 2), shape.to_dims());
  init(batch_);
}

// Stacked hidden states -------------------------------------------------------------------------------------
HiddenGroupState::HiddenGroupState(StateKind kind, const Array& init) : HiddenState(kind, init) {
  if (init.rank() < 2)
    throw ValueError("state",
                     "a HiddenGroupState needs at least two axes, the last for the states, but was given " +
                         to_string(init.aval()));
}

Shape HiddenGroupState::varshape() const {
  const Shape shape = avals()[0].shape;
  return shape.without(shape.rank() - 1);
}

void HiddenGroupState::require_index(std::int64_t index) const {
  if (index < 0 || index >= num_state())
    throw ValueError("state",
                     describe() + " has " + std::to_string(num_state()) + " states; there is no number " +
                         std::to_string(index),
                     OriginScope::current());
}

Array HiddenGroupState::get_value(std::int64_t index) const {
  require_index(index);
  return squeeze(slice_axis(value(), -1, index, index + 1), {-1});
}

// Written with data movement only, so that the compiler sees which state is which.
void HiddenGroupState::set_value(std::int64_t index, const Array& value) {
  require_index(index);
  Arrays values;
  for (std::int64_t i = 0; i < num_state(); ++i) values.push_back(i == index ? value : get_value(i));
  set_values(values);
}

void HiddenGroupState::set_values(ArraySpan values) {
  if (values.size() != static_cast<std::size_t>(num_state()))
    throw ValueError("state",
                     describe() + " has " + std::to_string(num_state()) + " states but was given " +
                         std::to_string(values.size()) + " values",
                     OriginScope::current());
  const Aval type{avals()[0].dtype, varshape()};
  Arrays parts;
  for (const Array& v : values) parts.push_back(fitted(v, type));
  set(stack(parts, -1));
}

namespace {
Array stack_named(const NamedArrays& init) {
  Arrays values;
  for (const auto& [key, value] : init) {
    require_value(StateKind::HiddenTree, value);
    if (value.aval() != init[0].second.aval())
      throw ValueError("state", "the states of a HiddenTreeState must have one type: '" + init[0].first +
                                    "' is " + to_string(init[0].second.aval()) + ", '" + key + "' is " +
                                    to_string(value.aval()));
    values.push_back(value);
  }
  if (values.empty()) throw ValueError("state", "a HiddenTreeState was made without states");
  if (values[0].rank() == 0)
    throw ValueError("state", "the states of a HiddenTreeState need at least one axis but are " +
                                  to_string(values[0].aval()));
  return stack(values, -1);
}
}  // namespace

HiddenTreeState::HiddenTreeState(const NamedArrays& init)
    : HiddenGroupState(StateKind::HiddenTree, stack_named(init)) {
  for (const auto& entry : init) {
    if (std::find(names_.begin(), names_.end(), entry.first) != names_.end())
      throw ValueError("state", "a HiddenTreeState has two states named '" + entry.first + "'");
    names_.push_back(entry.first);
  }
}

std::int64_t HiddenTreeState::index(std::string_view name) const {
  const auto it = std::find(names_.begin(), names_.end(), name);
  if (it == names_.end())
    throw ValueError("state",
                     describe() + " has no state '" + std::string(name) + "'; it has " + quoted_list(names_),
                     OriginScope::current());
  return it - names_.begin();
}

}  // namespace etrace
