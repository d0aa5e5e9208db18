// The neighbourhoods of SnAp: which positions of a group a position influences within n − 1 steps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/position_graph.h"
#include "etrace/error.h"
#include "etrace/etp.h"

namespace etrace {

namespace {

// Boolean square matrices, row-major.
using Matrix = std::vector<bool>;

Matrix identity_matrix(std::size_t n) {
  Matrix m(n * n, false);
  for (std::size_t i = 0; i < n; ++i) m[i * n + i] = true;
  return m;
}

// I ∨ A ∨ … ∨ A^(n-1), by breadth-first steps from every row until nothing changes.
Matrix closure(const Matrix& a, std::size_t size, std::int64_t n) {
  Matrix closed = identity_matrix(size);
  for (std::int64_t step = 1; step < n; ++step) {
    Matrix next = closed;
    for (std::size_t p = 0; p < size; ++p)
      for (std::size_t q = 0; q < size; ++q)
        if (closed[p * size + q])
          for (std::size_t r = 0; r < size; ++r)
            if (a[q * size + r]) next[p * size + r] = true;
    if (next == closed) break;
    closed = std::move(next);
    if (std::find(closed.begin(), closed.end(), false) == closed.end()) break;
  }
  return closed;
}

// Positions that p influences along one axis: column p, p itself first, the others ascending.
std::vector<std::vector<std::int64_t>> columns(const Matrix& m, std::size_t size) {
  std::vector<std::vector<std::int64_t>> out(size);
  for (std::size_t p = 0; p < size; ++p)
    for (std::size_t q = 0; q < size; ++q)
      if (m[q * size + p]) out[p].push_back(static_cast<std::int64_t>(q));
  return out;
}

// Which positions influence which along one axis.
struct AxisInfluence {
  std::size_t size = 1;
  std::optional<Matrix> closed;  // none: every one every other
  std::size_t most() const {     // that one position influences
    if (!closed) return size;
    std::size_t out = 0;
    for (std::size_t p = 0; p < size; ++p) {
      std::size_t n = 0;
      for (std::size_t q = 0; q < size; ++q) n += (*closed)[q * size + p] ? 1 : 0;
      out = std::max(out, n);
    }
    return out;
  }
  Matrix matrix() const { return closed ? *closed : Matrix(size * size, true); }
};

// Says also, in the pattern, whether and why it is conservative.
std::vector<AxisInfluence> influence(const HiddenGroup& group, const CompileOptions& options,
                                     PositionPattern& pattern) {
  const Shape varshape = group.varshape();
  const PositionSweep sweep =
      sweep_positions(group.transition_jaxpr, group.hidden_invars, varshape, options.compat);
  pattern.reason = sweep.reason;
  pattern.conservative = !sweep.reason.empty();
  const bool samples_apart =
      pattern.conservative && group.batch_size && options.compat == Compat::None &&
      why_samples_mix(group.transition_jaxpr, group.hidden_invars, *group.batch_size).empty();
  std::vector<AxisInfluence> out;
  for (std::size_t axis = 0; axis < varshape.rank(); ++axis) {
    const auto size = static_cast<std::size_t>(varshape[axis]);
    out.push_back({size, std::nullopt});
    if (pattern.conservative && !(axis == 0 && samples_apart)) continue;
    Matrix step = identity_matrix(size);
    if (sweep.mixing != nullptr && axis + 1 == varshape.rank())
      step = etp_rules(*sweep.mixing->prim)->adjacency(sweep.mixing->params, varshape[axis]);
    out.back().closed = closure(step, size, pattern.n);
  }
  return out;
}

// Before anything of that size is made.
void require_within_limit(const HiddenGroup& group, const PositionPattern& pattern, std::int64_t width,
                          std::int64_t limit) {
  const std::int64_t positions = group.varshape().size(), states = group.num_state();
  const double elements = static_cast<double>(positions) * std::pow(static_cast<double>(width * states), 2);
  if (elements <= static_cast<double>(limit)) return;
  throw NotSupportedError(
      "snap",
      fmt::format(
          "sparse_n={} on group {} needs {} positions × ({} neighbours × {} states)² = {:.0f} Jacobian "
          "elements, over snap_max_jacobian_elements={}; lower n, raise the limit, or use D_RTRL",
          pattern.n, group.index, positions, width, states, elements, limit));
}

}  // namespace

PositionPattern position_pattern(const HiddenGroup& group, std::int64_t n, const CompileOptions& options) {
  if (n < 1) throw ValueError("snap", fmt::format("SnAp order {}; it must be at least 1", n));
  const Shape varshape = group.varshape();
  PositionPattern pattern;
  pattern.n = n;
  const std::vector<AxisInfluence> along = influence(group, options, pattern);
  std::int64_t width = 1;
  for (const AxisInfluence& a : along) width *= static_cast<std::int64_t>(a.most());
  require_within_limit(group, pattern, width, options.snap_max_jacobian_elements);
  // Neighbours of a position: every combination of the axes' columns, as flat indices.
  std::vector<std::vector<std::vector<std::int64_t>>> per_axis;  // axis -> position -> those it influences
  for (const AxisInfluence& a : along) {
    pattern.axes.push_back(a.matrix());
    per_axis.push_back(columns(pattern.axes.back(), a.size));
  }
  const std::int64_t positions = varshape.size();
  const Dims strides = strides_of(varshape);
  for (std::int64_t p = 0; p < positions; ++p) {
    Dims flat{0};
    for (std::size_t axis = 0; axis < varshape.rank(); ++axis) {
      const auto at = static_cast<std::size_t>(p / strides[axis] % varshape[axis]);
      Dims next;
      for (const std::int64_t base : flat)
        for (const std::int64_t q : per_axis[axis][at]) next.push_back(base + q * strides[axis]);
      flat = std::move(next);
    }
    std::sort(flat.begin(), flat.end());
    flat.erase(std::find(flat.begin(), flat.end(), p));
    flat.insert(flat.begin(), p);
    std::vector<bool> valid(flat.size(), true);
    flat.resize(static_cast<std::size_t>(width), p);
    valid.resize(static_cast<std::size_t>(width), false);
    pattern.neighbours.push_back(std::move(flat));
    pattern.valid.push_back(std::move(valid));
  }
  return pattern;
}

}  // namespace etrace
