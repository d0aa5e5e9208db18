// Typing, loops, batching and samples of the elementwise primitives.
#include "ops/elementwise_common.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "etrace/ops/shape.h"

namespace etrace::elementwise {

// Typing ----------------------------------------------------------------------------------------------------
namespace {

unsigned kind_of(Dtype dtype) {
  if (dtype == Dtype::Bool) return kBool;
  if (is_integer(dtype)) return kInteger;
  return dtype == Dtype::F32 || dtype == Dtype::F64 ? kFloating : 0;  // half types are for storage only
}

std::string kinds_text(unsigned kinds) {
  std::string text;
  auto add_kind = [&](unsigned kind, const char* words) {
    if ((kinds & kind) != 0) text += (text.empty() ? "" : ", ") + std::string(words);
  };
  add_kind(kBool, "bool");
  add_kind(kInteger, "integers (i32, i64, u32)");
  add_kind(kFloating, "floats (f32, f64)");
  return text;
}

std::string types_text(std::span<const Aval> in) {
  std::string text;
  for (const Aval& a : in) text += (text.empty() ? "" : ", ") + to_string(a);
  return text;
}

}  // namespace

void require_arity(std::string_view op, std::span<const Aval> in, std::size_t arity) {
  if (in.size() != arity)
    throw CompilationError(std::string(op), "takes " + std::to_string(arity) + " operands but " +
                                                std::to_string(in.size()) + " were given: " + types_text(in));
}

void require_kind(std::string_view op, unsigned kinds, const Aval& aval) {
  if ((kind_of(aval.dtype) & kinds) == 0)
    throw TypeError(std::string(op), "cannot compute on " + to_string(aval) + "; it takes " +
                                         kinds_text(kinds) + ": convert the operand first");
}

Shape common_shape(std::string_view op, std::span<const Aval> in) {
  Shape shape;
  for (const Aval& a : in) {
    const auto joined = broadcast_shapes(shape, a.shape);
    if (!joined)
      throw ValueError(std::string(op),
                       "operands " + types_text(in) +
                           " do not broadcast: their shapes must be equal, scalar, or of one rank with "
                           "axes of equal size or size 1");
    shape = *joined;
  }
  return shape;
}

Aval common_aval(std::string_view op, unsigned kinds, std::size_t arity, std::span<const Aval> in) {
  require_arity(op, in, arity);
  for (const Aval& a : in) {
    require_kind(op, kinds, a);
    if (a.dtype != in[0].dtype)
      throw TypeError(std::string(op), "operands " + types_text(in) +
                                           " have different element types; convert them to one type first");
  }
  return {in[0].dtype, common_shape(op, in)};
}

// Loops -----------------------------------------------------------------------------------------------------
Loops::Loops(const Aval& y, std::span<const Aval> x, std::span<const Row> rows, const etp_context& context)
    : operands_(x.size()), context_(context) {
  ETRACE_CHECK(x.size() <= kMaxOperands);
  empty_ = y.shape.size() == 0;
  // Which operands advance along an axis of the result.
  auto mask_at = [&](std::size_t axis) {
    unsigned mask = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!x[i].shape.is_scalar() && x[i].shape[axis] != 1) mask |= 1U << i;
    return mask;
  };
  // Neighbouring axes with the same mask are one loop.
  std::vector<std::pair<std::int64_t, unsigned>> loops;
  for (std::size_t axis = y.shape.rank(); axis-- > 0;) {
    if (y.shape[axis] == 1) continue;
    const unsigned mask = mask_at(axis);
    if (!loops.empty() && loops.back().second == mask)
      loops.back().first *= y.shape[axis];
    else
      loops.emplace_back(y.shape[axis], mask);
  }
  row_ = rows[loops.empty() ? 0 : loops[0].second];
  inner_ = loops.empty() ? 1 : loops[0].first;
  y_element_ = static_cast<std::ptrdiff_t>(size_of(y.dtype));
  std::array<std::ptrdiff_t, kMaxOperands> stride{};
  for (std::size_t i = 0; i < x.size(); ++i) stride[i] = static_cast<std::ptrdiff_t>(size_of(x[i].dtype));
  for (std::size_t k = 0; k < loops.size(); ++k) {
    const auto [size, mask] = loops[k];
    Axis axis{size, {}};
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (((mask >> i) & 1U) == 0) continue;
      axis.step[i] = stride[i];
      stride[i] *= static_cast<std::ptrdiff_t>(size);
    }
    if (k > 0)
      outer_.push_back(axis);
    else
      inner_step_ = axis.step;
  }
  for (const Axis& axis : outer_) rows_ *= axis.size;
  parts_ = parts_of_work(empty_ ? 0 : inner_ * rows_, context.threads);
}

