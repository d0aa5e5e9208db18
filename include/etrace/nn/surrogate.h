// Spikes with a surrogate derivative: H(x) = 1 where x ≥ 0, else 0, and dH/dx is taken to be s(x).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "etrace/array.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

using Surrogate = std::function<Array(const Array& x)>;  // s(x)

// s is evaluated on a detached x: it has no derivative of its own.
Array spike(const Array& x, const Surrogate& s);

// N(x; μ, σ) is the density of the normal distribution.
namespace surrogate {

Surrogate arctan(double alpha = 1.0);                            // α/2 / (1 + (πα·x/2)²)
Surrogate boxcar(double half_width = 0.5, double height = 1.0);  // height where |x| ≤ half_width
Surrogate erf(double alpha = 1.0);                               // α/√π · exp(−α²x²)
Surrogate gaussian(double sigma = 0.5, double alpha = 0.5);      // α·N(x; 0, σ)
Surrogate inv_square(double alpha = 100.0);                      // 1/(α|x| + 1)²
Surrogate leaky_relu(double alpha = 0.1, double beta = 1.0);     // α where x < 0, else β
Surrogate log_tailed_relu(double alpha = 0.0);                   // α where x ≤ 0, else 1/max(x, 1)
// scale·[(1 + h)·N(x; 0, σ) − h·N(x; σ, sσ) − h·N(x; −σ, sσ)]
Surrogate multi_gaussian(double h = 0.15, double s = 6.0, double sigma = 0.5, double scale = 0.5);
Surrogate nonzero_sign_log(double alpha = 1.0);                       // 1/(1/α + |x|)
Surrogate piecewise_exp(double alpha = 1.0);                          // α/2 · exp(−α|x|)
Surrogate piecewise_leaky_relu(double c = 0.01, double width = 1.0);  // 1/(2·width) where |x| ≤ width, else c
Surrogate piecewise_quadratic(double alpha = 1.0);                    // max(α − α²|x|, 0)
Surrogate q_pseudo_spike(double alpha = 2.0);                         // (1 + 2|x|/(α + 1))^(−α)
Surrogate relu_grad(double alpha = 0.3, double width = 1.0);          // max(α·width − α|x|, 0)
Surrogate s2nn(double alpha = 4.0, double beta = 1.0);  // α·σ(αx)(1 − σ(αx)) where x < 0, else β/(x + 1)
Surrogate sigmoid(double alpha = 4.0);                  // α·σ(αx)(1 − σ(αx))
Surrogate slayer(double alpha = 1.0);                   // exp(−α|x|)
Surrogate soft_sign(double alpha = 1.0);                // α/2 / (1 + |αx|)²
Surrogate squarewave_fourier(int n = 2, double period = 8.0);  // 4/T · Σ_{i=1…n} cos((2i − 1)·2πx/T)

Surrogate by_name(std::string_view name);  // with the defaults above; ValueError lists the names
std::vector<std::string> names();          // ascending

}  // namespace surrogate
}  // namespace etrace::nn
#pragma GCC visibility pop
