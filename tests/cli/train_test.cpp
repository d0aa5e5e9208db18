// etrace train, as a user meets it: results, files, errors, interruption.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/train_fixture.h"
#include "etrace/save.h"

namespace etrace {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::contents;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::operator+;  // NOLINT(misc-unused-using-decls): operators are not seen
using testing::Process;
using testing::run_etrace;
using testing::Words;

class Train : public testing::TrainFixture {};

// Results ---------------------------------------------------------------------------------------------------
TEST_F(Train, SaysWhatIsLearnedAndScoresFreshBatches) {
  const auto r = run_etrace(tiny({"--updates", "20"}));
  EXPECT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text,
              AllOf(HasSubstr("learned online, through time:\n    rnn/Wz/weight.weight, rnn/Wz/weight.bias, "
                              "rnn/Wh/weight.weight, rnn/Wh/weight.bias\n"),
                    HasSubstr("rule D_RTRL, multi-step in windows of 3 steps, "),
                    HasSubstr("  learned within windows of 3 steps:\n    rnn/Wr/weight.bias, "
                              "rnn/Wr/weight.weight: hidden states are reached only through another"),
                    HasSubstr("whatever the length of the sequences"), HasSubstr("20/20  loss "),
                    HasSubstr("20 updates: "), HasSubstr("on 16 batches never trained on: loss ")));
  EXPECT_THAT(r.text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\r")))) << "a pipe is no terminal";
}

TEST_F(Train, QuietPrintsTheResultOnly) {
  const auto r = run_etrace(tiny({"--updates", "3", "--quiet"}));
  EXPECT_EQ(r.code, 0);
  EXPECT_THAT(r.text,
              ::testing::MatchesRegex("on 16 batches never trained on: loss [0-9.]+, accuracy [0-9.]+\n"));
}

TEST_F(Train, StopsWhenTheAccuracyIsReached) {
  const auto r = run_etrace(tiny({"--updates", "2000", "--until-accuracy", "1", "--json", file("log")}));
  EXPECT_EQ(r.code, 0) << r.text;
  std::ifstream log(file("log"));
  std::string line, last;
  std::int64_t batches = 0;
  while (std::getline(log, line)) {
    last = line;
    batches += nlohmann::json::parse(line).at("event") == "batch";
  }
  const auto end = nlohmann::json::parse(last);
  EXPECT_EQ(end.at("event"), "end");
  EXPECT_EQ(end.at("reason"), "accuracy");
  EXPECT_EQ(end.at("accuracy"), 1.0);
  EXPECT_EQ(end.at("batches"), batches);
  EXPECT_LT(batches, 2000);
  EXPECT_EQ(batches % 50, 0) << "checks are at fixed places";
}

TEST_F(Train, SaysWhenTheAccuracyIsNotReached) {
  const auto r = run_etrace(tiny({"--updates", "2", "--until-accuracy", "1"}));
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.text, HasSubstr("accuracy 1 was not reached in 2 updates; give --updates more"));
}

TEST_F(Train, UpdatesPerStepAndWindowAreCounted) {
  // Sequences have 3 steps: 3 updates each, or 2 with windows of two.
  EXPECT_THAT(run_etrace(tiny({"--updates", "9", "--update", "step"})).text,
              HasSubstr("9 updates (3 batches): "));
  EXPECT_THAT(run_etrace(tiny({"--updates", "5", "--update", "window", "--window", "2"})).text,
              HasSubstr("6 updates (3 batches): "));
}

// Windows of several steps unless every step updates; a rule that cannot runs the other way.
TEST_F(Train, ChoosesTheMethodAndSaysIt) {
  const auto says = [&](const Words& more, const char* text) {
    const auto r = run_etrace(tiny({"--set", "lag=9", "--updates", "2"}) + more);
    EXPECT_EQ(r.code, 0) << r.text;
    EXPECT_THAT(r.text, HasSubstr(text));
  };
  says({}, "rule D_RTRL, multi-step in windows of 8 steps, batches of 2\n");
  says({"--window", "4"}, "multi-step in windows of 4 steps, ");
  says({"--window", "400"}, "multi-step in windows of 11 steps, ");
  says({"--method", "single-step"}, "rule D_RTRL, single-step, batches of 2\n");
  says({"--method", "single-step"}, "  learned from the current step alone:\n");
  says({"--update", "step"}, "rule D_RTRL, single-step, batches of 2\n");
  says({"--update", "window"}, "an update per window of 8\n");
  says({"--update", "window", "--window", "4", "--method", "single-step"}, "an update per window of 4\n");
  says({"--update", "step", "--method", "multi-step"}, "multi-step in windows of 1 step, ");
  says({"--update", "step", "--rule", "dni"}, "rule DNI, multi-step in windows of 1 step, ");
  says({"--rule", "three_factor", "--rule-option", "modulator=0.1"}, "rule ThreeFactor, single-step, ");
}

