// Streams: scores by hand, drift, lines of every kind, going on bit for bit.
#include "etrace/stream.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "etrace/error.h"
#include "support/errors.h"

namespace etrace {
namespace {

namespace fs = std::filesystem;
using etrace::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Next = CsvStream::Next;

TEST(Prequential, ByHand) {
  Prequential p(3, 4);
  const std::int32_t answers[] = {0, 1, 1, 2, 0, 0}, labels[] = {0, 0, 1, 1, 0, 2};
  for (int i = 0; i < 6; ++i) p.add(answers[i], labels[i]);
  EXPECT_EQ(p.count(), 6);
  EXPECT_DOUBLE_EQ(p.accuracy(), 3.0 / 6);
  EXPECT_DOUBLE_EQ(p.no_change(), 2.0 / 6) << "the first label has none before it";
  EXPECT_DOUBLE_EQ(p.majority(), 2.0 / 6) << "0 was most frequent at lines 2 and 5; of equal ones the first";
  EXPECT_DOUBLE_EQ(p.recent_accuracy(), 2.0 / 4);
  EXPECT_DOUBLE_EQ(p.kappa_no_change(), (0.5 - 2.0 / 6) / (1 - 2.0 / 6));
  EXPECT_DOUBLE_EQ(p.recent_kappa_no_change(), (0.5 - 0.25) / 0.75);
  const double chance = 3.0 / 6 * 3 / 6 + 2.0 / 6 * 2 / 6 + 1.0 / 6 * 1 / 6;
  EXPECT_DOUBLE_EQ(p.kappa(), (0.5 - chance) / (1 - chance));
  Prequential again(3, 4);
  again.take(p.text());
  for (Prequential* each : {&p, &again}) each->add(1, 2);
  EXPECT_EQ(again.text(), p.text());
  EXPECT_THAT(message_of<ValueError>([&] { Prequential(2, 4).take(p.text()); }), HasSubstr("3 classes"));
  EXPECT_THAT(message_of<ValueError>([&] { again.take("{}"); }), HasSubstr("cannot be read"));
  EXPECT_THAT(message_of<ValueError>([] { Prequential one(1); }), HasSubstr("at least 2"));
  EXPECT_THAT(message_of<ValueError>([&] { p.add(3, 0); }), HasSubstr("expected classes from 0 to 2"));
}

TEST(Prequential, NothingBetterThanNoChangeIsPossible) {
  Prequential p(2, 10);
  for (int i = 0; i < 20; ++i) p.add(1, 1);
  EXPECT_GT(p.kappa_no_change(), 0.0) << "the first label is no repetition";
  EXPECT_EQ(p.recent_kappa_no_change(), 0.0);
  EXPECT_EQ(Prequential(2).accuracy(), 0.0);
}

TEST(DriftWatch, SeesAChangeAndLittleElse) {
  std::mt19937 random(7);
  DriftWatch watch;
  int alarms = 0;
  for (int i = 0; i < 100000; ++i) alarms += watch.add(random() % 10 == 0);
  EXPECT_LE(alarms, 1) << "nothing has changed";
  int needed = 0;
  while (!watch.add(random() % 10 < 5)) ASSERT_LT(++needed, 200);
  EXPECT_THAT(message_of<ValueError>([] { DriftWatch w(0.0); }), HasSubstr("(0, 1)"));
}

class Streams : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string put(const std::string& text, const std::string& name = "s.csv") const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  // Two classes that a line decides, and that change sides after half of the lines.
  static std::string table(int lines, unsigned seed = 3) {
    std::mt19937 random(seed);
    std::string text = "a,b,kind\n";
    for (int i = 0; i < lines; ++i) {
      const double a = (random() % 2001) / 1000.0 - 1, b = 100 + (random() % 2001) / 10.0;
      const bool up = i < lines / 2 ? a > 0 : a < 0;
      text += std::to_string(a) + "," + std::to_string(b) + (up ? ",up\n" : ",down\n");
    }
    return text;
  }
  std::string folder_ = ::testing::TempDir() + "/etrace_streams_" + std::to_string(getpid());
};

TEST_F(Streams, Lines) {
  CsvStream s({.path = put("\xef\xbb\xbf# said\r\n\r\nx, y ,kind\r\n1,2,a\r\n+3,4e1,\"b, c\"\r\n"
                           "1,2\r\n1,2,a,4\r\n1,nan,a\r\n1,inf,a\r\nq,2,a\r\n,2,a\r\n1,2,\r\n1,2,\"a\r\n"
                           "1,2,\xff\r\n5,6,a\r\n7,8,a")});
  StreamRow row;
  ASSERT_EQ(s.next(row), Next::Row);
  EXPECT_EQ(row.numbers, (std::vector<double>{1, 2}));
  EXPECT_EQ(row.label, "a");
  EXPECT_EQ(row.line, 4);
  ASSERT_EQ(s.next(row), Next::Row);
  EXPECT_EQ(row.numbers, (std::vector<double>{3, 40}));
  EXPECT_EQ(row.label, "b, c");
  for (const char* said :
       {"line 6: 2 columns, expected 3", "line 7: 4 columns, expected 3", "line 8: 'nan' in column y ",
        "line 9: 'inf'", "line 10: 'q' in column x is no number", "line 11: '' in column x",
        "line 12: the label is empty", "line 13: a quote that is not closed",
        "line 14: the label is no UTF-8"}) {
    ASSERT_EQ(s.next(row), Next::Bad) << said;
    EXPECT_THAT(row.problem, HasSubstr(said));
  }
  ASSERT_EQ(s.next(row), Next::Row);
  EXPECT_EQ(row.numbers[0], 5);
  ASSERT_EQ(s.next(row), Next::CutOff);
  EXPECT_THAT(row.problem, HasSubstr("ends in the middle of line 16"));
  EXPECT_EQ(s.blank_lines(), 2);
}

TEST_F(Streams, Kinds) {
  CsvStream s({.path = put("10,1\n2,1\n1\n9,3\n"), .label = "0"});
  const StreamKind kind = s.look(100);
  EXPECT_EQ(kind.classes, (std::vector<std::string>{"2", "9", "10"})) << "by number";
  EXPECT_EQ(kind.inputs, std::vector<std::string>{"1"});
  EXPECT_EQ(kind.label, "0");
  EXPECT_EQ(kind.class_of("9"), 1);
  EXPECT_EQ(kind.class_of("99"), -1);
  StreamRow row;
  int rows = 0, bad = 0;
  for (Next n = s.next(row); n != Next::End; n = s.next(row)) ++(n == Next::Row ? rows : bad);
  EXPECT_EQ(rows, 3) << "what was looked at comes all the same";
  EXPECT_EQ(bad, 1);
  const auto refused = [&](const std::string& text, const std::string& label = "-1") {
    return message_of<Error>([&] {
      CsvStream each({.path = put(text, "r.csv"), .label = label});
      each.look(5);
    });
  };
  EXPECT_THAT(refused(""), HasSubstr("has no line that can be used"));
  EXPECT_THAT(refused("a,b\n"), HasSubstr("has no line that can be used"));
  EXPECT_THAT(refused("a,b\n1\n"), HasSubstr("the first problem: "));
  EXPECT_THAT(refused("1\n2\n"), HasSubstr("line 1: one column"));
  EXPECT_THAT(refused("a,kind\n1,x\n", "knd"), AllOf(HasSubstr("'knd' (did you mean kind?)")));
  EXPECT_THAT(refused("\x1f\x8b\x08 packed\n"), HasSubstr("zcat"));
  EXPECT_THAT(refused(std::string(17 << 20, 'x')), HasSubstr("more than 16777216 bytes"));
  EXPECT_THAT(message_of<IoError>([&] { CsvStream each({.path = path("none")}); }), HasSubstr("cannot open"));
  EXPECT_THAT(message_of<IoError>([&] { CsvStream each({.path = folder_}); }), HasSubstr("is a folder"));
}

TEST_F(Streams, APipeThatIsSilentCanBeStopped) {
  ASSERT_EQ(mkfifo(path("p").c_str(), 0600), 0);
  const int hold = ::open(path("p").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::write(hold, "1,a\n2,", 6), 6);
  int asked = 0;
  CsvStream s({.path = path("p"), .stop = [&] { return ++asked == 1; }});
  StreamRow row;
  EXPECT_TRUE(s.is_pipe());
  EXPECT_EQ(s.next(row), Next::Row);
  EXPECT_EQ(s.next(row), Next::Stopped);
  ASSERT_EQ(::write(hold, "b\n", 2), 2);
  EXPECT_EQ(s.next(row), Next::Row) << "a part of a line is not lost";
  EXPECT_EQ(row.label, "b");
  ::close(hold);
  EXPECT_EQ(s.next(row), Next::End);
}

// Lines that were damaged are good ones, bad ones that say where, or an error that names the stream.
TEST_F(Streams, DamagedTables) {
  std::mt19937 random(11);
  const std::string whole = table(20);
  constexpr const char* kWords[] = {"nan", "1e999", "\"", ",", "\n", "\r\n", "\xff", "#", ";"};
  for (int k = 0; k < 300; ++k) {
    std::string text = whole;
    for (int j = 0; j < 3; ++j) {
      const std::size_t at = random() % text.size();
      if (random() % 2 == 0)
        text.insert(at, kWords[random() % std::size(kWords)]);
      else
        text.erase(at, 1 + random() % 6);
    }
    try {
      CsvStream s({.path = put(text)});
      s.look(5);
      StreamRow row;
      for (Next next = s.next(row); next == Next::Row || next == Next::Bad; next = s.next(row)) {
        if (next == Next::Bad) {
          EXPECT_THAT(row.problem, HasSubstr("s.csv', line "));
          continue;
        }
        EXPECT_FALSE(row.label.empty());
        for (const double v : row.numbers) EXPECT_TRUE(std::isfinite(v));
      }
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("s.csv'"));
    }
  }
}

