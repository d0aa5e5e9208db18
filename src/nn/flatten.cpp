#include "etrace/nn/flatten.h"

#include "etrace/ops/shape.h"
#include "nn/check.h"

namespace etrace::nn {

namespace {
// The last `count` axes in place of which `by` stands.
Array with_last_axes(const Array& x, std::size_t count, const Dims& by) {
  Dims sizes = x.shape().to_dims();
  sizes.resize(sizes.size() - count);
  sizes.insert(sizes.end(), by.begin(), by.end());
  return reshape(x, sizes);
}
}  // namespace

Array Flatten::update(const Array& x) {
  require_tail("a Flatten of " + to_string(in_size), x, in_size);
  return with_last_axes(x, in_size.rank(), {in_size.size()});
}

Array Unflatten::update(const Array& x) {
  require_tail("an Unflatten to " + to_string(out_size), x, {out_size.size()});
  return with_last_axes(x, 1, out_size.to_dims());
}

}  // namespace etrace::nn
