// docs/choosing-a-rule.md holds what its commands print: each is run for some rules, and their rows compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "cli/process.h"

namespace etrace {
namespace {

using testing::run_etrace;
using Cells = std::vector<std::string>;

std::string trimmed(std::string text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '*')) text.erase(text.begin());
  while (!text.empty() && (text.back() == ' ' || text.back() == '*')) text.pop_back();
  return text;
}

Cells cells_of(const std::string& line) {
  Cells out;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) out.push_back(trimmed(cell));
  return out;
}

// Rows of the first table in a text, by rule and window; the columns by name.
struct PrintedTable {
  Cells columns;
  std::map<std::string, Cells> rows;
  void read(const std::string& line) {
    if (line.rfind("|---", 0) == 0) return;
    Cells cells = cells_of(line);
    if (columns.empty())
      columns = std::move(cells);
    else
      rows.emplace(cells[0] + ", " + cells[1], std::move(cells));
  }
};

PrintedTable table_in(const std::string& text) {
  PrintedTable t;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line.front() == '|') t.read(line);
  return t;
}

// Printed commands with the table behind each.
std::vector<std::pair<std::string, PrintedTable>> tables_of_the_page() {
  std::ifstream file(std::string(ETRACE_TEST_DIR) + "/../docs/choosing-a-rule.md");
  std::vector<std::pair<std::string, PrintedTable>> out;
  bool open = false;
  for (std::string line; std::getline(file, line);) {
    if (const std::size_t at = line.find("`etrace rules "); at != std::string::npos) {
      const std::size_t end = line.find('`', at + 1);
      if (line.substr(at, end - at).find("--markdown") == std::string::npos) continue;
      out.emplace_back(line.substr(at + 8, end - at - 8), PrintedTable{});
      open = true;
    } else if (open && !line.empty() && line.front() == '|') {
      out.back().second.read(line);
    } else if (!out.empty() && !out.back().second.columns.empty()) {
      open = false;
    }
  }
  return out;
}

// Numbers in the last digit that is shown, or texts.
void expect_cell(const std::string& found, const std::string& shown) {
  char *end_found = nullptr, *end_shown = nullptr;
  const double a = std::strtod(found.c_str(), &end_found), b = std::strtod(shown.c_str(), &end_shown);
  const bool numbers = !found.empty() && !shown.empty() && *end_found == '\0' && *end_shown == '\0';
  if (numbers)
    EXPECT_NEAR(a, b, std::max(0.0021, 0.021 * std::abs(b)));
  else
    EXPECT_EQ(found, shown);
}

TEST(ChoosingARule, TablesAreWhatTheCommandsPrint) {
  const auto tables = tables_of_the_page();
  ASSERT_EQ(tables.size(), 5U);
  for (const auto& [command, shown] : tables) {
    SCOPED_TRACE(command);
    std::vector<std::string> words;
    std::istringstream in(command);
    for (std::string word; in >> word;) words.push_back(word);
    for (const char* more : {"--only", "D_RTRL", "--only", "pp_prop", "--only", "EProp", "--repeats", "1"})
      words.emplace_back(more);
    const auto r = run_etrace(words);
    ASSERT_EQ(r.code, 0) << r.text;
    const PrintedTable found = table_in(r.text);
    EXPECT_GE(shown.columns.size(), 10U);
    EXPECT_GE(found.rows.size(), 20U);
    for (const auto& [row, cells] : found.rows) {
      SCOPED_TRACE(row);
      const auto line = shown.rows.find(row);
      ASSERT_NE(line, shown.rows.end());
      for (std::size_t i = 0; i < shown.columns.size(); ++i) {  // the page leaves out times
        const auto same = std::find(found.columns.begin(), found.columns.end(), shown.columns[i]);
        ASSERT_NE(same, found.columns.end()) << shown.columns[i];
        if (*same != "working") expect_cell(cells[same - found.columns.begin()], line->second.at(i));
      }
    }
  }
}

}  // namespace
}  // namespace etrace
