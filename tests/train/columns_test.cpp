// Runs find the columns that they have learned from by name: predictions, scores, runs and streams that go
// on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "data/reader.h"
#include "etrace/error.h"
#include "etrace/stream.h"
#include "etrace/train.h"
#include "support/errors.h"

namespace etrace::train {
namespace {

namespace fs = std::filesystem;
using etrace::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Names = std::vector<std::string>;

class Columns : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::mt19937 random(1);
    std::normal_distribution<double> noise;
    for (int i = 0; i < 60; ++i)
      for (int t = 0; t < 5; ++t)
        rows_.push_back({std::to_string(i),
                         fmt("%.3f", (i % 2 == 0 ? -1 : 1) * t / 3.0 + 0.1 * noise(random)),
                         fmt("%.3f", 5 + noise(random)), i % 2 == 0 ? "a" : "b"});
    put("s.csv", {"id", "temp", "press", "state"}, {0, 1, 2, 3});
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string fmt(const char* form, double x) {
    char text[64];
    std::snprintf(text, sizeof text, form, x);
    return text;
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  // The table with these columns of it; no names: without a line of them.
  std::string put(const std::string& name, const Names& names, const std::vector<int>& columns) const {
    std::ofstream out(path(name));
    const auto line = [&](const Names& fields) {
      for (std::size_t i = 0; i < fields.size(); ++i) out << (i > 0 ? "," : "") << fields[i];
      out << "\n";
    };
    if (!names.empty()) line(names);
    for (const auto& row : rows_) {
      Names fields;
      for (const int c : columns) fields.push_back(c < 0 ? "7" : row[static_cast<std::size_t>(c)]);
      line(fields);
    }
    return path(name);
  }
  TrainSettings settings(const std::string& file) const {
    TrainSettings s{.task = path(file), .model = "gru", .hidden = 4, .batch = 8, .updates = 60};
    s.task_texts = {{"read", "series=id"}};
    s.backend = "interpreter";
    return s;
  }
  RunPlan plan(const std::string& name) const {
    return {.check_every = 20, .runs = folder_, .name = name, .fidelity = false};
  }
  void learn(const std::string& name = "r") const { run(settings("s.csv"), plan(name)); }
  Predictions asked(const std::string& file, bool labelled = true) const {
    return predict(path("r"), path(file), "interpreter", labelled);
  }
  static std::vector<std::size_t> answers(const Predictions& p) {
    std::vector<std::size_t> out;
    for (const auto& row : p.rows) out.push_back(row.answer);
    return out;
  }

  std::vector<Names> rows_;
  std::string folder_ = ::testing::TempDir() + "/etrace_columns_" + std::to_string(getpid());
};

TEST_F(Columns, PredictionsFindThemByName) {
  learn();
  const Predictions here = asked("s.csv");
  EXPECT_GT(here.right, 50U);
  EXPECT_THAT(here.notes, IsEmpty());
  put("swap.csv", {"press", "state", "temp", "id"}, {2, 3, 1, 0});
  const Predictions swapped = asked("swap.csv");
  for (std::size_t i = 0; i < here.rows.size(); ++i)
    EXPECT_EQ(swapped.rows[i].probability, here.rows[i].probability) << i;
  EXPECT_EQ(swapped.right, here.right);
  put("more.csv", {"id", "wind", "temp", "press", "state", "note"}, {0, -1, 1, 2, 3, 3});
  const Predictions more = asked("more.csv");
  EXPECT_EQ(answers(more), answers(here));
  EXPECT_THAT(more.notes, ElementsAre(AllOf(HasSubstr("not used"), HasSubstr("wind, note"))));
}

TEST_F(Columns, MissingOnesAreNamed) {
  learn();
  put("renamed.csv", {"id", "voltage", "humidity", "state"}, {0, 1, 2, 3});
  EXPECT_THAT(message_of<ValueError>([&] { asked("renamed.csv"); }),
              AllOf(HasSubstr("no column temp, press"), HasSubstr("has learned from"), HasSubstr("voltage")));
  put("one.csv", {"id", "temp", "state"}, {0, 1, 3});
  EXPECT_THAT(message_of<ValueError>([&] { asked("one.csv"); }), HasSubstr("no column press"));
  put("other.csv", {"id", "temp", "press", "what"}, {0, 1, 2, 3});
  EXPECT_THAT(message_of<ValueError>([&] { asked("other.csv"); }), HasSubstr("no column 'state'"));
  EXPECT_EQ(asked("other.csv", false).rows.size(), 60U) << "asked for no labels";
}

TEST_F(Columns, OneNameForSeveralIsRefused) {
  learn();
  put("twice.csv", {"id", "temp", "temp", "press", "state"}, {0, 2, 1, 2, 3});
  EXPECT_THAT(message_of<ValueError>([&] { asked("twice.csv"); }),
              AllOf(HasSubstr("twice.csv"), HasSubstr("more columns named 'temp'")));
}

TEST_F(Columns, WithoutNamesPlacesCountAndItIsSaid) {
  learn();
  put("plain.csv", {}, {0, 1, 2, 3});
  TrainSettings s = settings("plain.csv");
  s.task_texts = {{"read", "series=0"}};
  run(s, plan("p"));
  const Predictions plain = predict(path("p"), path("plain.csv"), "interpreter");
  EXPECT_THAT(plain.notes, ElementsAre(HasSubstr("no names of columns: they are taken by their places")));
  const Predictions named = predict(path("p"), path("s.csv"), "interpreter");
  EXPECT_THAT(named.notes, ElementsAre(HasSubstr("had no names of columns")));
  EXPECT_EQ(answers(named), answers(plain));
}

TEST_F(Columns, LabelsThatTheRunDoesNotKnowAreSaid) {
  learn();
  for (auto& row : rows_) row[3] = row[3] == "a" ? "z" : "b";
  put("labels.csv", {"id", "temp", "press", "state"}, {0, 1, 2, 3});
  EXPECT_THAT(asked("labels.csv").notes, ElementsAre(HasSubstr("does not know: z")));
}

// The file may have another order when a run is scored or goes on.
TEST_F(Columns, ScoresAndRunsThatGoOnFindThem) {
  learn();
  const Score before = evaluate(path("r"), {.backend = "interpreter"});
  TrainSettings whole = settings("s.csv");
  whole.updates = 90;
  whole.schedule = "constant";
  run(whole, plan("whole"));
  whole.updates = 60;
  run(whole, plan("part"));
  put("s.csv", {"state", "press", "id", "extra", "temp"}, {3, 2, 0, -1, 1});
  EXPECT_EQ(evaluate(path("r"), {.backend = "interpreter"}).loss, before.loss);
  const RunResult on = resume(path("part"), {{"updates", "90"}});
  std::ifstream a(path("part/best.safetensors"), std::ios::binary),
      b(path("whole/best.safetensors"), std::ios::binary);
  const std::string x{std::istreambuf_iterator<char>(a), {}}, y{std::istreambuf_iterator<char>(b), {}};
  EXPECT_EQ(on.updates, 90);
  EXPECT_EQ(x.substr(x.size() / 2), y.substr(y.size() / 2)) << "the same bits as without the exchange";
  put("s.csv", {"state", "pressure", "id", "temp"}, {3, 2, 0, 1});
  EXPECT_THAT(message_of<ValueError>([&] { evaluate(path("r"), {.backend = "interpreter"}); }),
              AllOf(HasSubstr("no column press"), HasSubstr("did you mean pressure?")));
  EXPECT_THAT(message_of<ValueError>([&] {
                resume(path("part"), {{"updates", "95"}});
              }),
              HasSubstr("no column press"));
  for (auto& row : rows_) row[3] = "new " + row[3];
  put("s.csv", {"id", "temp", "press", "state"}, {0, 1, 2, 3});
  EXPECT_THAT(message_of<ValueError>([&] { evaluate(path("r"), {.backend = "interpreter"}); }),
              AllOf(HasSubstr("does not know: new a, new b"), HasSubstr("it knows a, b")));
}

TEST_F(Columns, PartsOfOneDataSetMeetByName) {
  put("d_train.csv", {"id", "temp", "press", "state"}, {0, 1, 2, 3});
  put("d_test.csv", {"id", "state", "press", "temp"}, {0, 3, 2, 1});
  const auto d = data::read_data(path("d_train.csv"), "", {{"series", "id"}, {"label", "state"}});
  ASSERT_EQ(d->samples.size(), 120U);
  std::vector<float> a(10), b(10);
  d->write(0, a.data());
  d->write(60, b.data());
  EXPECT_EQ(a, b);
  EXPECT_THAT(d->columns.inputs, ElementsAre("temp", "press"));
  put("d_test.csv", {"id", "state", "pres", "temp"}, {0, 3, 2, 1});
  EXPECT_THAT(message_of<ValueError>([&] {
                data::read_data(path("d_train.csv"), "", {{"series", "id"}, {"label", "state"}});
              }),
              HasSubstr("d_test.csv' has no column press"));
}

// A sample per line: its numbers have names, too.
TEST_F(Columns, OfLinesThatAreSamples) {
  std::ofstream(path("rows.csv")) << "x1,x2,y\n1,2,a\n3,4,b\n";
  std::ofstream(path("turned.csv")) << "y,x2,x1\na,2,1\nb,4,3\n";
  const data::Expected expected{.columns = {.inputs = {"x1", "x2"}, .label = "y"}};
  const auto d = data::read_data(path("turned.csv"), "", {}, &expected);
  std::vector<float> values(2);
  d->write(1, values.data());
  EXPECT_THAT(values, ElementsAre(3.0F, 4.0F));
}

TEST_F(Columns, OfArraysWithNames) {
  Tensor xs = Tensor::uninitialized({Dtype::F32, Shape{60, 5, 2}}),
         ys = Tensor::uninitialized({Dtype::I32, Shape{60}});
  auto* x = reinterpret_cast<float*>(xs.writable());
  auto* y = reinterpret_cast<std::int32_t*>(ys.writable());
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    x[2 * r] = std::stof(rows_[r][1]);
    x[2 * r + 1] = std::stof(rows_[r][2]);
    y[r / 5] = rows_[r][3] == "b" ? 1 : 0;
  }
  TrainArrays arrays{.train = {Array(xs), Array(ys), {}, {"temp", "press"}}, .classes = {"a", "b"}};
  TrainSettings s{.model = "gru", .hidden = 4, .batch = 8, .updates = 60};
  s.backend = "interpreter";
  s.arrays = std::make_shared<const TrainArrays>(arrays);
  run(s, plan("r"));
  const Predictions here =
      predict(path("r"), SeriesArrays{Array(xs), {}, {}, {"temp", "press"}}, "interpreter");
  Tensor swapped = Tensor::copy_of(xs.aval(), xs.bytes());
  auto* z = reinterpret_cast<float*>(swapped.writable());
  for (std::size_t r = 0; r < rows_.size(); ++r) std::swap(z[2 * r], z[2 * r + 1]);
  const Predictions there =
      predict(path("r"), SeriesArrays{Array(swapped), {}, {}, {"press", "temp"}}, "interpreter");
  EXPECT_EQ(answers(here), answers(there));
  EXPECT_THAT(here.notes, IsEmpty());
  EXPECT_THAT(predict(path("r"), SeriesArrays{Array(xs), {}}, "interpreter").notes,
              ElementsAre(HasSubstr("by their places")));
  EXPECT_THAT(message_of<ValueError>([&] {
                predict(path("r"), SeriesArrays{Array(xs), {}, {}, {"temp", "volt"}}, "interpreter");
              }),
              HasSubstr("no column press"));
}

}  // namespace
}  // namespace etrace::train

