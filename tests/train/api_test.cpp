// Runs as functions of the library: models, tasks and data of one's own, going on, scores, answers, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "etrace/error.h"
#include "etrace/nn.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/train.h"
#include "support/errors.h"
#include "train/file_model.h"

namespace etrace::train {
namespace {

namespace fs = std::filesystem;
using etrace::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class TrainApi : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(root_); }
  void TearDown() override { fs::remove_all(root_); }
  static TrainSettings xor_settings(std::int64_t updates = 12) {
    return {.task = "delayed_xor",
            .model = "gru",
            .rule = "D_RTRL",
            .hidden = 6,
            .batch = 4,
            .updates = updates,
            .schedule = "constant",
            .backend = "interpreter"};
  }
  RunPlan plan(const std::string& name) const {
    return {.every = 5, .check_every = 4, .runs = root_, .name = name, .fidelity = false};
  }
  std::string in(const std::string& name) const { return root_ + "/" + name; }
  std::string parameters(const std::string& name) const { return bytes_of(in(name) + "/best.safetensors"); }
  std::string root_ = ::testing::TempDir() + "/etrace_train_api_" + std::to_string(getpid());
};

class StopAfter : public RunView {
 public:
  explicit StopAfter(std::int64_t updates) : last_(updates) {}
  void progress(std::int64_t updates, const Score&) override { seen_ = updates; }
  void check(std::int64_t, const Score&) override { ++checks; }
  bool stop_requested() override { return seen_ >= last_; }
  int checks = 0;

 private:
  std::int64_t last_, seen_ = 0;
};

TEST_F(TrainApi, ARunHasAScoreAFolderAndItsCurves) {
  StopAfter never(1000);
  const RunResult r = run(xor_settings(), plan("a"), &never);
  EXPECT_EQ(r.reason, RunResult::Reason::Updates);
  EXPECT_EQ(r.folder, in("a"));
  EXPECT_EQ(r.updates, 12);
  ASSERT_EQ(r.history.batches.size(), 12U);
  ASSERT_EQ(r.history.checks.size(), 3U);
  EXPECT_EQ(never.checks, 3);
  EXPECT_EQ(r.history.checks[1].updates, 8);
  ASSERT_TRUE(r.judgement && r.score.accuracy);
  const Score again = evaluate(r.folder);
  EXPECT_EQ(again.loss, r.score.loss);
  EXPECT_EQ(again.accuracy, r.score.accuracy);
  EXPECT_NE(evaluate(r.folder, {.part = Part::Check}).loss, r.score.loss);
  const auto listed = list_runs(root_);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_THAT(listed[0].json, HasSubstr("\"delayed_xor\""));
}

TEST_F(TrainApi, StoppedAndGoneOnTheBitsAreTheSame) {
  run(xor_settings(), plan("whole"));
  StopAfter early(7);
  const RunResult stopped = run(xor_settings(), plan("cut"), &early);
  EXPECT_EQ(stopped.reason, RunResult::Reason::Interrupted);
  EXPECT_FALSE(stopped.judgement);
  EXPECT_EQ(stopped.updates, 7);
  const RunResult on = resume(in("cut"));
  EXPECT_EQ(on.updates, 12);
  EXPECT_EQ(on.history.batches.size(), 12U);
  EXPECT_EQ(on.history.checks.size(), 3U);
  EXPECT_EQ(parameters("cut"), parameters("whole"));
  const RunResult further = resume(in("cut") + "/", {{"updates", "14"}, {"lr", "0.1"}});
  EXPECT_EQ(further.updates, 14);
}

// The end of a falling rate moves with the end of the run.
TEST_F(TrainApi, ARunWithAFallingRateCanBeMadeLonger) {
  TrainSettings s = xor_settings();
  s.schedule = "cosine";
  run(s, plan("falling"));
  EXPECT_EQ(resume(in("falling"), {{"updates", "20"}}).updates, 20);
  EXPECT_EQ(resume(in("falling")).updates, 20);
  EXPECT_EQ(resume(in("falling"), {{"updates", "22"}, {"schedule", "constant"}}).updates, 22);
}

TEST_F(TrainApi, WithoutAFolderNothingIsWritten) {
  const RunResult r = run(xor_settings(3));
  EXPECT_EQ(r.folder, "");
  EXPECT_EQ(r.history.batches.size(), 3U);
  EXPECT_FALSE(fs::exists(root_));
}