// One window over the whole sequence is BPTT, whatever the rule; single steps are not.
TEST_F(Train, OneWindowIsBptt) {
  const auto parameters = [&](const Words& more) {
    EXPECT_EQ(
        run_etrace(tiny({"--updates", "3", "--quiet", "--dtype", "f64", "--save", file("p.npz")}) + more)
            .code,
        0);
    return load_npz(file("p.npz")).tensors;
  };
  const auto apart = [](const NamedTensors& a, const NamedTensors& b) {
    double most = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::vector<double> x = a[i].second.to_doubles(), y = b[i].second.to_doubles();
      for (std::size_t k = 0; k < x.size(); ++k) most = std::max(most, std::abs(x[k] - y[k]));
    }
    return most;
  };
  const Words whole{"--window", "100"}, pp{"--rule", "pp_prop"}, single{"--method", "single-step"};
  EXPECT_LE(apart(parameters(whole), parameters(whole + pp)), 1e-12);
  EXPECT_GT(apart(parameters(single), parameters(single + pp)), 1e-6);
  EXPECT_GT(apart(parameters(whole), parameters(single)), 1e-6);
}

TEST_F(Train, EveryTaskRuleAndTypeRuns) {
  const std::vector<Words> runs = {
      {"integrator", "--set", "steps=4", "--model", "rnn", "--dtype", "f64"},
      {"delayed_match", "--set", "delay=2", "--model", "lif_expon", "--rule", "pp_prop", "--decay", "0.9"},
      {"delayed_match", "--set", "delay=2", "--model", "lif", "--rule", "ostl_recurrent"},
      {"copying", "--set", "lag=2", "--model", "lstm", "--trace-dtype", "bf16", "--optimizer", "sgd"},
      {"copying", "--set", "lag=2", "--model", "two_layer_gru", "--rule", "pp_prop", "--rank", "5"},
  };
  for (const Words& run : runs) {
    const auto r =
        run_etrace(Words{"train"} + run + Words{"--hidden", "4", "--batch", "2", "--updates", "2"});
    EXPECT_EQ(r.code, 0) << r.text;
    EXPECT_THAT(r.text, HasSubstr("never trained on: loss ")) << run[0];
  }
}

// Files -----------------------------------------------------------------------------------------------------
TEST_F(Train, SavesParametersUnderTheirNames) {
  for (const char* name : {"p.safetensors", "p.npz"})
    ASSERT_EQ(run_etrace(tiny({"--updates", "2", "--quiet", "--save", file(name)})).code, 0);
  const TensorFile parameters = load_safetensors(file("p.safetensors"));
  std::vector<std::string> names;
  for (const auto& [name, value] : parameters.tensors) names.push_back(name);
  EXPECT_THAT(names, ::testing::Contains("rnn/Wh/weight.bias"));
  EXPECT_EQ(load_npz(file("p.npz")).tensors.size(), names.size());
}

TEST_F(Train, ResumingEndsWithTheSameBits) {
  const Words whole = tiny({"--quiet", "--updates", "30", "--save", file("whole.safetensors")});
  ASSERT_EQ(run_etrace(whole).code, 0);
  const Words parts = tiny({"--quiet", "--checkpoint", file("c"), "--resume"});
  ASSERT_EQ(run_etrace(parts + Words{"--updates", "11"}).code, 0);
  const auto r = run_etrace(parts + Words{"--updates", "30", "--save", file("parts.safetensors")});
  ASSERT_EQ(r.code, 0) << r.text;
  EXPECT_EQ(contents(file("parts.safetensors")), contents(file("whole.safetensors")));
}

TEST_F(Train, ASolvedRunHasNothingToResume) {
  const Words run =
      tiny({"--updates", "2000", "--until-accuracy", "1", "--checkpoint", file("c"), "--resume"});
  ASSERT_EQ(run_etrace(run + Words{"--save", file("first.npz")}).code, 0);
  const auto r = run_etrace(run + Words{"--save", file("again.npz")});
  ASSERT_EQ(r.code, 0) << r.text;
  EXPECT_EQ(contents(file("again.npz")), contents(file("first.npz")));
}

