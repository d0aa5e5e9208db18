// An operator of one's own, outside the library: a synapse that responds to the square of its input, y =
// x²·W. Its author writes the forward function and says which output each weight belongs to; derivatives,
// batching, traces and checks follow.
//
// last line: 1 relation through quadratic_synapse, a wrong anchor map is refused
#include <iostream>

#include "etrace/compiler.h"
#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/ops/numpy.h"

namespace et = etrace;

namespace {

et::Arrays forward(const et::Params&, et::ArraySpan in) {
  return {et::dot(et::square(in[0]), in[1])};
}  // x [I], W [I,O]

et::Avals types(const et::Params&, std::span<const et::Aval> in) {
  if (in.size() != 2 || in[0].shape.rank() != 1 || in[1].shape.rank() != 2 ||
      in[0].shape[0] != in[1].shape[0])
    throw et::ValueError("quadratic_synapse", "takes x [I] and W [I,O]");
  return {{in[1].dtype, {in[1].shape[1]}}};
}

std::vector<et::PrimitiveSpec::Sample> samples(std::uint64_t) {
  const auto f64 = et::Dtype::F64;
  return {{{et::array({0.5, -1.0, 2.0}, f64), et::array({{1, 2}, {3, 4}, {5, 6}}, f64)}, {}}};
}

// W[i,o] belongs to output o: slot axis 1 gives the index along y's only axis.
et::AnchorMap anchors(const et::Params&, std::string_view, std::span<const et::Aval> in, const et::Aval&) {
  return {in[1].shape, {1}, {}, {}};
}
// The same with the axes confused, as a first draft may have it.
et::AnchorMap wrong_anchors(const et::Params&, std::string_view, std::span<const et::Aval> in,
                            const et::Aval&) {
  return {in[1].shape, {0}, {}, {}};
}

std::vector<et::Trainable> trainables(const et::Params&) { return {{"weight", 1}}; }

const et::Primitive& quadratic_synapse_p() {
  static const et::Primitive& row =
      et::register_primitive({.name = "quadratic_synapse",
                              .doc = "y = x²·W",
                              .abstract = types,
                              .lower = forward,
                              .etp = et::make_etp({.trainables = trainables, .anchors = anchors}),
                              .samples = samples});
  return row;
}

struct Cell : et::Module {
  et::ParamState& w = param("w", et::full({3, 4}, 0.1, et::Dtype::F64));
  et::HiddenState& h = hidden("h", {4}, et::Dtype::F64);
  et::Array update(const et::Array& x) override {
    const et::Array y = et::bind1(quadratic_synapse_p(), {x, w.value()});
    h.set(0.9 * h.value() + et::tanh(y));
    return h.value();
  }
};

}  // namespace

int main() {
  Cell cell;
  et::init_all_states(cell);
  const et::ETraceGraph graph = et::compile_etrace_graph(cell, et::zeros({3}, et::Dtype::F64));
  for (const et::HiddenParamOpRelation& r : graph.hidden_param_op_relations)
    std::cout << et::to_string(r.path()) << " is learned online through " << r.primitive->name() << "\n";

  bool refused = false;
  try {
    et::register_primitive({.name = "quadratic_synapse_draft",
                            .doc = "y = x²·W with a wrong anchor map",
                            .abstract = types,
                            .lower = forward,
                            .etp = et::make_etp({.trainables = trainables, .anchors = wrong_anchors}),
                            .samples = samples});
  } catch (const et::CompilationError& e) {
    refused = true;
    std::cout << "refused: " << e.what() << "\n";
  }
  std::cout << graph.hidden_param_op_relations.size() << " relation through "
            << graph.hidden_param_op_relations[0].primitive->name() << ", a wrong anchor map is "
            << (refused ? "refused" : "accepted") << "\n";
}
