// The rows of `etrace bench-accuracy`: what is trained, by which rules, and what each must reach.
#pragma once

#include <string>
#include <vector>

namespace etrace::cli {

struct AccuracyRun {
  std::string label;               // "D_RTRL", "D_RTRL, windows of 1"
  std::vector<std::string> words;  // behind those of the row
  double bar = 0.0, goal = 0.0;    // accuracy in per cent; 0: none
  // What braintrace 0.2.6 reached with one seed and about as many updates; 0: not measured.
  double reference = 0.0;
};
struct AccuracyRow {
  std::string name;                // "1", "15b"; or of a task's recipe: "copying", "delayed_match-lif"
  std::string text;                // "JapaneseVowels, GRU 64"
  std::string data;                // a data set that must be installed; empty: none
  std::vector<std::string> words;  // behind `etrace train`: what differs from the defaults
  std::vector<AccuracyRun> runs;
};
// In the order in which they run.
const std::vector<AccuracyRow>& accuracy_rows();

}  // namespace etrace::cli
