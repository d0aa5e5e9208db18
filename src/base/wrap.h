// Lines for terminals.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace etrace {

inline constexpr std::size_t kTextWidth = 100;  // columns

// Characters, not bytes: continuation bytes of UTF-8 take no column.
std::size_t columns(std::string_view);

// A line per thing, or a paragraph, of at most kTextWidth columns; further lines begin at column `indent`.
std::string wrapped(std::string_view first, std::size_t indent, std::string_view text);

}  // namespace etrace
#pragma GCC visibility pop
