// Pieces of emitted C that are the same for every program. Private to emit/ and export/.
#pragma once

#include <string>
#include <vector>

#include "emit/target.h"
#include "etrace/tensor.h"

#pragma GCC visibility push(default)
namespace etrace::emit {

// The headers of runtime/ that these functions need.
std::string headers(const std::string& functions, const Target&);
// Functions of the C library that the functions of stand-alone code call: those whose last bits are its own,
// or that a machine without it does not have.
std::vector<std::string> library_calls(const std::string& functions);
std::string constant_text(const std::string& name, const Tensor&);  // static const float name[] = {…};

}  // namespace etrace::emit
#pragma GCC visibility pop
