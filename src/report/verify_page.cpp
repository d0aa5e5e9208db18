// A VerifyReport as one page that loads nothing and runs no script: a table of all parameters, and for each a
// plot of the deviation by window length and one of the credit by lag. Every text that comes from the model
// passes through escape_html.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "etrace/version.h"
#include "report/explain_drawing.h"
#include "report/page_parts.h"
#include "report/web/explain_style.h"
#include "report/web/verify_style.h"
#include "verify/verify_words.h"

namespace etrace {

namespace {

using page::row_header, page::table, page::tag;

std::string cell(std::string_view label, std::string_view inner) { return page::cell(label, inner, "num"); }

std::string_view css_of(Verdict v) { return v == Verdict::NotAlive ? "dead" : name(v); }
std::string expectation_tag(const VerifyReport::Leaf& leaf) {
  const bool broken = std::any_of(leaf.measures.begin(), leaf.measures.end(),
                                  [](const auto& m) { return m.verdict == Verdict::Broken; });
  if (broken) return tag("broken", "must be exact, is not");
  if (!leaf.alive) return tag("dead", "not alive");
  const Expectation e = leaf.expected.single_step.expectation;
  return tag(e == Expectation::Exact         ? "exact"
             : e == Expectation::NoStatement ? "none"
                                             : "approximate",
             name(e));
}

// Plots -----------------------------------------------------------------------------------------------------
// Numbers that an axis can begin and end with: 1, 2 and 5 times a power of ten.
struct RoundNumber {
  int digit = 1, power = 0;
  double value() const { return digit * std::pow(10.0, power); }
  std::string text() const {
    return power >= -3 && power <= 2 ? fmt::format("{:g}", value()) : fmt::format("{}e{}", digit, power);
  }
  RoundNumber next() const {
    return digit == 1   ? RoundNumber{2, power}
           : digit == 2 ? RoundNumber{5, power}
                        : RoundNumber{1, power + 1};
  }
  // The largest that is not above x > 0.
  static RoundNumber below(double x) {
    RoundNumber r{1, static_cast<int>(std::floor(std::log10(x) + 1e-9)) - 1};
    while (r.next().value() <= x * (1.0 + 1e-9)) r = r.next();
    return r;
  }
};

// A frame with a logarithmic axis upwards; x is the position among equally spaced entries. What is too small
// for the axis, zero above all, has a place of its own below it.
class LogPlot {
 public:
  // The axis covers at least a decade. `floor` is the label of the place below it; empty: there is none.
  LogPlot(double low, double high, std::string floor, std::size_t entries)
      : floor_(std::move(floor)), entries_(entries) {
    RoundNumber top = RoundNumber::below(high);
    while (top.value() < high) top = top.next();
    const RoundNumber bottom = RoundNumber::below(std::min(low, top.value() / 10.0));
    low_ = std::log10(bottom.value());
    high_ = std::log10(top.value());
    const double decades = high_ - low_;
    const int every = static_cast<int>(std::max(1.0, std::ceil(decades / 6.0)));
    for (RoundNumber r = bottom; r.value() <= top.value() * 1.0001; r = r.next())
      if (decades < 2.1 || (r.digit == 1 && (top.power - r.power) % every == 0)) grid(y(r.value()), r.text());
    if (!floor_.empty()) grid(kFloor, floor_);
  }

