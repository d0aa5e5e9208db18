#include "train/logged_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/file.h"
#include "io/json.h"

namespace etrace::train {

namespace {

void each_line(const std::string& log, const std::function<void(const Json&)>& use) {
  const std::string text = read_file(log);
  for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    const std::optional<Json> line = json_of(std::string_view(text).substr(at, end - at));
    if (line && line->is_object()) use(*line);
  }
}

void put(RunPage::Curve& curve, const Json& line, const char* key, double x, double seconds) {
  if (const auto y = said<double>(line, key)) curve.add({.x = x, .y = *y, .seconds = seconds});
}

}  // namespace

double LogClock::take(const Json& line) {
  if (said_text(line, "/event") == "start") {
    before_ += now_;
    now_ = 0.0;
  } else {
    now_ = said<double>(line, "/seconds").value_or(now_);
  }
  return seconds();
}

LoggedCurves::LoggedCurves(const std::string& log) {
  each_line(log, [this](const Json& line) { add(line); });
}

void LoggedCurves::add(const Json& line) {
  const std::string event = said_text(line, "/event");
  const double seconds = clock_.take(line);
  if (event != "batch" && event != "check") return;
  const Curve curve = event == "batch" ? Training : HeldOut;
  const double updates = said<double>(line, "/updates").value_or(0.0);
  put(loss.curves[curve], line, "/loss", updates, seconds);
  put(accuracy.curves[curve], line, "/accuracy", updates, seconds);
}

StreamCurves::StreamCurves(std::int64_t window) {
  const std::string recent = fmt::format("last {} lines", window);
  plots = {
      {.title = "Accuracy",
       .curves = {{.name = recent}, {.name = "all lines"}, {.name = "no change"}},
       .x = "lines"},
      {.title = "Kappa against no change", .curves = {{.name = recent}, {.name = "all lines"}}, .x = "lines"},
      {.title = "Loss", .curves = {{.name = "mean"}}, .logarithmic = true, .x = "lines"}};
}

StreamCurves::StreamCurves(std::int64_t window, const std::string& log) : StreamCurves(window) {
  each_line(log, [this](const Json& line) { add(line); });
}

void StreamCurves::add(const Json& line) {
  const std::string event = said_text(line, "/event");
  const double lines = said<double>(line, "/lines").value_or(0.0), seconds = clock_.take(line);
  if (event == "drift")
    for (RunPage::Plot& p : plots) p.marks.push_back(lines);
  if (event != "lines") return;
  put(plots[Accuracy].curves[Recent], line, "/recent_accuracy", lines, seconds);
  put(plots[Accuracy].curves[All], line, "/accuracy", lines, seconds);
  put(plots[Accuracy].curves[NoChange], line, "/no_change", lines, seconds);
  put(plots[Kappa].curves[Recent], line, "/recent_kappa_no_change", lines, seconds);
  put(plots[Kappa].curves[All], line, "/kappa_no_change", lines, seconds);
  put(plots[Loss].curves[0], line, "/loss", lines, seconds);
}

}  // namespace etrace::train
