// Lines of tables: fields between separators, of which some may stand in quotes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace::data {

using Fields = std::vector<std::string>;

// A tab or a semicolon where a line has them and no comma; else a comma.
char separator_of(std::string_view line);
// Whether a line has more fields than any table: each takes far more memory than its byte.
bool too_many_fields(std::string_view line, char separator);
// The fields of a line; in a field within quotes, "" is a quote. False: a quote is not closed.
bool split_fields(std::string_view line, char separator, Fields& out);
// Whether no field is a number: a line of names.
bool no_numbers(const Fields&);
// A column by its name, or by its number from 0; negative ones count from the end. ValueError says what the
// option may be.
std::size_t column_of(const std::string& path, const Fields& names, std::size_t columns,
                      const std::string& option, const std::string& text);

}  // namespace etrace::data
#pragma GCC visibility pop
