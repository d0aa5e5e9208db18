// Counter-based random numbers. Element i of a draw is a function of the key and of i alone (Threefry-2x32
// with 20 rounds applied to the 64-bit counter i), so a draw is the same on every backend and for any number
// of threads, and agrees with JAX's partitionable generator.
#include "etrace/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "ops/structure_common.h"
#include "runtime/etp_rng.h"

namespace etrace {

namespace {

constexpr std::int64_t kKeyWords = 2;

// The shape of an array of keys, without the axis of their two words.
Shape key_shape(std::string_view op, const Aval& key) {
  if (key.dtype != Dtype::U32 || key.shape.is_scalar() || key.shape.back() != kKeyWords)
    throw TypeError(std::string(op),
                    "the key is " + to_string(key) +
                        "; keys are u32[2] or arrays of these, made by random::key and random::split");
  return key.shape.without(key.shape.rank() - 1);
}

Shape drawn_shape(const Params& params) { return Shape(params.dims("shape")); }

// Encrypts the counter (high, low) under a key and writes both words.
void write_key(const std::uint32_t* key, std::uint32_t high, std::uint32_t low, std::uint32_t* y) {
  etp_threefry2x32(key[0], key[1], &high, &low);
  y[0] = high;
  y[1] = low;
}

void write_bits(const std::uint32_t* key, std::int64_t n, std::uint32_t* y) {
  etp_random_bits_u32(key[0], key[1], 0, n, y);
}

void write_keys(const std::uint32_t* key, std::int64_t n, std::uint32_t* y) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto counter = static_cast<std::uint64_t>(i);
    write_key(key, static_cast<std::uint32_t>(counter >> 32U), static_cast<std::uint32_t>(counter),
              y + 2 * i);
  }
}

// Write(key, n, y) writes n elements of one key; every key draws for itself.
template <std::int64_t WordsPerElement, auto Write>
Kernel draw_kernel(const KernelRequest& r) {
  const std::int64_t keys = r.x(0).shape.size() / kKeyWords, n = drawn_shape(r.params).size();
  return {.run = [keys, n](const KernelArgs& a) {
    const auto* key = static_cast<const std::uint32_t*>(a.in[0]);
    auto* y = static_cast<std::uint32_t*>(a.out[0]);
    for (std::int64_t k = 0; k < keys; ++k) Write(key + k * kKeyWords, n, y + k * n * WordsPerElement);
  }};
}

// Bits, or keys: words behind the axes of the keys and of what is drawn.
template <bool Keys>
Emission draw_code(const EmitRequest& r) {
  const std::size_t rank = r.y().shape.rank(), key_rank = r.x(0).shape.rank() - 1;
  const Dims in_keys = strides_of(r.x(0).shape), drawn = strides_of(drawn_shape(r.params));
  Dims keys(rank, 0), elements(rank, 0), words(rank, 0);
  std::copy_n(in_keys.begin(), key_rank, keys.begin());
  std::copy(drawn.begin(), drawn.end(), elements.begin() + static_cast<std::ptrdiff_t>(key_rank));
  if (Keys) words.back() = 1;
  MapCode code{.text = Keys ? "etp_random_key($0, $1, #0, #1)" : "etp_random_word($0, $1, #0)",
               .cost = 80,
               .reads = {{0, {0, keys}, {}}, {0, {1, keys}, {}}},
               .indices = {{0, elements}}};
  if (Keys) code.indices.push_back({0, words});
  return code;
}

Emission fold_in_code(const EmitRequest& r) {
  Dims keys = strides_of(r.x(0).shape), words(keys.size(), 0), numbers = strides_of(r.x(1).shape);
  keys.back() = 0;
  words.back() = 1;
  numbers.push_back(0);
  return MapCode{.text = "etp_random_key($0, $1, (int64_t)$2, #0)",
                 .cost = 80,
                 .reads = {{0, {0, keys}, {}}, {0, {1, keys}, {}}, {1, {0, numbers}, {}}},
                 .indices = {{0, words}}};
}

// For each key the drawn shape, with the axes of one element behind it.
Aval drawn_aval(std::string_view op, const Params& params, std::span<const Aval> in,
                const Dims& element = {}) {
  structure::expect_operands(op, in, 1);
  const Dims keys = key_shape(op, in[0]).to_dims();
  return {Dtype::U32, structure::joined(structure::joined(keys, params.dims("shape")), element)};
}

// An array of keys draws once for each of them: the mapped axis is one more axis of keys.
template <const Primitive& P>
Arrays batch_keys(const Params& params, ArraySpan x, const std::vector<bool>&, std::int64_t) {
  return bind_primitive(P, x, params);
}

