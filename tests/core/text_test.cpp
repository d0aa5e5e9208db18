// Text of programs: stable, readable, and read back to an equal program; bad text gets line and column.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/number_text.h"
#include "core/programs.h"
#include "etrace/model_io.h"

namespace etrace {
namespace {

using test::call;
using test::kF32x3;
using test::kF64;
using test::literal;
using test::square_plus;
using ::testing::HasSubstr;

std::string fault_of(const std::string& text) {
  try {
    parse(text);
  } catch (const CompilationError& e) {
    return e.what();
  }
  return "no error";
}

void expect_round_trip(const ClosedJaxpr& program) {
  const std::string text = to_string(program);
  const ClosedJaxpr back = parse(text);
  EXPECT_TRUE(equal(program, back)) << text;
  EXPECT_EQ(to_string(back), text);
  EXPECT_EQ(hash(back), hash(program));
}

// A program that gives back constants.
ClosedJaxpr constants(const Tensors& values) {
  ClosedJaxpr p;
  p.consts = values;
  for (const Tensor& t : values) {
    p.jaxpr.constvars.push_back(fresh_var(t.aval()));
    p.jaxpr.outs.emplace_back(p.jaxpr.constvars.back());
  }
  return p;
}

// A call whose parameters also hold `extra`, which the primitive ignores.
ClosedJaxpr with_param(const Attr& extra) {
  ClosedJaxpr p = call(square_plus(1.0));
  p.jaxpr.eqns[0].params = p.jaxpr.eqns[0].params.with("extra", extra);
  return p;
}

TEST(Print, FlatProgram) {
  EXPECT_EQ(to_string(square_plus(2.5)),
            "{ lambda a:f64[]=[2.5] ; b:f64[]. let\n"
            "    c:f64[] = mul b b\n"
            "    d:f64[] = add c a\n"
            "  in (d,) }");
  EXPECT_EQ(to_string(square_plus(2.5).jaxpr),
            "{ lambda a:f64[] ; b:f64[]. let\n"
            "    c:f64[] = mul b b\n"
            "    d:f64[] = add c a\n"
            "  in (d,) }");
}

TEST(Print, NestedProgramIsIndented) {
  EXPECT_EQ(to_string(call(square_plus(1.0))),
            "{ lambda ;. let\n"
            "    a:f64[] = jit[\n"
            "      jaxpr={ lambda b:f64[]=[1.0] ; c:f64[]. let\n"
            "          d:f64[] = mul c c\n"
            "          e:f64[] = add d b\n"
            "        in (e,) }\n"
            "    ] 0.5:f64[]\n"
            "  in (a,) }");
}

TEST(Print, ListsOfPrograms) {
  const JaxprPtr f = share({{{}, {}, {}, {literal(1.0)}}, {}});
  EXPECT_EQ(to_string(Attr::list({f, f})),
            "[\n"
            "  { lambda ;. let in (1.0:f64[],) },\n"
            "  { lambda ;. let in (1.0:f64[],) }\n"
            "]");
}

TEST(Print, NoEquationsAndManyOutputs) {
  const Var x = fresh_var(kF32x3);
  EXPECT_EQ(to_string(ClosedJaxpr{{{}, {x}, {}, {x, x, literal(1.0, Dtype::I32)}}, {}}),
            "{ lambda ; a:f32[3]. let in (a, a, 1:i32[]) }");
  EXPECT_EQ(to_string(ClosedJaxpr{}), "{ lambda ;. let in () }");
}

TEST(Print, Attributes) {
  EXPECT_EQ(to_string(Attr()), "null");
  EXPECT_EQ(to_string(Attr(true)), "true");
  EXPECT_EQ(to_string(Attr(-3)), "-3");
  EXPECT_EQ(to_string(Attr(1.0)), "1.0");
  EXPECT_EQ(to_string(Attr("a\"b\\c\n\x01")), "\"a\\\"b\\\\c\\n\\x01\"");
  EXPECT_EQ(to_string(Attr(Dims{1, 2})), "[1,2]");
  EXPECT_EQ(to_string(Attr::list({Dims{}, Dims{0}})), "[[],[0]]");
  EXPECT_EQ(to_string(Attr::dict({{"b", 1}, {"a b", 2}, {"in", 3}})), "{\"a b\"=2, b=1, \"in\"=3}");
}

TEST(Print, SameProgramSameText) {
  const ClosedJaxpr body = square_plus(1.0);
  ClosedJaxpr shared = call(body), apart = call(body);
  // Twice the same program, once as one object and once as two.
  auto twice = [](ClosedJaxpr p, const JaxprPtr& f, const JaxprPtr& g) {
    p.jaxpr.eqns[0].params = p.jaxpr.eqns[0].params.with("extra", Attr::list({f, g}));
    return to_string(p);
  };
  const JaxprPtr f = share(body);
  EXPECT_EQ(twice(shared, f, f), twice(apart, share(square_plus(1.0)), share(square_plus(1.0))));
}

TEST(RoundTrip, HandmadePrograms) {
  expect_round_trip({});
  expect_round_trip(square_plus(0.1));
  expect_round_trip(call(call(square_plus(-1e300))));
}

TEST(RoundTrip, NamesNeverCollideWithWords) {
  // More values than there are names before "in", "let" and "nan" come up.
  Jaxpr j;
  j.invars = {fresh_var(kF64)};
  for (int i = 0; i < 12000; ++i) {
    const Var next = fresh_var(kF64);
    j.eqns.push_back(make_eqn(sin_p, {i == 0 ? j.invars[0] : j.eqns.back().out[0]}, {next}));
  }
  j.outs = {j.eqns.back().out[0]};
  const std::string text = to_string(ClosedJaxpr{j, {}});
  EXPECT_THAT(text, HasSubstr("\n    im:f64[] = sin il\n    io:f64[] = sin im\n"));
  expect_round_trip({j, {}});
}

TEST(RoundTrip, LiteralsOfEveryType) {
  const double inf = std::numeric_limits<double>::infinity();
  ClosedJaxpr p;
  for (const Dtype t : {Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64})
    for (const double v : {0.0, -0.0, 1.0, 0.1, -2.5e-3, inf, -inf, std::nan("")})
      p.jaxpr.outs.emplace_back(Literal{t, v});
  for (const Dtype t : {Dtype::I32, Dtype::I64, Dtype::U32})
    for (const std::int64_t v : {std::int64_t{0}, std::int64_t{7}}) p.jaxpr.outs.emplace_back(Literal{t, v});
  p.jaxpr.outs.emplace_back(Literal{Dtype::I64, std::numeric_limits<std::int64_t>::min()});
  p.jaxpr.outs.emplace_back(Literal{Dtype::U32, std::int64_t{4294967295}});
  p.jaxpr.outs.emplace_back(Literal{Dtype::Bool, true});
  p.jaxpr.outs.emplace_back(Literal{Dtype::Bool, false});
  expect_round_trip(p);
}

TEST(RoundTrip, ConstantsKeepTheirBits) {
  const float payload = std::bit_cast<float>(0x7fc00123U);
  expect_round_trip(constants({
      Tensor::of<float>({0.1F, -0.0F, 1e-45F, 3.4028235e38F, INFINITY, -INFINITY, std::nanf(""),
                         -std::nanf(""), payload, 1},
                        {2, 5}),
      Tensor::of<double>({0.1, 5e-324, 1.7976931348623157e308, -0.0}, {4}),
      Tensor::of<std::int32_t>({-2147483647 - 1, 2147483647}, {2}),
      Tensor::of<std::int64_t>({std::numeric_limits<std::int64_t>::min(), 1}, {2, 1}),
      Tensor::of<std::uint32_t>({0, 4294967295U}, {2}),
      Tensor::full({Dtype::Bool, {2}}, true),
      Tensor::full({Dtype::F16, {2}}, 0.1),
      Tensor::full({Dtype::BF16, {2}}, -1e30),
      Tensor::zeros({Dtype::F32, {3, 0}}),
      Tensor::full(kF64, 2.0),
  }));
}

TEST(RoundTrip, EveryHalfValueAndManyFloats) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint32_t> floats(50000);
  std::uint32_t state = 1;
  for (auto& f : floats) f = state = state * 1664525U + 1013904223U;
  for (const Dtype t : {Dtype::F16, Dtype::BF16})
    for (const std::uint16_t bits : all) {
      std::string text;
      append_number(text, t, reinterpret_cast<const std::byte*>(&bits));
      std::uint16_t back = 0;
      ASSERT_TRUE(read_number(text, t, reinterpret_cast<std::byte*>(&back))) << text;
      ASSERT_EQ(back, bits) << text;
    }
  for (const std::uint32_t bits : floats) {
    std::string text;
    append_number(text, Dtype::F32, reinterpret_cast<const std::byte*>(&bits));
    std::uint32_t back = 0;
    ASSERT_TRUE(read_number(text, Dtype::F32, reinterpret_cast<std::byte*>(&back))) << text;
    ASSERT_EQ(back, bits) << text;
  }
}

TEST(RoundTrip, ParametersOfEveryKind) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const Attr& a : {Attr(), Attr(true), Attr(false), Attr(std::numeric_limits<std::int64_t>::min()),
                        Attr(0.1), Attr(-0.0), Attr(inf), Attr(-inf), Attr(std::nan("")), Attr(1e22),
                        Attr(""), Attr("a\"b\\\t\n\x01\x7f é"), Attr(Dims{}), Attr(Dims{-1, 2}),
                        Attr::list({Dims{}, Dims{1}}), Attr::list({true, nullptr, "x", 1.5}), Attr::dict({}),
                        Attr::dict({{"lambda", 1}, {"a-b", Attr::dict({{"c", Dims{1}}})}, {"", 1}}),
                        Attr::list({share(square_plus(1.0)), share(square_plus(2.0))})})
    expect_round_trip(with_param(a));
}