// A model of the program's own ------------------------------------------------------------------------------

struct Net : Module {
  explicit Net(std::int64_t inputs, std::int64_t outputs)
      : rnn(child<nn::GRUCell>("rnn", inputs, std::int64_t{5})),
        out(child<nn::Linear>("out", std::int64_t{5}, outputs)) {}
  Array update(const Array& x) override { return out(rnn(x)); }
  nn::GRUCell& rnn;
  nn::Linear& out;
};
Shape spec_of(const char* task) {
  const auto made = make_task(task);
  return {made->spec().num_inputs, made->spec().num_outputs};
}

TEST_F(TrainApi, AModuleGetsTheBestParametersAndItsFolderNeedsNothingElse) {
  const Shape sizes = spec_of("delayed_xor");
  TrainSettings s = xor_settings();
  s.model.clear();
  s.hidden = 0;
  const auto net = std::make_shared<Net>(sizes[0], sizes[1]);
  s.module = net;
  const RunResult r = run(s, plan("own"));
  EXPECT_TRUE(fs::exists(in("own") + "/model.json"));
  const std::string saved = in("saved.safetensors");
  save_parameters(*net, saved);
  const TensorFile best = load_safetensors(in("own") + "/best.safetensors"), now = load_safetensors(saved);
  ASSERT_EQ(best.tensors.size(), now.tensors.size());
  for (std::size_t i = 0; i < now.tensors.size(); ++i) {
    EXPECT_EQ(best.tensors[i].first, now.tensors[i].first);
    EXPECT_EQ(best.tensors[i].second.to_doubles(), now.tensors[i].second.to_doubles());
  }
  EXPECT_EQ(evaluate(r.folder).loss, r.score.loss);

  // Cut off and gone on without the module, as the command line does: the same bits.
  s.module = std::make_shared<Net>(sizes[0], sizes[1]);
  StopAfter early(5);
  run(s, plan("cut"), &early);
  resume(in("cut"));
  EXPECT_EQ(load_safetensors(in("cut") + "/best.safetensors").tensors[0].second.to_doubles(),
            best.tensors[0].second.to_doubles());
  EXPECT_EQ(parameters("cut"), parameters("own"));
  s.module = std::make_shared<Net>(sizes[0] + 1, sizes[1]);
  EXPECT_THROW(run(s, plan("wrong")), Error);
  s.model = "gru";
  EXPECT_THAT(message_of<ValueError>([&] { run(s); }), HasSubstr("a run has one model"));
  const auto other = std::make_shared<Net>(sizes[0], sizes[1] + 1);
  EXPECT_THAT(message_of<ValueError>([&] { resume(in("own"), {}, nullptr, {.module = other}); }),
              HasSubstr("out/weight.weight"));
}

struct Noisy : Module {
  Noisy(std::int64_t inputs, std::int64_t outputs, bool statistics)
      : rnn(child<nn::GRUCell>("rnn", inputs, std::int64_t{5})),
        out(child<nn::Linear>("out", std::int64_t{5}, outputs)) {
    if (statistics)
      norm = &child<nn::BatchNorm>("norm", Shape{5});
    else
      drop = &child<nn::Dropout>("drop");
  }
  Array update(const Array& x) override {
    const Array h = rnn(x);
    return out(norm != nullptr ? (*norm)(h) : (*drop)(h));
  }
  nn::GRUCell& rnn;
  nn::Linear& out;
  Module *norm = nullptr, *drop = nullptr;
};

TEST_F(TrainApi, ScoresLeaveOutNothingAndStatisticsAreRefused) {
  const Shape sizes = spec_of("delayed_xor");
  TrainSettings s = xor_settings();
  s.model.clear();
  s.module = std::make_shared<Noisy>(sizes[0], sizes[1], false);
  const RunResult r = run(s, plan("dropout"));
  const auto net = std::make_shared<Noisy>(sizes[0], sizes[1], false);
  load_parameters(*net, r.folder + "/best.safetensors");
  net->eval();
  init_all_states(*net, 4);
  // The first final batch, step by step, without dropping anything.
  const auto task = make_task("delayed_xor", {.seed = 0});
  const TaskBatch batch = task->batch(first_batch(Part::Final), 4);
  Learner learner =
      compile(*net, D_RTRL(), {zeros({4, sizes[0]})}, {.batch_size = 4, .backend = "interpreter"});
  const Array outputs = learner.etrace_evolve(Arrays{batch.inputs})[0];
  EXPECT_NEAR(accuracy(outputs, batch), *evaluate(r.folder, {.batches = 1}).accuracy, 1e-12);

  s.module = std::make_shared<Noisy>(sizes[0], sizes[1], true);
  EXPECT_THAT(message_of<NotSupportedError>([&] { run(s); }), HasSubstr("from sequence to sequence"));
}

