#include "train/live_page.h"

#include "io/json.h"

namespace etrace::train {

namespace {

// Moves points and marks of one page behind those of another.
void append(RunPage& to, RunPage& from) {
  for (std::size_t i = 0; i < from.plots.size(); ++i) {
    std::vector<double>&here = to.plots[i].marks, &there = from.plots[i].marks;
    here.insert(here.end(), there.begin(), there.end());
    there.clear();
    for (std::size_t k = 0; k < from.plots[i].curves.size(); ++k) {
      auto& points = from.plots[i].curves[k].points;
      for (const RunPage::Point& p : points) to.plots[i].curves[k].add(p);
      points.clear();
    }
  }
}

}  // namespace

LivePage::LivePage(std::uint16_t port) : server_(new PageServer(*this, port)) {}
LivePage::~LivePage() = default;

void LivePage::begin(RunPage page) {
  const std::lock_guard lock(guard_);
  shown_ = std::move(page);
  shown_.live = true;
  news_ = {};
  for (const RunPage::Plot& plot : shown_.plots) {
    news_.plots.push_back({.title = plot.title});
    for (const RunPage::Curve& c : plot.curves)
      if (!c.other) news_.plots.back().curves.push_back({.name = c.name});
  }
}

void LivePage::add(std::size_t plot, std::size_t curve, const RunPage::Point& point) {
  const std::lock_guard lock(guard_);
  news_.plots.at(plot).curves.at(curve).add(point);
}

void LivePage::mark(double x) {
  const std::lock_guard lock(guard_);
  for (RunPage::Plot& plot : news_.plots) plot.marks.push_back(x);
}

void LivePage::state(std::string lead, std::vector<std::pair<std::string, std::string>> tiles) {
  const std::lock_guard lock(guard_);
  news_.lead = std::move(lead);
  news_.tiles = std::move(tiles);
  wants_state_ = false;
}

void LivePage::end(RunPage page) {
  {
    const std::lock_guard lock(guard_);
    append(shown_, news_);
    if (page.plots.empty()) page.plots = std::move(shown_.plots);
    page.live = false;
    last_ = json_text(Json{{"page", page.to_html()}});
  }
  server_.reset();
}

void LivePage::end(const std::string& lead) {
  RunPage page;
  {
    const std::lock_guard lock(guard_);
    append(shown_, news_);
    page = shown_;
  }
  page.lead = lead;
  page.good = false;
  end(page);
}

std::string LivePage::page() {
  RunPage now;
  {
    const std::lock_guard lock(guard_);
    now = shown_;
  }
  return now.to_html();
}

std::string LivePage::everything() {
  const std::lock_guard lock(guard_);
  return last_.empty() ? json_text(shown_.to_json()) : last_;
}

std::string LivePage::news() {
  RunPage now;
  {
    const std::lock_guard lock(guard_);
    if (!last_.empty()) return last_;
    if (wants_state_) return {};
    now = news_;
    shown_.lead = news_.lead;
    shown_.tiles = news_.tiles;
    append(shown_, news_);
    wants_state_ = true;
  }
  return json_text(now.to_json());
}

}  // namespace etrace::train
