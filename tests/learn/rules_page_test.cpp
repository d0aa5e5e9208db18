// What docs/rules.md says of a rule is what its row says. ETRACE_UPDATE_GOLDEN=1 writes the page anew; that
// no rule of the library is missing there, `./dev lint` asks.
#include <dlfcn.h>
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

std::string section(const RuleRow& row) {
  std::string text = fmt::format("\n## {}\n\n{}.\n\n", row.name, row.doc);
  if (!row.aliases.empty()) text += fmt::format("- *Also called:* {}\n", joined_names(row.aliases));
  text += fmt::format("- *Its gradient:* {}\n", row.gradient);
  for (const RuleOption& o : row.options) {
    const std::string takes = o.range + (o.fallback.empty() ? "" : ", default " + o.fallback);
    text += fmt::format("- `{}`{}: {}\n", o.name, takes.empty() ? "" : " (" + takes + ")", o.help);
  }
  return text;
}

// The file with the code of a row: where the function stands that makes its rules, or the type of that
// function.
const void* file_of(const RuleRow& row) {
  using Maker = std::shared_ptr<const LearningRule>(const RuleOptions&);
  const auto* const function = row.make.target<Maker*>();
  const void* const place =
      function != nullptr ? reinterpret_cast<const void*>(*function) : &row.make.target_type();
  Dl_info info{};
  return ::dladdr(place, &info) != 0 ? info.dli_fbase : nullptr;
}

// The rows of the library; programs, as this one, have rules of their own besides.
std::vector<const RuleRow*> rules_of_the_library() {
  const RuleRow& one = find_rule("D_RTRL");
  std::vector<const RuleRow*> rows;
  for (const RuleRow* row : rule_rows())
    if (file_of(*row) == file_of(one)) rows.push_back(row);
  return rows;
}

std::string rules_page() {
  std::string page =
      R"(# Learning rules

This page is written from the table of rules (`rule_rows()`), as are the help of the command line and the reports. [Which rule should I choose?](choosing-a-rule.md) compares them.

Options are given by name: `make_rule("pp_prop", {{"decay_or_rank", 0.9}})` in C++, `et.pp_prop(decay_or_rank=0.9)` in Python, `--rule-option decay_or_rank=0.9` on the command line. Whether a rule learns in single steps or in [windows](windows.md) is no option of the rule, but of the learner (`LearnerOptions::vjp_method`).

What a rule keeps from step to step is counted in numbers, by these words:

- *batch*: the samples of a batch.
- *weights*: the entries of weights and biases. An entry counts once for every hidden group that it feeds.
- *states of a unit*: the hidden states of a unit in its group, 1 in a GRU, 2 in an LSTM or an adaptive neuron.
- *inputs*, *outputs*: those of the trainable operators. Outputs count once for every group; inputs that several operators share count once.
- *positions*: the units that one unit influences.

In some layers no state comes back at its own position, as in a plain recurrent layer in scope diagonal. There D_RTRL and the rules that build on it keep the last input and derivative in place of a trace, which is the memory of pp_prop. `etrace explain MODEL` counts the numbers for every rule.
)";
  for (const RuleRow* row : rules_of_the_library()) page += section(*row);
  return page;
}

TEST(RulesPage, IsWhatTheRowsSay) {
  const fs::path file = fs::path(ETRACE_TEST_DIR) / ".." / "docs" / "rules.md";
  if (std::getenv("ETRACE_UPDATE_GOLDEN") != nullptr) std::ofstream(file) << rules_page();
  std::ostringstream found;
  found << std::ifstream(file).rdbuf();
  const std::string page = found.str();
  EXPECT_LT(rules_of_the_library().size(), rule_rows().size());  // tests/strangers.cpp
  std::size_t sections = 0;
  for (const RuleRow* row : rules_of_the_library()) {
    if (page.find("\n## " + row->name + "\n") == std::string::npos) continue;
    ++sections;
    EXPECT_NE(page.find(section(*row)), std::string::npos)
        << row->name << ": ETRACE_UPDATE_GOLDEN=1 writes it anew";
  }
  std::size_t headings = 0;
  for (std::size_t at = page.find("\n## "); at != std::string::npos; at = page.find("\n## ", at + 1))
    ++headings;
  EXPECT_EQ(headings, sections) << "a heading that is no rule of the library";
  EXPECT_GE(sections, 10U);
}

}  // namespace
}  // namespace etrace
