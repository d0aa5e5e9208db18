#include "ops/stochastic_round.h"

#include "etrace/ops/shape.h"
#include "ops/elementwise_common.h"
#include "runtime/etp_math.h"

namespace etrace {

using namespace elementwise;

namespace {

Dtype new_dtype(const Params& params) {
  const Dtype dtype = params.dtype("new_dtype");
  if (dtype == Dtype::F16 || dtype == Dtype::BF16) return dtype;
  throw TypeError("stochastic_round",
                  "cannot round to " + std::string(name(dtype)) + "; expected float16 or bfloat16");
}

struct Half {
  std::uint16_t bits;
};

template <bool Brain, class T>
Kernel kernel(const KernelRequest& r) {
  constexpr auto kRound = [](T x, std::uint32_t key, std::uint32_t place) {
    const auto f = static_cast<float>(x);
    return Half{Brain ? etp_f32_to_bf16_at(f, key, place) : etp_f32_to_f16_at(f, key, place)};
  };
  return loop_kernel(r, map_rows<kRound, T, std::uint32_t, std::uint32_t>());
}

// The flat index of every element.
Array places(const Shape& shape) {
  const Dims strides = strides_of(shape);
  Array out = full({}, 0.0, Dtype::U32);
  for (std::size_t a = 0; a < shape.rank(); ++a) {
    Dims alone(shape.rank(), 1);
    alone[a] = shape[a];
    const Array step = full({}, static_cast<double>(static_cast<std::uint32_t>(strides[a])), Dtype::U32);
    if (shape[a] != 1) out = out + iota(Dtype::U32, Shape(alone), static_cast<int>(a)) * step;
  }
  return out;
}

}  // namespace

const Primitive stochastic_round_p{{
    .name = "stochastic_round",
    .doc = "x as new_dtype (f16, bf16), up with the probability that says what is cut off, decided by a hash "
           "of x, key and place",
    .params = {"new_dtype"},
    .elementwise = true,
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      require_arity("stochastic_round", in, 3);
      require_kind("stochastic_round", kFloating, in[0]);
      for (const std::size_t i : {1U, 2U})
        if (in[i].dtype != Dtype::U32)
          throw TypeError("stochastic_round", "key and place are " + to_string(in[1]) + " and " +
                                                  to_string(in[2]) + "; expected uint32");
      return {{new_dtype(params), common_shape("stochastic_round", in)}};
    },
    .kernel = [](const KernelRequest& r) -> Kernel {
      const bool wide = r.x(0).dtype == Dtype::F64;
      if (r.y().dtype == Dtype::BF16) return wide ? kernel<true, double>(r) : kernel<true, float>(r);
      return wide ? kernel<false, double>(r) : kernel<false, float>(r);
    },
    .emit = [](const EmitRequest& r) -> Emission {
      return MapCode{"etp_f32_to_" + std::string(short_name(r.y().dtype)) + "_at((float)$0, $1, $2)", 15};
    },
    .jvp = [](const Params& params, ArraySpan, ArraySpan, ArraySpan dx) -> Arrays {
      return {dx[0].defined() ? convert(dx[0], new_dtype(params)) : Array()};
    },
    .batch = batch<stochastic_round_p>,
    .samples =
        [](std::uint64_t seed) {
          std::vector<Sample> all;
          SampleSource source(seed);
          for (const Dtype from : {Dtype::F32, Dtype::F64})
            for (const Dtype to : {Dtype::F16, Dtype::BF16})
              for (const Shape& key : {Shape{}, Shape{3, 5}})
                all.push_back({{source.values({from, {3, 5}}, {-3, 3}), source.values({Dtype::U32, key}, {}),
                                source.values({Dtype::U32, {3, 5}}, {})},
                               {{"new_dtype", to}},
                               false});
          return all;
        },
}};

Array stochastic_round(const Array& x, Dtype dtype, const Array& key) {
  if (!key.defined()) return convert(x, dtype);
  return bind_primitive(stochastic_round_p, Arrays{x, key, places(x.shape())}, {{"new_dtype", dtype}})[0];
}

}  // namespace etrace
