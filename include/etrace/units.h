// Physical units, checked while a model is written and traced, gone from the program that runs.
//
//   using namespace etrace::units::literals;
//   Quantity i = 2_nS * (-65_mV - v);           // pA: nS·mV
//   v.set(v.value() + i * 1_ms / 200_pF);       // mV again, or a UnitError that names both units
//
// Start with Unit, then Quantity. A program records operations on mantissas only; a conversion of scale is
// one multiplication by a literal, and there is none where scales agree.
#pragma once

#include "etrace/units/literals.h"
#include "etrace/units/operators.h"
#include "etrace/units/quantity.h"
#include "etrace/units/state.h"
#include "etrace/units/unit.h"
