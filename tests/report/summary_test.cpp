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

// Per parameter [n], n numbers of trace for every sample and state that it reaches: Wz and Wh; Wr acts
// through Wh, out at its own step.
TEST(Summary, TracesPerRule) {
  SummedNet net;
  init_all_states(net, 4);
  const Summary s = summary(net, zeros({4, 3}));
  const auto at = [&](const char* rule) {
    for (std::size_t t = 0; t < s.traces.size(); ++t)
      if (std::count(s.traces[t].rules.begin(), s.traces[t].rules.end(), rule) > 0) return t;
    ADD_FAILURE() << "no " << rule;
    return std::size_t{0};
  };
  const std::size_t d_rtrl = at("D_RTRL"), pp_prop = at("pp_prop"), coupled = at("OSTLRecurrent");
  const auto bytes = [&](std::size_t t) {
    std::vector<std::int64_t> all;
    for (const Summary::Row& r : s.rows) all.push_back(r.traces[t]);
    return all;
  };
  const std::int64_t gate = 4 * 4 * (3 + 8 + 1) * 8;  // f32, batch
  EXPECT_THAT(bytes(d_rtrl), ElementsAre(0, 0, 0, gate, 0, gate));
  EXPECT_EQ(s.total.traces[d_rtrl], 2 * gate);
  EXPECT_EQ(s.total.traces[coupled], 2 * gate);
  // One filtered [x, h] and one [x, r⊙h], and a filtered derivative for each of the two.
  EXPECT_EQ(s.total.traces[pp_prop], 4 * 4 * (2 * (3 + 8) + 2 * 8));
  EXPECT_GT(s.total.traces[at("SnAp")], s.total.traces[d_rtrl]);
  EXPECT_TRUE(summary(net).traces.empty());
  const std::string text = s.to_string();
  EXPECT_THAT(text, HasSubstr("D_RTRL"));
  EXPECT_THAT(text, HasSubstr("as D_RTRL: "));
}

TEST(Summary, OfAModelFile) {
  SummedNet net;
  const Summary here = summary(net, zeros({3})), read = summary(trace_step(net, zeros({3})).model);
  EXPECT_EQ(read.total.params, here.total.params);
  EXPECT_EQ(read.total.param_bytes, here.total.param_bytes);
  EXPECT_EQ(read.total.state_bytes, here.total.state_bytes);
  EXPECT_EQ(read.total.traces, here.total.traces);
  ASSERT_EQ(read.rows.size(), here.rows.size());
  for (std::size_t i = 0; i < read.rows.size(); ++i) {
    EXPECT_EQ(read.rows[i].path, here.rows[i].path);
    EXPECT_EQ(read.rows[i].states, here.rows[i].states);
    EXPECT_EQ(read.rows[i].output, here.rows[i].output);
    EXPECT_EQ(read.rows[i].type, "");
  }
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
