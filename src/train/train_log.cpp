// Lines of the log:
//   {"event":"start","batches":…,"settings":{…},"learned_online":[…],"trace_bytes":…}
//   {"event":"batch"|"check","batches":…,"updates":…,"loss":…,"accuracy":…}      batch: also "seconds"
//   {"event":"end","reason":"updates"|"accuracy"|"interrupted", … as above}
#include "train/train_log.h"

#include <algorithm>
#include <limits>

#include "base/file.h"
#include "io/json.h"

namespace etrace::train {

struct TrainLog::Line {
  OrderedJson json;

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

void TrainLog::write(const Line& line) { lines_.write(json_text(line.json)); }

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
    const std::optional<Json> line = json_of(std::string_view(text).substr(at, end - at));
    const auto number = line ? said<std::int64_t>(*line, "/batches") : std::nullopt;
    if (!number || *number > batches) continue;
    const std::string event = said_text(*line, "/event");
    if (event != "batch" && event != "check") continue;
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // JSON has no NaN: it is null there
    RunHistory::Point point{*number,
                            said<std::int64_t>(*line, "/updates").value_or(0),
                            {said<double>(*line, "/loss").value_or(kNone)}};
    if (json_member(*line, "/accuracy") != nullptr)
      point.score.accuracy = said<double>(*line, "/accuracy").value_or(kNone);
    (event == "batch" ? out.batches : out.checks).push_back(point);
  }
  return out;
}

}  // namespace etrace::train
