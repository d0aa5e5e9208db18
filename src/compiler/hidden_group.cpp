// What a hidden group can compute: its slab [*varshape, S], its transition and the Jacobians of it.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/position_graph.h"
#include "etrace/error.h"
#include "etrace/graph.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"

namespace etrace {

std::int64_t HiddenGroup::num_state() const {
  std::int64_t n = 0;
  for (const HiddenInfo& h : hidden_states) n += h.num_state;
  return n;
}

std::int64_t HiddenGroup::trace_state_width() const {
  return num_state() * (snap ? static_cast<std::int64_t>(snap->num_neighbour()) : 1);
}

Array HiddenGroup::concat_hidden(ArraySpan values) const {
  if (values.size() != hidden_states.size())
    throw ValueError("hidden_group", fmt::format("{} values were given for the {} states of group {}",
                                                 values.size(), hidden_states.size(), index));
  Arrays parts;
  for (std::size_t i = 0; i < values.size(); ++i)
    parts.push_back(hidden_states[i].stacked()
                        ? values[i]
                        : expand_dims(values[i], {static_cast<std::int64_t>(values[i].rank())}));
  return parts.size() == 1 ? parts[0] : concatenate(parts, -1);
}

Arrays HiddenGroup::split_hidden(const Array& slab) const {
  if (slab.rank() == 0 || slab.shape().back() != num_state())
    throw ValueError("hidden_group", fmt::format("a slab of type {} for group {}, whose last axis must be {}",
                                                 to_string(slab.aval()), index, num_state()));
  Dims sizes;
  for (const HiddenInfo& h : hidden_states) sizes.push_back(h.num_state);
  Arrays parts = split(slab, sizes, -1);
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (!hidden_states[i].stacked())
      parts[i] = squeeze(parts[i], {static_cast<std::int64_t>(parts[i].rank()) - 1});
  return parts;
}

Arrays HiddenGroup::transition(ArraySpan hidden, ArraySpan consts) const {
  return eval_jaxpr(transition_jaxpr, consts, hidden);
}

namespace {

// Entry values on the group's slab: F(slab) = concat(transition(split(slab))).
Function slab_transition(const HiddenGroup& g, ArraySpan consts) {
  Arrays held(consts.begin(), consts.end());
  return [&g, held](ArraySpan slab) {
    return Arrays{g.concat_hidden(g.transition(g.split_hidden(slab[0]), held))};
  };
}

// J[p,a,q,b] with the positions flattened.
Array flat_jacobian(const HiddenGroup& g, ArraySpan hidden, ArraySpan consts) {
  const std::int64_t p = g.varshape().size(), s = g.num_state();
  const Array full = jacfwd(slab_transition(g, consts))(Arrays{g.concat_hidden(hidden)})[0];
  return reshape(full, {p, s, p, s});
}

// May position q act on position p within the pattern's steps?
bool acts_on(const PositionPattern& pattern, const Shape& varshape, std::int64_t q, std::int64_t p) {
  for (std::size_t axis = varshape.rank(); axis-- > 0;) {
    const std::int64_t size = varshape[axis];
    if (!pattern.axes[axis][static_cast<std::size_t>(p % size * size + q % size)]) return false;
    p /= size;
    q /= size;
  }
  return true;
}

// A colour per position, different for two that act on one and the same: one push along all positions of a
// colour tells their columns of the Jacobian apart. `positions` are those of the first sample; a pattern that
// was not sure that samples keep apart may name others, which nothing acts on.
std::vector<std::int64_t> colours(const PositionPattern& pattern, std::int64_t positions) {
  std::vector<Dims> acting(static_cast<std::size_t>(positions));  // by the position that is acted on
  const auto reached = [&](std::int64_t q, const auto& f) {
    const auto at = static_cast<std::size_t>(q);
    for (std::size_t k = 0; k < pattern.neighbours[at].size(); ++k)
      if (pattern.valid[at][k] && pattern.neighbours[at][k] < positions)
        f(static_cast<std::size_t>(pattern.neighbours[at][k]));
  };
  for (std::int64_t q = 0; q < positions; ++q) reached(q, [&](std::size_t p) { acting[p].push_back(q); });
  std::vector<std::int64_t> out(static_cast<std::size_t>(positions), -1);
  std::vector<std::int64_t> taken_by(static_cast<std::size_t>(positions), -1);  // by colour
  for (std::int64_t q = 0; q < positions; ++q) {
    reached(q, [&](std::size_t p) {
      for (const std::int64_t other : acting[p])
        if (const std::int64_t c = out[static_cast<std::size_t>(other)]; c >= 0)
          taken_by[static_cast<std::size_t>(c)] = q;
    });
    std::int64_t free = 0;
    while (taken_by[static_cast<std::size_t>(free)] == q) ++free;
    out[static_cast<std::size_t>(q)] = free;
  }
  return out;
}

// The blocks J[p,·,q,·] of all pairs of positions that may act on each other: by the pattern of SnAp, if
// there is one, and within one sample, where it is proven that samples do not mix. One push per state and
// colour, for all samples at once.
class Blocks {
 public:
  Blocks(const HiddenGroup& g, ArraySpan hidden, ArraySpan consts) : g_(g), states_(g.num_state()) {
    const bool apart =
        g.batch_size && why_samples_mix(g.transition_jaxpr, g.transition_jaxpr.invars, g.batch()).empty();
    const std::int64_t samples = apart ? g.batch() : 1;
    positions_ = g.varshape().size() / samples;
    if (g.snap) {
      colour_ = colours(*g.snap, positions_);
    } else {
      colour_.resize(static_cast<std::size_t>(positions_));
      std::iota(colour_.begin(), colour_.end(), std::int64_t{0});
    }
    count_ = colour_.empty() ? 0 : *std::max_element(colour_.begin(), colour_.end()) + 1;
    const Array pushed = pushes(hidden, consts, samples);  // [colour, b, sample, p, a]
    rows_ =
        reshape(transpose(reshape(pushed, {count_, states_, samples, positions_, states_}), {2, 3, 0, 4, 1}),
                {samples * positions_ * count_, states_, states_});
  }
  // Where the block of two positions stands among the rows; none: it is zero.
  std::optional<std::int64_t> at(std::int64_t p, std::int64_t q) const {
    if (p / positions_ != q / positions_) return std::nullopt;
    if (g_.snap && !acts_on(*g_.snap, g_.varshape(), q, p)) return std::nullopt;
    return p * count_ + colour_[static_cast<std::size_t>(q % positions_)];
  }
  const Array& rows() const { return rows_; }  // [·, S, S]

