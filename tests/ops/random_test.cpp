// Random numbers: known answers of the generator, agreement with JAX, distributions, independence.
#include "etrace/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "etrace/transform.h"
#include "support/fingerprint.h"
#include "support/values.h"

namespace etrace::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<std::uint32_t> words(const Array& a) {
  const auto data = a.tensor().data<std::uint32_t>();
  return {data.begin(), data.end()};
}
double mean_of(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}
double variance_of(const std::vector<double>& v) {
  const double mean = mean_of(v);
  double sum = 0.0;
  for (const double x : v) sum += (x - mean) * (x - mean);
  return sum / static_cast<double>(v.size());
}

TEST(Random, KnownAnswersOfThreefry) {
  EXPECT_THAT(words(random::fold_in(random::key(0), 0)), ElementsAre(0x6b200159U, 0x99ba4efeU));
  EXPECT_THAT(words(random::bits(random::key(0), {1})), ElementsAre(0x6b200159U ^ 0x99ba4efeU));
}

TEST(Random, KeysAgreeWithJax) {
  EXPECT_THAT(words(random::key((std::uint64_t{7} << 32U) + 5)), ElementsAre(7U, 5U));
  EXPECT_THAT(words(random::split(random::key(0))),
              ElementsAre(1797259609U, 2579123966U, 928981903U, 3453687069U));
}

TEST(Random, NumbersAgreeWithJax) {
  EXPECT_NEAR(random::normal(random::key(42), {}).item<double>(), -0.028304616, 1e-8);
}

// Whatever machine and backend: these bits.
TEST(Random, BitsAreFixed) {
  const Array key = random::key(1);
  EXPECT_EQ(fingerprint(random::bits(key, {1000})), 5361930397906609989U);
  EXPECT_EQ(fingerprint(random::uniform(key, {1000}, Dtype::F32, -0.3, 0.7)), 10513261473572562757U);
  EXPECT_EQ(fingerprint(random::uniform(key, {1000}, Dtype::F64, -0.3, 0.7)), 11558675924707213443U);
  EXPECT_EQ(fingerprint(random::normal(key, {1000}, Dtype::F32)), 15542577648941639493U);
  EXPECT_EQ(fingerprint(random::normal(key, {1000}, Dtype::F64)), 9771036475912246106U);
  EXPECT_EQ(fingerprint(random::bernoulli(key, 0.3, {1000})), 13624298270029752133U);
  EXPECT_EQ(fingerprint(random::randint(key, {1000}, -5, 90)), 14748087114547046213U);
  EXPECT_EQ(fingerprint(random::permutation(key, 1000)), 229502262695143237U);
}

TEST(Random, ElementsDependOnTheirPositionOnly) {
  const Array key = random::key(3);
  const auto longer = words(random::bits(key, {10})), shorter = words(random::bits(key, {2, 3}));
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

TEST(Random, ManyKeysDrawLikeEach) {
  const Array keys = random::split(random::key(9), 3);
  const auto together = words(random::bits(keys, {4}));
  ASSERT_EQ(together.size(), 12U);
  for (std::int64_t k = 0; k < 3; ++k) {
    const auto alone = words(random::bits(squeeze(slice_axis(keys, 0, k, k + 1), {0}), {4}));
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + 4 * k)) << "key " << k;
  }
}

TEST(Random, VmapDrawsPerKey) {
  const Array keys = random::split(random::key(1), 3);
  const Function draw = [](ArraySpan x) { return Arrays{random::uniform(x[0], {5})}; };
  EXPECT_EQ(vmap(draw)(Arrays{keys})[0].tensor(), random::uniform(keys, {5}).tensor());
  const Function fold = [](ArraySpan x) { return Arrays{random::fold_in(random::key(1), x[0])}; };
  const Array folded = vmap(fold)(Arrays{arange(4)})[0];
  EXPECT_EQ(folded.shape(), (Shape{4, 2}));
  EXPECT_EQ(words(random::fold_in(random::key(1), 2))[1], words(folded)[5]);
}

TEST(Random, UniformStaysInItsInterval) {
  for (const Dtype t : {Dtype::F32, Dtype::F64}) {
    const std::vector<double> v = values(random::uniform(random::key(5), {20000}, t, -2.0, 3.0));
    EXPECT_GE(*std::min_element(v.begin(), v.end()), -2.0);
    EXPECT_LT(*std::max_element(v.begin(), v.end()), 3.0);
    EXPECT_NEAR(mean_of(v), 0.5, 0.05);
    EXPECT_NEAR(variance_of(v), 25.0 / 12.0, 0.05);
  }
  EXPECT_EQ(random::uniform(random::key(5), {0, 3}).shape(), (Shape{0, 3}));
}

