// The page at the end of a run, from its log.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/memory.h"
#include "etrace/error.h"
#include "train/logged_curves.h"
#include "train/run.h"

namespace etrace::train {

namespace {

std::string quoted(const std::string& word) {
  const bool plain =
      !word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+") ==
          std::string::npos;
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace

void Run::write_page() {
  if (!folder_ || log_failed_) return;
  RunPage page{.title = folder_->name(), .lead = result_.judgement->text()};
  page.good = result_.judgement->outcome != Outcome::Guessing;
  const TrainSettings& s = training_.settings();
  if (result_.score.accuracy)
    page.tiles.emplace_back("accuracy on held-out data", fmt::format("{:.4f}", *result_.score.accuracy));
  page.tiles.emplace_back("loss", loss_text(result_.score.loss));
  page.tiles.emplace_back("updates", std::to_string(training_.updates()));
  page.tiles.emplace_back("seconds", fmt::format("{:.1f}", seconds()));
  page.tiles.emplace_back("of traces", bytes_text(training_.trace_bytes()));
  try {
    const LoggedCurves curves(folder_->log());
    page.plots.push_back(curves.loss);
    if (training_.has_accuracy()) page.plots.push_back(curves.accuracy);
    for (const LayerActivity& l : last_activity_)
      page.layers.push_back({l.layer,
                             fmt::format("{:.3f} on average, {} of {} silent, {} saturated", l.rate, l.silent,
                                         l.units, l.saturated),
                             l.rates});
    std::vector<std::string> words{"etrace"};
    for (const std::string& w : plan_.command) words.push_back(quoted(w));
    page.texts.push_back({"What was learned, and how", "As the run said at its start.", training_.summary()});
    page.texts.push_back(
        {"Configuration",
         "config.toml of the run's folder: `etrace train --config config.toml` runs it again.",
         config_text(config_items(s, plan_))});
    page.texts.push_back({"Command", "As it was typed.", fmt::format("{}", fmt::join(words, " "))});
    write_file(folder_->file("page.html"), page.to_html());
    view_.say(fmt::format("page {}\n", folder_->file("page.html")));
  } catch (const IoError& e) {
    view_.warn(fmt::format("no page: {}", e.message()));
    save_failed_ = true;
  }
}

}  // namespace etrace::train
