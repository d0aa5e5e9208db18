// A RuleComparison for the terminal and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/explain_text.h"
#include "etrace/compare_rules.h"
#include "io/json.h"
#include "verify/compare_words.h"
#include "verify/verify_words.h"

namespace etrace {

std::string mode_text(std::int64_t window) { return window == 0 ? "single" : std::to_string(window); }

std::string horizon_text(const RuleComparison& c, const std::optional<std::int64_t>& horizon) {
  if (c.lags == 0) return "-";
  return horizon ? std::to_string(*horizon) : fmt::format("> {}", c.lags);
}
std::string horizon_text(const RuleComparison& c, const RuleComparison::Row& r) {
  return r.has_horizon ? horizon_text(c, r.horizon) : "-";
}

std::string microseconds_text(double seconds) {
  const double us = seconds * 1e6;
  return us < 100.0 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}
std::string seconds_text(double seconds) {
  return seconds < 1.0 ? fmt::format("{:.2g} s", seconds) : fmt::format("{:.0f} s", seconds);
}
std::string ratio_text(double x) {
  if (std::isnan(x)) return "-";
  return std::abs(x) < 10.0 ? fmt::format("{:.2f}", x) : fmt::format("{:.3g}", x);
}
std::string cosine_text(double x) { return std::isnan(x) ? "-" : fmt::format("{:.3f}", x); }

namespace {

constexpr std::size_t kRuleColumns = 29;

std::string comparison_line(std::string_view rule, std::string_view window, std::string_view traces,
                            std::string_view working, std::string_view time, std::string_view cosine,
                            std::string_view deviation, std::string_view lowest, std::string_view ratio,
                            std::string_view horizon) {
  return fmt::format("  {:<{}} {:>6} {:>8} {:>8} {:>7} {:>6} {:>5} {:>6} {:>6} {:>7}\n", rule, kRuleColumns,
                     window, traces, working, time, cosine, deviation, lowest, ratio, horizon);
}

std::string refused_text(std::string_view title, const std::vector<RuleComparison::Refused>& list) {
  std::string out = list.empty() ? "" : fmt::format("\n{}\n", title);
  for (const RuleComparison::Refused& r : list)
    out +=
        wrapped_text(fmt::format("{}{}: {}", r.rule, r.where.empty() ? "" : " in " + r.where, r.reason), 2);
  return out;
}

}  // namespace

std::string comparison_head(const RuleComparison& c) {
  std::string out =
      fmt::format("{}: {}, {}, {}, {}\n", c.model.empty() ? "model" : c.model,
                  counted(static_cast<std::size_t>(c.steps), "step"),
                  counted(static_cast<std::size_t>(c.draws), "draw"), etrace::name(c.dtype), c.backend);
  out += wrapped_text(fmt::format("Judged: {}.", short_list(c.judged, 24)), 2);
  std::vector<std::string> left_out;
  for (const RuleComparison::LeftOut& l : c.left_out)
    left_out.push_back(fmt::format("{} ({})", l.parameter, l.reason));
  if (!left_out.empty()) out += wrapped_text(fmt::format("Left out: {}.", short_list(left_out, 12)), 2);
  return out + "\n" +
         comparison_line("rule", "window", "traces", "working", "us/step", "cosine", "dev", "lowest", "ratio",
                         "horizon");
}

std::string comparison_row(const RuleComparison& c, const RuleComparison::Row& r) {
  return comparison_line(shortened(r.rule, kRuleColumns), mode_text(r.window), bytes_text(r.traces),
                         bytes_text(r.working), microseconds_text(r.seconds), cosine_text(r.cosine),
                         cosine_text(r.deviation), cosine_text(r.lowest_cosine), ratio_text(r.norm_ratio),
                         horizon_text(c, r));
}

std::string comparison_tail(const RuleComparison& c) {
  std::string out =
      "\n" + wrapped_text(
                 "window: steps that reverse mode runs through, with traces for what lies before "
                 "them; single: each step by itself, with traces for all before it. traces: "
                 "memory that is kept from step to step. working: memory that one window, or "
                 "one single step, needs in addition. cosine: of the angle to BPTT's gradient, "
                 "the mean over parameters, which count alike; dev: its standard deviation "
                 "over the draws; lowest: that of the worst parameter. ratio of the lengths "
                 "and horizon (steps back that hold 90 % of the last step's credit): medians.",
                 2);
  out += wrapped_text(
      fmt::format("BPTT's own horizon: {}. distance: 1 - cosine + 0.1 |ln ratio| + 0.1 |ln of the "
                  "horizon over BPTT's|.",
                  horizon_text(c, c.bptt_horizon)),
      2);
  const std::vector<std::size_t> best = c.frontier();
  if (!best.empty()) out += "\nBest for their memory: nothing with as little is as close to BPTT\n";
  for (std::size_t i = 0; i < best.size(); ++i) {
    const RuleComparison::Row& r = c.rows[best[i]];
    out += fmt::format(
        "{:>4}. {}\n", i + 1,
        wrapped_text(fmt::format("{}, {}: {}, distance {:.3f} (cosine {}, ratio {}, horizon {})", r.rule,
                                 window_text(r.window), bytes_text(r.bytes()), c.distance(r).total(),
                                 cosine_text(r.cosine), ratio_text(r.norm_ratio), horizon_text(c, r)),
                     6)
            .substr(6));
    out.pop_back();
  }
  return out + refused_text("Not measured", c.not_measured) + refused_text("Refused", c.refused);
}

std::string RuleComparison::to_string() const {
  std::string out = comparison_head(*this);
  for (const Row& r : rows) out += comparison_row(*this, r);
  return out + comparison_tail(*this);
}

// Markdown --------------------------------------------------------------------------------------------------
std::string RuleComparison::to_markdown() const {
  std::string out =
      "| rule | window | traces | working | µs per step | cosine | deviation | lowest | norm ratio | horizon "
      "| "
      "distance |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Row& r : rows)
    out += fmt::format("| {0}{1}{0} | {2} | {3} | {4} | {5} | {6} | {7} | {8} | {9} | {10} | {11:.3f} |\n",
                       r.best ? "**" : "", r.rule, mode_text(r.window), bytes_text(r.traces),
                       bytes_text(r.working), microseconds_text(r.seconds), cosine_text(r.cosine),
                       cosine_text(r.deviation), cosine_text(r.lowest_cosine), ratio_text(r.norm_ratio),
                       horizon_text(*this, r), distance(r).total());
  out += fmt::format("\nBPTT's own horizon: {}.", horizon_text(*this, bptt_horizon));
  std::vector<std::string> without;
  for (const LeftOut& l : left_out) without.push_back(fmt::format("{} ({})", l.parameter, l.reason));
  if (!without.empty()) out += fmt::format(" Left out: {}.", fmt::join(without, ", "));
  for (const auto& [title, list] :
       {std::pair("Not measured", &not_measured), std::pair("Refused", &refused)}) {
    std::vector<std::string> names;
    for (const Refused& r : *list) names.push_back(r.rule + (r.where.empty() ? "" : " in " + r.where));
    if (!names.empty()) out += fmt::format(" {}: {}.", title, fmt::join(names, ", "));
  }
  return out + "\n";
}

// JSON ------------------------------------------------------------------------------------------------------
std::string RuleComparison::to_json() const {
  const auto number = [](double x) { return std::isfinite(x) ? OrderedJson(x) : OrderedJson(); };
  const auto optional = [](const std::optional<std::int64_t>& x) {
    return x ? OrderedJson(*x) : OrderedJson();
  };
  const auto listed = [](const std::vector<Refused>& list) {
    OrderedJson out = OrderedJson::array();
    for (const Refused& r : list)
      out.push_back({{"rule", r.rule},
                     {"where", r.where.empty() ? OrderedJson() : OrderedJson(r.where)},
                     {"reason", r.reason}});
    return out;
  };
  OrderedJson out{{"format", "etrace.rules"},
                  {"version", 2},
                  {"model", model},
                  {"steps", steps},
                  {"lags", lags},
                  {"draws", draws},
                  {"dtype", etrace::name(dtype)},
                  {"backend", backend},
                  {"judged", judged}};
  out["left_out"] = OrderedJson::array();
  for (const LeftOut& l : left_out)
    out["left_out"].push_back({{"parameter", l.parameter}, {"reason", l.reason}});
  out["bptt_horizon"] = optional(bptt_horizon);
  out["rows"] = OrderedJson::array();
  for (const Row& r : rows) {
    OrderedJson parameters = OrderedJson::array();
    for (const Parameter& p : r.parameters)
      parameters.push_back({{"name", p.name},
                            {"cosine", number(p.cosine)},
                            {"norm_ratio", number(p.norm_ratio)},
                            {"horizon", r.has_horizon ? optional(p.horizon) : OrderedJson()}});
    const Distance d = distance(r);
    out["rows"].push_back({{"rule", r.rule},
                           {"method", name(r.window == 0 ? VjpMethod::SingleStep : VjpMethod::MultiStep)},
                           {"window", r.window == 0 ? OrderedJson() : OrderedJson(r.window)},
                           {"draws", r.draws},
                           {"trace_bytes", r.traces},
                           {"working_bytes", r.working},
                           {"seconds_per_step", number(r.seconds)},
                           {"cosine", number(r.cosine)},
                           {"deviation", number(r.deviation)},
                           {"lowest_cosine", number(r.lowest_cosine)},
                           {"lowest", r.lowest},
                           {"norm_ratio", number(r.norm_ratio)},
                           {"horizon", r.has_horizon ? optional(r.horizon) : OrderedJson()},
                           {"has_horizon", r.has_horizon},
                           {"distance",
                            {{"direction", number(d.direction)},
                             {"size", number(d.size)},
                             {"horizon", number(d.horizon)},
                             {"total", number(d.total())}}},
                           {"best", r.best},
                           {"parameters", std::move(parameters)}});
  }
  out["not_measured"] = listed(not_measured);
  out["refused"] = listed(refused);
  return json_text(out, 2) + "\n";
}

}  // namespace etrace
