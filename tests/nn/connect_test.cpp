// Patterns of connections: what they promise, at sizes at which pairs cannot be counted.
#include "etrace/nn/connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "etrace/nn.h"
#include "etrace/random.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace {
namespace {

using namespace nn::connect;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::f64;
using testing::values;
using Vector = std::vector<double>;

Array whole(const Vector& numbers) { return convert(f64(numbers), Dtype::I32); }

Dims degrees(const Table& ends, std::int64_t n) {
  Dims count(static_cast<std::size_t>(n));
  for (const std::int64_t e : ends) ++count[static_cast<std::size_t>(e)];
  return count;
}

// Every pair once, by sender and then by receiver.
void expect_ordered(const SparsePattern& p) {
  for (std::size_t e = 1; e < p.row().size(); ++e)
    ASSERT_LT(std::pair(p.row()[e - 1], p.col()[e - 1]), std::pair(p.row()[e], p.col()[e]));
}

TEST(Connect, AHundredThousandNeuronsCostTheirConnections) {
  constexpr std::int64_t n = 100'000;
  const SparsePattern in = fixed_in_degree(n, n, 10, {.self = false, .seed = 1});
  EXPECT_EQ(in.nnz(), 10 * n);
  expect_ordered(in);
  EXPECT_THAT(degrees(in.col(), n), Each(10));
  for (std::size_t e = 0; e < in.row().size(); ++e) ASSERT_NE(in.row()[e], in.col()[e]);
  EXPECT_EQ(fixed_out_degree(n, n, 10).nnz(), 10 * n);
  const SparsePattern p = fixed_probability(n, n, 1e-4, {.seed = 2});
  expect_ordered(p);
  EXPECT_NEAR(static_cast<double>(p.nnz()), 1e6, 5e3);
  EXPECT_EQ(one_to_one(n).nnz(), n);
  EXPECT_EQ(small_world(n, 10, 0.1).nnz(), 10 * n);
  EXPECT_EQ(scale_free(n, 5).nnz(), 2 * 5 * (n - 5));
  const Array line = reshape(iota(Dtype::F64, {n}, 0), {n, 1});
  EXPECT_EQ(within(line, line, 2.0, false).nnz(), 4 * n - 6);
  EXPECT_NEAR(static_cast<double>(by_distance(line, line, [](double) { return 0.5; }, {.reach = 10.0}).nnz()),
              10.5 * n, 2e3);
  Vector kinds(n);
  for (std::size_t i = 1; i < kinds.size(); i += 2) kinds[i] = 1.0;
  const Array type = whole(kinds);
  EXPECT_NEAR(static_cast<double>(by_type(type, type, array({{1e-4, 0.0}, {2e-4, 4e-4}})).nnz()), 1.75e6,
              6e3);
}

TEST(Connect, EveryPairIsAsLikelyAsItShouldBe) {
  Vector probability(12), in(12), typed(12), world(12);
  constexpr int kDraws = 4000;
  const Array a = whole({0, 1, 0}), b = whole({1, 0, 2, 1});
  const std::vector<double> p = {0.1, 0.5, 0.9, 0.3, 1.0, 0.0};
  for (int seed = 0; seed < kDraws; ++seed) {
    const auto add = [](Vector& to, const SparsePattern& s) {
      for (std::size_t e = 0; e < s.row().size(); ++e)
        to[static_cast<std::size_t>(s.row()[e] * s.cols() + s.col()[e])] += 1.0 / kDraws;
    };
    const auto k = static_cast<std::uint64_t>(seed);
    add(probability, fixed_probability(3, 4, 0.35, {.seed = k}));
    add(in, fixed_in_degree(3, 4, 2, {.self = false, .seed = k}));
    add(typed, by_type(a, b, reshape(array(p), {2, 3}), {.seed = k}));
  }
  const auto types_a = {0, 1, 0}, types_b = {1, 0, 2, 1};
  std::size_t at = 0;
  for (const int i : types_a)
    for (const int j : types_b) {
      const auto row = static_cast<std::int64_t>(at / 4), col = static_cast<std::int64_t>(at % 4);
      EXPECT_NEAR(probability[at], 0.35, 0.04);
      EXPECT_NEAR(typed[at], p[static_cast<std::size_t>(3 * i + j)], 0.04);
      // Receivers 0 to 2 leave themselves out and take both others.
      EXPECT_NEAR(in[at], col == 3 ? 2.0 / 3.0 : row == col ? 0.0 : 1.0, 0.04);
      ++at;
    }
}

TEST(Connect, NearbyNeuronsAreThoseThatAskingAllPairsFinds) {
  for (const int dimensions : {1, 2, 3})
    for (const double reach : {0.0, 0.05, 0.3, 2.0}) {
      const Array pre = random::uniform(random::key(7), {60, dimensions}, Dtype::F64, -0.5, 0.5);
      const Array post = random::uniform(random::key(8), {80, dimensions}, Dtype::F64);
      const SparsePattern near = within(pre, post, reach);
      const Vector x = values(pre), y = values(post);
      Dims row, col;
      for (std::int64_t i = 0; i < 60; ++i)
        for (std::int64_t j = 0; j < 80; ++j) {
          double square = 0.0;
          for (int d = 0; d < dimensions; ++d) {
            const double gap = x[static_cast<std::size_t>(i * dimensions + d)] -
                               y[static_cast<std::size_t>(j * dimensions + d)];
            square += gap * gap;
          }
          if (std::sqrt(square) <= reach) {
            row.push_back(i);
            col.push_back(j);
          }
        }
      const SparsePattern all = SparsePattern::coo(60, 80, row, col);
      EXPECT_EQ(near.row(), all.row());
      EXPECT_EQ(near.col(), all.col());
    }
}

TEST(Connect, SmallWorldsAndHubs) {
  const SparsePattern ring = small_world(9, 4, 0.0);
  expect_ordered(ring);
  for (std::size_t e = 0; e < ring.row().size(); ++e) {
    const int apart = (ring.col()[e] - ring.row()[e] + 9) % 9;
    EXPECT_TRUE(apart <= 2 || apart >= 7) << apart;
  }
  const SparsePattern random = small_world(200, 10, 1.0);
  expect_ordered(random);
  EXPECT_THAT(degrees(random.row(), 200), Each(10));
  int near = 0;
  for (std::size_t e = 0; e < random.row().size(); ++e) {
    EXPECT_NE(random.row()[e], random.col()[e]);
    const int apart = (random.col()[e] - random.row()[e] + 200) % 200;
    near += apart <= 5 || apart >= 195 ? 1 : 0;
  }
  EXPECT_LT(near, 200);  // of 2,000; 100 by chance

  const SparsePattern hubs = scale_free(2000, 3);
  expect_ordered(hubs);
  EXPECT_EQ(degrees(hubs.row(), 2000), degrees(hubs.col(), 2000));
  const Dims links = degrees(hubs.row(), 2000);
  EXPECT_GE(*std::min_element(links.begin() + 3, links.end()), 3);
  EXPECT_GT(*std::max_element(links.begin(), links.end()), 60);  // about 3 √2000; a random graph has some 20
}

TEST(Connect, RulesGiveWhatTheyPromise) {
  EXPECT_EQ(all_to_all(3, 4).nnz(), 12);
  EXPECT_EQ(all_to_all(4, 4, false).nnz(), 12);
  EXPECT_THAT(one_to_one(3).col(), ElementsAre(0, 1, 2));
  const SparsePattern sparse = fixed_probability(200, 100, 0.1, {.self = false, .seed = 3});
  EXPECT_NEAR(static_cast<double>(sparse.nnz()) / 20000.0, 0.1, 0.01);
  for (std::int64_t e = 0; e < sparse.nnz(); ++e)
    EXPECT_NE(sparse.row()[static_cast<std::size_t>(e)], sparse.col()[static_cast<std::size_t>(e)]);
  EXPECT_EQ(sparse.row(), fixed_probability(200, 100, 0.1, {.self = false, .seed = 3}).row());
  EXPECT_NE(sparse.row(), fixed_probability(200, 100, 0.1, {.self = false, .seed = 4}).row());

  const SparsePattern in = fixed_in_degree(30, 20, 7, {.self = false});
  for (const std::int64_t d : degrees(in.col(), 20)) EXPECT_EQ(d, 7);
  EXPECT_EQ(in.nnz(), 140);
  const SparsePattern out = fixed_out_degree(30, 20, 5);
  for (const std::int64_t d : degrees(out.row(), 30)) EXPECT_EQ(d, 5);
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::size_t e = 0; e < out.row().size(); ++e) pairs.emplace(out.row()[e], out.col()[e]);
  EXPECT_EQ(pairs.size(), 150U);

