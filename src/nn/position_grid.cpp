#include "nn/position_grid.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nn/check.h"

namespace etrace::nn::connect {

double distance(Position a, Position b) {
  double square = 0.0;
  for (std::size_t d = 0; d < a.size(); ++d) square += (a[d] - b[d]) * (a[d] - b[d]);
  return std::sqrt(square);
}

PositionGrid::PositionGrid(const char* who, const Array& positions, double reach)
    : axes_(static_cast<std::size_t>(positions.dim(1))),
      reach_(reach),
      values_(positions.tensor().to_doubles()) {
  const std::int64_t n = positions.dim(0);
  for (std::size_t k = 0; k < values_.size(); ++k)
    if (!std::isfinite(values_[k]))
      wrong_option(who, "the position of neuron " + std::to_string(k / axes_) + " is not finite");
  if (std::isnan(reach)) wrong_option(who, "a reach that is not a number");

  // Cells are as wide as the reach or wider, and no more than there are neurons.
  const double most = std::floor(
      std::pow(static_cast<double>(n), 1.0 / static_cast<double>(std::max<std::size_t>(axes_, 1))));
  std::int64_t total = 1;
  for (std::size_t d = 0; d < axes_; ++d) {
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (std::size_t k = d; k < values_.size(); k += axes_) {
      low = std::min(low, values_[k]);
      high = std::max(high, values_[k]);
    }
    const double wide = n > 0 ? high - low : 0.0;
    const double count =
        std::isfinite(wide) ? std::clamp(std::floor(wide / std::max(reach, 1e-300)), 1.0, std::max(most, 1.0))
                            : 1.0;
    cells_.push_back(static_cast<std::int64_t>(count));
    low_.push_back(low);
    step_.push_back(wide / count);
    total *= cells_.back();
  }

  const auto cell = [&](std::int64_t i) {
    std::int64_t c = 0;
    for (std::size_t d = 0; d < axes_; ++d) c = c * cells_[d] + cell_of(d, at(i)[d]);
    return static_cast<std::size_t>(c);
  };
  first_.assign(static_cast<std::size_t>(total) + 1, 0);
  for (std::int64_t i = 0; i < n; ++i) ++first_[cell(i) + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  Dims next = first_;
  members_.resize(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) members_[static_cast<std::size_t>(next[cell(i)]++)] = i;
}

Position PositionGrid::at(std::int64_t i) const {
  return Position(values_).subspan(static_cast<std::size_t>(i) * axes_, axes_);
}

std::int64_t PositionGrid::cell_of(std::size_t d, double x) const {
  const double cell = std::floor((x - low_[d]) / step_[d]);
  return cell > 0.0 ? static_cast<std::int64_t>(std::min(cell, static_cast<double>(cells_[d] - 1))) : 0;
}

const Dims& PositionGrid::near(Position x) {
  found_.clear();
  collect(x, 0, 0);
  std::sort(found_.begin(), found_.end());
  return found_;
}

void PositionGrid::collect(Position x, std::size_t d, std::int64_t cell) {
  if (d == axes_) {
    found_.insert(found_.end(), members_.begin() + first_[static_cast<std::size_t>(cell)],
                  members_.begin() + first_[static_cast<std::size_t>(cell) + 1]);
    return;
  }
  const double reach = reach_ * (1.0 + 1e-9);  // distances are rounded
  for (std::int64_t c = cell_of(d, x[d] - reach); c <= cell_of(d, x[d] + reach); ++c)
    collect(x, d + 1, cell * cells_[d] + c);
}

}  // namespace etrace::nn::connect
