// Initial values of parameters.
#include "etrace/nn/init.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "nn/orthogonal.h"
#include "runtime/etp_math.h"

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

// erf x = 2/√π · e^(−x²) · Σ_n 2ⁿ x^(2n+1)/(1·3·…·(2n + 1)) for x > 0: sums, products and our own
// exponential, so that its bits are the same everywhere, which those of the C library need not be.
double error_function(double x) {
  if (x > 6.0) return 1.0;  // to the last bit
  double term = x, sum = x;
  for (int n = 1; term > 1e-18 * sum; ++n) {
    term *= 2.0 * x * x / (2.0 * n + 1.0);
    sum += term;
  }
  return 2.0 * std::numbers::inv_sqrtpi * etp_exp_f64(-x * x) * sum;
}

Array standard_truncated_normal(const Array& key, const Shape& shape, Dtype dtype, double cut = 2.0) {
  const double below_one = dtype == Dtype::F64 ? 1.0 - 0x1p-53 : 1.0 - 0x1p-24;  // erf_inv is infinite at 1
  const double edge = std::min(error_function(cut / std::numbers::sqrt2), below_one);
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

}  // namespace

Initializer constant(double value) {
  return [=](const Array&, const Shape& shape, Dtype dtype) { return full(shape, value, dtype); };
}
Initializer zeros() { return constant(0.0); }
Initializer ones() { return constant(1.0); }

Initializer values(const Array& given) {
  return [=](const Array&, const Shape& shape, Dtype dtype) {
    if (numpy_broadcast_shapes(given.shape(), shape) != shape)
      throw ValueError("init",
                       "values of type " + to_string(given.aval()) + " for a parameter of shape " +
                           to_string(shape) + "; they must broadcast to it",
                       OriginScope::current());
    return broadcast_to(convert(given, dtype), shape);
  };
}

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

Initializer truncated_normal(double scale, double mean, double cut) {
  if (!(cut > 0.0))
    throw ValueError("init", "a normal cut at " + std::to_string(cut) + " deviations; expected more than 0");
  return [=](const Array& key, const Shape& shape, Dtype dtype) {
    return standard_truncated_normal(key, shape, dtype, cut) * scale + mean;
  };
}

Initializer log_normal(double mean, double scale) {
  return [=](const Array& key, const Shape& shape, Dtype dtype) {
    return exp(random::normal(key, shape, dtype) * scale + mean);
  };
}

