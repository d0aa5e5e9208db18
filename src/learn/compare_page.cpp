// A RuleComparison as one page that loads nothing and runs no script: memory against closeness to BPTT, with
// the frontier, and the table. Every text that comes from the model passes through escape_html.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/explain_drawing.h"
#include "compiler/explain_text.h"
#include "compiler/page_parts.h"
#include "compiler/web/explain_style.h"
#include "etrace/compare_rules.h"
#include "etrace/version.h"
#include "learn/compare_words.h"
#include "learn/verify_words.h"
#include "learn/web/compare_style.h"

namespace etrace {

namespace {

// Bytes to the right and 1 − cosine downwards, both logarithmic: every line of the grid that a point is
// higher halves, or divides by ten, what is missing.
class MemoryPlot {
 public:
  explicit MemoryPlot(const RuleComparison& c) : c_(c) {
    double least = 1e300, most = 1.0, nearest = 1.0, farthest = kExact;
    for (const RuleComparison::Row& r : c.rows) {
      least = std::min(least, bytes(r));
      most = std::max(most, bytes(r));
      nearest = std::min(nearest, missing(r));
      farthest = std::max(farthest, missing(r));
    }
    left_ = std::log2(least) - 0.4;
    right_ = std::max(std::log2(most) + 0.4, left_ + 1.0);
    top_ = std::log10(nearest) - 0.3;
    bottom_ = std::max(std::log10(farthest) + 0.2, top_ + 1.0);
    grid();
    line();
    for (const RuleComparison::Row& r : c.rows)
      if (!r.best) point(r, 0);
    const std::vector<std::size_t> best = c.frontier();
    for (std::size_t i = 0; i < best.size(); ++i) point(c.rows[best[i]], i + 1);
  }

  std::string svg() const {
    return fmt::format(
        "<svg class=\"frontier\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Closeness to BPTT against "
        "memory\">{}</svg>",
        kWidth, kHeight, body_);
  }

 private:
  static constexpr double kWidth = 860, kHeight = 440, kLeft = 62, kRight = 16, kTop = 16, kBottom = 48;
  static constexpr double kExact = 1e-9;  // what is nearer counts as this

  static double bytes(const RuleComparison::Row& r) {
    return static_cast<double>(std::max<std::int64_t>(r.bytes(), 1));
  }
  static double missing(const RuleComparison::Row& r) {
    return std::isnan(r.agreement.cosine) ? 1.0 : std::max(1.0 - r.agreement.cosine, kExact);
  }
  double x(double b) const {
    return kLeft + (std::log2(b) - left_) / (right_ - left_) * (kWidth - kLeft - kRight);
  }
  double y(double m) const {
    return kTop + (std::log10(m) - top_) / (bottom_ - top_) * (kHeight - kTop - kBottom);
  }

  void grid() {
    const bool fine = bottom_ - top_ < 2.5;
    for (int p = static_cast<int>(std::floor(top_)); p <= static_cast<int>(std::ceil(bottom_)); ++p)
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double m = digit * std::pow(10.0, p);
        if ((digit != 1.0 && !fine) || std::log10(m) < top_ || std::log10(m) > bottom_) continue;
        body_ += fmt::format(
            "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text x=\"{}\" y=\"{:.1f}\" "
            "text-anchor=\"end\">{}</text>",
            kLeft, y(m), kWidth - kRight, kLeft - 8, y(m) + 4,
            m <= kExact ? "exact" : fmt::format("{:g}", m));
      }
    const int every = static_cast<int>(std::max(1.0, std::ceil((right_ - left_) / 10.0)));
    for (int p = static_cast<int>(std::ceil(left_)); p <= right_; ++p)
      if (p % every == 0)
        body_ += fmt::format(
            "<path class=\"grid\" d=\"M{0:.1f} {1}V{2}\"/><text x=\"{0:.1f}\" y=\"{3}\" "
            "text-anchor=\"middle\">{4}</text>",
            x(std::exp2(p)), kTop, kHeight - kBottom, kHeight - kBottom + 18,
            bytes_text(std::int64_t{1} << std::min(p, 62)));
    body_ += fmt::format(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">traces and working memory of a window</text>"
        "<text x=\"{}\" y=\"{}\">1 − cosine to BPTT; higher is closer</text>",
        kWidth - kRight, kHeight - 8, 4, kHeight - 8);
  }

  // Steps: until the next point, more memory buys nothing.
  void line() {
    std::string path;
    for (const std::size_t i : c_.frontier()) {
      const RuleComparison::Row& r = c_.rows[i];
      path += path.empty() ? fmt::format("M{:.1f} {:.1f}", x(bytes(r)), y(missing(r)))
                           : fmt::format("H{:.1f}V{:.1f}", x(bytes(r)), y(missing(r)));
    }
    if (!path.empty()) body_ += fmt::format("<path class=\"edge\" d=\"{}H{}\"/>", path, kWidth - kRight);
  }

