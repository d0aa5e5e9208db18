// The layers against reference files: with a file's weights, the same interface, the same numbers and the
// same gradients by reverse mode. One row per file; files with a suffix _b3 hold the same model with a batch
// of 3.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "etrace/expected.h"
#include "etrace/interp.h"
#include "etrace/models.h"
#include "etrace/nn.h"
#include "etrace/ops/numpy.h"
#include "support/learning.h"
#include "support/numeric.h"
#include "support/step_model.h"

namespace etrace {
namespace {

constexpr Dtype kReal = Dtype::F64;

// A cell of 5 units on 3 inputs and a readout of 2.
template <class Cell>
struct CellNet : Module {
  explicit CellNet(nn::CellOptions options)
      : cell(child<Cell>("cell", 3, 5, std::move(options))),
        out(child<nn::Linear>("out", 5, 2, nn::LinearOptions{.dtype = kReal})) {}
  Array update(const Array& x) override { return out(cell(x)); }
  Cell& cell;
  nn::Linear& out;
};

template <class Cell>
std::shared_ptr<Module> cell_net(const char* activation = nullptr) {
  nn::CellOptions options{.dtype = kReal};
  if (activation != nullptr) options.activation = nn::activation(activation);
  return std::make_shared<CellNet<Cell>>(std::move(options));
}

struct TwoTanhLayers : Module {
  nn::VanillaRNNCell& rnn1 =
      child<nn::VanillaRNNCell>("rnn1", 4, 6, nn::CellOptions{.activation = tanh, .dtype = kReal});
  nn::VanillaRNNCell& rnn2 =
      child<nn::VanillaRNNCell>("rnn2", 6, 5, nn::CellOptions{.activation = tanh, .dtype = kReal});
  nn::Linear& out = child<nn::Linear>("out", 5, 2, nn::LinearOptions{.dtype = kReal});
  Array update(const Array& x) override { return out(rnn2(rnn1(x))); }
};

std::shared_ptr<Module> built_in(const char* name, Dims sizes) {
  return make_model(name, {.sizes = std::move(sizes), .dtype = kReal}).module;
}

// Layers whose step is written in the file: h ← f(h, layer(x)).
template <class Layer>
struct FileStep : Module {
  using Step = std::function<Array(Layer&, const Array& x, const Array& h)>;
  template <class... Args>
  FileStep(const Shape& size, const char* name, Step step, Args&&... args)
      : layer(child<Layer>(name, std::forward<Args>(args)...)),
        h(hidden("h", size, kReal)),
        step_(std::move(step)) {}
  Array update(const Array& x) override {
    h.set(step_(layer, x, h.value()));
    return h.value();
  }
  Layer& layer;
  HiddenState& h;

