// Initial values of parameters.
#include "etrace/nn/init.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"

namespace etrace::nn {

Array layer_key(std::uint64_t seed) {
  std::uint64_t hash =
      0xcbf29ce484222325U;  // FNV-1a over the names, each closed by a byte that no name holds
  auto mix = [&](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3U; };
  for (const std::string& part : OriginScope::current().module) {
    for (const char c : part) mix(static_cast<unsigned char>(c));
    mix('/');
  }
  Array key = random::key(seed);
  for (const std::uint64_t word : {hash >> 32U, hash & 0xffffffffU})
    key = random::fold_in(key, full({}, static_cast<std::int64_t>(word), Dtype::U32));
  return key;
}

namespace init {

namespace {

// Standard deviation of a standard normal cut at ±2.
constexpr double kTruncatedDeviation = 0.87962566103423978;

Array standard_truncated_normal(const Array& key, const Shape& shape, Dtype dtype) {
  const double edge = std::erf(2.0 / std::numbers::sqrt2);
  return erf_inv(random::uniform(key, shape, dtype, -edge, edge)) * std::numbers::sqrt2;
}

struct Fans {
  double in = 1.0, out = 1.0;
};
Fans fans(const Shape& shape, int in_axis, int out_axis) {
  const int rank = static_cast<int>(shape.rank());
  if (rank == 0) return {};
  if (rank == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  auto axis = [&](int a) {
    if (a < -rank || a >= rank)
      throw ValueError("init", "axis " + std::to_string(a) + " of a parameter of shape " + to_string(shape));
    return static_cast<std::size_t>(a < 0 ? a + rank : a);
  };
  const std::size_t in = axis(in_axis), out = axis(out_axis);
  double field = 1.0;
  for (std::size_t a = 0; a < shape.rank(); ++a)
    if (a != in && a != out) field *= static_cast<double>(shape[a]);
  return {field * static_cast<double>(shape[in]), field * static_cast<double>(shape[out])};
}

double chosen(Fan fan, const Fans& f) {
  if (fan == Fan::In) return f.in;
  return fan == Fan::Out ? f.out : (f.in + f.out) / 2.0;
}

// Vectors of one size, one after the other and no more than its entries, made orthonormal in place. Two
// sweeps, so that rounding of the first is corrected. The diagonal of R is positive, which makes the result
// uniform over orthogonal frames.
void orthonormalize(std::vector<double>& q, std::size_t size) {
  const auto dot = [size](const double* a, const double* b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < size; ++i) sum += a[i] * b[i];
    return sum;
  };
  double* const end = q.data() + q.size();
  for (double* c = q.data(); c != end; c += size) {
    for (int sweep = 0; sweep < 2; ++sweep)
      for (const double* b = q.data(); b != c; b += size) {
        const double overlap = dot(b, c);
        for (std::size_t i = 0; i < size; ++i) c[i] -= overlap * b[i];
      }
    const double norm = std::sqrt(dot(c, c));
    for (std::size_t i = 0; i < size; ++i) c[i] /= norm;
  }
}

}  // namespace

Initializer constant(double value) {
  return [=](const Array&, const Shape& shape, Dtype dtype) { return full(shape, value, dtype); };
}
Initializer zeros() { return constant(0.0); }

Initializer normal(double scale, double mean) {
  return [=](const Array& key, const Shape& shape, Dtype dtype) {
    return random::normal(key, shape, dtype) * scale + mean;
  };
}

Initializer uniform(double low, double high) {
  return [=](const Array& key, const Shape& shape, Dtype dtype) {
    return random::uniform(key, shape, dtype, low, high);
  };
}

Initializer truncated_normal(double scale) {
  return [=](const Array& key, const Shape& shape, Dtype dtype) {
    return standard_truncated_normal(key, shape, dtype) * scale;
  };
}

Initializer identity(double scale) {
  return [=](const Array&, const Shape& shape, Dtype dtype) {
    if (shape.rank() < 2)
      throw ValueError("init", "identity of shape " + to_string(shape) + "; expected two axes");
    const auto rank = static_cast<int>(shape.rank());
    return convert(equal_to(iota(Dtype::I32, shape, rank - 2), iota(Dtype::I32, shape, rank - 1)), dtype) *
           scale;
  };
}

Initializer variance_scaling(const VarianceOptions& options) {
  return [=](const Array& key, const Shape& shape, Dtype dtype) {
    const double fan = std::max(1.0, chosen(options.fan, fans(shape, options.in_axis, options.out_axis)));
    const double deviation = std::sqrt(options.scale / fan);
    switch (options.distribution) {
      case Distribution::Normal:
        return random::normal(key, shape, dtype) * deviation;
      case Distribution::Uniform: {
        const double edge = std::sqrt(3.0) * deviation;
        return random::uniform(key, shape, dtype, -edge, edge);
      }
      case Distribution::TruncatedNormal:
        break;
    }
    return standard_truncated_normal(key, shape, dtype) * (deviation / kTruncatedDeviation);
  };
}

Initializer kaiming_normal(Distribution d) { return variance_scaling({.scale = 2.0, .distribution = d}); }
Initializer kaiming_uniform() { return kaiming_normal(Distribution::Uniform); }
Initializer xavier_normal(Distribution d) {
  return variance_scaling({.fan = Fan::Average, .distribution = d});
}
Initializer xavier_uniform() { return xavier_normal(Distribution::Uniform); }
Initializer lecun_normal(Distribution d) { return variance_scaling({.distribution = d}); }
Initializer lecun_uniform() { return lecun_normal(Distribution::Uniform); }

Initializer orthogonal(double scale) {
  return [=](const Array& key, const Shape& shape, Dtype dtype) {
    if (shape.rank() < 2)
      throw ValueError("init",
                       "orthogonal values of shape " + to_string(shape) + "; expected at least two axes");
    const auto last = static_cast<std::size_t>(shape.back());
    const std::size_t rest = last == 0 ? 0 : static_cast<std::size_t>(shape.size()) / last;
    const std::size_t tall = std::max(rest, last), thin = std::min(rest, last);
    const Shape matrix{static_cast<std::int64_t>(tall), static_cast<std::int64_t>(thin)};
    const Array draws = transpose(random::normal(key, matrix, Dtype::F64));
    std::vector<double> q = draws.tensor().to_doubles();
    orthonormalize(q, tall);
    Array values = array(q, draws.shape(), Dtype::F64);
    if (rest >= last) values = transpose(values);
    return convert(reshape(values, shape.to_dims()) * scale, dtype);
  };
}

}  // namespace init
}  // namespace etrace::nn
