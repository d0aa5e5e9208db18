// Words that the forms of a VerifyReport share. Private to verify/.
#pragma once

#include <string>

#include "etrace/verify.h"

#pragma GCC visibility push(default)
namespace etrace {

std::string scientific(double);                // "3.1e-02"; "-" for NaN
std::string share_text(double);                // "0.9955"
std::string window_text(std::int64_t window);  // "single steps", "windows of 5 steps"
// "7"; "> 32": more than was looked at; "-": there is no credit.
std::string horizon_text(const VerifyReport::Leaf&, const std::optional<std::int64_t>&);
std::string summary_text(const VerifyReport&);  // one sentence
// At most `width` characters; what is cut is cut in the middle. Names are ASCII in practice, and where they
// are not only the alignment suffers.
std::string shortened(const std::string& text, std::size_t width);
std::string wrapped_text(std::string_view text, std::size_t indent);  // lines of at most 100 columns

// The learning rules that compile a model in this scope: "diagonal", "coupled", "snap2" (of any order) …
std::vector<std::string> rules_in_scope(const std::string& scope);

}  // namespace etrace
#pragma GCC visibility pop
