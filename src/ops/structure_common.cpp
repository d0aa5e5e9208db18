// Shared parts of the structural operations; see the header.
#include "ops/structure_common.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "etrace/ops/shape.h"
#include "runtime/etp_gemm.h"

namespace etrace::structure {

// Errors ----------------------------------------------------------------------------------------------------
void refuse(std::string_view op, const std::string& message) { throw ValueError(std::string(op), message); }
void refuse_type(std::string_view op, const std::string& message) {
  throw TypeError(std::string(op), message);
}

std::string show(std::span<const std::int64_t> values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

void expect_operands(std::string_view op, std::span<const Aval> in, std::size_t count) {
  if (in.size() != count)
    refuse(op, "takes " + std::to_string(count) + " operands, but got " + std::to_string(in.size()));
}

void expect_number(std::string_view op, Dtype dtype, bool allow_bool) {
  if (dtype == Dtype::F16 || dtype == Dtype::BF16)
    refuse_type(op, "does not compute on " + std::string(name(dtype)) +
                        ", which is for storage; convert the operand to float32 first");
  if (dtype == Dtype::Bool && !allow_bool)
    refuse_type(op, "does not compute on bool; convert the operand to int32 or a float first");
}

// Axes ------------------------------------------------------------------------------------------------------
std::int64_t normalize_axis(std::string_view op, std::int64_t axis, std::size_t rank) {
  const std::int64_t n = to_dim(rank);
  if (axis < -n || axis >= n)
    refuse(op, "axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank) +
                   (rank == 0 ? "; a scalar has no axes"
                              : "; use " + std::to_string(-n) + " … " + std::to_string(n - 1)));
  return axis < 0 ? axis + n : axis;
}

Dims normalize_axes(std::string_view op, const Dims& axes, std::size_t rank) {
  Dims out;
  for (const std::int64_t axis : axes) {
    out.push_back(normalize_axis(op, axis, rank));
    if (std::count(out.begin(), out.end(), out.back()) > 1)
      refuse(op, "axis " + std::to_string(axis) + " is named twice in " + show(axes));
  }
  return out;
}

void check_axes(std::string_view op, std::string_view what, std::span<const std::int64_t> axes,
                std::size_t rank) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= to_dim(rank))
      refuse(op, std::string(what) + " " + show(axes) + " names axis " + std::to_string(axes[i]) +
                     ", but there are " + std::to_string(rank) + " axes");
    if (contains(axes.first(i), axes[i]))
      refuse(op, std::string(what) + " " + show(axes) + " names axis " + std::to_string(axes[i]) + " twice");
  }
}

