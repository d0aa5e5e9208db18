#include "etrace/nn/dropout.h"

#include "etrace/nn/init.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "nn/check.h"

namespace etrace::nn {

Dropout::Dropout(const DropoutOptions& o)
    : key(drawn<RandomState>("key", [seed = o.seed] { return layer_key(seed); })), keep_(o.keep) {
  if (!(keep_ > 0.0 && keep_ <= 1.0))
    wrong_option("Dropout", "entries are kept with probability " + std::to_string(keep_) +
                                "; expected more than 0 and at most 1");
}

Array Dropout::update(const Array& x) {
  if (!is_floating(x.dtype())) wrong_input("a Dropout", x, "real numbers");
  const Array kept = random::bernoulli(key.next(), keep_, x.shape());
  const Array thinned = where(kept, x * (1.0 / keep_), full_like(x, 0.0));
  return where(training(), thinned, x);
}

}  // namespace etrace::nn