TEST_F(Streams, LearnsAndSeesTheChange) {
  CsvStream s({.path = put(table(4000))});
  const StreamKind kind = s.look(100);
  StreamLearner l({.hidden = 8, .learning_rate = 0.01, .backend = "interpreter", .window = 500}, kind);
  std::int64_t drift = 0;
  for (StreamRow row; s.next(row) == Next::Row;)
    if (l.step(row.numbers, kind.class_of(row.label)).drift && drift == 0) drift = row.line;
  EXPECT_EQ(l.lines(), 4000);
  EXPECT_GT(l.score().accuracy(), 0.85);
  EXPECT_GT(l.score().kappa_no_change(), 0.7);
  EXPECT_GT(drift, 2000);
  EXPECT_LT(drift, 2100);
  EXPECT_THAT(message_of<ValueError>([&] { l.step(std::vector<double>{1}, 0); }), HasSubstr("1 inputs"));
  EXPECT_THAT(message_of<ValueError>([&] {
                l.step(std::vector<double>{1, NAN}, 0);
              }),
              HasSubstr("the input b is not finite"));
  EXPECT_THAT(message_of<ValueError>([&] { l.step(std::vector<double>{1, 2}, 2); }), HasSubstr("no class 2"));
  EXPECT_THAT(message_of<ValueError>([&] {
                StreamLearner x({}, {{"a"}, "k", {"one"}});
              }),
              HasSubstr("--set classes"));
}

