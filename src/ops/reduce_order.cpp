#include "ops/reduce_order.h"

#include <algorithm>

namespace etrace {

ReduceOrder reduce_order(const Shape& shape, const Dims& axes) {
  ReduceOrder order;
  bool behind_kept = true;
  for (std::size_t a = shape.rank(); a-- > 0;) {
    if (shape[a] == 1) continue;
    const auto axis = static_cast<std::int64_t>(a);
    if (std::find(axes.begin(), axes.end(), axis) == axes.end())
      behind_kept = false;
    else
      (behind_kept ? order.line : order.chain).push_back(axis);
  }
  std::reverse(order.chain.begin(), order.chain.end());
  std::reverse(order.line.begin(), order.line.end());
  return order;
}

}  // namespace etrace
