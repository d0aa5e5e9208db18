// etrace runs: the runs of a folder as a table, sorted, filtered, two compared, or as CSV.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <map>

#include "base/memory.h"
#include "base/nearest.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "etrace/error.h"
#include "io/json.h"
#include "train/config.h"
#include "train/run_folder.h"

namespace etrace::cli {

namespace {

using train::FoundRun;

struct RunsCommand {
  std::string runs = "runs", sort = "name";
  std::vector<std::string> filter, diff;
  bool csv = false, seeds = false;
};

// What a table shows of a run: texts as they are printed, and numbers to sort by where it has them.
struct Cell {
  std::string text = {};
  std::optional<double> number = {};
};
using Row = std::map<std::string, Cell>;

constexpr const char* kColumns[] = {"name",    "status",   "task", "model",   "rule",    "seed",
                                    "updates", "accuracy", "loss", "outcome", "seconds", "memory"};

std::string word_of(const Json& value) { return said<std::string>(value, "").value_or(json_text(value)); }

Cell number_cell(const Json& run, const std::string& at, const char* format) {
  const auto value = said<double>(run, at);
  return value ? Cell{fmt::format(fmt::runtime(format), *value), value} : Cell{};
}

Row row_of(const FoundRun& found) {
  const Json& run = *found.json;
  Row row;
  for (const char* key : {"name", "status", "task", "model", "rule", "outcome"})
    if (const Json* value = json_member(run, fmt::format("/{}", key)))
      row[key] = {word_of(*value), std::nullopt};
  // A run that was killed has had no time to say so.
  if (row["status"].text == "running" && !train::RunFolder::is_in_use(found.path))
    row["status"].text = "killed";
  row["seed"] = number_cell(run, "/seed", "{:.0f}");
  row["updates"] = number_cell(run, "/updates", "{:.0f}");
  row["seconds"] = number_cell(run, "/seconds", "{:.1f}");
  // The final score; of a run that has none yet, the best check.
  const std::string from = json_member(run, "/final") != nullptr ? "/final" : "/best";
  row["accuracy"] = number_cell(run, from + "/accuracy", "{:.4f}");
  row["loss"] = number_cell(run, from + "/loss", "{:.4g}");
  row["memory"] = number_cell(run, "/peak_memory_bytes", "{:.0f}");
  if (row["memory"].number) row["memory"].text = bytes_text(static_cast<std::int64_t>(*row["memory"].number));
  return row;
}

// NAME=VALUE or NAME!=VALUE: columns, and settings of the run as the command line calls them.
struct Condition {
  std::string key, value;
  bool equal;
};
Condition condition_of(const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0)
    throw ValueError("runs", fmt::format("--filter {}: expected NAME=VALUE or NAME!=VALUE", text));
  const bool equal = text[at - 1] != '!';
  return {text.substr(0, equal ? at : at - 1), text.substr(at + 1), equal};
}

bool holds(const Condition& c, const FoundRun& found, const Row& row) {
  std::string value;
  if (const auto cell = row.find(c.key); cell != row.end()) {
    value = cell->second.text;
  } else {
    const Json* settings = json_member(*found.json, "/settings");
    for (const std::string& name : {"--" + c.key, "--set " + c.key})
      if (settings != nullptr && settings->is_object() && settings->contains(name))
        value = word_of(settings->at(name));
  }
  return (value == c.value) == c.equal;
}

void sort_rows(std::vector<Row>& rows, std::string by) {
  const bool down = by.starts_with('-');
  if (down) by.erase(0, 1);
  const std::vector<std::string> names(std::begin(kColumns), std::end(kColumns));
  if (std::find(names.begin(), names.end(), by) == names.end())
    throw ValueError("runs", no_such_name("column", by, names));
  const auto cell = [&](const Row& row) {
    const auto at = row.find(by);
    return at == row.end() ? Cell() : at->second;
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    const Cell x = cell(a), y = cell(b);
    if (x.number.has_value() != y.number.has_value()) return x.number.has_value();  // empty ones last
    if (x.number) return down ? *x.number > *y.number : *x.number < *y.number;
    return down ? x.text > y.text : x.text < y.text;
  });
}

std::string table_text(std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const char* c : kColumns) {
    std::size_t width = std::string_view(c).size();
    for (Row& r : rows) width = std::max(width, r[c].text.size());
    widths.push_back(width);
  }
  std::string text;
  const auto line = [&](auto&& cell) {
    std::string out;
    for (std::size_t i = 0; i < widths.size(); ++i) out += fmt::format("{:<{}}  ", cell(i), widths[i]);
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + "\n";
  };
  line([&](std::size_t i) { return std::string(kColumns[i]); });
  for (Row& r : rows) line([&](std::size_t i) { return r[kColumns[i]].text; });
  return text;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string csv_text(std::vector<Row>& rows) {
  std::string text = fmt::format("{}\n", fmt::join(kColumns, ","));
  for (Row& r : rows) {
    std::vector<std::string> fields;
    for (const char* c : kColumns)
      fields.push_back(r[c].number ? fmt::to_string(*r[c].number) : csv_field(r[c].text));
    text += fmt::format("{}\n", fmt::join(fields, ","));
  }
  return text;
}

