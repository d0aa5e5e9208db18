#include "train/logged_curves.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace etrace::train {

LoggedCurves::LoggedCurves(const std::string& log) {
  const std::string text = read_file(log);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    add(nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(at),
                              text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false));
    at = end + 1;
  }
}

void LoggedCurves::add(const nlohmann::json& line) {
  if (!line.is_object()) return;
  const std::string event = line.value("event", "");
  if (event != "batch" && event != "check") return;
  const std::size_t curve = event == "batch" ? 0 : 1;
  const auto updates = line.value("updates", 0.0);
  const auto put = [&](RunPage::Plot& plot, const char* key, double& mean) {
    if (!line.contains(key) || !line.at(key).is_number()) return;
    const auto value = line.at(key).get<double>();
    constexpr double kKeep = 0.98;
    mean = plot.curves[0].points.empty() ? value : kKeep * mean + (1.0 - kKeep) * value;
    plot.curves[curve].points.emplace_back(updates, curve == 0 ? mean : value);
  };
  double unused = 0.0;
  put(loss, "loss", curve == 0 ? mean_loss_ : unused);
  put(accuracy, "accuracy", curve == 0 ? mean_accuracy_ : unused);
}

}  // namespace etrace::train