void Loops::operator()(void* y, const void* const* x) const {
  if (empty_) return;
  if (parts_ == 1) return outer_.empty() ? row_(inner_, y, x) : rows(0, rows_, y, x);
  in_parts(context_, parts_, [&](int part) {
    const auto share = [&](std::int64_t n) { return n * part / parts_; };
    const auto end = [&](std::int64_t n) { return n * (part + 1) / parts_; };
    if (outer_.empty())
      stretch(share(inner_), end(inner_), y, x);
    else
      rows(share(rows_), end(rows_), y, x);
  });
}

// A part of the only row.
void Loops::stretch(std::int64_t first, std::int64_t last, void* y, const void* const* x) const {
  std::array<const void*, kMaxOperands> at{};
  for (std::size_t i = 0; i < operands_; ++i)
    at[i] = static_cast<const std::byte*>(x[i]) + first * inner_step_[i];
  row_(last - first, static_cast<std::byte*>(y) + first * y_element_, at.data());
}

void Loops::rows(std::int64_t first, std::int64_t last, void* y, const void* const* x) const {
  std::array<const std::byte*, kMaxOperands> at{};
  for (std::size_t i = 0; i < operands_; ++i) at[i] = static_cast<const std::byte*>(x[i]);
  std::array<std::int64_t, Shape::kMaxRank> count{};
  for (std::int64_t k = 0, left = first; left > 0; ++k) {  // where the first row starts
    const Axis& axis = outer_[static_cast<std::size_t>(k)];
    count[static_cast<std::size_t>(k)] = left % axis.size;
    for (std::size_t i = 0; i < operands_; ++i) at[i] += left % axis.size * axis.step[i];
    left /= axis.size;
  }
  auto* out = static_cast<std::byte*>(y) + first * inner_ * y_element_;
  for (std::int64_t row = first; row < last; ++row, out += inner_ * y_element_) {
    const std::array<const void*, kMaxOperands> row_operands{at[0], at[1], at[2], at[3]};
    row_(inner_, out, row_operands.data());
    for (std::size_t k = 0; k < outer_.size(); ++k) {
      for (std::size_t i = 0; i < operands_; ++i) at[i] += outer_[k].step[i];
      if (++count[k] < outer_[k].size) break;
      count[k] = 0;
      for (std::size_t i = 0; i < operands_; ++i) at[i] -= outer_[k].step[i] * outer_[k].size;
    }
  }
}

Kernel Loops::kernel() && {
  if (empty_) return {.run = [](const KernelArgs&) {}};
  // Two words: std::function keeps them without a heap block, and a call costs little more than the row.
  if (outer_.empty() && parts_ == 1)
    return {.run = [row = row_, n = inner_](const KernelArgs& a) { row(n, a.out[0], a.in); }};
  return {.run = [loops = std::move(*this)](const KernelArgs& a) { loops(a.out[0], a.in); }};
}

Kernel loop_kernel(const KernelRequest& r, std::span<const Row> rows) {
  Kernel kernel = Loops(r.y(), r.in, rows, r.context).kernel();
  // Index by index: elements of one size, none read for several positions.
  for (std::size_t i = 0; i < r.in.size(); ++i)
    if (r.x(i).shape == r.y().shape && size_of(r.x(i).dtype) == size_of(r.y().dtype))
      kernel.in_place.push_back({0, i});
  return kernel;
}

Kernel row_kernel(const KernelRequest& r, Row row) { return loop_kernel(r, std::array<Row, 2>{row, row}); }

