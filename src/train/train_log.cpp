// Lines of the log:
//   {"event":"start","batches":…,"settings":{…},"learned_online":[…],"trace_bytes":…}
//   {"event":"batch"|"check","batches":…,"updates":…,"loss":…,"accuracy":…}      batch: also "seconds"
//   {"event":"end","reason":"updates"|"accuracy"|"interrupted", … as above}
#include "train/train_log.h"

#include <nlohmann/json.hpp>

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

}  // namespace etrace::train
