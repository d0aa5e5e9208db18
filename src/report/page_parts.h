// Pieces of the pages that explain and verify write: tables that a phone shows as cards, labels in colour.
// `inner` and `rows` are markup, all else is text and is escaped here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace etrace::page {

std::string tag(std::string_view css, std::string_view text);
std::string cell(std::string_view label, std::string_view inner, std::string_view css = "");
std::string row_header(std::string_view inner);
std::string table(std::string_view label, const std::vector<std::string_view>& columns,
                  std::string_view rows);

}  // namespace etrace::page
