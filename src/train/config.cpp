#include "train/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

#include "base/file.h"
#include "base/utf8.h"
#include "data/reader.h"
#include "data/text_file.h"
#include "etrace/error.h"
#include "train/arrays.h"
#include "train/run_folder.h"
#include "train/run_model.h"

// What the library holds to be impossible ends the process there, or is undefined in release; some texts
// reach it. Here it is an error like any other.
namespace etrace::train {
struct TomlFault {};
[[noreturn]] inline void toml_fault() { throw TomlFault(); }
}  // namespace etrace::train
#ifdef NDEBUG
#undef NDEBUG
#define ETRACE_NDEBUG
#endif
#define TOML_ASSERT(expr) (static_cast<bool>(expr) ? static_cast<void>(0) : etrace::train::toml_fault())
#include <toml++/toml.h>
#ifdef ETRACE_NDEBUG
#define NDEBUG
#undef ETRACE_NDEBUG
#endif

namespace etrace::train {

namespace {

// Tables stand for options that may be repeated: [set] lag = 4 is --set lag=4.
constexpr std::string_view kTables[] = {"set", "rule-option"};
bool is_table(std::string_view key) {
  return std::find(std::begin(kTables), std::end(kTables), key) != std::end(kTables);
}

// Files that are written are named by who starts a run, not by a file that may come from elsewhere.
constexpr std::string_view kWritten[] = {"checkpoint", "json", "save"};
bool is_written(std::string_view key) {
  return std::find(std::begin(kWritten), std::end(kWritten), key) != std::end(kWritten);
}

[[noreturn]] void refuse(const std::string& path, const toml::source_region& at, const std::string& what) {
  throw ValueError("config", fmt::format("'{}', line {}: {}", path, at.begin.line, what));
}

std::string value_text(const std::string& path, std::string_view key, const toml::node& value) {
  if (const auto* text = value.as_string()) return text->get();
  if (const auto* whole = value.as_integer()) return fmt::to_string(whole->get());
  if (const auto* number = value.as_floating_point()) return fmt::to_string(number->get());
  if (const auto* truth = value.as_boolean()) return truth->get() ? "true" : "false";
  refuse(path, value.source(), fmt::format("{} is neither a text, a number nor true or false", key));
}

// A value as TOML: numbers and truth values as they stand, texts in quotes.
std::string toml_value(const std::string& text) {
  double number = 0.0;
  const char *begin = text.data(), *end = begin + text.size();
  const auto parsed = std::from_chars(begin, end, number);
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(number);
  if (text == "true" || text == "false") return text;
  // Only what TOML reads as the same number stays bare: 5, -0.25, 1e-05; not 05, .5 or what overflows.
  if (is_number) {
    std::int64_t whole = 0;
    const auto as_whole = std::from_chars(begin, end, whole);
    if (as_whole.ec == std::errc() && as_whole.ptr == end && fmt::to_string(whole) == text) return text;
    if (fmt::to_string(number) == text && text.find_first_of(".e") != std::string::npos) return text;
  }
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      out += c;
  }
  return out + "\"";
}

// Bare where TOML allows it.
std::string toml_key(const std::string& key) {
  const bool bare = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
  return bare ? key : toml_value(key);
}

// [[layer]] type = "LIF", size = 128 is --layer type=LIF,size=128.
constexpr std::string_view kLayer = "layer";
void add_layers(const std::string& path, const toml::node& node, ConfigItems& out) {
  const toml::array* layers = node.as_array();
  if (layers == nullptr || !layers->is_array_of_tables())
    refuse(path, node.source(), "a layer is a table: write [[layer]], and below it type = \"LIF\" …");
  for (const toml::node& each : *layers) {
    std::string text;
    for (const auto& [key, value] : *each.as_table()) {
      const std::string word = value_text(path, key.str(), value);
      if (word.find_first_of(",;=") != std::string::npos)
        refuse(path, value.source(),
               fmt::format("{} is '{}', which no option of a layer can be", key.str(), word));
      const std::string pair = fmt::format("{}={}", key.str(), word);
      if (key.str() == "type")
        text = text.empty() ? pair : pair + "," + text;  // what it is comes first
      else
        text += text.empty() ? pair : "," + pair;
    }
    out.emplace_back(kLayer, text);
  }
}

std::string layer_text(const std::string& words) {
  std::string text = "\n[[layer]]\n";
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(',', at), words.size()), equals = words.find('=', at);
    text += fmt::format("{} = {}\n", toml_key(words.substr(at, equals - at)),
                        toml_value(words.substr(equals + 1, end - equals - 1)));
    at = end + 1;
  }
  return text;
}

