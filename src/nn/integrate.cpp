#include "etrace/nn/integrate.h"

#include "etrace/control.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "nn/check.h"

namespace etrace::nn {

namespace {

// Σ_n c_n·z^n by Horner.
Array polynomial(const Array& z, std::initializer_list<double> coefficients) {
  Array sum;
  for (auto c = coefficients.end(); c != coefficients.begin();) {
    --c;
    sum = sum.defined() ? sum * z + *c : full_like(z, *c);
  }
  return sum;
}

bool wide(const Array& z) { return z.dtype() == Dtype::F64; }

Array ratio(const Array& z) {
  const Array small = less_equal(abs(z), wide(z) ? 1e-7 : 1e-4);
  const Array safe = where(small, full_like(z, 1.0), z);
  return where(small, polynomial(z, {1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120}), expm1(safe) / safe);
}

// φ'(z) = (e^z − φ(z))/z, near 0 its series Σ (n + 1)/(n + 2)! z^n. The bound is where the difference has
// lost as much as the eleven terms leave out.
Array ratio_slope(const Array& z, const Array& value) {
  const Array small = less_equal(abs(z), wide(z) ? 0.2 : 1.0);
  const Array safe = where(small, full_like(z, 1.0), z);
  const Array series = polynomial(z, {1.0 / 2, 1.0 / 3, 1.0 / 8, 1.0 / 30, 1.0 / 144, 1.0 / 840, 1.0 / 5760,
                                      1.0 / 45360, 1.0 / 403200, 1.0 / 3991680, 1.0 / 43545600});
  return where(small, series, (exp(safe) - value) / safe);
}

// e^z is at most the root of the largest number, so that its products with derivatives are finite too: an
// infinite derivative is NaN once a cut behind it (of the potential, at a threshold) multiplies it by 0.
Array bounded_growth(const Array& z) {
  switch (z.dtype()) {
    case Dtype::F64:
      return minimum(z, 354.0);
    case Dtype::F16:
      return minimum(z, 5.5);
    default:  // float32, and bfloat16 with the same range
      return minimum(z, 44.0);
  }
}

Arrays moved(const Arrays& x, double factor, const Arrays& slope) {
  Arrays out;
  for (std::size_t i = 0; i < x.size(); ++i) out.push_back(x[i] + factor * slope[i]);
  return out;
}

System one_variable(const Drift& f) {
  return [&f](ArraySpan x) { return Arrays{f(x[0])}; };
}

Arrays slopes(const System& f, const Arrays& x) {
  Arrays d = f(x);
  if (d.size() != x.size())
    wrong_option("an integrator", "the right-hand side gives " + std::to_string(d.size()) +
                                      " derivatives for " + std::to_string(x.size()) + " variables");
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!is_floating(x[i].dtype())) wrong_input("an integrator", x[i], "real numbers");
  return d;
}

}  // namespace

Array expm1_ratio(const Array& z) {
  const Function value = [](ArraySpan x) { return Arrays{ratio(x[0])}; };
  const Function rule = [](ArraySpan x) {
    const Array y = ratio(x[0]);  // its own derivative is only used where |z| is not small
    return Arrays{y, ratio_slope(x[0], y) * x[1]};
  };
  return custom_jvp(value, rule)(Arrays{z})[0];
}

Arrays euler(const System& f, const Arrays& x, double dt) { return moved(x, dt, slopes(f, x)); }

Arrays rk4(const System& f, const Arrays& x, double dt) {
  const Arrays k1 = slopes(f, x);
  const Arrays k2 = slopes(f, moved(x, dt / 2, k1));
  const Arrays k3 = slopes(f, moved(x, dt / 2, k2));
  const Arrays k4 = slopes(f, moved(x, dt, k3));
  Arrays out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Array middle = k2[i] + k3[i];
    out.push_back(x[i] + dt / 6 * (k1[i] + 2.0 * middle + k4[i]));
  }
  return out;
}

Arrays exp_euler(const System& f, const Arrays& x, double dt) {
  Arrays out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    // The entries of x[i] do not see each other, so a tangent of ones gives the diagonal.
    const Function of_one = [&](ArraySpan v) {
      Arrays all = x;
      all[i] = v[0];
      return Arrays{slopes(f, all)[i]};
    };
    const Arrays both = jvp(of_one)(Arrays{x[i], full_like(x[i], 1.0)});
    out.push_back(x[i] + dt * expm1_ratio(bounded_growth(dt * both[1])) * both[0]);
  }
  return out;
}

Arrays integrate(Method method, const System& f, const Arrays& x, double dt) {
  switch (method) {
    case Method::Euler:
      return euler(f, x, dt);
    case Method::RK4:
      return rk4(f, x, dt);
    case Method::ExpEuler:
      break;
  }
  return exp_euler(f, x, dt);
}

Array euler(const Drift& f, const Array& x, double dt) { return euler(one_variable(f), {x}, dt)[0]; }
Array rk4(const Drift& f, const Array& x, double dt) { return rk4(one_variable(f), {x}, dt)[0]; }
Array exp_euler(const Drift& f, const Array& x, double dt) { return exp_euler(one_variable(f), {x}, dt)[0]; }
Array integrate(Method method, const Drift& f, const Array& x, double dt) {
  return integrate(method, one_variable(f), {x}, dt)[0];
}

}  // namespace etrace::nn
