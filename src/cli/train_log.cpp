// Lines of the log:
//   {"event":"start","batches":…,"settings":{…},"learned_online":[…],"trace_bytes":…}
//   {"event":"batch"|"check","batches":…,"updates":…,"loss":…,"accuracy":…}      batch: also "seconds"
//   {"event":"end","reason":"updates"|"accuracy"|"interrupted", … as above}
#include "cli/train_log.h"

#include <nlohmann/json.hpp>

#include "etrace/error.h"

namespace etrace::cli {

struct TrainLog::Line {
  nlohmann::ordered_json json;

  Line(const char* event, const Training& t) : json{{"event", event}, {"batches", t.batches()}} {}
  Line& score(const Training& t, const Training::Score& s) {
    json["updates"] = t.updates();
    json["loss"] = s.loss;
    if (s.accuracy) json["accuracy"] = *s.accuracy;
    return *this;
  }
};

TrainLog::TrainLog(const std::string& path, bool append)
    : path_(path), out_(path, append ? std::ios::app : std::ios::trunc) {
  if (!out_) throw IoError("train", "the log '" + path + "' cannot be written; give --json another file");
}

void TrainLog::write(const Line& line) {
  out_ << line.json.dump() << "\n";
  // A run that is killed leaves whole lines behind.
  if (!out_.flush())
    throw IoError("train", "the log '" + path_ + "' could not be written; is the disk full?");
}

void TrainLog::start(const Training& t) {
  if (path_.empty()) return;
  Line line("start", t);
  for (const auto& [key, value] : t.setting_texts()) line.json["settings"][key] = value;
  for (const auto& w : t.learner().report().etrace_weights)
    line.json["learned_online"].push_back(to_string(w.path) + "." + w.key);
  line.json["trace_bytes"] = t.trace_bytes();
  write(line);
}

void TrainLog::batch(const Training& t, const Training::Score& score, double seconds) {
  if (path_.empty()) return;
  Line line("batch", t);
  line.score(t, score).json["seconds"] = seconds;
  write(line);
}

void TrainLog::check(const Training& t, const Training::Score& score) {
  if (path_.empty()) return;
  write(Line("check", t).score(t, score));
}

void TrainLog::end(const Training& t, const std::string& reason, const Training::Score& score,
                   double seconds) {
  if (path_.empty()) return;
  Line line("end", t);
  line.json["reason"] = reason;
  line.score(t, score).json["seconds"] = seconds;
  write(line);
}

}  // namespace etrace::cli