 private:
  Array pushes(ArraySpan hidden, ArraySpan consts, std::int64_t samples) const {
    const Array slab = g_.concat_hidden(hidden);
    const std::int64_t wide = positions_ * states_, n = count_ * states_;
    std::vector<double> along(static_cast<std::size_t>(n * wide), 0.0);
    for (std::int64_t q = 0; q < positions_; ++q)
      for (std::int64_t b = 0; b < states_; ++b)
        along[static_cast<std::size_t>((colour_[static_cast<std::size_t>(q)] * states_ + b) * wide +
                                       q * states_ + b)] = 1.0;
    const Array one = convert(Array(Tensor::of(along, {n, 1, wide})), slab.dtype());
    const Array each = reshape(broadcast_to(one, {n, samples, wide}), slab.shape().with_front(n).to_dims());
    const Function transition = slab_transition(g_, consts);
    const Function push = [&](ArraySpan d) { return Arrays{jvp(transition)(Arrays{slab, d[0]})[1]}; };
    return vmap(push)(Arrays{each})[0];
  }

  const HiddenGroup& g_;
  std::int64_t positions_ = 1, states_, count_ = 0;
  std::vector<std::int64_t> colour_;  // by position of a sample
  Array rows_;
};

Dims with_states(const Shape& varshape, std::int64_t width) {
  Dims dims = varshape.to_dims();
  dims.push_back(width);
  dims.push_back(width);
  return dims;
}

// D[p,a,b] by one push per state: exact if positions do not mix. The other states have no tangent, rather
// than one of zeros: what they would contribute is never written.
Array cheap_diagonal(const HiddenGroup& g, ArraySpan hidden, ArraySpan consts) {
  Arrays columns;
  for (std::size_t m = 0; m < hidden.size(); ++m) {
    const std::int64_t width = g.hidden_states[m].num_state;
    for (std::int64_t b = 0; b < width; ++b) {
      Arrays dh(hidden.size());
      dh[m] = full_like(hidden[m], 1.0);
      if (width > 1) {
        const Array unit = one_hot(Array(Tensor::full({Dtype::I32, {}}, b)), width, hidden[m].dtype());
        dh[m] = broadcast_to(unit, hidden[m].shape());
      }
      ValuesAndTangents out = jvp_eval(g.transition_jaxpr, consts, hidden, dh);
      for (std::size_t i = 0; i < out.dy.size(); ++i) out.dy[i] = instantiate(out.dy[i], out.y[i].aval());
      columns.push_back(g.concat_hidden(out.dy));
    }
  }
  return stack(columns, -1);
}

Array block_diagonal(const HiddenGroup& g, ArraySpan hidden, ArraySpan consts) {
  const Blocks blocks(g, hidden, consts);
  std::vector<std::int64_t> own;
  for (std::int64_t p = 0; p < g.varshape().size(); ++p) own.push_back(*blocks.at(p, p));
  const Array index(Tensor::of(own, {g.varshape().size()}));
  return reshape(take(blocks.rows(), index, 0), with_states(g.varshape(), g.num_state()));
}

// Dg[p,(k,a),(k',b)] = J[nbr(p,k),a,nbr(p,k'),b], zero on padding.
Array widened(const HiddenGroup& g, ArraySpan hidden, ArraySpan consts) {
  const PositionPattern& pattern = *g.snap;
  const Blocks blocks(g, hidden, consts);
  const auto k = static_cast<std::int64_t>(pattern.num_neighbour());
  const std::int64_t p = g.varshape().size(), s = g.num_state();
  std::vector<std::int64_t> pairs;
  std::vector<double> valid;
  for (std::size_t i = 0; i < pattern.neighbours.size(); ++i)
    for (std::size_t u = 0; u < static_cast<std::size_t>(k); ++u)
      for (std::size_t v = 0; v < static_cast<std::size_t>(k); ++v) {
        const auto row = blocks.at(pattern.neighbours[i][u], pattern.neighbours[i][v]);
        pairs.push_back(row.value_or(0));
        valid.push_back(row && pattern.valid[i][u] && pattern.valid[i][v] ? 1.0 : 0.0);
      }
  const Array picked = take(blocks.rows(), Array(Tensor::of(pairs, {p, k, k})), 0);  // [p, k, k', a, b]
  const Array mask = convert(Array(Tensor::of(valid, {p, k, k, 1, 1})), picked.dtype());
  return reshape(transpose(picked * mask, {0, 1, 3, 2, 4}), with_states(g.varshape(), k * s));
}

}  // namespace

Array HiddenGroup::full_jacobian(ArraySpan hidden, ArraySpan consts) const {
  Dims dims = varshape().to_dims();
  dims.push_back(num_state());
  const Dims half = dims;
  dims.insert(dims.end(), half.begin(), half.end());
  return reshape(flat_jacobian(*this, hidden, consts), dims);
}

Array HiddenGroup::diagonal_jacobian(ArraySpan hidden, ArraySpan consts) const {
  if (snap) return widened(*this, hidden, consts);
  return is_diagonal_recurrence ? cheap_diagonal(*this, hidden, consts)
                                : block_diagonal(*this, hidden, consts);
}

const Var* ScanInfo::outer(const Var& body) const {
  for (const auto& [inner, stacked_var] : stacked)
    if (inner == body) return &stacked_var;
  return nullptr;
}

}  // namespace etrace
