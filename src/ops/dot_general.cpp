// dot_general: products of two arrays, summed over the contracted axes, side by side over the batch axes.
//   y[batch…, free of a…, free of b…] = Σ_contracted a·b
// Bilinear; the cotangent of either operand is again a dot_general, of the other operand with ct.
#include <algorithm>
#include <cstring>
#include <optional>

#include "etrace/emission.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/shape.h"
#include "kernels/matrix_product.h"
#include "ops/dot_dims.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {
constexpr std::string_view kDotGeneral = "dot_general";
}

DotDims dot_dims(const Params& params) {
  auto pair = [](const Attr& attr) -> const Attr::List* {
    const Attr::List* items = attr.list_items();
    return items != nullptr && items->size() == 2 ? items : nullptr;
  };
  const Attr* attr = params.find("dimension_numbers");
  const Attr::List* both = attr == nullptr ? nullptr : pair(*attr);
  const Attr::List* contract = both == nullptr ? nullptr : pair((*both)[0]);
  const Attr::List* batch = both == nullptr ? nullptr : pair((*both)[1]);
  const bool fits = contract != nullptr && batch != nullptr && (*contract)[0].ints() != nullptr &&
                    (*contract)[1].ints() != nullptr && (*batch)[0].ints() != nullptr &&
                    (*batch)[1].ints() != nullptr;
  if (!fits)
    throw CompilationError(
        std::string(kDotGeneral),
        "parameter 'dimension_numbers' must be [[lhs_contract, rhs_contract], [lhs_batch, rhs_batch]]");
  return {*(*contract)[0].ints(), *(*contract)[1].ints(), *(*batch)[0].ints(), *(*batch)[1].ints()};
}

// The order of the contracted axes is free: that of the first operand merges more often.
static DotDims sorted_dims(DotDims d) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::size_t i = 0; i < d.lhs_contract.size(); ++i)
    pairs.emplace_back(d.lhs_contract[i], d.rhs_contract[i]);
  std::sort(pairs.begin(), pairs.end());
  for (std::size_t i = 0; i < pairs.size(); ++i) std::tie(d.lhs_contract[i], d.rhs_contract[i]) = pairs[i];
  return d;
}

Attr dot_attr(const DotDims& d) {
  return Attr::list({Attr::list({d.lhs_contract, d.rhs_contract}), Attr::list({d.lhs_batch, d.rhs_batch})});
}

namespace {

Dims free_axes(std::size_t rank, const Dims& contract, const Dims& batch) {
  return other_axes(rank, joined(contract, batch));
}

Dtype result_dtype(const Params& params, Dtype in) {
  return params.has("preferred_element_type") ? params.dtype("preferred_element_type") : in;
}

void check_pairs(const char* what, const Aval& a, const Dims& a_axes, const Aval& b, const Dims& b_axes) {
  if (a_axes.size() != b_axes.size())
    refuse(kDotGeneral,
           std::string(what) + " axes " + show(a_axes) + " and " + show(b_axes) + " must come in pairs");
  for (std::size_t i = 0; i < a_axes.size(); ++i)
    if (a.shape[to_index(a_axes[i])] != b.shape[to_index(b_axes[i])])
      refuse(kDotGeneral, "the operands " + to_string(a) + " and " + to_string(b) +
                              " differ in size along their " + what + " axes " + std::to_string(a_axes[i]) +
                              " and " + std::to_string(b_axes[i]));
}

// One axis in place of several, if their strides allow it; of several axes the last one's stride.
std::optional<std::int64_t> merged_stride(const Dims& extents, const Dims& strides) {
  const Box<1> box(extents, {strides});
  if (box.rank() > 1) return std::nullopt;
  return box.rank() == 0 ? 1 : box.axis(0).stride[0];
}

// How an operand is read as matrices: in place if its axes merge, else from a copy in the order batch, row,
// depth.
struct MatrixView {
  std::int64_t row = 0, depth = 0;
  Dims batch;                       // strides
  std::optional<StridedCopy> copy;  // into scratch
};
MatrixView matrix_view(const Aval& x, const Dims& batch, const Dims& free, const Dims& contract,
                       const etp_context& context) {
  const Dims strides = strides_of(x.shape);
  auto sizes = [&](const Dims& axes) { return pick(x.shape.dims(), axes); };
  const auto row = merged_stride(sizes(free), pick(strides, free));
  const auto depth = merged_stride(sizes(contract), pick(strides, contract));
  if (row && depth) return {*row, *depth, pick(strides, batch), std::nullopt};
  const std::int64_t k = Shape(sizes(contract)).size(), m = Shape(sizes(free)).size();
  Dims packed = strides_of(Shape(sizes(batch)));
  for (std::int64_t& s : packed) s *= m * k;
  return {k, 1, packed,
          permuting_copy(x.shape, joined(batch, joined(free, contract)), size_of(x.dtype), context)};
}

// Conversions before and after a product in another type than the operands'.
void convert_elements(Dtype from, const void* src, Dtype to, void* dst, std::int64_t n) {
  visit_number(from, [&]<class From>(std::type_identity<From>) {
    visit_number(to, [&]<class To>(std::type_identity<To>) {
      for (std::int64_t i = 0; i < n; ++i)
        static_cast<To*>(dst)[i] = static_cast<To>(static_cast<const From*>(src)[i]);
    });
  });
}

// Consecutive pieces of the scratch memory, each aligned.
class Layout {
 public:
  std::size_t take(std::size_t bytes) {
    const std::size_t at = size_;
    size_ += (bytes + 63) / 64 * 64;
    return at;
  }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_ = 0;
};

}  // namespace

