// Scenarios E and F: cells, spiking layers and networks as a library has them. The reference cases come from
// files; stacks are written out here.
#include "compiler/scenario.h"
#include "etrace/models.h"

namespace etrace {
namespace {

using namespace testing;

// "cell/Wz/weight" -> "Wz", "nu_log" -> "nu_log"
std::string short_name(const StatePath& path) {
  const std::string first = std::get<std::string>(path.at(0));
  return first == "cell" ? std::get<std::string>(path.at(1)) : first;
}

// Weights in relations, in order, and those excluded for the given reason.
std::string traced(const ETraceGraph& g) {
  std::string text;
  for (const HiddenParamOpRelation& r : g.hidden_param_op_relations)
    text += (text.empty() ? "" : " ") + short_name(r.path());
  return text;
}
std::string excluded(const ETraceGraph& g, Kind kind) {
  std::string text;
  for (const CompilationRecord& r : g.diagnostics)
    if (r.kind == kind && short_name(*r.weight_path) != "out")
      text += (text.empty() ? "" : " ") + short_name(*r.weight_path);
  return text;
}

TEST(LibraryCells, S38_S44_RelationsOfEveryCell) {
  struct Row {
    const char *file, *traced, *weight_to_weight, *groups;
  };
  for (const Row& row :
       {Row{"cell_ValinaRNNCell_tanh", "W", "", "[cell/h]"}, Row{"cell_GRUCell", "Wz Wh", "Wr", "[cell/h]"},
        Row{"cell_MGUCell", "Wf Wh", "", "[cell/h]"},
        Row{"cell_LSTMCell", "Wi Wg Wf Wo", "", "[cell/h cell/c]"},
        Row{"cell_URLSTMCell", "Wf Wr Wu Wo bias bias", "", "[cell/h cell/c]"},
        Row{"cell_MinimalRNNCell", "phi W_u", "", "[cell/h]"}, Row{"cell_MiniGRU", "W_z W_x", "", "[cell/h]"},
        Row{"cell_MiniLSTM", "W_f W_i W_x", "", "[cell/h]"},
        Row{"cell_LRUCell", "nu_log theta_log gamma_log B_re B_im", "", "[h_re h_im]"}}) {
    const ETraceGraph g = compile_etrace_graph(reference_model(row.file));
    EXPECT_EQ(traced(g), row.traced) << row.file;
    EXPECT_EQ(excluded(g, Kind::RELATION_EXCLUDED_WEIGHT_TO_WEIGHT), row.weight_to_weight) << row.file;
    EXPECT_EQ(groups(g), row.groups) << row.file;
  }
}

TEST(LibraryCells, S39_Gru) {
  const ETraceGraph g = compile_etrace_graph(reference_model("cell_GRUCell"));
  EXPECT_EQ(count(g, Kind::RELATION_INCLUDED), 2U);
  EXPECT_EQ(g.module_info.num_var_out, 1U);
  EXPECT_EQ(excluded(g, Kind::RELATION_EXCLUDED_NON_TEMPORAL), "");
}

TEST(LibraryCells, S40_MguIsMixed) {
  const ETraceGraph g = compile_etrace_graph(reference_model("cell_MGUCell"));
  EXPECT_EQ(g.hidden_param_op_relations[0].path_classification[0], PathClassification::Mixed);
  EXPECT_EQ(g.hidden_param_op_relations[1].path_classification[0], PathClassification::AllDirect);
}

TEST(LibraryCells, S41_LstmGatesReachTheirStates) {
  const ETraceGraph g = compile_etrace_graph(reference_model("cell_LSTMCell"));
  for (const HiddenParamOpRelation& r : g.hidden_param_op_relations)
    EXPECT_EQ(r.connected_hidden_paths.size(), short_name(r.path()) == "Wo" ? 1U : 2U)
        << short_name(r.path());
  EXPECT_EQ(count(g, Kind::HIDDEN_GROUP_MERGED), 1U);
}

// Stacks ----------------------------------------------------------------------------------------------------
Array lstm(In& in, const std::string& at, const Array& x) {
  const Array xh = cat(x, in[at + "/h"]);
  auto gate = [&](const char* w) { return matmul(xh, in[at + w]); };
  const Array i = logistic(gate("/Wi")), g = tanh(gate("/Wg")), f = logistic(gate("/Wf") + 1.0),
              o = logistic(gate("/Wo"));
  in.set(at + "/c", f * in[at + "/c"] + i * g);
  in.set(at + "/h", o * tanh(in[at + "/c"]));
  return in[at + "/h"];
}

TEST(LibraryStacks, S45_TwoLstmLayers) {
  Inputs inputs{arg("x", {4})};
  for (const std::string at : {"layers/0", "layers/2"}) {
    for (const char* s : {"/h", "/c"}) inputs.push_back(hidden(at + s, {4}));
    for (const char* w : {"/Wi", "/Wg", "/Wf", "/Wo"}) inputs.push_back(param(at + w, {8, 4}));
  }
  const Model m =
      step_model(inputs, [](In& in) { return lstm(in, "layers/2", relu(lstm(in, "layers/0", in["x"]))); });
  for (const CompileOptions& options : {CompileOptions{}, mixing()}) {
    const ETraceGraph g = compile_etrace_graph(m, options);
    EXPECT_EQ(groups(g), "[layers/0/h layers/0/c] [layers/2/h layers/2/c]");
    ASSERT_EQ(g.hidden_param_op_relations.size(), 8U);
    for (const HiddenParamOpRelation& r : g.hidden_param_op_relations)
      for (const StatePath& h : r.connected_hidden_paths)
        EXPECT_EQ(h[1], r.path()[1]) << etrace::to_string(r.path()) << " leaves its layer";
  }
}

// h' = a·e^{iθ}·h + γ·B x, in real and imaginary part; out = Re(C h') + D x.
Array lru(In& in, const std::string& at, const Array& x) {
  const WeightFn exponential = [](const Array& w) { return exp(w); };
  const Array a = exp(-element_wise(in[at + "/nu_log"], exponential)),
              theta = element_wise(in[at + "/theta_log"], exponential),
              c = element_wise(in[at + "/gamma_log"], exponential);
  const Array re = in[at + "/h_re"], im = in[at + "/h_im"];
  in.set(at + "/h_re", a * cos(theta) * re - a * sin(theta) * im + c * matmul(x, in[at + "/B_re"]));
  in.set(at + "/h_im", a * sin(theta) * re + a * cos(theta) * im + c * matmul(x, in[at + "/B_im"]));
  return matmul(in[at + "/h_re"], in[at + "/C_re"]) - matmul(in[at + "/h_im"], in[at + "/C_im"]) +
         matmul(x, in[at + "/D"]);
}

TEST(LibraryStacks, S46_TwoLinearRecurrentUnits) {
  for (const std::int64_t out : {3, 4}) {  // as wide as the input, and not
    Inputs inputs{arg("x", {4})};
    std::int64_t width = 4;
    for (const std::string at : {"layers/0", "layers/2"}) {
      for (const char* s : {"/h_re", "/h_im"}) inputs.push_back(hidden(at + s, {5}));
      for (const char* w : {"/nu_log", "/theta_log", "/gamma_log"}) inputs.push_back(param(at + w, {5}));
      for (const char* w : {"/B_re", "/B_im"}) inputs.push_back(param(at + w, {width, 5}));
      for (const char* w : {"/C_re", "/C_im"}) inputs.push_back(param(at + w, {5, out}));
      inputs.push_back(param(at + "/D", {width, out}));
      width = out;
    }
    const Model m =
        step_model(inputs, [](In& in) { return lru(in, "layers/2", relu(lru(in, "layers/0", in["x"]))); });
    for (const CompileOptions& options : {CompileOptions{}, mixing()}) {
      const ETraceGraph g = compile_etrace_graph(m, options);
      EXPECT_EQ(g.hidden_groups.size(), 2U);
      EXPECT_EQ(g.hidden_param_op_relations.size(), 10U);
    }
  }
}

TEST(LibraryStacks, S47_TwoVanillaLayersAndAReadout) {
  const ETraceGraph g = compile_etrace_graph(reference_model("struct_TwoLayerRNN_10_32_16_5"));
  EXPECT_EQ(g.module_info.compiled_model_states.size(), 5U);
  EXPECT_EQ(g.module_info.hidden.size(), 2U);
  ASSERT_EQ(g.module_info.weights.size(), 3U);
  for (const WeightInfo& w : g.module_info.weights) EXPECT_EQ(w.invars.size(), 2U);
  ASSERT_EQ(g.diagnostics.size(), 5U);
  EXPECT_EQ(g.diagnostics[0].kind, Kind::RECURRENCE_DROPPED);
  EXPECT_EQ(g.diagnostics[1].kind, Kind::RECURRENCE_DROPPED);
  EXPECT_EQ(g.diagnostics[2].kind, Kind::RELATION_INCLUDED);
  EXPECT_EQ(g.diagnostics[3].kind, Kind::RELATION_INCLUDED);
  EXPECT_EQ(g.diagnostics[4].kind, Kind::RELATION_EXCLUDED_NON_TEMPORAL);
  ASSERT_EQ(g.hidden_groups.size(), 2U);
  for (const HiddenGroup& group : g.hidden_groups) {
    EXPECT_TRUE(group.transition_jaxpr.eqns.empty());
    EXPECT_EQ(group.transition_jaxpr.constvars.size(), 1U);
  }
}

// Current g and potential v; what leaves the layer is a smooth stand-in for its spikes.
Array spiking_layer(In& in, const std::string& at, const Array& x) {
  in.set(at + "/g", 0.8 * in[at + "/g"] + matmul(x, in[at + "/w"]));
  in.set(at + "/v", 0.9 * in[at + "/v"] + in[at + "/g"]);
  return logistic(in[at + "/v"]);
}

TEST(LibraryStacks, S51_TwoSpikingLayers) {
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"layers/0", "layers/1"}, std::vector<std::string>{"first", "second"}}) {
    Inputs inputs{arg("x", {4})};
    for (const std::string& at : names) {
      inputs.push_back(hidden(at + "/g", {4}));
      inputs.push_back(hidden(at + "/v", {4}));
      inputs.push_back(param(at + "/w", {4, 4}));
    }
    const Model m = step_model(
        inputs, [&](In& in) { return spiking_layer(in, names[1], spiking_layer(in, names[0], in["x"])); });
    for (const CompileOptions& options : {CompileOptions{}, mixing()})
      EXPECT_EQ(compile_etrace_graph(m, options).hidden_groups.size(), 2U) << names[0];
  }
}

