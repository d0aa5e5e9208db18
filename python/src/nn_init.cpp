// et.nn.init: initial values of parameters.
#include "calls.h"
#include "convert.h"
#include "fields.h"
#include "nn_objects.h"

namespace etrace::python {

std::string MadeBy::text() const {
  std::string out = function + "(";
  for (std::size_t i = 0; i < arguments.size(); ++i)
    out += (i == 0 ? "" : ", ") + nb::cast<std::string>(nb::repr(arguments[i]));
  return out + ")";
}
nb::tuple MadeBy::reduced(const char* module) const {
  return nb::make_tuple(nb::module_::import_("etrace.nn._made").attr("again"),
                        nb::make_tuple(module, function, arguments));
}

namespace {

using I = InitializerObject;

template <class... Args>
I made(const char* name, nn::Initializer f, Args&&... args) {
  return {std::move(f), {name, nb::make_tuple(std::forward<Args>(args)...)}};
}

nn::Initializer initializer(const char* who, nb::handle h) {
  nn::Initializer f = Reader<nn::Initializer>::read({who, "initializer"}, h);
  if (!f) throw TypeError(who, "initializer is missing");
  return f;
}

// One of three laws with one number.
using ByDistribution = nn::Initializer (*)(nn::init::Distribution);
void law(nb::module_& m, const char* name, ByDistribution f, const char* doc) {
  m.def(
      name,
      [name, f](nb::object distribution) {
        return made(name, f(Reader<nn::init::Distribution>::read({name, "distribution"}, distribution)),
                    distribution);
      },
      "distribution"_a = "truncated_normal", doc);
}
using Plain = nn::Initializer (*)();
void plain(nb::module_& m, const char* name, Plain f, const char* doc) {
  m.def(
      name, [name, f] { return made(name, f()); }, doc);
}
using Scaled = nn::Initializer (*)(double);
void scaled(nb::module_& m, const char* name, Scaled f, const char* argument, double initial,
            const char* doc) {
  m.def(
      name, [name, f](double v) { return made(name, f(v), v); }, nb::arg(argument) = initial, doc);
}

Array drawn(const I& self, ArrayLike key, Given<Shape> shape, Given<Dtype> dtype) {
  return self.function(key, shape, dtype.get_or(Dtype::F32));
}

}  // namespace

void bind_nn_init(nb::module_& core) {
  nb::module_ m = core.def_submodule("_init",
                                     "Initial values of parameters. An option such as weight_init takes one "
                                     "of these, its name, a number, an array, "
                                     "or a function (key, shape, dtype).");
  nb::class_<I>(m, "Initializer", "(key, shape, dtype) -> values.")
      .def("__call__", drawn, "key"_a, "shape"_a, "dtype"_a = nb::none())
      .def("__repr__", [](const I& i) { return "init." + i.made.text(); })
      .def("__reduce__", [](const I& i) { return i.made.reduced("etrace.nn.init"); });

  m.def(
      "constant", [](double v) { return made("constant", nn::init::constant(v), v); }, "value"_a,
      "The same everywhere.");
  plain(m, "zeros", nn::init::zeros, "0 everywhere.");
  plain(m, "ones", nn::init::ones, "1 everywhere.");
  m.def(
      "values", [](nb::object v) { return made("values", nn::init::values(to_owned(v)), v); }, "values"_a,
      "These, broadcast to the parameter's shape.");
  m.def(
      "normal", [](double s, double mean) { return made("normal", nn::init::normal(s, mean), s, mean); },
      "scale"_a = 1.0, "mean"_a = 0.0, "Normal with this standard deviation.");
  m.def(
      "uniform",
      [](double low, double high) { return made("uniform", nn::init::uniform(low, high), low, high); },
      "low"_a, "high"_a, "Uniform in [low, high).");
  m.def(
      "truncated_normal",
      [](double s, double mean, double cut) {
        return made("truncated_normal", nn::init::truncated_normal(s, mean, cut), s, mean, cut);
      },
      "scale"_a = 1.0, "mean"_a = 0.0, "cut"_a = 2.0,
      "Cut at ±cut·scale around the mean; scale is that of the uncut normal.");
  m.def(
      "log_normal",
      [](double mean, double s) { return made("log_normal", nn::init::log_normal(mean, s), mean, s); },
      "mean"_a = 0.0, "scale"_a = 1.0, "Mean and scale are those of the logarithm.");
  scaled(m, "exponential", nn::init::exponential, "mean", 1.0, "Exponential with this mean.");
  scaled(m, "identity", nn::init::identity, "scale", 1.0,
         "The identity in the last two axes, times the scale.");
  m.def(
      "chrono",
      [](double steps, double sign, double offset) {
        return made("chrono", nn::init::chrono(steps, sign, offset), steps, sign, offset);
      },
      "steps"_a, "sign"_a = 1.0, "offset"_a = 0.0,
      "Biases of gates that keep for up to so many steps: sign·log u + offset, u uniform in (1, steps).");
  m.def(
      "variance_scaling",
      [](double scale, nb::object fan, nb::object distribution, int in_axis, int out_axis) {
        const nn::init::VarianceOptions o{
            scale, Reader<nn::init::Fan>::read({"variance_scaling", "fan"}, fan),
            Reader<nn::init::Distribution>::read({"variance_scaling", "distribution"}, distribution), in_axis,
            out_axis};
        return made("variance_scaling", nn::init::variance_scaling(o), scale, fan, distribution, in_axis,
                    out_axis);
      },
      "scale"_a = 1.0, "fan"_a = "in", "distribution"_a = "truncated_normal", "in_axis"_a = -2,
      "out_axis"_a = -1,
      "Variance scale/fan; fan is 'in', 'out' or 'average'. The other axes multiply both fans.");
  law(m, "kaiming_normal", nn::init::kaiming_normal, "Variance 2/fan_in.");
  plain(m, "kaiming_uniform", nn::init::kaiming_uniform, "Uniform with variance 2/fan_in.");
  law(m, "xavier_normal", nn::init::xavier_normal, "Variance 1/mean of both fans.");
  plain(m, "xavier_uniform", nn::init::xavier_uniform, "Uniform with variance 1/mean of both fans.");
  law(m, "lecun_normal", nn::init::lecun_normal, "Variance 1/fan_in.");
  plain(m, "lecun_uniform", nn::init::lecun_uniform, "Uniform with variance 1/fan_in.");
  m.def(
      "orthogonal",
      [](double s, int axis) { return made("orthogonal", nn::init::orthogonal(s, axis), s, axis); },
      "scale"_a = 1.0, "axis"_a = -1, "Orthonormal rows or columns, whichever are fewer, times the scale.");
  scaled(m, "delta_orthogonal", nn::init::delta_orthogonal, "scale", 1.0,
         "A kernel [space…, in, out] that is orthogonal at the centre and zero elsewhere.");
  m.def(
      "scaled",
      [](nb::object i, double f) {
        return made("scaled", nn::init::scaled(initializer("scaled", i), f), i, f);
      },
      "initializer"_a, "factor"_a, "What another one draws, times a factor.");
  m.def(
      "clipped",
      [](nb::object i, double low, double high) {
        return made("clipped", nn::init::clipped(initializer("clipped", i), low, high), i, low, high);
      },
      "initializer"_a, "low"_a, "high"_a, "What another one draws, cut to [low, high].");
  m.def(
      "magnitude",
      [](nb::object i) { return made("magnitude", nn::init::magnitude(initializer("magnitude", i)), i); },
      "initializer"_a, "|what another one draws|: weights of one sign.");
  m.def(
      "stacked_rows",
      [](std::int64_t rows, nb::object above, nb::object below) {
        return made("stacked_rows",
                    nn::init::stacked_rows(rows, initializer("stacked_rows", above),
                                           initializer("stacked_rows", below)),
                    rows, above, below);
      },
      "rows"_a, "above"_a, "below"_a,
      "The first rows from one initialiser, the others from another, each with a fan of its own.");
  m.def("leaky_relu_scale", nn::init::leaky_relu_scale, "slope"_a,
        "2/(1 + slope²): takes the place of Kaiming's 2.");
  m.def(
      "by_name", [](const std::string& name) { return made("by_name", nn::init::by_name(name), name); },
      "name"_a, "An initialiser with its defaults.");
  m.def("names", nn::init::names, "All names that by_name knows.");

  nb::module_ b = m.def_submodule(
      "family_b",
      "The laws as braintools has them: plain normal values, and three axes or more are [out, in, space…].");
  namespace fb = nn::init::family_b;
  const auto second = [&](const char* name, Scaled f, double initial, const char* doc) {
    b.def(
        name, [name, f](double v) { return made((std::string("family_b.") + name).c_str(), f(v), v); },
        "scale"_a = initial, doc);
  };
  second("kaiming_normal", fb::kaiming_normal, 2.0, "Normal with variance scale/fan_in.");
  second("kaiming_uniform", fb::kaiming_uniform, 2.0, "Uniform with variance scale/fan_in.");
  second("xavier_normal", fb::xavier_normal, 1.0, "Normal with variance scale/mean of both fans.");
  second("xavier_uniform", fb::xavier_uniform, 1.0, "Uniform with variance scale/mean of both fans.");
  second("lecun_normal", fb::lecun_normal, 1.0, "Normal with variance scale/fan_in.");
  second("lecun_uniform", fb::lecun_uniform, 1.0, "Uniform with variance scale/fan_in.");
}

}  // namespace etrace::python
