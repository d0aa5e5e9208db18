// Initial values of parameters. One family for every layer: the axes that count as input and output are said,
// never guessed from the rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "etrace/array.h"

#pragma GCC visibility push(default)
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
Initializer ones();
Initializer values(
    const Array&);  // these, broadcast to the parameter's shape (ValueError if they do not fit)
Initializer normal(double scale = 1.0, double mean = 0.0);
Initializer uniform(double low, double high);
// Cut at ±cut·scale around the mean; `scale` is that of the uncut normal.
Initializer truncated_normal(double scale = 1.0, double mean = 0.0, double cut = 2.0);
Initializer log_normal(double mean = 0.0, double scale = 1.0);  // of the logarithm
Initializer exponential(double mean = 1.0);
Initializer identity(double scale = 1.0);  // last two axes
// offset + sign·log u, u uniform in (1, steps): the biases of gates that keep (sign 1) or renew (−1) what
// units hold, so that they forget within 1 to `steps` steps. ValueError for less than one step.
Initializer chrono(double steps, double sign = 1.0, double offset = 0.0);

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
double leaky_relu_scale(double slope);  // 2/(1 + slope²): what takes the place of Kaiming's 2

// The same laws as the reference system's second family has them: plain normal values, and a parameter of
// three axes or more is read as [out, in, space…]. `scale` takes the place of the 2 or the 1.
namespace family_b {
Initializer kaiming_normal(double scale = 2.0);
Initializer kaiming_uniform(double scale = 2.0);
Initializer xavier_normal(double scale = 1.0);
Initializer xavier_uniform(double scale = 1.0);
Initializer lecun_normal(double scale = 1.0);
Initializer lecun_uniform(double scale = 1.0);
}  // namespace family_b

// Orthonormal rows or columns (whichever are fewer) of the matrix [product of the other axes, this axis],
// uniformly distributed, times the scale. ValueError for less than two axes.
Initializer orthogonal(double scale = 1.0, int axis = -1);
// A kernel [space…, in, out] that is orthogonal at the centre and zero elsewhere. ValueError for less than
// three axes, or more inputs than outputs.
Initializer delta_orthogonal(double scale = 1.0);

Initializer scaled(Initializer, double factor);
Initializer clipped(Initializer, double low, double high);
Initializer magnitude(Initializer);  // |values|: weights of one sign
// The first `rows` rows from one, the others from the other, each with a fan of its own.
Initializer stacked_rows(std::int64_t rows, Initializer above, Initializer below);

Initializer by_name(std::string_view name);  // with the defaults above; ValueError lists the names
std::vector<std::string> names();            // ascending

}  // namespace init
}  // namespace etrace::nn
#pragma GCC visibility pop
