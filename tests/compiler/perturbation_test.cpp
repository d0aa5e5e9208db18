// Scenario G: h = f(…) becomes h = f(…) + p.
#include "compiler/scenario.h"

namespace etrace {
namespace {

using namespace testing;

TEST(Perturbation, S69_OnePerHiddenState) {
  for (const char* name : {"cell_GRUCell", "cell_LSTMCell", "cell_LRUCell", "cell_URLSTMCell",
                           "net_TwoLayerGRU", "snn_alif_expcu", "snn_coba_ei", "struct_two_populations"}) {
    const ETraceGraph g = compile_etrace_graph(reference_model(name));
    EXPECT_EQ(g.hidden_perturb->perturb_vars.size(), g.module_info.hidden.size()) << name;
  }
}

TEST(Perturbation, ShiftsTheStateAndItsReaders) {
  const ETraceGraph g = compile_cell([](In& in) {
    in.set("h", 0.5 * in["h"]);
    return in["h"] * 3.0;
  });
  const HiddenPerturbation& p = *g.hidden_perturb;
  ASSERT_EQ(p.perturb_vars.size(), 1U);
  const Arrays inputs{zeros({3}, Dtype::F64), zeros({4}, Dtype::F64)};
  const Arrays shift{array({1, 2, 3, 4}, Dtype::F64)};
  const Arrays out = p.eval_jaxpr(inputs, shift);
  EXPECT_DOUBLE_EQ(to_double(out[0].tensor().at(1)), 6.0);
  EXPECT_DOUBLE_EQ(to_double(out[1].tensor().at(1)), 2.0);
  EXPECT_THROW(p.perturb_data_to_hidden_group_data(Arrays{}, g.hidden_groups), ValueError);
  EXPECT_EQ(p.perturb_data_to_hidden_group_data(shift, g.hidden_groups)[0].shape(), (Shape{4, 1}));
}

TEST(Perturbation, S70_OneEquationWithTwoHiddenResults) {
  const Primitive& sort_p = *find_primitive("sort");
  const Model m = step_model({arg("x", {4}), hidden("a", {4}), hidden("b", {4})}, [&](In& in) {
    const Arrays sorted = bind_primitive(sort_p, {0.5 * in["a"] + in["x"], in["b"]},
                                         {{"dimension", 0}, {"is_stable", true}, {"num_keys", 1}});
    in.set("a", sorted[0]);
    in.set("b", sorted[1]);
    return sorted[0] + sorted[1];
  });
  const ETraceGraph g = compile_etrace_graph(m);
  check(g.hidden_perturb->perturb_jaxpr);
  const Arrays x = inputs_of(m), plain = eval_jaxpr(m.program, x);
  const Arrays shift{array({1, 2, 3, 4}, Dtype::F64), array({5, 6, 7, 8}, Dtype::F64)};
  const Arrays moved = g.hidden_perturb->eval_jaxpr(x, shift);
  expect_same(Arrays{moved[0], moved[1], moved[2]},
              Arrays{plain[0] + shift[0] + shift[1], plain[1] + shift[0], plain[2] + shift[1]});
}

TEST(Perturbation, S71_ReadOnlyState) {
  const Model m = step_model({arg("x", {4}), hidden("r", {4}), hidden("h", {4})}, [](In& in) {
    in.set("h", tanh(0.5 * in["h"] + in["x"] + in["r"]));
    return in["h"];
  });
  for (const CompileOptions& options : {CompileOptions{}, compat()}) {
    const ETraceGraph g = compile_etrace_graph(m, options);
    const HiddenPerturbation& p = *g.hidden_perturb;
    ASSERT_EQ(p.perturb_vars.size(), 2U);
    const Arrays inputs{zeros({4}, Dtype::F64), zeros({4}, Dtype::F64), zeros({4}, Dtype::F64)};
    const Arrays out = p.eval_jaxpr(inputs, Arrays{ones({4}, Dtype::F64), zeros({4}, Dtype::F64)});
    EXPECT_DOUBLE_EQ(to_double(out[1].tensor().at(0)), 1.0) << "the state itself shifts";
    EXPECT_DOUBLE_EQ(to_double(out[2].tensor().at(0)), 0.0) << "what read it at entry does not move";
  }
}

// Three rounds of relaxation towards a drive; the loop itself gives the new state.
Array settle(In& in) {
  const Array drive = tanh(dot(in["x"], in["w"]));
  in.set("h", while_loop([](ArraySpan c) { return c[1] < 3; },
                         [&](ArraySpan c) {
                           return Arrays{c[0] + 0.5 * (drive - c[0]), c[1] + Array(1)};
                         },
                         {in["h"], full({}, std::int64_t{0}, Dtype::I32)})[0]);
  return in["h"] * 2.0;
}

TEST(Perturbation, S73_WhileIsDetachedInTheReferenceOnly) {
  const Model m = cell(settle, {param("w", {3, 4})});
  const ETraceGraph ours = compile_etrace_graph(m), theirs = compile_etrace_graph(m, compat());
  EXPECT_EQ(count(ours.hidden_perturb->perturb_jaxpr.jaxpr, stop_gradient_p), 0U);
  const Jaxpr& program = theirs.hidden_perturb->perturb_jaxpr.jaxpr;
  std::vector<Var> copies;
  for (const Eqn& e : program.eqns) {
    if (e.prim == &stop_gradient_p) copies.push_back(e.out[0]);
    if (e.prim != &while_p) continue;
    std::vector<Var> read;
    for (const Atom& a : e.in)
      if (const Var* v = as_var(a)) read.push_back(*v);
    EXPECT_EQ(read, copies) << "the loop reads detached copies, one per operand";
  }
  EXPECT_GE(copies.size(), 2U);
  // h = loop + p takes over the state's Var, so that its readers stay as they were.
  const Var& h = theirs.module_info.hidden[0].outvar;
  for (const Eqn& e : program.eqns) EXPECT_TRUE(e.out[0] != h || e.prim == &add_p);
}

TEST(Perturbation, S74_GradientsThroughTheWhile) {
  const Model m = cell(settle, {param("w", {3, 4})});
  for (const bool reference : {false, true}) {
    const ETraceGraph g = compile_etrace_graph(m, reference ? compat() : CompileOptions{});
    const HiddenPerturbation& p = *g.hidden_perturb;
    const ScalarFunction loss = [&](ArraySpan a) { return sum(p.eval_jaxpr(a.first(3), a.subspan(3))[0]); };
    Arrays at = inputs_of(m);
    at.push_back(p.init_perturb_data()[0]);
    expect_same(Arrays{loss(at)}, Arrays{sum(eval_jaxpr(m.program, inputs_of(m))[0])});
    const Arrays d = grad(loss, {1, 3})(at);  // by the state at entry, and by p
    expect_same(d, Arrays{full({4}, reference ? 0.0 : 0.25, Dtype::F64), full({4}, 2.0, Dtype::F64)});
  }
}

TEST(Perturbation, S75_WhileBesideTheStateIsLeftAlone) {
  const Model m = cell([](In& in) {
    in.set("h", 0.5 * in["h"]);
    return while_loop([](ArraySpan c) { return sum(c[0]) > 100.0; },
                      [](ArraySpan c) { return Arrays{0.5 * c[0]}; }, {in["x"]})[0];
  });
  const ETraceGraph g = compile_etrace_graph(m, compat());
  EXPECT_EQ(count(g.hidden_perturb->perturb_jaxpr.jaxpr, stop_gradient_p), 0U);
  EXPECT_EQ(count(g, Kind::CONTROL_FLOW_OPAQUE_FWD), 0U);
}

TEST(Perturbation, S76_DataMustMatchTheGroups) {
  const ETraceGraph g = compile_cell([](In& in) {
    in.set("h", 0.5 * in["h"]);
    return in["h"];
  });
  const HiddenPerturbation& p = *g.hidden_perturb;
  const Arrays data = p.init_perturb_data();
  EXPECT_EQ(p.perturb_data_to_hidden_group_data(data, g.hidden_groups)[0].shape(), (Shape{4, 1}));
  EXPECT_THROW(p.perturb_data_to_hidden_group_data(Arrays{}, g.hidden_groups), ValueError);
  std::vector<HiddenGroup> renamed = g.hidden_groups;
  renamed[0].hidden_paths[0] = path_of("other/h");
  try {
    p.perturb_data_to_hidden_group_data(data, renamed);
    FAIL() << "a path that is not perturbed must be named";
  } catch (const ValueError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("other/h"));
  }
}

}  // namespace
}  // namespace etrace