// Two states of a neuron on the last axis.
struct Grouped : Module {
  Grouped()
      : in(child<nn::Linear>("in", std::int64_t{2}, std::int64_t{4})),
        out(child<nn::Linear>("out", std::int64_t{4}, std::int64_t{2})),
        h(hidden_group("h", Shape{4, 2})) {}
  Array update(const Array& x) override {
    const Array v = h.get_value(0), a = h.get_value(1), now = tanh(0.9 * v - 0.5 * a + in(x));
    h.set_values(Arrays{now, 0.8 * a + v});
    return out(now);
  }
  nn::Linear &in, &out;
  HiddenGroupState& h;
};

TEST_F(TrainApi, GroupsOfStatesOfAModelFileAreGroups) {
  Grouped own;
  init_all_states(own, 3);
  const Array x = ones({3, 2});
  const std::string text = write_model(trace_step(own, x).model);
  const ReadyModel read = model_of_file(text, "net.json", {.inputs = 2, .outputs = 2, .batch = 3});
  const LearnerOptions options{.batch_size = 3, .backend = "interpreter"};
  Learner a = compile(own, D_RTRL(), {x}, options), b = compile(*read.module, D_RTRL(), {x}, options);
  ASSERT_EQ(a.graph().hidden_groups.size(), 1U);
  ASSERT_EQ(b.graph().hidden_groups.size(), 1U);
  EXPECT_EQ(b.graph().hidden_groups[0].num_state(), a.graph().hidden_groups[0].num_state());
  const Arrays data{random::normal(random::key(1), {6, 3, 2}), random::normal(random::key(2), {6, 3, 2})};
  const auto gradients = [&](Learner& l) { return l.etrace_grad(data[0], data[1], loss::mse).grads; };
  const ParamValues p = gradients(a), q = gradients(b);
  for (std::size_t i = 0; i < p.leaves.size(); ++i)
    EXPECT_EQ(p.values[i].tensor().to_doubles(), q.at(to_string(p.leaves[i])).tensor().to_doubles());
}

// A task of the program's own -------------------------------------------------------------------------------

class Sign : public Task {
 public:
  explicit Sign(std::int64_t wrong = 0, std::string name = "sign")
      : Task({.name = std::move(name), .num_inputs = 1, .num_outputs = 2, .steps = 5}), wrong_(wrong) {}

 private:
  TaskBatch draw(const Draw& d) const override {
    const Array x = random::normal(d.key, {5 + wrong_, d.size, 1});
    return {x, convert(squeeze(x, {2}) > 0.0, Dtype::I32), ones({5})};
  }
  std::int64_t wrong_;
};

TEST_F(TrainApi, ATaskOfOnesOwnIsLearned) {
  TrainSettings s{.model = "gru",
                  .rule = "D_RTRL",
                  .hidden = 8,
                  .batch = 8,
                  .updates = 60,
                  .learning_rate = 0.03,
                  .backend = "interpreter"};
  s.own_task = std::make_shared<Sign>();
  const RunResult r = run(s, plan("sign"));
  EXPECT_GT(*r.score.accuracy, 0.9);
  EXPECT_EQ(evaluate(r.folder, {.own = {.own_task = s.own_task}}).loss, r.score.loss);
  EXPECT_THAT(message_of<ValueError>([&] { evaluate(r.folder); }), HasSubstr("the own one of the program"));
  EXPECT_EQ(resume(r.folder, {{"updates", "62"}}, nullptr, {.own_task = s.own_task}).updates, 62);
  s.own_task = std::make_shared<Sign>(1);
  EXPECT_THAT(message_of<ValueError>([&] { run(s); }),
              AllOf(HasSubstr("the task sign gives inputs f32[6,8,1]"), HasSubstr("expected f32[5,8,1]")));
  s.own_task = std::make_shared<Sign>(0, "copying");
  EXPECT_THAT(message_of<ValueError>([&] { run(s); }), HasSubstr("there is a task copying already"));
  s.own_task = std::make_shared<Sign>();
  s.dtype = Dtype::F64;
  EXPECT_THAT(message_of<ValueError>([&] { run(s); }), HasSubstr("say dtype f32"));
  s.dtype = Dtype::F32;
  s.task_settings = {{"lag", 3}};
  EXPECT_THAT(message_of<ValueError>([&] { run(s); }), HasSubstr("leave out set"));
}

