// What holds for every verb: nothing is lost silently, words that are wrong are named, numbers that do not
// fit are refused, and help fits a page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/process.h"

namespace etrace {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_etrace;
using Line = std::vector<std::string>;

std::string test_file(const std::string& name) { return std::string(ETRACE_TEST_DIR) + "/" + name; }

const std::vector<Line> kQuickCommands{
    {"--help"},
    {"--version"},
    {"help", "explain"},
    {"explain", "rnn"},
    {"explain", "rnn", "--json"},
    {"explain", "rnn", "--dot"},
    {"explain", "rnn", "--html", "-"},
    {"explain", "rnn", "--dump-after", "graph"},
    {"verify", "rnn", "--steps", "2", "--lags", "0"},
    {"verify", "rnn", "--steps", "2", "--lags", "0", "--json"},
    {"train", "copying", "--set", "lag=1", "--hidden", "2", "--batch", "1", "--updates", "1"},
    {"train", "--help"},
    {"check", "--stage", "forward", test_file("reference/cell_GRUCell.json")},
    {"print", "rnn"},
    {"summary", "rnn"},
    {"summary", "rnn", "--json"},
    {"ops"},
    {"man"},
    {"completion", "bash"},
    {"completion", "zsh"},
    {"completion", "fish"},
};

TEST(Verbs, LostOutputIsAnError) {
  for (const Line& command : kQuickCommands) {
    const auto r = run_etrace(command, {.output_to = "/dev/full"});
    EXPECT_EQ(r.code, 2) << command.front();
    EXPECT_THAT(r.text, HasSubstr("standard output could not be written")) << command.front();
    EXPECT_EQ(run_etrace(command).code, 0) << "the control";
  }
}

TEST(Verbs, AWrongVerbIsNamedWithTheNearest) {
  const auto r = run_etrace({"explan", "gru"});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.text,
              HasSubstr("etrace: there is no verb 'explan' (did you mean explain?); expected one of"));
  EXPECT_THAT(run_etrace({"gru"}).text, AllOf(HasSubstr("'gru'"), Not(HasSubstr("did you mean"))));
  const auto none = run_etrace({});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.text, HasSubstr("a verb is missing; there are: demo, explain"));
}

TEST(Verbs, WrongWordsAreNamedWithTheNearest) {
  const std::vector<std::pair<Line, std::string>> mistakes{
      {{"explain", "gru", "--jsn"}, "etrace explain: there is no option --jsn (did you mean --json?)"},
      {{"train", "copying", "--updats", "5"}, "there is no option --updats (did you mean --updates?)"},
      {{"train", "copying", "--updats=5"}, "there is no option --updats (did you mean --updates?)"},
      {{"train", "copyng"}, "there is no task 'copyng' (did you mean copying?)"},
      {{"train", "mnist1"}, "there is no task 'mnist1' (did you mean mnist1d?)"},
      {{"data", "show", "mnist1"}, "there is no file or folder 'mnist1' (did you mean mnist1d?)"},
      {{"train", "copying", "--set", "lga=1"}, "has no setting 'lga' (did you mean lag?)"},
      {{"train", "copying", "--model", "gru2"}, "there is no built-in model 'gru2' (did you mean gru?)"},
      {{"train", "copying", "--optimizer", "adan"}, "(did you mean adam?)"},
      {{"train", "copying", "--update", "steps"}, "got 'steps' (did you mean step?)"},
      {{"verify", "gru", "--loss", "crossentropy"}, "(did you mean cross_entropy?)"},
      {{"explain", "lstn"}, "neither a file nor a built-in model (did you mean lstm?)"},
      {{"explain", "gru", "--scope", "daigonal"}, "got 'daigonal' (did you mean diagonal?)"},
      {{"explain", "gru", "--dump-after", "graf"}, "got 'graf' (did you mean graph?)"},
      {{"check", "--stage", "fwd,graph", "x.json"}, "expected one of forward, bptt, graph, learn, got 'fwd'"},
      {{"explain", "gru", "lstm"}, "'lstm' is not expected here"},
      {{"explain"}, "etrace explain: MODEL is required"},
      {{"train", "copying", "--lr"}, "etrace train: --lr needs a value"},
      {{"--verbose"}, "etrace: there is no option --verbose"},
      {{"--versoin"}, "etrace: there is no option --versoin (did you mean --version?)"},
      {{"eval", "copying"}, "`etrace eval RUN`, or --load FILE with parameters"},
  };
  for (const auto& [command, answer] : mistakes) {
    const auto r = run_etrace(command);
    EXPECT_EQ(r.code, 2) << r.text;
    EXPECT_THAT(r.text, HasSubstr(answer));
  }
}

