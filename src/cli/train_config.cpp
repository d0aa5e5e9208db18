#include "cli/train_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "etrace/error.h"
#include "train/config.h"
#include "train/run_folder.h"

namespace etrace::cli {

namespace {

using Words = std::vector<std::string>;

// Options that stand alone in a command; --live may have a port.
bool is_flag(const std::string& key, const std::string& value) {
  if (key == "live") return value == "true" || value == "false";
  return key == "resume" || key == "quiet" || key == "stream" || key == "no-fidelity";
}

Words words_of(const train::ConfigItems& items, const std::string& path) {
  Words out;
  for (const auto& [key, value] : items) {
    if (is_flag(key, value)) {
      if (value == "true") out.push_back("--" + key);
      continue;
    }
    if (key == "config")
      throw ValueError("config", fmt::format("'{}': a configuration names no other", path));
    out.push_back(fmt::format("--{}={}", key, value));
  }
  return out;
}

// The value of --config, if it is given.
std::optional<std::string> named_configuration(const Words& words) {
  constexpr std::string_view kOption = "--config";
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == kOption && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with(std::string(kOption) + "=")) return words[i].substr(kOption.size() + 1);
  }
  return std::nullopt;
}

Words spliced(const Words& words, const Words& before) {
  Words out{words.front()};
  out.insert(out.end(), before.begin(), before.end());
  out.insert(out.end(), words.begin() + 1, words.end());
  return out;
}

}  // namespace

namespace {
Words& remembered_words() {
  static Words words;
  return words;
}
}  // namespace

const std::vector<std::string>& typed_words() { return remembered_words(); }

bool is_typed(const std::string& option) {
  const Words& words = typed_words();
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& w) { return w == option || w.starts_with(option + "="); });
}

std::vector<std::string> with_configuration(const std::vector<std::string>& words) {
  remembered_words() = words;
  if (words.empty() || words.front() != "train") return words;
  Words out = words;
  // The first word after the verb may be the folder of a run.
  if (words.size() > 1 && train::RunFolder::is_run(words[1])) {
    std::string folder = words[1];
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
    out.erase(out.begin() + 1);
    const train::ConfigItems items = train::config_of_run(folder);
    Words before = words_of(items, folder + "/config.toml");
    before.push_back("--folder=" + folder);
    return spliced(out, before);
  }
  if (const auto path = named_configuration(words))
    return spliced(out, words_of(train::read_config(*path), *path));
  return out;
}

}  // namespace etrace::cli
