// A RuleComparison as one page that loads nothing and runs no script: memory against direction, size and
// horizon, with the frontier by number, and the table. Every text that comes from the model passes through
// escape_html.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "compiler/explain_text.h"
#include "etrace/compare_rules.h"
#include "etrace/version.h"
#include "report/explain_drawing.h"
#include "report/page_parts.h"
#include "report/web/compare_style.h"
#include "report/web/explain_style.h"
#include "verify/compare_words.h"
#include "verify/verify_words.h"

namespace etrace {

namespace {

// "D_RTRL, single steps: cosine 0.961, ratio 0.10, horizon 3, 12.1 KiB, 5.3 µs per step"
std::string row_words(const RuleComparison& c, const RuleComparison::Row& r) {
  return fmt::format("{}, {}: cosine {}, ratio {}, horizon {}, {}, {} µs per step", r.rule,
                     window_text(r.window), cosine_text(r.cosine), ratio_text(r.norm_ratio),
                     horizon_text(c, r), bytes_text(r.bytes()), microseconds_text(r.seconds));
}

// One of the three plots: bytes to the right, a distance from BPTT upwards, both logarithmic. Numbers of the
// frontier stand beside their points, where nothing else does.
class Panel {
 public:
  struct Axis {
    std::string title;
    double bottom = 0.0, top = 1.0;  // of the value
    std::vector<std::pair<double, std::string>> ticks;
    std::optional<double> target;  // where BPTT is
    bool edge = false;             // the frontier as a line
  };
  Panel(const RuleComparison& c, Axis axis, std::function<double(const RuleComparison::Row&)> value)
      : c_(c), axis_(std::move(axis)), value_(std::move(value)) {
    double least = 1e300, most = 1.0;
    for (const RuleComparison::Row& r : c.rows) {
      least = std::min(least, bytes(r));
      most = std::max(most, bytes(r));
    }
    left_ = std::log2(least) - 0.5;
    right_ = std::max(std::log2(most) + 0.5, left_ + 1.0);
    grid();
    if (axis_.edge) edge();
    for (const RuleComparison::Row& r : c.rows)
      if (!r.best) {
        point(r, "point", 3.5);
        others_.push_back(around(x(r), y(r), 4.0));
      }
    const std::vector<std::size_t> best = c.frontier();
    for (const std::size_t i : best) taken_.push_back(around(x(c.rows[i]), y(c.rows[i]), 5.5));
    for (std::size_t i = 0; i < best.size(); ++i) label(c.rows[best[i]], i + 1);
    for (const std::size_t i : best) point(c.rows[i], "point best", 5.0);
  }

  std::string svg() const {
    return fmt::format(
        "<svg class=\"frontier\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{} against "
        "memory\">{}</svg>",
        kWidth, kHeight, axis_.title, body_);
  }

 private:
  static constexpr double kWidth = 430, kHeight = 330, kLeft = 52, kRight = 12, kTop = 30, kBottom = 40;
  struct Box {
    double left, top, right, bottom;
    bool meets(const Box& o) const {
      return left < o.right && o.left < right && top < o.bottom && o.top < bottom;
    }
  };
  static Box around(double x, double y, double r) { return {x - r, y - r, x + r, y + r}; }

  static double bytes(const RuleComparison::Row& r) {
    return static_cast<double>(std::max<std::int64_t>(r.bytes(), 1));
  }
  double at_bytes(double log_bytes) const {
    return kLeft + (log_bytes - left_) / (right_ - left_) * (kWidth - kLeft - kRight);
  }
  double at_value(double v) const {
    return kTop + (axis_.top - v) / (axis_.top - axis_.bottom) * (kHeight - kTop - kBottom);
  }
  double x(const RuleComparison::Row& r) const { return at_bytes(std::log2(bytes(r))); }
  double y(const RuleComparison::Row& r) const {
    return at_value(std::clamp(value_(r), axis_.bottom, axis_.top));
  }

