// JSON, the one way in and out: what is read has no key twice and no depth without end, what is written is
// UTF-8 whatever the texts in it are, and a member of another type than the one that is asked for is none. So
// no exception of the library behind it gets out.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace {

using Json = nlohmann::json;                 // read: keys sorted
using OrderedJson = nlohmann::ordered_json;  // written: keys in the order of the format's description

// CompilationError: bad syntax, a key twice in one object, nested too deep.
Json parse_json(std::string_view text);
// None in these cases.
std::optional<Json> json_of(std::string_view text);

// Bytes that are no UTF-8, as paths may have them, become U+FFFD. indent < 0: one line.
std::string json_text(const Json&, int indent = -1);
std::string json_text(const OrderedJson&, int indent = -1);

// The same for a file that must read as it was: ValueError where a text is no UTF-8.
std::string exact_json_text(const OrderedJson&, const char* stage, const char* what);

// A member by its way, "/final/accuracy"; "" is the value itself. Null: there is none.
const Json* json_member(const Json&, std::string_view way);

namespace detail {
bool take(const Json&, std::string&);
bool take(const Json&, double&);
bool take(const Json&, std::int64_t&);
bool take(const Json&, std::int32_t&);
bool take(const Json&, bool&);
template <class T>
bool take(const Json& value, std::vector<T>& out) {
  if (!value.is_array()) return false;
  for (const Json& item : value)
    if (T one{}; take(item, one))
      out.push_back(std::move(one));
    else
      return false;
  return true;
}
}  // namespace detail

// What it says there, if it is of that type.
template <class T>
std::optional<T> said(const Json& value, std::string_view way) {
  const Json* member = json_member(value, way);
  T out{};
  if (member == nullptr || !detail::take(*member, out)) return std::nullopt;
  return out;
}
inline std::string said_text(const Json& value, std::string_view way) {
  return said<std::string>(value, way).value_or("");
}

}  // namespace etrace
#pragma GCC visibility pop
