// A JSON value that knows its place in the file, so that every error names it. Private to io/.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "etrace/ir.h"
#include "io/json.h"

namespace etrace {

class Node {
 public:
  Node(const Json& value, std::string place) : value_(&value), place_(std::move(place)) {}

  const Json& json() const { return *value_; }
  const std::string& place() const { return place_; }
  [[noreturn]] void fail(const std::string& message) const;  // CompilationError with the place in front

  // Objects. A key that is not listed is an error: nothing in a file is skipped in silence.
  void allow(std::initializer_list<std::string_view> keys) const;
  Node at(const char* key) const;
  std::optional<Node> find(const char* key) const;  // also empty for null
  std::vector<std::pair<std::string, Node>> fields() const;

  std::vector<Node> items() const;
  bool is_object() const { return value_->is_object(); }
  bool is_null() const { return value_->is_null(); }

  std::string text() const;
  std::int64_t integer() const;
  std::int64_t count() const;  // an integer that is not negative
  bool boolean() const;
  double number() const;
  Dims dims() const;

 private:
  [[noreturn]] void mismatch(const char* expected) const;
  void require(bool ok, const char* expected) const {
    if (!ok) mismatch(expected);
  }
  Node child(const std::string& key, const Json& value) const {
    return {value, place_.empty() ? key : place_ + "." + key};
  }
  Node child(std::size_t i, const Json& value) const {
    return {value, place_ + "[" + std::to_string(i) + "]"};
  }

  const Json* value_;
  std::string place_;
};

// One C++ list per JSON list, and so on; `f` reads one element.
template <class F>
auto read_list(const Node& node, F f) {
  std::vector<decltype(f(node))> out;
  for (const Node& item : node.items()) out.push_back(f(item));
  return out;
}
template <class F>
auto read_named(const Node& node, F f) {
  std::vector<std::pair<std::string, decltype(f(node))>> out;
  for (const auto& [key, item] : node.fields()) out.emplace_back(key, f(item));
  return out;
}
template <class List, class F>
OrderedJson write_list(const List& list, F f) {
  OrderedJson out = OrderedJson::array();
  for (const auto& item : list) out.push_back(f(item));
  return out;
}
template <class List, class F>
OrderedJson write_named(const List& list, F f) {
  OrderedJson out = OrderedJson::object();
  for (const auto& [key, item] : list) out[key] = f(item);
  return out;
}

}  // namespace etrace
