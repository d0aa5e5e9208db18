#include "train/page_content.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/memory.h"
#include "compiler/explain_text.h"
#include "etrace/param_values.h"
#include "report/explain_drawing.h"

namespace etrace::train {

namespace {

// "set" stands for many options, each of its name.
std::map<std::string, std::string> by_name(const ConfigItems& items) {
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : items) {
    const std::size_t equals = value.find('=');
    if (key == "set" || key == "rule-option")
      out[key + " " + value.substr(0, equals)] = value.substr(equals + 1);
    else if (key == "layer")
      out[key] += (out[key].empty() ? "" : "; ") + value;
    else
      out[key] = value;
  }
  return out;
}

}  // namespace

RunPage::Picture picture_of(const SeenActivity& seen) {
  constexpr std::int64_t kMostUnits = 128, kMostSteps = 400;
  const std::int64_t units = std::min(seen.units, kMostUnits), steps = std::min(seen.steps, kMostSteps);
  RunPage::Picture out{.title = seen.name,
                       .rows = static_cast<std::size_t>(units),
                       .columns = static_cast<std::size_t>(steps)};
  float low = std::numeric_limits<float>::infinity(), high = -low;
  for (const std::vector<float>& sample : seen.samples) {
    std::vector<float>& shown = out.samples.emplace_back();
    for (std::int64_t u = 0; u < units; ++u) {
      const auto* row = sample.data() + u * seen.units / units * seen.steps;
      for (std::int64_t t = 0; t < steps; ++t) {
        const auto [least, most] =
            std::minmax_element(row + t * seen.steps / steps, row + (t + 1) * seen.steps / steps);
        low = std::min(low, *least);
        high = std::max(high, *most);
        shown.push_back(std::abs(*least) > std::abs(*most) ? *least : *most);
      }
    }
  }
  const std::string of_units = units < seen.units ? fmt::format("{} of {} units", units, seen.units)
                                                  : counted(static_cast<std::size_t>(units), "unit");
  out.text =
      fmt::format("{}{} over {}{}", seen.spikes ? "spikes of " : "", of_units,
                  counted(static_cast<std::size_t>(seen.steps), "step"),
                  seen.spikes || !(low <= high) ? "" : fmt::format(", from {:.3g} to {:.3g}", low, high));
  return out;
}

std::vector<WeightSpread> weight_spreads(const Module& module) {
  constexpr std::size_t kParts = 40, kMost = 1'000'000;
  std::vector<WeightSpread> out;
  const ParamValues params = param_values(module);
  for (std::size_t i = 0; i < params.leaves.size(); ++i) {
    const std::vector<double> all = params.values[i].tensor().to_doubles();
    if (all.empty()) continue;
    const std::size_t every = all.size() / kMost + 1;  // of large ones some
    std::vector<double> numbers;
    for (std::size_t k = 0; k < all.size(); k += every)
      if (std::isfinite(all[k])) numbers.push_back(all[k]);
    if (numbers.empty()) continue;
    const auto count = static_cast<double>(numbers.size());
    const auto [low, high] = std::ranges::minmax(numbers);
    RunPage::Spread s{.low = low, .high = high, .shares = std::vector<double>(kParts, 0.0)};
    for (const double v : numbers) {
      s.mean += v / count;
      const double part = high > low ? (v - low) / (high - low) * static_cast<double>(kParts) : 0.0;
      s.shares[std::min(static_cast<std::size_t>(part), kParts - 1)] += 1.0 / count;
    }
    for (const double v : numbers) s.deviation += (v - s.mean) * (v - s.mean) / count;
    s.deviation = std::sqrt(s.deviation);
    out.push_back({to_string(params.leaves[i]), std::move(s)});
  }
  return out;
}

std::string graph_of(const Learner& learner) {
  constexpr std::size_t kMostRelations = 40;
  const ETraceGraph& graph = learner.graph();
  if (graph.hidden_param_op_relations.size() > kMostRelations) return {};
  return graph_figure(ExplainView(graph), GraphLinks::None);
}

RunPage::Table trace_table(const Learner& learner) {
  RunPage::Table out{"Trace memory",
                     "What the rule carries from step to step, whatever the length of the sequences.",
                     {"trace", "of", "shape", "bytes"},
                     {}};
  std::int64_t told = 0;
  for (const EligibilityTrace& e : learner.etraces()) {
    std::vector<std::string> of;
    for (const StatePath& p : e.params) of.push_back(to_string(p));
    const Aval type = e.value.aval();
    const auto bytes = static_cast<std::int64_t>(type.bytes());
    told += bytes;
    out.rows.push_back({e.name, fmt::format("{}", fmt::join(of, ", ")), to_string(type), bytes_text(bytes)});
  }
  if (const std::int64_t rest = learner.trace_bytes() - told; rest > 0)
    out.rows.push_back({"what the rule keeps beside them", "", "", bytes_text(rest)});
  out.rows.push_back({"together", "", "", bytes_text(learner.trace_bytes())});
  return out;
}

RunPage::Table changes_table(const ConfigItems& recipe, const ConfigItems& items) {
  RunPage::Table out{"Beyond the defaults",
                     "Options that are not what they are when nothing is said of them.",
                     {"option", "here", "default"},
                     {}};
  const auto usual = by_name(recipe), here = by_name(items);
  for (const auto& [name, value] : here) {
    const auto found = usual.find(name);
    if (found == usual.end() || found->second != value)
      out.rows.push_back({"--" + name, value, found == usual.end() ? "–" : found->second});
  }
  for (const auto& [name, value] : usual)
    if (!here.contains(name)) out.rows.push_back({"--" + name, "–", value});
  return out;
}

}  // namespace etrace::train
