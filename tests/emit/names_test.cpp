// Whatever names there are, the tokens of emitted text are the same. `./dev fuzz names` tries more of them.
#include "emit/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/etrace.h"
#include "support/c_tokens.h"
#include "support/hostile_names.h"

namespace etrace {
namespace {

using namespace testing;
using emit::CommentText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> words(std::string_view text, const CLanguage& l = {}) {
  std::vector<std::string> out;
  for (const CToken& t : c_tokens(text, l)) out.push_back((t.kind == CToken::Broken ? "!" : "") + t.text);
  return out;
}

// The lexer -------------------------------------------------------------------------------------------------
TEST(CTokens, LinesAreJoinedBeforeCommentsEnd) {
  EXPECT_THAT(words("/* a *\\\n/ b; /* c */"), ElementsAre("b", ";"));
  EXPECT_THAT(words("/* a *\\ \r\n/ b"), ElementsAre("b"));
  EXPECT_THAT(words("i\\\nnt x;"), ElementsAre("int", "x", ";"));
  EXPECT_THAT(words("// a \\\n b\nc"), ElementsAre("c"));
}
TEST(CTokens, TrigraphsComeFirst) {
  EXPECT_THAT(words("/* a *?\?/\n/ b", {.trigraphs = true}), ElementsAre("b"));
  EXPECT_THAT(words("/* a *?\?/\n/ b"), ElementsAre("!/* a *?\?/\n/ b"));
  EXPECT_THAT(words("?\?=define x ?\?( ?\?)", {.trigraphs = true}),
              ElementsAre("#", "define", "x", "[", "]", "\n"));
}
TEST(CTokens, StringsDirectivesAndDigraphs) {
  EXPECT_THAT(words("\"a\\\" /* b\" 'c' L\"d\""), ElementsAre("\"a\\\" /* b\"", "'c'", "L", "\"d\""));
  EXPECT_THAT(words("#include <a/b*c.h>\nx %:y <: :> 1.5e-3f"),
              ElementsAre("#", "include", "<a/b*c.h>", "\n", "x", "#", "y", "[", "]", "1.5e-3f"));
  EXPECT_THAT(words("\"a\nb"), ElementsAre("!\"a", "b"));
  EXPECT_THAT(words("R\"x(a\" b)x\" c", {.raw_strings = true}), ElementsAre("R\"x(a\" b)x\"", "c"));
  EXPECT_THAT(words("a\rb // c\rd", {.returns_end_lines = true}), ElementsAre("a", "b", "d"));
}
TEST(CTokens, DifferencesAreSeen) {
  EXPECT_EQ(difference_of_programs("", "loop1_a(in0_b); /* a */", "loop1_c(in0_d); /* b */"), "");
  for (const char* other :
       {"loop1_a(in0_b); x", "loop2_a(in0_b);", "loop1_a(in0_b;", "loop1_a(loop1_a);", "in0_b(in0_b);",
        "loop1_a(out0_b);", "/* *\\\n/ x /*", "loop1_a(in0_b); // ?\?/\n\nx", "loop1_a(\"x\");"})
    EXPECT_NE(difference_of_programs("", "loop1_a(in0_b);", other), "") << other;
}

// One function for each way
// -----------------------------------------------------------------------------------
std::string undone(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (text.substr(i) == "%...") break;
    out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
    i += 2;
  }
  return out;
}

TEST(Names, AreShownInCommentsAsTheyAreWhereTheyAreHarmless) {
  for (const char* same :
       {"rnn/W/weight", "c:f32[32,256] = add a b    layers.0.rnn", "it's \"a\" * b / c? {}$0#@"})
    EXPECT_EQ(CommentText(same).str(), same);
  EXPECT_EQ(CommentText("é*/\\\n?\?/%").str(), "%C3%A9*%2F%5C%0A?%3F/%25");
  EXPECT_EQ(emit::comment(CommentText("a*/"), ": b."), "/* a*%2F: b. */");
}
TEST(Names, OfAnyBytesAreHarmlessEverywhere) {
  Dice dice(1);
  for (int k = 0; k < 3000; ++k) {
    const std::string name = hostile_name(dice);
    const std::string text = CommentText(name).str();
    ASSERT_LE(text.size(), CommentText::kMost + 4);
    for (const char ch : text) ASSERT_TRUE(ch >= ' ' && ch <= '~' && ch != '\\') << text;
    for (const char* pair : {"*/", "/*", "//", "?\?"}) ASSERT_THAT(text, Not(HasSubstr(pair)));
    ASSERT_EQ(name.substr(0, undone(text).size()), undone(text));
    if (!text.ends_with("%...")) {
      ASSERT_EQ(undone(text), name);
    }
    ASSERT_THAT(words(emit::comment(CommentText(name)) + "x"), ElementsAre("x"));

    const std::string word = emit::identifier(name);
    ASSERT_LE(word.size(), emit::kMostIdentifier);
    ASSERT_THAT(words("x" + word), ElementsAre("x" + word));
    for (const CLanguage& l : c_languages()) ASSERT_EQ(words(emit::string_literal(name) + ";", l).size(), 2U);
  }
}
TEST(Names, WordsOfTextAreThoseOutsideComments) {
  const std::string text = "/* etp_sin_f32 */ loop0_etp_cos_f32(v1, etp_exp_f64(v12_v1)); /* v3";
  const emit::Words w(text);
  EXPECT_TRUE(w.has_from("etp_exp"));
  EXPECT_FALSE(w.has_from("etp_sin"));
  EXPECT_FALSE(w.has_from("etp_cos"));
  EXPECT_TRUE(w.has("v1"));
  EXPECT_FALSE(w.has("v12"));
  EXPECT_FALSE(w.has("v3"));
}

// What is emitted
// ---------------------------------------------------------------------------------------------
// An operator of a program of one's own may have any name; its kernel is called.
TEST(Names, OfOperatorsDoNotReachTheTokens) {
  const auto text = [](std::string_view name) {
    PrimitiveSpec spec = sort_p.spec;
    spec.name = name;
    const Primitive p(spec);
    ClosedJaxpr j = make_jaxpr(
        [](ArraySpan in) {
          return Arrays{sort(in[0]), sort(in[0] + 1.0)};
        },
        Avals{{Dtype::F32, {7}}});
    for (Eqn& e : j.jaxpr.eqns)
      if (e.prim == &sort_p) e.prim = &p;
    const Avals out = j.out_avals();
    return printed(built({"p",
                          j,
                          {{"x", PortRole::Arg, j.in_avals()[0]}},
                          {{"y", PortRole::Result, out[0]}, {"z", PortRole::Result, out[1]}},
                          {}}));
  };
  Dice dice(300);
  const Texts plain = text("n1");
  EXPECT_THAT(plain[0].second, HasSubstr("call0_n1"));
  for (int k = 0; k < 30; ++k) EXPECT_EQ(difference_of_texts(plain, text(hostile_name(dice))), "");
}

}  // namespace
}  // namespace etrace
