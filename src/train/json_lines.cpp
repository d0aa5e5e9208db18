#include "train/json_lines.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "base/file.h"
#include "etrace/error.h"
#include "io/json.h"

namespace etrace::train {

namespace {

// How far a line of a log is; none if it is no such line.
std::optional<std::int64_t> count_of_line(std::string_view line, const char* key) {
  const std::optional<Json> json = json_of(line);
  if (!json || json_member(*json, "/event") == nullptr) return std::nullopt;
  return said<std::int64_t>(*json, fmt::format("/{}", key));
}

// Cuts a log behind the last line that speaks of at most so many. A last line without an end is what a killed
// run or a full disk has left.
void keep_until(const std::string& path, const char* key, std::int64_t most) {
  if (!std::filesystem::is_regular_file(path)) return;
  const std::string text = read_file(path);
  std::size_t kept = 0;
  for (std::size_t number = 1; kept < text.size(); ++number) {
    const std::size_t end = text.find('\n', kept);
    if (end == std::string::npos) break;
    const auto found = count_of_line(std::string_view(text).substr(kept, end - kept), key);
    if (!found)
      throw ValueError("train",
                       fmt::format("line {} of '{}' is no line of a log of `etrace train`, so the run "
                                   "cannot go on with it; give --json another file",
                                   number, path));
    if (*found > most) break;
    kept = end + 1;
  }
  std::error_code error;
  std::filesystem::resize_file(path, kept, error);
  if (error) throw IoError("train", fmt::format("the log '{}' cannot be cut: {}", path, error.message()));
}

}  // namespace

void JsonLines::add(const std::string& path, std::optional<std::int64_t> resumed_after) {
  Place place{path, {}};
  if (path != kStandardOutput) {
    if (resumed_after) keep_until(path, key_, *resumed_after);
    place.file.open(path, resumed_after ? std::ios::app : std::ios::trunc);
    if (!place.file)
      throw IoError("train", "the log '" + path + "' cannot be written; give --json another file");
  }
  places_.push_back(std::move(place));
}

void JsonLines::write(const std::string& json) {
  for (Place& place : places_) {
    std::ostream& out = place.path == kStandardOutput ? std::cout : place.file;
    out << json + "\n";
    if (!out.flush())
      throw IoError("train", "the log '" + place.path + "' could not be written; is the disk full?");
  }
}

}  // namespace etrace::train
