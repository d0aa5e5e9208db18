// iota: the position along one axis, as a number.
#include "etrace/emission.h"
#include "etrace/ops/shape.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

const Primitive iota_p{{
    .name = "iota",
    .doc = "y[i] = i[dimension]; no operands",
    .params = {"dtype", "shape", "dimension"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      expect_operands("iota", in, 0);
      const Aval out{params.dtype("dtype"), Shape(params.dims("shape"))};
      expect_number("iota", out.dtype);
      check_axes("iota", "dimension", Dims{params.integer("dimension")}, out.shape.rank());
      return {out};
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      const Shape& shape = q.y().shape;
      const auto d = to_index(q.params.integer("dimension"));
      const std::int64_t n = shape[d], inner = strides_of(shape)[d], total = shape.size();
      return visit_number(q.y().dtype, [&]<class T>(std::type_identity<T>) -> Kernel {
        return {[=](const KernelArgs& k) {
          T* out = static_cast<T*>(k.out[0]);
          for (std::int64_t block = 0; block < total; block += n * inner)
            for (std::int64_t i = 0; i < n; ++i, out += inner)
              for (std::int64_t j = 0; j < inner; ++j) out[j] = static_cast<T>(i);
        }};
      });
    },
    .emit = [](const EmitRequest& q) -> Emission {
      IndexForm at{0, Dims(q.y().shape.rank(), 0)};
      at.step[to_index(q.params.integer("dimension"))] = 1;
      return MapCode{.text = "#0", .indices = {at}};
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(1, 6);
      auto params = [](Dtype dtype, const Shape& shape, int axis) -> Params {
        return {{"dtype", dtype}, {"shape", shape}, {"dimension", axis}};
      };
      return {{{}, params(Dtype::I32, {n}, 0), false},
              {{}, params(Dtype::F32, {2, n}, 1), false},
              {{}, params(Dtype::F64, {n, 3, 2}, 1), false},
              {{}, params(Dtype::I64, {0, n}, 1), false}};
    },
}};

Array iota(Dtype dtype, const Shape& shape, int dimension) {
  const std::int64_t d = normalize_axis("iota", dimension, shape.rank());
  return bind_primitive(iota_p, ArraySpan{}, {{"dtype", dtype}, {"shape", shape}, {"dimension", d}})[0];
}

Array arange(std::int64_t n, Dtype dtype) { return iota(dtype, {n}, 0); }

}  // namespace etrace
