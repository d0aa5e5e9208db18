// Positions sorted into cells, so that those near a point are found without asking all of them.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "etrace/array.h"

namespace etrace::nn::connect {

using Position = std::span<const double>;
double distance(Position, Position);

class PositionGrid {
 public:
  // positions [neurons, dimensions], finite; `who` is named in errors.
  PositionGrid(const char* who, const Array& positions,
               double reach = std::numeric_limits<double>::infinity());

  Position at(std::int64_t i) const;
  // All that may lie within the reach of a point, ascending; all that do are among them.
  const Dims& near(Position);

 private:
  std::int64_t cell_of(std::size_t axis, double x) const;  // outside of the box: the cell at its edge
  void collect(Position, std::size_t axis, std::int64_t cell);

  std::size_t axes_;
  double reach_;
  std::vector<double> values_, low_, step_;
  Dims cells_;            // per axis
  Dims first_, members_;  // the members of cell c are first_[c] … first_[c + 1]
  Dims found_;
};

}  // namespace etrace::nn::connect
