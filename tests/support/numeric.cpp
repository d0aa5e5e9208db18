#include "support/numeric.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "etrace/error.h"

namespace etrace::testing {

namespace {

// A tensor of any element type from doubles.
Tensor from_doubles(const Aval& aval, const std::vector<double>& values) {
  Tensor out = Tensor::uninitialized(aval);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Scalar value = is_floating(aval.dtype)     ? Scalar(values[i])
                         : aval.dtype == Dtype::Bool ? Scalar(values[i] != 0.0)
                                                     : Scalar(static_cast<std::int64_t>(values[i]));
    const Tensor one = Tensor::full({aval.dtype, {}}, value);
    std::memcpy(out.writable() + i * size_of(aval.dtype), one.bytes(), size_of(aval.dtype));
  }
  return out;
}

bool agree(double a, double b, double bound) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= bound;
}

double largest_finite(const std::vector<double>& values) {
  double largest = 0.0;
  for (const double v : values)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  return largest;
}

}  // namespace

double Random::uniform(double low, double high) {
  return low + (high - low) * (static_cast<double>(engine_() >> 11) * 0x1p-53);
}

Tensor Random::tensor(const Aval& aval, double low, double high) {
  std::vector<double> values(static_cast<std::size_t>(aval.shape.size()));
  for (double& v : values) {
    v = aval.dtype == Dtype::Bool ? std::floor(uniform(0.0, 2.0)) : uniform(low, high);
    if (is_integer(aval.dtype)) v = std::floor(v);
  }
  return from_doubles(aval, values);
}

std::optional<std::string> difference(const Tensor& found, const Tensor& expected, double tolerance) {
  if (found.aval() != expected.aval())
    return "type " + to_string(found.aval()) + " instead of " + to_string(expected.aval());
  const std::vector<double> a = found.to_doubles(), b = expected.to_doubles();
  const double bound = is_floating(found.dtype()) ? tolerance * std::max(1.0, largest_finite(b)) : 0.0;
  std::size_t wrong = 0, worst = 0;
  double worst_by = -1.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (agree(a[i], b[i], bound)) continue;
    ++wrong;
    const double by = std::isfinite(a[i] - b[i]) ? std::abs(a[i] - b[i]) : HUGE_VAL;
    if (by > worst_by) {
      worst = i;
      worst_by = by;
    }
  }
  if (wrong == 0) return std::nullopt;
  std::ostringstream text;
  text.precision(10);
  text << wrong << " of " << a.size() << " elements of " << to_string(found.aval()) << " differ, worst at "
       << worst << ": " << a[worst] << " instead of " << b[worst] << " (by " << worst_by << ", allowed "
       << bound << ")";
  return text.str();
}

std::optional<std::string> difference(std::span<const Tensor> found, std::span<const Tensor> expected,
                                      double tolerance) {
  if (found.size() != expected.size())
    return std::to_string(found.size()) + " values instead of " + std::to_string(expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    if (const auto d = difference(found[i], expected[i], tolerance))
      return "result " + std::to_string(i) + ": " + *d;
  return std::nullopt;
}

std::optional<std::string> difference(ArraySpan found, ArraySpan expected, double tolerance) {
  return difference(std::span<const Tensor>(to_tensors(found)), std::span<const Tensor>(to_tensors(expected)),
                    tolerance);
}

double coarsest_roundoff(std::span<const Aval> avals) {
  double coarsest = 0x1p-53;
  for (const Aval& a : avals) {
    if (a.dtype == Dtype::F32) coarsest = std::max(coarsest, 0x1p-24);
    if (a.dtype == Dtype::F16) coarsest = std::max(coarsest, 0x1p-11);
    if (a.dtype == Dtype::BF16) coarsest = std::max(coarsest, 0x1p-8);
  }
  return coarsest;
}

Tensors moved(std::span<const Tensor> x, std::span<const Tensor> v, double factor) {
  Tensors out(x.begin(), x.end());
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!v[i].defined()) continue;
    std::vector<double> values = x[i].to_doubles();
    const std::vector<double> direction = v[i].to_doubles();
    for (std::size_t k = 0; k < values.size(); ++k) values[k] += factor * direction[k];
    out[i] = from_doubles(x[i].aval(), values);
  }
  return out;
}

Tensors directional_difference(const TensorFunction& f, std::span<const Tensor> x, std::span<const Tensor> v,
                               double step) {
  const Tensors near_plus = f(moved(x, v, step)), near_minus = f(moved(x, v, -step));
  const Tensors far_plus = f(moved(x, v, 2 * step)), far_minus = f(moved(x, v, -2 * step));
  Tensors out(near_plus.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Aval& aval = near_plus[i].aval();
    if (!is_floating(aval.dtype)) continue;
    const std::vector<double> p = near_plus[i].to_doubles(), m = near_minus[i].to_doubles();
    const std::vector<double> pp = far_plus[i].to_doubles(), mm = far_minus[i].to_doubles();
    std::vector<double> d(p.size());
    for (std::size_t k = 0; k < d.size(); ++k) d[k] = (8.0 * (p[k] - m[k]) - (pp[k] - mm[k])) / (12.0 * step);
    out[i] = from_doubles(aval, d);
  }
  return out;
}

InnerProduct inner(std::span<const Tensor> a, std::span<const Tensor> b) {
  InnerProduct sum;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].defined() || !b[i].defined() || !is_floating(a[i].dtype())) continue;
    const std::vector<double> p = a[i].to_doubles(), q = b[i].to_doubles();
    for (std::size_t k = 0; k < p.size(); ++k) {
      sum.value += p[k] * q[k];
      sum.magnitude += std::abs(p[k] * q[k]);
    }
  }
  return sum;
}

Tensor stack_tensors(std::span<const Tensor> tensors, const Aval& each) {
  Tensor out =
      Tensor::uninitialized({each.dtype, each.shape.with_front(static_cast<std::int64_t>(tensors.size()))});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].aval() != each)
      throw TypeError("stack", "tensor " + std::to_string(i) + " is " + to_string(tensors[i].aval()) +
                                   " instead of " + to_string(each));
    if (each.bytes() != 0) std::memcpy(out.writable() + i * each.bytes(), tensors[i].bytes(), each.bytes());
  }
  return out;
}

}  // namespace etrace::testing