TEST(LibraryStacks, S50_S53_StatesOfSpikingLayers) {
  struct Row {
    const char* file;
    std::int64_t states;
    std::size_t relations;
  };
  for (const Row& row : {Row{"snn_lif_delta", 1, 1}, Row{"snn_lif_expcu", 2, 1}, Row{"snn_alif_expcu", 3, 1},
                         Row{"snn_coba_ei", 3, 2}, Row{"snn_gif_exp", 3, 1}, Row{"snn_lif_std", 3, 1}}) {
    const ETraceGraph g = compile_etrace_graph(reference_model(row.file));
    ASSERT_FALSE(g.hidden_groups.empty()) << row.file;
    EXPECT_EQ(g.hidden_groups[0].num_state(), row.states) << row.file;
    EXPECT_GE(g.hidden_param_op_relations.size(), row.relations) << row.file;
  }
}

// What holds for every model that the library offers; a new one is covered by being listed.
TEST(LibraryModels, S48_EveryBuiltinModelCompiles) {
  for (const BuiltinModel& builtin : builtin_models()) {
    const ReadyModel model = make_model(builtin.name);
    for (const CompileOptions& options : {CompileOptions{}, mixing()}) {
      const ETraceGraph g = compile_etrace_graph(*model.module, model.example, options);
      EXPECT_FALSE(g.hidden_param_op_relations.empty()) << builtin.name;
      std::size_t grouped = 0;
      for (const HiddenGroup& group : g.hidden_groups) grouped += group.hidden_paths.size();
      EXPECT_EQ(grouped, g.module_info.hidden.size()) << builtin.name;
      EXPECT_EQ(g.hidden_perturb->perturb_vars.size(), g.module_info.hidden.size()) << builtin.name;
      check(g.module_info.closed_jaxpr);
    }
  }
}

}  // namespace
}  // namespace etrace
