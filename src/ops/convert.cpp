// Changes of the element type, and operations that only matter to transformations.
#include <cstring>
#include <string>

#include "ops/elementwise_common.h"
#include "ops/fact_rules.h"
#include "ops/scalar_math.h"
#include "runtime/etp_math.h"

namespace etrace {

using namespace elementwise;

namespace {

// The storage types, as their bits.
struct Half {
  std::uint16_t bits;
};
struct BrainHalf {
  std::uint16_t bits;
};

// Floats to integers: towards zero, saturating, NaN to 0. Integers to integers: the low bits.
template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<From, Half>) {
    return converted<To>(etp_f16_to_f32(x.bits));
  } else if constexpr (std::is_same_v<From, BrainHalf>) {
    return converted<To>(etp_bf16_to_f32(x.bits));
  } else if constexpr (std::is_same_v<To, Half>) {
    return {etp_f32_to_f16(static_cast<float>(x))};
  } else if constexpr (std::is_same_v<To, BrainHalf>) {
    return {etp_f32_to_bf16(static_cast<float>(x))};
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return scalar::Truncated<To>::of(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class Visitor>
Kernel for_storage(Dtype dtype, Visitor visit) {
  if (dtype == Dtype::F16) return visit.template operator()<Half>();
  if (dtype == Dtype::BF16) return visit.template operator()<BrainHalf>();
  return for_dtype<kAny>(dtype, visit);
}

Kernel convert_kernel(const KernelRequest& r) {
  return for_storage(r.x(0).dtype, [&]<class From>() {
    return for_storage(r.y().dtype, [&]<class To>() {
      return loop_kernel(r, map_rows<[](From x) { return converted<To>(x); }, From>());
    });
  });
}

// The same in C.
Emission convert_code(const EmitRequest& r) {
  const Dtype from = r.x(0).dtype, to = r.y().dtype;
  if (from == to) return ReshapeCode{};
  std::string x = "$0";
  if (from == Dtype::F16) x = "etp_f16_to_f32($0)";
  if (from == Dtype::BF16) x = "etp_bf16_to_f32($0)";
  const Dtype wide = from == Dtype::F16 || from == Dtype::BF16 ? Dtype::F32 : from;
  if (to == Dtype::F16) return MapCode{"etp_f32_to_f16((float)" + x + ")", 6};
  if (to == Dtype::BF16) return MapCode{"etp_f32_to_bf16((float)" + x + ")", 4};
  if (to == Dtype::Bool) return MapCode{x + " != 0"};
  if (is_floating(wide) && is_integer(to))
    return MapCode{"etp_" + std::string(short_name(wide)) + "_to_$r(" + x + ")", 4};
  return MapCode{"(" + std::string(c_type(to)) + ")" + x};
}

Emission bitcast_code(const EmitRequest& r) {
  const bool floats = r.x(0).dtype == Dtype::F32 || r.x(0).dtype == Dtype::F64;
  const bool to_floats = r.y().dtype == Dtype::F32 || r.y().dtype == Dtype::F64;
  if (floats == to_floats) return MapCode{floats ? "$0" : "(" + std::string(c_type(r.y().dtype)) + ")$0"};
  return MapCode{"etp_$t_as_$r($0)"};
}

// The same bytes.
Kernel copy_kernel(const KernelRequest& r) {
  return {.run =
              [bytes = r.y().bytes()](const KernelArgs& a) {
                if (bytes != 0 && a.out[0] != a.in[0]) std::memcpy(a.out[0], a.in[0], bytes);
              },
          .in_place = {{0, 0}},
          .view = true};
}

template <const Primitive& P>
Avals unchanged(const Params&, std::span<const Aval> in) {
  require_arity(P.name(), in, 1);
  return {in[0]};
}

// Every type to every type; derivatives where nothing is rounded.
std::vector<Sample> conversion_samples(std::uint64_t seed) {
  std::vector<Sample> all;
  SampleSource source(seed);
  constexpr std::array kTypes{Dtype::Bool, Dtype::I32,  Dtype::I64, Dtype::U32,
                              Dtype::F16,  Dtype::BF16, Dtype::F32, Dtype::F64};
  for (const Dtype from : kTypes)
    for (const Dtype to : kTypes)
      all.push_back(
          {{source.values({from, {2, 3}}, {-3, 3})}, {{"new_dtype", to}, {"weak_type", false}}, false});
  for (const Shape& shape : {Shape{}, Shape{3, 0}, Shape{3, 5}})
    all.push_back(
        {{source.values({Dtype::F64, shape}, {-3, 3})}, {{"new_dtype", Dtype::F64}, {"weak_type", false}}});
  return all;
}

template <bool Differentiable>
std::vector<Sample> copy_samples(std::uint64_t seed) {
  std::vector<Sample> all = make_samples(seed, kAny, std::array{Range{-3, 3}}, {}, Differentiable);
  all.push_back({{convert(all[0].operands[0], Dtype::BF16)}, {}, false});
  return all;
}

}  // namespace

const Primitive convert_element_type_p{{
    .name = "convert_element_type",
    .doc = "y = x as new_dtype; floats to integers truncate and saturate, NaN to 0",
    .params = {"new_dtype", "weak_type"},
    .elementwise = true,
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      require_arity("convert_element_type", in, 1);
      return {{params.dtype("new_dtype"), in[0].shape}};
    },
    .kernel = convert_kernel,
    .emit = convert_code,
    .facts =
        [](const FactRequest& q) {
          const Dtype from = q.in[0].dtype, to = q.out[0].dtype;
          Facts f = q.moved(is_floating(from) ? Shows::All : Shows::None);
          const bool wider = to == Dtype::F64 || (to == Dtype::F32 && from != Dtype::F64);
          if (!is_floating(from)) {
            f.finite = to != Dtype::F16 || from == Dtype::Bool ? Finite::Always : Finite::Unknown;
            f.whole = true;
            f.sign = from == Dtype::Bool ? Sign::Unsigned : Sign::Any;
          } else if (!wider && to != from) {
            f.finite = Finite::Unknown;
          }
          if (!is_floating(to)) f.shows = Shows::None;
          return f;
        },
    .jvp = [](const Params& params, ArraySpan, ArraySpan y, ArraySpan dx) -> Arrays {
      if (!is_floating(y[0].dtype())) return {Array()};
      return {bind1(convert_element_type_p, {dx[0]}, params)};
    },
    .transpose = [](const Params&, ArraySpan ct, ArraySpan, std::span<const Aval> in) -> Arrays {
      return {convert(ct[0], in[0].dtype)};
    },
    .batch = batch<convert_element_type_p>,
    .samples = conversion_samples,
}};

const Primitive bitcast_convert_type_p{{
    .name = "bitcast_convert_type",
    .doc = "y = the bits of x read as new_dtype, a type of the same width",
    .params = {"new_dtype"},
    .elementwise = true,
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      require_arity("bitcast_convert_type", in, 1);
      const Dtype to = params.dtype("new_dtype");
      if (size_of(to) != size_of(in[0].dtype) || (to == Dtype::Bool) != (in[0].dtype == Dtype::Bool))
        throw TypeError("bitcast_convert_type",
                        to_string(in[0]) + " cannot be read as " + std::string(name(to)) +
                            "; the types must have the same width, and bool has one valid bit");
      return {{to, in[0].shape}};
    },
    .kernel = copy_kernel,
    .emit = bitcast_code,
    .jvp = jvp_zero,
    .batch = batch<bitcast_convert_type_p>,
    .samples =
        [](std::uint64_t seed) {
          std::vector<Sample> all;
          SampleSource source(seed);
          auto add_sample = [&](Dtype from, Dtype to, const Shape& shape) {
            all.push_back({{source.values({from, shape}, {-3, 3})}, {{"new_dtype", to}}, false});
          };
          add_sample(Dtype::F32, Dtype::U32, {3, 5});
          add_sample(Dtype::U32, Dtype::I32, {});
          add_sample(Dtype::F64, Dtype::I64, {2, 0});
          add_sample(Dtype::BF16, Dtype::F16, {7});
          return all;
        },
}};

const Primitive stop_gradient_p{{
    .name = "stop_gradient",
    .doc = "y = x, a constant to differentiation",
    .elementwise = true,
    .ends_derivatives = true,
    .abstract = unchanged<stop_gradient_p>,
    .kernel = copy_kernel,
    .emit = [](const EmitRequest&) -> Emission { return ReshapeCode{}; },
    .jvp = jvp_zero,
    .batch = batch<stop_gradient_p>,
    .samples = copy_samples<false>,
}};

const Primitive copy_p{{
    .name = "copy",
    .doc = "y = x",
    .elementwise = true,
    .abstract = unchanged<copy_p>,
    .kernel = copy_kernel,
    .emit = [](const EmitRequest&) -> Emission { return ReshapeCode{}; },
    .jvp = [](const Params&, ArraySpan, ArraySpan, ArraySpan dx) -> Arrays { return {dx[0]}; },
    .transpose = [](const Params&, ArraySpan ct, ArraySpan, std::span<const Aval>) -> Arrays {
      return {ct[0]};
    },
    .batch = batch<copy_p>,
    .samples = copy_samples<true>,
}};

}  // namespace etrace
