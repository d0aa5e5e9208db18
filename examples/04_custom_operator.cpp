// An operator of one's own, outside the library: a synapse that responds to the square of its input, y =
// x²·W. Its author writes the forward function and says which output each weight belongs to; derivatives,
// batching, traces and checks follow. CONTRIBUTING.md starts from this file.
//
// last line: quadratic_synapse: w is learned online, exact against BPTT, a wrong anchor map is refused
#include <etrace/etrace.h>

#include <iostream>

namespace et = etrace;

namespace {

const char* const kName = "quadratic_synapse";

// x [I], W [I,O] -> y [O]. An operator on data with a batch axis sets `batched` in its rules.
et::Avals types(const et::Params&, std::span<const et::Aval> in) {
  if (in.size() != 2 || in[0].shape.rank() != 1 || in[1].shape.rank() != 2 ||
      in[0].shape[0] != in[1].shape[0])
    throw et::ValueError(kName, "takes x [I] and W [I,O]");
  return {{in[1].dtype, {in[1].shape[1]}}};
}

et::Arrays forward(const et::Params&, et::ArraySpan in) { return {et::dot(et::square(in[0]), in[1])}; }

std::vector<et::Trainable> trainables(const et::Params&) { return {{"weight", 1}}; }

// W[i,o] belongs to output o: slot axis 1 gives the index along y's only axis.
et::AnchorMap anchors(const et::Params&, std::string_view, std::span<const et::Aval> in, const et::Aval&) {
  return {in[1].shape, {1}, {}, {}};
}

// For speed, and optional: ∂y[o]/∂W[i,o] is one number of the data, x[i]², for all o.
std::optional<et::TraceSource> source(const et::Params&, std::string_view, et::ArraySpan in) {
  return et::TraceSource{et::square(in[0]), {0}, {}, {}};
}

// What the rules are checked on when the row is registered.
std::vector<et::PrimitiveSpec::Sample> samples(std::uint64_t) {
  const auto f64 = et::Dtype::F64;
  return {{{et::array({0.5, -1.0, 2.0}, f64), et::array({{1, 2}, {3, 4}, {5, 6}}, f64)}, {}}};
}

et::PrimitiveSpec row() {
  return {.name = kName,
          .doc = "y[o] = Σ_i x[i]² W[i,o]",
          .abstract = types,
          .lower = forward,
          .etp = et::make_etp({.trainables = trainables, .anchors = anchors, .source = source}),
          .samples = samples};
}

// What model code calls.
et::Array quadratic_synapse(const et::Array& x, const et::Array& weight) {
  static const et::Primitive& primitive = et::register_primitive(row());
  return et::bind1(primitive, {x, weight});
}

struct Cell : et::Module {
  et::ParamState& w = param("w", et::random::normal(et::random::key(1), {3, 4}, et::Dtype::F64));
  et::HiddenState& h = hidden("h", {4}, et::Dtype::F64);
  et::Array update(const et::Array& x) override {
    h.set(0.9 * h.value() + et::tanh(quadratic_synapse(x, w.value())));
    return h.value();
  }
};

// The same row with the axes of the anchor map confused, as a first draft may have it.
bool draft_is_refused() {
  et::PrimitiveSpec draft = row();
  draft.name += "_draft";
  draft.etp = et::make_etp({.trainables = trainables,
                            .anchors = [](const et::Params&, std::string_view, std::span<const et::Aval> in,
                                          const et::Aval&) -> et::AnchorMap {
                              return {in[1].shape, {0}, {}, {}};
                            }});
  try {
    et::register_primitive(draft);
  } catch (const et::CompilationError& error) {
    std::cout << "refused: " << error.what() << "\n";
    return true;
  }
  return false;
}

}  // namespace

int main() {
  Cell cell;
  et::init_all_states(cell);
  const et::Array xs = et::random::normal(et::random::key(2), {12, 3}, et::Dtype::F64),
                  ys = et::random::normal(et::random::key(3), {12, 4}, et::Dtype::F64);
  std::cout << et::compile_etrace_graph(cell, et::zeros({3}, et::Dtype::F64)).explain() << "\n";
  const et::VerifyReport report = et::verify(cell, et::D_RTRL{}, xs, ys, et::loss::mse);
  std::cout << report.to_string() << "\n";

  const bool refused = draft_is_refused();
  if (!report.met() || !report.leaves[0].alive || !refused) return 1;
  std::cout << kName << ": w is learned online, exact against BPTT, a wrong anchor map is refused\n";
}