  void tick(std::size_t i, std::string_view label) {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>", x(i),
                         kHeight - kBottom + 17, label);
  }
  void axis(std::string_view label) {
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kWidth - kRight,
                         kHeight - 3, label);
  }
  void limit(double value, std::string_view label) {
    body_ += fmt::format(
        "<path class=\"limit\" d=\"M{} {:.1f}H{}\"/><text class=\"limit\" x=\"{}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{}</text>",
        kLeft, y(value), kWidth - kRight, kWidth - kRight, y(value) - 4.0, label);
  }
  void line(std::string_view css, const std::vector<double>& values) {
    std::string d;
    for (std::size_t i = 0; i < values.size(); ++i)
      d += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x(i), y(values[i]));
    body_ += fmt::format("<path class=\"line {}\" d=\"{}\"/>", css, d);
  }
  void point(std::string_view css, std::size_t i, double value, std::string_view title) {
    body_ += fmt::format(
        "<circle class=\"point {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.2\"><title>{}</title></circle>", css,
        x(i), y(value), title);
  }
  std::string svg(std::string_view label) const {
    return fmt::format("<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{}</svg>",
                       kWidth, kHeight, label, body_);
  }

 private:
  static constexpr int kWidth = 360, kHeight = 200, kLeft = 44, kRight = 10, kTop = 12, kBottom = 40;
  static constexpr double kFloor = kHeight - kBottom - 6.0, kFloorGap = 24.0;

  void grid(double at, std::string_view label) {
    body_ += fmt::format(
        "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
        kLeft, at, kWidth - kRight, kLeft - 6, at + 4.0, label);
  }
  double x(std::size_t i) const {
    constexpr double kInset = 14.0;
    const double room = kWidth - kLeft - kRight - 2.0 * kInset;
    if (entries_ < 2) return kLeft + kInset + room / 2.0;
    return kLeft + kInset + room * static_cast<double>(i) / static_cast<double>(entries_ - 1);
  }
  double y(double value) const {
    const double bottom = floor_.empty() ? kHeight - kBottom : kFloor - kFloorGap;
    const double d = value > 0.0 ? std::log10(value) : low_ - 1.0;
    if (d < low_ - 1e-6) return floor_.empty() ? bottom : kFloor;
    return kTop + (bottom - kTop) * (high_ - std::min(d, high_)) / (high_ - low_);
  }

  std::string floor_;
  double low_ = 0.0, high_ = 0.0;
  std::size_t entries_;
  std::string body_;
};

constexpr double kRoundOff = 1e-17;

std::string deviation_plot(const VerifyReport& r, const VerifyReport::Leaf& leaf) {
  // The axis goes down to round-off where something is exact. The whole sequence in one window is that
  // always, and does not count: alone, it stands below the axis.
  double most = 0.0, least = std::numeric_limits<double>::infinity();
  bool some_zero = false;
  std::vector<double> values;
  for (const VerifyReport::Measure& m : leaf.measures) {
    values.push_back(m.deviation);
    some_zero = some_zero || m.deviation == 0.0;
    if (m.window >= r.steps) continue;
    if (std::isfinite(m.deviation)) most = std::max(most, m.deviation);
    if (m.deviation > 0.0) least = std::min(least, m.deviation);
    if (m.deviation < r.tolerance) least = std::min(least, kRoundOff);
  }
  const bool some_exact = least < r.tolerance;
  const bool some_below = std::any_of(values.begin(), values.end(), [&](double v) { return v < least; });
  most = std::max(most, some_exact || !std::isfinite(least) ? 1.0 : least);
  LogPlot plot(std::min(least, most), most, some_exact ? (some_zero ? "0" : "") : (some_below ? "exact" : ""),
               values.size());
  if (some_exact) plot.limit(r.tolerance, "exact below");
  plot.line("deviation", values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const VerifyReport::Measure& m = leaf.measures[i];
    plot.tick(i, m.window == 0 ? "single" : std::to_string(m.window));
    plot.point(css_of(m.verdict), i, values[i],
               fmt::format("{}: {}, {}", window_text(m.window), scientific(m.deviation), name(m.verdict)));
  }
  plot.axis("steps per window");
  return fmt::format("<figure><figcaption>Deviation from BPTT, ‖a − b‖ / ‖b‖</figcaption>{}</figure>",
                     plot.svg("Relative deviation by window length"));
}