  const Array places = grid({5, 5});
  EXPECT_EQ(places.shape(), (Shape{25, 2}));
  const SparsePattern near = within(places, places, 1.0, false);
  EXPECT_EQ(near.nnz(), 2 * 2 * 5 * 4);
  const SparsePattern sure =
      by_distance(places, places, [](double d) { return d <= 1.0 ? 1.0 : 0.0; }, {.self = false});
  EXPECT_EQ(sure.row(), near.row());
  EXPECT_EQ(sure.col(), near.col());
  EXPECT_THAT(nonzero(array({{0.0, 1.0}, {2.0, 0.0}})).col(), ElementsAre(1, 0));
}

TEST(Connect, MistakesAreNamed) {
  EXPECT_THROW(fixed_probability(2, 2, 1.5), ValueError);
  EXPECT_THROW(fixed_in_degree(3, 2, 4), ValueError);
  EXPECT_THROW(fixed_out_degree(3, 3, 3, {.self = false}), ValueError);
  EXPECT_THROW(by_distance(zeros({3, 2}), zeros({3, 1}), [](double) { return 1.0; }), ValueError);
  EXPECT_THROW(dale_signs(3, 4), ValueError);
  EXPECT_THROW(all_to_all(-1, 2), ValueError);
  EXPECT_THROW(by_type(whole({0, 2}), whole({0}), ones({2, 1})), ValueError);
  EXPECT_THROW(by_type(f64({0.0}), whole({0}), ones({1, 1})), ValueError);
  EXPECT_THROW(small_world(4, 3, 0.0), ValueError);
  EXPECT_THROW(small_world(4, 4, 0.0), ValueError);
  EXPECT_THROW(scale_free(3, 3), ValueError);
  EXPECT_THROW(within(array({{std::nan("")}}), zeros({1, 1}), 1.0), ValueError);
}

TEST(Connect, DalesLaw) {
  EXPECT_THAT(values(dale_signs(3, 2)), ElementsAre(1, 1, -1));
  nn::SignedWLinear dense(3, 2, {.weight_init = nn::init::normal(), .sign = dale_signs(3, 2)});
  const Array one = eye(3);
  const Vector y = values(dense(one));
  for (std::size_t k = 0; k < 6; ++k) EXPECT_EQ(y[k] >= 0.0, k < 4);
  const SparsePattern p = all_to_all(3, 2);
  nn::SparseLinear sparse(p, {.sign = dale_signs(p, 2)});
  const Vector z = values(sparse(one));
  for (std::size_t k = 0; k < 6; ++k) EXPECT_EQ(z[k] >= 0.0, k < 4);
}

}  // namespace
}  // namespace etrace
