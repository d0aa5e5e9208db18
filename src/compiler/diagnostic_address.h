// Where docs/ says what a record means and what to do about it: every printed record has this address.
#pragma once

#include <string>

#include "etrace/diagnostics.h"

namespace etrace {

inline std::string diagnostic_address(DiagnosticKind kind) {
  return "docs/diagnostics.md#" + std::string(name(kind));
}

}  // namespace etrace