// Operand 2, if there is one, is where the sums begin.
Kernel dot_kernel(const KernelRequest& q, const DotDims& d, const std::optional<DotStretch>& stretch) {
  const Dtype in = q.x(0).dtype, out = q.y().dtype, compute = promote(in, out);
  const Aval a{compute, q.x(0).shape}, b{compute, q.x(1).shape};
  const Dims a_free = free_axes(a.shape.rank(), d.lhs_contract, d.lhs_batch);
  const Dims b_free = free_axes(b.shape.rank(), d.rhs_contract, d.rhs_batch);
  const MatrixView va = matrix_view(a, d.lhs_batch, a_free, d.lhs_contract, q.context);
  const MatrixView vb = matrix_view(b, d.rhs_batch, b_free, d.rhs_contract, q.context);
  const std::int64_t rows = Shape(pick(a.shape.dims(), a_free)).size();
  const std::int64_t columns = Shape(pick(b.shape.dims(), b_free)).size();
  const DotStretch sum =
      stretch.value_or(DotStretch{0, 0, Shape(pick(a.shape.dims(), d.lhs_contract)).size()});
  const std::int64_t depth = sum.depth, a_first = sum.lhs_start * va.depth,
                     b_first = sum.rhs_start * vb.depth;
  const bool onto = q.in.size() == 3;
  const Dims batch = pick(a.shape.dims(), d.lhs_batch);
  Dims y_strides = strides_of(Shape(batch));
  for (std::int64_t& s : y_strides) s *= rows * columns;
  const Box<3> matrices(batch, {va.batch, vb.batch, y_strides});

  // A single column is the same as a single row of the transposed product, and that reads memory along its
  // rows.
  const bool turned = columns == 1;
  const std::int64_t dtype = static_cast<std::int64_t>(compute), adds = onto ? 1 : 0;
  const etp_matrix_product product =
      turned ? etp_matrix_product{dtype, 1, rows, depth, 0, vb.depth, va.depth, va.row, rows, adds, 0}
             : etp_matrix_product{dtype,    rows,   columns, depth, va.row, va.depth,
                                  vb.depth, vb.row, columns, adds,  0};

  Layout layout;
  struct Operand {
    std::size_t converted, packed;
    std::int64_t size;
    std::optional<StridedCopy> copy;
  };
  auto operand = [&](const Aval& x, const MatrixView& v) -> Operand {
    return {in == compute ? 0 : layout.take(x.bytes()), v.copy ? layout.take(x.bytes()) : 0, x.shape.size(),
            v.copy};
  };
  const Operand left = operand(a, va), right = operand(b, vb);
  const std::size_t product_at = layout.take(matrix_product_scratch(&product, q.context.threads));
  const std::size_t y_at = out == compute ? 0 : layout.take(Aval{compute, q.y().shape}.bytes());

  Kernel kernel;
  kernel.scratch_bytes = layout.size();
  if (onto) kernel.in_place.push_back({0, 2});
  kernel.run = [=, context = q.context, y_bytes = q.y().bytes(), y_size = q.y().shape.size(),
                bytes = to_dim(size_of(compute))](const KernelArgs& k) {
    auto* scratch = static_cast<std::byte*>(k.scratch);
    auto prepare = [&](const Operand& o, const void* data) -> const std::byte* {
      if (in != compute) {
        convert_elements(in, data, compute, scratch + o.converted, o.size);
        data = scratch + o.converted;
      }
      if (o.copy) {
        (*o.copy)(data, scratch + o.packed);
        data = scratch + o.packed;
      }
      return static_cast<const std::byte*>(data);
    };
    const std::byte *pa = prepare(left, k.in[0]), *pb = prepare(right, k.in[1]);
    std::byte* py = out == compute ? static_cast<std::byte*>(k.out[0]) : scratch + y_at;
    if (onto && k.in[2] != k.out[0]) std::memcpy(py, k.in[2], y_bytes);
    matrices.for_each([&](const std::array<std::int64_t, 3>& at) {
      const std::byte *first = pa + (a_first + at[0]) * bytes, *second = pb + (b_first + at[1]) * bytes;
      multiply(product, context, turned ? second : first, turned ? first : second, py + at[2] * bytes,
               scratch + product_at);
    });
    if (out != compute) convert_elements(compute, py, out, k.out[0], y_size);
  };
  return kernel;
}

