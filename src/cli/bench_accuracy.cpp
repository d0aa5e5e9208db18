// etrace bench-accuracy: how well the defaults of `etrace train` learn, by online rules and by BPTT, over
// several seeds. Every run is a process of its own with a folder; results are appended as they come, and a
// bench that was stopped goes on. Exit status 1 if a bar is not reached.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/memory.h"
#include "base/nearest.h"
#include "cli/accuracy_rows.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/verbs.h"
#include "data/catalog.h"
#include "etrace/error.h"
#include "io/json.h"
#include "train/evaluator.h"
#include "train/many_runs.h"

namespace etrace::cli {

namespace {

using namespace train;  // NOLINT: the verbs are about runs
using Words = std::vector<std::string>;

struct AccuracyCommand {
  std::string folder = "runs/accuracy";
  std::int64_t seeds = 3, jobs = 0;
  double seconds = 0.0;
  Words only;
  bool list = false;
};

bool is_wanted(const AccuracyCommand& c, const AccuracyRow& row) {
  return c.only.empty() || std::any_of(c.only.begin(), c.only.end(), [&](const std::string& name) {
           return row.name == name || (row.name.starts_with(name) && row.name.size() == name.size() + 1 &&
                                       std::isdigit(static_cast<unsigned char>(row.name.back())) == 0);
         });
}

bool is_here(const AccuracyRow& row) {
  return row.data.empty() || !data::installed_path(*data::find_known_data(row.data)).empty();
}

// A word for folders: letters, digits and dashes.
std::string folder_word(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (plain)
      out += c;
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  return out;
}

struct AccuracyJob {
  const AccuracyRow* row;
  const AccuracyRun* run;
  std::uint64_t seed;
};

// All of the first seed before the second, so that a bench that is cut off has something of every row.
void plan_accuracy(const AccuracyCommand& c, std::vector<AccuracyJob>& planned, std::vector<RunJob>& jobs) {
  for (std::int64_t seed = 0; seed < c.seeds; ++seed)
    for (const AccuracyRow& row : accuracy_rows()) {
      if (!is_wanted(c, row) || !is_here(row)) continue;
      for (const AccuracyRun& run : row.runs) {
        Words words = row.words;
        words.insert(words.end(), run.words.begin(), run.words.end());
        words.push_back(fmt::format("--seed={}", seed));
        planned.push_back({&row, &run, static_cast<std::uint64_t>(seed)});
        jobs.push_back({fmt::format("{}-{}-{}", row.name, folder_word(run.label), seed), words});
      }
    }
}

OrderedJson line_of(const AccuracyJob& p, const RunOutcome& r) {
  OrderedJson out{
      {"row", p.row->name}, {"text", p.row->text}, {"rule", p.run->label},         {"seed", p.seed},
      {"bar", p.run->bar},  {"goal", p.run->goal}, {"reference", p.run->reference}};
  if (!r.error.empty()) out["error"] = r.error;
  if (!r.run) return out;
  for (const char* key : {"model", "updates", "seconds", "processor_seconds", "peak_memory_bytes",
                          "trace_bytes", "final", "guess", "outcome", "best"})
    if (const Json* value = json_member(*r.run, fmt::format("/{}", key))) out[key] = *value;
  for (const char* when : {"start", "end"}) {
    if (const Json* value = json_member(*r.run, fmt::format("/fidelity/{}/cosine", when)))
      out[fmt::format("cosine_{}", when)] = *value;
  }
  const Json* command = json_member(*r.run, "/command");
  out["command"] = command != nullptr ? *command : Json::array();
  return out;
}

// Rows with a number in their order; recipes of tasks behind them.
int number_of_row(const AccuracyRow& row) {
  return std::isdigit(static_cast<unsigned char>(row.name[0])) != 0 ? std::atoi(row.name.c_str()) : 1000;
}

std::string percent(const RunGroup::Number& n) {
  if (n.count == 0) return "–";
  return n.count == 1 ? fmt::format("{:.1f}", 100 * n.mean)
                      : fmt::format("{:.1f} ± {:.1f}", 100 * n.mean, 100 * n.spread);
}

std::string accuracy_text(const RunGroup& g) {
  if (g.accuracy.count > 0) return percent(g.accuracy);
  return g.loss.count == 0 ? "–"
                           : fmt::format("loss {} ± {}", loss_text(g.loss.mean), loss_text(g.loss.spread));
}

std::string or_dash(double number) { return number > 0 ? fmt::format("{:g}", number) : "–"; }
std::string short_number(const RunGroup::Number& n, int digits) {
  return n.count == 0 ? "–" : fmt::format("{:.{}f}", n.mean, digits);
}

// `solved`: how many runs say so of themselves.
std::string verdict(const AccuracyRun& run, const RunGroup& g, std::int64_t solved) {
  if (run.words.empty()) return fmt::format("{} of {} solved", solved, g.loss.count);
  if (g.accuracy.count == 0 || run.bar <= 0) return "";
  return 100 * g.accuracy.mean >= run.bar ? "reached" : "**missed**";
}

// The table in Markdown; `missed`: bars that are not reached.
std::string accuracy_table(const AccuracyCommand& c, const std::vector<AccuracyJob>& planned,
                           const std::vector<RunOutcome>& outcomes, std::vector<std::string>& missed) {
  std::string text =
      "| # | data and model | rule | accuracy, % | bar | | braintrace | updates | processor, s | memory | "
      "cosine to BPTT, start → end |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
  std::vector<AccuracyRow> rows = accuracy_rows();
  std::stable_sort(rows.begin(), rows.end(), [](const AccuracyRow& a, const AccuracyRow& b) {
    return number_of_row(a) != number_of_row(b) ? number_of_row(a) < number_of_row(b) : a.name < b.name;
  });
  for (const AccuracyRow& row : rows) {
    if (!is_wanted(c, row)) continue;
    if (!is_here(row)) {
      text += fmt::format("| {} | {} | | not installed: {} | | | | | | | |\n", row.name, row.text,
                          data::find_known_data(row.data)->package);
      continue;
    }
    for (const AccuracyRun& run : row.runs) {
      std::vector<RunOutcome> own;
      for (std::size_t i = 0; i < planned.size(); ++i)
        if (planned[i].row->name == row.name && planned[i].run->label == run.label)
          own.push_back(outcomes[i]);
      const RunGroup g = group_of(run.label, own);
      const auto solved = std::count_if(own.begin(), own.end(), [](const RunOutcome& r) {
        return r.run && r.run->value("outcome", "") == "solved";
      });
      const std::string said = verdict(run, g, solved);
      if (run.words.empty() && solved < g.loss.count)
        missed.push_back(fmt::format("{}: {} of {} solved", row.name, solved, g.loss.count));
      if (said == "**missed**")
        missed.push_back(
            fmt::format("row {}, {}: {} of {}", row.name, run.label, percent(g.accuracy), run.bar));
      text +=
          fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} → {} |\n", row.name, row.text,
                      run.label, accuracy_text(g), or_dash(run.bar), said, or_dash(run.reference),
                      short_number(g.updates, 0), short_number(g.processor_seconds, 0),
                      g.memory.count == 0 ? "–" : bytes_text(static_cast<std::int64_t>(g.memory.mean)),
                      short_number(g.cosine_start, 2), short_number(g.cosine_end, 2));
      for (const std::string& failure : g.failures)
        missed.push_back(fmt::format("row {}, {} failed: {}", row.name, run.label, failure));
    }
  }
  return text;
}

