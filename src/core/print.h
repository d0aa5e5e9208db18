// Parts of the printer that other files of this layer share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "etrace/ir.h"

namespace etrace {

// Words with a meaning in the text of programs: never used as names of Vars or as bare keys.
bool is_reserved_word(std::string_view);

// "text" with escapes for quotes, backslashes and control characters.
std::string quoted(std::string_view text);

// The equations around number `at`, with the names that to_string() gives their Vars, one per line, nested
// programs left out, the one in question marked with an arrow.
std::string excerpt(const Jaxpr&, std::size_t at, std::size_t margin = 3);

}  // namespace etrace
