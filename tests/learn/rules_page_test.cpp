// docs/rules.md is what the rows say. ETRACE_UPDATE_GOLDEN=1 writes it anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "etrace/learning_rule.h"

namespace etrace {
namespace {

namespace fs = std::filesystem;

std::string joined_names(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "`" : ", `") + n + "`";
  return out;
}

std::string rules_page() {
  std::string page =
      "# Learning rules\n\n"
      "Written from the table of rules (`rule_rows()`), as are the help of the command line and the reports. "
      "An option is given by name: `make_rule(\"pp_prop\", {{\"decay_or_rank\", 0.9}})`, `--rule-option "
      "decay_or_rank=0.9`. Single- or multi-step is a setting of the learner "
      "(`LearnerOptions::vjp_method`), not of a rule.\n\n"
      "Memory is in numbers. *batch*: samples. *weights*: entries of weights and biases, once for every "
      "hidden "
      "group that they feed. *states of a unit*: of that group; 1 in a GRU, 2 in an LSTM or an adaptive "
      "neuron. "
      "*inputs*, *outputs*: of the operators; outputs once for every group, inputs that operators share "
      "once. "
      "*positions*: units that a unit reaches. Where no state comes back at its own position (a plain "
      "recurrent "
      "layer in scope diagonal), D_RTRL and its kin keep the last input and derivative in place of a trace: "
      "the "
      "memory of pp_prop. `etrace explain MODEL` counts them all.\n";
  for (const RuleRow* row : rule_rows()) {
    page += fmt::format("\n## {}\n\n{}.\n\n", row->name, row->doc);
    if (!row->aliases.empty()) page += fmt::format("- *Also called:* {}\n", joined_names(row->aliases));
    page += fmt::format("- *Its gradient:* {}\n", row->expectation);
    for (const RuleOption& o : row->options) {
      const std::string takes = o.range + (o.fallback.empty() ? "" : ", default " + o.fallback);
      page += fmt::format("- `{}`{}: {}\n", o.name, takes.empty() ? "" : " (" + takes + ")", o.help);
    }
  }
  return page;
}

TEST(RulesPage, IsWhatTheRowsSay) {
  const fs::path file = fs::path(ETRACE_TEST_DIR) / ".." / "docs" / "rules.md";
  if (std::getenv("ETRACE_UPDATE_GOLDEN") != nullptr) std::ofstream(file) << rules_page();
  std::ostringstream found;
  found << std::ifstream(file).rdbuf();
  EXPECT_EQ(found.str(), rules_page()) << "ETRACE_UPDATE_GOLDEN=1 writes it anew";
}

}  // namespace
}  // namespace etrace