 private:
  Step step_;
};
template <class Layer, class... Args>
std::shared_ptr<Module> driven(const Shape& size, const char* name, typename FileStep<Layer>::Step step,
                               Args&&... args) {
  return std::make_shared<FileStep<Layer>>(size, name, std::move(step), std::forward<Args>(args)...);
}

struct SignedNet : Module {
  nn::Linear& inp = child<nn::Linear>("inp", 3, 5, nn::LinearOptions{.dtype = kReal});
  nn::SignedWLinear& rec;
  HiddenState& h = hidden("h", {5}, kReal);
  explicit SignedNet(const Array& sign)
      : rec(child<nn::SignedWLinear>("rec", 5, 5, nn::SignedWLinearOptions{.sign = sign, .dtype = kReal})) {}
  Array update(const Array& x) override {
    const Array before = h.value();
    const Array in = inp(x);
    h.set(tanh(0.3 * before + in + 0.5 * rec(before)));
    return h.value();
  }
};

// Spiking networks of the reference, each put together from neurons, synapses and a readout. The files have
// all states at the top, here they belong to their modules: rows say which is which.
template <class Neuron>
struct ReferenceSnn : Module {
  template <class Options>
  explicit ReferenceSnn(Options options)
      : neuron(child<Neuron>("neuron", 5, options)),
        syn(child<nn::Linear>("syn", 9, 5, nn::LinearOptions{.dtype = kReal})),
        expon(child<nn::Expon>("expon", 5, nn::ExponOptions{.tau = 10.0, .dtype = kReal})),
        out(child<nn::LeakyRateReadout>("out", 5, 2,
                                        nn::LeakyRateReadoutOptions{.tau = 10.0, .dtype = kReal})) {}
  Array update(const Array& x) override {
    const Array fired = neuron.spikes();
    return out(read(neuron.step(fired, {.current = expon(syn(nn::join_input(x, recurrent(fired))))})));
  }
  virtual Array recurrent(const Array& fired) { return fired; }
  virtual Array read(const Array& spikes) { return spikes; }
  Neuron& neuron;
  nn::Linear& syn;
  nn::Expon& expon;
  nn::LeakyRateReadout& out;
};
struct GifNet : ReferenceSnn<nn::CurrentGif> {  // reads the membrane
  GifNet() : ReferenceSnn(nn::CurrentGifOptions{.tau = 20.0, .tau_I2 = 50.0, .A2 = 0.3, .dtype = kReal}) {}
  Array read(const Array&) override { return neuron.V.value() - 1.0; }
};
struct DepressedNet : ReferenceSnn<nn::LIF> {
  DepressedNet() : ReferenceSnn(nn::LIFOptions{.dtype = kReal}) {}
  nn::STD& depression =
      child<nn::STD>("depression", 5, nn::STDOptions{.tau = 100.0, .U = 0.2, .dtype = kReal});
  Array recurrent(const Array& fired) override { return depression(fired); }
};
// Excitatory and inhibitory conductances, whose currents are taken at the potential after the reset.
struct BalancedNet : Module {
  nn::LIF& neuron = child<nn::LIF>("neuron", 5, nn::LIFOptions{.dtype = kReal});
  nn::SignedWLinear& exc = child<nn::SignedWLinear>("exc", 8, 5, nn::SignedWLinearOptions{.dtype = kReal});
  nn::SignedWLinear& inh = child<nn::SignedWLinear>("inh", 1, 5, nn::SignedWLinearOptions{.dtype = kReal});
  nn::Expon& syn_e = child<nn::Expon>("syn_e", 5, nn::ExponOptions{.tau = 5.0, .dtype = kReal});
  nn::Expon& syn_i = child<nn::Expon>("syn_i", 5, nn::ExponOptions{.tau = 10.0, .dtype = kReal});
  nn::LeakyRateReadout& out =
      child<nn::LeakyRateReadout>("out", 5, 2, nn::LeakyRateReadoutOptions{.tau = 10.0, .dtype = kReal});
  Array update(const Array& x) override {
    const Array fired = neuron.spikes();
    const Array ge = syn_e(exc(nn::join_input(x, slice_axis(fired, -1, 0, 4))));
    const Array gi = syn_i(inh(slice_axis(fired, -1, 4, 5)));
    const nn::NeuronInput in = nn::SynapticCurrent::coba(3.5)(ge) + nn::SynapticCurrent::coba(-0.5)(gi);
    return out(neuron.step(fired, {.current = in.current_of(neuron.after_reset(fired))}));
  }
};

// What the file itself holds as constants: a sign matrix, a sparse pattern.
const Eqn& equation(const Model& file, std::string_view param) {
  for (const Eqn& e : file.program.jaxpr.eqns)
    if (e.params.has(param)) return e;
  throw std::runtime_error("no equation has a " + std::string(param));
}

struct ReferenceRow {
  std::string name;
  std::function<std::shared_ptr<Module>(const Model& file)> make;
  bool batched = true;                                          // there is a file _b3
  bool unbatched = true;                                        // there is one without
  std::vector<std::pair<std::string, std::string>> names = {};  // of the file's states -> ours
};

std::vector<ReferenceRow> reference_rows() {
  using namespace nn;
  const auto plain = [](auto make) {
    return [=](const Model&) -> std::shared_ptr<Module> { return make(); };
  };
  const auto cell = [&]<class Cell>(Cell*, const char* activation = nullptr) {
    return [=](const Model&) { return cell_net<Cell>(activation); };
  };
  const auto sequence_of = [](const Array& x, const Array& h) { return concatenate(Arrays{x, h}, -1); };
  return {
      {"cell_CFNCell", cell((CFNCell*)nullptr)},
      {"cell_GRUCell", cell((GRUCell*)nullptr)},
      {"cell_LRUCell", plain([] { return std::make_shared<LRUCell>(3, 5, LRUOptions{.dtype = kReal}); })},
      {"cell_LSTMCell", cell((LSTMCell*)nullptr)},
      {"cell_MGUCell", cell((MGUCell*)nullptr)},
      {"cell_MiniGRU", cell((MiniGRU*)nullptr)},
      {"cell_MiniLSTM", cell((MiniLSTM*)nullptr)},
      {"cell_MinimalRNNCell", cell((MinimalRNNCell*)nullptr)},
      {"cell_URLSTMCell", cell((URLSTMCell*)nullptr)},
      {"cell_ValinaRNNCell_relu", cell((ValinaRNNCell*)nullptr)},
      {"cell_ValinaRNNCell_tanh", cell((ValinaRNNCell*)nullptr, "tanh")},
      {"net_TwoLayerGRU", plain([] {
         return built_in("two_layer_gru", {3, 4, 4, 2});
       })},
      {"net_TwoLayerRNN", plain([] { return std::make_shared<TwoTanhLayers>(); })},
      {"struct_TwoLayerRNN_10_32_16_5", plain([] {
         return built_in("two_layer_rnn", {10, 32, 16, 5});
       }),
       false},
      {"snn_lif_delta", plain([] {
         return built_in("lif", {4, 5, 2});
       })},
      {"snn_lif_expcu",
       plain([] { return std::make_shared<ReferenceSnn<LIF>>(LIFOptions{.dtype = kReal}); }),
       true,
       true,
       {{"V", "neuron/V"}, {"g", "expon/g"}}},
      {"snn_alif_expcu",
       plain([] { return std::make_shared<ReferenceSnn<ALIF>>(ALIFOptions{.dtype = kReal}); }),
       true,
       true,
       {{"V", "neuron/V"}, {"a", "neuron/a"}, {"g", "expon/g"}}},
      {"snn_gif_exp",
       plain([] { return std::make_shared<GifNet>(); }),
       true,
       true,
       {{"V", "neuron/V"}, {"I2", "neuron/I2"}, {"g", "expon/g"}}},
      {"snn_lif_std",
       plain([] { return std::make_shared<DepressedNet>(); }),
       false,
       true,
       {{"V", "neuron/V"}, {"xs", "depression/x"}, {"g", "expon/g"}}},
      {"snn_coba_ei",
       plain([] { return std::make_shared<BalancedNet>(); }),
       true,
       true,
       {{"V", "neuron/V"}, {"gE", "syn_e/g"}, {"gI", "syn_i/g"}}},
      {"op_nn_conv1d", plain([] {
         return driven<Conv1d>(
             {5, 3}, "conv",
             [](Conv1d& conv, const Array& x, const Array& h) { return tanh(0.6 * h + conv(x)); },
             Shape{5, 2}, 3, Dims{3}, ConvLayerOptions{.bias_init = init::zeros(), .dtype = kReal});
       }),
       true, false},
      {"op_nn_conv1d_nobias", plain([] {
         return driven<Conv1d>(
             {5, 3}, "conv",
             [](Conv1d& conv, const Array& x, const Array& h) { return tanh(0.6 * h + conv(x)); },
             Shape{5, 2}, 3, Dims{3}, ConvLayerOptions{.dtype = kReal});
       }),
       true, false},
      {"op_nn_embedding", plain([] {
         return driven<Embedding>(
             {4}, "emb",
             [](Embedding& emb, const Array& x, const Array& h) { return 0.8 * h + tanh(emb(x)); }, 6, 4,
             EmbeddingOptions{.dtype = kReal});
       }),
       false},
      {"op_nn_grouped_linear", plain([] {
         return driven<GroupedLinear>(
             {2, 3}, "lin",
             [](GroupedLinear& lin, const Array& x, const Array& h) { return 0.7 * h + tanh(lin(x)); }, 2, 4,
             3, GroupedLinearOptions{.dtype = kReal});
       })},
      {"op_nn_lora", plain([=] {
         return driven<LoRA>(
             {5}, "lin",
             [=](LoRA& lin, const Array& x, const Array& h) {
               return tanh(0.4 * h + lin(sequence_of(x, h)));
             },
             8, 2, 5, LoRAOptions{.dtype = kReal});
       }),
       false},
      {"op_nn_sparse_linear",
       [](const Model& file) {
         const Eqn& e = equation(file, "sparse_mat");
         return driven<SparseLinear>(
             {5}, "lin", [](SparseLinear& lin, const Array& x, const Array& h) { return tanh(x + lin(h)); },
             SparsePattern::from_attr(*e.params.find("sparse_mat")),
             SparseLinearOptions{.bias_init = init::zeros(), .dtype = kReal});
       },
       false},
      {"op_signed_linear",
       [](const Model& file) {
         const JaxprPtr sign = equation(file, "weight_fn").params.jaxpr("weight_fn");
         return std::make_shared<SignedNet>(sign->consts.at(0));
       }},
      {"op_scaledws_linear", plain([=] {
         return driven<ScaledWSLinear>(
             {5}, "lin",
             [=](ScaledWSLinear& lin, const Array& x, const Array& h) {
               return tanh(lin(sequence_of(x, h)));
             },
             8, 5, ScaledWSLinearOptions{.dtype = kReal});
       }),
       true, false},
  };
}

// The file with our names for its states.
Model renamed(Model file, const ReferenceRow& row) {
  const auto ours = [&](const StatePath& path) {
    for (const auto& [theirs, name] : row.names)
      if (to_string(path) == theirs) return testing::path_of(name);
    return path;
  };
  for (InputRecord& r : file.inputs) r.path = ours(r.path);
  if (file.expected && file.expected->runs) {
    Expected expected = *file.expected;
    for (ExpectedRun& run : *expected.runs)
      if (run.hidden)
        for (auto& [path, value] : *run.hidden) path = to_string(ours(testing::path_of(path)));
    file.expected = std::make_shared<const Expected>(std::move(expected));
  }
  return file;
}

// Every state takes the file's value.
void load(Module& module, const Model& file) {
  for (const InputRecord& r : file.inputs) {
    if (r.role == Role::Arg) continue;
    State* state = find_state(module, r.path);
    ASSERT_NE(state, nullptr) << to_string(r.path);
    Arrays leaves = state->leaves();
    leaves.at(static_cast<std::size_t>(r.leaf)) = r.init;
    state->set_leaves(leaves);
  }
}

// By role, path and leaf: the file's position of each input of the model. The order of first use may differ.
std::vector<std::size_t> positions_in(const Model& file, const Model& found) {
  std::vector<std::size_t> positions;
  EXPECT_EQ(found.inputs.size(), file.inputs.size());
  for (std::size_t i = 0; i < found.inputs.size(); ++i) {
    const InputRecord& f = found.inputs[i];
    const auto same = [&](const InputRecord& e) {
      return f.role == e.role && f.index == e.index && to_string(f.path) == to_string(e.path) &&
             f.leaf == e.leaf;
    };
    const auto at = std::find_if(file.inputs.begin(), file.inputs.end(), same);
    if (at == file.inputs.end()) {
      ADD_FAILURE() << "the file has no " << name(f.role) << " " << to_string(f.path) << " leaf " << f.leaf;
      return {};
    }
    const auto position = static_cast<std::size_t>(at - file.inputs.begin());
    EXPECT_EQ(f.leaf_key, at->leaf_key) << to_string(f.path);
    EXPECT_EQ(f.type, at->type) << to_string(f.path);
    EXPECT_EQ(found.program.jaxpr.invars[i].aval, file.program.jaxpr.invars[position].aval)
        << to_string(f.path);
    positions.push_back(position);
  }
  return positions;
}

Tensor row(const Tensor& stacked, std::int64_t t) {
  return squeeze(slice_axis(stacked, 0, t, t + 1), {0}).tensor();
}

void expect_forward(const Model& model, const ExpectedRun& run) {
  const Executable step(model.program);
  Tensors values;
  for (const InputRecord& r : model.inputs) values.push_back(r.init);
  const std::int64_t steps = run.args->at(0).shape()[0];
  for (std::int64_t t = 0; t < steps; ++t) {
    values[0] = row(run.args->at(0), t);
    const Tensors out = step(values);
    EXPECT_EQ(testing::difference(out[0], row(run.outputs, t), 1e-10), std::nullopt) << "step " << t;
    std::copy(out.begin() + 1, out.end(), values.begin() + 1);
  }
  for (const auto& [path, expected] : *run.hidden) {
    const auto is_it = [&, &p = path](const InputRecord& r) { return to_string(r.path) == p; };
    const auto at = std::find_if(model.inputs.begin(), model.inputs.end(), is_it) - model.inputs.begin();
    EXPECT_EQ(testing::difference(values.at(static_cast<std::size_t>(at)), expected, 1e-10), std::nullopt)
        << path;
  }
}

// The file's loss is the mean over the elements of a step, summed over steps.
void expect_gradients_of_file(const Model& model, const ExpectedRun& run) {
  const Tensor& targets = run.targets;
  const std::int64_t steps = targets.shape()[0];
  const double share = static_cast<double>(steps) / static_cast<double>(targets.size());
  const testing::Sequence data{{run.args->at(0)}, targets, full({steps}, share, kReal)};
  const ParamValues found = testing::bptt(model, data).grads;
  for (std::size_t i = 0; i < found.leaves.size(); ++i) {
    const auto same = [&](const auto& named) { return named.first == to_string(found.leaves[i].path); };
    const auto at = std::find_if(run.grads->begin(), run.grads->end(), same);
    ASSERT_NE(at, run.grads->end()) << to_string(found.leaves[i]);
    const Tensor& expected = at->second.at(static_cast<std::size_t>(found.leaves[i].leaf));
    EXPECT_EQ(testing::difference(found.values[i].tensor(), expected, 1e-10), std::nullopt)
        << to_string(found.leaves[i]);
  }
}

void expect_reproduces(const ReferenceRow& r, const std::string& suffix) {
  SCOPED_TRACE(r.name + suffix);
  const Model file =
      renamed(read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/" + r.name + suffix + ".json"), r);
  const std::shared_ptr<Module> module = r.make(file);
  const Aval x = file.program.jaxpr.invars[0].aval;
  init_all_states(*module, suffix.empty() ? std::nullopt : std::optional(x.shape[0]));
  load(*module, file);
  const Model model = trace_step(*module, Avals{x}).model;
  if (positions_in(file, model).empty()) return;
  if (!file.expected || !file.expected->runs || file.expected->runs->empty()) return;
  const ExpectedRun& run = file.expected->runs->at(0);
  ASSERT_EQ(run.id, "BPTT");
  expect_forward(model, run);
  expect_gradients_of_file(model, run);
}

TEST(Reference, EveryRow) {
  for (const ReferenceRow& r : reference_rows()) {
    if (r.unbatched) expect_reproduces(r, "");
    if (r.batched) expect_reproduces(r, "_b3");
  }
}

// Cells, networks and spiking networks: none is left out.
TEST(Reference, EveryFileHasARow) {
  std::vector<std::string> rows;
  for (const ReferenceRow& r : reference_rows()) rows.push_back(r.name);
  for (const auto& entry : std::filesystem::directory_iterator(ETRACE_REFERENCE_DIR)) {
    std::string name = entry.path().stem().string();
    if (name.ends_with("_b3")) name.resize(name.size() - 3);
    const bool ours = name.starts_with("cell_") || name.starts_with("net_") || name.starts_with("snn_");
    if (ours) {
      EXPECT_NE(std::find(rows.begin(), rows.end(), name), rows.end()) << name;
    }
  }
}

}  // namespace
}  // namespace etrace