Initializer exponential(double mean) {
  return [=](const Array& key, const Shape& shape, Dtype dtype) {
    return log1p(-random::uniform(key, shape, dtype)) * -mean;
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

Initializer chrono(double steps, double sign, double offset) {
  if (!(steps >= 1.0))
    throw ValueError("init", "a memory of " + std::to_string(steps) + " steps; expected at least 1");
  return [=](const Array& key, const Shape& shape, Dtype dtype) {
    return sign * log(random::uniform(key, shape, dtype, 1.0, std::max(steps, 1.0 + 1e-6))) + offset;
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

double leaky_relu_scale(double slope) { return 2.0 / (1.0 + slope * slope); }

namespace family_b {

namespace {
Initializer law(double scale, Fan fan, Distribution d) {
  return [=](const Array& key, const Shape& shape, Dtype dtype) {
    const bool kernel = shape.rank() >= 3;
    return variance_scaling({.scale = scale,
                             .fan = fan,
                             .distribution = d,
                             .in_axis = kernel ? 1 : -2,
                             .out_axis = kernel ? 0 : -1})(key, shape, dtype);
  };
}
}  // namespace

Initializer kaiming_normal(double scale) { return law(scale, Fan::In, Distribution::Normal); }
Initializer kaiming_uniform(double scale) { return law(scale, Fan::In, Distribution::Uniform); }
Initializer xavier_normal(double scale) { return law(scale, Fan::Average, Distribution::Normal); }
Initializer xavier_uniform(double scale) { return law(scale, Fan::Average, Distribution::Uniform); }
Initializer lecun_normal(double scale) { return law(scale, Fan::In, Distribution::Normal); }
Initializer lecun_uniform(double scale) { return law(scale, Fan::In, Distribution::Uniform); }

}  // namespace family_b

Initializer orthogonal(double scale, int axis) {
  return [=](const Array& key, const Shape& shape, Dtype dtype) {
    const auto rank = static_cast<int>(shape.rank());
    if (rank < 2 || axis < -rank || axis >= rank)
      throw ValueError("init",
                       "orthogonal values of shape " + to_string(shape) + " along axis " +
                           std::to_string(axis) + "; expected at least two axes, that one among them",
                       OriginScope::current());
    const auto along = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    const Shape others = shape.without(along);
    const std::int64_t last = shape[along], rest = others.size();
    const Dtype precision = dtype == Dtype::F64 ? Dtype::F64 : Dtype::F32;
    Array frame = orthonormal_columns(key, std::max(rest, last), std::min(rest, last), precision);
    if (rest < last) frame = transpose(frame);
    Dims sizes = others.to_dims();
    sizes.push_back(last);
    return convert(moveaxis(reshape(frame, sizes), -1, axis) * scale, dtype);
  };
}

Initializer delta_orthogonal(double scale) {
  return [=](const Array& key, const Shape& shape, Dtype dtype) {
    const std::size_t rank = shape.rank();
    if (rank < 3 || shape[rank - 2] > shape[rank - 1])
      throw ValueError("init",
                       "an orthogonal kernel of shape " + to_string(shape) +
                           "; expected [space…, in, out] with no more inputs than outputs",
                       OriginScope::current());
    const Array centre = orthogonal(scale)(key, {shape[rank - 2], shape[rank - 1]}, dtype);
    std::vector<PadAxis> around(rank);
    for (std::size_t a = 0; a + 2 < rank; ++a) {
      around[a].low = shape[a] / 2;
      around[a].high = shape[a] - 1 - shape[a] / 2;
    }
    Dims sizes(rank, 1);
    sizes[rank - 2] = shape[rank - 2];
    sizes[rank - 1] = shape[rank - 1];
    return pad(reshape(centre, sizes), full({}, 0.0, dtype), around);
  };
}

Initializer scaled(Initializer init, double factor) {
  return [init = std::move(init), factor](const Array& key, const Shape& shape, Dtype dtype) {
    return init(key, shape, dtype) * factor;
  };
}

Initializer clipped(Initializer init, double low, double high) {
  return [init = std::move(init), low, high](const Array& key, const Shape& shape, Dtype dtype) {
    return clip(init(key, shape, dtype), low, high);
  };
}

Initializer magnitude(Initializer init) {
  return [init = std::move(init)](const Array& key, const Shape& shape, Dtype dtype) {
    return abs(init(key, shape, dtype));
  };
}

Initializer stacked_rows(std::int64_t rows, Initializer above, Initializer below) {
  return [rows, above = std::move(above), below = std::move(below)](const Array& key, const Shape& shape,
                                                                    Dtype dtype) {
    if (shape.rank() == 0 || shape[0] < rows)
      throw ValueError("init", std::to_string(rows) + " rows of a parameter of shape " + to_string(shape),
                       OriginScope::current());
    const Array first = above(random::fold_in(key, 0), shape.with(0, rows), dtype);
    const Array others = below(random::fold_in(key, 1), shape.with(0, shape[0] - rows), dtype);
    return concatenate(Arrays{first, others}, 0);
  };
}

namespace {
struct InitRow {
  std::string_view name;
  Initializer (*make)();
};
constexpr std::array<InitRow, 20> kInitRows{{
    {"delta_orthogonal", [] { return delta_orthogonal(); }},
    {"exponential", [] { return exponential(); }},
    {"family_b.kaiming_normal", [] { return family_b::kaiming_normal(); }},
    {"family_b.kaiming_uniform", [] { return family_b::kaiming_uniform(); }},
    {"family_b.lecun_normal", [] { return family_b::lecun_normal(); }},
    {"family_b.lecun_uniform", [] { return family_b::lecun_uniform(); }},
    {"family_b.xavier_normal", [] { return family_b::xavier_normal(); }},
    {"family_b.xavier_uniform", [] { return family_b::xavier_uniform(); }},
    {"identity", [] { return identity(); }},
    {"kaiming_normal", [] { return kaiming_normal(); }},
    {"kaiming_uniform", [] { return kaiming_uniform(); }},
    {"lecun_normal", [] { return lecun_normal(); }},
    {"lecun_uniform", [] { return lecun_uniform(); }},
    {"log_normal", [] { return log_normal(); }},
    {"normal", [] { return normal(); }},
    {"orthogonal", [] { return orthogonal(); }},
    {"truncated_normal", [] { return truncated_normal(); }},
    {"xavier_normal", [] { return xavier_normal(); }},
    {"xavier_uniform", [] { return xavier_uniform(); }},
    {"zeros", [] { return zeros(); }},
}};
}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> result;
  result.reserve(kInitRows.size());
  for (const InitRow& row : kInitRows) result.emplace_back(row.name);
  return result;
}

Initializer by_name(std::string_view name) {
  std::string known;
  for (const InitRow& row : kInitRows) {
    if (row.name == name) return row.make();
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw ValueError("init", "there is no initialiser '" + std::string(name) + "'; expected one of " + known);
}

}  // namespace init
}  // namespace etrace::nn