TEST_F(Train, AKilledRunGoesOnWithTheSameBits) {
  const Words run = tiny({"--updates", "400", "--every", "3"});
  ASSERT_EQ(run_etrace(run + Words{"--save", file("whole.safetensors")}).code, 0);
  const Words resumed = run + Words{"--checkpoint", file("c"), "--resume"};
  for (const char* point : {" 40/400", " 80/400", "160/400"}) {
    Process child(resumed);
    for (std::string line; child.read_line(line) && !line.starts_with(point);) {
    }
    child.kill(SIGKILL);  // wherever it is by now: in an update, or writing
    child.wait();
    EXPECT_TRUE(fs::exists(file("c"))) << point;
  }
  const auto r = run_etrace(resumed + Words{"--save", file("killed.safetensors")});
  ASSERT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, HasSubstr("going on after "));
  EXPECT_EQ(contents(file("killed.safetensors")), contents(file("whole.safetensors")));
}

TEST_F(Train, CtrlCStopsAfterTheUpdateAndKeepsTheWork) {
  const Words run = tiny({"--checkpoint", file("c"), "--every", "1000000"});
  Process child(run + Words{"--updates", "10000"});
  for (std::string line; child.read_line(line) && !line.starts_with(" 1000/10000");) {
  }
  child.kill(SIGINT);
  const auto stopped = child.wait();
  EXPECT_EQ(stopped.code, 130) << stopped.text;
  EXPECT_THAT(stopped.text,
              HasSubstr(" of 10000; " + file("c") + " is written: the same command with --resume"));
  std::istringstream words(stopped.text.substr(stopped.text.find("stopped after ") + 14));
  std::int64_t updates = 0;
  ASSERT_TRUE(words >> updates) << stopped.text;
  EXPECT_GE(updates, 1000);

  const Words a_little_more{"--quiet", "--updates", std::to_string(updates + 20)};
  ASSERT_EQ(run_etrace(run + a_little_more + Words{"--resume", "--save", file("parts.npz")}).code, 0);
  ASSERT_EQ(run_etrace(tiny() + a_little_more + Words{"--save", file("whole.npz")}).code, 0);
  EXPECT_EQ(contents(file("parts.npz")), contents(file("whole.npz")));
}

TEST_F(Train, TheLogOfAResumedRunIsAppended) {
  const Words run = tiny({"--quiet", "--checkpoint", file("c"), "--json", file("log"), "--resume"});
  ASSERT_EQ(run_etrace(run + Words{"--updates", "2"}).code, 0);
  ASSERT_EQ(run_etrace(run + Words{"--updates", "3"}).code, 0);
  std::vector<std::string> events;
  std::ifstream log(file("log"));
  for (std::string line; std::getline(log, line);)
    events.push_back(nlohmann::json::parse(line).at("event").get<std::string>());
  EXPECT_EQ(events, (Words{"start", "batch", "batch", "end", "start", "batch", "end"}));
}

// Errors ----------------------------------------------------------------------------------------------------
TEST_F(Train, RefusesTheCheckpointOfAnotherRunAndNamesTheDifference) {
  ASSERT_EQ(run_etrace(tiny({"--quiet", "--updates", "2", "--checkpoint", file("c")})).code, 0);
  const std::string before = contents(file("c"));
  const std::vector<std::pair<Words, std::string>> others = {
      {{"--set", "lag=2"}, "--set lag is 1 there and 2 here"},
      {{"--model", "lstm"}, "--model is gru there and lstm here"},
      {{"--hidden", "5"}, "--hidden is 4 there and 5 here"},
      {{"--seed", "1"}, "--seed is 0 there and 1 here"},
      {{"--rule", "pp_prop", "--decay", "0.9"}, "--rule is D_RTRL, multi-step there and pp_prop"},
      {{"--lr", "0.5"}, "--lr is 0.01 there and 0.5 here"},
      {{"--update", "step"}, "--update is sequence there and step here"},
      {{"--window", "2"}, "--window is 3 there and 2 here"},
      {{"--method", "single-step"}, "--rule is D_RTRL, multi-step there and D_RTRL, single-step here"},
  };
  for (const auto& [option, message] : others) {
    const auto r = run_etrace(tiny() + option + Words{"--checkpoint", file("c"), "--resume"});
    EXPECT_EQ(r.code, 2) << r.text;
    EXPECT_THAT(r.text, HasSubstr(message));
  }
  const auto task = run_etrace({"train", "integrator", "--checkpoint", file("c"), "--resume"});
  EXPECT_EQ(task.code, 2);
  EXPECT_THAT(task.text, HasSubstr("task is copying there and integrator here"));
  EXPECT_EQ(contents(file("c")), before);
}