TEST(Verbs, NumbersThatDoNotFitAreRefused) {
  const std::vector<std::pair<Line, std::string>> mistakes{
      {{"train", "copying", "--seed", "-1"},
       "--seed: expected a whole number from 0 to 18446744073709551615"},
      {{"train", "copying", "--seed", "18446744073709551616"}, "got '18446744073709551616'"},
      {{"verify", "gru", "--seed", "-1"}, "--seed: expected a whole number"},
      {{"verify", "gru", "--seed", "18446744073709551617"}, "--seed: expected a whole number"},
      {{"verify", "gru", "--steps", "18446744073709551621"},
       "--steps: expected a whole number from 1 to 1048576"},
      {{"verify", "gru", "--rank", "4294967297"}, "--rank: expected a whole number from 1 to 2147483647"},
      {{"train", "copying", "--hidden", "99999999999999999999"}, "--hidden: expected a whole number"},
      {{"train", "copying", "--updates", "9223372036854775808"}, "--updates: expected a whole number"},
      {{"train", "copying", "--every", "1.5"}, "--every: expected a whole number"},
      {{"train", "copying", "--lr", "1e999"}, "--lr: expected a number, got '1e999'"},
      {{"train", "copying", "--lr", "nan"}, "--lr: expected a number"},
      {{"explain", "gru", "--level", "4294967297"}, "--level: expected a whole number from 1 to 3"},
      {{"train", "copying", "--lr", "-1"}, "--lr: expected a number that is 0 or more, got '-1'"},
      {{"train", "copying", "--clip-norm", "-0.5"},
       "--clip-norm: expected a number that is 0 or more, got '-0.5'"},
      {{"profile", "gru", "--seconds", "-1"}, "--seconds: expected a number from 0 to 86400, got '-1'"},
      {{"profile", "gru", "--spikes", "2"}, "--spikes: expected a number from 0 to 1, got '2'"},
      {{"profile", "gru", "--spikes", "-0.1"}, "--spikes: expected a number from 0 to 1, got '-0.1'"},
      {{"plan", "gru", "--window", "1.5"}, "--window: expected a whole number from 1 to 1048576, got '1.5'"},
  };
  for (const auto& [command, answer] : mistakes) {
    const auto r = run_etrace(command);
    EXPECT_EQ(r.code, 2) << r.text;
    EXPECT_THAT(r.text, HasSubstr(answer));
  }
  // The largest seed that fits is one of its own.
  const Line run{"verify", "rnn", "--steps", "2", "--lags", "0", "--json", "--seed"};
  const auto largest = run_etrace([&] {
    Line l = run;
    l.push_back("18446744073709551615");
    return l;
  }());
  EXPECT_EQ(largest.code, 0) << largest.text;
  EXPECT_NE(largest.text, run_etrace([&] {
                            Line l = run;
                            l.push_back("0");
                            return l;
                          }())
                              .text);
}

TEST(Verbs, AnInvalidNumberOfThreadsIsSaidBeforeAnyWork) {
  for (const char* value : {"x", "0", "-2", "1e3", "99999"}) {
    const auto r = run_etrace({"ops"}, {.environment = {std::string("ETRACE_NUM_THREADS=") + value}});
    EXPECT_EQ(r.code, 2) << value;
    EXPECT_THAT(r.text, HasSubstr("the environment variable ETRACE_NUM_THREADS is '" + std::string(value) +
                                  "', expected a whole number from 1 to 4096"));
    EXPECT_THAT(r.text, Not(HasSubstr("tanh")));
  }
  EXPECT_EQ(run_etrace({"ops"}, {.environment = {"ETRACE_NUM_THREADS=3"}}).code, 0);
  EXPECT_EQ(run_etrace({"--help"}, {.environment = {"ETRACE_NUM_THREADS=x"}}).code, 0);
}

