#include "learn/rules/readout_filter.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/readouts.h"

namespace etrace {

namespace {

std::string states_text(const HiddenGroup& group) {
  std::vector<std::string> out;
  for (const StatePath& p : group.hidden_paths) out.push_back(to_string(p));
  return fmt::format("{}", fmt::join(out, ", "));
}

void leave_unfiltered(ReadoutFilter& f, const HiddenGroup& group) {
  for (const StatePath& p : group.hidden_paths)
    if (std::find(f.unfiltered.begin(), f.unfiltered.end(), to_string(p)) == f.unfiltered.end())
      f.unfiltered.push_back(to_string(p));
}

// Why the readouts do not say one decay; empty: they do.
std::string why_unknown(const ETraceGraph& g, const std::vector<LeakyReadout>& readouts) {
  if (readouts.empty()) return "there is no leaky readout";
  for (const LeakyReadout& r : readouts)
    if (!r.decay) return fmt::format("{}: {}", states_text(g.hidden_groups[r.group]), r.unknown);
  for (const LeakyReadout& r : readouts)
    if (r.decay != readouts.front().decay)
      return fmt::format("{} and {} decay differently", states_text(g.hidden_groups[readouts.front().group]),
                         states_text(g.hidden_groups[r.group]));
  return {};
}

std::string readouts_text(const ETraceGraph& g, const std::vector<LeakyReadout>& readouts) {
  std::vector<std::string> out;
  for (const LeakyReadout& r : readouts) out.push_back(states_text(g.hidden_groups[r.group]));
  return fmt::format("{}", fmt::join(out, ", "));
}

}  // namespace

ReadoutFilter readout_filter(const ETraceGraph& g, std::optional<double> kappa, const RuleSettings& s) {
  ReadoutFilter out{.kappa = kappa, .unfiltered = s.unfiltered};
  const bool looks = g.options.compat == Compat::None && (s.kappa_of_readout || s.readouts_unfiltered);
  const std::vector<LeakyReadout> readouts = looks ? leaky_readouts(g) : std::vector<LeakyReadout>();
  if (kappa) {
    if (s.readouts_unfiltered)
      for (const LeakyReadout& r : readouts) leave_unfiltered(out, g.hidden_groups[r.group]);
    return out;
  }
  if (!s.kappa_of_readout) return out;
  std::string unknown =
      g.options.compat != Compat::None ? "compat has none by default" : why_unknown(g, readouts);
  if (unknown.empty() && !g.composite_relations.empty())
    unknown = "composite traces carry what the readout keeps";
  if (!unknown.empty()) {
    out.text = "no filter: " + unknown;
    return out;
  }
  out.kappa = readouts.front().decay;
  out.at_entry = false;
  out.readouts = readouts_text(g, readouts);
  out.text = fmt::format("kappa {:.4g} of {}", *out.kappa, out.readouts);
  std::vector<std::size_t> groups;
  for (const LeakyReadout& r : readouts) {
    groups.push_back(r.group);
    leave_unfiltered(out, g.hidden_groups[r.group]);
  }
  const std::vector<bool> feeds = groups_that_feed(g, groups);
  for (const HiddenGroup& group : g.hidden_groups)
    if (!feeds[group.index]) leave_unfiltered(out, group);
  return out;
}

std::string why_without_filter(const LearningRule& rule, const ETraceGraph& g) {
  const auto* configured = dynamic_cast<const ConfiguredRule*>(&rule);
  if (configured == nullptr || !configured->settings().kappa_of_readout) return {};
  const ReadoutFilter filter = readout_filter(g, configured->config()->axes().kappa, configured->settings());
  return filter.kappa ? std::string() : filter.text;
}

std::vector<std::string> readout_notes(const ETraceGraph& g) {
  if (g.options.compat != Compat::None) return {};
  const std::vector<LeakyReadout> readouts = leaky_readouts(g);
  if (readouts.empty()) return {};
  const std::string names = readouts_text(g, readouts);
  if (const std::string unknown = why_unknown(g, readouts); !unknown.empty())
    return {
        fmt::format("{} {} by structure, but no one decay is known ({}): EProp has no filter unless "
                    "kappa_filter_decay is given.",
                    names, readouts.size() == 1 ? "is a leaky readout" : "are leaky readouts", unknown)};
  return {fmt::format(
      "{} {}: {:.4g} of it is kept from step to step, states feed it and it feeds results only. "
      "EProp filters the traces of what feeds it with this kappa, and not its own.",
      names, readouts.size() == 1 ? "is a leaky readout" : "are leaky readouts", *readouts.front().decay)};
}

}  // namespace etrace
