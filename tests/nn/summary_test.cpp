// The table of a model.
#include "etrace/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/nn.h"

namespace etrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct SummedNet : Module {
  nn::GRUCell& rnn = child<nn::GRUCell>("rnn", 3, 8);
  nn::Linear& out = child<nn::Linear>("out", 8, 2);
  Array update(const Array& x) override { return out(rnn(x)); }
};

TEST(Summary, CountsAndShapes) {
  SummedNet net;
  init_all_states(net, 4);
  const Summary s = summary(net, zeros({4, 3}));
  std::vector<std::string> paths;
  for (const Summary::Row& r : s.rows) paths.push_back(r.path);
  EXPECT_THAT(paths, ElementsAre("", "out", "rnn", "rnn/Wh", "rnn/Wr", "rnn/Wz"));
  EXPECT_EQ(s.rows[1].type, "nn::Linear");
  EXPECT_EQ(s.rows[2].type, "nn::GRUCell");
  EXPECT_EQ(s.rows[0].output, "f32[4,2]");
  EXPECT_EQ(s.rows[2].output, "f32[4,8]");
  EXPECT_EQ(s.rows[3].output, "f32[4,8]");
  EXPECT_EQ(s.rows[3].params, 11 * 8 + 8);
  EXPECT_THAT(s.rows[3].states, ElementsAre("weight.bias f32[8]", "weight.weight f32[11,8]"));
  EXPECT_THAT(s.rows[2].states, ElementsAre("h f32[4,8] hidden"));
  EXPECT_EQ(s.total.params, 3 * 96 + 18);
  EXPECT_EQ(s.total.param_bytes, 4 * (3 * 96 + 18));
  EXPECT_EQ(s.total.state_bytes, 4 * 4 * 8);
  EXPECT_EQ(net.rnn.h.value().shape(), (Shape{4, 8}));  // nothing has moved
}

TEST(Summary, ColumnsOfOnesOwnAndText) {
  SummedNet net;
  const auto traces = [](const StatePath& p) { return to_string(p).starts_with("rnn") ? 1000 : 0; };
  const Summary s = summary(net, {}, {{"D_RTRL", traces}});
  EXPECT_EQ(s.total.extra, (std::vector<std::int64_t>{3000}));
  EXPECT_EQ(s.rows[0].output, "");
  const std::string text = s.to_string();
  EXPECT_THAT(text, HasSubstr("D_RTRL"));
  EXPECT_THAT(text, HasSubstr("nn::GRUCell"));
  EXPECT_THAT(text, HasSubstr("    weight.weight f32[8,2]"));
  EXPECT_THAT(text, HasSubstr("total"));
}

TEST(Summary, SharedModulesCountOnce) {
  struct Twice : Module {
    nn::Linear& a = child<nn::Linear>("a", 2, 2);
    nn::Linear& b = share("b", a);
  } net;
  EXPECT_EQ(summary(net).total.params, 6);
}

}  // namespace
}  // namespace etrace