namespace etrace {
namespace {

using etrace::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StreamColumns : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::pipe(ends_), 0); }
  void TearDown() override {
    for (const int end : ends_) ::close(end);
  }
  CsvStream open(const std::string& text) {
    EXPECT_EQ(::write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(ends_[1]);
    ends_[1] = ::dup(ends_[0]);
    return CsvStream({.path = "/dev/fd/" + std::to_string(ends_[0]),
                      .say = [this](const std::string& line) { said_.push_back(line); }});
  }
  int ends_[2] = {-1, -1};
  std::vector<std::string> said_;
  const StreamKind kind_{{"a", "b"}, "kind", {"u", "v"}};
};

TEST_F(StreamColumns, APipeThatGoesOnIsReadByName) {
  CsvStream s = open("b,kind,extra,a\n2,u,9,1\n4,v,9,3\nkind,a,b\nv,5,6\n");
  s.go_on(100, 0, kind_);
  StreamRow row;
  ASSERT_EQ(s.next(row), CsvStream::Next::Row);
  EXPECT_THAT(row.numbers, ElementsAre(1, 2));
  EXPECT_EQ(row.label, "u");
  ASSERT_EQ(s.next(row), CsvStream::Next::Row);
  ASSERT_EQ(s.next(row), CsvStream::Next::Row) << "a writer with another order";
  EXPECT_THAT(row.numbers, ElementsAre(5, 6));
  EXPECT_EQ(row.label, "v");
  EXPECT_EQ(row.line, 105);
  EXPECT_THAT(said_, ElementsAre(AllOf(HasSubstr("line 101"), HasSubstr("not used"), HasSubstr("extra"))));
}

TEST_F(StreamColumns, WhatIsMissingIsNamed) {
  CsvStream s = open("a,c,kind\n1,2,u\n");
  s.go_on(100, 0, kind_);
  StreamRow row;
  EXPECT_THAT(message_of<ValueError>([&] { s.next(row); }),
              AllOf(HasSubstr("no column b"), HasSubstr("a, c, kind")));
}

TEST_F(StreamColumns, WithoutNamesPlacesCountAndItIsSaid) {
  CsvStream s = open("1,2,u\n3,4,v\n");
  s.go_on(100, 0, kind_);
  StreamRow row;
  ASSERT_EQ(s.next(row), CsvStream::Next::Row);
  EXPECT_THAT(row.numbers, ElementsAre(1, 2));
  EXPECT_THAT(said_, ElementsAre(HasSubstr("by their places")));
}

TEST_F(StreamColumns, AnotherCountIsRefused) {
  CsvStream s = open("1,2,3,u\n");
  s.go_on(100, 0, kind_);
  StreamRow row;
  EXPECT_THAT(message_of<ValueError>([&] { s.next(row); }),
              HasSubstr("3 columns beside the label, but the stream had 2"));
}

}  // namespace
}  // namespace etrace
