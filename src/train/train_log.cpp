// Lines of the log:
//   {"event":"start","batches":…,"settings":{…},"learned_online":[…],"trace_bytes":…}
//   {"event":"batch"|"check","batches":…,"updates":…,"loss":…,"accuracy":…}      batch: also "seconds"
//   {"event":"end","reason":"updates"|"accuracy"|"interrupted", … as above}
#include "train/train_log.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace etrace::train {

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
  lines_.add(path, resumed_after);
}

void TrainLog::write(const Line& line) { lines_.write(line.json.dump()); }

void TrainLog::start(const Training& t) {
  if (lines_.empty()) return;
  Line line("start", t);
  for (const auto& [key, value] : t.setting_texts()) line.json["settings"][key] = value;
  for (const auto& w : t.learner().report().etrace_weights) line.json["learned_online"].push_back(w.name);
  line.json["trace_bytes"] = t.trace_bytes();
  write(line);
}

void TrainLog::batch(const Training& t, const Score& score, double seconds) {
  if (lines_.empty()) return;
  Line line("batch", t);
  line.score(t, score).json["seconds"] = seconds;
  write(line);
}

void TrainLog::check(const Training& t, const Score& score) {
  if (lines_.empty()) return;
  write(Line("check", t).score(t, score));
}

void TrainLog::end(const Training& t, const std::string& reason, const Score& score, double seconds) {
  if (lines_.empty()) return;
  Line line("end", t);
  line.json["reason"] = reason;
  line.score(t, score).json["seconds"] = seconds;
  write(line);
}

RunHistory logged_history(const std::string& path, std::int64_t batches) {
  RunHistory out;
  const std::string text = read_file(path);
  for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    const auto line = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(at),
                                            text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (!line.is_object() || line.value("batches", batches + 1) > batches) continue;
    const std::string event = line.value("event", "");
    if (event != "batch" && event != "check") continue;
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // JSON has no NaN: it is null there
    const auto number = [&](const char* key) {
      return line.contains(key) && line.at(key).is_number() ? line.at(key).get<double>() : kNone;
    };
    RunHistory::Point point{
        line.value("batches", std::int64_t{0}), line.value("updates", std::int64_t{0}), {number("loss")}};
    if (line.contains("accuracy")) point.score.accuracy = number("accuracy");
    (event == "batch" ? out.batches : out.checks).push_back(point);
  }
  return out;
}

}  // namespace etrace::train
