// The page of a stream, while it goes and at its end.
#include <fmt/format.h>

#include "base/file.h"
#include "base/memory.h"
#include "etrace/error.h"
#include "etrace/version.h"
#include "train/logged_curves.h"
#include "train/page_content.h"
#include "train/stream_run.h"

namespace etrace::train {

RunPage StreamRun::page_at_start() const {
  RunPage page;
  page.title = folder_ ? folder_->name() : "stream";
  page.curves_note =
      "Each line is answered first and learned from then. No change: the label before as the answer.";
  page.tables.push_back(trace_table(learner_->learner()));
  page.graph = graph_of(learner_->learner());
  const StreamPlan usual{.path = plan_.path};
  if (RunPage::Table changes = changes_table(config_items(usual), config_items(plan_)); !changes.rows.empty())
    page.tables.insert(page.tables.begin(), std::move(changes));
  page.texts.push_back({"What was learned, and how", "As the run said at its start.", summary_});
  page.texts.push_back({"Configuration",
                        "config.toml of the run's folder: `etrace train --config config.toml` runs it again.",
                        config_text(config_items(plan_))});
  page.texts.push_back({"How to reproduce",
                        "The command as it was typed; what the numbers depend on beside it.",
                        fmt::format("{}\n\netrace {}, seed {}, backend {}\n", command_text(plan_.command),
                                    version(), plan_.settings.seed, plan_.settings.backend)});
  return page;
}

std::vector<std::pair<std::string, std::string>> StreamRun::tiles() const {
  const Prequential& p = learner_->score();
  return {{"accuracy on all lines", fmt::format("{:.4f}", p.accuracy())},
          {fmt::format("on the last {}", std::min(p.window(), p.count())),
           fmt::format("{:.4f}", p.recent_accuracy())},
          {"kappa against no change", fmt::format("{:.3f}", p.kappa_no_change())},
          {"lines", std::to_string(p.count())},
          {"lines per second", fmt::format("{:.0f}", rate())},
          {"changes seen", std::to_string(p.drifts())},
          {"of traces", bytes_text(learner_->learner().trace_bytes())}};
}

void StreamRun::open_live() {
  if (!live_) return;
  RunPage page = page_at_start();
  page.lead = "The run begins.";
  StreamCurves curves(plan_.settings.window);
  tell([&] {
    if (folder_) curves = StreamCurves(plan_.settings.window, folder_->log());
  });
  seconds_before_ = curves.seconds();
  page.plots = curves.plots;
  live_->begin(std::move(page));
  view_.result(fmt::format("live {}\n", live_->address()));
}

void StreamRun::show_state() {
  if (!live_->wants_state() || told_lines_ == learner_->lines()) return;
  told_lines_ = learner_->lines();
  show_points();
  live_->state("The run goes on.", tiles());
}

void StreamRun::show_points() {
  const Prequential& p = learner_->score();
  if (shown_lines_ == p.count()) return;
  shown_lines_ = p.count();
  const auto add = [&](std::size_t plot, std::size_t curve, double value) {
    live_->add(plot, curve,
               {.x = static_cast<double>(p.count()), .y = value, .seconds = seconds_before_ + seconds()});
  };
  add(StreamCurves::Accuracy, StreamCurves::Recent, p.recent_accuracy());
  add(StreamCurves::Accuracy, StreamCurves::All, p.accuracy());
  add(StreamCurves::Accuracy, StreamCurves::NoChange, p.no_change());
  add(StreamCurves::Kappa, StreamCurves::Recent, p.recent_kappa_no_change());
  add(StreamCurves::Kappa, StreamCurves::All, p.kappa_no_change());
  add(StreamCurves::Loss, 0, learner_->mean_loss());
}

void StreamRun::write_page() {
  if (!live_ && (!folder_ || log_failed_)) return;
  const Prequential& p = learner_->score();
  RunPage page = page_at_start();
  page.good = p.kappa_no_change() > 0.0;
  page.lead = fmt::format("{}: {} lines, {} than repeating the label before",
                          result_.reason == StreamResult::Reason::Interrupted ? "Stopped" : "Ended",
                          p.count(), page.good ? "better" : "no better");
  page.tiles = tiles();
  try {
    if (folder_ && !log_failed_) {
      page.plots = StreamCurves(plan_.settings.window, folder_->log()).plots;
      write_file(folder_->file("page.html"), page.to_html());
      view_.say(fmt::format("page {}\n", folder_->file("page.html")));
      page.note = "The run has ended. This page lies in " + folder_->file("page.html");
    }
  } catch (const IoError& e) {
    view_.warn(fmt::format("no page: {}", e.message()));
    log_failed_ = true;
  }
  if (!live_) return;
  if (page.note.empty()) page.note = "The run has ended, and has no page in a file.";
  live_->end(std::move(page));
}

}  // namespace etrace::train