TEST_F(Train, DoesNotOverwriteACheckpoint) {
  const Words run = tiny({"--quiet", "--updates", "2", "--checkpoint", file("c")});
  ASSERT_EQ(run_etrace(run).code, 0);
  const auto r = run_etrace(run);
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.text, HasSubstr("exists: add --resume to go on from it, or remove it"));
}

TEST_F(Train, RefusesDamagedAndForeignCheckpoints) {
  std::ofstream(file("noise")) << "no checkpoint";
  EXPECT_EQ(run_etrace(tiny({"--checkpoint", file("noise"), "--resume"})).code, 2);
  save_checkpoint(file("foreign"), {});
  const auto r = run_etrace(tiny({"--checkpoint", file("foreign"), "--resume"}));
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.text, HasSubstr("it is no checkpoint of `etrace train`"));
}

TEST_F(Train, EveryMistakeHasAnAnswer) {
  const std::vector<std::pair<Words, std::string>> mistakes = {
      {{"--model", "nope"}, "there is no built-in model 'nope'; --model takes one of "},
      {{"--rule", "nope"}, "there is no learning rule 'nope'"},
      {{"--decay", "0.5"}, "takes no option decay_or_rank; it takes: trace_dtype"},
      {{"--rule", "pp_prop", "--decay", "0.5", "--rank", "2"}, "give one of them"},
      {{"--optimizer", "nope"}, "nope"},
      {{"--set", "lag"}, "--set lag: expected NAME=NUMBER"},
      {{"--set", "lag=x"}, "--set lag=x: expected NAME=NUMBER"},
      {{"--set", "nope=1"}, "the task copying has no setting 'nope'"},
      {{"--set", "lag=-1"}, "expected a whole number from 0 to 1000000"},
      {{"--hidden", "0"}, "--hidden: expected a whole number from 1 to"},
      {{"--batch", "0"}, "--batch: expected a whole number from 1 to"},
      {{"--updates", "0"}, "--updates: expected a whole number from 1 to"},
      {{"--every", "0"}, "--every: expected a whole number from 1 to"},
      {{"--lr", "-1"}, "-1"},
      {{"--clip-norm", "-1"}, "-1"},
      {{"--rule", "ThreeFactor"}, "ThreeFactor needs a third factor"},
      {{"--rule", "three_factor"}, "--rule-option modulator=1"},
      {{"--update", "often"}, "--update: expected one of sequence, window, step, got 'often'"},
      {{"--window", "0"}, "--window: expected a whole number from 1 to"},
      {{"--window", "3", "--update", "step"}, "--window 3, but --update is step: a window has one step then"},
      {{"--window", "3", "--method", "single-step"},
       "--window 3 is for --method multi-step or --update window"},
      {{"--method", "both"}, "--method: expected one of single-step, multi-step, got 'both'"},
      {{"--method", "single-step", "--rule", "dni"}, "Use vjp_method multi-step"},
      {{"--dtype", "f16"}, "--dtype f16: expected one of f32, f64"},
      {{"--trace-dtype", "i32"}, "trace_dtype int32 cannot hold a trace"},
      {{"--until-accuracy", "2"}, "--until-accuracy is 2; it must lie in (0, 1]"},
      {{"--resume"}, "--name NAME, or --checkpoint FILE"},
      {{"--save", "p.txt"}, "--save p.txt: the name must end with .safetensors or .npz"},
      {{"--save", "/no/such/folder/p.npz"}, "no file can be written in '/no/such/folder'"},
      {{"--json", "/"}, "--json /: that is a folder"},
      {{"--checkpoint", "-"}, "--checkpoint -: a checkpoint is read again and must be a file"},
      {{"--load", "/no/such/file.npz"}, "cannot open '/no/such/file.npz'"},
      {{"--load", "/no/such/file.txt"}, "expected .safetensors or .npz"},
      {{"--updates", "many"}, "--updates"},
  };
  for (const auto& [options, answer] : mistakes) {
    const auto r = run_etrace(tiny() + options);
    EXPECT_EQ(r.code, 2) << options.front() << ": " << r.text;
    EXPECT_THAT(r.text, AllOf(HasSubstr(answer), Not(HasSubstr("never trained on"))));
  }
  const auto task = run_etrace({"train", "nope"});
  EXPECT_EQ(task.code, 2);
  EXPECT_THAT(task.text, HasSubstr("there is no task 'nope'; expected one of adding, copying"));
  const auto labels = run_etrace({"train", "integrator", "--until-accuracy", "0.9"});
  EXPECT_EQ(labels.code, 2);
  EXPECT_THAT(labels.text, HasSubstr("has no labels and so no accuracy"));
}

}  // namespace
}  // namespace etrace