template <bool kBits>
std::vector<PrimitiveSpec::Sample> draw_samples(std::uint64_t seed) {
  std::vector<PrimitiveSpec::Sample> all;
  const Array key = random::key(seed);
  for (const Dims& shape : {Dims{}, Dims{5}, Dims{3, 0}, Dims{2, 3}})
    for (const Array& keys : {key, random::split(key, 3)}) {
      const Params params{{"shape", shape}};
      all.push_back({{keys}, kBits ? params.with("bit_width", 32) : params, false});
    }
  return all;
}

}  // namespace

const Primitive random_bits_p{{
    .name = "random_bits",
    .doc = "independent random bits u32[shape] for each key",
    .params = {"bit_width", "shape"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      if (params.integer_or("bit_width", 32) != 32)
        throw NotSupportedError("random_bits", "bit_width is " + std::to_string(params.integer("bit_width")) +
                                                   "; only 32 is available: combine two draws for more bits");
      return {drawn_aval("random_bits", params, in)};
    },
    .kernel = draw_kernel<1, write_bits>,
    .emit = draw_code<false>,
    .batch = batch_keys<random_bits_p>,
    .samples = draw_samples<true>,
}};

const Primitive random_split_p{{
    .name = "random_split",
    .doc = "independent keys u32[shape, 2] from each key",
    .params = {"shape"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      return {drawn_aval("random_split", params, in, {kKeyWords})};
    },
    .kernel = draw_kernel<kKeyWords, write_keys>,
    .emit = draw_code<true>,
    .batch = batch_keys<random_split_p>,
    .samples = draw_samples<false>,
}};

const Primitive random_fold_in_p{{
    .name = "random_fold_in",
    .doc = "a new key from a key and a number, operands u32[…, 2] and u32[…]",
    .abstract = [](const Params&, std::span<const Aval> in) -> Avals {
      structure::expect_operands("random_fold_in", in, 2);
      if (in[1].dtype != Dtype::U32)
        throw TypeError("random_fold_in", "the number is " + to_string(in[1]) + "; it must be u32");
      if (const Shape keys = key_shape("random_fold_in", in[0]); keys != in[1].shape)
        throw ValueError("random_fold_in", "keys of shape " + to_string(keys) + " and numbers of shape " +
                                               to_string(in[1].shape) + "; the shapes must be equal");
      return {in[0]};
    },
    .kernel = [](const KernelRequest& r) -> Kernel {
      return {.run = [n = r.x(1).shape.size()](const KernelArgs& a) {
        const auto* key = static_cast<const std::uint32_t*>(a.in[0]);
        const auto* number = static_cast<const std::uint32_t*>(a.in[1]);
        auto* y = static_cast<std::uint32_t*>(a.out[0]);
        for (std::int64_t i = 0; i < n; ++i) write_key(key + 2 * i, 0, number[i], y + 2 * i);
      }};
    },
    .emit = fold_in_code,
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>& batched,
                std::int64_t n) -> Arrays {
      Arrays in;
      for (std::size_t i = 0; i < x.size(); ++i)
        in.push_back(batched[i] ? x[i] : broadcast_to(x[i], x[i].shape().with_front(n)));
      return bind_primitive(random_fold_in_p, in, params);
    },
    .samples = [](std::uint64_t seed) -> std::vector<PrimitiveSpec::Sample> {
      const Array key = random::key(seed), keys = random::split(key, 3);
      return {{{key, full({}, static_cast<std::int64_t>(seed % 1000), Dtype::U32)}, {}, false},
              {{keys, arange(3, Dtype::U32)}, {}, false},
              {{random::split(key, 0), arange(0, Dtype::U32)}, {}, false}};
    },
}};

