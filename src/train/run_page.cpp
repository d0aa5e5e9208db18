// The page at the end of a run, from its log.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/memory.h"
#include "etrace/error.h"
#include "etrace/version.h"
#include "io/json.h"
#include "train/logged_curves.h"
#include "train/run.h"

namespace etrace::train {

namespace {

std::string cosine_text(double cosine) {
  return std::isfinite(cosine) ? fmt::format("{:.3f}", cosine) : "no gradient";
}

RunPage::Table fidelity_table(const std::optional<Training::Fidelity>& first,
                              const Training::Fidelity& last) {
  RunPage::Table out{
      "Gradient beside BPTT's",
      "Cosine between the gradient of the rule and that of BPTT, on a batch that is not trained on. "
      "Where little is left to learn, what is left of the gradient is noise.",
      {"parameter", "at the start", "at the end", "size at the end"},
      {}};
  const auto add = [&](const std::string& name, double start, double end, double size) {
    out.rows.push_back({name, first ? cosine_text(start) : "–", cosine_text(end),
                        std::isfinite(size) ? fmt::format("{:.2f} of BPTT's", size) : "–"});
  };
  add("all together", first ? first->cosine : 0.0, last.cosine, last.norm_ratio);
  for (std::size_t i = 0; i < last.leaves.size(); ++i)
    add(last.leaves[i].name, first && i < first->leaves.size() ? first->leaves[i].cosine : 0.0,
        last.leaves[i].cosine, last.leaves[i].norm_ratio);
  return out;
}

// Held-out curves of up to four other runs of the task that lie in the same folder, behind this one's.
void add_other_runs(RunPage& page, const std::string& own, const TrainSettings& s) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> problems;
  std::size_t shown = 0;
  const std::filesystem::path path = std::filesystem::weakly_canonical(own);
  for (const FoundRun& run : find_runs(path.parent_path().string(), problems)) {
    const bool same = run.json->value("task", "") == s.task && run.json->value("status", "") == "done" &&
                      std::filesystem::path(run.path).filename() != path.filename();
    if (!same || shown == kMost) continue;
    const LoggedCurves curves(run.path + "/log.jsonl");
    const auto add = [&](RunPage::Plot& plot, RunPage::Curve curve) {
      if (curve.points.empty()) return;
      curve.name = run.json->value("name", run.path);
      curve.other = true;
      plot.curves.push_back(std::move(curve));
    };
    add(page.plots[0], curves.loss.curves[LoggedCurves::HeldOut]);
    if (page.plots.size() > 1) add(page.plots[1], curves.accuracy.curves[LoggedCurves::HeldOut]);
    ++shown;
  }
}

// What the run would be if its task and its model alone were named; of the model, if the task alone were.
ConfigItems recipe_items(const TrainSettings& s) {
  TrainSettings of_task{.task = s.task};
  for (const auto& [name, value] : s.task_texts)
    if (name == "file") of_task.task_texts.emplace_back(name, value);
  of_task.own_task = s.own_task;
  TrainSettings of_model = of_task;
  of_model.layers = s.layers;
  if (s.layers.empty()) of_model.model = s.model;
  of_model.model_text = s.model_text;
  ConfigItems out = config_items(resolved(of_model), {});
  for (auto& [key, value] : out)
    if (key == "model") value = resolved(of_task).model;
  return out;
}

}  // namespace

// What is known before the first batch.
RunPage Run::page_at_start() const {
  RunPage page;
  page.title = folder_ ? folder_->name() : training_.settings().task;
  const TrainSettings& s = training_.settings();
  if (!s.module) {
    RunPage::Table changes = changes_table(recipe_items(s), config_items(s, plan_));
    if (!changes.rows.empty()) page.tables.push_back(std::move(changes));
  }
  if (!training_.is_bptt()) {
    page.tables.push_back(trace_table(training_.learner()));
    page.graph = graph_of(training_.learner());
  }
  page.texts.push_back({"What was learned, and how", "As the run said at its start.", training_.summary()});
  page.texts.push_back({"Configuration",
                        "config.toml of the run's folder: `etrace train --config config.toml` runs it again.",
                        config_text(config_items(s, plan_))});
  page.texts.push_back({"How to reproduce",
                        "The command as it was typed; what the numbers depend on beside it.",
                        fmt::format("{}\n\netrace {}, seed {}, backend {}\n{}", command_text(plan_.command),
                                    version(), s.seed, s.backend, training_.task().about())});
  return page;
}