  void grid() {
    body_ += fmt::format("<text class=\"title\" x=\"4\" y=\"14\">{}</text>", axis_.title);
    for (const auto& [value, text] : axis_.ticks)
      body_ += fmt::format(
          "<path class=\"grid\" d=\"M{0} {1:.1f}H{2}\"/><text x=\"{3}\" y=\"{4:.1f}\" "
          "text-anchor=\"end\">{5}</text>",
          kLeft, at_value(value), kWidth - kRight, kLeft - 6, at_value(value) + 4, text);
    if (axis_.target)
      body_ += fmt::format("<path class=\"target\" d=\"M{} {:.1f}H{}\"/>", kLeft, at_value(*axis_.target),
                           kWidth - kRight);
    const int every = static_cast<int>(std::max(1.0, std::ceil((right_ - left_) / 5.0)));
    for (int p = static_cast<int>(std::ceil(left_)); p <= right_; ++p)
      if (p % every == 0 && at_bytes(p) < kWidth - kRight - 24)
        body_ += fmt::format(
            "<path class=\"grid\" d=\"M{0:.1f} {1}V{2}\"/><text x=\"{0:.1f}\" y=\"{3}\" "
            "text-anchor=\"middle\">{4}</text>",
            at_bytes(p), kTop, kHeight - kBottom, kHeight - kBottom + 16,
            bytes_text(std::int64_t{1} << std::clamp(p, 0, 62)));
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">traces + working memory</text>",
                         kWidth - kRight, kHeight - 6);
  }

  // Steps: until the next point, more memory buys nothing.
  void edge() {
    std::string path;
    for (const std::size_t i : c_.frontier()) {
      const RuleComparison::Row& r = c_.rows[i];
      path += path.empty() ? fmt::format("M{:.1f} {:.1f}", x(r), y(r))
                           : fmt::format("H{:.1f}V{:.1f}", x(r), y(r));
    }
    if (!path.empty()) body_ += fmt::format("<path class=\"edge\" d=\"{}H{}\"/>", path, kWidth - kRight);
  }

  void point(const RuleComparison::Row& r, const char* kind, double radius) {
    body_ +=
        fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}</title></circle>",
                    kind, x(r), y(r), radius, escape_html(row_words(c_, r)));
  }

  void label(const RuleComparison::Row& r, std::size_t number) {
    const double half = number < 10 ? 4.5 : 8.0, cx = x(r), cy = y(r);
    std::optional<Box> place = free_place(cx, cy, half, {&taken_, &others_});
    if (!place) place = free_place(cx, cy, half, {&taken_});
    if (!place) place = {cx + 8.0, cy - 6.5, cx + 8.0 + 2.0 * half, cy + 6.5};
    taken_.push_back(*place);
    const double lx = 0.5 * (place->left + place->right), ly = 0.5 * (place->top + place->bottom);
    if (std::hypot(lx - cx, ly - cy) > 20.0)
      body_ += fmt::format("<path class=\"leader\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>", cx, cy, lx, ly);
    body_ += fmt::format("<text class=\"number\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                         lx, ly + 4.0, number);
  }

  // The first place around a point that is inside and free, near ones first.
  static std::optional<Box> free_place(double cx, double cy, double half,
                                       std::initializer_list<const std::vector<Box>*> lists) {
    constexpr double kPi = 3.14159265358979;
    for (double away = 13.0; away < 90.0; away += 8.0)
      for (int turn = 0; turn < 16; ++turn) {
        const double angle = -kPi / 4.0 + turn * kPi / 8.0;
        const double lx = cx + away * std::cos(angle), ly = cy + away * std::sin(angle);
        const Box place{lx - half, ly - 6.5, lx + half, ly + 6.5};
        const bool inside = place.left > kLeft && place.right < kWidth - 2.0 && place.top > kTop - 12.0 &&
                            place.bottom < kHeight - kBottom;
        const bool free = std::all_of(lists.begin(), lists.end(), [&](const std::vector<Box>* list) {
          return std::none_of(list->begin(), list->end(),
                              [&](const Box& other) { return place.meets(other); });
        });
        if (inside && free) return place;
      }
    return std::nullopt;
  }

  const RuleComparison& c_;
  Axis axis_;
  std::function<double(const RuleComparison::Row&)> value_;
  double left_ = 0.0, right_ = 1.0;
  std::vector<Box> taken_, others_;  // by points and numbers of the frontier; by the other points
  std::string body_;
};

// Least and most of a value over the rows, with what the target says.
template <class F>
std::pair<double, double> range_of(const RuleComparison& c, double target, const F& value) {
  std::pair<double, double> out{target, target};
  for (const RuleComparison::Row& r : c.rows) {
    out.first = std::min(out.first, value(r));
    out.second = std::max(out.second, value(r));
  }
  return out;
}

