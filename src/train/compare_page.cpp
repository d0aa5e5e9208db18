#include "train/compare_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/file.h"
#include "base/memory.h"
#include "etrace/error.h"
#include "io/json.h"
#include "train/config.h"
#include "train/logged_curves.h"
#include "train/run_folder.h"

namespace etrace::train {

namespace {

// Checks of several runs at the same updates: mean, lowest and highest.
RunPage::Curve joined(const std::string& name, const std::vector<RunPage::Curve>& runs) {
  std::map<double, std::vector<RunPage::Point>> at;
  for (const RunPage::Curve& r : runs)
    for (const RunPage::Point& p : r.points) at[p.x].push_back(p);
  RunPage::Curve out{name, {}};
  for (const auto& [x, points] : at) {
    if (points.size() != runs.size()) continue;  // one has stopped before
    const auto count = static_cast<double>(points.size());
    RunPage::Point mean{.x = x};
    for (const RunPage::Point& p : points) {
      mean.y += p.y / count;
      mean.seconds += p.seconds / count;
    }
    const auto [low, high] = std::ranges::minmax(points, {}, &RunPage::Point::y);
    out.points.push_back(mean);
    out.band.emplace_back(low.y, high.y);
  }
  return out;
}

std::string number(const RunGroup::Number& n, int digits) {
  if (n.count == 0) return "–";
  return n.count == 1 ? fmt::format("{:.{}f}", n.mean, digits)
                      : fmt::format("{:.{}f} ± {:.{}f}", n.mean, digits, n.spread, digits);
}

RunPage::Table table_of(const std::vector<RunGroup>& groups) {
  RunPage::Table out{"Rules",
                     "Mean and standard deviation over the seeds. Seconds are those of the processor.",
                     {"rule", "accuracy", "loss", "updates", "seconds", "memory", "traces",
                      "cosine to BPTT, start", "cosine, end"},
                     {}};
  const auto bytes = [](const RunGroup::Number& n) {
    return n.count == 0 ? std::string("–") : bytes_text(static_cast<std::int64_t>(n.mean));
  };
  for (const RunGroup& g : groups)
    out.rows.push_back(
        {g.name, number(g.accuracy, 4), number(g.loss, 4),
         g.updates.count == 0 ? "–" : fmt::format("{:.0f}", g.updates.mean),
         g.processor_seconds.count == 0 ? "–" : fmt::format("{:.1f}", g.processor_seconds.mean),
         bytes(g.memory), bytes(g.traces), number(g.cosine_start, 3), number(g.cosine_end, 3)});
  return out;
}

}  // namespace

void write_comparison(const std::string& folder, const ComparisonTitle& title,
                      const std::vector<RunGroup>& groups) {
  OrderedJson json{{"format", "etrace.compare"},
                   {"version", 1},
                   {"task", title.task},
                   {"model", title.model},
                   {"command", title.command}};
  RunPage page{.title = fmt::format("{} with {}", title.task, title.model),
               .lead = "The same data, the same start, several rules."};
  RunPage::Plot loss{"Loss on held-out data", {}, true}, accuracy{"Accuracy on held-out data", {}, false};
  for (const RunGroup& g : groups) {
    json["rules"].push_back(to_json(g));
    std::vector<std::string> problems;
    std::vector<RunPage::Curve> losses, accuracies;
    for (const FoundRun& run : find_runs(folder, problems)) {
      if (run.json->value("rule", "") != g.name) continue;
      const LoggedCurves curves(run.path + "/log.jsonl");
      losses.push_back(curves.loss.curves[LoggedCurves::HeldOut]);
      if (!curves.accuracy.curves[LoggedCurves::HeldOut].points.empty())
        accuracies.push_back(curves.accuracy.curves[LoggedCurves::HeldOut]);
    }
    if (!losses.empty()) loss.curves.push_back(joined(g.name, losses));
    if (!accuracies.empty()) accuracy.curves.push_back(joined(g.name, accuracies));
  }
  page.plots.push_back(loss);
  if (!accuracy.curves.empty()) page.plots.push_back(accuracy);
  page.tables.push_back(table_of(groups));
  page.texts.push_back({"Command", "As it was typed.", command_text(title.command)});
  write_file(folder + "/compare.json", json_text(json, 2) + "\n");
  write_file(folder + "/page.html", page.to_html());
}

}  // namespace etrace::train