TEST_F(Streams, GoesOnBitForBit) {
  const std::string file = put(table(300));
  const StreamSettings settings{.hidden = 4, .backend = "interpreter", .horizon = 50, .window = 20};
  const auto learn = [&](CsvStream& s, StreamLearner& l, int lines) {
    StreamRow row;
    for (int i = 0; i < lines && s.next(row) == Next::Row; ++i)
      l.step(row.numbers, l.kind().class_of(row.label));
    return row;
  };
  CsvStream whole({.path = file}), first({.path = file}), rest({.path = file});
  const StreamKind kind = whole.look(50);
  first.look(50);
  StreamLearner straight(settings, kind), before(settings, kind);
  learn(whole, straight, 300);
  const StreamRow at = learn(first, before, 123);
  before.save(path("c"), {{"mine", "1"}});
  const StreamKind again = stream_kind(path("c"));
  EXPECT_EQ(again.classes, kind.classes);
  StreamLearner after(settings, again);
  const Learner::Notes notes = after.resume(path("c"));
  EXPECT_THAT(notes, ::testing::Contains(std::pair<std::string, std::string>("mine", "1")));
  rest.go_on(at.line, at.next_byte, again);
  learn(rest, after, 300);
  straight.save(path("straight"));
  after.save(path("after"));
  EXPECT_EQ(after.lines(), 300);
  const auto bytes = [](const std::string& p) {
    std::ifstream in(p, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_EQ(bytes(path("straight")), bytes(path("after")));

  StreamSettings other = settings;
  other.hidden = 5;
  StreamLearner wider(other, kind);
  EXPECT_THAT(message_of<ValueError>([&] { wider.resume(path("c")); }),
              HasSubstr("--hidden is 4 there and 5 here"));
  CsvStream shorter({.path = put("a,b,kind\n1,2,up\n", "t.csv")});
  EXPECT_THAT(message_of<ValueError>([&] { shorter.go_on(at.line, at.next_byte, again); }),
              HasSubstr("not the stream that it was"));
  std::string renamed = table(300);
  renamed[0] = 'z';
  CsvStream columns({.path = put(renamed, "u.csv")});
  EXPECT_THAT(message_of<ValueError>([&] { columns.go_on(at.line, at.next_byte, again); }),
              HasSubstr("the columns z,b"));
}

}  // namespace
}  // namespace etrace
