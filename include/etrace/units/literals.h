// Neuron units as literals: 5.0_mV, 10_ms, 1_nS. Integers are taken as real numbers.
#pragma once

#include "etrace/units/quantity.h"

#pragma GCC visibility push(default)
namespace etrace::units::literals {

#define ETRACE_UNIT_LITERAL(unit)                               \
  inline Quantity operator""_##unit(long double value) {        \
    return {static_cast<double>(value), ::etrace::units::unit}; \
  }                                                             \
  inline Quantity operator""_##unit(unsigned long long value) { \
    return {static_cast<double>(value), ::etrace::units::unit}; \
  }

ETRACE_UNIT_LITERAL(m)
ETRACE_UNIT_LITERAL(cm)
ETRACE_UNIT_LITERAL(mm)
ETRACE_UNIT_LITERAL(um)
ETRACE_UNIT_LITERAL(nm)
ETRACE_UNIT_LITERAL(s)
ETRACE_UNIT_LITERAL(ms)
ETRACE_UNIT_LITERAL(us)
ETRACE_UNIT_LITERAL(ns)
ETRACE_UNIT_LITERAL(minute)
ETRACE_UNIT_LITERAL(hour)
ETRACE_UNIT_LITERAL(Hz)
ETRACE_UNIT_LITERAL(kHz)
ETRACE_UNIT_LITERAL(A)
ETRACE_UNIT_LITERAL(mA)
ETRACE_UNIT_LITERAL(uA)
ETRACE_UNIT_LITERAL(nA)
ETRACE_UNIT_LITERAL(pA)
ETRACE_UNIT_LITERAL(V)
ETRACE_UNIT_LITERAL(mV)
ETRACE_UNIT_LITERAL(uV)
ETRACE_UNIT_LITERAL(S)
ETRACE_UNIT_LITERAL(mS)
ETRACE_UNIT_LITERAL(uS)
ETRACE_UNIT_LITERAL(nS)
ETRACE_UNIT_LITERAL(pS)
ETRACE_UNIT_LITERAL(ohm)
ETRACE_UNIT_LITERAL(kOhm)
ETRACE_UNIT_LITERAL(MOhm)
ETRACE_UNIT_LITERAL(GOhm)
ETRACE_UNIT_LITERAL(F)
ETRACE_UNIT_LITERAL(uF)
ETRACE_UNIT_LITERAL(nF)
ETRACE_UNIT_LITERAL(pF)
ETRACE_UNIT_LITERAL(C)
ETRACE_UNIT_LITERAL(nC)
ETRACE_UNIT_LITERAL(pC)
ETRACE_UNIT_LITERAL(M)
ETRACE_UNIT_LITERAL(mM)
ETRACE_UNIT_LITERAL(uM)
ETRACE_UNIT_LITERAL(nM)
ETRACE_UNIT_LITERAL(mol)
ETRACE_UNIT_LITERAL(kelvin)

#undef ETRACE_UNIT_LITERAL

}  // namespace etrace::units::literals
#pragma GCC visibility pop
