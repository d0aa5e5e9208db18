#include "etrace/nn/activation.h"

#include <array>
#include <cmath>
#include <numbers>

#include "base/nearest.h"
#include "etrace/error.h"
#include "nn/check.h"

namespace etrace::nn {

Array celu(const Array& x, double alpha) { return elu(x / alpha, 1.0) * alpha; }

Array gelu_exact(const Array& x) {
  const Array share = 0.5 * (1.0 + erf(x * (1.0 / std::numbers::sqrt2)));
  return x * share;
}

Array glu(const Array& x, int axis) {
  const std::int64_t n = x.rank() == 0 ? 0 : x.dim(axis);
  if (n % 2 != 0 || n == 0)
    wrong_input("glu along axis " + std::to_string(axis), x, "an even number of features there");
  const Array value = slice_axis(x, axis, 0, n / 2), gate = slice_axis(x, axis, n / 2, n);
  return value * logistic(gate);
}

Array hard_shrink(const Array& x, double bound) { return where(abs(x) > bound, x, full_like(x, 0.0)); }
Array hard_silu(const Array& x) { return x * hard_sigmoid(x); }
Array hard_tanh(const Array& x, double low, double high) {
  const Array below = less_equal(x, low), above = greater(x, high);
  return where(below, full_like(x, low), where(above, full_like(x, high), x));
}
Array log_sigmoid(const Array& x) { return -softplus(-x); }
Array mish(const Array& x) { return x * tanh(softplus(x)); }
Array prelu(const Array& x, const Array& slope) { return where(greater_equal(x, 0), x, slope * x); }
Array relu6(const Array& x) { return hard_tanh(x, 0.0, 6.0); }
Array selu(const Array& x) { return 1.0507009873554804934193 * elu(x, 1.6732632423543772848170); }

Array soft_shrink(const Array& x, double bound) {
  const Array less_far = where(x > 0, x - bound, x + bound);
  return where(abs(x) > bound, less_far, full_like(x, 0.0));
}

Array soft_sign(const Array& x) { return x / (1.0 + abs(x)); }
Array softmin(const Array& x, int axis) { return softmax(-x, axis); }

Array sparse_plus(const Array& x) {
  const Array curve = 0.25 * square(x + 1.0);
  return where(less_equal(x, -1.0), full_like(x, 0.0), where(greater_equal(x, 1.0), x, curve));
}

Array sparse_sigmoid(const Array& x) { return 0.5 * (hard_tanh(x) + 1.0); }
Array squareplus(const Array& x, double b) { return 0.5 * (x + sqrt(square(x) + b)); }

Array standardize(const Array& x, int axis, double epsilon) {
  const Array centred = x - mean(x, {axis}, true);
  return centred * rsqrt(mean(square(centred), {axis}, true) + epsilon);
}

Array tanh_shrink(const Array& x) { return x - tanh(x); }
Array threshold(const Array& x, double bound, double value) {
  return where(x > bound, x, full_like(x, value));
}

namespace {
struct ActivationRow {
  std::string_view name;
  Array (*function)(const Array&);
};
constexpr std::array<ActivationRow, 28> kActivationRows{{
    {"celu", [](const Array& x) { return celu(x); }},
    {"elu", [](const Array& x) { return elu(x); }},
    {"gelu", gelu},
    {"gelu_exact", gelu_exact},
    {"hard_shrink", [](const Array& x) { return hard_shrink(x); }},
    {"hard_sigmoid", hard_sigmoid},
    {"hard_silu", hard_silu},
    {"hard_tanh", [](const Array& x) { return hard_tanh(x); }},
    {"identity", [](const Array& x) { return x; }},
    {"leaky_relu", [](const Array& x) { return leaky_relu(x); }},
    {"log_sigmoid", log_sigmoid},
    {"log_softmax", [](const Array& x) { return log_softmax(x); }},
    {"mish", mish},
    {"relu", relu},
    {"relu6", relu6},
    {"selu", selu},
    {"sigmoid", logistic},
    {"silu", silu},
    {"soft_shrink", [](const Array& x) { return soft_shrink(x); }},
    {"soft_sign", soft_sign},
    {"softmax", [](const Array& x) { return softmax(x); }},
    {"softmin", [](const Array& x) { return softmin(x); }},
    {"softplus", softplus},
    {"sparse_plus", sparse_plus},
    {"sparse_sigmoid", sparse_sigmoid},
    {"squareplus", [](const Array& x) { return squareplus(x); }},
    {"tanh", tanh},
    {"tanh_shrink", tanh_shrink},
}};
}  // namespace

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  names.reserve(kActivationRows.size());
  for (const ActivationRow& row : kActivationRows) names.emplace_back(row.name);
  return names;
}

Activation activation(std::string_view name) {
  for (const ActivationRow& row : kActivationRows)
    if (row.name == name) return row.function;
  throw ValueError("nn", no_such_name("activation", name, activation_names()));
}

// Modules ---------------------------------------------------------------------------------------------------
Identity::Identity() : DegreeOne([](const Array& x) { return x; }) {}
CELU::CELU(double alpha) : Lambda([=](const Array& x) { return celu(x, alpha); }) {}
ELU::ELU(double alpha) : Lambda([=](const Array& x) { return elu(x, alpha); }) {}
GELU::GELU(bool approximate) : Lambda(approximate ? gelu : gelu_exact) {}
GLU::GLU(int axis) : Lambda([=](const Array& x) { return glu(x, axis); }) {}
HardShrink::HardShrink(double bound) : Lambda([=](const Array& x) { return hard_shrink(x, bound); }) {}
HardSigmoid::HardSigmoid() : Lambda(hard_sigmoid) {}
HardSiLU::HardSiLU() : Lambda(hard_silu) {}
HardTanh::HardTanh(double low, double high)
    : Lambda([=](const Array& x) { return hard_tanh(x, low, high); }) {}
LeakyReLU::LeakyReLU(double slope) : DegreeOne([=](const Array& x) { return leaky_relu(x, slope); }) {}
LogSigmoid::LogSigmoid() : Lambda(log_sigmoid) {}
LogSoftmax::LogSoftmax(int axis) : Lambda([=](const Array& x) { return log_softmax(x, axis); }) {}
Mish::Mish() : Lambda(mish) {}
ReLU::ReLU() : DegreeOne(relu) {}
ReLU6::ReLU6() : Lambda(relu6) {}
SELU::SELU() : Lambda(selu) {}
Sigmoid::Sigmoid() : Lambda(logistic) {}
SiLU::SiLU() : Lambda(silu) {}
Softmax::Softmax(int axis) : Lambda([=](const Array& x) { return softmax(x, axis); }) {}
Softmin::Softmin(int axis) : Lambda([=](const Array& x) { return softmin(x, axis); }) {}
Softplus::Softplus() : Lambda(softplus) {}
SoftShrink::SoftShrink(double bound) : Lambda([=](const Array& x) { return soft_shrink(x, bound); }) {}
SoftSign::SoftSign() : Lambda(soft_sign) {}
Tanh::Tanh() : Lambda(tanh) {}
TanhShrink::TanhShrink() : Lambda(tanh_shrink) {}
Threshold::Threshold(double bound, double value)
    : Lambda([=](const Array& x) { return threshold(x, bound, value); }) {}

}  // namespace etrace::nn
