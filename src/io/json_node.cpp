// Access to JSON with errors that name the place.
#include "io/json_node.h"

#include <fmt/format.h>

#include <limits>
#include <set>

#include "base/nearest.h"

namespace etrace {

namespace {

constexpr std::size_t kMaxDepth = 512;  // about a hundred programs inside each other

std::string shown(const std::string& key) {
  constexpr std::size_t kLength = 60;
  return "'" + (key.size() > kLength ? key.substr(0, kLength) + "…" : key) + "'";
}

// Watches the parser: the library itself takes the last of two equal keys and any depth.
class Guard {
 public:
  bool operator()(int, Json::parse_event_t event, Json& value) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        count_element();
        if (open_.size() == kMaxDepth)
          throw CompilationError(
              "model", place() + ": nested more than " + std::to_string(kMaxDepth) + " levels deep");
        open_.push_back({event == Json::parse_event_t::array_start, 0, {}, {}});
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        open_.pop_back();
        break;
      case Json::parse_event_t::key: {
        Level& level = open_.back();
        level.key = value.get_ref<const std::string&>();
        if (!level.keys.insert(level.key).second)
          throw CompilationError("model",
                                 place() + ": the key " + shown(level.key) + " is given twice in one object");
        break;
      }
      case Json::parse_event_t::value:
        count_element();
        break;
    }
    return true;
  }

 private:
  struct Level {
    bool array;
    std::size_t count;
    std::string key;
    std::set<std::string> keys;
  };

  void count_element() {
    if (!open_.empty() && open_.back().array) ++open_.back().count;
  }
  std::string place() const {
    std::string text;
    for (const Level& level : open_) {
      if (level.array)
        text += "[" + std::to_string(level.count == 0 ? 0 : level.count - 1) + "]";
      else
        text += (text.empty() ? "" : ".") + level.key;
    }
    return text;
  }

  std::vector<Level> open_;
};

}  // namespace

Json parse_json(std::string_view text) {
  Guard guard;
  try {
    return Json::parse(text, [&guard](int depth, Json::parse_event_t event, Json& value) {
      return guard(depth, event, value);
    });
  } catch (const Json::exception& e) {
    std::string message = e.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
    if (const std::size_t end = message.find("] "); end != std::string::npos)
      message = message.substr(end + 2);
    throw CompilationError("model", "not a valid JSON text: " + message);
  }
}

void Node::fail(const std::string& message) const {
  throw CompilationError("model", (place_.empty() ? "" : place_ + ": ") + message);
}

void Node::mismatch(const char* expected) const {
  std::string found = value_->dump(-1, ' ', false, Json::error_handler_t::replace);
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
