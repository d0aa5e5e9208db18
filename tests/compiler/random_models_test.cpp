// Random models: 1 to 3 hidden states, 5 to 15 equations, ETP and plain products, gates, same-step chains,
// calls and conditionals. They compile to the same graph every time, and what a relation says about
// derivatives agrees with the dense Jacobian of the step.
#include <random>

#include "compiler/scenario.h"

namespace etrace {
namespace {

using namespace testing;

constexpr std::int64_t kWidth = 3;

Model random_model(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  auto pick = [&](std::uint64_t n) { return static_cast<std::size_t>(rng() % n); };
  const std::size_t states = 1 + pick(3), weights = 2 + pick(3);
  Inputs inputs{arg("x", {kWidth})};
  for (std::size_t i = 0; i < states; ++i) inputs.push_back(hidden("h" + std::to_string(i), {kWidth}));
  for (std::size_t i = 0; i < weights; ++i)
    inputs.push_back(param("w" + std::to_string(i), {kWidth, kWidth}));
  inputs.push_back(param("e", {kWidth}));
  const std::size_t equations = 5 + pick(11);
  return step_model(
      inputs,
      [&](In& in) {
        Arrays pool{in["x"]};
        for (std::size_t i = 0; i < states; ++i) pool.push_back(in["h" + std::to_string(i)]);
        for (std::size_t k = 0; k < equations; ++k) {
          const Array a = pool[pick(pool.size())], b = pool[pick(pool.size())],
                      w = in["w" + std::to_string(pick(weights))];
          switch (pick(8)) {
            case 0:
              pool.push_back(tanh(a));
              break;
            case 1:
              pool.push_back(a * b);
              break;
            case 2:
              pool.push_back(0.7 * a + b);
              break;
            case 3:
            case 4:
              pool.push_back(matmul(a, w));
              break;
            case 5:
              pool.push_back(logistic(a) * b + dot(in["x"], w));
              break;
            case 6:
              pool.push_back(jit([](ArraySpan v) { return Arrays{sin(v[0]) + v[1]}; })(
                  Arrays{a, element_wise(in["e"])})[0]);
              break;
            default:
              pool.push_back(cond(
                  sum(in["x"]) > 0.0, [](ArraySpan v) { return Arrays{matmul(v[0], v[1])}; },
                  [](ArraySpan v) { return Arrays{0.5 * v[0]}; }, Arrays{a, w})[0]);
          }
        }
        for (std::size_t i = 0; i < states; ++i) {
          const std::string h = "h" + std::to_string(i);
          in.set(h, 0.5 * in[h] + tanh(pool[1 + pick(pool.size() - 1)]));
          pool.push_back(in[h]);  // later states may read this one's new value
        }
        return pool.back();
      },
      seed);
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double worst = 0.0;
  for (std::int64_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(to_double(a.at(i)) - to_double(b.at(i))));
  return worst;
}

// dh/dy by cutting the whole program at y, with the outputs of other mixing operators held fixed.
Array dense_tail(const ETraceGraph& g, const Values& values, const Arrays& inputs,
                 const HiddenParamOpRelation& r, const Var& hout) {
  const Jaxpr& program = g.module_info.jaxpr();
  const Function from_y = [&](ArraySpan y) {
    std::unordered_map<std::uint64_t, Array> env;
    for (std::size_t i = 0; i < program.constvars.size(); ++i)
      env.emplace(program.constvars[i].id, g.module_info.closed_jaxpr.consts[i]);
    for (std::size_t i = 0; i < program.invars.size(); ++i) env.emplace(program.invars[i].id, inputs[i]);
    for (const Eqn& eqn : program.eqns) {
      Arrays in;
      for (const Atom& a : eqn.in) {
        if (const auto* l = std::get_if<Literal>(&a))
          in.push_back(full({}, l->value, l->dtype));
        else
          in.push_back(env.at(std::get<Var>(a).id));
      }
      Arrays out;
      const EtpRules* rules = etp_rules(*eqn.prim);
      if (eqn.out[0] == r.y_var) {
        out = {y[0]};
      } else {
        out = bind_primitive(*eqn.prim, in, eqn.params);
        if (rules != nullptr && !rules->gradient_enabled) out[0] = stop_gradient(out[0]);
      }
      for (std::size_t i = 0; i < out.size(); ++i) env.insert_or_assign(eqn.out[i].id, out[i]);
    }
    return Arrays{env.at(hout.id)};
  };
  return jacfwd(from_y)(Arrays{values[r.y_var]})[0];
}

TEST(RandomModels, CompileDeterministically) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const ETraceGraph a = compile_etrace_graph(random_model(seed)),
                      b = compile_etrace_graph(random_model(seed));
    EXPECT_EQ(to_string(a.module_info.closed_jaxpr), to_string(b.module_info.closed_jaxpr))
        << "seed " << seed;
    ASSERT_EQ(a.diagnostics.size(), b.diagnostics.size()) << "seed " << seed;
    for (std::size_t i = 0; i < a.diagnostics.size(); ++i)
      EXPECT_EQ(to_string(a.diagnostics[i]), to_string(b.diagnostics[i]));
    EXPECT_EQ(a.explain(), b.explain());
  }
}

TEST(RandomModels, TailsAgreeWithTheDenseJacobian) {
  std::size_t compared = 0, nonzero = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Model m = random_model(seed);
    const ETraceGraph g = compile_etrace_graph(m);
    const Values values(g, m);
    const Arrays inputs = inputs_of(m);
    for (const HiddenParamOpRelation& r : g.hidden_param_op_relations)
      for (std::size_t k = 0; k < r.hidden_groups.size(); ++k) {
        const HiddenGroup& group = g.hidden_groups[r.hidden_groups[k]];
        const Jaxpr& tail = r.y_to_hidden_group_jaxprs[k];
        const Arrays consts = values[tail.constvars];
        for (std::size_t s = 0; s < group.hidden_outvars.size(); ++s) {
          const Function through_tail = [&](ArraySpan y) { return Arrays{eval_jaxpr(tail, consts, y)[s]}; };
          const Tensor ours = jacfwd(through_tail)(Arrays{values[r.y_var]})[0].tensor();
          const Tensor dense = dense_tail(g, values, inputs, r, group.hidden_outvars[s]).tensor();
          EXPECT_LT(largest_difference(ours, dense), 1e-12) << "seed " << seed << " " << to_string(r.path());
          ++compared;
          nonzero += largest_difference(dense, Tensor::zeros(dense.aval())) > 1e-6 ? 1 : 0;
        }
      }
  }
  EXPECT_GT(compared, 40U);
  EXPECT_GT(nonzero, 20U);
}

TEST(RandomModels, DiagonalJacobiansAgreeWithTheFullOne) {
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    for (const bool coupled : {false, true}) {
      const Model m = random_model(seed);
      const ETraceGraph g = compile_etrace_graph(m, coupled ? mixing() : CompileOptions{});
      const Values values(g, m);
      for (const HiddenGroup& group : g.hidden_groups) {
        const Tensor diagonal = diagonal_jacobian(group, values).tensor(),
                     blocks = blocks_of(group, full_jacobian(group, values)).tensor();
        EXPECT_LT(largest_difference(diagonal, blocks), 1e-12)
            << "seed " << seed << " group " << group.index << (coupled ? " coupled" : " diagonal");
        ++compared;
      }
    }
  EXPECT_GT(compared, 60U);
}

}  // namespace
}  // namespace etrace
