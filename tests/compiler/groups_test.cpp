// Scenario F, first part: which hidden states form a group, in which order, and its transition.
#include "compiler/scenario.h"

namespace etrace {
namespace {

using namespace testing;

TEST(Groups, OneWayCouplingMerges) {
  const Model m = step_model({arg("x", {4}), hidden("g", {4}), hidden("v", {4})}, [](In& in) {
    in.set("g", 0.8 * in["g"] + in["x"]);
    in.set("v", 0.9 * in["v"] + in["g"]);
    return in["v"];
  });
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_EQ(groups(g), "[g v]");
  EXPECT_EQ(count(g, Kind::HIDDEN_GROUP_MERGED), 1U);
}

TEST(Groups, S49_SetsThatMeetBecomeOne) {
  // "ab": the new value of b reads that of a.
  const auto grouped = [](const std::vector<std::string>& edges) {
    const std::vector<std::string> names{"h1", "h2", "h3", "h4", "h5"};
    Inputs inputs{arg("x", {4})};
    for (const std::string& n : names) inputs.push_back(hidden(n, {4}));
    return groups(compile_etrace_graph(step_model(inputs, [&](In& in) {
      Arrays next;
      for (std::size_t i = 0; i < names.size(); ++i) {
        Array v = 0.5 * in[names[i]] + in["x"];
        for (const std::string& e : edges)
          if (e[1] == names[i][1]) v = v + tanh(in["h" + e.substr(0, 1)]);
        next.push_back(v);
      }
      for (std::size_t i = 0; i < names.size(); ++i) in.set(names[i], next[i]);
      return in["h1"];
    })));
  };
  EXPECT_EQ(grouped({"12", "23", "45"}), "[h1 h2 h3] [h4 h5]");
  EXPECT_EQ(grouped({"12", "21"}), "[h1 h2] [h3] [h4] [h5]") << "a cycle";
  EXPECT_EQ(grouped({"12", "12", "12"}), "[h1 h2] [h3] [h4] [h5]") << "the same edge again";
  EXPECT_EQ(grouped({"31", "53"}), "[h1 h3 h5] [h2] [h4]") << "members in compiled order";
  EXPECT_EQ(grouped({}), "[h1] [h2] [h3] [h4] [h5]");
}

TEST(Groups, S54_OrderIsThatOfFirstTouch) {
  for (int run = 0; run < 2; ++run) {
    const ETraceGraph g = compile_etrace_graph(reference_model("cell_LSTMCell"));
    EXPECT_EQ(groups(g), "[cell/h cell/c]");
    std::vector<StatePath> compiled;
    for (const HiddenInfo& h : g.module_info.hidden) compiled.push_back(h.path);
    EXPECT_EQ(g.hidden_groups[0].hidden_paths, compiled);
  }
}

TEST(Groups, S55_OneStateIsNotMerged) {
  EXPECT_EQ(count(compile_etrace_graph(reference_model("cell_GRUCell")), Kind::HIDDEN_GROUP_MERGED), 0U);
}

TEST(Groups, S56_StatesOfDifferentShapesDoNotMeet) {
  // A group has one shape of positions by construction: an influence on a state of another shape does not
  // join them.
  const Model m = step_model({arg("x", {3}), hidden("a", {3}), hidden("b", {4})}, [](In& in) {
    in.set("a", 0.5 * in["a"] + in["x"]);
    in.set("b", 0.5 * in["b"] + sum(in["a"]));
    return in["b"];
  });
  for (const CompileOptions& options : {CompileOptions{}, mixing(), compat()})
    EXPECT_EQ(groups(compile_etrace_graph(m, options)), "[a] [b]");
}

TEST(Groups, S65_TwoHiddenStatesInOneEquation) {
  const Model square = step_model({arg("x", {4}), hidden("h", {4})}, [](In& in) {
    in.set("h", in["h"] * in["h"] + in["x"]);
    return in["h"];
  });
  EXPECT_EQ(groups(compile_etrace_graph(square)), "[h]");
  EXPECT_THROW(compile_etrace_graph(square, compat()), ValueError);
  const Model two = step_model({arg("x", {4}), hidden("h1", {4}), hidden("h2", {4})}, [](In& in) {
    const Array s = in["h1"] + in["h2"];
    in.set("h1", tanh(s));
    in.set("h2", 0.5 * in["h2"]);
    return s;
  });
  EXPECT_EQ(groups(compile_etrace_graph(two)), "[h1 h2]");
}

TEST(Groups, S66_OneEquationIsTreatedLikeTwo) {
  const Model m = step_model({arg("x", {4}), hidden("h1", {4}), hidden("h2", {4})}, [](In& in) {
    in.set("h1", tanh(in["h1"]));
    in.set("h2", 0.9 * in["h2"] + in["h1"]);
    return in["h2"];
  });
  EXPECT_EQ(groups(compile_etrace_graph(m)), "[h1 h2]");
  EXPECT_EQ(groups(compile_etrace_graph(m, compat())), "[h1] [h2]") << "the reference's asymmetry (D16)";
}

TEST(Groups, S67_StatesWithoutRecurrenceComeLast) {
  const Model m = step_model(
      {arg("x", {3}), hidden("vanilla/h", {4}), param("vanilla/w", {7, 4}), hidden("leaky/h", {4})},
      [](In& in) {
        in.set("vanilla/h", tanh(matmul(cat(in["x"], in["vanilla/h"]), in["vanilla/w"])));
        in.set("leaky/h", 0.9 * in["leaky/h"] + in["vanilla/h"]);
        return in["leaky/h"];
      });
  EXPECT_EQ(groups(compile_etrace_graph(m)), "[leaky/h] [vanilla/h]");
}

TEST(Groups, S68_MemberThatAnOperatorProducesDirectly) {
  // a reaches b, and a itself is the bare output of an operator: it is a constant of the transition.
  const Model m =
      step_model({arg("x", {3}), hidden("a", {4}), hidden("b", {4}), param("w", {7, 4})}, [](In& in) {
        const Array previous = in["a"];
        in.set("a", matmul(cat(in["x"], previous), in["w"]));
        in.set("b", 0.9 * in["b"] + tanh(previous));
        return in["b"];
      });
  const ETraceGraph g = compile_etrace_graph(m);
  ASSERT_EQ(groups(g), "[a b]");
  const HiddenGroup& group = g.hidden_groups[0];
  check(group.transition_jaxpr);
  const Values values(g, m);
  expect_same(group.transition(values[group.hidden_invars], values[group.transition_jaxpr.constvars]),
              values[group.hidden_outvars]);
  for (const HiddenParamOpRelation& r : g.hidden_param_op_relations)
    for (const Jaxpr& tail : r.y_to_hidden_group_jaxprs) check(tail);
}

TEST(Groups, S52_SeparateStatesAndOneStackedState) {
  const auto next = [](const Array& v, const Array& a, const Array& drive) {
    return Arrays{0.9 * v - 0.2 * a + drive, 0.8 * a + 0.1 * tanh(v)};
  };
  const Model separate =
      step_model({arg("x", {3}), hidden("v", {4}), hidden("a", {4}), param("w", {3, 4})}, [&](In& in) {
        const Arrays n = next(in["v"], in["a"], matmul(in["x"], in["w"]));
        in.set("v", n[0]);
        in.set("a", n[1]);
        return n[0];
      });
  Model stacked =
      step_model({arg("x", {3}), hidden("s", {4, 2}, "HiddenTreeState"), param("w", {3, 4})}, [&](In& in) {
        const Arrays parts = split(in["s"], {1, 1}, 1);
        const Arrays n = next(squeeze(parts[0], {1}), squeeze(parts[1], {1}), matmul(in["x"], in["w"]));
        in.set("s", stack(n, 1));
        return n[0];
      });
  stacked.inputs[1].init = stack(Arrays{separate.inputs[1].init, separate.inputs[2].init}, 1).tensor();
  const ETraceGraph two = compile_etrace_graph(separate), one = compile_etrace_graph(stacked);
  ASSERT_EQ(groups(two), "[v a]");
  ASSERT_EQ(groups(one), "[s]");
  const HiddenGroup &a = two.hidden_groups[0], &b = one.hidden_groups[0];
  EXPECT_EQ(a.num_state(), b.num_state());
  EXPECT_EQ(a.varshape(), b.varshape());
  expect_same(Arrays{diagonal_jacobian(a, Values(two, separate))},
              Arrays{diagonal_jacobian(b, Values(one, stacked))});
}

TEST(Groups, ReductionIsNotDiagonal) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", in["h"] - sum(in["h"]) + matmul(in["x"], in["w"]));
        return in["h"];
      },
      {param("w", {3, 4})});
  EXPECT_FALSE(g.hidden_groups[0].is_diagonal_recurrence);
  EXPECT_EQ(count(g, Kind::TRANSITION_MIXES_POSITIONS), 1U);
}

TEST(Groups, AliasedStatesStayApart) {
  const Model m = step_model({arg("x", {4}), hidden("a", {4}), hidden("b", {4})}, [](In& in) {
    const Array next = tanh(0.5 * in["a"] + in["x"]);
    in.set("a", next);
    in.set("b", next);
    return next;
  });
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_EQ(groups(g), "[a b]");
  EXPECT_EQ(g.hidden_perturb->perturb_vars.size(), 2U);
}

}  // namespace
}  // namespace etrace