TEST(Verbs, TooLargeForTheMachineIsSaidAndTheNextFileGoesOn) {
  const auto r = run_etrace({"check", "--stage", "forward", test_file("io/files/huge_bcast.json"),
                             test_file("io/files/pad_huge.json"), test_file("reference/cell_GRUCell.json")});
  EXPECT_EQ(r.code, 1) << r.text;
  EXPECT_THAT(r.text,
              AllOf(HasSubstr("huge_bcast.json): [memory] out of memory: a program, its largest value "
                              "f64[2147483648,1048576,2] from broadcast_in_dim, takes 32 PiB"),
                    HasSubstr("pad_huge.json): [memory] out of memory: a program, its largest value "
                              "f64[8796093022208] from pad, takes 64 TiB"),
                    HasSubstr("ok cell_GRUCell\n1 passed, 2 failed, 0 skipped")));
}

TEST(Verbs, OutOfMemoryNamesTheOptionsThatHelp) {
  const auto r = run_etrace({"train", "copying", "--model", "gru", "--hidden", "10000000"});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.text, AllOf(HasSubstr("out of memory"), HasSubstr(" TiB"), HasSubstr("are free"),
                            HasSubstr("--hidden and --batch make it smaller")));
}

TEST(Verbs, APageDoesNotReplaceItsModel) {
  const fs::path model =
      fs::path(::testing::TempDir()) / ("etrace_verbs_" + std::to_string(getpid()) + ".json");
  fs::copy_file(test_file("reference/cell_GRUCell.json"), model, fs::copy_options::overwrite_existing);
  const auto size = fs::file_size(model);
  for (const char* verb : {"explain", "verify"}) {
    const auto r = run_etrace({verb, model, "--html", model.parent_path() / "." / model.filename()});
    EXPECT_EQ(r.code, 2);
    EXPECT_THAT(r.text, HasSubstr("are the same file"));
  }
  EXPECT_EQ(fs::file_size(model), size);
  fs::remove(model);
}

TEST(Verbs, AModelIsWrittenToAFileAndReadBack) {
  const std::string file =
      fs::path(::testing::TempDir()) / ("etrace_print_" + std::to_string(getpid()) + ".json");
  const auto written = run_etrace({"print", "lstm", "--save", file});
  EXPECT_EQ(written.code, 0) << written.text;
  EXPECT_EQ(run_etrace({"print", file, "--program"}).text, run_etrace({"print", "lstm", "--program"}).text);
  EXPECT_EQ(run_etrace({"print", file, "--save", file}).code, 2) << "the same file";
  fs::remove(file);
}

TEST(Verbs, SummaryOfBuiltInModelsAndFiles) {
  const auto gru = run_etrace({"summary", "gru", "--batch", "4"});
  EXPECT_EQ(gru.code, 0) << gru.text;
  EXPECT_THAT(gru.text, AllOf(HasSubstr("nn::GRUCell"), HasSubstr("h f32[4,8] hidden"), HasSubstr("pp_prop"),
                              HasSubstr("as D_RTRL: ")));
  const std::string file =
      fs::path(::testing::TempDir()) / ("etrace_summary_" + std::to_string(getpid()) + ".json");
  ASSERT_EQ(run_etrace({"print", "gru", "--save", file}).code, 0);
  const auto of_file = nlohmann::json::parse(run_etrace({"summary", file, "--json"}).text),
             of_model = nlohmann::json::parse(run_etrace({"summary", "gru", "--json"}).text);
  EXPECT_EQ(of_file["total"], of_model["total"]);
  EXPECT_EQ(of_model["total"]["trace_bytes"]["D_RTRL"], 4 * 2 * 12 * 8);  // Wz and Wh: [3 + 8 + 1, 8]
  EXPECT_EQ(run_etrace({"summary", file, "--batch", "2"}).code, 2);
  fs::remove(file);
}