TEST(RoundTrip, ReferenceModels) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ETRACE_REFERENCE_DIR)) {
    if (entry.path().extension() != ".json") continue;
    SCOPED_TRACE(entry.path().string());
    expect_round_trip(read_model_file(entry.path().string()).program);
    ++count;
  }
  EXPECT_GE(count, 110U);
}

TEST(Parse, LayoutIsFree) {
  const ClosedJaxpr p =
      parse("{lambda k:f64[]=[2.5,];x:f64[].let # a comment\n s:f64[]=mul x x y:f64[]=add s k in(y)}");
  EXPECT_TRUE(equal(p, square_plus(2.5)));
}

TEST(Parse, ErrorsNameLineAndColumn) {
  struct Case {
    const char *text, *message;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"", "line 1:1: found the end of the text, expected '{'"},
           {"{ lambda ; a:f32[3]. let in (a,)", "line 1:33: found the end of the text, expected '}'"},
           {"{ lambda ; a:f32[3]. let in (a,) } x", "line 1:36: found 'x', expected the end of the text"},
           {"{ lambda ; a:f99[3]. let in (a,) }", "line 1:14: 'f99' is no element type"},
           {"{ lambda ; a:f32[-3]. let in (a,) }", "line 1:14: an axis of size -3"},
           {"{ lambda ; a:f32[9223372036854775807,9]. let in (a,) }", "does not fit into memory"},
           {"{ lambda ; a:f32[99999999999999999999]. let in (a,) }", "is no integer of 64 bits"},
           {"{ lambda ; a:f32[1.5]. let in (a,) }", "line 1:18: '1.5' is no integer"},
           {"{ lambda ; a:f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]. let in (a,) }", "rank 17"},
           {"{ lambda ; a:f32[] a:f32[]. let in (a,) }", "line 1:20: 'a' is defined twice"},
           {"{ lambda ; a:f32[]. let\n  a:f32[] = sin a\n in (a,) }", "line 2:3: 'a' is defined twice"},
           {"{ lambda ; a:f32[]. let\n  b:f32[] = sin b\n in (b,) }", "line 2:17: 'b' is not defined"},
           {"{ lambda ; a:f32[]. let\n  b:f32[] = sine a\n in (b,) }",
            "line 2:13: there is no primitive 'sine'"},
           {"{ lambda ; a:f32[]. let b:f32[] = sin[x=1,x=2] a in (b,) }", "'x' is given twice"},
           {"{ lambda ; a:f32[]. let b:f32[] = sin[x=] a in (b,) }",
            "line 1:41: found ']', expected a value"},
           {"{ lambda ; a:f32[]. let b:f32[] = sin[x=\"] a in (b,) }",
            "line 1:41: the text in quotes does not end"},
           {"{ lambda ; a:f32[]. let b:f32[] = sin[x=\"\\q\"] a in (b,) }", "unknown escape '\\q'"},
           {"{ lambda ; a:f32[]. let b:f32[] = sin[x=\"\\x1\"] a in (b,) }", "unknown escape '\\x'"},
           {"{ lambda ; a:f32[]. let b:f32[] = sin[x=1e999] a in (b,) }",
            "'1e999' is no number, or does not fit"},
           {"{ lambda ; a:f32[]. let b:f32[] = sin[x=99999999999999999999] a in (b,) }",
            "does not fit into 64 bits"},
           {"{ lambda ;. let in (1.0,) }", "line 1:24: found ',', expected ':'"},
           {"{ lambda ;. let in (1.5:i32[],) }", "line 1:21: '1.5' is no number of type i32[]"},
           {"{ lambda ;. let in (1e39:f32[],) }", "line 1:21: '1e39' is no number of type f32[]"},
           {"{ lambda ;. let in (nan(0x1):f32[],) }", "'nan(0x1)' is no number of type f32[]"},
           {"{ lambda ;. let in (1.0:f32[1],) }", "line 1:21: a literal is a scalar, found f32[1]"},
           {"{ lambda ;. let in (nan(0x", "line 1:27: found the end of the text, expected ':'"},
           {"{ lambda a:f32[2] ;. let in (a,) }", "expected '=' and the value of the constant"},
           {"{ lambda a:f32[2]=[1,2,3] ;. let in (a,) }", "line 1:24: more than the 2 values of f32[2]"},
           {"{ lambda a:f32[2]=[1] ;. let in (a,) }", "line 1:19: 1 values for f32[2], expected 2"},
           {"{ lambda a:bool[1]=[2] ;. let in (a,) }", "line 1:21: '2' is no number of type bool"},
           {"{ lambda a:f32[1000000000000]=[1] ;. let in (a,) }", "1 values for f32[1000000000000]"},
           {"{ lambda ; a:f32[3]. let b:f32[4] = sin a in (b,) }",
            "jaxpr.eqns[0] (sin): found results of type (f32[4])"},
           {"\xff\xfe", "line 1:1: found"},
       })
    EXPECT_THAT(fault_of(c.text), HasSubstr(c.message)) << c.text;
}

