#include "etrace/synthesizer.h"

#include <fmt/format.h>

#include "etrace/ops/numpy.h"
#include "etrace/random.h"

namespace etrace {

namespace {

std::int64_t affine_width(const HiddenGroup& group) {
  const Shape shape = group.varshape();
  return (shape.is_scalar() ? 1 : shape.back()) * group.num_state();
}

Dtype affine_dtype(const HiddenGroup& group) { return group.hidden_states.front().invar.aval.dtype; }

}  // namespace

Arrays Synthesizer::initial(const ETraceGraph& g) const {
  Arrays out;
  for (const TraceSlot& s : params(g)) out.push_back(zeros_of(s.aval));
  return out;
}

std::vector<TraceSlot> AffineSynthesizer::params(const ETraceGraph& g) const {
  std::vector<TraceSlot> out;
  for (const HiddenGroup& group : g.hidden_groups) {
    const std::int64_t n = affine_width(group);
    const std::string place = fmt::format("synthesizer/group{}/", group.index);
    out.push_back({place + "weight", {affine_dtype(group), {n, n}}, PortRole::RuleParam});
    out.push_back({place + "bias", {affine_dtype(group), {n}}, PortRole::RuleParam});
  }
  return out;
}

Arrays AffineSynthesizer::initial(const ETraceGraph& g) const {
  Arrays out = Synthesizer::initial(g);
  if (scale_ == 0.0) return out;
  const Array keys = random::split(random::key(seed_), static_cast<std::int64_t>(g.hidden_groups.size()));
  for (std::size_t k = 0; k < g.hidden_groups.size(); ++k) {
    const auto i = static_cast<std::int64_t>(k);
    Array& weight = out[2 * k];
    weight =
        scale_ * random::normal(squeeze(slice_axis(keys, 0, i, i + 1), {0}), weight.shape(), weight.dtype());
  }
  return out;
}

Arrays AffineSynthesizer::estimate(const ETraceGraph& g, const WindowData&, ArraySpan params,
                                   ArraySpan hidden) const {
  Arrays out;
  for (std::size_t k = 0; k < g.hidden_groups.size(); ++k) {
    const std::int64_t n = affine_width(g.hidden_groups[k]);
    const Array flat = reshape(hidden[k], {hidden[k].size() / n, n});
    out.push_back(
        reshape(matmul_plain(flat, params[2 * k]) + params[2 * k + 1], hidden[k].shape().to_dims()));
  }
  return out;
}

}  // namespace etrace