// Series in memory ------------------------------------------------------------------------------------------

SeriesArrays series(int seed, std::int64_t samples) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<float> xs;
  std::vector<std::int32_t> ys, lengths;
  for (std::int64_t i = 0; i < samples; ++i) {
    ys.push_back(static_cast<std::int32_t>(i % 2));
    lengths.push_back(3 + static_cast<std::int32_t>(random() % 4));
    for (int k = 0; k < 12; ++k)
      xs.push_back((i % 2 == 0 ? 1.0F : -1.0F) * static_cast<float>(random() % 100) / 50.0F);
  }
  return {Tensor::of(xs, Shape{samples, 6, 2}), Tensor::of(ys, Shape{samples}),
          Tensor::of(lengths, Shape{samples})};
}

TEST_F(TrainApi, ArraysAreKeptWithTheRun) {
  TrainSettings s{
      .model = "gru", .rule = "D_RTRL", .hidden = 6, .batch = 8, .updates = 40, .backend = "interpreter"};
  s.arrays = std::make_shared<TrainArrays>(TrainArrays{.train = series(1, 60), .classes = {"up", "down"}});
  const RunResult r = run(s, plan("arrays"));
  EXPECT_TRUE(fs::exists(in("arrays") + "/data.npz"));
  EXPECT_EQ(evaluate(r.folder).loss, r.score.loss);
  StopAfter early(11);
  run(s, plan("cut"), &early);
  fs::rename(in("cut"), in("moved"));  // a folder goes where it likes
  EXPECT_EQ(resume(in("moved")).updates, 40);
  EXPECT_EQ(parameters("moved"), parameters("arrays"));

  const Predictions p = predict(r.folder, series(2, 10));
  ASSERT_EQ(p.rows.size(), 10U);
  EXPECT_EQ(p.classes, (std::vector<std::string>{"up", "down"}));
  SeriesArrays unlabelled = series(2, 10);
  unlabelled.ys = {};
  const Predictions q = predict(r.folder, unlabelled);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(q.rows[i].probability, p.rows[i].probability);
  EXPECT_EQ(q.rows[0].label, "");

  s.task = "copying";
  EXPECT_THAT(message_of<ValueError>([&] { run(s); }), HasSubstr("a run learns one thing"));
}

TEST_F(TrainApi, PartsOfArraysAreTheRuns) {
  TrainSettings s{
      .model = "gru", .rule = "D_RTRL", .hidden = 4, .batch = 8, .updates = 2, .backend = "interpreter"};
  s.arrays = std::make_shared<TrainArrays>(
      TrainArrays{.train = series(1, 40), .valid = series(2, 8), .test = series(3, 12)});
  run(s, plan("parts"));
  EXPECT_THAT(
      bytes_of(in("parts") + "/run.json"),
      HasSubstr("40 samples to train on, 8 for checks (as the data has them), 12 for the final score"));
}

TEST_F(TrainApi, ArraysThatAreNoSeriesAreRefused) {
  const auto refused = [](const SeriesArrays& given) {
    TrainSettings s{.model = "gru"};
    s.arrays = std::make_shared<TrainArrays>(TrainArrays{.train = given});
    return message_of<ValueError>([&] { run(s); });
  };
  const SeriesArrays good = series(1, 20);
  EXPECT_THAT(refused({}), HasSubstr("xs are nothing; expected [samples, steps, channels]"));
  EXPECT_THAT(refused({ones({4}), good.ys}), HasSubstr("xs are f32[4]"));
  EXPECT_THAT(refused({good.xs, ones({20})}), HasSubstr("ys are f32[20]; expected a label"));
  EXPECT_THAT(refused({good.xs, zeros({20, 6}, Dtype::I32)}), HasSubstr("is a task of one's own"));
  EXPECT_THAT(refused({good.xs, good.ys, full({20}, 7, Dtype::I32)}),
              HasSubstr("the length of series 0 is 7; xs have 6 steps"));
  EXPECT_THAT(refused({good.xs / 0.0, good.ys}), HasSubstr("not finite: series 0"));
}