// For a shell: in quotes where it needs them.
std::string quoted(const std::string& word) {
  const bool plain =
      !word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+") ==
          std::string::npos;
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace

namespace {
// TOML allows no others, and the library behind this ends the process on some of them.
void require_text(const std::string& path, std::string_view text) {
  std::size_t line = 0;
  for (const std::string_view each : data::Pieces(text, '\n')) {
    ++line;
    const auto is_bad = [](char c) {
      return (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\r') || c == 0x7f;
    };
    const auto at = std::find_if(each.begin(), each.end(), is_bad);
    if (at != each.end() || !is_utf8(each))
      throw ValueError("config",
                       fmt::format("'{}', line {}: it holds {}: {}", path, line,
                                   at != each.end() ? "a control character" : "bytes that are no UTF-8",
                                   shown_text(each)));
  }
}
}  // namespace

ConfigItems read_config(const std::string& path) {
  const std::string text = read_file(path);
  require_text(path, text);
  toml::table table;
  try {
    table = toml::parse(text, path);
  } catch (const toml::parse_error& e) {
    refuse(path, e.source(), std::string(e.description()));
  } catch (const TomlFault&) {
    throw ValueError("config", fmt::format("'{}' is no TOML: a name or a value is missing somewhere", path));
  }
  ConfigItems out;
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    if (name == kLayer) {
      add_layers(path, value, out);
      continue;
    }
    const toml::table* items = value.as_table();
    if (is_table(name) != (items != nullptr))
      refuse(path, value.source(),
             items != nullptr
                 ? fmt::format("there is no table [{}]; expected one of {}", name, fmt::join(kTables, ", "))
                 : fmt::format("{} is a table: write [{}], and below it NAME = VALUE", name, name));
    if (is_written(name))
      refuse(path, value.source(),
             fmt::format("a configuration names no file to write; say {0} where the run is started (--{0})",
                         name));
    if (items == nullptr) {
      out.emplace_back(name, value_text(path, name, value));
      continue;
    }
    for (const auto& [item, of_item] : *items)
      out.emplace_back(name, fmt::format("{}={}", item.str(), value_text(path, item.str(), of_item)));
  }
  return out;
}

ConfigItems config_of_run(const std::string& folder, const Task* own_task) {
  if (!RunFolder::is_run(folder))
    throw ValueError("train", fmt::format("'{}' is no folder of a run: it has no run.json", folder));
  ConfigItems items = read_config(folder + "/config.toml");
  std::erase_if(items, [](const auto& item) { return item.first == "load"; });
  const bool is_stream =
      std::ranges::find(items, std::pair<std::string, std::string>("stream", "true")) != items.end();
  for (auto& [key, value] : items) {
    if (const std::string copy = folder + "/" + kModelCopy; key == "model" && data::is_file(copy))
      value = copy;
    if (const std::string copy = folder + "/" + kDataCopy;
        key == "set" && value.starts_with("file=") && data::is_file(copy))
      value = "file=" + copy;
    const bool known = key != "task" || is_stream || find_task(value) != nullptr ||
                       (own_task != nullptr && own_task->spec().name == value);
    if (!known)
      throw ValueError("train",
                       fmt::format("the run '{}' is on the task {}, which is the own one of the program "
                                   "that began it; go on, score and ask there, with that task",
                                   folder, value));
  }
  return items;
}

std::string config_text(const ConfigItems& items) {
  std::string text;
  for (const auto& [key, value] : items)
    if (!is_table(key) && key != kLayer) text += fmt::format("{} = {}\n", toml_key(key), toml_value(value));
  for (const std::string_view table : kTables) {
    std::map<std::string, std::string> values;  // the last one of a name counts
    for (const auto& [key, value] : items) {
      const std::size_t equals = value.find('=');
      if (key == table) values[value.substr(0, equals)] = value.substr(equals + 1);
    }
    if (!values.empty()) text += fmt::format("\n[{}]\n", table);
    for (const auto& [name, value] : values)
      text += fmt::format("{} = {}\n", toml_key(name), toml_value(value));
  }
  for (const auto& [key, value] : items)
    if (key == kLayer) text += layer_text(value);
  return text;
}

std::string command_text(const std::vector<std::string>& words) {
  std::string out = "etrace";
  for (const std::string& w : words) out += " " + quoted(w);
  return out;
}

}  // namespace etrace::train