namespace random {

namespace {

// Key i of u32[num, 2].
Array one_of(const Array& keys, std::int64_t i) { return squeeze(slice_axis(keys, 0, i, i + 1), {0}); }

// Uniform on [0, 1): the upper bits of the draw as the fraction, one for each value that the type has in [1,
// 2).
Array unit_uniform(const Array& key, const Shape& shape, Dtype dtype) {
  if (dtype == Dtype::F32) {
    const Array fraction = shift_right_logical(bits(key, shape), 9);
    return bitcast(logical_or(fraction, full({}, std::int64_t{0x3f800000}, Dtype::U32)), Dtype::F32) - 1.0;
  }
  if (dtype != Dtype::F64)
    throw TypeError("random", "numbers of type " + std::string(name(dtype)) +
                                  " were asked for; f32 and f64 are available: convert afterwards");
  // 52 bits from two words.
  const Array words = bind1(random_split_p, {key}, {{"shape", shape}});
  const int last = static_cast<int>(words.rank()) - 1;
  auto word = [&](std::int64_t i) {
    return squeeze(slice_axis(words, last, i, i + 1), {std::int64_t{last}});
  };
  const Array low = shift_right_logical(word(1), 12);
  return convert(word(0), Dtype::F64) * 0x1p-32 + convert(low, Dtype::F64) * 0x1p-52;
}

}  // namespace

Array key(std::uint64_t seed) {
  return Array(Tensor::of(
      std::vector{static_cast<std::uint32_t>(seed >> 32U), static_cast<std::uint32_t>(seed)}, {kKeyWords}));
}

Array split(const Array& key, std::int64_t num) {
  return bind1(random_split_p, {key}, {{"shape", Dims{num}}});
}

Array fold_in(const Array& key, const Array& data) {
  const Shape keys = key_shape("random_fold_in", key.aval());
  return bind1(random_fold_in_p, {key, broadcast_to(convert(data, Dtype::U32), keys)});
}

Array bits(const Array& key, const Shape& shape) {
  return bind1(random_bits_p, {key}, {{"bit_width", 32}, {"shape", shape}});
}

Array uniform(const Array& key, const Shape& shape, Dtype dtype, double low, double high) {
  const Array unit = unit_uniform(key, shape, dtype);
  if (low == 0.0 && high == 1.0) return unit;
  if (!(low <= high))
    throw ValueError("random",
                     "uniform on [" + std::to_string(low) + ", " + std::to_string(high) + ") is empty");
  return maximum(low, unit * (high - low) + low);  // rounding must not leave the interval
}

Array normal(const Array& key, const Shape& shape, Dtype dtype) {
  // The open interval: erf_inv is infinite at -1.
  const double low =
      dtype == Dtype::F64 ? std::nextafter(-1.0, 0.0) : static_cast<double>(std::nextafter(-1.0F, 0.0F));
  return std::sqrt(2.0) * erf_inv(uniform(key, shape, dtype, low, 1.0));
}

Array bernoulli(const Array& key, double p, const Shape& shape) { return less(uniform(key, shape), p); }

// (high·2^32 + low) mod span from two draws in 32-bit arithmetic, step by step as JAX does it.
Array randint(const Array& key, const Shape& shape, std::int64_t low, std::int64_t high, Dtype dtype) {
  if (dtype != Dtype::I32 && dtype != Dtype::I64)
    throw TypeError("random", "integers of type " + std::string(name(dtype)) +
                                  " were asked for; i32 and i64 are available");
  constexpr std::int64_t kMaxSpan = std::numeric_limits<std::uint32_t>::max();
  const bool fits_i32 =
      low >= std::numeric_limits<std::int32_t>::min() && high - 1 <= std::numeric_limits<std::int32_t>::max();
  if (low >= high || static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) > kMaxSpan ||
      (dtype == Dtype::I32 && !fits_i32))
    throw ValueError("random",
                     "randint on [" + std::to_string(low) + ", " + std::to_string(high) +
                         "): the interval must hold at least one number, fewer than 2^32, all of the type " +
                         std::string(name(dtype)));
  const auto span = static_cast<std::uint64_t>(high - low);
  const Array n = full({}, static_cast<std::int64_t>(span), Dtype::U32);
  const std::uint64_t half = (std::uint64_t{1} << 16U) % span;
  const Array multiplier =
      full({}, static_cast<std::int64_t>(static_cast<std::uint32_t>(half * half) % span), Dtype::U32);
  const Array words = split(key, 2);
  auto draw = [&](std::int64_t i) { return rem(bits(one_of(words, i), shape), n); };
  const Array offset = rem(draw(0) * multiplier + draw(1), n);
  if (dtype == Dtype::I32) return bitcast(offset, Dtype::I32) + full({}, low, Dtype::I32);
  return convert(offset, Dtype::I64) + full({}, low, Dtype::I64);
}

// Sorting by random numbers, as often as makes ties harmless.
Array permutation(const Array& key, std::int64_t n) {
  Array current = key, order = arange(n);
  const double rounds =
      std::ceil(3.0 * std::log(static_cast<double>(std::max<std::int64_t>(n, 1))) / std::log(4294967295.0));
  for (int i = 0; i < static_cast<int>(rounds); ++i) {
    const Array keys = split(current, 2);
    current = one_of(keys, 0);
    order = bind_primitive(sort_p, {bits(one_of(keys, 1), {n}), order},
                           {{"dimension", 0}, {"is_stable", true}, {"num_keys", 1}})[1];
  }
  return order;
}

}  // namespace random

}  // namespace etrace
