// States with a unit: the state holds mantissas, and everything that enters or leaves passes through its
// unit.
//
//   struct Membrane : Module {
//     QuantityState v = with_unit(hidden("V", {4}), units::mV);
//     …  v.set(v.value() + 1_ms * drift);      // any scale of a voltage; UnitError for anything else
//
// So a state has one unit at entry and exit of a step by construction.
#pragma once

#include <string>

#include "etrace/module.h"
#include "etrace/units/quantity.h"

#pragma GCC visibility push(default)
namespace etrace {

// A handle to one array of a state, which its module owns: a bare array, a leaf of a dictionary, or an entry
// of a HiddenTreeState (whose entries may have different units). Copy it like a pointer.
class QuantityState {
 public:
  QuantityState(State& state, std::string leaf, const Unit& unit);  // ValueError if there is no such leaf

  State& state() const { return *state_; }
  const Unit& unit() const { return unit_; }
  Quantity value() const;
  void set(const Quantity& value) const;  // converted to the state's own scale
  // A gradient of a parameter, given as mantissas, in the parameter's own unit, so that `w - rate·gradient`
  // is a w. TypeError if the state is no parameter; ValueError if the shape is not the parameter's.
  Quantity gradient(const Array& mantissa) const;

 private:
  std::string describe() const;

  State* state_;
  std::string leaf_;  // empty: the state is a bare array
  Unit unit_;
};

inline QuantityState with_unit(State& state, const Unit& unit) { return {state, {}, unit}; }
inline QuantityState with_unit(State& state, std::string leaf, const Unit& unit) {
  return {state, std::move(leaf), unit};
}

}  // namespace etrace
#pragma GCC visibility pop
