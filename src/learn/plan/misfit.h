#pragma once

#include <string>

#include "etrace/aval.h"

namespace etrace {

// "has type f32[5], expected f32[3]; …": how a value is unlike what a step was compiled for, and what to do.
inline std::string misfit(const Aval& given, const Aval& expected) {
  const std::string advice = given.dtype != expected.dtype
                                 ? "convert it to " + std::string(name(expected.dtype))
                                 : "for other shapes compile with an example of them";
  return "has type " + to_string(given) + ", expected " + to_string(expected) + "; " + advice;
}

}  // namespace etrace
