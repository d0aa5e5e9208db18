// The files of `etrace train`: none destroys another, none that cannot be written costs a result, and
// parameters that were saved come back.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/train_fixture.h"
#include "etrace/save.h"

namespace etrace {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::contents;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::operator+;
using testing::Process;
using testing::run_etrace;
using testing::Words;

class TrainFiles : public testing::TrainFixture {
 protected:
  // The events of a log as "batch 1", in order.
  static Words events(const std::string& path) {
    Words out;
    std::ifstream log(path);
    for (std::string line; std::getline(log, line);) {
      const auto json = nlohmann::json::parse(line);
      out.push_back(json.at("event").get<std::string>() + " " +
                    std::to_string(json.at("batches").get<int>()));
    }
    return out;
  }
  static std::string last_line(const std::string& text) {
    const std::string whole = text.substr(0, text.find_last_not_of('\n') + 1);
    return whole.substr(whole.find_last_of('\n') + 1);
  }
};

// One file for each -----------------------------------------------------------------------------------------
TEST_F(TrainFiles, OneFileUnderTwoOptionsIsRefusedBeforeTraining) {
  fs::create_directory(file("d"));
  fs::create_symlink("target.npz", file("link.npz"));  // to what is not there yet
  std::ofstream(file("a.npz")) << "kept";
  fs::create_hard_link(file("a.npz"), file("hard"));
  const std::vector<Words> pairs{
      {"--save", file("x.npz"), "--checkpoint", file("x.npz")},
      {"--save", file("x.npz"), "--json", file("x.npz")},
      {"--checkpoint", file("x"), "--json", file("x")},
      {"--save", file("x.npz"), "--json", file("d/../x.npz")},
      {"--save", file("x.npz"), "--json", file("./x.npz")},
      {"--save", file("link.npz"), "--json", file("target.npz")},
      {"--save", file("a.npz"), "--json", file("hard")},
      {"--load", file("a.npz"), "--json", file("a.npz")},
  };
  for (const Words& pair : pairs) {
    const auto r = run_etrace(tiny({"--updates", "2"}) + pair);
    EXPECT_EQ(r.code, 2) << r.text;
    EXPECT_THAT(r.text, AllOf(HasSubstr("are the same file"), HasSubstr(pair[0]), HasSubstr(pair[2]),
                              Not(HasSubstr("never trained on"))));
  }
  EXPECT_EQ(contents(file("a.npz")), "kept");
  EXPECT_FALSE(fs::exists(file("x.npz")));
  // A device is no file that could be destroyed.
  EXPECT_EQ(run_etrace(tiny({"--updates", "1", "--json", "/dev/null", "--save", file("y.npz")})).code, 0);
}

// Files that cannot be written ------------------------------------------------------------------------------
TEST_F(TrainFiles, ScoreIsPrintedThoughParametersCannotBeSaved) {
  fs::create_symlink("/dev/full", file("full.npz"));
  const auto r = run_etrace(tiny({"--updates", "2", "--save", file("full.npz")}));
  EXPECT_EQ(r.code, 2) << r.text;
  EXPECT_THAT(r.text,
              AllOf(HasSubstr("the parameters are not saved: cannot write"), HasSubstr("No space left"),
                    HasSubstr("on 16 batches never trained on: loss "), Not(HasSubstr("wrote "))));
}

TEST_F(TrainFiles, AFailedCheckpointWarnsAndTheNextIsTried) {
  fs::create_directory(file("d"));
  const Words run = tiny({"--updates", "3000", "--checkpoint", file("d/c"), "--every", "20"});
  {
    Process child(run);
    std::string line;
    while (child.read_line(line) && line.find("300/3000") == std::string::npos) {
    }
    fs::rename(file("d"), file("away"));
    while (child.read_line(line) && line.find("no checkpoint after ") == std::string::npos) {
    }
    EXPECT_THAT(line, HasSubstr("the run goes on, and the next one is tried"));
    fs::rename(file("away"), file("d"));
    const auto r = child.wait();
    EXPECT_EQ(r.code, 0) << r.text;
    EXPECT_THAT(r.text, HasSubstr("wrote " + file("d/c")));
  }
  EXPECT_TRUE(fs::exists(file("d/c")));
  fs::remove(file("d/c"));

  Process child(run);
  std::string line;
  while (child.read_line(line) && line.find("300/3000") == std::string::npos) {
  }
  fs::rename(file("d"), file("away"));
  const auto r = child.wait();
  EXPECT_EQ(r.code, 2) << r.text;
  EXPECT_THAT(r.text, AllOf(HasSubstr("no checkpoint after 3000 updates: cannot create"),
                            HasSubstr("on 16 batches never trained on: loss "), Not(HasSubstr("wrote "))));
}

TEST_F(TrainFiles, ALogThatCannotBeWrittenFailsAtTheStart) {
  const auto r = run_etrace(tiny({"--updates", "2", "--json", "/dev/full"}));
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.text, AllOf(HasSubstr("the log '/dev/full' could not be written"), Not(HasSubstr("2/2"))));
}