namespace {

// The cotangent of one operand, given the other. ct has the axes batch, free of a, free of b. The operands of
// the product stand in the order in which its result most often has the axes of the wanted operand already.
Array cotangent(const Array& ct, const Array& other, const Aval& wanted, const DotDims& d, bool is_lhs) {
  const Dims& contract = is_lhs ? d.lhs_contract : d.rhs_contract;
  const Dims& batch = is_lhs ? d.lhs_batch : d.rhs_batch;
  const Dims& other_contract = is_lhs ? d.rhs_contract : d.lhs_contract;
  const Dims& other_batch = is_lhs ? d.rhs_batch : d.lhs_batch;
  const Dims free = free_axes(wanted.shape.rank(), contract, batch);
  const Dims other_free = free_axes(other.rank(), other_contract, other_batch);
  const Dims ct_batch = axis_range(0, to_dim(batch.size()));
  const Dims ct_other =
      axis_range(to_dim(batch.size() + (is_lhs ? free.size() : 0)), to_dim(other_free.size()));
  // Axes of the wanted operand that the contracted axes of the other, in its order, stand for.
  std::vector<std::pair<std::int64_t, std::int64_t>> order;
  for (std::size_t i = 0; i < contract.size(); ++i) order.emplace_back(other_contract[i], contract[i]);
  std::sort(order.begin(), order.end());
  Dims contracted;
  for (const auto& pair : order) contracted.push_back(pair.second);
  const Array product = is_lhs ? dot_general(ct, other, {ct_other, other_free, ct_batch, other_batch})
                               : dot_general(other, ct, {other_free, ct_other, other_batch, ct_batch});
  const Dims axes = joined(batch, is_lhs ? joined(free, contracted) : joined(contracted, free));
  return convert(transpose(product, inverse_permutation(axes)), wanted.dtype);
}

// A sum of one term, as in the gradient of a weight from one sample, is a loop that what follows can join.
bool is_one_term(const EmitRequest& q) {
  const Dtype type = q.y().dtype;
  const Dims axes = dot_dims(q.params).lhs_contract;
  return (type == Dtype::F32 || type == Dtype::F64) && q.x(0).dtype == type &&
         std::all_of(axes.begin(), axes.end(),
                     [&](std::int64_t a) { return q.x(0).shape[static_cast<std::size_t>(a)] == 1; });
}
MapCode one_term(const EmitRequest& q) {
  const DotDims d = dot_dims(q.params);
  const auto read = [&](std::size_t i, const Dims& contract, const Dims& batch) {
    const Shape& shape = q.x(i).shape;
    const Dims strides = strides_of(shape), own = free_axes(shape.rank(), contract, batch);
    Dims step(q.y().shape.rank(), 0);  // batch axes, those of the first operand, those of the second
    const std::size_t first = i == 0 ? batch.size() : step.size() - own.size();
    for (std::size_t k = 0; k < batch.size(); ++k) step[k] = strides[static_cast<std::size_t>(batch[k])];
    for (std::size_t k = 0; k < own.size(); ++k) step[first + k] = strides[static_cast<std::size_t>(own[k])];
    return MapCode::Read{i, {0, step}, {}};
  };
  // Chains begin at zero, so that -0 does not come out.
  return {.text = q.y().dtype == Dtype::F32 ? "$0 * $1 + 0.0f" : "$0 * $1 + 0.0",
          .cost = 2,
          .reads = {read(0, d.lhs_contract, d.lhs_batch), read(1, d.rhs_contract, d.rhs_batch)}};
}

}  // namespace