void list_rows() {
  for (const AccuracyRow& row : accuracy_rows()) {
    std::cout << fmt::format("{:<4} {}{}\n", row.name, row.text,
                             is_here(row) ? "" : " (" + row.data + " is not installed)");
    for (const AccuracyRun& run : row.runs)
      std::cout << fmt::format("       {}{}: etrace train {} {}\n", run.label,
                               run.bar > 0 ? fmt::format(", bar {:g}", run.bar) : "",
                               fmt::join(row.words, " "), fmt::join(run.words, " "));
  }
}

void require_rows(const AccuracyCommand& c) {
  std::vector<std::string> names;
  for (const AccuracyRow& row : accuracy_rows()) names.push_back(row.name);
  for (const std::string& wanted : c.only) {
    AccuracyCommand one;
    one.only = {wanted};
    if (std::none_of(accuracy_rows().begin(), accuracy_rows().end(),
                     [&](const AccuracyRow& row) { return is_wanted(one, row); }))
      throw ValueError("bench-accuracy", no_such_name("row", wanted, names));
  }
}

int run_accuracy(const AccuracyCommand& c) {
  require_rows(c);
  if (c.list) {
    list_rows();
    return 0;
  }
  std::vector<AccuracyJob> planned;
  std::vector<RunJob> jobs;
  plan_accuracy(c, planned, jobs);
  ManyRuns many;
  many.program = own_program();
  many.folder = c.folder;
  many.at_once = c.jobs > 0 ? c.jobs : processors();
  if (const std::string other = many.made_otherwise(jobs); !other.empty())
    throw ValueError("bench-accuracy",
                     fmt::format("'{}' has a run {} with other settings, of another version; "
                                 "choose another --folder, or remove it",
                                 c.folder, other));
  std::filesystem::create_directories(c.folder);
  std::ofstream lines(c.folder + "/results.jsonl", std::ios::app);
  if (!lines) throw IoError("bench-accuracy", fmt::format("'{}/results.jsonl' cannot be written", c.folder));
  std::size_t done = 0;
  many.on_end = [&](std::size_t i, const RunOutcome& r) {
    const auto json = line_of(planned[i], r);
    if (!r.kept) lines << json_text(json) << std::endl;
    const double accuracy = r.run ? said<double>(*r.run, "/final/accuracy").value_or(-1.0) : -1.0;
    std::cout << fmt::format(
                     "{}/{} row {} {} seed {}: {}{}\n", ++done, jobs.size(), planned[i].row->name,
                     planned[i].run->label, planned[i].seed,
                     !r.error.empty() ? "failed: " + r.error
                     : accuracy >= 0
                         ? fmt::format("{:.4f}", accuracy)
                         : fmt::format(
                               "loss {}",
                               loss_text(r.run ? said<double>(*r.run, "/final/loss").value_or(0.0) : 0.0)),
                     r.run ? fmt::format(", {:.0f} s of the processor{}",
                                         said<double>(*r.run, "/processor_seconds").value_or(0.0),
                                         r.kept ? " (was there already)" : "")
                           : "")
              << std::flush;
  };
  const Interrupt interrupt;
  const auto began = std::chrono::steady_clock::now();
  bool late = false;
  many.stop_requested = [&] {
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    late = c.seconds > 0 && passed > c.seconds;
    return late || interrupt.requested();
  };
  const std::vector<RunOutcome> outcomes = many(jobs);
  std::vector<std::string> missed;
  const std::string table = accuracy_table(c, planned, outcomes, missed);
  std::ofstream(c.folder + "/table.md") << table;
  std::cout << "\n" << table;
  for (const std::string& m : missed) std::cout << m << "\n";
  if (interrupt.requested()) return interrupt.exit_code();
  if (late) std::cout << "the time was up; the same command goes on\n";
  return missed.empty() && !late ? 0 : 1;
}

}  // namespace

