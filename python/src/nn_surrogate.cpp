// et.nn.surrogate: derivatives of spikes.
#include "calls.h"
#include "convert.h"
#include "fields.h"
#include "nn_objects.h"

namespace etrace::python {

namespace {

using S = SurrogateObject;
namespace sg = nn::surrogate;

template <class... Args>
S made(const char* name, nn::Surrogate f, Args&&... args) {
  return {std::move(f), {name, nb::make_tuple(std::forward<Args>(args)...)}};
}
using One = nn::Surrogate (*)(double);
using Two = nn::Surrogate (*)(double, double);
void one(nb::module_& m, const char* name, One f, const char* a, double first, const char* doc) {
  m.def(
      name, [name, f](double v) { return made(name, f(v), v); }, nb::arg(a) = first, doc);
}
void two(nb::module_& m, const char* name, Two f, const char* a, double first, const char* b, double second,
         const char* doc) {
  m.def(
      name, [name, f](double v, double w) { return made(name, f(v, w), v, w); }, nb::arg(a) = first,
      nb::arg(b) = second, doc);
}

}  // namespace

void bind_nn_surrogate(nb::module_& core) {
  nb::module_ m = core.def_submodule(
      "_surrogate",
      "Spikes H(x) = 1 where x ≥ 0, else 0, whose derivative is taken to be s(x). An option `surrogate` "
      "takes one of "
      "these, its name, or a function of one array. N(x; μ, σ) is the density of the normal distribution.");
  nb::class_<S>(m, "Surrogate", "x -> s(x), the derivative of a spike.")
      .def(
          "__call__",
          [](const S& s, ArrayLike x) {
            const Array a = x;
            const LineScope line(a);
            return s.function(a);
          },
          "x"_a)
      .def("__repr__", [](const S& s) { return "surrogate." + s.made.text(); })
      .def("__reduce__", [](const S& s) { return s.made.reduced("etrace.nn.surrogate"); });

  one(m, "arctan", sg::arctan, "alpha", 1.0, "α/2 / (1 + (πα·x/2)²)");
  two(m, "boxcar", sg::boxcar, "half_width", 0.5, "height", 1.0, "height where |x| ≤ half_width");
  one(m, "erf", sg::erf, "alpha", 1.0, "α/√π · exp(−α²x²)");
  two(m, "gaussian", sg::gaussian, "sigma", 0.5, "alpha", 0.5, "α·N(x; 0, σ)");
  one(m, "inv_square", sg::inv_square, "alpha", 100.0, "1/(α|x| + 1)²");
  two(m, "leaky_relu", sg::leaky_relu, "alpha", 0.1, "beta", 1.0, "α where x < 0, else β");
  one(m, "log_tailed_relu", sg::log_tailed_relu, "alpha", 0.0, "α where x ≤ 0, else 1/max(x, 1)");
  m.def(
      "multi_gaussian",
      [](double h, double s, double sigma, double scale) {
        return made("multi_gaussian", sg::multi_gaussian(h, s, sigma, scale), h, s, sigma, scale);
      },
      "h"_a = 0.15, "s"_a = 6.0, "sigma"_a = 0.5, "scale"_a = 0.5,
      "scale·[(1 + h)·N(x; 0, σ) − h·N(x; σ, sσ) − h·N(x; −σ, sσ)]");
  one(m, "nonzero_sign_log", sg::nonzero_sign_log, "alpha", 1.0, "1/(1/α + |x|)");
  one(m, "piecewise_exp", sg::piecewise_exp, "alpha", 1.0, "α/2 · exp(−α|x|)");
  two(m, "piecewise_leaky_relu", sg::piecewise_leaky_relu, "c", 0.01, "width", 1.0,
      "1/(2·width) where |x| ≤ width, else c");
  one(m, "piecewise_quadratic", sg::piecewise_quadratic, "alpha", 1.0, "max(α − α²|x|, 0)");
  one(m, "q_pseudo_spike", sg::q_pseudo_spike, "alpha", 2.0, "(1 + 2|x|/(α + 1))^(−α)");
  two(m, "relu_grad", sg::relu_grad, "alpha", 0.3, "width", 1.0, "max(α·width − α|x|, 0)");
  two(m, "s2nn", sg::s2nn, "alpha", 4.0, "beta", 1.0, "α·σ(αx)(1 − σ(αx)) where x < 0, else β/(x + 1)");
  one(m, "sigmoid", sg::sigmoid, "alpha", 4.0, "α·σ(αx)(1 − σ(αx))");
  one(m, "slayer", sg::slayer, "alpha", 1.0, "exp(−α|x|)");
  one(m, "soft_sign", sg::soft_sign, "alpha", 1.0, "α/2 / (1 + |αx|)²");
  m.def(
      "squarewave_fourier",
      [](int n, double period) {
        return made("squarewave_fourier", sg::squarewave_fourier(n, period), n, period);
      },
      "n"_a = 2, "period"_a = 8.0, "4/T · Σ_{i=1…n} cos((2i − 1)·2πx/T)");
  m.def(
      "by_name", [](const std::string& name) { return made("by_name", sg::by_name(name), name); }, "name"_a,
      "A surrogate with its defaults.");
  m.def("names", sg::names, "All names that by_name knows.");

  core.def(
      "_spike",
      [](ArrayLike x, nb::handle s) {
        const Array a = x;
        const LineScope line(a);
        return nn::spike(a, Reader<nn::Surrogate>::read({"spike", "surrogate"}, s));
      },
      "x"_a, "surrogate"_a = "relu_grad",
      "H(x) = 1 where x ≥ 0, else 0, with the derivative s(x) of a surrogate.");
}

}  // namespace etrace::python
