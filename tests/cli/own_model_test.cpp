// Runs with models of one's own: layers in words, and model files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/train_fixture.h"

namespace etrace {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::contents;
using ::testing::HasSubstr;
using testing::operator+;  // NOLINT(misc-unused-using-decls): operators are not seen
using testing::Process;
using testing::run_etrace;
using testing::Words;

class OwnModel : public testing::TrainFixture {
 protected:
  Process::Result run(const Words& words) const {
    return run_etrace(words, {.environment = {"ETRACE_RUNS=" + file("runs")}});
  }
  Process::Result train(const Words& more) const {
    return run(Words{"train", "copying", "--set", "lag=1", "--set", "symbols=1", "--set", "alphabet=2",
                     "--updates", "6", "--check-every", "2", "--backend", "interpreter", "--quiet"} +
               more);
  }
  std::string last_line(const Process::Result& r) const {
    const std::string text = r.text.substr(0, r.text.find_last_not_of('\n') + 1);
    return text.substr(text.rfind('\n') + 1);
  }
  nlohmann::json final_of(const std::string& name) const {
    return nlohmann::json::parse(contents(file("runs/" + name + "/run.json"))).at("final");
  }
};

TEST_F(OwnModel, LayersOfAFileAreTrainedScoredAndGoOn) {
  std::ofstream(file("net.toml")) << "[[layer]]\nsize = 6\ntype = \"ALIF\"\nbeta = 0.2\n\n[[layer]]\ntype = "
                                     "\"GRU\"\nsize = 4\n";
  const auto r = train({"--model", file("net.toml"), "--name", "a", "--batch", "4"});
  ASSERT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(contents(file("runs/a/config.toml")),
              AllOf(HasSubstr("[[layer]]\ntype = \"ALIF\""), HasSubstr("beta = 0.2"), HasSubstr("size = 4")));
  fs::remove(file("net.toml"));
  EXPECT_EQ(last_line(run({"eval", file("runs/a"), "--backend", "interpreter"})), last_line(r));
  // The same in words, and a run that was cut in two.
  ASSERT_EQ(train({"--layer", "type=ALIF,size=6,beta=0.2", "--layer", "type=GRU,size=4", "--name", "b",
                   "--batch", "4", "--updates", "3"})
                .code,
            0);
  ASSERT_EQ(run({"train", file("runs/b"), "--resume", "--updates", "6"}).code, 0);
  EXPECT_EQ(final_of("a"), final_of("b"));
  const auto explained = run({"explain", file("runs/a"), "--level", "1"});
  EXPECT_EQ(explained.code, 0);
  EXPECT_THAT(explained.text, HasSubstr("Weights that are learned online:"));
  const auto verified = run({"verify", file("runs/a"), "--steps", "4", "--lags", "0"});
  EXPECT_EQ(verified.code, 0) << verified.text;
  EXPECT_THAT(verified.text, HasSubstr("layers: D_RTRL, 4 steps, float64"));
  EXPECT_EQ(run({"summary", file("runs/a")}).code, 0);
}

TEST_F(OwnModel, WhatIsNoLayerIsSaid) {
  const auto text = [&](const std::string& layer) {
    return train({"--layer", layer, "--runs", "none"}).text;
  };
  EXPECT_THAT(text("type=LIF,siz=8"),
              HasSubstr("layer 1 (LIF): there is no option 'siz' (did you mean size?)"));
  EXPECT_THAT(text("type=LIF"), HasSubstr("layer 1 (LIF): size is missing"));
  EXPECT_THAT(text("type=LIF,size=0"), HasSubstr("expected a whole number from 1 on"));
  EXPECT_THAT(text("type=LIFF,size=8"), HasSubstr("there is no type 'LIFF' (did you mean LIF?)"));
  EXPECT_THAT(text("LIF"), HasSubstr("as in type=LIF,size=128"));
  EXPECT_THAT(text("type=LIF,size=4,reset=sof"), HasSubstr("did you mean soft?"));
  EXPECT_THAT(train({"--layer", "type=Linear", "--layer", "type=GRU,size=2", "--runs", "none"}).text,
              HasSubstr("layer 2 (GRU): the layer before it is the readout"));
  EXPECT_THAT(train({"--model", "gru", "--layer", "type=GRU,size=2"}).text, HasSubstr("a run has one model"));
}

TEST_F(OwnModel, EveryTypeOfLayerLearns) {
  for (const char* type : {"ALIF", "CFN", "GRU", "IF", "LIF", "LIFRef", "LRU", "LSTM", "MGU", "MiniGRU",
                           "MiniLSTM", "MinimalRNN", "RNN", "URLSTM"}) {
    const auto r = train({"--layer", "type=LayerNorm", "--layer", std::string("type=") + type + ",size=3",
                          "--runs", "none", "--updates", "1", "--batch", "2"});
    EXPECT_EQ(r.code, 0) << type << ": " << r.text;
  }
}

// A step of one sample, and a step of a batch: the same numbers as the model that they were traced from.
TEST_F(OwnModel, AModelFileIsTrainedScoredAndGoesOn) {
  const Words sizes{"--sizes", "4,5,4"};
  ASSERT_EQ(run(Words{"print", "gru", "--save", file("one.json")} + sizes).code, 0);
  ASSERT_EQ(run(Words{"print", "gru", "--save", file("four.json"), "--batch", "4"} + sizes).code, 0);
  for (const char* name : {"one", "four"}) {
    const auto r = train({"--model", file(std::string(name) + ".json"), "--name", name, "--batch", "4"});
    ASSERT_EQ(r.code, 0) << r.text;
    fs::remove(file(std::string(name) + ".json"));
    EXPECT_EQ(last_line(run({"eval", file(std::string("runs/") + name), "--backend", "interpreter"})),
              last_line(r));
    EXPECT_EQ(run({"explain", file(std::string("runs/") + name)}).code, 0);
    EXPECT_EQ(run({"verify", file(std::string("runs/") + name), "--steps", "4", "--lags", "0"}).code, 0);
  }
  ASSERT_EQ(
      train({"--model", "gru", "--hidden", "5", "--memory", "0", "--batch", "4", "--name", "built"}).code, 0);
  EXPECT_NEAR(final_of("one").at("loss").get<double>(), final_of("built").at("loss").get<double>(), 1e-5);
  EXPECT_NEAR(final_of("four").at("loss").get<double>(), final_of("built").at("loss").get<double>(), 1e-5);
  const auto on = run({"train", file("runs/one"), "--resume", "--updates", "8", "--quiet"});
  EXPECT_EQ(on.code, 0) << on.text;
}

TEST_F(OwnModel, AModelFileThatDoesNotFitIsSaid) {
  ASSERT_EQ(run({"print", "gru", "--save", file("a.json"), "--sizes", "7,5,4"}).code, 0);
  EXPECT_THAT(train({"--model", file("a.json")}).text, HasSubstr("takes 7 features, and the task has 4"));
  ASSERT_EQ(run({"print", "gru", "--save", file("b.json"), "--sizes", "4,5,4", "--batch", "2"}).code, 0);
  EXPECT_THAT(train({"--model", file("b.json"), "--batch", "8"}).text,
              HasSubstr("has a step of 2 samples, and the batch has 8"));
  EXPECT_THAT(train({"--model", file("b.json"), "--dtype", "f64"}).text, HasSubstr("add --dtype f32"));
}

}  // namespace
}  // namespace etrace
