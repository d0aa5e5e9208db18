// One step of a trace of one sample, element by element, for targets that do not call the library: with the
// arithmetic of the kernel that the library runs for it, so that the bits are the same, and open to fusion,
// so that trace, gradient and update are one pass.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/named_kernel.h"
#include "emit/expand.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/fma.h"
#include "etrace/ops/index.h"
#include "etrace/ops/shape.h"
#include "kernels/context.h"
#include "ops/trace_window.h"

namespace etrace::emit {

namespace {

using Index = std::int64_t;

// What the library runs for the equation.
struct Chosen {
  Chosen(const Params& params, ArraySpan x) {
    const Avals in = avals_of(x);
    const Avals out = abstract_eval(trace_window_p, params, in);
    const etp_context context = serial_context();
    const Kernel kernel = trace_pass::make_kernel({params, in, out, context});
    name = kernel.named->row->name;
    std::memcpy(&d, kernel.named->descriptor.data(), sizeof d);
  }
  bool is_elementwise() const {
    return d.steps == 1 && d.batch == 1 && d.slots > 0 && d.shared == 0 &&
           (name == "trace_step" || name == "trace_rows" || name == "trace_lines");
  }
  std::string_view name;
  etp_trace_window d{};
};

class OneStep {
 public:
  OneStep(const Params& params, ArraySpan x, std::string_view kernel)
      : x_(x),
        at_(params),
        pattern_(trace_pass::pattern_of(params)),
        kernel_(kernel),
        states_(x[0].shape()[1]),
        zero_(full({}, 0.0, x[at_.injection].dtype())) {
    const Dtype dtype = zero_.dtype();
    for (Index a = 0; a < states_; ++a)
      old_.push_back(reshape(convert(row(x[at_.trace], a, pattern_.slots.size()), dtype), slots()));
    if (at_.source)
      data_ = spread(reshape(x[*at_.source], {-1}), pattern_.source_strides, pattern_.sources());
    if (at_.gain) gain_ = reshape(x[*at_.gain], slots());
  }

  Arrays run() const {
    const Array& trace = x_[at_.trace];
    Arrays next;
    for (Index a = 0; a < states_; ++a) next.push_back(moved(a));
    Array stored = convert(states_ == 1 ? next[0] : stack(next, 0), trace.dtype());
    stored = reshape(stored, trace.shape().to_dims());
    if (at_.go) stored = select_n(x_[*at_.go], Arrays{trace, stored});
    if (!at_.entry) return {stored};
    Array g = gradient();
    if (at_.total) g = reshape(x_[*at_.total], slots()) + g;
    if (at_.go) g = select_n(x_[*at_.go], Arrays{at_.total ? reshape(x_[*at_.total], slots()) : zero_, g});
    return {stored, reshape(g, pattern_.parameter_dims())};
  }

 private:
  Dims slots() const { return pattern_.slots.to_dims(); }

  // Row i of x, in rows of so many elements.
  static Array row(const Array& x, Index i, Index size) {
    return reshape(slice_axis(reshape(x, {-1, size}), 0, i, i + 1), {size});
  }
  // Elements of v where each slot points to.
  Array spread(const Array& v, const Dims& strides, const std::vector<Index>& places) const {
    Dims axes;  // along which the place changes, those of long steps first
    for (std::size_t a = 0; a < strides.size(); ++a)
      if (strides[a] != 0 && pattern_.slots[a] != 1) axes.push_back(static_cast<Index>(a));
    std::stable_sort(axes.begin(), axes.end(), [&](Index a, Index b) {
      return strides[static_cast<std::size_t>(a)] > strides[static_cast<std::size_t>(b)];
    });
    Index covered = 1;
    bool in_order = !strides.empty();
    for (std::size_t k = axes.size(); k-- > 0;) {
      in_order = in_order && strides[static_cast<std::size_t>(axes[k])] == covered;
      covered *= pattern_.slots[static_cast<std::size_t>(axes[k])];
    }
    if (!in_order || covered != v.shape().size()) {
      const std::vector<std::int32_t> table(places.begin(), places.end());
      return take(v, Array(Tensor::of(table, pattern_.slots)), 0);
    }
    Dims sizes;
    for (const Index a : axes) sizes.push_back(pattern_.slots[static_cast<std::size_t>(a)]);
    Dims sorted = axes, order(axes.size());
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t k = 0; k < sorted.size(); ++k)
      order[k] = std::find(axes.begin(), axes.end(), sorted[k]) - axes.begin();
    return broadcast_in_dim(transpose(reshape(v, sizes), order), pattern_.slots, sorted);
  }
  Array at_anchor(const Array& v, Index i) const {
    return spread(row(v, i, v.shape()[v.rank() - 1]), pattern_.anchor_strides, pattern_.anchors());
  }
  Array transition(Index a, Index c) const { return at_anchor(x_[at_.transition], a * states_ + c); }
  const Array& old(Index c) const { return old_[static_cast<std::size_t>(c)]; }

  // gain·x·v
  Array injected(const Array& v) const {
    if (kernel_ == "trace_step") return data_.defined() ? data_ * v : v;
    Array sum = data_.defined() ? data_ * v : v;
    if (kernel_ == "trace_lines") sum = zero_ + sum;
    return gain_.defined() ? sum * gain_ : sum;
  }
  Array moved(Index a) const {
    const Array adds = injected(at_anchor(x_[at_.injection], a));
    if (kernel_ == "trace_step") {
      Array next = adds;
      for (Index c = states_; c-- > 0;) next = fma(transition(a, c), old(c), next);
      return next;
    }
    if (kernel_ == "trace_rows" && states_ <= 2) {
      const Array first = transition(a, 0) * old(0);
      return (states_ == 1 ? first : first + transition(a, 1) * old(1)) + adds;
    }
    Array next = adds;
    for (Index c = 0; c < states_; ++c) next = next + transition(a, c) * old(c);
    return next;
  }

  // Without the gradient so far.
  Array gradient() const {
    const auto signal = [&](Index c) { return at_anchor(x_[*at_.entry], c); };
    const auto weighted = [&] { return at_anchor(x_[*at_.weighted], 0); };
    if (kernel_ == "trace_step") {
      Array g = data_.defined() ? fma(data_, weighted(), zeros_like_slots())
                                : weighted() + zero_;  // 1·w onto a zero
      for (Index c = states_; c-- > 0;) g = fma(signal(c), old(c), g);
      return g;
    }
    Array g = at_.weighted ? injected(weighted()) : zeros_like_slots();
    if (kernel_ == "trace_rows" && states_ == 2) {
      g = g + (signal(0) * old(0) + signal(1) * old(1));
    } else {
      for (Index c = 0; c < states_; ++c) g = g + signal(c) * old(c);
    }
    return kernel_ == "trace_rows" ? zero_ + g : g;
  }
  Array zeros_like_slots() const { return broadcast_in_dim(zero_, pattern_.slots, {}); }

  ArraySpan x_;
  const trace_pass::Layout at_;
  const TracePattern pattern_;
  const std::string_view kernel_;
  const Index states_;
  const Array zero_;
  Arrays old_;
  Array data_, gain_;
};

}  // namespace

Arrays trace_pass_formula(const Params& params, ArraySpan x) {
  const Chosen chosen(params, x);
  if (chosen.is_elementwise()) return OneStep(params, x, chosen.name).run();
  return trace_window_p.spec.lower(params, x);
}

}  // namespace etrace::emit
