// Random models and their judge together: what is asked of a model, how one that fails is made smaller while
// it fails in the same way, and what is left as one file.
#pragma once

#include "support/gradient_judge.h"
#include "support/random_models.h"

namespace etrace::testing {

// The rules and methods that a model is judged by: so many rules, chosen by the seed, one of them of the kind
// that can be exact, and of the windows some.
JudgeOptions options_for(const ModelDescription&, std::uint64_t seed, std::size_t rules);

using StillFails = std::function<bool(const ModelDescription&)>;
struct Shrunk {
  ModelDescription model;
  std::size_t tried = 0, taken = 0;
};
// Pieces go one by one (states, lines, bodies, the batch, sizes, steps, options, orders) until none can. What
// cannot be traced does not fail.
struct ShrinkOptions {
  bool sizes = true;  // fewer steps and smaller sizes, too
  std::size_t max_tries = 3000;
};
Shrunk shrink(const ModelDescription&, const StillFails&, const ShrinkOptions& = {});

// The finding that a model gives of this class under these options, if it does.
std::optional<Finding> finding_like(const ModelDescription&, const Finding&, const JudgeOptions&);
// The smallest model that gives such a finding, with that finding.
struct MinimalCase {
  ModelDescription model;
  Finding finding;
  bool weighted = false;  // only with weights of the losses
};
MinimalCase minimal_case(const ModelDescription&, const Finding&, const JudgeOptions&);

// A model file (etrace/model_io.h) that holds the step, the data, the BPTT gradient and, where a rule must
// equal it, the run of that rule, so that `etrace check FILE` fails; the note says what was found.
std::string report_file(const MinimalCase&, const JudgeOptions& rules);

}  // namespace etrace::testing
