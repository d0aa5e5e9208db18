#include "train/logged_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace etrace::train {

namespace {

void each_line(const std::string& log, const std::function<void(const nlohmann::json&)>& use) {
  const std::string text = read_file(log);
  for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    const auto line = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(at),
                                            text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (line.is_object()) use(line);
  }
}

void put(RunPage::Curve& curve, const nlohmann::json& line, const char* key, double x, double seconds) {
  if (line.contains(key) && line.at(key).is_number())
    curve.add({.x = x, .y = line.at(key).get<double>(), .seconds = seconds});
}

}  // namespace

double LogClock::take(const nlohmann::json& line) {
  if (line.value("event", "") == "start") {
    before_ += now_;
    now_ = 0.0;
  } else {
    now_ = line.value("seconds", now_);
  }
  return seconds();
}

LoggedCurves::LoggedCurves(const std::string& log) {
  each_line(log, [this](const nlohmann::json& line) { add(line); });
}

void LoggedCurves::add(const nlohmann::json& line) {
  const std::string event = line.value("event", "");
  const double seconds = clock_.take(line);
  if (event != "batch" && event != "check") return;
  const Curve curve = event == "batch" ? Training : HeldOut;
  const double updates = line.value("updates", 0.0);
  put(loss.curves[curve], line, "loss", updates, seconds);
  put(accuracy.curves[curve], line, "accuracy", updates, seconds);
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
  each_line(log, [this](const nlohmann::json& line) { add(line); });
}

void StreamCurves::add(const nlohmann::json& line) {
  const std::string event = line.value("event", "");
  const double lines = line.value("lines", 0.0), seconds = clock_.take(line);
  if (event == "drift")
    for (RunPage::Plot& p : plots) p.marks.push_back(lines);
  if (event != "lines") return;
  put(plots[Accuracy].curves[Recent], line, "recent_accuracy", lines, seconds);
  put(plots[Accuracy].curves[All], line, "accuracy", lines, seconds);
  put(plots[Accuracy].curves[NoChange], line, "no_change", lines, seconds);
  put(plots[Kappa].curves[Recent], line, "recent_kappa_no_change", lines, seconds);
  put(plots[Kappa].curves[All], line, "kappa_no_change", lines, seconds);
  put(plots[Loss].curves[0], line, "loss", lines, seconds);
}

}  // namespace etrace::train
