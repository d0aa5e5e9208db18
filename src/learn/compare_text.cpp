// A RuleComparison for the terminal and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/explain_text.h"
#include "etrace/compare_rules.h"
#include "learn/compare_words.h"
#include "learn/verify_words.h"

namespace etrace {

std::string mode_text(std::int64_t window) { return window == 0 ? "single" : std::to_string(window); }

std::string horizon_text(const RuleComparison& c, const std::optional<std::int64_t>& horizon) {
  if (c.lags == 0) return "-";
  return horizon ? std::to_string(*horizon) : fmt::format("> {}", c.lags);
}

std::string microseconds_text(double seconds) {
  const double us = seconds * 1e6;
  return us < 100.0 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

namespace {

constexpr std::size_t kRuleColumns = 30;

std::string comparison_line(std::string_view mark, std::string_view rule, std::string_view window,
                            std::string_view traces, std::string_view working, std::string_view time,
                            std::string_view cosine, std::string_view lowest, std::string_view ratio,
                            std::string_view horizon) {
  return fmt::format("{:<2}{:<{}} {:>6} {:>9} {:>9} {:>8} {:>7} {:>7} {:>7} {:>7}\n", mark, rule,
                     kRuleColumns, window, traces, working, time, cosine, lowest, ratio, horizon);
}

std::string comparison_table(const RuleComparison& c) {
  std::string out = comparison_line("", "rule", "window", "traces", "working", "us/step", "cosine", "lowest",
                                    "ratio", "horizon");
  for (const RuleComparison::Row& r : c.rows)
    out += comparison_line(r.best ? "*" : "", shortened(r.rule, kRuleColumns), mode_text(r.window),
                           bytes_text(r.traces), bytes_text(r.working), microseconds_text(r.seconds),
                           share_text(r.agreement.cosine), share_text(r.lowest_cosine),
                           share_text(r.agreement.norm_ratio), horizon_text(c, r.horizon));
  return out;
}

}  // namespace

std::string RuleComparison::to_string() const {
  std::string out = fmt::format("{}: {} {}, {}, {}\n\n", model.empty() ? "model" : model, steps,
                                steps == 1 ? "step" : "steps", etrace::name(dtype), backend);
  out += comparison_table(*this);
  out += "\n" + wrapped_text("* nothing with as little memory (traces + working) comes closer to BPTT", 2);
  out += wrapped_text(
      "window: steps that reverse mode runs through, with the trace at the border; single: every step's loss "
      "meets the trace. traces: kept from step to step. working: what one window needs beside; single steps: "
      "one step. cosine and ratio of the norms: of the gradient to that of BPTT, over the parameters below; "
      "lowest: the worst of them. horizon: steps back that hold 90 % of the last step's credit.",
      2);
  out += wrapped_text(fmt::format("BPTT's own horizon: {}. Judged: {}.", horizon_text(*this, bptt_horizon),
                                  short_list(judged, 24)),
                      2);
  if (!refused.empty()) out += "\nRefused\n";
  for (const Refused& r : refused)
    out +=
        wrapped_text(fmt::format("{}{}: {}", r.rule, r.where.empty() ? "" : " in " + r.where, r.reason), 2);
  return out;
}

// JSON ------------------------------------------------------------------------------------------------------
std::string RuleComparison::to_json() const {
  using Json = nlohmann::ordered_json;
  const auto number = [](double x) { return std::isfinite(x) ? Json(x) : Json(); };
  const auto optional = [](const std::optional<std::int64_t>& x) { return x ? Json(*x) : Json(); };
  Json out{{"format", "etrace.rules"}, {"version", 1},     {"model", model},
           {"steps", steps},           {"lags", lags},     {"dtype", etrace::name(dtype)},
           {"backend", backend},       {"judged", judged}, {"bptt_horizon", optional(bptt_horizon)}};
  out["rows"] = Json::array();
  for (const Row& r : rows)
    out["rows"].push_back({{"rule", r.rule},
                           {"method", name(r.window == 0 ? VjpMethod::SingleStep : VjpMethod::MultiStep)},
                           {"window", r.window == 0 ? Json() : Json(r.window)},
                           {"trace_bytes", r.traces},
                           {"working_bytes", r.working},
                           {"seconds_per_step", number(r.seconds)},
                           {"cosine", number(r.agreement.cosine)},
                           {"norm_ratio", number(r.agreement.norm_ratio)},
                           {"deviation", number(r.agreement.deviation)},
                           {"lowest_cosine", number(r.lowest_cosine)},
                           {"lowest", r.lowest},
                           {"horizon", optional(r.horizon)},
                           {"best", r.best}});
  out["refused"] = Json::array();
  for (const Refused& r : refused)
    out["refused"].push_back(
        {{"rule", r.rule}, {"where", r.where.empty() ? Json() : Json(r.where)}, {"reason", r.reason}});
  return out.dump(2) + "\n";
}

}  // namespace etrace
