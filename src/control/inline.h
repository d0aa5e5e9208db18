// Inlining by kind of call.
#pragma once

#include <cstdint>

#include "etrace/ir.h"

namespace etrace {

// All: also functions with derivatives of their own, which are plain functions once nobody differentiates.
enum class Calls : std::uint8_t { Jit, All };
bool has_calls(const Jaxpr&, Calls);  // at any depth
ClosedJaxpr inline_calls(const ClosedJaxpr&, Calls);

}  // namespace etrace
