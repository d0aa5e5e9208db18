// The layers against reference files: with a file's weights, the same interface and the same numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "etrace/interp.h"
#include "etrace/models.h"
#include "etrace/nn.h"
#include "etrace/ops/numpy.h"
#include "support/numeric.h"

namespace etrace {
namespace {

template <class Cell>
struct CellNet : Module {
  Cell& cell;
  nn::Linear& out;
  explicit CellNet(nn::CellOptions options)
      : cell(child<Cell>("cell", 3, 5, std::move(options))),
        out(child<nn::Linear>("out", 5, 2, nn::LinearOptions{.dtype = Dtype::F64})) {}
  Array update(const Array& x) override { return out(cell(x)); }
};

template <class Cell>
std::shared_ptr<Module> cell_net(const char* activation = nullptr) {
  nn::CellOptions options{.dtype = Dtype::F64};
  if (activation != nullptr) options.activation = nn::activation(activation);
  return std::make_shared<CellNet<Cell>>(std::move(options));
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

void expect_same_interface(const Model& found, const Model& file) {
  ASSERT_EQ(found.inputs.size(), file.inputs.size());
  for (std::size_t i = 0; i < file.inputs.size(); ++i) {
    const InputRecord &f = found.inputs[i], &e = file.inputs[i];
    EXPECT_EQ(f.role, e.role) << i;
    EXPECT_EQ(f.index, e.index) << i;
    EXPECT_EQ(to_string(f.path), to_string(e.path)) << i;
    EXPECT_EQ(f.leaf, e.leaf) << i;
    EXPECT_EQ(f.leaf_key, e.leaf_key) << i;
    EXPECT_EQ(f.type, e.type) << i;
    EXPECT_EQ(found.program.jaxpr.invars[i].aval, file.program.jaxpr.invars[i].aval) << i;
  }
}

Tensor row(const Tensor& stacked, std::int64_t t) {
  return squeeze(slice_axis(stacked, 0, t, t + 1), {0}).tensor();
}

void expect_reproduces(const std::shared_ptr<Module>& module, const std::string& name) {
  SCOPED_TRACE(name);
  const Model file = read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/" + name + ".json");
  const Aval x = file.program.jaxpr.invars[0].aval;
  init_all_states(*module, x.shape.rank() == 2 ? std::optional(x.shape[0]) : std::nullopt);
  load(*module, file);
  const Model model = trace_step(*module, Avals{x}).model;
  expect_same_interface(model, file);
  if (!file.expected || !file.expected->runs || file.expected->runs->empty()) return;

  const ExpectedRun& run = file.expected->runs->at(0);
  ASSERT_EQ(run.id, "BPTT");
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

TEST(Reference, Cells) {
  for (const char* batch : {"", "_b3"}) {
    const std::string suffix = batch;
    expect_reproduces(cell_net<nn::ValinaRNNCell>(), "cell_ValinaRNNCell_relu" + suffix);
    expect_reproduces(cell_net<nn::ValinaRNNCell>("tanh"), "cell_ValinaRNNCell_tanh" + suffix);
    expect_reproduces(cell_net<nn::GRUCell>(), "cell_GRUCell" + suffix);
  }
}

TEST(Reference, BuiltinModels) {
  auto built_in = [](const char* name, Dims sizes) {
    return make_model(name, {.sizes = std::move(sizes), .dtype = Dtype::F64}).module;
  };
  for (const char* batch : {"", "_b3"}) {
    const std::string suffix = batch;
    expect_reproduces(built_in("two_layer_gru", {3, 4, 4, 2}), "net_TwoLayerGRU" + suffix);
    expect_reproduces(built_in("lif", {4, 5, 2}), "snn_lif_delta" + suffix);
  }
  expect_reproduces(built_in("two_layer_rnn", {10, 32, 16, 5}), "struct_TwoLayerRNN_10_32_16_5");
}

}  // namespace
}  // namespace etrace
