#include "etrace/nn/container.h"

#include "etrace/ops/elementwise.h"
#include "etrace/ops/shape.h"
#include "nn/check.h"

namespace etrace::nn {

Array Residual::update(const Array& x) {
  const Array y = Sequential::update(x);
  if (y.shape() != x.shape())
    wrong_input("a Residual whose layers give " + to_string(y.aval()), x, "an input of that shape");
  return x + y;
}

Array Parallel::update(const Array& x) {
  if (branches.size() == 0) wrong_option("a Parallel", "it has no branches; add some with add<Layer>(…)");
  Arrays results;
  for (std::size_t i = 0; i < branches.size(); ++i) results.push_back(branches[i](x));
  if (how_ == Joined::Concatenated) return concatenate(results, -1);
  Array total = results[0];
  for (std::size_t i = 1; i < results.size(); ++i) {
    if (results[i].shape() != total.shape())
      wrong_option("a Parallel", "its branches give " + to_string(total.aval()) + " and " +
                                     to_string(results[i].aval()) + ", which cannot be added");
    total = total + results[i];
  }
  return total;
}

Parallel::Parallel(Joined how) : branches(child<ModuleList>("branches")), how_(how) {}

}  // namespace etrace::nn
