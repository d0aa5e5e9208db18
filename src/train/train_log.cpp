// Lines of the log:
//   {"event":"start","batches":…,"settings":{…},"learned_online":[…],"trace_bytes":…}
//   {"event":"batch"|"check","batches":…,"updates":…,"loss":…,"accuracy":…}      batch: also "seconds"
//   {"event":"end","reason":"updates"|"accuracy"|"interrupted", … as above}
#include "train/train_log.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "etrace/error.h"

namespace etrace::train {

namespace {

// Batches that a line of a log speaks of; none if it is no such line.
std::optional<std::int64_t> batches_of_line(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("event")) return std::nullopt;
  const auto batches = json.find("batches");
  if (batches == json.end() || !batches->is_number_integer()) return std::nullopt;
  return batches->get<std::int64_t>();
}

// Cuts a log behind the last line that speaks of at most so many batches. A last line without an end is what
// a killed run or a full disk has left.
void keep_until(const std::string& path, std::int64_t batches) {
  if (!std::filesystem::is_regular_file(path)) return;
  const std::string text = read_file(path);
  std::size_t kept = 0;
  for (std::size_t number = 1; kept < text.size(); ++number) {
    const std::size_t end = text.find('\n', kept);
    if (end == std::string::npos) break;
    const auto found = batches_of_line(std::string_view(text).substr(kept, end - kept));
    if (!found)
      throw ValueError("train",
                       fmt::format("line {} of '{}' is no line of a log of `etrace train`, so the run "
                                   "cannot go on with it; give --json another file",
                                   number, path));
    if (*found > batches) break;
    kept = end + 1;
  }
  std::error_code error;
  std::filesystem::resize_file(path, kept, error);
  if (error) throw IoError("train", fmt::format("the log '{}' cannot be cut: {}", path, error.message()));
}

}  // namespace

struct TrainLog::Line {
  nlohmann::ordered_json json;

  Line(const char* event, const Training& t) : json{{"event", event}, {"batches", t.batches()}} {}
  Line& score(const Training& t, const Score& s) {
    json["updates"] = t.updates();
    json["loss"] = s.loss;
    if (s.accuracy) json["accuracy"] = *s.accuracy;
    return *this;
  }
};

TrainLog::TrainLog(const std::string& path, std::optional<std::int64_t> resumed_after) {
  also(path, resumed_after);
}

void TrainLog::also(const std::string& path, std::optional<std::int64_t> resumed_after) {
  Place place{path, {}};
  if (path != kStandardOutput) {
    if (resumed_after) keep_until(path, *resumed_after);
    place.file.open(path, resumed_after ? std::ios::app : std::ios::trunc);
    if (!place.file)
      throw IoError("train", "the log '" + path + "' cannot be written; give --json another file");
  }
  places_.push_back(std::move(place));
}

void TrainLog::write(const Line& line) {
  for (Place& place : places_) {
    std::ostream& out = place.path == kStandardOutput ? std::cout : place.file;
    out << line.json.dump() + "\n";
    if (!out.flush())
      throw IoError("train", "the log '" + place.path + "' could not be written; is the disk full?");
  }
}

void TrainLog::start(const Training& t) {
  if (places_.empty()) return;
  Line line("start", t);
  for (const auto& [key, value] : t.setting_texts()) line.json["settings"][key] = value;
  for (const auto& w : t.learner().report().etrace_weights) line.json["learned_online"].push_back(w.name);
  line.json["trace_bytes"] = t.trace_bytes();
  write(line);
}

void TrainLog::batch(const Training& t, const Score& score, double seconds) {
  if (places_.empty()) return;
  Line line("batch", t);
  line.score(t, score).json["seconds"] = seconds;
  write(line);
}

void TrainLog::check(const Training& t, const Score& score) {
  if (places_.empty()) return;
  write(Line("check", t).score(t, score));
}

void TrainLog::end(const Training& t, const std::string& reason, const Score& score, double seconds) {
  if (places_.empty()) return;
  Line line("end", t);
  line.json["reason"] = reason;
  line.score(t, score).json["seconds"] = seconds;
  write(line);
}

}  // namespace etrace::train