  // number: its place on the frontier; 0: it is not on it.
  void point(const RuleComparison::Row& r, std::size_t number) {
    body_ += fmt::format(
        "<circle class=\"point{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}, {}: cosine {}, {}, {} "
        "µs per step</title></circle>",
        number > 0 ? " best" : "", x(bytes(r)), y(missing(r)), number > 0 ? 9 : 4, escape_html(r.rule),
        window_text(r.window), share_text(r.agreement.cosine), bytes_text(r.bytes()),
        microseconds_text(r.seconds));
    if (number > 0)
      body_ +=
          fmt::format("<text class=\"number\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                      x(bytes(r)), y(missing(r)) + 4, number);
  }

  const RuleComparison& c_;
  double left_ = 0.0, right_ = 1.0, top_ = 0.0, bottom_ = 1.0;
  std::string body_;
};

// The frontier in words, numbered as in the plot.
std::string frontier_list(const RuleComparison& c) {
  std::string out = "<ol class=\"best\">\n";
  for (const std::size_t i : c.frontier()) {
    const RuleComparison::Row& r = c.rows[i];
    out += fmt::format("<li><strong>{}</strong>, {}: cosine {}, {}, {} µs per step</li>\n",
                       escape_html(r.rule), window_text(r.window), share_text(r.agreement.cosine),
                       bytes_text(r.bytes()), microseconds_text(r.seconds));
  }
  return out + "</ol>";
}

std::string number_cell(std::string_view label, std::string_view text) {
  return page::cell(label, text, "num");
}

std::string rows_of(const RuleComparison& c) {
  std::string out;
  for (const RuleComparison::Row& r : c.rows)
    out +=
        fmt::format("<tr role=\"row\"{}>{}{}{}{}{}{}{}{}{}</tr>\n", r.best ? " class=\"best\"" : "",
                    page::row_header(escape_html(r.rule) +
                                     (r.best ? " " + page::tag("exact", "best for its memory") : "")),
                    number_cell("window", mode_text(r.window)), number_cell("traces", bytes_text(r.traces)),
                    number_cell("working", bytes_text(r.working)),
                    number_cell("µs per step", microseconds_text(r.seconds)),
                    number_cell("cosine", share_text(r.agreement.cosine)),
                    number_cell("lowest", fmt::format("{} <span class=\"sub\">{}</span>",
                                                      share_text(r.lowest_cosine), escape_html(r.lowest))),
                    number_cell("norm ratio", share_text(r.agreement.norm_ratio)),
                    number_cell("horizon", escape_html(horizon_text(c, r.horizon))));
  return out;
}

std::string refusals_of(const RuleComparison& c) {
  if (c.refused.empty()) return "<p>None: every rule runs on this model.</p>";
  std::string out = "<ul class=\"refused\">\n";
  for (const RuleComparison::Refused& r : c.refused)
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
  std::string body = part(
      "frontier", "What memory buys",
      "Each point is a rule in one way of running it; hover for its numbers. On the line, nothing with as "
      "little memory comes closer to BPTT; those points have a number. Memory is what is kept from step to "
      "step, and what one window "
      "(in single steps: one step) needs beside.",
      "<figure>" + MemoryPlot(*this).svg() + frontier_list(*this) + "</figure>");
  body += part(
      "rules", "All rules",
      fmt::format("Cosine and norm ratio are over the parameters whose credit passes through time: {}. "
                  "The horizon is the number of steps back that hold 90 % of the last step’s credit; "
                  "that of BPTT is {}.",
                  escape_html(short_list(judged, 24)), escape_html(horizon_text(*this, bptt_horizon))),
      page::table(
          "Rules",
          {"Rule", "Window", "Traces", "Working", "µs per step", "Cosine", "Lowest", "Norm ratio", "Horizon"},
          rows_of(*this)));
  body += part("refused", "Refused", "Rules, or ways of running them, that this model does not allow.",
               refusals_of(*this));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"etrace {0}\">\n<title>{1} · learning rules · etrace</title>\n"
      "<style>{2}{3}</style>\n</head>\n<body>\n<header>\n<p class=\"kicker\">Learning rules compared</p>\n"
      "<h1>{1}</h1>\n<p class=\"sub\">{4} steps · {5} · {6}</p>\n</header>\n<main>\n{7}</main>\n"
      "<footer>Written by etrace {0}. This page loads nothing from elsewhere.</footer>\n</body>\n</html>\n",
      version(), title, kExplainStyle, kCompareStyle, steps, etrace::name(dtype), escape_html(backend), body);
}

}  // namespace etrace