// Every line of the grid higher divides by ten what is missing.
Panel::Axis axis_of_missing(std::string title, std::pair<double, double> range, double exact) {
  Panel::Axis axis{
      std::move(title), range.first - 0.2, std::max(range.second + 0.3, range.first + 1.0), {}, {}};
  const bool fine = axis.top - axis.bottom < 2.5;
  for (int p = -1; p <= 9; ++p)
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double missing = digit * std::pow(10.0, -p), at = -std::log10(missing);
      if ((digit != 1.0 && !fine) || at < axis.bottom || at > axis.top) continue;
      axis.ticks.emplace_back(at, missing <= exact ? "exact" : fmt::format("{:g}", missing));
    }
  return axis;
}

constexpr double kExact = 1e-9;  // what is nearer counts as this

std::string distance_panel(const RuleComparison& c) {
  const auto closeness = [&](const RuleComparison::Row& r) {
    return -std::log10(std::max(c.distance(r).total(), kExact));
  };
  Panel::Axis axis =
      axis_of_missing("Distance from BPTT, higher is closer", range_of(c, 0.3, closeness), kExact);
  axis.edge = true;
  return Panel(c, axis, closeness).svg();
}

std::string direction_panel(const RuleComparison& c) {
  const auto closeness = [&](const RuleComparison::Row& r) {
    return -std::log10(std::max(c.distance(r).direction, kExact));
  };
  return Panel(
             c,
             axis_of_missing("Direction: 1 − cosine, higher is closer", range_of(c, 0.3, closeness), kExact),
             closeness)
      .svg();
}

std::string size_panel(const RuleComparison& c) {
  const auto size = [](const RuleComparison::Row& r) {
    return std::isnan(r.norm_ratio) ? -6.0 : std::clamp(std::log2(std::max(r.norm_ratio, 1e-6)), -6.0, 6.0);
  };
  const auto [least, most] = range_of(c, 0.0, size);
  Panel::Axis axis{"Size: norm ratio, the line is BPTT", least - 0.4, most + 0.4, {}, 0.0};
  const bool fine = axis.top - axis.bottom < 3.0;
  for (int p = -12; p <= 12; ++p)
    if (const double at = 0.5 * p; at > axis.bottom && at < axis.top && (fine || p % 2 == 0))
      axis.ticks.emplace_back(at, fmt::format("{:.3g}", std::exp2(at)));
  return Panel(c, axis, size).svg();
}

std::string horizon_panel(const RuleComparison& c) {
  const auto log_steps = [&](const std::optional<std::int64_t>& h) {
    return std::log2(static_cast<double>(h.value_or(c.lags + 1)));
  };
  const double target = log_steps(c.bptt_horizon);
  const auto horizon = [&](const RuleComparison::Row& r) {
    return r.has_horizon ? log_steps(r.horizon) : 0.0;
  };
  const auto [least, most] = range_of(c, target, horizon);
  Panel::Axis axis{"Horizon: steps back, the line is BPTT", least - 0.4, most + 0.5, {}, target};
  for (int p = 0; p < 21; ++p)
    if (const auto steps = std::int64_t{1} << p; steps <= c.lags && p > axis.bottom && p < axis.top)
      axis.ticks.emplace_back(p, std::to_string(steps));
  return Panel(c, axis, horizon).svg();
}

// The frontier in words, numbered as in the plots, with every parameter.
std::string frontier_list(const RuleComparison& c) {
  std::string out = "<ol class=\"best\">\n";
  for (const std::size_t i : c.frontier()) {
    const RuleComparison::Row& r = c.rows[i];
    std::string parameters;
    for (const RuleComparison::Parameter& p : r.parameters)
      parameters += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
                                escape_html(p.name), cosine_text(p.cosine), ratio_text(p.norm_ratio),
                                r.has_horizon ? escape_html(horizon_text(c, p.horizon)) : "-");
    out += fmt::format(
        "<li><details><summary>{}</summary><table class=\"parameters\"><thead><tr><th>parameter</th>"
        "<th>cosine</th><th>ratio</th><th>horizon</th></tr></thead><tbody>{}</tbody></table></details></"
        "li>\n",
        escape_html(row_words(c, r)), parameters);
  }
  return out + "</ol>";
}

std::string number_cell(std::string_view label, std::string_view text) {
  return page::cell(label, text, "num");
}

