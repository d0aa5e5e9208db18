// Texts from outside: names, labels, paths. What is kept in files of ours is UTF-8; this is the one place
// that says what is, and what becomes of other bytes.
#pragma once

#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace etrace {

// Without overlong forms, surrogates and what lies beyond U+10FFFF.
bool is_utf8(std::string_view);

// For people: bytes that are no UTF-8 as \xe4, control characters as \x0a; at most so many bytes, then "…".
std::string shown_text(std::string_view, std::size_t most = 80);

// A name that is kept: ValueError "WHERE: the NAME … is no UTF-8 text" unless it is UTF-8 in one line.
// `stage` is that of the error, `where` stands in front ("'f.csv', line 3"), `what` is what it names
// ("label").
void require_name(const char* stage, std::string_view where, std::string_view what, std::string_view name);

}  // namespace etrace
#pragma GCC visibility pop
