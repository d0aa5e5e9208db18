// Initial values of parameters. One family for every layer: the axes that count as input and output are said,
// never guessed from the rank.
#pragma once

#include <cstdint>
#include <functional>

#include "etrace/array.h"

namespace etrace::nn {

// (key, shape, element type) -> values. Empty: the layer's default, or no such parameter where the layer says
// so.
using Initializer = std::function<Array(const Array& key, const Shape&, Dtype)>;

// The key for parameters of the module that is being made: a function of the seed and of the module's path.
// So layers of one model differ, and a layer's values do not depend on what else the model holds.
Array layer_key(std::uint64_t seed);

namespace init {

Initializer constant(double value);
Initializer zeros();
Initializer normal(double scale = 1.0, double mean = 0.0);
Initializer uniform(double low, double high);
Initializer truncated_normal(
    double scale = 1.0);  // cut at ±2 scale before scaling; `scale` is that of the uncut normal
Initializer identity(double scale = 1.0);  // last two axes

enum class Fan : std::uint8_t { In, Out, Average };
enum class Distribution : std::uint8_t { Normal, TruncatedNormal, Uniform };
struct VarianceOptions {
  double scale = 1.0;
  Fan fan = Fan::In;
  Distribution distribution = Distribution::TruncatedNormal;
  // The other axes multiply both fans (receptive field). A vector counts its length on both sides.
  int in_axis = -2, out_axis = -1;
};
// Variance scale/fan, whatever the distribution.
Initializer variance_scaling(const VarianceOptions&);

Initializer kaiming_normal(Distribution = Distribution::TruncatedNormal);  // variance 2/fan_in
Initializer kaiming_uniform();
Initializer xavier_normal(Distribution = Distribution::TruncatedNormal);  // variance 1/mean of both fans
Initializer xavier_uniform();
Initializer lecun_normal(Distribution = Distribution::TruncatedNormal);  // variance 1/fan_in
Initializer lecun_uniform();

// Orthonormal rows or columns (whichever are fewer) of the matrix [product of the other axes, last axis],
// uniformly distributed. ValueError for less than two axes.
Initializer orthogonal(double scale = 1.0);

}  // namespace init
}  // namespace etrace::nn