// Runs that differ in nothing but the seed, as mean and spread.
std::string seeds_text(const std::vector<FoundRun>& found) {
  std::map<std::string, std::vector<double>> scores;
  for (const FoundRun& f : found) {
    const auto accuracy = said<double>(*f.json, "/final/accuracy"),
               loss = said<double>(*f.json, "/final/loss");
    if (!accuracy && !loss) continue;
    std::string key = fmt::format("{} {} {}", said_text(*f.json, "/task"), said_text(*f.json, "/model"),
                                  said_text(*f.json, "/rule"));
    const Json* settings = json_member(*f.json, "/settings");
    if (settings != nullptr && settings->is_object())
      for (const auto& [name, value] : settings->items())
        if (name != "--seed" && name != "task" && name != "--model")
          key += fmt::format(" {} {}", name, word_of(value));
    scores[key].push_back(accuracy ? *accuracy : *loss);
  }
  std::string text;
  for (const auto& [key, values] : scores) {
    double mean = 0.0, square = 0.0;
    const auto n = static_cast<double>(values.size());
    for (const double v : values) mean += v / n;
    for (const double v : values) square += (v - mean) * (v - mean);
    const double spread = values.size() > 1 ? std::sqrt(square / (n - 1.0)) : 0.0;
    text += fmt::format("{:.4f} ± {:.4f} over {} seeds: {}\n", mean, spread, values.size(), key);
  }
  return text;
}

std::string diff_text(const std::vector<std::string>& folders) {
  std::map<std::string, std::array<std::string, 2>> values;
  for (std::size_t side = 0; side < 2; ++side)
    for (const auto& [key, value] : train::read_config(folders[side] + "/config.toml")) {
      const std::size_t equals = value.find('=');
      const bool pair = (key == "set" || key == "rule-option") && equals != std::string::npos;
      values[pair ? key + " " + value.substr(0, equals) : key].at(side) =
          pair ? value.substr(equals + 1) : value;
    }
  std::string text;
  for (const auto& [key, both] : values)
    if (both[0] != both[1])
      text +=
          fmt::format("{}: {} | {}\n", key, both[0].empty() ? "-" : both[0], both[1].empty() ? "-" : both[1]);
  return text.empty() ? "the configurations are the same\n" : text;
}

void show_runs(const RunsCommand& c) {
  if (!c.diff.empty()) {
    std::vector<std::string> folders;
    for (const std::string& name : c.diff)
      folders.push_back(train::RunFolder::is_run(name) ? name : c.runs + "/" + name);
    for (const std::string& folder : folders)
      if (!train::RunFolder::is_run(folder))
        throw ValueError("runs", fmt::format("'{}' is no folder of a run: it has no run.json", folder));
    std::cout << diff_text(folders);
    return;
  }
  std::vector<std::string> problems;
  std::vector<FoundRun> found = train::find_runs(c.runs, problems), kept;
  std::vector<Row> rows;
  for (const FoundRun& f : found) {
    Row row = row_of(f);
    const bool wanted = std::all_of(c.filter.begin(), c.filter.end(), [&](const std::string& text) {
      return holds(condition_of(text), f, row);
    });
    if (!wanted) continue;
    kept.push_back(f);
    rows.push_back(std::move(row));
  }
  sort_rows(rows, c.sort);
  std::cout << (c.seeds ? seeds_text(kept) : c.csv ? csv_text(rows) : table_text(rows));
  for (const std::string& problem : problems) std::cerr << "etrace runs: left out " << problem << "\n";
}

}  // namespace

void add_runs(CLI::App& app, Status&) {
  CLI::App* verb = app.add_subcommand("runs", "the runs of a folder: a table, sorted, filtered, compared");
  auto c = std::make_shared<RunsCommand>();
  if (const char* given = std::getenv("ETRACE_RUNS"); given != nullptr && *given != '\0') c->runs = given;
  verb->add_option("--runs", c->runs, "the folder of runs (default: runs, or $ETRACE_RUNS)")
      ->type_name("DIR");
  verb->add_option("--sort", c->sort, "a column; with a minus before it, largest first: --sort=-accuracy")
      ->type_name("COLUMN")
      ->capture_default_str();
  verb->add_option("--filter", c->filter,
                   "only runs with this value of a column or a setting, as in --filter rule=pp_prop; may be "
                   "repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->take_all();
  verb->add_option("--diff", c->diff, "what differs between the configurations of two runs")
      ->type_name("RUN RUN")
      ->expected(2);
  verb->add_flag("--seeds", c->seeds, "mean and spread of runs that differ in their seed alone");
  verb->add_flag("--csv", c->csv, "the table as CSV");
  verb->callback([c] { show_runs(*c); });
}

}  // namespace etrace::cli
