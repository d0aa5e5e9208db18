#include "io/json.h"

#include <limits>

#include "base/utf8.h"
#include "etrace/error.h"

namespace etrace {

namespace {

constexpr std::size_t kMaxDepth = 512;  // about a hundred programs inside each other

// Builds the value while it is read, in time that grows with the text. The library's own parser takes the
// last of two equal keys and any depth, and with a callback it looks at all siblings at the end of each.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Json root;

  bool null() override { return put(nullptr) != nullptr; }
  bool boolean(bool value) override { return put(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return put(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return put(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override { return put(value) != nullptr; }
  bool string(string_t& value) override { return put(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    Level& level = open_.back();
    level.key = value;
    const auto [at, is_new] = level.value->get_ref<Json::object_t&>().emplace(value, nullptr);
    level.slot = &at->second;
    if (!is_new)
      throw CompilationError(
          "model", place() + ": the key '" + shown_text(value, 60) + "' is given twice in one object");
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    std::string message = e.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
    if (const std::size_t end = message.find("] "); end != std::string::npos)
      message = message.substr(end + 2);
    throw CompilationError("model", "not a valid JSON text: " + message);
  }

 private:
  struct Level {
    Json* value;
    Json* slot;  // of the key that was read
    std::string key;
  };

  Json* put(Json value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    Level& level = open_.back();
    if (level.value->is_object()) {
      *level.slot = std::move(value);
      return level.slot;
    }
    level.value->push_back(std::move(value));
    return &level.value->back();
  }
  bool open(Json value) {
    Json* at = put(std::move(value));
    if (open_.size() == kMaxDepth)
      throw CompilationError("model",
                             place() + ": nested more than " + std::to_string(kMaxDepth) + " levels deep");
    open_.push_back({at, nullptr, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  std::string place() const {
    std::string text;
    for (const Level& level : open_) {
      if (level.value->is_array())
        text += "[" + std::to_string(level.value->empty() ? 0 : level.value->size() - 1) + "]";
      else
        text += (text.empty() ? "" : ".") + level.key;
    }
    return text;
  }

  std::vector<Level> open_;
};

template <class J>
std::string text_of(const J& json, int indent) {
  return json.dump(indent, ' ', false, J::error_handler_t::replace);
}

}  // namespace

Json parse_json(std::string_view text) {
  Builder builder;
  Json::sax_parse(text, &builder);
  return std::move(builder.root);
}

std::optional<Json> json_of(std::string_view text) {
  try {
    return parse_json(text);
  } catch (const CompilationError&) {
    return std::nullopt;
  }
}

std::string json_text(const Json& json, int indent) { return text_of(json, indent); }
std::string json_text(const OrderedJson& json, int indent) { return text_of(json, indent); }

std::string exact_json_text(const OrderedJson& json, const char* stage, const char* what) {
  try {
    return json.dump();
  } catch (const OrderedJson::exception&) {
    throw ValueError(stage,
                     std::string("a name or text of ") + what + " is not valid UTF-8; JSON cannot hold it");
  }
}

const Json* json_member(const Json& value, std::string_view way) {
  const Json* at = &value;
  while (!way.empty()) {
    way.remove_prefix(1);  // the slash
    const std::string_view key = way.substr(0, way.find('/'));
    way.remove_prefix(key.size());
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at;
}

namespace detail {

bool take(const Json& value, std::string& out) {
  if (const auto* text = value.get_ptr<const Json::string_t*>()) out = *text;
  return value.is_string();
}
bool take(const Json& value, double& out) {
  if (value.is_number()) out = value.get<double>();
  return value.is_number();
}
bool take(const Json& value, std::int64_t& out) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return false;
  out = value.get<std::int64_t>();
  return true;
}
bool take(const Json& value, std::int32_t& out) {
  std::int64_t wide = 0;
  const bool fits = take(value, wide) && wide >= std::numeric_limits<std::int32_t>::min() &&
                    wide <= std::numeric_limits<std::int32_t>::max();
  out = fits ? static_cast<std::int32_t>(wide) : 0;
  return fits;
}
bool take(const Json& value, bool& out) {
  if (value.is_boolean()) out = value.get<bool>();
  return value.is_boolean();
}

}  // namespace detail

}  // namespace etrace
