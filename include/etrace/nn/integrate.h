// One step of dx/dt = f(x).
//   euler       x + dt·f(x)
//   rk4         the classical method of fourth order
//   exp_euler   x + dt·φ(dt·J)·f(x)    J = f'(x) by automatic differentiation, φ(z) = (e^z − 1)/z
// Exponential Euler is exact where f is linear in x, for any dt. In a step nothing grows more than e^44-fold
// (float64: e^354), so that step and derivatives are finite: what unstable dynamics do beyond is no number.
#pragma once

#include "etrace/array.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

enum class Method : std::uint8_t { ExpEuler, Euler, RK4 };

// (e^z − 1)/z, 1 at 0; it and its derivatives are accurate everywhere.
Array expm1_ratio(const Array& z);

// dx/dt of every entry, from its own entry of x alone (and whatever f captures).
using Drift = std::function<Array(const Array& x)>;
Array euler(const Drift& f, const Array& x, double dt);
Array rk4(const Drift& f, const Array& x, double dt);
Array exp_euler(const Drift& f, const Array& x, double dt);
Array integrate(Method, const Drift& f, const Array& x, double dt);

// Several variables together. exp_euler takes for each the derivative with respect to itself.
using System = std::function<Arrays(ArraySpan x)>;
Arrays euler(const System& f, const Arrays& x, double dt);
Arrays rk4(const System& f, const Arrays& x, double dt);
Arrays exp_euler(const System& f, const Arrays& x, double dt);
Arrays integrate(Method, const System& f, const Arrays& x, double dt);

}  // namespace etrace::nn
#pragma GCC visibility pop