void Run::open_live() {
  if (!live_) return;
  RunPage page = page_at_start();
  page.lead = "The run begins.";
  LoggedCurves curves;
  tell([&] {
    if (folder_) curves = LoggedCurves(folder_->log());
  });
  seconds_before_ = curves.seconds();
  page.plots.push_back(curves.loss);
  if (training_.has_accuracy()) page.plots.push_back(curves.accuracy);
  live_->begin(std::move(page));
  view_.result(fmt::format("live {}\n", live_->address()));
}

void Run::show_point(std::size_t curve, const Score& score) {
  if (!live_) return;
  RunPage::Point point{
      .x = static_cast<double>(training_.updates()), .y = score.loss, .seconds = seconds_before_ + seconds()};
  live_->add(0, curve, point);
  if (score.accuracy) {
    point.y = *score.accuracy;
    live_->add(1, curve, point);
  }
  if (live_->wants_state()) show_state();
}

void Run::show_state() {
  const std::int64_t done = training_.updates(), total = training_.settings().updates;
  const double rate = static_cast<double>(done - updates_at_start_) / std::max(seconds(), 1e-9);
  std::vector<std::pair<std::string, std::string>> tiles{
      {fmt::format("updates of {}", total), std::to_string(done)},
      {"loss of the last batch", loss_text(last_.loss)}};
  if (!result_.history.checks.empty()) {
    const Score& check = result_.history.checks.back().score;
    tiles.emplace_back(check.accuracy ? "accuracy on held-out data" : "loss on held-out data",
                       check.accuracy ? fmt::format("{:.4f}", *check.accuracy) : loss_text(check.loss));
  }
  tiles.emplace_back("updates per second", fmt::format("{:.0f}", rate));
  tiles.emplace_back("seconds left",
                     fmt::format("{:.0f}", static_cast<double>(total - done) / std::max(rate, 1e-9)));
  live_->state("The run goes on.", std::move(tiles));
}

void Run::show_model(RunPage& page) {
  constexpr std::int64_t kSamples = 3;
  constexpr std::size_t kMostPictures = 8;
  page.pictures_note = fmt::format(
      "What units do in up to {} held-out samples, side by side: a row for each unit, time to the right. "
      "Blue: above "
      "zero, or a spike; orange: below zero.",
      kSamples);
  for (const SeenActivity& seen : training_.seen_activity(kSamples))
    if (page.pictures.size() < kMostPictures && seen.units > 0 && seen.steps > 0)
      page.pictures.push_back(picture_of(seen));
  for (const WeightSpread& w : last_weights_) {
    RunPage::Weights both{.name = w.name, .after = w.spread};
    for (const WeightSpread& before : first_weights_)
      if (before.name == w.name) both.before.push_back(before.spread);
    page.weights.push_back(std::move(both));
  }
}

// Also of a run that was stopped, whose score is that of its last batch.
void Run::write_page(const std::string& lead, bool good) {
  if (!live_ && (!folder_ || log_failed_)) return;
  RunPage page = page_at_start();
  page.lead = lead;
  page.good = good;
  const std::string on = result_.judgement ? "on held-out data" : "of the last batch";
  if (result_.score.accuracy)
    page.tiles.emplace_back("accuracy " + on, fmt::format("{:.4f}", *result_.score.accuracy));
  page.tiles.emplace_back("loss " + on, loss_text(result_.score.loss));
  page.tiles.emplace_back("updates", std::to_string(training_.updates()));
  page.tiles.emplace_back("seconds", fmt::format("{:.1f}", seconds()));
  page.tiles.emplace_back("of traces", bytes_text(training_.trace_bytes()));
  for (const LayerActivity& l : last_activity_)
    page.layers.push_back({l.layer,
                           fmt::format("{:.3f} on average, {} of {} silent, {} saturated", l.rate, l.silent,
                                       l.units, l.saturated),
                           l.rates});
  if (last_fidelity_)
    page.tables.insert(page.tables.begin(), fidelity_table(first_fidelity_, *last_fidelity_));
  if (result_.judgement) show_model(page);
  try {
    if (folder_ && !log_failed_) {
      const LoggedCurves curves(folder_->log());
      page.plots.push_back(curves.loss);
      if (training_.has_accuracy()) page.plots.push_back(curves.accuracy);
      add_other_runs(page, folder_->path(), training_.settings());
      write_file(page_path(), page.to_html());
      view_.say(fmt::format("page {}\n", page_path()));
      page.note = "The run has ended. This page lies in " + page_path();
    }
  } catch (const IoError& e) {
    view_.warn(fmt::format("no page: {}", e.message()));
    save_failed_ = true;
  }
  if (!live_) return;
  if (page.note.empty()) page.note = "The run has ended, and has no page in a file.";
  live_->end(std::move(page));
}

}  // namespace etrace::train