std::string rows_of(const RuleComparison& c) {
  std::string out;
  for (const RuleComparison::Row& r : c.rows)
    out += fmt::format(
        "<tr role=\"row\"{}>{}{}{}{}{}{}{}{}{}</tr>\n", r.best ? " class=\"best\"" : "",
        page::row_header(escape_html(r.rule) +
                         (r.best ? " " + page::tag("exact", "best for its memory") : "")),
        number_cell("window", mode_text(r.window)), number_cell("traces", bytes_text(r.traces)),
        number_cell("working", bytes_text(r.working)),
        number_cell("µs per step", microseconds_text(r.seconds)),
        number_cell("cosine", cosine_text(r.cosine) +
                                  (c.draws > 1 ? fmt::format(" <span class=\"sub\">±\u00a0{}</span>",
                                                             cosine_text(r.deviation))
                                               : std::string())),
        number_cell("lowest", fmt::format("{} <span class=\"sub\">{}</span>", cosine_text(r.lowest_cosine),
                                          escape_html(r.lowest))),
        number_cell("norm ratio", ratio_text(r.norm_ratio)),
        number_cell("horizon", escape_html(horizon_text(c, r))));
  return out;
}

std::string list_of(const std::vector<RuleComparison::Refused>& list) {
  std::string out = "<ul class=\"refused\">\n";
  for (const RuleComparison::Refused& r : list)
    out += fmt::format("<li><strong>{}</strong>{}: {}</li>\n", escape_html(r.rule),
                       r.where.empty() ? "" : " in " + r.where, escape_html(r.reason));
  return out + "</ul>";
}

std::string part(std::string_view id, std::string_view title, std::string_view note, std::string_view body) {
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n<p "
      "class=\"note\">{2}</p>\n{3}\n</section>\n",
      id, title, note, body);
}

}  // namespace

std::string RuleComparison::to_html() const {
  const std::string title = escape_html(model.empty() ? "model" : model);
  std::string plots = distance_panel(*this) + direction_panel(*this) + size_panel(*this);
  if (lags > 0) plots += horizon_panel(*this);
  std::string body =
      part("frontier", "What memory buys",
           "Each point is a rule in one way of running it; hover for its numbers. Those with a number are "
           "best for "
           "their memory: nothing with as little is as close to BPTT. The distance is 1 − cosine + 0.1 |ln "
           "norm ratio| "
           "+ 0.1 |ln of the horizon over BPTT’s|; its parts stand beside it. Memory is what is kept from "
           "step to step, "
           "and what one window (in single steps: one step) needs beside.",
           "<figure><div class=\"panels\">" + plots + "</div>" + frontier_list(*this) + "</figure>");
  std::vector<std::string> without;
  for (const LeftOut& l : left_out) without.push_back(fmt::format("{} ({})", l.parameter, l.reason));
  body += part(
      "rules", "All rules",
      fmt::format(
          "Cosine: the mean over parameters, which count alike, and its deviation over {}; norm ratio and "
          "horizon (steps back that hold 90 % of the last step’s credit; that of BPTT is {}) are medians. "
          "Judged: {}.{}",
          counted(static_cast<std::size_t>(draws), "draw"), escape_html(horizon_text(*this, bptt_horizon)),
          escape_html(short_list(judged, 24)),
          without.empty() ? "" : escape_html(fmt::format(" Left out: {}.", short_list(without, 12)))),
      page::table(
          "Rules",
          {"Rule", "Window", "Traces", "Working", "µs per step", "Cosine", "Lowest", "Norm ratio", "Horizon"},
          rows_of(*this)));
  if (!not_measured.empty())
    body += part("unmeasured", "Not measured", "For want of time.", list_of(not_measured));
  body += part("refused", "Refused", "Rules, or ways of running them, that this model does not allow.",
               refused.empty() ? "<p>None: every rule runs on this model.</p>" : list_of(refused));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"etrace {0}\">\n<title>{1} · learning rules · etrace</title>\n"
      "<style>{2}{3}</style>\n</head>\n<body>\n<header>\n<p class=\"kicker\">Learning rules compared</p>\n"
      "<h1>{1}</h1>\n<p class=\"sub\">{4} · {5} · {6} · {7}</p>\n</header>\n<main>\n{8}</main>\n"
      "<footer>Written by etrace {0}. This page loads nothing from elsewhere.</footer>\n</body>\n</html>\n",
      version(), title, kExplainStyle, kCompareStyle, counted(static_cast<std::size_t>(steps), "step"),
      counted(static_cast<std::size_t>(draws), "draw"), etrace::name(dtype), escape_html(backend), body);
}

}  // namespace etrace
