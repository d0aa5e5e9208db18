#include "cli/accuracy_rows.h"

#include <fmt/format.h>

#include "etrace/tasks.h"

namespace etrace::cli {

namespace {

using Words = std::vector<std::string>;

AccuracyRun by(const std::string& rule, double bar = 0.0, double goal = 0.0, double reference = 0.0) {
  return {rule, {"--rule=" + rule}, bar, goal, reference};
}
AccuracyRun windows(const std::string& rule, int steps, double bar, double goal, double reference) {
  return {rule + ", windows of " + std::to_string(steps),
          {"--rule=" + rule, "--window=" + std::to_string(steps)},
          bar,
          goal,
          reference};
}
// Delayed match over so many steps: 100 of the sample, a delay, 100 of the test.
Words match_words(int steps) {
  return {"delayed_match", "--model=alif", "--set", "sample=100",
          "--set",         "test=100",     "--set", "delay=" + std::to_string(steps - 200)};
}
AccuracyRun slow_pp_prop(double bar, double goal) {
  return {"pp_prop, decay 0.99", {"--rule=pp_prop", "--decay=0.99"}, bar, goal, 0};
}

// Every recipe of every task, as `etrace train TASK --model MODEL` has it.
std::vector<AccuracyRow> recipe_rows() {
  std::vector<AccuracyRow> out;
  for (const TaskEntry* task : tasks()) {
    if (task->name == "data") continue;
    for (const TaskRecipe& r : task->recipes) {
      const bool first = &r == task->recipes.data();
      AccuracyRow row{.name = task->name + (first ? "" : "-" + r.model),
                      .text = fmt::format("{}, {} {}", task->name, r.model, r.hidden),
                      .data = {},
                      .words = {task->name},
                      .runs = {{r.rule, {}, 0.0, 0.0, 0.0}}};
      if (!first) row.words.push_back("--model=" + r.model);
      out.push_back(std::move(row));
    }
  }
  return out;
}

// The costly ones first, so that the others fill the processors at the end.
std::vector<AccuracyRow> data_rows() {
  return {
      {"14",
       "evidence accumulation, 2,250 steps, ALIF",
       "",
       {"evidence_accumulation", "--model=alif"},
       {by("EProp", 90, 95), by("D_RTRL"), slow_pp_prop(0, 0), by("BPTT")}},
      {"6",
       "Fashion-MNIST by rows, 60,000 images, GRU 128",
       "fashion_mnist",
       {"fashion_mnist", "--hidden=128", "--batch=100", "--updates=1800"},
       {by("D_RTRL", 84, 88, 75.8), by("BPTT", 0, 0, 86.4)}},
      {"15b",
       "delayed match, 1,000 steps, ALIF",
       "",
       match_words(1000),
       {slow_pp_prop(95, 98), by("D_RTRL"), by("BPTT")}},
      {"15a",
       "delayed match, 500 steps, ALIF",
       "",
       match_words(500),
       {slow_pp_prop(95, 98), by("D_RTRL"), by("BPTT")}},
      {"9",
       "digits by pixels, 64 steps, GRU 64",
       "",
       {"sequential_digits", "--set", "pixels=1"},
       {by("D_RTRL", 80, 90, 69), windows("D_RTRL", 16, 80, 90, 0), by("pp_prop"), by("BPTT", 0, 0, 92.4)}},
      {"4",
       "spoken digits (MFCC), LIF 128",
       "spoken_digits",
       {"spoken_digits", "--model=lif"},
       {by("D_RTRL", 90, 95, 92.0), by("pp_prop", 85, 92, 87.3), by("EProp"), by("BPTT", 0, 0, 95.3)}},
      {"4b",
       "spoken digits (MFCC), ALIF 128",
       "spoken_digits",
       {"spoken_digits", "--model=alif"},
       {by("D_RTRL", 90, 95, 92.0), by("pp_prop", 85, 92, 87.3), by("BPTT", 0, 0, 95.3)}},
      {"3",
       "spoken digits (MFCC), GRU 64",
       "spoken_digits",
       {"spoken_digits"},
       {by("D_RTRL", 97, 99, 98.3), by("pp_prop", 0, 0, 91.3), by("BPTT", 0, 0, 99.7)}},
      {"5",
       "spoken digits (WAV, a frame every 20 ms), GRU 64",
       "spoken_digits_wav",
       {"spoken_digits_wav", "--set", "read=hop=20"},
       {by("D_RTRL", 95, 98), by("pp_prop"), by("BPTT")}},
      {"7",
       "MNIST-5k by rows, GRU 64",
       "mnist_5k",
       {"mnist_5k"},
       {windows("D_RTRL", 1, 87, 90, 88.5), windows("D_RTRL", 8, 92, 96, 0), by("pp_prop"),
        by("BPTT", 0, 0, 96.8)}},
      {"16",
       "Mackey–Glass, 10 steps ahead, GRU 64 (mean squared error)",
       "",
       {"mackey_glass"},
       {by("D_RTRL"), by("pp_prop"), by("BPTT")}},
      {"2",
       "JapaneseVowels, LIF 128",
       "japanese_vowels",
       {"japanese_vowels", "--model=lif"},
       {by("D_RTRL", 85, 93, 82.4), by("pp_prop", 0, 0, 75), by("EProp"), by("BPTT", 0, 0, 80.0)}},
      {"2b",
       "JapaneseVowels, ALIF 128",
       "japanese_vowels",
       {"japanese_vowels", "--model=alif"},
       {by("D_RTRL", 85, 93, 82.4), by("pp_prop", 0, 0, 75), by("BPTT", 0, 0, 80.0)}},
      {"10a",
       "BasicMotions, GRU 64",
       "basic_motions",
       {"basic_motions"},
       {by("D_RTRL", 90, 97.5, 90.0), by("pp_prop"), by("BPTT", 0, 0, 100)}},
      {"1",
       "JapaneseVowels, GRU 64",
       "japanese_vowels",
       {"japanese_vowels"},
       {by("D_RTRL", 96, 97.5, 97.3), by("pp_prop", 96, 97.5, 97.6), by("BPTT", 0, 0, 97.6)}},
      {"13",
       "MNIST-1D, 40 steps, GRU 64",
       "mnist1d",
       {"mnist1d"},
       {by("D_RTRL"), windows("D_RTRL", 40, 80, 90, 0), by("pp_prop"), by("BPTT", 0, 0, 91)}},
      {"10b",
       "ItalyPowerDemand, GRU 64",
       "italy_power",
       {"italy_power"},
       {by("D_RTRL", 90, 96, 92), by("pp_prop"), by("BPTT", 0, 0, 97.1)}},
      {"8",
       "digits by rows, 8 steps, GRU 64",
       "",
       {"sequential_digits"},
       {by("D_RTRL", 95, 97, 94.2), by("pp_prop", 0, 0, 84.0), by("BPTT", 0, 0, 97.6)}},
  };
}

}  // namespace

const std::vector<AccuracyRow>& accuracy_rows() {
  static const std::vector<AccuracyRow> rows = [] {
    std::vector<AccuracyRow> all = data_rows(), recipes = recipe_rows();
    all.insert(all.end(), recipes.begin(), recipes.end());
    return all;
  }();
  return rows;
}

}  // namespace etrace::cli
