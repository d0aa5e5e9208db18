#include "emit/form.h"

#include <algorithm>
#include <map>

#include "etrace/error.h"

namespace etrace::emit {

Dims row_major(const Dims& sizes) {
  Dims out(sizes.size());
  Index stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) out[i] = stride;
  return out;
}

Form sum(const Form& a, const Form& b) {
  ETRACE_CHECK(a.step.size() == b.step.size());
  Form out{a.first + b.first, a.step, {}};
  for (std::size_t i = 0; i < out.step.size(); ++i) out.step[i] += b.step[i];
  std::map<int, Index> time;
  for (const Form* f : {&a, &b})
    for (const auto& [loop, stride] : f->time) time[loop] += stride;
  for (const auto& [loop, stride] : time)
    if (stride != 0) out.time.emplace_back(loop, stride);
  return out;
}

Form scaled(const Form& f, Index by) {
  if (by == 0) return constant_form(0, f.step.size());
  Form out = f;
  out.first *= by;
  for (Index& s : out.step) s *= by;
  for (auto& [loop, stride] : out.time) stride *= by;
  return out;
}

Form constant_form(Index first, std::size_t axes) { return {first, Dims(axes, 0), {}}; }

void split_axis(Form& f, std::size_t axis, Index inner) {
  const Index step = f.step[axis];
  f.step[axis] = step * inner;
  f.step.insert(f.step.begin() + static_cast<std::ptrdiff_t>(axis) + 1, step);
}

Form substitute(const Form& outer, std::span<const Form> indices, std::size_t axes) {
  Form out = constant_form(outer.first, axes);
  out.time = outer.time;
  for (std::size_t i = 0; i < outer.step.size(); ++i)
    if (outer.step[i] != 0) out = sum(out, scaled(indices[i], outer.step[i]));
  return out;
}

namespace {

void widen(Bounds& b, Index stride, Index size) {
  const Index reach = stride * (size - 1);
  (reach < 0 ? b.low : b.high) += reach;
}

}  // namespace

Bounds bounds(const Form& f, const Extents& e) {
  Bounds b{f.first, f.first};
  for (std::size_t a = 0; a < f.step.size(); ++a) widen(b, f.step[a], e.axes[a]);
  for (const auto& [loop, stride] : f.time) widen(b, stride, e.loops[static_cast<std::size_t>(loop)]);
  return b;
}

namespace {

// Whether Σ step·d can be `sum` for |d| < size; axes by descending step, from number `axis` on.
bool can_be(Index sum, const std::vector<std::pair<Index, Index>>& axes, std::size_t axis) {
  if (axis == axes.size()) return sum == 0;
  Index reach = 0;  // of the shorter steps
  for (std::size_t a = axis + 1; a < axes.size(); ++a) reach += axes[a].first * (axes[a].second - 1);
  const auto [step, size] = axes[axis];
  for (Index d = 1 - size; d < size; ++d) {
    const Index left = sum - d * step;
    if (-reach <= left && left <= reach && can_be(left, axes, axis + 1)) return true;
  }
  return false;
}

}  // namespace

bool never_meet(const Form& f, const Form& g, const Dims& axes) {
  if (f.time != g.time) return false;
  Form x = f, y = g;
  x.time.clear(), y.time.clear();
  const Bounds a = bounds(x, {axes, {}}), b = bounds(y, {axes, {}});
  if (a.high < b.low || b.high < a.low) return true;
  if (f.step != g.step) return false;
  std::vector<std::pair<Index, Index>> steps;
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (f.step[i] != 0) steps.emplace_back(f.step[i] < 0 ? -f.step[i] : f.step[i], axes[i]);
  std::sort(steps.rbegin(), steps.rend());
  // Steps that shorter ones overtake would need a search; such forms do not come from views.
  Index reach = 0;
  for (auto s = steps.rbegin(); s != steps.rend(); ++s) {
    if (s->first <= reach) return false;
    reach += s->first * (s->second - 1);
  }
  return !can_be(f.first - g.first, steps, 0);
}

namespace {

// Takes one variable after the other to the index that it moves.
class Decoder {
 public:
  Decoder(const Form& flat, const Extents& e, const Dims& sizes)
      : flat_(flat), e_(e), sizes_(sizes), strides_(row_major(sizes)) {}

  Decoded run() {
    out_.indices.assign(sizes_.size(), constant_form(0, flat_.step.size()));
    if (!place_first()) return {};
    for (std::size_t a = 0; a < flat_.step.size(); ++a) {
      if (flat_.step[a] == 0 || e_.axes[a] == 1) continue;
      const auto [index, factor] = find(flat_.step[a]);
      if (index < 0) return {};
      if (Index inner = 0; !fits(index, factor, e_.axes[a], inner)) {
        if (inner == 0) return {};
        return {Decoded::Split, {}, a, inner};
      }
      out_.indices[static_cast<std::size_t>(index)].step[a] = flat_.step[a] < 0 ? -factor : factor;
    }
    for (const auto& [loop, stride] : flat_.time) {
      const auto [index, factor] = find(stride);
      Index inner = 0;
      if (index < 0 || !fits(index, factor, e_.loops[static_cast<std::size_t>(loop)], inner)) return {};
      out_.indices[static_cast<std::size_t>(index)].time.emplace_back(loop, stride < 0 ? -factor : factor);
    }
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const Bounds b = bounds(out_.indices[i], e_);
      if (b.low < 0 || b.high >= sizes_[i]) return {};
    }
    out_.result = Decoded::Done;
    return std::move(out_);
  }

 private:
  bool place_first() {
    if (flat_.first < 0) return false;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes_[i] == 0) return false;
      out_.indices[i].first = flat_.first / strides_[i] % sizes_[i];
    }
    return true;
  }

  // The index that a step of this length moves, and by how much; -1 if there is none.
  std::pair<int, Index> find(Index step) const {
    const Index length = step < 0 ? -step : step;
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      if (sizes_[i] > 1 && strides_[i] <= length && length < strides_[i] * sizes_[i])
        return length % strides_[i] == 0 ? std::pair{static_cast<int>(i), length / strides_[i]}
                                         : std::pair{-1, Index{0}};
    return {-1, 0};
  }

  // Whether `size` steps stay within the index; if not, after how many it is full (0: does not divide).
  bool fits(int index, Index factor, Index size, Index& inner) const {
    const Index have = sizes_[static_cast<std::size_t>(index)];
    if ((size - 1) * factor < have) return true;
    if (have % factor == 0 && size % (have / factor) == 0) inner = have / factor;
    return false;
  }

  const Form& flat_;
  const Extents& e_;
  const Dims& sizes_;
  const Dims strides_;
  Decoded out_;
};

}  // namespace

Decoded decode(const Form& flat, const Extents& e, const Dims& sizes) {
  return Decoder(flat, e, sizes).run();
}

}  // namespace etrace::emit
