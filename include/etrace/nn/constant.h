// Constants of neurons and synapses: one number, one per neuron, or learned.
//   .tau = 5.0, .tau = 5_ms              a number, in the unit that the option names
//   .tau = array({3, 5, 8}) * units::ms  one per neuron
//   .tau = learned(5_ms)                 a parameter with one entry per neuron, at first 5 ms
#pragma once

#include "etrace/module.h"
#include "etrace/units/quantity.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct Learned {
  Quantity start;
};
inline Learned learned(const Quantity& start) { return {start}; }
inline Learned learned(double start) { return {Quantity(Array(start))}; }

class Constant {
 public:
  const Array& value() const { return value_; }  // a bare number, or values
  bool is_learned() const { return learned_; }
  std::optional<double> number() const;  // if it is one, and fixed

 protected:
  Constant(Array value, bool learned) : value_(std::move(value)), learned_(learned) {}

 private:
  Array value_;
  bool learned_;
};

// A constant that options give as a bare number or array in this unit, or with a unit of their own.
template <const Unit& kUnit>
class ConstantIn : public Constant {
 public:
  ConstantIn(double number) : Constant(Array(number), false) {}        // NOLINT: options read as values
  ConstantIn(int number) : ConstantIn(static_cast<double>(number)) {}  // NOLINT
  ConstantIn(const Array& each) : Constant(each, false) {}             // NOLINT
  ConstantIn(const Quantity& q) : Constant(mantissa(q), false) {}      // NOLINT: UnitError
  ConstantIn(const Learned& learned) : Constant(mantissa(learned.start), true) {}  // NOLINT

 private:
  static Array mantissa(const Quantity& q) { return q.unit() == Unit() ? q.mantissa() : q.to(kUnit); }
};
using Time = ConstantIn<units::ms>;
using Voltage = ConstantIn<units::mV>;
using Resistance = ConstantIn<units::ohm>;
using Current = ConstantIn<units::mA>;
using Conductance = ConstantIn<units::mS>;
using Number = ConstantIn<units::one>;

// The sizes of a population: 8, or {4, 4, 3} for an image of neurons.
class Size {
 public:
  Size(std::int64_t n) : shape_{n} {}          // NOLINT
  Size(int n) : shape_{n} {}                   // NOLINT
  Size(const Shape& shape) : shape_(shape) {}  // NOLINT
  Size(std::initializer_list<std::int64_t> sizes) : shape_(sizes) {}
  const Shape& shape() const { return shape_; }

 private:
  Shape shape_;
};

// A constant as a step uses it. Bare numbers stay numbers in double precision (Quantity computes with them),
// others have the layer's element type. Reading a learned one reads its parameter, through element_wise.
class StepConstant {
 public:
  StepConstant(Array fixed, const ParamState* learned) : fixed_(std::move(fixed)), learned_(learned) {}
  Quantity operator()() const;

 private:
  Array fixed_;
  const ParamState* learned_;
};

enum class StepCount : std::uint8_t { AtLeast, Nearest };

// A layer with constants and a time step: neurons and synapses.
class Dynamics : public Module {
 public:
  using Module::operator();
  Array operator()(const Quantity& x) { return Module::operator()(x.to(input_unit())); }  // UnitError
  virtual Unit input_unit() const { return {}; }  // spikes are numbers
  const Shape& size() const { return size_; }
  double dt() const { return dt_; }  // in ms

 protected:
  Dynamics(std::string who, const Size&, const Time& dt, Dtype);

  // Makes a constant of this layer; a learned one is the parameter of that name. ValueError if values do not
  // broadcast to the size.
  StepConstant constant(const char* name, const Constant&);
  StepConstant positive(const char* name, const Constant&);  // ValueError unless all of it is
  Array filled(const Constant&) const;                       // [size], for initial values
  // A duration as a number of steps, i32: the fewest that last as long, or the nearest, at least one.
  // ValueError if it is negative or learned (a number of steps has no derivative).
  Array steps_of(const char* name, const Constant&, StepCount) const;
  void require_input(const Array& x) const;        // [size] or [batch, size]
  const std::string& who() const { return who_; }  // "LIF"
  Dtype dtype() const { return dtype_; }
  Quantity decay(const StepConstant& tau) const;  // e^(−dt/τ)

 private:
  std::string who_;
  Shape size_;
  double dt_;
  Dtype dtype_;
};

// A layer that remembers x and is linear in it: what comes in and what goes out has one unit.
class LinearDynamics : public Dynamics {
 public:
  using Module::operator();
  Quantity operator()(const Quantity& x) { return {Module::operator()(x.to(unit_)), unit_}; }
  Unit input_unit() const override { return unit_; }

 protected:
  LinearDynamics(std::string who, const Size& n, const Time& dt, const Unit& unit, Dtype dtype)
      : Dynamics(std::move(who), n, dt, dtype), unit_(unit) {}

 private:
  Unit unit_;
};

// factor·x; a bare factor of one is left out of the program.
Array scaled(const Quantity& factor, const Array& x);

}  // namespace etrace::nn
#pragma GCC visibility pop
