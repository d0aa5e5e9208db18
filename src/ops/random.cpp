// Counter-based random numbers. Element i of a draw is a function of the key and of i alone (Threefry-2x32 with 20
// rounds applied to the 64-bit counter i), so a draw is the same on every backend and for any number of threads, and
// agrees with JAX's partitionable generator.
#include "etrace/random.h"

#include <cmath>
#include <limits>
#include <string>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "ops/elementwise_common.h"
#include "runtime/etp_rng.h"

namespace etrace {

namespace {

constexpr std::int64_t kKeyWords = 2;

// The shape of an array of keys without the axis of their two words.
Shape key_shape(std::string_view op, const Aval& key) {
  if (key.dtype != Dtype::U32 || key.shape.is_scalar() || key.shape.back() != kKeyWords)
    throw TypeError(std::string(op), "the key is " + to_string(key) +
                                         "; keys are u32[2] or arrays of these (see random::key and random::split)");
  return key.shape.without(key.shape.rank() - 1);
}

Shape joined(const Shape& a, const Shape& b) {
  Dims dims = a.to_dims();
  dims.insert(dims.end(), b.begin(), b.end());
  return dims;
}

// What each key draws. JAX's parameter is a list of sizes.
Shape drawn_shape(const Params& params) { return Shape(params.dims("shape")); }

// run(k0, k1, n, y): n numbers of one key, `words` u32 each, for every key of the operand.
template <auto Draw, std::int64_t Words>
Kernel draw_kernel(const KernelRequest& r) {
  const std::int64_t keys = r.x(0).shape.size() / kKeyWords, n = drawn_shape(r.params).size();
  return {.run = [keys, n](const KernelArgs& a) {
    const auto* key = static_cast<const std::uint32_t*>(a.in[0]);
    auto* y = static_cast<std::uint32_t*>(a.out[0]);
    for (std::int64_t k = 0; k < keys; ++k) Draw(key[2 * k], key[2 * k + 1], n, y + k * n * Words);
  }};
}

void draw_bits(std::uint32_t k0, std::uint32_t k1, std::int64_t n, std::uint32_t* y) {
  etp_threefry_bits_u32(k0, k1, 0, n, y);
}

void draw_pairs(std::uint32_t k0, std::uint32_t k1, std::int64_t n, std::uint32_t* y) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto counter = static_cast<std::uint64_t>(i);
    etp_threefry2x32(k0, k1, static_cast<std::uint32_t>(counter >> 32U), static_cast<std::uint32_t>(counter), &y[2 * i],
                     &y[2 * i + 1]);
  }
}

template <const Primitive& P>
Arrays batch_by_keys(const Params& params, ArraySpan x, const std::vector<bool>&, std::int64_t) {
  return bind_primitive(P, x, params);  // an array of keys draws once for each of them
}

template <bool Fold>
std::vector<PrimitiveSpec::Sample> key_samples(std::uint64_t seed) {
  std::vector<PrimitiveSpec::Sample> all;
  const Array key = random::key(seed), keys = random::split(key, 3);
  for (const Dims& shape : {Dims{}, Dims{5}, Dims{3, 0}, Dims{2, 3}}) {
    all.push_back({{key}, {{"bit_width", 32}, {"shape", shape}}, false});
    all.push_back({{keys}, {{"bit_width", 32}, {"shape", shape}}, false});
  }
  return all;
}

}  // namespace
}  // namespace etrace