const Primitive dot_general_p{{
    .name = "dot_general",
    .doc = "y[batch, i, j] = Σ_k a[batch, i, k]·b[batch, j, k], axes as in dimension_numbers",
    .params = {"dimension_numbers", "preferred_element_type"},
    .ignored_params = {"precision"},
    .product = true,
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      expect_operands(kDotGeneral, in, 2);
      const Aval &a = in[0], &b = in[1];
      if (a.dtype != b.dtype)
        refuse_type(kDotGeneral, "the operands " + to_string(a) + " and " + to_string(b) +
                                     " differ in element type; convert them to one type first");
      const Dtype out = result_dtype(params, a.dtype);
      expect_number(kDotGeneral, a.dtype);
      expect_number(kDotGeneral, out);
      if (is_floating(a.dtype) && !is_floating(out))
        refuse_type(kDotGeneral, "preferred_element_type " + std::string(name(out)) +
                                     " cannot hold a product of " + std::string(name(a.dtype)));
      const DotDims d = dot_dims(params);
      check_axes(kDotGeneral, "contracted and batch axes", joined(d.lhs_contract, d.lhs_batch),
                 a.shape.rank());
      check_axes(kDotGeneral, "contracted and batch axes", joined(d.rhs_contract, d.rhs_batch),
                 b.shape.rank());
      check_pairs("contracted", a, d.lhs_contract, b, d.rhs_contract);
      check_pairs("batch", a, d.lhs_batch, b, d.rhs_batch);
      const Dims a_free = free_axes(a.shape.rank(), d.lhs_contract, d.lhs_batch);
      const Dims b_free = free_axes(b.shape.rank(), d.rhs_contract, d.rhs_batch);
      return {{out, joined(pick(a.shape.dims(), joined(d.lhs_batch, a_free)), pick(b.shape.dims(), b_free))}};
    },
    .kernel =
        [](const KernelRequest& q) { return dot_kernel(q, sorted_dims(dot_dims(q.params)), std::nullopt); },
    .emit = [](const EmitRequest& q) -> Emission {
      if (is_one_term(q)) return one_term(q);
      const DotDims d = sorted_dims(dot_dims(q.params));
      return ProductCode{d.lhs_contract, d.rhs_contract, d.lhs_batch, d.rhs_batch};
    },
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      Array dy;
      if (dx[0].defined()) dy = bind1(dot_general_p, {dx[0], x[1]}, params);
      if (dx[1].defined()) dy = add_cotangents(dy, bind1(dot_general_p, {x[0], dx[1]}, params));
      return {dy};
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval> in) -> Arrays {
      const DotDims d = dot_dims(params);
      Arrays out(2);
      if (!x[0].defined()) out[0] = cotangent(ct[0], x[1], in[0], d, true);
      if (!x[1].defined()) out[1] = cotangent(ct[0], x[0], in[1], d, false);
      return out;
    },
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>& batched, std::int64_t) -> Arrays {
      DotDims d = dot_dims(params);
      const std::int64_t num_batch = to_dim(d.lhs_batch.size());
      const std::int64_t a_free = to_dim(x[0].rank() - d.lhs_contract.size() - d.lhs_batch.size());
      if (batched[0]) d.lhs_contract = shifted(d.lhs_contract), d.lhs_batch = shifted(d.lhs_batch);
      if (batched[1]) d.rhs_contract = shifted(d.rhs_contract), d.rhs_batch = shifted(d.rhs_batch);
      if (batched[0] && batched[1]) {
        d.lhs_batch = with_front(0, d.lhs_batch);
        d.rhs_batch = with_front(0, d.rhs_batch);
      }
      const Array y = bind1(dot_general_p, {x[0], x[1]}, params.with("dimension_numbers", dot_attr(d)));
      if (batched[0] && batched[1]) return {y};
      // The batch axis is the first free axis of its operand.
      return {moveaxis(y, static_cast<int>(batched[0] ? num_batch : num_batch + a_free), 0)};
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(2, 5), k = r.integer(2, 7);
      auto params = [](const DotDims& d, const Attr& type = {}) -> Params {
        return {{"dimension_numbers", dot_attr(d)}, {"preferred_element_type", type}};
      };
      return {{{r.floats({n, k}), r.floats({k, 3})}, params({{1}, {0}, {}, {}})},
              {{r.floats({k, n}), r.floats({3, k})}, params({{0}, {1}, {}, {}})},
              {{r.floats({k}), r.floats({k})}, params({{0}, {0}, {}, {}})},
              {{r.floats({n, k}), r.floats({k})}, params({{1}, {0}, {}, {}})},
              {{r.floats({n}), r.floats({k})}, params({{}, {}, {}, {}})},
              {{r.floats({}), r.floats({k})}, params({{}, {}, {}, {}})},
              {{r.floats({2, n, k}), r.floats({2, k, 3})}, params({{2}, {1}, {0}, {0}})},
              {{r.floats({n, 2, k}), r.floats({k, 3, 2})}, params({{2}, {0}, {1}, {2}})},
              {{r.floats({k, 2, n, 3}), r.floats({3, 2, k})}, params({{0, 3}, {2, 0}, {}, {}})},
              {{r.floats({2, k, 3, n}), r.floats({n, 2, 2, k})}, params({{3, 1}, {0, 3}, {0}, {2}})},
              {{r.floats({n, 0}), r.floats({0, 2})}, params({{1}, {0}, {}, {}})},
              {{r.floats({0, k}), r.floats({k, 2})}, params({{1}, {0}, {}, {}})},
              {{r.floats({n, 33}, Dtype::F32), r.floats({33, 70}, Dtype::F32)},
               params({{1}, {0}, {}, {}}, Dtype::F32),
               false},
              {{r.floats({n, k}, Dtype::F32), r.floats({k, 3}, Dtype::F32)},
               params({{1}, {0}, {}, {}}, Dtype::F64),
               false},
              {{r.ints({n, k}, -9, 9), r.ints({k, 3}, -9, 9)}, params({{1}, {0}, {}, {}}), false},
              {{r.ints({n, k}, -9, 9), r.ints({k}, -9, 9)}, params({{1}, {0}, {}, {}}, Dtype::I64), false}};
    },
}};

Array dot_general(const Array& a, const Array& b, const DotDims& dims) {
  const Dtype dtype = promote(a.dtype(), b.dtype());
  return bind1(dot_general_p, {convert(a, dtype), convert(b, dtype)},
               {{"dimension_numbers", dot_attr(dims)}, {"preferred_element_type", dtype}});
}

}  // namespace etrace