std::string credit_plot(const VerifyReport::Leaf& leaf) {
  constexpr double kRange = 1e-6;  // credit below this share of the largest stands below the axis
  std::vector<double> bptt, online;
  double most = 0.0;
  for (const VerifyReport::Lag& l : leaf.credit) {
    bptt.push_back(l.bptt);
    online.push_back(l.online);
    most = std::max({most, l.bptt, l.online});
  }
  if (most == 0.0 || !std::isfinite(most)) return "";
  double least = most;
  bool some_zero = false, some_tiny = false;
  for (const std::vector<double>* values : {&bptt, &online})
    for (const double v : *values) {
      if (v >= kRange * most) least = std::min(least, v);
      some_zero = some_zero || v == 0.0;
      some_tiny = some_tiny || (v > 0.0 && v < kRange * most);
    }
  LogPlot plot(least, most, some_tiny ? "≈0" : some_zero ? "0" : "", bptt.size());
  const std::size_t every = std::max<std::size_t>(1, (bptt.size() + 7) / 8);
  for (std::size_t i = 0; i < bptt.size(); i += every) plot.tick(i, std::to_string(i));
  plot.axis("lag: steps back from the last loss");
  plot.line("bptt", bptt);
  plot.line("online", online);
  for (std::size_t i = 0; i < bptt.size(); ++i) {
    plot.point("bptt", i, bptt[i], fmt::format("lag {}: BPTT {}", i, scientific(bptt[i])));
    plot.point("online", i, online[i], fmt::format("lag {}: online {}", i, scientific(online[i])));
  }
  const auto key = [](std::string_view css, std::string_view text) {
    return fmt::format(
        "<li><svg viewBox=\"0 0 22 10\" class=\"plot\" aria-hidden=\"true\"><path class=\"line {0}\" d=\"M0 "
        "5H22\"/>"
        "<circle class=\"point {0}\" cx=\"11\" cy=\"5\" r=\"3.2\"/></svg>{1}</li>",
        css, text);
  };
  return fmt::format(
      "<figure><figcaption>Credit of the last step’s loss by lag, norm</figcaption>{}<ul "
      "class=\"key\">{}{}</ul></figure>",
      plot.svg("Credit by lag, BPTT and online"), key("bptt", "BPTT"), key("online", "online"));
}

// Parts -----------------------------------------------------------------------------------------------------
std::string measures_table(const VerifyReport::Leaf& leaf) {
  std::string rows;
  for (const VerifyReport::Measure& m : leaf.measures)
    rows += fmt::format("<tr role=\"row\">{}{}{}{}{}{}</tr>", row_header(window_text(m.window)),
                        cell("deviation", scientific(m.deviation)), cell("cosine", share_text(m.cosine)),
                        cell("norm ratio", share_text(m.norm_ratio)),
                        cell("signs", share_text(m.sign_agreement)), cell("verdict", name(m.verdict)));
  return "<details><summary>All numbers</summary>" +
         table("Measures", {"Mode", "Deviation", "Cosine", "Norm ratio", "Signs", "Verdict"}, rows) +
         "</details>";
}

// What theory expects, each text once: many parameters share theirs.
class Reasons {
 public:
  explicit Reasons(const VerifyReport& r) {
    for (const VerifyReport::Leaf& leaf : r.leaves) {
      add(leaf.expected.single_step);
      add(leaf.expected.windows);
    }
  }
  // "Expected: approximate, for reason 2"
  std::string text(const VerifyReport::Leaf& leaf) const {
    const ExpectedGradient &one = leaf.expected.single_step, &many = leaf.expected.windows;
    if (one.reason == many.reason && one.expectation == many.expectation)
      return fmt::format("<p>Expected: {}.</p>", phrase(one));
    return fmt::format("<p>Expected in single steps: {}. In windows: {}.</p>", phrase(one), phrase(many));
  }
  std::string list() const {
    std::string items;
    for (std::size_t i = 0; i < texts_.size(); ++i)
      items += fmt::format("<li id=\"reason-{}\">{}</li>\n", i + 1, escape_html(texts_[i]));
    return "<ol class=\"reasons\">\n" + items + "</ol>";
  }

 private:
  void add(const ExpectedGradient& e) {
    if (numbers_.emplace(e.reason, texts_.size() + 1).second) texts_.push_back(e.reason);
  }
  std::string phrase(const ExpectedGradient& e) const {
    return fmt::format("{0}, <a href=\"#reason-{1}\">reason {1}</a>", name(e.expectation),
                       numbers_.at(e.reason));
  }
  std::vector<std::string> texts_;
  std::map<std::string, std::size_t> numbers_;
};

std::string oracle_text(const VerifyReport::Leaf& leaf) {
  std::string out;
  if (leaf.finite_differences)
    out += fmt::format("<p class=\"sub\">BPTT deviates from central differences by {}.</p>",
                       scientific(*leaf.finite_differences));
  if (leaf.full_rtrl)
    out +=
        fmt::format("<p class=\"sub\">BPTT deviates from full RTRL by {}.</p>", scientific(*leaf.full_rtrl));
  return out;
}