Dims axis_range(std::int64_t first, std::int64_t count) {
  Dims out(to_index(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

bool contains(std::span<const std::int64_t> values, std::int64_t v) {
  return std::find(values.begin(), values.end(), v) != values.end();
}

Dims other_axes(std::size_t rank, std::span<const std::int64_t> axes) {
  Dims out;
  for (std::int64_t i = 0; i < to_dim(rank); ++i)
    if (!contains(axes, i)) out.push_back(i);
  return out;
}

Dims shifted(Dims axes, std::int64_t by) {
  for (std::int64_t& a : axes) a += by;
  return axes;
}

Dims with_front(std::int64_t first, Dims rest) {
  rest.insert(rest.begin(), first);
  return rest;
}

Dims joined(Dims a, const Dims& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Dims inverse_permutation(std::span<const std::int64_t> permutation) {
  Dims out(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) out[to_index(permutation[i])] = to_dim(i);
  return out;
}

Dims pick(std::span<const std::int64_t> values, std::span<const std::int64_t> axes) {
  Dims out;
  for (const std::int64_t a : axes) out.push_back(values[to_index(a)]);
  return out;
}

std::vector<Dims> int_table(std::string_view op, const Params& params, std::string_view key,
                            std::size_t width) {
  std::vector<Dims> rows;
  const Attr* attr = params.find(key);
  const Attr::List* items = attr == nullptr ? nullptr : attr->list_items();
  const bool no_rows = attr != nullptr && attr->ints() != nullptr && attr->ints()->empty();
  bool fits = items != nullptr || no_rows;
  if (items != nullptr)
    for (const Attr& item : *items) {
      const Dims* row = item.ints();
      if (row == nullptr || row->size() != width)
        fits = false;
      else
        rows.push_back(*row);
    }
  if (!fits)
    throw CompilationError(std::string(op), "parameter '" + std::string(key) + "' must be a list with " +
                                                std::to_string(width) + " integers per axis");
  return rows;
}

Attr to_attr(const std::vector<Dims>& rows) { return Attr::list(Attr::List(rows.begin(), rows.end())); }

// Batching --------------------------------------------------------------------------------------------------
Array with_batch_axis(const Array& x, bool batched, std::int64_t n) {
  if (batched) return x;
  return broadcast_in_dim(x, x.shape().with_front(n), axis_range(1, to_dim(x.rank())));
}

Array move_data(const Primitive& prim, const Array& x, const Params& params) {
  const std::optional<Scalar> value = x.splat();
  if (!value) return bind1(prim, {x}, params);
  const Aval type = abstract_eval(prim, params, {&x.aval(), 1})[0];
  return full(type.shape, *value, type.dtype);
}

// Kernels ---------------------------------------------------------------------------------------------------
// The innermost loops of a copy. Both axes of a transposition are walked together, in tiles of vectors that
// are turned in registers; a few values that alternate (complex numbers, pairs of states) are taken apart or
// put together in one pass.
struct StridedCopy::Form {
  static constexpr std::int64_t kTile = 32;  // two tiles of doubles fit the first-level cache

  template <class Word>
  static Word* to(void* p) {
    return static_cast<Word*>(p);
  }

  // Contiguous pieces.
  template <class Word>
  static void pieces(const StridedCopy& self, const void* from, void* out) {
    const std::size_t bytes = to_index(self.inner_.extent) * sizeof(Word);
    self.outer_.for_each([&](const auto& at) {
      std::memcpy(to<Word>(out) + at[0], static_cast<const Word*>(from) + at[1], bytes);
    });
  }

  // One piece again and again, along row_: what is written is copied on, in blocks that stay near.
  template <class Word>
  static void repeated(const StridedCopy& self, const void* from, void* out) {
    constexpr std::int64_t kNear = 2048;
    const std::int64_t n = self.inner_.extent, total = n * self.row_.extent;
    const std::int64_t block = std::min(total, std::max<std::int64_t>(kNear / n, 1) * n);
    self.outer_.for_each([&](const auto& at) {
      Word* const d = to<Word>(out) + at[0];
      std::memcpy(d, static_cast<const Word*>(from) + at[1], to_index(n) * sizeof(Word));
      for (std::int64_t done = n, more; done < total; done += more) {
        more = std::min({done, block, total - done});
        std::memcpy(d + done, d, to_index(more) * sizeof(Word));
      }
    });
  }

  template <class Word>
  static void elements(const StridedCopy& self, const void* from, void* out) {
    const std::int64_t n = self.inner_.extent, dst_step = self.inner_.stride[0],
                       src_step = self.inner_.stride[1];
    self.outer_.for_each([&](const auto& at) {
      Word* __restrict d = to<Word>(out) + at[0];
      const Word* __restrict s = static_cast<const Word*>(from) + at[1];
      if (src_step == 0 && dst_step == 1)
        std::fill_n(d, n, *s);
      else
        for (std::int64_t i = 0; i < n; ++i) d[i * dst_step] = s[i * src_step];
    });
  }

  // inner_ is contiguous in the result, row_ in the source.
  template <class Word>
  static void turned(const StridedCopy& self, const void* from, void* out) {
    const std::int64_t rows = self.row_.extent, columns = self.inner_.extent;
    const std::int64_t ld = self.row_.stride[0], ls = self.inner_.stride[1];
    self.outer_.for_each([&](const auto& at) {
      Word* const d = to<Word>(out) + at[0];
      const Word* const s = static_cast<const Word*>(from) + at[1];
      for (std::int64_t r0 = 0; r0 < rows; r0 += kTile)
        for (std::int64_t c0 = 0; c0 < columns; c0 += kTile)
          tile(d + r0 * ld + c0, ld, s + c0 * ls + r0, ls, std::min(kTile, rows - r0),
               std::min(kTile, columns - c0));
    });
  }

  // d[r·ld + c] = s[c·ls + r]
  template <class Word>
  static void tile(Word* __restrict d, std::int64_t ld, const Word* __restrict s, std::int64_t ls,
                   std::int64_t rows, std::int64_t columns) {
    std::int64_t whole_rows = 0, whole_columns = 0;
    if constexpr (sizeof(Word) >= 4) {
      constexpr std::int64_t kLanes = ETP_VBYTES / sizeof(Word);
      whole_rows = rows / kLanes * kLanes, whole_columns = columns / kLanes * kLanes;
      for (std::int64_t r = 0; r < whole_rows; r += kLanes)
        for (std::int64_t c = 0; c < whole_columns; c += kLanes)
          square(d + r * ld + c, ld, s + c * ls + r, ls);
    }
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
        d[r * ld + c] = s[c * ls + r];
  }
  static void square(std::uint32_t* d, std::int64_t ld, const std::uint32_t* s, std::int64_t ls) {
    constexpr int kLanes = ETP_VBYTES / 4;
    etp_v_f32 v[kLanes];
    ETP_UNROLL for (int i = 0; i < kLanes; ++i) v[i] =
        etp_load_f32(reinterpret_cast<const float*>(s + i * ls));
    ETP_TRANSPOSE_f32(etp_v_f32, v);
    ETP_UNROLL for (int i = 0; i < kLanes; ++i) etp_store_f32(reinterpret_cast<float*>(d + i * ld), v[i]);
  }
  static void square(std::uint64_t* d, std::int64_t ld, const std::uint64_t* s, std::int64_t ls) {
    constexpr int kLanes = ETP_VBYTES / 8;
    etp_v_f64 v[kLanes];
    ETP_UNROLL for (int i = 0; i < kLanes; ++i) v[i] =
        etp_load_f64(reinterpret_cast<const double*>(s + i * ls));
    ETP_TRANSPOSE_f64(etp_v_f64, v);
    ETP_UNROLL for (int i = 0; i < kLanes; ++i) etp_store_f64(reinterpret_cast<double*>(d + i * ld), v[i]);
  }

  // row_ has N values side by side in the source; each goes to a line of its own.
  template <class Word, int N>
  static void apart(const StridedCopy& self, const void* from, void* out) {
    const std::int64_t n = self.inner_.extent, line = self.row_.stride[0];
    self.outer_.for_each([&](const auto& at) {
      Word* const d = to<Word>(out) + at[0];
      const Word* __restrict s = static_cast<const Word*>(from) + at[1];
      Word* __restrict d0 = d;
      Word* __restrict d1 = d + line;
      Word* __restrict d2 = d + (N > 2 ? 2 * line : 0);
      Word* __restrict d3 = d + (N > 3 ? 3 * line : 0);
      for (std::int64_t i = 0; i < n; ++i) {
        d0[i] = s[i * N];
        d1[i] = s[i * N + 1];
        if constexpr (N > 2) d2[i] = s[i * N + 2];
        if constexpr (N > 3) d3[i] = s[i * N + 3];
      }
    });
  }

  // inner_ has N values side by side in the result; each comes from a line of its own, along row_.
  template <class Word, int N>
  static void together(const StridedCopy& self, const void* from, void* out) {
    const std::int64_t n = self.row_.extent, line = self.inner_.stride[1];
    self.outer_.for_each([&](const auto& at) {
      const Word* s = static_cast<const Word*>(from) + at[1];
      std::array<const Word*, N> lines;
      for (int i = 0; i < N; ++i) lines[to_index(i)] = s + i * line;
      interleave_words<N>(to<Word>(out) + at[0], lines, n);
    });
  }
};

template <class Word>
StridedCopy::Run StridedCopy::choose(StridedCopy& self) {
  Box<2>& outer = self.outer_;
  const std::int64_t n = self.inner_.extent, dst_step = self.inner_.stride[0],
                     src_step = self.inner_.stride[1];
  if (n == 1) return Form::elements<Word>;
  if (dst_step == 1 && src_step == 1) {
    if (outer.rank() == 0) return Form::pieces<Word>;
    const auto [extent, stride] = outer.axis(outer.rank() - 1);
    if (stride[0] != n || stride[1] != 0) return Form::pieces<Word>;
    self.row_ = outer.pop_back();
    return Form::repeated<Word>;
  }
  if (dst_step != 1 || src_step == 0) return Form::elements<Word>;
  for (std::size_t i = 0; i < outer.rank(); ++i) {
    const auto [extent, stride] = outer.axis(i);
    if (stride[1] != 1) continue;
    const bool apart = extent == src_step && extent <= 4 && n >= 4;
    const bool together = n <= 4 && stride[0] == n && extent >= 4;
    if (!apart && !together && (extent < 4 || n < 4)) continue;
    self.row_ = outer.pop(i);
    if (apart)
      return extent == 2 ? Form::apart<Word, 2> : extent == 3 ? Form::apart<Word, 3> : Form::apart<Word, 4>;
    if (together)
      return n == 2 ? Form::together<Word, 2> : n == 3 ? Form::together<Word, 3> : Form::together<Word, 4>;
    return Form::turned<Word>;
  }
  return Form::elements<Word>;
}

StridedCopy::Run StridedCopy::run_of(StridedCopy& self) {
  switch (self.bytes_) {
    case 1:
      return choose<std::uint8_t>(self);
    case 2:
      return choose<std::uint16_t>(self);
    case 4:
      return choose<std::uint32_t>(self);
    default:
      return choose<std::uint64_t>(self);
  }
}

StridedCopy::StridedCopy(std::span<const std::int64_t> extents, const Dims& dst_strides,
                         const Dims& src_strides, std::size_t element_bytes, const etp_context& context)
    : outer_(extents, {dst_strides, src_strides}), bytes_(element_bytes), context_(context) {
  const int parts = parts_of_work(outer_.count(), context.threads);
  std::size_t cut = 0;
  while (parts > 1 && cut < extents.size() && extents[cut] < parts) ++cut;
  if (parts > 1 && cut < extents.size()) {
    cut_ = {extents[cut], {dst_strides[cut], src_strides[cut]}};
    for (int p = 0; p < parts; ++p) {
      Dims part(extents.begin(), extents.end());
      part[cut] = cut_.extent * (p + 1) / parts - cut_.extent * p / parts;
      parts_.push_back(serial(part, dst_strides, src_strides, element_bytes));
    }
    return;
  }
  inner_ = outer_.pop_back();
  run_ = run_of(*this);
}

StridedCopy StridedCopy::serial(std::span<const std::int64_t> extents, const Dims& dst_strides,
                                const Dims& src_strides, std::size_t element_bytes) {
  StridedCopy copy;
  copy.outer_ = {extents, {dst_strides, src_strides}};
  copy.bytes_ = element_bytes;
  copy.inner_ = copy.outer_.pop_back();
  copy.run_ = run_of(copy);
  return copy;
}

void StridedCopy::operator()(const void* src, std::int64_t src_offset, void* dst,
                             std::int64_t dst_offset) const {
  const auto* from = static_cast<const std::byte*>(src) + src_offset * to_dim(bytes_);
  auto* to = static_cast<std::byte*>(dst) + dst_offset * to_dim(bytes_);
  if (parts_.empty()) return run_(*this, from, to);
  const auto parts = to_dim(parts_.size());
  in_parts(context_, parts, [&](int p) {
    const std::int64_t first = cut_.extent * p / parts * to_dim(bytes_);
    const StridedCopy& part = parts_[to_index(p)];
    part.run_(part, from + first * cut_.stride[1], to + first * cut_.stride[0]);
  });
}

StridedCopy permuting_copy(const Shape& from, std::span<const std::int64_t> permutation,
                           std::size_t element_bytes, const etp_context& context) {
  const Dims extents = pick(from.dims(), permutation);
  return {extents, strides_of(extents), pick(strides_of(from), permutation), element_bytes, context};
}

void fill_elements(void* dst, std::int64_t count, const void* element, std::size_t element_bytes) {
  auto fill = [&]<class Word>(std::type_identity<Word>) {
    Word value;
    std::memcpy(&value, element, sizeof value);
    std::fill_n(static_cast<Word*>(dst), count, value);
  };
  switch (element_bytes) {
    case 1:
      return fill(std::type_identity<std::uint8_t>{});
    case 2:
      return fill(std::type_identity<std::uint16_t>{});
    case 4:
      return fill(std::type_identity<std::uint32_t>{});
    default:
      return fill(std::type_identity<std::uint64_t>{});
  }
}

Kernel copy_kernel(std::size_t bytes) {
  Kernel kernel;
  kernel.in_place = {{0, 0}};
  kernel.view = true;
  kernel.run = [bytes](const KernelArgs& k) {
    if (k.out[0] != k.in[0] && bytes > 0) std::memcpy(k.out[0], k.in[0], bytes);
  };
  return kernel;
}

ReadIndex index_reader(Dtype dtype) {
  return visit_integer(dtype, []<class T>(std::type_identity<T>) -> ReadIndex {
    return [](const void* p, std::int64_t i) -> std::int64_t { return static_cast<const T*>(p)[i]; };
  });
}

Emission whole_view(const EmitRequest& q, const IndexForm& at) {
  return ViewCode{{{0, Dims(q.y().shape.rank(), 0), q.y().shape.to_dims(), at}}};
}

// Samples ---------------------------------------------------------------------------------------------------
std::uint64_t Source::next() {  // splitmix64
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::int64_t Source::integer(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
}

double Source::uniform(double low, double high) {
  return low + (high - low) * (static_cast<double>(next() >> 11) * 0x1p-53);
}

Array Source::build(const Shape& shape, Dtype dtype, const std::function<Scalar(std::int64_t)>& element) {
  Tensor out = Tensor::uninitialized({dtype, shape});
  const std::size_t bytes = size_of(dtype);
  for (std::int64_t i = 0; i < shape.size(); ++i)
    std::memcpy(out.writable() + to_index(i) * bytes, Tensor::full({dtype, {}}, element(i)).bytes(), bytes);
  return out;
}

Array Source::floats(const Shape& shape, Dtype dtype) {
  return build(shape, dtype, [&](std::int64_t) { return uniform(-2.0, 2.0); });
}

Array Source::distinct(const Shape& shape, Dtype dtype) {
  Dims order = axis_range(0, shape.size());
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[to_index(integer(0, to_dim(i) - 1))]);
  const double centre = 0.1 * static_cast<double>(shape.size());
  return build(shape, dtype, [&](std::int64_t i) {
    return 0.2 * static_cast<double>(order[to_index(i)]) - centre + uniform(0.0, 0.1);
  });
}

Array Source::ints(const Shape& shape, std::int64_t low, std::int64_t high, Dtype dtype) {
  return build(shape, dtype, [&](std::int64_t) { return integer(low, high); });
}

Array Source::bools(const Shape& shape) {
  return build(shape, Dtype::Bool, [&](std::int64_t) { return integer(0, 1) == 1; });
}

}  // namespace etrace::structure
