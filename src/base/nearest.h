// Names that are looked up and may be mistyped: what was probably meant, and the sentence that says so.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace {

// The known name closest to what was given: a path whose end it is; or one with a few letters missing,
// surplus, wrong or swapped, another case, '-' for '_'; or else the first that begins or ends with it. Empty:
// none is close.
std::string nearest_name(std::string_view given, std::span<const std::string> known);

// " (did you mean copying?)"; empty if no name is close. To stand behind the name that was given.
std::string did_you_mean(std::string_view given, std::span<const std::string> known);

// "there is no task 'copyng' (did you mean copying?); expected one of copying, integrator"
std::string no_such_name(std::string_view kind, std::string_view given, std::span<const std::string> known);

// Of the rows of a table, or of the objects it points to, in its order.
template <class Rows>
std::vector<std::string> row_names(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows)
    if constexpr (requires { row->name(); })
      names.emplace_back(row->name());
    else
      names.emplace_back(row.name);
  return names;
}

}  // namespace etrace
#pragma GCC visibility pop
