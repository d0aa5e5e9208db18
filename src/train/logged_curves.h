// The curves of a run, from its log: training (an average over about the last 50 batches) and checks.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "report/run_page.h"

#pragma GCC visibility push(default)
namespace etrace::train {

struct LoggedCurves {
  RunPage::Plot loss{"Loss", {{"training", {}}, {"held out", {}}}, true};
  RunPage::Plot accuracy{"Accuracy", {{"training", {}}, {"held out", {}}}, false};

  explicit LoggedCurves(const std::string& log);  // lines that are no such objects are left out; IoError

 private:
  void add(const nlohmann::json& line);
  double mean_loss_ = 0.0, mean_accuracy_ = 0.0;
};

}  // namespace etrace::train
#pragma GCC visibility pop