// The log ---------------------------------------------------------------------------------------------------
TEST_F(TrainFiles, AResumedRunLogsEveryBatchOnce) {
  const Words run = tiny({"--quiet", "--checkpoint", file("c"), "--json", file("log"), "--resume"});
  ASSERT_EQ(run_etrace(run + Words{"--updates", "3"}).code, 0);
  fs::copy_file(file("c"), file("c3"));
  ASSERT_EQ(run_etrace(run + Words{"--updates", "6"}).code, 0);
  // As if the run had been killed with its last checkpoint after three batches, and while it wrote a line.
  fs::rename(file("c3"), file("c"));
  std::ofstream(file("log"), std::ios::app) << R"({"event":"batch","batc)";
  ASSERT_EQ(run_etrace(run + Words{"--updates", "5"}).code, 0);
  EXPECT_EQ(events(file("log")), (Words{"start 0", "batch 1", "batch 2", "batch 3", "end 3", "start 3",
                                        "start 3", "batch 4", "batch 5", "end 5"}));
}

TEST_F(TrainFiles, AKilledRunLogsEveryBatchOnce) {
  const Words run = tiny({"--every", "7", "--checkpoint", file("c"), "--json", file("log"), "--resume"});
  for (const char* point : {" 400/4000", " 800/4000"}) {
    Process child(run + Words{"--updates", "4000"});
    for (std::string line; child.read_line(line) && !line.starts_with(point);) {
    }
    child.kill(SIGKILL);
    child.wait();
  }
  ASSERT_LT(run_etrace(run + Words{"--updates", "4000", "--until-accuracy", "1"}).code, 2);
  std::map<std::string, int> times;
  for (const std::string& e : events(file("log"))) ++times[e];
  int batches = 0;
  for (const auto& [event, count] : times) {
    batches += event.starts_with("batch ");
    EXPECT_TRUE(count == 1 || event.starts_with("start ")) << event;
  }
  EXPECT_EQ(times.count("batch " + std::to_string(batches)), 1U) << "no batch is left out";
}

TEST_F(TrainFiles, AResumedRunRefusesAFileThatIsNoLog) {
  const Words run = tiny({"--quiet", "--checkpoint", file("c"), "--resume"});
  ASSERT_EQ(run_etrace(run + Words{"--updates", "2"}).code, 0);
  std::ofstream(file("notes")) << "dear diary\n";
  const auto r = run_etrace(run + Words{"--updates", "3", "--json", file("notes")});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.text, HasSubstr("line 1 of '" + file("notes") + "' is no line of a log of `etrace train`"));
  EXPECT_EQ(contents(file("notes")), "dear diary\n");
}

TEST_F(TrainFiles, TheLogMayBeStandardOutput) {
  const auto r = run_etrace(tiny({"--updates", "2", "--json", "-"}), {.output_to = file("out")});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(events(file("out")), (Words{"start 0", "batch 1", "batch 2", "end 2"}));
  EXPECT_THAT(r.text, AllOf(HasSubstr("task copying"), HasSubstr("on 16 batches never trained on: loss ")));
  EXPECT_FALSE(fs::exists("-"));
}

// Saved parameters ------------------------------------------------------------------------------------------
TEST_F(TrainFiles, EvalGivesTheScoreThatTrainingEndedWith) {
  for (const char* name : {"p.safetensors", "p.npz"}) {
    const auto trained =
        run_etrace(tiny({"--updates", "60", "--seed", "3", "--quiet", "--save", file(name)}));
    ASSERT_EQ(trained.code, 0);
    // What an npz file cannot say is given.
    Words command{"eval", "--load", file(name)};
    if (std::string(name).ends_with("npz"))
      command =
          command + Words{"copying",    "--model",  "gru", "--set",   "lag=1", "--set",  "symbols=1", "--set",
                          "alphabet=2", "--hidden", "4",   "--batch", "2",     "--seed", "3"};
    const auto r = run_etrace(command);
    EXPECT_EQ(r.code, 0) << r.text;
    EXPECT_EQ(last_line(r.text), last_line(trained.text));
    const auto json = nlohmann::json::parse(run_etrace(command + Words{"--json"}).text);
    EXPECT_EQ(json.at("settings").at("--set lag"), "1");
    EXPECT_GT(json.at("loss").get<double>(), 0.0);
    EXPECT_EQ(json.at("batches"), 16);
  }
}

TEST_F(TrainFiles, EvalScoresTasksWithoutLabels) {
  ASSERT_EQ(run_etrace({"train", "integrator", "--set", "steps=3", "--hidden", "2", "--batch", "2",
                        "--updates", "1", "--save", file("p.safetensors")})
                .code,
            0);
  const auto r = run_etrace({"eval", "integrator", "--load", file("p.safetensors"), "--batches", "1"});
  EXPECT_THAT(last_line(r.text), ::testing::MatchesRegex("on 1 batch never trained on: loss [-0-9.e]+"));
}

