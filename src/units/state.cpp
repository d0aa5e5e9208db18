// States with a unit: mantissas inside, quantities outside.
#include "etrace/units/state.h"

#include <fmt/format.h>

#include <algorithm>

#include "units/describe.h"

namespace etrace {

namespace {

HiddenTreeState* as_tree(State& state) { return dynamic_cast<HiddenTreeState*>(&state); }

}  // namespace

QuantityState::QuantityState(State& state, std::string leaf, const Unit& unit)
    : state_(&state), leaf_(std::move(leaf)), unit_(unit) {
  const HiddenTreeState* tree = as_tree(state);
  const std::vector<std::string>& names = tree != nullptr ? tree->names() : state.leaf_keys();
  const bool found = leaf_.empty() ? names.empty() || tree != nullptr : std::ranges::count(names, leaf_) > 0;
  if (!found)
    throw ValueError(
        "state",
        fmt::format("{} has {}; give a unit to one of its arrays: {}", describe(),
                    leaf_.empty() ? "several leaves" : "no such leaf",
                    names.empty() ? "it has one, without a name" : fmt::format("{}", fmt::join(names, ", "))),
        OriginScope::current());
}

std::string QuantityState::describe() const {
  const std::string& name = state_->name_in_owner();
  return fmt::format("{}{}{}", state_->type(), name.empty() ? "" : " '" + name + "'",
                     leaf_.empty() ? "" : " leaf '" + leaf_ + "'");
}

Quantity QuantityState::value() const {
  if (leaf_.empty()) return {state_->value(), unit_};
  const HiddenTreeState* tree = as_tree(*state_);
  return {tree != nullptr ? tree->get_value(leaf_) : state_->value(leaf_), unit_};
}

void QuantityState::set(const Quantity& value) const {
  if (!value.unit().same_dimension(unit_))
    throw UnitError("state",
                    fmt::format("{} is {} but was set to a value that is {}; a state has the same dimension "
                                "at entry and exit of a step",
                                describe(), described(unit_), described(value.unit())),
                    OriginScope::current());
  const Array mantissa = value.to(unit_);
  HiddenTreeState* tree = as_tree(*state_);
  if (leaf_.empty())
    state_->set(mantissa);
  else if (tree != nullptr)
    tree->set_value(leaf_, mantissa);
  else
    state_->set(leaf_, mantissa);
}

Quantity QuantityState::gradient(const Array& mantissa) const {
  if (!is_a(state_->kind(), StateKind::Param))
    throw TypeError("state", describe() + " is no parameter; only parameters have gradients with a unit");
  const std::vector<std::string>& keys = state_->leaf_keys();
  const auto leaf = static_cast<std::size_t>(std::ranges::find(keys, leaf_) - keys.begin());
  const Aval own = state_->avals()[leaf_.empty() ? 0 : leaf];
  if (mantissa.shape() != own.shape)
    throw ValueError(
        "state", fmt::format("{} is {}, but its gradient was given as {}; pass the gradient of this array",
                             describe(), to_string(own), to_string(mantissa.aval())));
  return {mantissa, unit_};
}

}  // namespace etrace
