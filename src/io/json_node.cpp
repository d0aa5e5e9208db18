// Access to JSON with errors that name the place.
#include "io/json_node.h"

#include <fmt/format.h>

#include <limits>

#include "base/nearest.h"

namespace etrace {

namespace {

std::string shown(const std::string& key) {
  constexpr std::size_t kLength = 60;
  return "'" + (key.size() > kLength ? key.substr(0, kLength) + "…" : key) + "'";
}

}  // namespace

void Node::fail(const std::string& message) const {
  throw CompilationError("model", (place_.empty() ? "" : place_ + ": ") + message);
}

void Node::mismatch(const char* expected) const {
  std::string found = json_text(*value_);
  constexpr std::size_t kLength = 40;
  if (value_->is_structured() || found.size() > kLength) found = std::string("a JSON ") + value_->type_name();
  fail("found " + found + ", expected " + expected);
}

void Node::allow(std::initializer_list<std::string_view> keys) const {
  require(value_->is_object(), "an object");
  for (const auto& item : value_->items())
    if (std::find(keys.begin(), keys.end(), item.key()) == keys.end()) {
      const std::vector<std::string> known(keys.begin(), keys.end());
      fail(fmt::format("unknown key {}{}; known are {}", shown(item.key()), did_you_mean(item.key(), known),
                       fmt::join(known, ", ")));
    }
}

Node Node::at(const char* key) const {
  require(value_->is_object(), "an object");
  const auto it = value_->find(key);
  if (it == value_->end()) fail(std::string("the key '") + key + "' is missing");
  return child(key, *it);
}

std::optional<Node> Node::find(const char* key) const {
  require(value_->is_object(), "an object");
  const auto it = value_->find(key);
  if (it == value_->end() || it->is_null()) return std::nullopt;
  return child(key, *it);
}

std::vector<std::pair<std::string, Node>> Node::fields() const {
  require(value_->is_object(), "an object");
  std::vector<std::pair<std::string, Node>> out;
  for (const auto& item : value_->items()) out.emplace_back(item.key(), child(item.key(), item.value()));
  return out;
}

std::vector<Node> Node::items() const {
  require(value_->is_array(), "a list");
  std::vector<Node> out;
  for (std::size_t i = 0; i < value_->size(); ++i) out.push_back(child(i, (*value_)[i]));
  return out;
}

std::string Node::text() const {
  require(value_->is_string(), "a text");
  return value_->get<std::string>();
}

std::int64_t Node::integer() const {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  require(value_->is_number_integer(), "an integer");
  if (value_->is_number_unsigned() && value_->get<std::uint64_t>() > kMax)
    fail("the integer does not fit into 64 bits");
  return value_->get<std::int64_t>();
}

std::int64_t Node::count() const {
  const std::int64_t n = integer();
  require(n >= 0, "an integer that is not negative");
  return n;
}

bool Node::boolean() const {
  require(value_->is_boolean(), "true or false");
  return value_->get<bool>();
}

double Node::number() const {
  require(value_->is_number(), "a number");
  return value_->get<double>();
}

Dims Node::dims() const {
  return read_list(*this, [](const Node& n) { return n.integer(); });
}

}  // namespace etrace
