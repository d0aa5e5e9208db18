// The pass over a trace, element by element, for targets that do not call the library: with the arithmetic
// and the order of sums of the kernel that the library runs for it, so that the bits are the same, and open
// to fusion, so that trace, gradient and update are one pass.
#include <algorithm>
#include <cstring>

#include "core/named_kernel.h"
#include "emit/expand.h"
#include "etrace/interp.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/fma.h"
#include "etrace/ops/index.h"
#include "etrace/ops/shape.h"
#include "kernels/context.h"
#include "kernels/trace_forms.h"
#include "ops/conv_kernel.h"
#include "ops/stochastic_round.h"
#include "ops/trace_window.h"

namespace etrace::emit {

namespace {

using Index = std::int64_t;

// What the library runs for the equation.
struct Chosen {
  explicit Chosen(const KernelRequest& r) : form(trace_pass::choice_of(r).form) {
    const Kernel kernel = trace_pass::make_kernel(r);
    std::memcpy(&d, kernel.named->descriptor.data(), sizeof d);
  }
  // Whether Pass has its arithmetic.
  bool is_known() const {
    if (d.slots == 0 || d.batch == 0 || d.steps == 0) return false;
    switch (form) {
      case TraceForm::Step:
      case TraceForm::Rows:
      case TraceForm::Patches:
        return true;
      case TraceForm::Lines:  // with more steps they are turned, and summed in lanes
        return d.steps < 4;
      default:
        return false;
    }
  }
  TraceForm form;
  etp_trace_window d{};
};

// Where the slots stand, for all samples of a batch: arrays are [B, slots…].
class Places {
 public:
  Places(const TracePattern& p, Index batch) : pattern(p), batch_(batch) {
    for (std::size_t a = 0; a < p.slots.rank(); ++a)
      (is_position(a) ? positions_ : parameters_).push_back(static_cast<Index>(a));
    for (const Index a : positions_) count_ *= p.slots[static_cast<std::size_t>(a)];
  }

  Shape shape() const {
    Dims sizes = pattern.slots.to_dims();
    sizes.insert(sizes.begin(), batch_);
    return Shape(sizes);
  }
  Array anchored(const Array& v) const { return spread(v, pattern.anchor_strides, pattern.anchors()); }
  Array sourced(const Array& v) const { return spread(v, pattern.source_strides, pattern.sources()); }
  // Of the parameter's elements.
  Array of_parameter(const Array& v) const {
    Dims axes;
    for (const Index a : parameters_) axes.push_back(a + 1);
    return broadcast_in_dim(v, shape(), axes);
  }

  Index positions() const { return count_; }
  // [B, slots…] as [B·positions, parameter…], samples first.
  Array by_position(const Array& v) const {
    Dims order{0}, sizes{batch_ * count_};
    for (const Index a : positions_) order.push_back(a + 1);
    for (const Index a : parameters_) {
      order.push_back(a + 1);
      sizes.push_back(pattern.slots[static_cast<std::size_t>(a)]);
    }
    return reshape(transpose(v, order), sizes);
  }

  // The order in which rows of slots, in blocks of so many, add to a parameter: places in by_position();
  // empty if parameters differ in it.
  Dims order_of_rows(Index rows, Index columns, Index block) const {
    const Index slots = pattern.slots.size(), all = slots / std::max<Index>(count_, 1);
    std::vector<Dims> found(static_cast<std::size_t>(all));
    for (Index m = 0; m < slots / (rows * columns); ++m)
      for (Index r0 = 0; r0 < rows; r0 += block)
        for (Index b = 0; b < batch_; ++b)
          for (Index r = r0; r < std::min(rows, r0 + block); ++r)
            for (Index c = 0; c < columns; ++c) {
              const auto [parameter, position] = split((m * rows + r) * columns + c);
              found[static_cast<std::size_t>(parameter)].push_back(b * count_ + position);
            }
    for (const Dims& one : found)
      if (one != found[0]) return {};
    return found[0];
  }

  const TracePattern pattern;

