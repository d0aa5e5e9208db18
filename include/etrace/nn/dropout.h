// y = x ⊙ m/p    m = 1 with probability p, else 0; drawn anew at every step
#pragma once

#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct DropoutOptions {
  double keep = 0.5;  // p, the probability with which an entry is kept
  std::uint64_t seed = 0;
};

// Active while the model trains (Module::train); y = x while it is evaluated. The random key `key` goes on
// over resets.
class Dropout : public SameUnitLayer {
 public:
  using Options = DropoutOptions;
  explicit Dropout(const DropoutOptions& = {});
  Array update(const Array& x) override;

  RandomState& key;

 private:
  double keep_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