void add_bench_accuracy(CLI::App& app, Status& status) {
  CLI::App* verb =
      app.add_subcommand("bench-accuracy",
                         "train the tasks and data sets of the table in the documentation, by online "
                         "rules and by BPTT, and compare with what they must reach");
  auto c = std::make_shared<AccuracyCommand>();
  verb->add_option("--folder", c->folder,
                   "of the runs, results.jsonl and table.md; runs that it holds are kept")
      ->type_name("DIR")
      ->capture_default_str();
  verb->add_option("--seeds", c->seeds, "runs of each")
      ->type_name("N")
      ->check(count_from(1))
      ->capture_default_str();
  verb->add_option("--jobs", c->jobs, "runs at once, a thread each (default: one per processor)")
      ->type_name("N")
      ->check(count_from(1));
  verb->add_option("--only", c->only, "rows, as in 1,4,15b; 4 is also 4b")
      ->type_name("ROW,ROW…")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->take_all();
  verb->add_option("--seconds", c->seconds, "stop after so long; what was begun is kept, and goes on later")
      ->type_name("X")
      ->check(number_at_least(0));
  verb->add_flag("--list", c->list, "the rows and their commands; nothing runs");
  verb->callback([c, &status] { status.code = run_accuracy(*c); });
}

}  // namespace etrace::cli