 private:
  bool is_position(std::size_t axis) const {
    return std::find(pattern.position_axes.begin(), pattern.position_axes.end(), static_cast<int>(axis)) !=
           pattern.position_axes.end();
  }
  // A slot's parameter and its position.
  std::pair<Index, Index> split(Index slot) const {
    Index parameter = 0, position = 0, parameter_step = 1, position_step = 1;
    for (std::size_t a = pattern.slots.rank(); a-- > 0;) {
      const Index at = slot % pattern.slots[a];
      slot /= pattern.slots[a];
      Index &sum = is_position(a) ? position : parameter,
            &step = is_position(a) ? position_step : parameter_step;
      sum += at * step;
      step *= pattern.slots[a];
    }
    return {parameter, position};
  }

  // Elements of v [B, n] where each slot points to.
  Array spread(const Array& v, const Dims& strides, const std::vector<Index>& places) const {
    Dims axes;  // along which the place changes, those of long steps first
    for (std::size_t a = 0; a < strides.size(); ++a)
      if (strides[a] != 0 && pattern.slots[a] != 1) axes.push_back(static_cast<Index>(a));
    std::stable_sort(axes.begin(), axes.end(), [&](Index a, Index b) {
      return strides[static_cast<std::size_t>(a)] > strides[static_cast<std::size_t>(b)];
    });
    Index covered = 1;
    bool in_order = !strides.empty();
    for (std::size_t k = axes.size(); k-- > 0;) {
      in_order = in_order && strides[static_cast<std::size_t>(axes[k])] == covered;
      covered *= pattern.slots[static_cast<std::size_t>(axes[k])];
    }
    if (!in_order || covered != v.shape()[1]) {
      const std::vector<std::int32_t> table(places.begin(), places.end());
      return take(v, Array(Tensor::of(table, pattern.slots)), 1);
    }
    Dims sizes{batch_}, order{0}, to{0};
    for (const Index a : axes) sizes.push_back(pattern.slots[static_cast<std::size_t>(a)]);
    Dims sorted = axes;
    std::sort(sorted.begin(), sorted.end());
    for (const Index a : sorted) {
      order.push_back(std::find(axes.begin(), axes.end(), a) - axes.begin() + 1);
      to.push_back(a + 1);
    }
    return broadcast_in_dim(transpose(reshape(v, sizes), order), shape(), to);
  }

  Index batch_, count_ = 1;
  Dims positions_, parameters_;  // slot axes
};

class Pass {
 public:
  Pass(const Params& params, ArraySpan x, const Chosen& chosen)
      : x_(x),
        at_(params),
        form_(chosen.form),
        d_(chosen.d),
        places_(trace_pass::pattern_of(params), d_.batch),
        zero_(full({}, 0.0, x[at_.injection].dtype())) {
    for (Index c = 0; c < d_.states; ++c)
      old_.push_back(convert(squeeze(slice_axis(x[at_.trace], 1, c, c + 1), {1}), zero_.dtype()));
    if (at_.source && d_.steps == 1) data_ = places_.sourced(step_of(x[*at_.source], 0));
    if (at_.gain) gain_ = places_.of_parameter(x[*at_.gain]);
  }

  Arrays run() const {
    const Array& trace = x_[at_.trace];
    Arrays next;
    for (Index a = 0; a < d_.states; ++a) next.push_back(moved(a));
    Array stored =
        stochastic_round(stack(next, 1), trace.dtype(), at_.rounding ? x_[*at_.rounding] : Array());
    if (at_.go) stored = select_n(x_[*at_.go], Arrays{trace, stored});
    if (!at_.entry) return {stored};
    Array g = gradient();
    if (at_.total) g = x_[*at_.total] + g;
    if (at_.go) g = select_n(x_[*at_.go], Arrays{at_.total ? x_[*at_.total] : like(g), g});
    return {stored, g};
  }

  // Whether the order of its sums over positions can be written down.
  bool has_order() const { return form_ != TraceForm::Rows || !at_.entry || !row_order().empty(); }

 private:
  static Array step_of(const Array& v, Index k) { return squeeze(slice_axis(v, 0, k, k + 1), {0}); }
  Array like(const Array& v) const { return broadcast_in_dim(zero_, v.shape(), {}); }
  Array entry(Index c) const { return places_.anchored(step_of(x_[*at_.entry], c)); }
  Array transition(Index a, Index c) const {
    return places_.anchored(step_of(step_of(x_[at_.transition], a), c));
  }

