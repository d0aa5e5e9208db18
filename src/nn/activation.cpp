#include "etrace/nn/activation.h"

#include <array>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"

namespace etrace::nn {

namespace {
struct Row {
  std::string_view name;
  Array (*function)(const Array&);
};
constexpr std::array<Row, 11> kRows{{
    {"elu", [](const Array& x) { return elu(x); }},
    {"gelu", gelu},
    {"hard_sigmoid", hard_sigmoid},
    {"identity", [](const Array& x) { return x; }},
    {"leaky_relu", [](const Array& x) { return leaky_relu(x); }},
    {"relu", relu},
    {"sigmoid", logistic},
    {"silu", silu},
    {"softmax", [](const Array& x) { return softmax(x); }},
    {"softplus", softplus},
    {"tanh", tanh},
}};
}  // namespace

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

Activation activation(std::string_view name) {
  std::string known;
  for (const Row& row : kRows) {
    if (row.name == name) return row.function;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw ValueError("nn", "there is no activation '" + std::string(name) + "'; expected one of " + known);
}

}  // namespace etrace::nn
