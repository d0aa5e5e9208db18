// Scenario K, first part: which positions influence which, the neighbourhoods of SnAp, and the widened
// Jacobian.
#include "compiler/scenario.h"

namespace etrace {
namespace {

using namespace testing;

using Matrix = std::vector<bool>;

// Row p: the positions that p depends on.
Matrix matrix(const std::vector<std::vector<int>>& rows) {
  Matrix m;
  for (const auto& row : rows)
    for (const int x : row) m.push_back(x != 0);
  return m;
}
const Matrix kFull4(16, true), kIdentity4 = matrix({{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}});

PositionPattern pattern_of(const Model& m, std::int64_t n) {
  return *compile_etrace_graph(m, snap(n)).hidden_groups[0].snap;
}

// h' = tanh(h/2 + sparse(w)·h): entry (i, o) lets position i influence position o.
Model sparse_model(const SparsePattern& pattern, const Dims& leading = {}) {
  Dims shape = leading;
  shape.push_back(pattern.rows());
  return step_model({arg("x", shape), hidden("h", shape), param("w", {pattern.nnz()})}, [&](In& in) {
    in.set("h", tanh(0.5 * in["h"] + sparse_matmul(in["h"], in["w"], pattern) + in["x"]));
    return in["h"];
  });
}
SparsePattern ring() { return SparsePattern::coo(4, 4, {0, 1, 2, 3}, {1, 2, 3, 0}); }
SparsePattern chain() { return SparsePattern::coo(4, 4, {0, 1, 2}, {1, 2, 3}); }

TEST(Positions, S117_DenseSparseElementWiseAndScalar) {
  for (const std::int64_t batch : {1, 3}) {
    const Model dense =
        step_model({arg("x", {batch, 4}), hidden("h", {batch, 4}), param("w", {4, 4})}, [](In& in) {
          in.set("h", tanh(matmul(in["h"], in["w"]) + in["x"]));
          return in["h"];
        });
    const PositionPattern p = pattern_of(dense, 2);
    ASSERT_EQ(p.axes.size(), 2U);
    for (std::int64_t i = 0; i < batch; ++i)
      for (std::int64_t j = 0; j < batch; ++j)
        EXPECT_EQ(p.axes[0][static_cast<std::size_t>(i * batch + j)], i == j) << "samples stay apart";
    EXPECT_EQ(p.axes[1], kFull4);
    EXPECT_FALSE(p.conservative);
  }
  const Model elementwise = step_model({arg("x", {4}), hidden("h", {4})}, [](In& in) {
    in.set("h", tanh(0.5 * in["h"] + in["x"]));
    return in["h"];
  });
  EXPECT_EQ(pattern_of(elementwise, 3).axes[0], kIdentity4);
  EXPECT_EQ(pattern_of(sparse_model(chain()), 2).axes[0],
            matrix({{1, 0, 0, 0}, {1, 1, 0, 0}, {0, 1, 1, 0}, {0, 0, 1, 1}}));
  const Model scalar = step_model({arg("x", {}), hidden("h", {})}, [](In& in) {
    in.set("h", tanh(0.5 * in["h"] + in["x"]));
    return in["h"];
  });
  const PositionPattern p = pattern_of(scalar, 2);
  EXPECT_TRUE(p.axes.empty());
  EXPECT_EQ(p.neighbours, std::vector<Dims>{{0}});
  EXPECT_FALSE(p.conservative);
}

// Wherever the true Jacobian is not zero, the pattern must allow it.
void expect_covers(const Model& m, const std::string& what) {
  const ETraceGraph g = compile_etrace_graph(m, snap(2));
  const HiddenGroup& group = g.hidden_groups[0];
  const Tensor full = full_jacobian(group, Values(g, m)).tensor();
  const auto n = static_cast<std::size_t>(group.varshape().size());
  for (std::size_t p = 0; p < n; ++p)
    for (std::size_t q = 0; q < n; ++q)
      EXPECT_TRUE(group.snap->axes[0][p * n + q] ||
                  to_double(full.at(static_cast<std::int64_t>(p * n + q))) == 0.0)
          << what << " " << p << " " << q;
}

TEST(Positions, S118_WhatIsNotKnownIsAllToAll) {
  const Array r = full({4, 4}, 0.1, Dtype::F64);
  const auto leaky = [](const std::function<Array(In&, const Array&)>& f) {
    return cell(
        [&](In& in) {
          in.set("h", 0.5 * in["h"] + tanh(f(in, in["h"])));
          return in["h"];
        },
        {param("a", {4, 4}), param("b", {4, 4}), param("wide", {4, 5})});
  };
  const Function rolls = [](ArraySpan a) { return Arrays{roll(a[0], 1, 0)}; },
                 halves = [](ArraySpan a) { return Arrays{0.5 * a[0]}; };
  struct Row {
    const char* word;
    Model model;
  };
  const std::vector<Row> rows{
      {"more than one", leaky([](In& in, const Array& h) { return matmul(matmul(h, in["a"]), in["b"]); })},
      {"dot_general", leaky([&](In&, const Array& h) { return dot(h, r); })},
      {"reduce_sum", leaky([](In&, const Array& h) { return h - sum(h); })},
      {"reshape", leaky([](In&, const Array& h) {
         return reshape(transpose(reshape(h, {2, 2}), {1, 0}), {4});
       })},
      {"shape", leaky([](In& in, const Array& h) { return slice(matmul(h, in["wide"]), {0}, {4}); })},
      {"scan", leaky([&](In&, const Array& h) {
         return scan(
                    [&](ArraySpan c, ArraySpan) -> ScanResult {
                      return {rolls(c), {}};
                    },
                    {h}, {}, {.length = 40})
             .carry[0];
       })}};
  for (const Row& row : rows) {
    const PositionPattern p = pattern_of(row.model, 2);
    EXPECT_TRUE(p.conservative) << row.word;
    EXPECT_THAT(p.reason, ::testing::HasSubstr(row.word));
    EXPECT_EQ(p.axes[0], kFull4);
    expect_covers(row.model, row.word);
    EXPECT_EQ(count(compile_etrace_graph(row.model, snap(2)), Kind::SNAP_PATTERN_CONSERVATIVE), 1U)
        << row.word;
  }
  // An opaque conditional is looked into: conservative iff a branch moves positions.
  CompileOptions opaque = snap(2);
  opaque.control_flow.cond = ControlFlowPolicy::Cond::Opaque;
  for (const bool moves : {false, true}) {
    const Model m = leaky([&](In& in, const Array& h) {
      return cond(sum(in["x"]) > 0.0, halves, moves ? rolls : halves, Arrays{h})[0];
    });
    const PositionPattern p = *compile_etrace_graph(m, opaque).hidden_groups[0].snap;
    EXPECT_EQ(p.conservative, moves) << p.reason;
    EXPECT_THAT(p.reason, ::testing::HasSubstr(moves ? "cond" : ""));
  }
}

// Loops are looked into, and what has no derivative couples nothing.
TEST(Positions, AsDerivativesSeeThem) {
  const auto leaky = [](const std::function<Array(In&, const Array&)>& f) {
    return cell([&](In& in) {
      in.set("h", 0.5 * in["h"] + tanh(f(in, in["h"])));
      return in["h"];
    });
  };
  const auto loop = [](const Array& h, const Function& round) {
    return scan(
               [&](ArraySpan c, ArraySpan) -> ScanResult {
                 return {round(c), {}};
               },
               {h}, {}, {.length = 40})
        .carry[0];
  };
  const Function halves = [](ArraySpan a) { return Arrays{0.5 * a[0]}; };
  const Function stopped = custom_jvp(halves, [](ArraySpan a) {
    return Arrays{0.5 * a[0], 0.5 * a[1] + stop_gradient(sum(a[1]))};
  });
  // Values without a derivative, and rules that give them one.
  const auto steps = [](ArraySpan a) { return Arrays{where(a[0] > 0.0, a[0] * 0.0 + 1.0, a[0] * 0.0)}; };
  const Function spike = custom_vjp(
      steps,
      [&](ArraySpan a) {
        return Arrays{steps(a)[0], a[0]};
      },
      [](ArraySpan r) { return Arrays{r[1] / (1.0 + r[0] * r[0])}; });
  const Function hidden_spike = custom_vjp([](ArraySpan a) { return Arrays{ones(a[0].shape(), Dtype::F64)}; },
                                           [](ArraySpan a) {
                                             return Arrays{ones(a[0].shape(), Dtype::F64), a[0]};
                                           },
                                           [](ArraySpan r) { return Arrays{r[1] / (1.0 + r[0] * r[0])}; });
  struct Row {
    const char* what;
    bool apart;
    Model model;
  };
  const std::vector<Row> rows{
      {"a loop over rounds", true, leaky([&](In&, const Array& h) { return loop(h, halves); })},
      {"a loop that turns", false, leaky([&](In&, const Array& h) {
         return loop(h, [](ArraySpan a) { return Arrays{roll(a[0], 1, 0)}; });
       })},
      {"a loop over other axes", true, leaky([](In&, const Array& h) {
         const Array rows = stack({h, 0.3 * h, h * h}, 0);
         const ScanResult r = scan(
             [](ArraySpan c, ArraySpan x) -> ScanResult {
               return {{0.5 * c[0] + x[0]}, {tanh(c[0])}};
             },
             {h}, {rows});
         return r.carry[0] + sum(r.ys[0], {0});
       })},
      {"a loop over positions", false, leaky([](In&, const Array& h) {
         return scan(
                    [](ArraySpan c, ArraySpan x) -> ScanResult {
                      return {{c[0] + x[0]}, {c[0]}};
                    },
                    {full({}, 0.0, Dtype::F64)}, {h})
             .ys[0];
       })},
      {"all decide about a branch", true, leaky([&](In&, const Array& h) {
         return cond(
             sum(h) > 0.0, halves, [](ArraySpan a) { return Arrays{-a[0]}; }, Arrays{h})[0];
       })},
      {"all decide about a loop", true, leaky([&](In&, const Array& h) {
         return while_loop([](ArraySpan a) { return sum(a[0] * a[0]) > 0.5; }, halves, {h})[0];
       })},
      {"a constant", true, leaky([](In&, const Array& h) { return h * stop_gradient(sum(h)); })},
      {"spikes", true, leaky([&](In&, const Array& h) { return spike(Arrays{h})[0]; })},
      {"a sum of spikes", false, leaky([&](In&, const Array& h) { return h + sum(spike(Arrays{h})[0]); })},
      {"a constant with a derivative", false,
       leaky([&](In&, const Array& h) { return h + sum(hidden_spike(Arrays{h})[0]); })},
      {"a rule that stops what its tangents are", false,
       leaky([&](In&, const Array& h) { return stopped(Arrays{h})[0]; })}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    CompileOptions options;
    options.control_flow.cond = ControlFlowPolicy::Cond::Opaque;
    const ETraceGraph g = compile_etrace_graph(row.model, options);
    EXPECT_EQ(g.hidden_groups[0].is_diagonal_recurrence, row.apart) << g.hidden_groups[0].mixing_reason;
    expect_covers(row.model, row.what);
  }
}

TEST(Positions, S119_ClosureOverSteps) {
  const Model m = sparse_model(ring());
  Matrix before = kIdentity4;
  for (std::int64_t n = 2; n <= 6; ++n) {
    const PositionPattern p = pattern_of(m, n);
    for (std::size_t i = 0; i < 16; ++i) EXPECT_LE(before[i], p.axes[0][i]) << "n " << n;
    EXPECT_EQ(p.axes[0] == kFull4, n >= 4) << "after n-1 steps around a ring of 4";
    before = p.axes[0];
  }
  EXPECT_FALSE(compile_etrace_graph(m, snap(1)).hidden_groups[0].snap.has_value())
      << "n = 1 is the diagonal rule";
}

TEST(Positions, S119_ManyParallelPathsDoNotCancel) {
  // 0 -> 1 … 256 -> 257: 256 ways of length two, a count that a byte would wrap to zero.
  Dims rows, cols;
  for (std::int64_t k = 1; k <= 256; ++k) {
    rows.insert(rows.end(), {0, k});
    cols.insert(cols.end(), {k, 257});
  }
  CompileOptions options = snap(3);
  options.snap_max_jacobian_elements = std::int64_t{1} << 25;
  const ETraceGraph g = compile_etrace_graph(sparse_model(SparsePattern::coo(258, 258, rows, cols)), options);
  EXPECT_TRUE(g.hidden_groups[0].snap->axes[0][257 * 258 + 0]);
}

TEST(Positions, S119_FlatIndicesRunOverTheLastAxisFirst) {
  const Model m = sparse_model(SparsePattern::coo(3, 3, {0}, {2}), {2});
  const PositionPattern p = pattern_of(m, 2);
  EXPECT_EQ(p.neighbours, (std::vector<Dims>{{0, 2}, {1, 1}, {2, 2}, {3, 5}, {4, 4}, {5, 5}}));
}

TEST(Positions, S120_NeighboursAreWhomAPositionInfluences) {
  const Model m = sparse_model(chain());
  const PositionPattern p = pattern_of(m, 2);
  EXPECT_EQ(p.neighbours, (std::vector<Dims>{{0, 1}, {1, 2}, {2, 3}, {3, 3}})) << "columns, not rows";
  EXPECT_EQ(p.valid.back(), (std::vector<bool>{true, false})) << "the last one is padded with itself";
  std::vector<Dims> before = p.neighbours;
  for (std::int64_t n = 3; n <= 5; ++n) {
    const PositionPattern wider = pattern_of(m, n);
    EXPECT_EQ(wider.num_neighbour(), static_cast<std::size_t>(std::min<std::int64_t>(n, 4)));
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(wider.neighbours[i][0], static_cast<std::int64_t>(i)) << "itself first";
      for (const std::int64_t q : before[i]) EXPECT_THAT(wider.neighbours[i], ::testing::Contains(q));
    }
    before = wider.neighbours;
  }
}

// Two states per position; v is mixed around the ring.
Model two_state_ring() {
  return step_model({arg("x", {4}), hidden("v", {4}), hidden("a", {4}), param("w", {4})}, [](In& in) {
    const Array v = in["v"], a = in["a"];
    in.set("v", tanh(0.5 * v - 0.2 * a + sparse_matmul(v, in["w"], ring()) + in["x"]));
    in.set("a", 0.8 * a + 0.1 * v);
    return in["v"];
  });
}

TEST(SnAp, S121_BudgetIsPositionsTimesWidthSquared) {
  const auto admits = [](const Model& m, std::int64_t limit) {
    CompileOptions options = snap(2);
    options.snap_max_jacobian_elements = limit;
    try {
      compile_etrace_graph(m, options);
      return true;
    } catch (const NotSupportedError& e) {
      EXPECT_THAT(e.what(), ::testing::AllOf(::testing::HasSubstr("snap_max_jacobian_elements"),
                                             ::testing::HasSubstr("sparse_n=2")));
      return false;
    }
  };
  EXPECT_TRUE(admits(sparse_model(ring()), 16)) << "4 positions × (2 neighbours × 1 state)²";
  EXPECT_FALSE(admits(sparse_model(ring()), 15));
  EXPECT_TRUE(admits(two_state_ring(), 64)) << "states count squared";
  EXPECT_FALSE(admits(two_state_ring(), 63));
}

TEST(SnAp, S122_WidenedOperatorPicksFromTheFullJacobian) {
  for (const Model& m : {sparse_model(chain()), two_state_ring()})
    for (std::int64_t n = 2; n <= 4; ++n) {
      const ETraceGraph g = compile_etrace_graph(m, snap(n));
      const HiddenGroup& group = g.hidden_groups[0];
      const Values values(g, m);
      const Tensor wide = diagonal_jacobian(group, values).tensor(),
                   full = full_jacobian(group, values).tensor();
      const auto k = static_cast<std::int64_t>(group.snap->num_neighbour());
      const std::int64_t s = group.num_state();
      ASSERT_EQ(wide.shape(), (Shape{4, k * s, k * s}));
      EXPECT_EQ(group.trace_state_width(), k * s);
      for (std::int64_t p = 0; p < 4; ++p)
        for (std::int64_t i = 0; i < k * s; ++i)
          for (std::int64_t j = 0; j < k * s; ++j) {
            const auto row = static_cast<std::size_t>(p), u = static_cast<std::size_t>(i / s),
                       v = static_cast<std::size_t>(j / s);
            const std::int64_t from = group.snap->neighbours[row][u], to = group.snap->neighbours[row][v];
            const double entry = to_double(full.at(((from * s + i % s) * 4 + to) * s + j % s));
            const bool real = group.snap->valid[row][u] && group.snap->valid[row][v];
            EXPECT_EQ(to_double(wide.at((p * k * s + i) * k * s + j)), real ? entry : 0.0);
          }
    }
}

TEST(SnAp, S122_WithoutNeighboursItIsTheBlockDiagonal) {
  const Model m = step_model({arg("x", {4}), hidden("v", {4}), hidden("a", {4})}, [](In& in) {
    const Array v = in["v"], a = in["a"];
    in.set("v", tanh(0.5 * v - 0.2 * a + in["x"]));
    in.set("a", 0.8 * a + 0.1 * v);
    return in["v"];
  });
  const ETraceGraph g = compile_etrace_graph(m, snap(3));
  ASSERT_TRUE(g.hidden_groups[0].snap->degenerate());
  HiddenGroup plain = g.hidden_groups[0];
  plain.snap.reset();
  plain.is_diagonal_recurrence = false;
  const Values values(g, m);
  expect_same(Arrays{diagonal_jacobian(g.hidden_groups[0], values)}, Arrays{diagonal_jacobian(plain, values)},
              0.0);
}

TEST(SnAp, S123_OptionsAreChecked) {
  const Model m = sparse_model(ring());
  CompileOptions without = snap(2);
  without.include_recurrent_mixing = false;
  EXPECT_THROW(compile_etrace_graph(m, without), NotSupportedError);
  EXPECT_THROW(compile_etrace_graph(m, snap(0)), ValueError);
  CompileOptions small = snap(2);
  small.snap_max_jacobian_elements = 8;
  EXPECT_THROW(compile_etrace_graph(m, small), NotSupportedError);
}

}  // namespace
}  // namespace etrace