TEST_F(TrainFiles, TrainingGoesOnFromSavedParameters) {
  ASSERT_EQ(run_etrace(tiny({"--updates", "5", "--save", file("p.safetensors")})).code, 0);
  // With a rate of almost nothing the parameters stay what they were; the model's size is the file's.
  const Words little{"train",     "copying", "--set",      "lag=1",   "--set",
                     "symbols=1", "--set",   "alphabet=2", "--batch", "2"};
  const auto r = run_etrace(little + Words{"--load", file("p.safetensors"), "--updates", "1", "--optimizer",
                                           "sgd", "--lr", "1e-30", "--save", file("q.safetensors")});
  ASSERT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, AllOf(HasSubstr("model gru 4-4-4 in f32"),
                            HasSubstr("parameters from " + file("p.safetensors"))));
  EXPECT_EQ(load_safetensors(file("p.safetensors")).tensors, load_safetensors(file("q.safetensors")).tensors);
}

TEST_F(TrainFiles, ParametersThatDoNotFitAreNamed) {
  ASSERT_EQ(run_etrace(tiny({"--updates", "1", "--save", file("p.safetensors")})).code, 0);
  const std::vector<std::pair<Words, Words>> misfits{
      {{"eval", "--hidden", "5"},
       {"wrong shape of rnn/Wh/weight.bias: found f32[4], expected f32[5]", "--hidden 4"}},
      {{"eval", "--model", "rnn"}, {"surplus rnn/Wz/weight.weight", "--model gru"}},
      {{"eval", "--dtype", "f64"}, {"wrong type of out/weight.bias: found f32[4], expected f64[4]"}},
      {{"train", "integrator", "--updates", "1"},
       {"wrong shape of out/weight.bias: found f32[4], expected f32[1]"}},
      {{"verify", "lstm"}, {"missing rnn/", "The file was saved from task copying --model gru"}},
      {{"verify", "gru", "--sizes", "3,8,2"},
       {"wrong shape of out/weight.bias: found f64[4], expected f64[2]"}},
  };
  for (const auto& [command, phrases] : misfits) {
    const auto r = run_etrace(command + Words{"--load", file("p.safetensors")});
    EXPECT_EQ(r.code, 2) << r.text;
    for (const std::string& phrase : phrases) EXPECT_THAT(r.text, HasSubstr(phrase));
  }
}

TEST_F(TrainFiles, ParametersThatAreNoNumbersAreRefused) {
  ASSERT_EQ(run_etrace(tiny({"--updates", "1", "--save", file("p.safetensors")})).code, 0);
  TensorFile saved = load_safetensors(file("p.safetensors"));
  Tensor& first = saved.tensors.front().second;
  first = full(first.shape(), -std::numeric_limits<double>::quiet_NaN(), first.dtype()).tensor();
  save_safetensors(file("nan.safetensors"), saved);
  for (const Words& command :
       {Words{"eval"}, tiny({"--updates", "1"}), Words{"verify", "gru"}, Words{"print", "gru"}}) {
    const auto r = run_etrace(command + Words{"--load", file("nan.safetensors")});
    EXPECT_EQ(r.code, 2) << r.text;
    EXPECT_THAT(r.text, HasSubstr("nan.safetensors': " + saved.tensors.front().first +
                                  " holds numbers that are not finite"));
  }
}

TEST_F(TrainFiles, VerifyTakesSavedParameters) {
  ASSERT_EQ(run_etrace(tiny({"--updates", "20", "--save", file("p.safetensors")})).code, 0);
  const Words verify{"verify", "gru", "--steps", "4", "--lags", "0", "--json"};
  const auto r = run_etrace(verify + Words{"--load", file("p.safetensors")});
  EXPECT_EQ(r.code, 0) << r.text;
  EXPECT_EQ(nlohmann::json::parse(r.text).at("parameters").at(0).at("shape").at(0), 4);
  EXPECT_NE(r.text, run_etrace(verify + Words{"--sizes", "4,4,4"}).text)
      << "the parameters, not only the sizes";
}

TEST_F(TrainFiles, ANormOfZeroDoesNotClip) {
  for (const auto& [name, norm] : std::vector<std::pair<std::string, std::string>>{
           {"none.npz", "0"}, {"huge.npz", "1e30"}, {"small.npz", "1e-3"}})
    ASSERT_EQ(
        run_etrace(tiny({"--updates", "3", "--optimizer", "sgd", "--clip-norm", norm, "--save", file(name)}))
            .code,
        0);
  EXPECT_EQ(contents(file("none.npz")), contents(file("huge.npz")));
  EXPECT_NE(contents(file("none.npz")), contents(file("small.npz")));
}

}  // namespace
}  // namespace etrace
