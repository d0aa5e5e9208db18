#include "compiler/sample_moves.h"

#include <algorithm>
#include <unordered_map>

#include "etrace/ops/index.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "ops/conv_kernel.h"
#include "ops/index_common.h"

namespace etrace {

namespace {

using Axis = std::optional<std::size_t>;

bool has(const Dims& axes, std::size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
}

// Of all operands that have samples; none if they differ.
Axis common_axis(const SampleAxes& axes) {
  Axis found;
  for (const Axis& a : axes) {
    if (a && found && *a != *found) return std::nullopt;
    if (a) found = a;
  }
  return found;
}

Axis along(const Eqn& eqn, const SampleAxes& axes, const char* param) {
  const Axis a = common_axis(axes);
  return a && eqn.params.integer(param) != static_cast<std::int64_t>(*a) ? a : std::nullopt;
}
Axis cumulative(const Eqn& eqn, const SampleAxes& axes) { return along(eqn, axes, "axis"); }
Axis sorted(const Eqn& eqn, const SampleAxes& axes) { return along(eqn, axes, "dimension"); }

Axis reversed(const Eqn& eqn, const SampleAxes& axes) {
  return has(eqn.params.dims("dimensions"), *axes[0]) ? std::nullopt : axes[0];
}

Axis reduced(const Eqn& eqn, const SampleAxes& axes) {
  const Dims gone = eqn.params.dims("axes");
  const std::size_t a = *axes[0];
  if (has(gone, a)) return std::nullopt;
  return a - static_cast<std::size_t>(std::count_if(
                 gone.begin(), gone.end(), [&](std::int64_t g) { return g < static_cast<std::int64_t>(a); }));
}

Axis padded(const Eqn& eqn, const SampleAxes& axes) {
  if (!axes[0] || axes[1]) return std::nullopt;
  return structure::int_table("pad", eqn.params, "padding_config", 3)[*axes[0]] == Dims{0, 0, 0}
             ? axes[0]
             : std::nullopt;
}

bool any_start(const SampleAxes& axes, std::size_t first) {
  return std::any_of(axes.begin() + static_cast<std::ptrdiff_t>(first), axes.end(),
                     [](const Axis& a) { return a.has_value(); });
}

// The window must hold all samples.
Axis sliced(const Eqn& eqn, const SampleAxes& axes) {
  if (!axes[0] || any_start(axes, 1)) return std::nullopt;
  return eqn.out[0].aval.shape[*axes[0]] == aval_of(eqn.in[0]).shape[*axes[0]] ? axes[0] : std::nullopt;
}
Axis updated(const Eqn& eqn, const SampleAxes& axes) {
  const Axis a = common_axis({axes[0], axes[1]});
  if (!a || any_start(axes, 2)) return std::nullopt;
  return aval_of(eqn.in[1]).shape[*a] == aval_of(eqn.in[0]).shape[*a] ? a : std::nullopt;
}

// How axes of the operand, of the index vectors and of the windows (a gather's result, a scatter's updates)
// belong together.
class WindowAxes {
 public:
  WindowAxes(structure::WindowDims dims, const Aval& operand, const Shape& windows, Dims sizes)
      : d_(std::move(dims)), operand_(operand.shape), sizes_(std::move(sizes)) {
    for (std::size_t i = 0; i < operand_.rank(); ++i)
      if (!has(d_.collapsed, i) && !has(d_.operand_batching, i)) shown_.push_back(i);
    for (std::size_t i = 0; i < windows.rank(); ++i)
      if (!has(d_.window, i)) vectors_.push_back(i);
  }

  // Where the samples of the operand are in the windows.
  Axis of_operand(std::size_t axis) const {
    for (std::size_t k = 0; k < d_.operand_batching.size(); ++k)
      if (d_.operand_batching[k] == static_cast<std::int64_t>(axis))
        return of_indices(static_cast<std::size_t>(d_.indices_batching[k]));
    const auto at = std::find(shown_.begin(), shown_.end(), axis);
    if (at == shown_.end() || sizes_[axis] != operand_[axis]) return std::nullopt;
    return static_cast<std::size_t>(d_.window[static_cast<std::size_t>(at - shown_.begin())]);
  }
  // None for the axis of an index's components.
  Axis of_indices(std::size_t axis) const {
    return axis < vectors_.size() ? std::optional(vectors_[axis]) : std::nullopt;
  }
  bool batching(std::size_t operand_axis) const { return has(d_.operand_batching, operand_axis); }

 private:
  structure::WindowDims d_;
  Shape operand_;
  Dims sizes_;
  std::vector<std::size_t> shown_, vectors_;
};

Axis gathered(const Eqn& eqn, const SampleAxes& axes) {
  const WindowAxes w(structure::gather_dims(eqn.params), aval_of(eqn.in[0]), eqn.out[0].aval.shape,
                     eqn.params.dims("slice_sizes"));
  const Axis operand = axes[0] ? w.of_operand(*axes[0]) : std::nullopt;
  const Axis indices = axes[1] ? w.of_indices(*axes[1]) : std::nullopt;
  if ((axes[0] && !operand) || (axes[1] && !indices)) return std::nullopt;
  return common_axis({operand, indices});
}

// Samples that choose their places must have their own part of the operand.
Axis scattered(const Eqn& eqn, const SampleAxes& axes) {
  const structure::WindowDims d = structure::scatter_dims(eqn.params);
  const Aval &operand = aval_of(eqn.in[0]), &updates = aval_of(eqn.in[2]);
  const WindowAxes w(d, operand, updates.shape,
                     structure::update_window_sizes("scatter", d, operand, updates));
  for (std::size_t a = 0; a < operand.shape.rank(); ++a) {
    const Axis in_updates = w.of_operand(a);
    if (!in_updates || (axes[0] && *axes[0] != a) || (axes[2] && *axes[2] != *in_updates)) continue;
    if (axes[1] && (!w.batching(a) || w.of_indices(*axes[1]) != in_updates)) continue;
    return a;
  }
  return std::nullopt;
}

Axis convolved(const Eqn& eqn, const SampleAxes& axes) {
  const ConvOptions o = conv_options(eqn.params, aval_of(eqn.in[0]).shape.rank());
  if (axes[1] || o.batch_group_count != 1 || o.lhs_spec[0] != static_cast<std::int64_t>(*axes[0]))
    return std::nullopt;
  return static_cast<std::size_t>(o.out_spec[0]);
}

}  // namespace

Axis samples_behind(const Eqn& eqn, const SampleAxes& axes) {
  using Rule = Axis (*)(const Eqn&, const SampleAxes&);
  static const std::unordered_map<const Primitive*, Rule> rules{
      {&cumsum_p, cumulative},
      {&cumprod_p, cumulative},
      {&cummax_p, cumulative},
      {&cummin_p, cumulative},
      {&cumlogsumexp_p, cumulative},
      {&split_p, cumulative},
      {&sort_p, sorted},
      {&rev_p, reversed},
      {&reduce_and_p, reduced},
      {&reduce_or_p, reduced},
      {&argmax_p, reduced},
      {&argmin_p, reduced},
      {&pad_p, padded},
      {&dynamic_slice_p, sliced},
      {&dynamic_update_slice_p, updated},
      {&gather_p, gathered},
      {&scatter_p, scattered},
      {&scatter_add_p, scattered},
      {&conv_general_dilated_p, convolved},
  };
  const auto rule = rules.find(eqn.prim);
  return rule == rules.end() ? std::nullopt : rule->second(eqn, axes);
}

}  // namespace etrace
