// How errors name the unit of a value.
#pragma once

#include <string>

#include "etrace/units/unit.h"

namespace etrace {

// Completes "the value is …": "in mV", "a plain number".
std::string described(const Unit&);

}  // namespace etrace