TEST(Random, DoublesUseAllTheirBits) {
  const std::vector<double> v = values(random::uniform(random::key(5), {100}, Dtype::F64));
  EXPECT_TRUE(std::any_of(v.begin(), v.end(),
                          [](double x) { return x != static_cast<double>(static_cast<float>(x)); }));
}

TEST(Random, NormalHasItsMoments) {
  for (const Dtype t : {Dtype::F32, Dtype::F64}) {
    const std::vector<double> v = values(random::normal(random::key(6), {20000}, t));
    EXPECT_NEAR(mean_of(v), 0.0, 0.03);
    EXPECT_NEAR(variance_of(v), 1.0, 0.04);
    EXPECT_TRUE(std::all_of(v.begin(), v.end(), [](double x) { return std::isfinite(x); }));
  }
}

TEST(Random, Bernoulli) {
  const Array coins = random::bernoulli(random::key(7), 0.3, {20000});
  EXPECT_EQ(coins.dtype(), Dtype::Bool);
  EXPECT_NEAR(mean_of(values(coins)), 0.3, 0.02);
  EXPECT_THAT(values(random::bernoulli(random::key(7), 0.0, {50})), Each(0));
  EXPECT_THAT(values(random::bernoulli(random::key(7), 1.0, {50})), Each(1));
}

TEST(Random, IntegersCoverTheirInterval) {
  const std::vector<double> v = values(random::randint(random::key(8), {2000}, -2, 3));
  EXPECT_EQ(std::set<double>(v.begin(), v.end()), (std::set<double>{-2, -1, 0, 1, 2}));
  EXPECT_EQ(random::randint(random::key(8), {3}, 0, 10, Dtype::I64).dtype(), Dtype::I64);
  const std::int64_t low = std::numeric_limits<std::int32_t>::min(),
                     high = std::numeric_limits<std::int32_t>::max();
  const std::vector<double> wide = values(random::randint(random::key(8), {2000}, low, high));
  EXPECT_LT(*std::min_element(wide.begin(), wide.end()), -1e9);
  EXPECT_GT(*std::max_element(wide.begin(), wide.end()), 1e9);
}

TEST(Random, PermutationHoldsEachNumberOnce) {
  std::vector<double> v = values(random::permutation(random::key(4), 100));
  EXPECT_FALSE(std::is_sorted(v.begin(), v.end()));
  std::sort(v.begin(), v.end());
  for (std::size_t i = 0; i < v.size(); ++i) EXPECT_EQ(v[i], static_cast<double>(i));
  EXPECT_EQ(random::permutation(random::key(4), 0).shape(), (Shape{0}));
  EXPECT_THAT(values(random::permutation(random::key(4), 1)), ElementsAre(0));
}

TEST(Random, RecordedDrawsEqualEagerOnes) {
  const Array key = random::key(11);
  const ClosedJaxpr program = make_jaxpr(
      [](ArraySpan x) {
        return Arrays{random::normal(x[0], {3}), random::uniform(x[0], {3}, Dtype::F64),
                      random::permutation(x[0], 5), random::randint(x[0], {4}, 0, 6)};
      },
      Avals{key.aval()});
  const Arrays recorded = eval_jaxpr(program, Arrays{key});
  EXPECT_EQ(recorded[0].tensor(), random::normal(key, {3}).tensor());
  EXPECT_EQ(recorded[1].tensor(), random::uniform(key, {3}, Dtype::F64).tensor());
  EXPECT_EQ(recorded[2].tensor(), random::permutation(key, 5).tensor());
  EXPECT_EQ(recorded[3].tensor(), random::randint(key, {4}, 0, 6).tensor());
}

TEST(RandomErrors, NameWhatIsWrong) {
  const Array key = random::key(0);
  EXPECT_THROW(random::bits(zeros({3}), {2}), TypeError);
  EXPECT_THROW(random::split(arange(3, Dtype::U32)), TypeError);
  EXPECT_THROW(random::uniform(key, {2}, Dtype::I32), TypeError);
  EXPECT_THROW(random::uniform(key, {2}, Dtype::F32, 1.0, 0.0), ValueError);
  EXPECT_THROW(random::randint(key, {2}, 3, 3), ValueError);
  EXPECT_THROW(random::randint(key, {2}, 0, std::int64_t{1} << 40), ValueError);
  EXPECT_THROW(random::randint(key, {2}, 0, 3, Dtype::F32), TypeError);
  EXPECT_THROW(bind1(random_bits_p, {key}, {{"bit_width", 64}, {"shape", Dims{2}}}), NotSupportedError);
}

}  // namespace
}  // namespace etrace::testing
