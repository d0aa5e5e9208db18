// Surrogate derivatives: one function per formula, and the table of their names at the end.
#include "etrace/nn/surrogate.h"

#include <array>
#include <cmath>
#include <numbers>

#include "base/nearest.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"

namespace etrace::nn {

Array spike(const Array& x, const Surrogate& s) { return heaviside_surrogate(x, s(stop_gradient(x))); }

namespace surrogate {

namespace {

constexpr double kPi = std::numbers::pi;

Array normal_density(const Array& x, double mean, double sigma) {
  const Array distance = mean == 0.0 ? x : x - mean;
  return 1.0 / (sigma * std::sqrt(2.0 * kPi)) * exp(-0.5 / (sigma * sigma) * square(distance));
}

// The derivative of σ(αx).
Array logistic_slope(const Array& x, double alpha) {
  const Array y = logistic(alpha * x);
  const Array rest = 1.0 - y;  // a statement of its own: C++ leaves the order of operands open
  return alpha * y * rest;
}

}  // namespace

Surrogate arctan(double alpha) {
  return [=](const Array& x) { return alpha / 2.0 / (1.0 + square(kPi * alpha / 2.0 * x)); };
}

Surrogate boxcar(double half_width, double height) {
  return [=](const Array& x) { return where(abs(x) <= half_width, full_like(x, height), full_like(x, 0.0)); };
}

Surrogate erf(double alpha) {
  return [=](const Array& x) { return alpha / std::sqrt(kPi) * exp(-alpha * alpha * square(x)); };
}

Surrogate gaussian(double sigma, double alpha) {
  return [=](const Array& x) { return alpha * normal_density(x, 0.0, sigma); };
}

Surrogate inv_square(double alpha) {
  return [=](const Array& x) { return 1.0 / square(alpha * abs(x) + 1.0); };
}

Surrogate leaky_relu(double alpha, double beta) {
  return [=](const Array& x) { return where(x < 0.0, full_like(x, alpha), full_like(x, beta)); };
}

Surrogate log_tailed_relu(double alpha) {
  return [=](const Array& x) {
    const Array tail = 1.0 / maximum(x, 1.0);
    return where(x > 0.0, tail, full_like(x, alpha));
  };
}

Surrogate multi_gaussian(double h, double s, double sigma, double scale) {
  return [=](const Array& x) {
    const Array centre = (1.0 + h) * normal_density(x, 0.0, sigma);
    const Array right = h * normal_density(x, sigma, s * sigma);
    const Array left = h * normal_density(x, -sigma, s * sigma);
    return scale * (centre - right - left);
  };
}

Surrogate nonzero_sign_log(double alpha) {
  return [=](const Array& x) { return 1.0 / (1.0 / alpha + abs(x)); };
}

Surrogate piecewise_exp(double alpha) {
  return [=](const Array& x) { return alpha / 2.0 * exp(-alpha * abs(x)); };
}

Surrogate piecewise_leaky_relu(double c, double width) {
  return [=](const Array& x) { return where(abs(x) <= width, full_like(x, 0.5 / width), full_like(x, c)); };
}

Surrogate piecewise_quadratic(double alpha) { return relu_grad(alpha * alpha, 1.0 / alpha); }

Surrogate q_pseudo_spike(double alpha) {
  return [=](const Array& x) { return pow(1.0 + 2.0 / (alpha + 1.0) * abs(x), -alpha); };
}

Surrogate relu_grad(double alpha, double width) {
  return [=](const Array& x) { return maximum(alpha * width - alpha * abs(x), 0.0); };
}

Surrogate s2nn(double alpha, double beta) {
  return [=](const Array& x) {
    const Array below = logistic_slope(x, alpha);
    const Array above = beta / (maximum(x, 0.0) + 1.0);
    return where(x < 0.0, below, above);
  };
}

Surrogate sigmoid(double alpha) {
  return [=](const Array& x) { return logistic_slope(x, alpha); };
}

Surrogate slayer(double alpha) {
  return [=](const Array& x) { return exp(-alpha * abs(x)); };
}

Surrogate soft_sign(double alpha) {
  return [=](const Array& x) { return alpha / 2.0 / square(1.0 + abs(alpha * x)); };
}

Surrogate squarewave_fourier(int n, double period) {
  if (n < 1)
    throw ValueError("nn", "squarewave_fourier with " + std::to_string(n) + " terms; expected at least 1");
  return [=](const Array& x) {
    Array total = cos(2.0 * kPi / period * x);
    for (int i = 2; i <= n; ++i) total = total + cos((2 * i - 1) * 2.0 * kPi / period * x);
    return 4.0 / period * total;
  };
}

namespace {
struct Row {
  std::string_view name;
  Surrogate (*make)();
};
constexpr std::array<Row, 19> kRows{{
    {"arctan", [] { return arctan(); }},
    {"boxcar", [] { return boxcar(); }},
    {"erf", [] { return erf(); }},
    {"gaussian", [] { return gaussian(); }},
    {"inv_square", [] { return inv_square(); }},
    {"leaky_relu", [] { return leaky_relu(); }},
    {"log_tailed_relu", [] { return log_tailed_relu(); }},
    {"multi_gaussian", [] { return multi_gaussian(); }},
    {"nonzero_sign_log", [] { return nonzero_sign_log(); }},
    {"piecewise_exp", [] { return piecewise_exp(); }},
    {"piecewise_leaky_relu", [] { return piecewise_leaky_relu(); }},
    {"piecewise_quadratic", [] { return piecewise_quadratic(); }},
    {"q_pseudo_spike", [] { return q_pseudo_spike(); }},
    {"relu_grad", [] { return relu_grad(); }},
    {"s2nn", [] { return s2nn(); }},
    {"sigmoid", [] { return sigmoid(); }},
    {"slayer", [] { return slayer(); }},
    {"soft_sign", [] { return soft_sign(); }},
    {"squarewave_fourier", [] { return squarewave_fourier(); }},
}};
}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> result;
  result.reserve(kRows.size());
  for (const Row& row : kRows) result.emplace_back(row.name);
  return result;
}

Surrogate by_name(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.make();
  throw ValueError("nn", no_such_name("surrogate", name, names()));
}

}  // namespace surrogate
}  // namespace etrace::nn