// Options by name -------------------------------------------------------------------------------------------

TEST_F(TrainApi, OptionsAreThoseOfTheCommandLine) {
  const RunConfig c = run_config({{"task", "copying"},
                                  {"set", "lag=5"},
                                  {"check_every", "7"},
                                  {"lr", "0.01"},
                                  {"clip-norm", "0"},
                                  {"update", "step"},
                                  {"runs", "none"},
                                  {"dtype", "f64"}});
  EXPECT_EQ(c.settings.task_settings.at(0), (std::pair<std::string, double>{"lag", 5}));
  EXPECT_EQ(c.plan.check_every, 7);
  EXPECT_FALSE(c.settings.clip_norm);
  EXPECT_EQ(c.settings.update, UpdateEvery::Step);
  EXPECT_EQ(c.plan.runs, "");
  const auto refused = [](const ConfigItems& items) {
    return message_of<ValueError>([&] { run_config(items); });
  };
  EXPECT_THAT(refused({{"hiden", "3"}}), HasSubstr("there is no option 'hiden' (did you mean hidden?)"));
  EXPECT_THAT(refused({{"hidden", "many"}}),
              HasSubstr("hidden is 'many'; expected a whole number from 1 on"));
  EXPECT_THAT(refused({{"batch", "0"}}), HasSubstr("batch is '0'"));
  EXPECT_THAT(refused({{"lr", "nan"}}), HasSubstr("lr is 'nan'"));
  EXPECT_THAT(refused({{"until_accuracy", "2"}}), HasSubstr("a number from 0 to 1"));
  EXPECT_THAT(refused({{"update", "steps"}}), HasSubstr("did you mean step?"));
  EXPECT_THAT(refused({{"no-fidelity", "yes"}}), HasSubstr("expected true or false"));
  EXPECT_THAT(refused({{"set", "lag"}}), HasSubstr("expected NAME=VALUE"));
}

TEST_F(TrainApi, WhatIsWrongIsSaidBeforeTheWork) {
  EXPECT_THAT(message_of<ValueError>([] { run({.task = "copyng"}); }), HasSubstr("did you mean copying?"));
  EXPECT_THAT(message_of<ValueError>([] { run({}); }), HasSubstr("there is no task ''"));
  EXPECT_THAT(message_of<ValueError>([&] { run(xor_settings(), {.resume = true}); }),
              HasSubstr("resume needs the run"));
  EXPECT_THAT(message_of<ValueError>([&] { run(xor_settings(), {.save = "x.txt"}); }),
              HasSubstr(".safetensors or .npz"));
  EXPECT_THAT(message_of<ValueError>([&] { run(xor_settings(), {.until_accuracy = 2.0}); }),
              HasSubstr("(0, 1]"));
  EXPECT_THAT(message_of<ValueError>([&] { resume(in("none")); }), HasSubstr("is no folder of a run"));
  EXPECT_THAT(message_of<ValueError>([&] { evaluate(in("none")); }), HasSubstr("is no folder of a run"));
  EXPECT_THAT(message_of<ValueError>([&] { predict(in("none"), "x.csv", "interpreter"); }),
              HasSubstr("no folder of a run"));
  run(xor_settings(2), plan("a"));
  EXPECT_THAT(message_of<ValueError>([&] { run(xor_settings(2), plan("a")); }), HasSubstr("exists"));
  EXPECT_THAT(message_of<ValueError>([&] {
                resume(in("a"), {{"task", "copying"}});
              }),
              HasSubstr("is one already"));
  EXPECT_THAT(message_of<ValueError>([&] { evaluate(in("a"), {.batches = 0}); }), HasSubstr("at least 1"));
  EXPECT_THAT(message_of<IoError>([&] { list_runs(in("nowhere")); }), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace etrace::train
