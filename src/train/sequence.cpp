#include "train/sequence.h"

namespace etrace::train {

const ExpectedRun* reference_run(const Model& m) {
  if (!m.expected || !m.expected->runs) return nullptr;
  for (const ExpectedRun& r : *m.expected->runs)
    if (r.args) return &r;
  return nullptr;
}

}  // namespace etrace::train
