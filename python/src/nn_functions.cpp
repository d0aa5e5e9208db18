// Functions of et.nn: activations, integration of dx/dt = f(x), input of neurons, patterns of connections.
#include "calls.h"
#include "convert.h"
#include "fields.h"
#include "gil.h"
#include "nn_objects.h"
#include "operands.h"

namespace etrace::python {

nn::NeuronInput neuron_input(nb::handle);

namespace {

// --- activations
// ---------------------------------------------------------------------------------------------

void unary(nb::module_& m, const char* name, Array (*f)(const Array&), const char* doc) {
  m.def(
      name,
      [f](ArrayLike x) {
        const Array a = x;
        const LineScope line(a);
        return f(a);
      },
      "x"_a, doc);
}
void with_number(nb::module_& m, const char* name, Array (*f)(const Array&, double), const char* arg,
                 double first, const char* doc) {
  m.def(
      name,
      [f](ArrayLike x, double v) {
        const Array a = x;
        const LineScope line(a);
        return f(a, v);
      },
      "x"_a, nb::arg(arg) = first, doc);
}
void with_axis(nb::module_& m, const char* name, Array (*f)(const Array&, int), const char* doc) {
  m.def(
      name,
      [f](ArrayLike x, int axis) {
        const Array a = x;
        const LineScope line(a);
        return f(a, axis);
      },
      "x"_a, "axis"_a = -1, doc);
}

void bind_activations(nb::module_& m) {
  with_number(m, "celu", nn::celu, "alpha", 1.0, "x where x > 0, else α·(e^(x/α) − 1).");
  unary(m, "gelu_exact", nn::gelu_exact, "x·Φ(x); gelu is its approximation by tanh.");
  with_axis(m, "glu", nn::glu, "First half · σ(second half), along an axis.");
  with_number(m, "hard_shrink", nn::hard_shrink, "bound", 0.5, "x where |x| > bound, else 0.");
  unary(m, "hard_silu", nn::hard_silu, "x·hard_sigmoid(x).");
  m.def(
      "hard_tanh", [](ArrayLike x, double low, double high) { return nn::hard_tanh(x, low, high); }, "x"_a,
      "low"_a = -1.0, "high"_a = 1.0, "x cut to [low, high].");
  unary(m, "log_sigmoid", nn::log_sigmoid, "ln σ(x), without overflow.");
  unary(m, "mish", nn::mish, "x·tanh(softplus(x)).");
  m.def(
      "prelu", [](ArrayLike x, ArrayLike slope) { return nn::prelu(x, slope); }, "x"_a, "slope"_a,
      "x where x ≥ 0, else slope·x.");
  unary(m, "relu6", nn::relu6, "min(max(x, 0), 6).");
  unary(m, "selu", nn::selu, "λ·elu(x, α): keeps mean 0 and variance 1.");
  with_number(m, "soft_shrink", nn::soft_shrink, "bound", 0.5, "x ∓ bound where |x| > bound, else 0.");
  unary(m, "soft_sign", nn::soft_sign, "x/(1 + |x|).");
  with_axis(m, "softmin", nn::softmin, "softmax(−x).");
  unary(m, "sparse_plus", nn::sparse_plus, "0, (x + 1)²/4, x below, in and above [−1, 1].");
  unary(m, "sparse_sigmoid", nn::sparse_sigmoid, "(x + 1)/2 cut to [0, 1].");
  with_number(m, "squareplus", nn::squareplus, "b", 4.0, "(x + √(x² + b))/2.");
  m.def(
      "standardize", [](ArrayLike x, int axis, double eps) { return nn::standardize(x, axis, eps); }, "x"_a,
      "axis"_a = -1, "epsilon"_a = 1e-5, "(x − mean)/√(variance + ε) along an axis.");
  unary(m, "tanh_shrink", nn::tanh_shrink, "x − tanh(x).");
  m.def(
      "threshold", [](ArrayLike x, double bound, double value) { return nn::threshold(x, bound, value); },
      "x"_a, "bound"_a, "value"_a, "x where x > bound, else value.");
  m.def(
      "activate",
      [](const std::string& name, ArrayLike x) {
        const Array a = x;
        const LineScope line(a);
        return nn::activation(name)(a);
      },
      "name"_a, "x"_a, "An activation by its name.");
  m.def("activation_names", nn::activation_names, "All names of activations.");
  unary(m, "expm1_ratio", nn::expm1_ratio, "(e^z − 1)/z, 1 at 0; accurate everywhere, with its derivatives.");
  with_number(m, "weight_standardization", nn::weight_standardization, "epsilon", 1e-4,
              "(w − μ)/√max(v·n, ε): every output gets weights of mean 0 and sum of squares 1.");
  m.def(
      "join_input", [](ArrayLike x, ArrayLike h) { return nn::join_input(x, h); }, "x"_a, "h"_a,
      "[x, h] on the last axis, x first; both with or both without a batch axis.");
}

// --- integration
// ---------------------------------------------------------------------------------------------

nb::object integrated(nn::Method method, const nb::object& f, nb::handle x, double dt) {
  if (PyCallable_Check(f.ptr()) == 0) throw TypeError("integrate", "f is a function, not " + describe(f));
  if (nb::isinstance<nb::tuple>(x) || nb::isinstance<nb::list>(x)) {
    const Arrays start = from_object<Arrays>(x);
    const LineScope line{ArraySpan(start)};
    const nn::System system = [&f](ArraySpan now) { return from_object<Arrays>(f(*to_list(now))); };
    return nb::tuple(to_list(nn::integrate(method, system, start, dt)));
  }
  const Array start = from_object<Array>(x);
  const LineScope line(start);
  const nn::Drift drift = [&f](const Array& now) { return returned(f(now), "integrate"); };
  return nb::cast(nn::integrate(method, drift, start, dt));
}

void bind_integration(nb::module_& m) {
  constexpr const char* kDoc =
      "One step of dx/dt = f(x): f takes x and gives its derivative, each entry from its own entry of x. For "
      "several\n"
      "variables together x is a tuple, and f takes as many arguments and gives a tuple.";
  m.def(
      "euler", [](nb::object f, nb::object x, double dt) { return integrated(nn::Method::Euler, f, x, dt); },
      "f"_a, "x"_a, "dt"_a, (std::string("x + dt·f(x).\n\n") + kDoc).c_str());
  m.def(
      "rk4", [](nb::object f, nb::object x, double dt) { return integrated(nn::Method::RK4, f, x, dt); },
      "f"_a, "x"_a, "dt"_a, (std::string("The classical method of fourth order.\n\n") + kDoc).c_str());
  m.def(
      "exp_euler",
      [](nb::object f, nb::object x, double dt) { return integrated(nn::Method::ExpEuler, f, x, dt); }, "f"_a,
      "x"_a, "dt"_a,
      (std::string("x + dt·φ(dt·J)·f(x), J = f'(x), φ(z) = (e^z − 1)/z: exact where f is linear in x.\n\n") +
       kDoc)
          .c_str());
  m.def(
      "integrate",
      [](nb::object method, nb::object f, nb::object x, double dt) {
        return integrated(Reader<nn::Method>::read({"integrate", "method"}, method), f, x, dt);
      },
      "method"_a, "f"_a, "x"_a, "dt"_a,
      (std::string("By 'exp_euler', 'euler' or 'rk4'.\n\n") + kDoc).c_str());
}

// --- constants and inputs of neurons
// -------------------------------------------------------------------------

void bind_neuron_input(nb::module_& m) {
  nb::class_<nn::Learned>(m, "Learned", "A constant that is a parameter, with one entry per neuron.")
      .def_prop_ro("start", [](const nn::Learned& l) { return l.start; })
      .def("__repr__", [](const nn::Learned& l) { return "learned(" + to_string(l.start) + ")"; })
      .def("__reduce__", [](const nn::Learned& l) {
        return MadeBy{"learned", nb::make_tuple(l.start)}.reduced("etrace.nn");
      });
  m.def(
      "learned",
      [](nb::handle start) -> nn::Learned {
        const ConstantValue c = read_constant({"learned", "start"}, start);
        return {c.value};
      },
      "start"_a, "A constant of a neuron or synapse that is learned: tau=et.nn.learned(5 * et.units.ms).");

  using N = nn::NeuronInput;
  nb::class_<N>(
      m, "NeuronInput",
      "What a neuron gets in one step: `current`, constant during the step; `current_of(V)`, added to it\n"
      "(conductances, gap junctions); `delta`, added to V after the step. Inputs of several sources add up.")
      .def(
          "__init__",
          [](N* self, ArrayLike current, nb::object of, ArrayLike delta) {
            new (self) N;
            if (!current.is_none()) self->current = current;
            if (!delta.is_none()) self->delta = delta;
            if (of.is_none()) return;
            if (PyCallable_Check(of.ptr()) == 0)
              throw TypeError("NeuronInput", "current_of is a function of V, not " + describe(of));
            self->current_of = [f = KeptFunction(of, KeptFunction::Hold::Strong)](const Array& V) {
              const Taken gil;
              return returned(f.get("NeuronInput")(V), "current_of");
            };
          },
          "current"_a = nb::none(), "current_of"_a = nb::none(), "delta"_a = nb::none())
      .def_prop_ro(
          "current",
          [](const N& n) -> nb::object { return n.current.defined() ? nb::cast(n.current) : nb::none(); })
      .def_prop_ro(
          "delta",
          [](const N& n) -> nb::object { return n.delta.defined() ? nb::cast(n.delta) : nb::none(); })
      .def(
          "__add__", [](const N& a, nb::handle b) { return a + neuron_input(b); }, "other"_a)
      .def(
          "__radd__", [](const N& a, nb::handle b) { return neuron_input(b) + a; }, "other"_a);

  using C = nn::SynapticCurrent;
  using O = CurrentObject;
  nb::class_<O>(
      m, "SynapticCurrent",
      "From a conductance g to the current into a neuron: delta, cuba, coba, mg_block. Conductances in mS "
      "and\n"
      "voltages in mV make currents in µA; `scale` says how much of the neuron's unit one of these is.")
      .def_static(
          "delta",
          [](double scale) {
            return O{C::delta(scale), {"SynapticCurrent.delta", nb::make_tuple(scale)}};
          },
          "scale"_a = 1.0, "V jumps by g·scale.")
      .def_static(
          "cuba",
          [](double scale) {
            return O{C::cuba(scale), {"SynapticCurrent.cuba", nb::make_tuple(scale)}};
          },
          "scale"_a = 1.0, "I = g·scale: does not depend on V.")
      .def_static(
          "coba",
          [](nb::object E, double scale) {
            return O{C::coba(Reader<nn::Voltage>::read({"coba", "E"}, E), scale),
                     {"SynapticCurrent.coba", nb::make_tuple(E, scale)}};
          },
          "E"_a, "scale"_a = 1.0, "I = g·(E − V).")
      .def_static(
          "mg_block",
          [](nb::object E, double cMg, double alpha, double beta, nb::object V_offset, double scale) {
            return O{C::mg_block({Reader<nn::Voltage>::read({"mg_block", "E"}, E), cMg, alpha, beta,
                                  Reader<nn::Voltage>::read({"mg_block", "V_offset"}, V_offset)},
                                 scale),
                     {"SynapticCurrent.mg_block", nb::make_tuple(E, cMg, alpha, beta, V_offset, scale)}};
          },
          "E"_a = 0.0, "cMg"_a = 1.2, "alpha"_a = 0.062, "beta"_a = 3.57, "V_offset"_a = 0.0, "scale"_a = 1.0,
          "I = g·(E − V)/(1 + [Mg]/β·e^(α·(V_off − V))): NMDA receptors, blocked by magnesium at rest.")
      .def("__repr__", [](const O& o) { return o.made.text(); })
      .def("__reduce__", [](const O& o) { return o.made.reduced("etrace.nn"); })
      .def(
          "__call__",
          [](const O& o, ArrayLike g) {
            const Array a = g;
            const LineScope line(a);
            return o.function(a);
          },
          "g"_a);
}

// --- connections
// ---------------------------------------------------------------------------------------------

void bind_connect(nb::module_& core) {
  nb::module_ m = core.def_submodule(
      "_connect",
      "Which neuron is connected to which: patterns for SparseLinear, DelayedLinear and et.sparse_matmul. "
      "Entries are "
      "in the order of the senders, then of the receivers; the same seed gives the same pattern everywhere.");
  namespace c = nn::connect;
  using I = std::int64_t;
  const auto options = [](bool self, std::uint64_t seed) {
    return c::RandomOptions{.self = self, .seed = seed};
  };
  m.def("all_to_all", c::all_to_all, "pre"_a, "post"_a, "include_self"_a = true, "Every pair.");
  m.def("one_to_one", c::one_to_one, "n"_a, "Neuron i to neuron i.");
  m.def(
      "fixed_probability",
      [=](I pre, I post, double p, bool self, std::uint64_t seed) {
        return c::fixed_probability(pre, post, p, options(self, seed));
      },
      "pre"_a, "post"_a, "p"_a, nb::kw_only(), "include_self"_a = true, "seed"_a = 0,
      "Each pair with this probability.");
  m.def(
      "fixed_in_degree",
      [=](I pre, I post, I senders, bool self, std::uint64_t seed) {
        return c::fixed_in_degree(pre, post, senders, options(self, seed));
      },
      "pre"_a, "post"_a, "senders"_a, nb::kw_only(), "include_self"_a = true, "seed"_a = 0,
      "Each receiver has so many different senders.");
  m.def(
      "fixed_out_degree",
      [=](I pre, I post, I receivers, bool self, std::uint64_t seed) {
        return c::fixed_out_degree(pre, post, receivers, options(self, seed));
      },
      "pre"_a, "post"_a, "receivers"_a, nb::kw_only(), "include_self"_a = true, "seed"_a = 0,
      "Each sender has so many different receivers.");
  m.def(
      "by_distance",
      [](ArrayLike pre, ArrayLike post, nb::object p, double reach, bool self, std::uint64_t seed) {
        if (PyCallable_Check(p.ptr()) == 0)
          throw TypeError("by_distance", "probability is a function of a distance, not " + describe(p));
        const auto probability = [&](double d) {
          return Reader<double>::read({"by_distance", "probability(d)"}, p(d));
        };
        return c::by_distance(pre, post, probability, {.self = self, .seed = seed, .reach = reach});
      },
      "pre_positions"_a, "post_positions"_a, "probability"_a, nb::kw_only(),
      "reach"_a = std::numeric_limits<double>::infinity(), "include_self"_a = true, "seed"_a = 0,
      "Each pair with a probability that depends on its distance: positions are [neurons, dimensions]. All "
      "pairs within the reach are asked: without one, every pair.");
  m.def(
      "by_type",
      [=](ArrayLike pre, ArrayLike post, ArrayLike p, bool self, std::uint64_t seed) {
        return c::by_type(pre, post, p, options(self, seed));
      },
      "pre_types"_a, "post_types"_a, "probabilities"_a, nb::kw_only(), "include_self"_a = true, "seed"_a = 0,
      "Each pair of a sender of type a and a receiver of type b with the probability at [a, b]; types are "
      "whole numbers from 0, one per neuron.");
  m.def("small_world", c::small_world, "n"_a, "neighbours"_a, "rewired"_a, nb::kw_only(), "seed"_a = 0,
        "A ring in which each neuron reaches its nearest neighbours, and each of these connections goes "
        "elsewhere with probability `rewired` (Watts and Strogatz 1998, directed).");
  m.def("scale_free", c::scale_free, "n"_a, "links"_a, nb::kw_only(), "seed"_a = 0,
        "Neurons come one by one, and each links to so many earlier ones, rather to those with many links "
        "(Barabási and Albert 1999). A link is a connection in both directions.");
  m.def(
      "within",
      [](ArrayLike pre, ArrayLike post, double r, bool self) { return c::within(pre, post, r, self); },
      "pre_positions"_a, "post_positions"_a, "radius"_a, "include_self"_a = true,
      "Pairs that are no farther apart than the radius.");
  m.def(
      "nonzero", [](ArrayLike matrix) { return c::nonzero(matrix); }, "matrix"_a,
      "Where the matrix is not zero.");
  m.def(
      "grid", [](Given<Shape> sizes, Given<Dtype> d) { return c::grid(sizes, d.get_or(Dtype::F64)); },
      "sizes"_a, "dtype"_a = nb::none(),
      "Neurons on a grid of these sizes, spaced by 1: [neurons, dimensions], float64.");
  m.def(
      "dale_signs",
      [](nb::object n, I excitatory, Given<Dtype> d) {
        const Dtype dtype = d.get_or(Dtype::F32);
        if (nb::isinstance<SparsePattern>(n))
          return c::dale_signs(nb::cast<const SparsePattern&>(n), excitatory, dtype);
        return c::dale_signs(Reader<I>::read({"dale_signs", "n"}, n), excitatory, dtype);
      },
      "n"_a, "excitatory"_a, "dtype"_a = nb::none(),
      "Dale's law: +1 for the first `excitatory` of n neurons, −1 for the others, as a column [n, 1] for "
      "SignedWLinear;\n"
      "of a pattern: one sign per entry, for SparseLinear(sign=…).");
}

}  // namespace

void bind_nn_functions(nb::module_& core) {
  nb::module_ m = core.def_submodule("_nn", "Functions and values of et.nn.");
  bind_activations(m);
  bind_integration(m);
  bind_neuron_input(m);
  bind_connect(core);
}

}  // namespace etrace::python
