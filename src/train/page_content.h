// What the page of a run shows of its model: pictures of activity, weights before and after, the graph, what
// the traces take, what was asked beyond the defaults.
#pragma once

#include <vector>

#include "etrace/learner.h"
#include "report/run_page.h"
#include "train/activity.h"
#include "train/config.h"

#pragma GCC visibility push(default)
namespace etrace::train {

// Small enough for a page: of many units some, of many steps the strongest of each stretch.
RunPage::Picture picture_of(const SeenActivity&);

// Of every parameter as it is.
struct WeightSpread {
  std::string name;
  RunPage::Spread spread;
};
std::vector<WeightSpread> weight_spreads(const Module&);

// Empty where the graph is too large to be looked at.
std::string graph_of(const Learner&);
RunPage::Table trace_table(const Learner&);

// Settings that are not those of the recipe.
RunPage::Table changes_table(const ConfigItems& recipe, const ConfigItems&);

}  // namespace etrace::train
#pragma GCC visibility pop