std::string parameter_card(const VerifyReport& r, const Reasons& reasons, std::size_t i) {
  const VerifyReport::Leaf& leaf = r.leaves[i];
  std::string out = fmt::format("<article id=\"parameter-{}\"><h3>{} {}</h3>{}", i,
                                escape_html(to_string(leaf.id)), expectation_tag(leaf), reasons.text(leaf));
  if (!leaf.alive)
    out +=
        "<p class=\"todo\">The gradient of BPTT is zero here, so nothing was tested. Other inputs, a longer "
        "sequence or other initial values may bring it to life.</p>";
  return out + oracle_text(leaf) + "<div class=\"plots\">" + deviation_plot(r, leaf) + credit_plot(leaf) +
         "</div>" + measures_table(leaf) + "</article>\n";
}

std::string overview(const VerifyReport& r) {
  std::string rows;
  for (std::size_t i = 0; i < r.leaves.size(); ++i) {
    const VerifyReport::Leaf& leaf = r.leaves[i];
    if (leaf.measures.empty()) continue;
    const VerifyReport::Measure& m = leaf.measures.front();
    rows +=
        fmt::format("<tr role=\"row\">{}{}{}{}{}{}{}</tr>\n",
                    row_header(fmt::format("<a href=\"#parameter-{}\"><code>{}</code></a>", i,
                                           escape_html(to_string(leaf.id)))),
                    cell("expected", expectation_tag(leaf)), cell("‖BPTT‖", scientific(leaf.norm)),
                    cell("deviation", scientific(m.deviation)), cell("cosine", share_text(m.cosine)),
                    cell("norm ratio", share_text(m.norm_ratio)),
                    cell("horizon", fmt::format("{} / {}", escape_html(horizon_text(leaf, leaf.bptt_horizon)),
                                                escape_html(horizon_text(leaf, leaf.online_horizon)))));
  }
  return table(
      "Parameters",
      {"Parameter", "Expected", "‖BPTT‖", "Deviation", "Cosine", "Norm ratio", "Horizon, BPTT / online"},
      rows);
}

std::string verdict(const VerifyReport& r) {
  const std::vector<std::string> failures = r.failures();
  std::string list;
  for (const std::string& f : failures) list += fmt::format("<li>{}</li>", escape_html(f));
  return fmt::format("<div class=\"verdict{}\"><p class=\"lead\">{}</p>{}</div>",
                     failures.empty() ? "" : " broken", escape_html(summary_text(r)),
                     list.empty() ? "" : "<ul>" + list + "</ul>");
}

std::string section(std::string_view id, std::string_view title, std::string_view note,
                    std::string_view body) {
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n<p "
      "class=\"note\">{2}</p>\n{3}\n"
      "</section>\n",
      id, title, note, body);
}

}  // namespace

std::string VerifyReport::to_html() const {
  const std::string title = escape_html(model.empty() ? "model" : model);
  const Reasons reasons(*this);
  std::string cards;
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (!leaves[i].measures.empty()) cards += parameter_card(*this, reasons, i);
  std::string body = section("overview", "All parameters",
                             "Single steps: reverse mode through the step of every loss, and traces for all "
                             "before it. The horizon is the number of steps back, the last included, "
                             "that hold the gradient of the last step’s loss up to 10 %.",
                             overview(*this));
  body += section("reasons", "What theory expects",
                  "Why a gradient must be exact, or cannot be; parameters refer to these by number.",
                  reasons.list());
  body += section(
      "parameters", "One by one",
      fmt::format(
          "In windows the rule works at the borders alone, and reverse mode inside: a window of all {} "
          "steps is BPTT for every rule. What is too small for an axis, such as zero, has a place below it.",
          steps),
      "<div class=\"parameters\">\n" + cards + "</div>");
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"etrace {0}\">\n<title>{1} · gradient check · etrace</title>\n"
      "<style>{2}{3}</style>\n</head>\n<body>\n<header>\n<p class=\"kicker\">Gradient fidelity and credit "
      "horizon</p>\n"
      "<h1>{1}</h1>\n<p class=\"sub\">{4} · {5} steps · {6} · summed loss "
      "{7:.6g}</p>\n{8}\n</header>\n<main>\n{9}</main>\n"
      "<footer>Written by etrace {0}. This page loads nothing from elsewhere.</footer>\n</body>\n</html>\n",
      version(), title, kExplainStyle, kVerifyStyle, escape_html(rule), steps, etrace::name(dtype), loss,
      verdict(*this), body);
}

}  // namespace etrace