  // Σ_k x·v, scaled by the gain: v [K, B, positions].
  Array injected(const Array& v) const {
    if (d_.steps == 1) return scaled(first_term(data_, places_.anchored(step_of(v, 0))));
    Arrays xs{v};
    if (at_.source) xs.push_back(x_[*at_.source]);
    const auto term = [&](ArraySpan k) {
      return std::pair(k.size() > 1 ? places_.sourced(k[1]) : Array(), places_.anchored(k[0]));
    };
    Arrays rest;
    for (const Array& x : xs) rest.push_back(slice_axis(x, 0, 1, d_.steps));
    Arrays first;
    for (const Array& x : xs) first.push_back(step_of(x, 0));
    const auto [data, value] = term(first);
    return scaled(chained(
        [&](const Array& sum, ArraySpan k) {
          const auto [more, factor] = term(k);
          if (form_ == TraceForm::Patches) return more.defined() ? fma(more, factor, sum) : factor + sum;
          return sum + (more.defined() ? more * factor : factor);
        },
        first_term(data, value), rest));
  }
  Array first_term(const Array& data, const Array& v) const {
    if (form_ == TraceForm::Patches) return data.defined() ? fma(data, v, like(v)) : v + zero_;
    const Array product = data.defined() ? data * v : v;
    return form_ == TraceForm::Lines ? zero_ + product : product;
  }
  Array scaled(const Array& sum) const { return gain_.defined() ? sum * gain_ : sum; }

  Array moved(Index a) const {
    const Array adds = injected(squeeze(slice_axis(x_[at_.injection], 1, a, a + 1), {1}));
    const auto old = [&](Index c) -> const Array& { return old_[static_cast<std::size_t>(c)]; };
    Array next = adds;
    if (form_ == TraceForm::Step) {
      for (Index c = d_.states; c-- > 0;) next = fma(transition(a, c), old(c), next);
      return next;
    }
    if (form_ == TraceForm::Rows && d_.states <= 2) {
      const Array first = transition(a, 0) * old(0);
      return (d_.states == 1 ? first : first + transition(a, 1) * old(1)) + adds;
    }
    for (Index c = 0; c < d_.states; ++c) next = next + transition(a, c) * old(c);
    return next;
  }

  // What a slot of one sample adds: signal and old trace of every state, then what the window's own steps
  // add, as data and weighted signal or as their sum.
  Array gradient() const {
    Arrays terms;
    for (Index c = 0; c < d_.states; ++c) {
      terms.push_back(places_.by_position(entry(c)));
      terms.push_back(places_.by_position(old_[static_cast<std::size_t>(c)]));
    }
    if (at_.weighted && form_ == TraceForm::Step) {
      terms.push_back(places_.by_position(places_.anchored(step_of(x_[*at_.weighted], 0))));
      if (data_.defined()) terms.push_back(places_.by_position(data_));
    } else if (at_.weighted) {
      terms.push_back(places_.by_position(injected(x_[*at_.weighted])));
    }
    Dims parameter = terms[0].shape().to_dims();
    parameter.erase(parameter.begin());
    const auto start = [&](double value) {
      return broadcast_in_dim(full({}, value, zero_.dtype()), Shape(parameter), {});
    };
    const ChainTerm add = [this](const Array& sum, ArraySpan x) { return added(sum, x); };
    switch (form_) {
      case TraceForm::Rows:
        return chained(add, start(0.0), in_order(terms, row_order()));
      case TraceForm::Patches:
        return in_chunks(add, start(0.0), terms);
      case TraceForm::Lines:  // begins with its first term: −0 + x = x
        return chained(add, start(-0.0), terms);
      default:
        return chained(add, start(0.0), terms);
    }
  }
  Array added(const Array& sum, ArraySpan x) const {
    const auto states = static_cast<std::size_t>(d_.states);
    const auto u = [&](std::size_t c) -> const Array& { return x[2 * c]; };
    const auto e = [&](std::size_t c) -> const Array& { return x[2 * c + 1]; };
    const bool weighted = at_.weighted.has_value();
    const auto own = [&]() -> const Array& { return x[2 * states]; };
    if (form_ == TraceForm::Step) {
      Array g = sum;
      if (weighted) g = data_.defined() ? fma(x[2 * states + 1], own(), g) : own() + g;
      for (std::size_t c = states; c-- > 0;) g = fma(u(c), e(c), g);
      return g;
    }
    if (form_ == TraceForm::Patches) {
      Array g = weighted ? sum + own() : sum;
      for (std::size_t c = 0; c < states; ++c) g = g + u(c) * e(c);
      return g;
    }
    Array g = weighted ? own() : like(u(0));
    if (form_ == TraceForm::Rows && states == 2) {
      g = g + (u(0) * e(0) + u(1) * e(1));
    } else {
      for (std::size_t c = 0; c < states; ++c) g = g + u(c) * e(c);
    }
    return sum + g;
  }