TEST(Parse, EveryPrefixOfAProgramIsAnError) {
  const std::string text =
      to_string(with_param(Attr::dict({{"k", Attr::list({"a\\", 1.5, share(square_plus(1.0))})}})));
  for (std::size_t n = 0; n < text.size(); ++n) EXPECT_NE(fault_of(text.substr(0, n)), "no error") << n;
}

TEST(Parse, DepthIsLimited) {
  auto nested = [](const std::string& open, std::size_t n) {
    std::string text = "{ lambda ; a:f32[]. let b:f32[] = sin[x=";
    for (std::size_t i = 0; i < n; ++i) text += open;
    return text;
  };
  EXPECT_THAT(fault_of(nested("[", 1000000)), HasSubstr("levels deep"));
  EXPECT_THAT(fault_of(nested("{a=", 1000000)), HasSubstr("levels deep"));
  EXPECT_THAT(fault_of(nested("{ lambda ;. let = jit[x=", 1000000)), HasSubstr("levels deep"));
  EXPECT_EQ(fault_of(nested("[", 150) + "1" + std::string(150, ']') + "] a in (b,) }"), "no error");
}

TEST(Parse, FilesNameThemselves) {
  EXPECT_THROW(parse_file("/no/such/file.jaxpr"), IoError);
  const auto path = std::filesystem::path(::testing::TempDir()) / "etrace_text_test.jaxpr";
  std::ofstream(path) << to_string(square_plus(2.5));
  EXPECT_TRUE(equal(parse_file(path.string()), square_plus(2.5)));
  std::ofstream(path) << "{ lambda";
  try {
    parse_file(path.string());
    FAIL();
  } catch (const CompilationError& e) {
    EXPECT_THAT(e.what(), HasSubstr("etrace_text_test.jaxpr: line 1:9"));
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace etrace
