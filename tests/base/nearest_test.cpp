// Names that were mistyped.
#include "base/nearest.h"

#include <gtest/gtest.h>

#include "etrace/loss.h"
#include "etrace/models.h"
#include "etrace/nn.h"
#include "etrace/optim.h"
#include "etrace/param_values.h"
#include "etrace/tasks.h"
#include "support/values.h"

namespace etrace {
namespace {

using testing::expect_error;

const std::vector<std::string> kVerbs{"check", "demo", "explain", "ops", "print", "train", "verify"};

TEST(NearestName, ForgivesAFewLetters) {
  EXPECT_EQ(nearest_name("explan", kVerbs), "explain");   // missing
  EXPECT_EQ(nearest_name("trainn", kVerbs), "train");     // surplus
  EXPECT_EQ(nearest_name("verefy", kVerbs), "verify");    // wrong
  EXPECT_EQ(nearest_name("pritn", kVerbs), "print");      // swapped
  EXPECT_EQ(nearest_name("EXPLAIN", kVerbs), "explain");  // another case
  EXPECT_EQ(nearest_name("op", kVerbs), "ops");
  const std::vector<std::string> losses{"binary_cross_entropy", "cross_entropy"};
  EXPECT_EQ(nearest_name("cross-entropy", losses), "cross_entropy");
  EXPECT_EQ(nearest_name("crossentropy", losses), "cross_entropy");
}

TEST(NearestName, TakesTheClosestAndTheFirstAmongEquals) {
  EXPECT_EQ(nearest_name("lif_exp", std::vector<std::string>{"lif", "lif_expon"}), "lif_expon");
  EXPECT_EQ(nearest_name("updats", std::vector<std::string>{"update", "updates"}), "updates");
  EXPECT_EQ(nearest_name("tahn", std::vector<std::string>{"tan", "tanh"}), "tanh");
  EXPECT_EQ(nearest_name("gra", std::vector<std::string>{"gru", "grb"}), "gru");
}

TEST(NearestName, FindsAPathByItsEnd) {
  const std::vector<std::string> paths{"rnn/Wz/weight.bias", "rnn/Wz/weight.weight", "out/weight"};
  EXPECT_EQ(nearest_name("Wz/weight.weight", paths), "rnn/Wz/weight.weight");
  EXPECT_EQ(nearest_name("rnn/Wz", paths), "rnn/Wz/weight.bias");
}

TEST(NearestName, DoesNotGuessWildly) {
  EXPECT_EQ(nearest_name("nowhere", kVerbs), "");
  EXPECT_EQ(nearest_name("", kVerbs), "");
  EXPECT_EQ(nearest_name("x", kVerbs), "");
  EXPECT_EQ(nearest_name("gru", {}), "");
  EXPECT_EQ(nearest_name("a", std::vector<std::string>{"b"}), "");
}

TEST(NearestName, TheSentence) {
  EXPECT_EQ(no_such_name("verb", "explan", std::vector<std::string>{"explain", "print"}),
            "there is no verb 'explan' (did you mean explain?); expected one of explain, print");
  EXPECT_EQ(no_such_name("verb", "zzz", std::vector<std::string>{"explain", "print"}),
            "there is no verb 'zzz'; expected one of explain, print");
}

TEST(NearestName, IsUsedWhereverNamesAreLookedUp) {
  expect_error<ValueError>("'crossentropy' (did you mean cross_entropy?)",
                           [] { loss::find("crossentropy"); });
  expect_error<ValueError>("'adan' (did you mean adam?)", [] { optim::make("adan"); });
  expect_error<ValueError>("'copyng' (did you mean copying?)", [] { make_task("copyng"); });
  expect_error<ValueError>("'lags' (did you mean lag?)", [] {
    make_task("copying", {.settings = {{"lags", 3}}});
  });
  expect_error<ValueError>("'gruu' (did you mean gru?)", [] { make_model("gruu"); });
  expect_error<ValueError>("'tahn' (did you mean tanh?)", [] { nn::activation("tahn"); });
  expect_error<ValueError>("'Wz/weight.bias' (did you mean rnn/Wz/weight.bias?)", [] {
    const ReadyModel model = make_model("gru");
    param_values(*model.module).at("Wz/weight.bias");
  });
  expect_error<ValueError>("'out/weight.bais' names no parameter (did you mean out/weight.bias?)", [] {
    const ReadyModel model = make_model("gru");
    optim::make("sgd", {.common = {.frozen = {"out/weight.bais"}}})->bind(*model.module);
  });
  expect_error<CompilationError>("'tahn' (did you mean tanh?)",
                                 [] { parse("{ lambda ; a:f32[]. let b:f32[] = tahn a in (b,) }"); });
}

}  // namespace
}  // namespace etrace