// One group of options says which model, with one meaning for every verb.
TEST(Verbs, SizesBatchAndTypeOfEveryModel) {
  const std::vector<std::pair<Line, std::string>> commands{
      {{"explain"}, "f64[2,9]"},
      {{"print"}, "f64[2,4]"},
      {{"summary"}, "f64[2,5]"},
      {{"plan", "--program", "step"}, "f64[2,5]"},
      {{"verify", "--steps", "2", "--lags", "0", "--json"}, "\"float64\""},
  };
  for (const auto& [command, type] : commands) {
    Line line = command;
    line.insert(line.begin() + 1, {"gru", "--sizes", "4,5,3", "--batch", "2", "--dtype", "f64"});
    const auto r = run_etrace(line);
    EXPECT_EQ(r.code, 0) << command.front() << "\n" << r.text;
    EXPECT_THAT(r.text, HasSubstr(type)) << command.front();
  }
  for (const char* verb : {"explain", "print", "summary", "plan", "profile", "verify", "rules"}) {
    SCOPED_TRACE(verb);
    const std::string file = test_file("reference/cell_GRUCell.json");
    for (const Line& option : {Line{"--sizes", "4,5,3"}, Line{"--batch", "2"}, Line{"--dtype", "f32"}}) {
      const auto r = run_etrace({verb, file, option[0], option[1]});
      EXPECT_EQ(r.code, 2);
      EXPECT_THAT(r.text, AllOf(HasSubstr("etrace " + std::string(verb)),
                                HasSubstr("are for built-in models; a model file has its own")));
    }
    const auto sizes = run_etrace({verb, "gru", "--sizes", "4,5"});
    EXPECT_EQ(sizes.code, 2);
    EXPECT_THAT(sizes.text, HasSubstr("the model gru has 3 sizes (input, hidden, output) but was given 2"));
    EXPECT_THAT(run_etrace({verb, "gru", "--sizes", "4,0,2"}).text,
                HasSubstr("--sizes: expected a whole number from 1 to 1048576, got '0'"));
    EXPECT_THAT(run_etrace({verb, "gru", "--dtype", "f16"}).text,
                HasSubstr("--dtype: expected one of f32, f64, got 'f16'"));
  }
}

TEST(Verbs, HelpFitsAPageAndExplainsEveryName) {
  for (const char* verb : {"demo", "explain", "verify", "rules", "train", "eval", "bench", "plan", "profile",
                           "check", "print", "summary", "ops"}) {
    const auto r = run_etrace({"help", verb});
    EXPECT_EQ(r.code, 0);
    EXPECT_EQ(r.text, run_etrace({verb, "--help"}).text);
    EXPECT_THAT(r.text, HasSubstr("Usage: etrace " + std::string(verb)));
    std::istringstream lines(r.text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 104U) << line;  // … has 3 bytes
    EXPECT_THAT(r.text,
                Not(AnyOf(HasSubstr("INT"), HasSubstr("FLOAT"), HasSubstr("TEXT"), HasSubstr("UINT"))))
        << "names of C++ types";
  }
  for (const char* verb : {"plan", "profile", "verify", "train"})  // what options refer to as "see below"
    EXPECT_THAT(run_etrace({verb, "--help"}).text, HasSubstr("\n  D_RTRL ")) << verb;
  EXPECT_THAT(run_etrace({"verify", "--help"}).text,
              HasSubstr("\n  --sizes N,N,…            of a built-in model"));
  EXPECT_THAT(run_etrace({"verify", "--help"}).text,
              AllOf(HasSubstr("mse                   mean squared error"), HasSubstr("cosine  ")));
  EXPECT_THAT(run_etrace({"train", "--help"}).text,
              AllOf(HasSubstr(" a gated recurrent layer and a linear readout\n"),
                    HasSubstr("sgd      gradient descent")));
}

// Manual and completion name every verb and every option that --help names.
TEST(Verbs, ManualAndCompletionAreTheHelp) {
  const auto bash = run_etrace({"completion", "bash"});
  const auto manual = run_etrace({"man"});
  EXPECT_THAT(manual.text, Not(HasSubstr("\\-\\-task")));  // configurations have it, nobody types it
  for (const std::string& text : {bash.text, manual.text}) EXPECT_THAT(text, HasSubstr("train"));
  EXPECT_THAT(bash.text, HasSubstr("--rule-option"));
  EXPECT_THAT(manual.text, HasSubstr("\\-\\-rule\\-option"));
  const auto wrong = run_etrace({"completion", "bsh"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.text, HasSubstr("did you mean bash?"));
}

}  // namespace
}  // namespace etrace