// Batching --------------------------------------------------------------------------------------------------
Arrays align_batched(ArraySpan x, const std::vector<bool>& batched) {
  std::size_t rank = 0;  // of the result, with the mapped axis
  for (std::size_t i = 0; i < x.size(); ++i) rank = std::max(rank, x[i].rank() + (batched[i] ? 0 : 1));
  Arrays aligned;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool plain_scalar = !batched[i] && x[i].shape().is_scalar();
    if (plain_scalar || x[i].rank() == rank) {
      aligned.push_back(x[i]);
      continue;
    }
    // Either an unmapped operand of full rank, or a mapped scalar.
    Dims dims = x[i].shape().to_dims();
    dims.insert(batched[i] ? dims.end() : dims.begin(), rank - dims.size(), 1);
    aligned.push_back(reshape(x[i], dims));
  }
  return aligned;
}

// Derivatives -----------------------------------------------------------------------------------------------
Arrays jvp_zero(const Params&, ArraySpan, ArraySpan y, ArraySpan) { return Arrays(y.size()); }

Arrays tangent(const Array& y, std::initializer_list<Array> partials) {
  Array sum;
  for (const Array& p : partials)
    if (p.defined()) sum = sum.defined() ? sum + p : p;
  return {!sum.defined() || sum.shape() == y.shape() ? sum : broadcast_to(sum, y.shape())};
}

// Samples ---------------------------------------------------------------------------------------------------
std::uint64_t SampleSource::next() {  // SplitMix64
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

std::int64_t SampleSource::integer(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
}

Array SampleSource::values(const Aval& aval, Range range, unsigned lane) {
  constexpr double kGrid = 256.0;
  std::vector<double> v(static_cast<std::size_t>(aval.shape.size()));
  for (double& value : v) {
    if (is_floating(aval.dtype)) {
      const auto low = static_cast<std::int64_t>(std::ceil(range.low * kGrid / 4.0));
      const auto high = static_cast<std::int64_t>(std::floor(range.high * kGrid / 4.0)) - 1;
      value = static_cast<double>(4 * integer(low, high) + 1 + 2 * (lane % 2)) / kGrid;
    } else if (aval.dtype == Dtype::Bool) {
      value = static_cast<double>(integer(0, 1));
    } else {
      value = static_cast<double>(integer(aval.dtype == Dtype::U32 ? 0 : -7, 9));
    }
  }
  return convert(Array(Tensor::of(v, aval.shape)), aval.dtype);
}

std::vector<Sample> make_samples(std::uint64_t seed, unsigned kinds, std::span<const Range> ranges,
                                 const Params& params, bool differentiable) {
  SampleSource source(seed);
  const std::int64_t m = source.integer(2, 4), n = 2 * source.integer(1, 3) + 1;
  std::vector<Sample> out;
  auto add_sample = [&](Dtype dtype, auto shape_of_operand) {
    Sample s{{}, params, differentiable && dtype == Dtype::F64};
    for (std::size_t i = 0; i < ranges.size(); ++i)
      s.operands.push_back(source.values({dtype, shape_of_operand(i)}, ranges[i], static_cast<unsigned>(i)));
    out.push_back(std::move(s));
  };
  const Dtype widest = (kinds & kFloating) != 0  ? Dtype::F64
                       : (kinds & kInteger) != 0 ? Dtype::I64
                                                 : Dtype::Bool;
  add_sample(widest, [&](std::size_t) { return Shape{m, n}; });
  add_sample(widest, [&](std::size_t) { return Shape{}; });
  add_sample(widest, [&](std::size_t) { return Shape{0, n}; });
  if (ranges.size() > 1) {
    add_sample(widest, [&](std::size_t i) { return i == 0 ? Shape{} : Shape{m, n}; });
    add_sample(widest, [&](std::size_t i) { return i == 0 ? Shape{n} : Shape{}; });
    add_sample(widest, [&](std::size_t i) { return i % 2 == 0 ? Shape{m, 1, n} : Shape{1, 3, n}; });
    add_sample(widest, [&](std::size_t i) { return i % 2 == 0 ? Shape{m, n} : Shape{m, 1}; });
  }
  if ((kinds & kFloating) != 0) add_sample(Dtype::F32, [&](std::size_t) { return Shape{37}; });
  if ((kinds & kInteger) != 0)
    for (const Dtype t : {Dtype::I32, Dtype::I64, Dtype::U32})
      add_sample(t, [&](std::size_t i) { return i == 1 ? Shape{1, n} : Shape{m, n}; });
  if ((kinds & kBool) != 0) add_sample(Dtype::Bool, [&](std::size_t) { return Shape{n, m}; });
  return out;
}

}  // namespace etrace::elementwise