  Dims row_order() const {
    return places_.order_of_rows(d_.row_size, d_.column_size, trace_pass::kRowsOfABlock);
  }
  static Arrays in_order(const Arrays& terms, const Dims& order) {
    if (std::is_sorted(order.begin(), order.end())) return terms;
    const std::vector<std::int32_t> table(order.begin(), order.end());
    Arrays out;
    for (const Array& x : terms)
      out.push_back(take(x, Array(Tensor::of(table, {static_cast<Index>(table.size())})), 0));
    return out;
  }
  // Stretches of positions, each over all samples, whose sums are then added.
  Array in_chunks(const ChainTerm& add, const Array& start, const Arrays& terms) const {
    const Index chunks = trace_pass::patch_chunks(d_), positions = d_.position_count;
    Array all = start;
    for (Index k = 0; k < chunks; ++k) {
      const Index first = positions * k / chunks, last = positions * (k + 1) / chunks;
      Arrays own;
      for (const Array& x : terms) {
        Dims sizes = x.shape().to_dims();
        sizes.insert(sizes.begin(), d_.batch);
        sizes[1] = positions;
        const Array stretch = slice_axis(reshape(x, sizes), 1, first, last);
        sizes.erase(sizes.begin());
        sizes[0] = d_.batch * (last - first);
        own.push_back(reshape(stretch, sizes));
      }
      all = all + chained(add, start, own);
    }
    return all;
  }

  ArraySpan x_;
  const trace_pass::Layout at_;
  const TraceForm form_;
  const etp_trace_window d_;
  const Places places_;
  const Array zero_;
  Arrays old_;
  Array data_, gain_;
};

// A long sum over channels, as of the gradient of a kernel, is cut into pieces.
bool is_convolved_in_pieces(const Params& params, const Avals& in) {
  const Avals out = abstract_eval(conv_general_dilated_p, params, in);
  const etp_context context = serial_context();
  const Kernel kernel = make_kernel(conv_general_dilated_p, {params, in, out, context});
  if (kernel.named == nullptr || kernel.named->row->name != "conv_direct") return false;
  etp_conv_direct d{};
  std::memcpy(&d, kernel.named->descriptor.data(), sizeof d);
  return d.pieces > 1;
}

// Calls f with what a kernel of the equation is made from.
template <class F>
auto with_request(const Params& params, const Avals& in, const F& f) {
  const Avals out = abstract_eval(trace_window_p, params, in);
  const etp_context context = serial_context();
  return f(KernelRequest{params, in, out, context});
}

}  // namespace

Arrays trace_pass_formula(const Params& params, ArraySpan x) {
  return with_request(params, avals_of(x), [&](const KernelRequest& r) {
    const Chosen chosen(r);
    if (!chosen.is_known()) return trace_window_p.spec.lower(params, x);
    const Pass pass(params, x, chosen);
    return pass.has_order() ? pass.run() : trace_window_p.spec.lower(params, x);
  });
}

bool has_bits_of_kernel(const Eqn& eqn) {
  Avals in;
  for (const Atom& a : eqn.in) in.push_back(aval_of(a));
  if (eqn.prim == &conv_general_dilated_p) return !is_convolved_in_pieces(eqn.params, in);
  if (!is_trace_pass(eqn)) return true;
  return with_request(eqn.params, in, [&](const KernelRequest& r) {
    const Chosen chosen(r);
    if (!chosen.is_known()) return chosen.d.slots == 0 || chosen.d.batch == 0;
    Arrays x;
    for (const Aval& a : in) x.emplace_back(Tensor::zeros(a));
    return Pass(eqn.params, x, chosen).has_order();
  });
}

}  // namespace etrace::emit
