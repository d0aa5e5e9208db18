#include "cli/train_compare.h"

#include <fmt/format.h>

#include <cmath>
#include <iostream>

#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/train_config.h"
#include "etrace/error.h"
#include "train/compare_page.h"
#include "train/many_runs.h"
#include "train/rule_text.h"

namespace etrace::cli {

namespace {

using namespace train;  // NOLINT: the verbs are about runs
using Words = std::vector<std::string>;

// Options that say what the runs of a comparison differ in, or where it lies; with their values.
constexpr std::string_view kOwn[] = {"--compare", "--seeds", "--jobs", "--seed",
                                     "--rule",    "--name",  "--runs"};
// Files that two runs cannot both write, and a page that shows one.
constexpr const char* kRefused[] = {"--checkpoint", "--save", "--json", "--resume", "--live"};

// What was typed behind `train`, without the options above.
Words shared_words() {
  const Words& typed = typed_words();
  Words out;
  for (std::size_t i = 1; i < typed.size(); ++i) {
    const std::string& w = typed[i];
    bool own = w == "--quiet";
    for (const std::string_view option : kOwn) {
      if (w == option) {
        ++i;  // its value
        own = true;
      }
      own = own || w.starts_with(std::string(option) + "=");
    }
    if (!own) out.push_back(w);
  }
  return out;
}

struct Job {
  std::string rule;
  std::uint64_t seed;
};

void require_sensible(const CompareArguments& c, const RunPlan& plan) {
  for (const char* option : kRefused)
    if (is_typed(option))
      throw ValueError("train", fmt::format("{} is for one run, and --compare makes several; each has a "
                                            "folder of its own in that of the comparison",
                                            option));
  if (plan.runs.empty())
    throw ValueError("train", "--compare keeps its runs in a folder; leave out --runs none");
  for (const std::string& rule : c.rules) rule_name(rule);
}

// The folder that --name says; otherwise the first one whose runs are those of this command, or that is free.
std::string comparison_folder(ManyRuns many, const TrainSettings& s, const RunPlan& plan,
                              const std::vector<RunJob>& runs) {
  if (!plan.name.empty()) {
    many.folder = plan.runs + "/" + plan.name;
    const std::string other = many.made_otherwise(runs);
    if (!other.empty())
      throw ValueError("train", fmt::format("the comparison '{}' has a run {} with other settings; choose "
                                            "another --name, or remove it",
                                            many.folder, other));
    return many.folder;
  }
  for (int number = 1;; ++number) {
    many.folder = fmt::format("{}/compare-{}-{}{}", plan.runs, s.task, s.model,
                              number == 1 ? "" : fmt::format("-{}", number));
    if (many.made_otherwise(runs).empty()) return many.folder;
  }
}

}  // namespace

void CompareArguments::add_to(CLI::App& verb) {
  verb.add_option("--compare", rules,
                  "run these rules on the same data, side by side, and print one table; BPTT is one, too")
      ->type_name("RULE,RULE…")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->take_all();
  verb.add_option("--seeds", seeds, "so many runs of each, with seeds from --seed on: scores get a spread")
      ->type_name("N")
      ->check(count_from(1))
      ->capture_default_str();
  verb.add_option("--jobs", jobs, "runs at once, of --compare and --seeds (default: one per processor)")
      ->type_name("N")
      ->check(count_from(1));
}

int run_compare(const CompareArguments& c, const TrainSettings& s, const RunPlan& plan, bool quiet) {
  require_sensible(c, plan);
  std::vector<Job> jobs;
  std::vector<RunJob> runs;
  std::vector<std::string> rules = c.rules.empty() ? Words{s.rule} : c.rules;
  for (std::string& r : rules) r = rule_name(r);
  const Words shared = shared_words();
  for (const std::string& rule : rules)
    for (std::int64_t k = 0; k < c.seeds; ++k) {
      const std::uint64_t seed = s.seed + static_cast<std::uint64_t>(k);
      Words words = shared;
      words.push_back("--rule=" + rule);
      words.push_back(fmt::format("--seed={}", seed));
      jobs.push_back({rule, seed});
      runs.push_back({fmt::format("{}-{}", rule, seed), words});
    }
  ManyRuns many;
  many.program = own_program();
  many.folder = comparison_folder(many, s, plan, runs);
  const auto count = static_cast<std::int64_t>(runs.size());
  many.at_once = std::min(count, c.jobs > 0 ? c.jobs : processors());
  many.threads_each = std::max<std::int64_t>(1, processors() / many.at_once);
  std::size_t done = 0;
  many.on_end = [&](std::size_t i, const RunOutcome& r) {
    ++done;
    if (quiet) return;
    std::string what = r.error.empty() ? "done" : "failed: " + r.error;
    if (r.run && json_member(*r.run, "/final") != nullptr) {
      const auto accuracy = said<double>(*r.run, "/final/accuracy"),
                 loss = said<double>(*r.run, "/final/loss");
      what = accuracy ? fmt::format("accuracy {:.4f}", *accuracy)
                      : fmt::format("loss {}", loss_text(loss.value_or(NAN)));
      what += fmt::format(", {:.1f} s{}", said<double>(*r.run, "/seconds").value_or(0.0),
                          r.kept ? " (was there already)" : "");
    }
    std::cout << fmt::format("{}/{} {} seed {}: {}\n", done, runs.size(), jobs[i].rule, jobs[i].seed, what)
              << std::flush;
  };
  const Interrupt interrupt;
  many.stop_requested = [&] { return interrupt.requested(); };
  if (!quiet)
    std::cout << fmt::format("{} rules, {} seeds each, {} at once; runs in {}\n", rules.size(), c.seeds,
                             many.at_once, many.folder)
              << std::flush;
  const std::vector<RunOutcome> outcomes = many(runs);
  if (interrupt.requested()) {
    std::cout << fmt::format("stopped; the same command goes on where {} is\n", many.folder);
    return interrupt.exit_code();
  }
  std::vector<RunGroup> groups;
  bool failed = false;
  for (const std::string& rule : rules) {
    std::vector<RunOutcome> own;
    for (std::size_t i = 0; i < jobs.size(); ++i)
      if (jobs[i].rule == rule) own.push_back(outcomes[i]);
    groups.push_back(group_of(rule, own));
    failed = failed || !groups.back().failures.empty();
  }
  std::cout << "\n" << groups_text(groups, "rule");
  write_comparison(many.folder, {.task = s.task, .model = s.model, .command = plan.command}, groups);
  if (!quiet) std::cout << fmt::format("\npage {0}/page.html, table {0}/compare.json\n", many.folder);
  return failed ? 1 : 0;
}

}  // namespace etrace::cli
