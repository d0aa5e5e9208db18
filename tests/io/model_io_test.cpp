// Model files: every reference case is read and written without loss; every fault of a file has its error and
// place.
#include "etrace/model_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "etrace/control.h"
#include "etrace/ops/elementwise.h"
#include "support/errors.h"

namespace etrace {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<fs::path> reference_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(ETRACE_REFERENCE_DIR))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Ids are names: the same program may carry others. Renumbers them by first definition, program by program.
void renumber(Json& program, int& next) {
  std::map<int, int> ids;
  auto define = [&](Json& var) {
    ids[var["id"]] = next;
    var["id"] = next++;
    var.erase("drop");
  };
  auto use = [&](Json& atom) {
    if (atom.is_number()) atom = ids.at(atom);
  };
  std::function<void(Json&)> nested = [&](Json& value) {
    if (value.is_object() && value.size() == 1 && value.contains("jaxpr"))
      return renumber(value["jaxpr"], next);
    if (value.is_structured())
      for (auto& item : value) nested(item);
  };
  for (const char* list : {"constvars", "invars"})
    for (auto& v : program[list]) define(v);
  for (auto& eqn : program["eqns"]) {
    for (auto& a : eqn["in"]) use(a);
    for (auto& v : eqn["out"]) define(v);
    for (auto& p : eqn["params"]) nested(p);
  }
  for (auto& a : program["outvars"]) use(a);
}

Json normalised(const std::string& text) {
  Json json = Json::parse(text);
  int next = 0;
  renumber(json["jaxpr"], next);
  return json;
}

class ReferenceModel : public ::testing::TestWithParam<fs::path> {};

TEST_P(ReferenceModel, ReadWriteRead) {
  const Model model = read_model_file(GetParam().string());
  const std::string text = write_model(model);
  // Nothing of the file is lost: the written text holds the same values under the same keys.
  const Json before = normalised(contents(GetParam())), after = normalised(text);
  EXPECT_TRUE(before == after) << Json::diff(before, after).dump().substr(0, 1000);

  const Model again = read_model(text);
  EXPECT_TRUE(equal(model.program, again.program));
  EXPECT_EQ(write_model(again), text);
}

INSTANTIATE_TEST_SUITE_P(Files, ReferenceModel, ::testing::ValuesIn(reference_files()), [](const auto& info) {
  std::string name = info.param.stem().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

TEST(ReferenceModels, AreAllThere) { EXPECT_GE(reference_files().size(), 110U); }

// One step of h' = h * x + c, out = h'.
constexpr const char* kSmall = R"({
  "format": "etrace.model", "version": 1, "name": "small", "source": "test",
  "jaxpr": {
    "constvars": [{"id": 9, "shape": [2], "dtype": "float32"}],
    "consts": [{"shape": [2], "dtype": "float32", "data": [0.1, "nan"]}],
    "invars": [{"id": 0, "shape": [2], "dtype": "float32"}, {"id": 1, "shape": [2], "dtype": "float32"}],
    "eqns": [
      {"prim": "mul", "in": [0, 1], "out": [{"id": 2, "shape": [2], "dtype": "float32"}], "params": {}},
      {"prim": "jit", "in": [2, 9], "out": [{"id": 3, "shape": [2], "dtype": "float32"}], "params": {
        "name": "f", "jaxpr": {"jaxpr": {"constvars": [], "consts": [],
          "invars": [{"id": 4, "shape": [2], "dtype": "float32"}, {"id": 5, "shape": [2], "dtype": "float32"}],
          "eqns": [{"prim": "add", "in": [4, 5], "out": [{"id": 6, "shape": [2], "dtype": "float32"}]}],
          "outvars": [6]}}}}],
    "outvars": [3, 3]},
  "inputs": [{"role": "arg", "index": 0},
             {"role": "hidden", "path": ["layers", 0, "h"], "leaf": 0, "leaf_key": [], "type": "HiddenState",
              "init": {"shape": [2], "dtype": "float32", "data": [0, -0.0]}}],
  "outputs": [{"role": "out", "index": 0}, {"role": "hidden", "path": ["layers", 0, "h"], "leaf": 0}]
})";

TEST(ModelIo, EquationsHaveTheirLines) {
  Json file = Json::parse(kSmall);
  Json& eqn = file["jaxpr"]["eqns"][0];
  eqn["where"] = "a:b.py:12";
  EXPECT_EQ(to_string(read_model(file.dump()).program.jaxpr.eqns[0].origin), "a:b.py:12");
  for (const char* wrong : {"b.py", "b.py:", ":12", "b.py:1x", "12"}) {
    eqn["where"] = wrong;
    EXPECT_THAT(etrace::testing::message_of<CompilationError>([&] { read_model(file.dump()); }),
                AllOf(HasSubstr("eqns[0].where"), HasSubstr("FILE:NUMBER"), HasSubstr(wrong)));
  }
}

TEST(ModelIo, ReadsProgramAndRecords) {
  const Model m = read_model(kSmall);
  EXPECT_EQ(m.name, "small");
  EXPECT_EQ(to_string(m.inputs[1].path), "layers/0/h");
  EXPECT_EQ(m.inputs[1].role, Role::Hidden);
  EXPECT_EQ(m.inputs[1].type, "HiddenState");
  EXPECT_TRUE(std::signbit(m.inputs[1].init.data<float>()[1]));
  EXPECT_EQ(m.outputs[0].role, Role::Out);
  EXPECT_EQ(m.expected, nullptr);
  EXPECT_EQ(m.program.jaxpr.eqns[1].prim, &jit_p);
  EXPECT_EQ(m.program.jaxpr.eqns[1].params.find("name"), nullptr);  // no bearing on the meaning
  EXPECT_EQ(m.program.consts[0].data<float>()[0], 0.1F);
  EXPECT_TRUE(std::isnan(m.program.consts[0].data<float>()[1]));
}

// kSmall after one change by a JSON patch.
std::string patched(const char* operation, const char* path, const Json& value = nullptr) {
  Json step = {{"op", operation}, {"path", path}};
  if (std::string(operation) != "remove") step["value"] = value;
  return Json::parse(kSmall).patch(Json::array({step})).dump();
}

std::string fault_of(const std::string& text) {
  try {
    read_model(text, "x.json");
  } catch (const CompilationError& e) {
    return e.message();
  }
  return "no error";
}

TEST(ModelIo, EveryFaultNamesItsPlace) {
  struct Case {
    const char *operation, *path;
    Json value;
    const char* message;
  };
  const Json array = {{"shape", {2}}, {"dtype", "float32"}, {"data", {1, 2}}};
  for (const Case& c : std::initializer_list<Case>{
           // head
           {"replace", "/version", 2,
            "of format 'etrace.model' version 2; expected 'etrace.model' version 1"},
           {"replace", "/format", "onnx", "format 'onnx' version 1; expected 'etrace.model' version 1"},
           {"remove", "/format", {}, "the key 'format' is missing"},
           {"replace", "/version", "1", "version: found \"1\", expected an integer"},
           {"add", "/inptus", Json::array(), "unknown key 'inptus' (did you mean inputs?); known are format"},
           {"replace", "/name", 3, "name: found 3, expected a text"},
           // variables
           {"replace", "/jaxpr/invars/0/dtype", "float99",
            "jaxpr.invars[0].dtype: there is no element type 'float99'"},
           {"replace", "/jaxpr/invars/0/shape", {-2}, "jaxpr.invars[0].shape: an axis of size -2"},
           {"replace",
            "/jaxpr/invars/0/shape",
            {1 << 30, 1 << 30, 1 << 30},
            "jaxpr.invars[0].shape: the number of elements"},
           {"replace", "/jaxpr/invars/0/shape", std::vector<int>(17, 1), "jaxpr.invars[0].shape: rank 17"},
           {"replace", "/jaxpr/invars/0/shape", 2, "jaxpr.invars[0].shape: found 2, expected a list"},
           {"replace",
            "/jaxpr/invars/0/shape",
            {2.5},
            "jaxpr.invars[0].shape[0]: found 2.5, expected an integer"},
           {"replace", "/jaxpr/invars/0/id", 18446744073709551615ULL,
            "jaxpr.invars[0].id: the integer does not fit"},
           {"replace", "/jaxpr/invars/1/id", 0, "jaxpr.invars[1].id: the variable 0 is defined twice"},
           {"replace", "/jaxpr/eqns/0/out/0/id", 1,
            "jaxpr.eqns[0].out[0].id: the variable 1 is defined twice in one program (in 'mul')"},
           {"remove", "/jaxpr/invars/0/id", {}, "jaxpr.invars[0]: the key 'id' is missing"},
           {"add", "/jaxpr/invars/0/shpae", 1, "jaxpr.invars[0]: unknown key 'shpae'"},
           // constants
           {"remove", "/jaxpr/consts/0", {}, "jaxpr.consts: found 0 values, expected one per constvar: 1"},
           {"replace",
            "/jaxpr/consts/0/data",
            {1},
            "jaxpr.consts[0].data: found 1 numbers, expected 2 for f32[2]"},
           {"replace", "/jaxpr/consts/0/data/0", "x", "jaxpr.consts[0].data[0]: no number of type float32"},
           {"replace", "/jaxpr/consts/0/data/0", "1.5", "jaxpr.consts[0].data[0]: no number of type float32"},
           {"replace", "/jaxpr/consts/0/data/0", true, "jaxpr.consts[0].data[0]: no number of type float32"},
           {"replace", "/jaxpr/consts/0/data/0", 1e39, "jaxpr.consts[0].data[0]: no number of type float32"},
           {"replace", "/jaxpr/consts/0/data", 1,
            "jaxpr.consts[0].data: found a JSON number, expected a flat list"},
           {"replace",
            "/jaxpr/consts/0/shape",
            {1LL << 40},
            "jaxpr.consts[0].data: found 2 numbers, expected 1099511627776"},
           {"replace", "/jaxpr/consts/0/dtype", "int32", "jaxpr.consts[0].data[0]: no number of type int32"},
           {"replace",
            "/jaxpr/consts/0",
            {{"shape", {1}}, {"dtype", "float32"}, {"data", {1}}},
            "jaxpr.consts[0]: the value is f32[1] but its constvar is f32[2]"},
           // equations
           {"replace", "/jaxpr/eqns/0/prim", "mulll", "jaxpr.eqns[0].prim: there is no primitive 'mulll'"},
           {"remove", "/jaxpr/eqns/0/prim", {}, "jaxpr.eqns[0]: the key 'prim' is missing"},
           {"remove", "/jaxpr/eqns/0/in", {}, "jaxpr.eqns[0]: the key 'in' is missing (in 'mul')"},
           {"replace", "/jaxpr/eqns/0", 7, "jaxpr.eqns[0]: found 7, expected an object"},
           {"replace", "/jaxpr/eqns", {{"a", 1}}, "jaxpr.eqns: found a JSON object, expected a list"},
           {"replace", "/jaxpr/eqns/0/in/1", 77,
            "jaxpr.eqns[0].in[1]: the variable 77 is not defined before its use"},
           {"replace", "/jaxpr/eqns/0/in/1", "x", "jaxpr.eqns[0].in[1]: found \"x\", expected an integer"},
           {"replace",
            "/jaxpr/eqns/0/in/1",
            {{"lit", "x"}, {"dtype", "float32"}},
            "jaxpr.eqns[0].in[1].lit: no number of type float32"},
           {"replace",
            "/jaxpr/eqns/0/in/1",
            {{"lit", 1}, {"dtype", "float32"}, {"shape", {1}}},
            "jaxpr.eqns[0].in[1]: a literal is a scalar"},
           {"replace",
            "/jaxpr/eqns/0/out/0/shape",
            {3},
            "jaxpr.eqns[0] (mul): found results of type (f32[3]), expected (f32[2])"},
           {"replace", "/jaxpr/outvars/0", 4, "jaxpr.outvars[0]: the variable 4 is not defined"},
           {"add",
            "/jaxpr/eqns/0/params",
            {{"slope", 1}},
            "jaxpr.eqns[0].params.slope: there is no parameter 'slope' of 'mul', which has none"},
           {"add", "/jaxpr/eqns/1/params/jvp_jaxpr", nullptr,
            "jaxpr.eqns[1].params.jvp_jaxpr: there is no parameter 'jvp_jaxpr' of 'jit', which has jaxpr"},
           // nested programs
           {"add",
            "/jaxpr/eqns/1/params/jaxpr/jaxpr/eqns/0/params",
            {{"axis", 0}},
            "jaxpr.eqns[1].params.jaxpr.jaxpr.eqns[0].params.axis: there is no parameter 'axis' of 'add'"},
           {"replace", "/jaxpr/eqns/1/params/jaxpr/jaxpr/eqns/0/prim", "ad",
            "jaxpr.eqns[1].params.jaxpr.jaxpr.eqns[0].prim: there is no primitive 'ad' (did you mean add?); "
            "express it by known "
            "ones, or add its "
            "row (in 'ad') (in 'jit')"},
           {"replace", "/jaxpr/eqns/1/params/jaxpr/jaxpr/eqns/0/in/0", 2,
            "jaxpr.eqns[1].params.jaxpr.jaxpr.eqns[0].in[0]: the variable 2 is not defined"},
           {"replace",
            "/jaxpr/eqns/1/params/jaxpr/jaxpr/invars/0/shape",
            {3},
            "jaxpr.eqns[1].params.jaxpr.jaxpr.eqns[0] (add)"},
           {"replace", "/jaxpr/eqns/1/params/jaxpr/jaxpr", 3,
            "jaxpr.eqns[1].params.jaxpr.jaxpr: found 3, expected an object"},
           {"add", "/jaxpr/eqns/1/params/jaxpr/extra", 3, "jaxpr.eqns[1].params.jaxpr: unknown key 'extra'"},
           {"remove",
            "/jaxpr/eqns/1/params/jaxpr",
            {},
            "jaxpr.eqns[1] (jit): the parameter 'jaxpr' is missing"},
           // records
           {"remove", "/inputs/0", {}, "inputs: found 1 records, expected one for each of the 2 invars"},
           {"remove", "/outputs/0", {}, "outputs: found 1 records, expected one for each of the 2 outvars"},
           {"replace", "/inputs/0/role", "argument",
            "inputs[0].role: there is no role 'argument' here; expected arg"},
           {"replace", "/inputs/0/role", "out", "inputs[0].role: there is no role 'out' here"},
           {"remove", "/inputs/0/index", {}, "inputs[0]: the key 'index' is missing"},
           {"replace", "/inputs/0/index", -1,
            "inputs[0].index: found -1, expected an integer that is not negative"},
           {"remove", "/inputs/1/init", {}, "inputs[1]: the key 'init' is missing"},
           {"replace", "/inputs/1/init/data/1", nullptr, "inputs[1].init.data[1]: no number of type float32"},
           {"replace",
            "/inputs/1/init",
            {{"shape", {1}}, {"dtype", "float32"}, {"data", {1}}},
            "inputs[1].init: the initial value of hidden layers/0/h is f32[1], expected f32[2]"},
           {"replace", "/inputs/1/path/0", 1.5, "inputs[1].path[0]: found 1.5, expected a text"},
           {"replace", "/inputs/1/role", "param", "outputs[1]: there is no input for hidden layers/0/h"},
           {"replace", "/outputs/1/path/1", 1, "outputs[1]: there is no input for hidden layers/1/h"},
           {"replace",
            "/outputs/1",
            {{"role", "out"}, {"index", 1}},
            "inputs[1]: hidden layers/0/h has no output"},
           {"replace", "/outputs/1", {{"role", "out"}, {"index", 0}}, "outputs[1]: out 0 is given twice"},
           {"replace",
            "/inputs/0",
            {{"role", "hidden"}, {"path", {"layers", 0, "h"}}, {"leaf", 0}, {"init", array}},
            "inputs[1]: hidden layers/0/h is given twice"},
           // expectations
           {"add", "/expected", {{"grahps", 1}}, "expected: unknown key 'grahps'"},
           {"add",
            "/expected",
            {{"runs", {{{"id", "a"}}}}},
            "expected.runs[0]: the key 'algorithm' is missing"},
           {"add",
            "/expected",
            {{"runs", {{{"id", "a"}, {"algorithm", "b"}, {"options", 3}}}}},
            "expected.runs[0].options: expected an object"},
           {"add",
            "/expected",
            {{"jacobians", {{"x", 3}}}},
            "expected.jacobians.x: found 3, expected an object"},
           {"add",
            "/expected",
            {{"graphs", {{"diagonal", {{"groups", {{{"index", 0}}}}}}}}},
            "expected.graphs.diagonal.groups[0]: the key 'hidden_paths' is missing"},
       })
    EXPECT_THAT(fault_of(patched(c.operation, c.path, c.value)),
                AllOf(StartsWith("x.json: "), HasSubstr(c.message)))
        << c.path;
}

TEST(ModelIo, FaultsOfTheTextItself) {
  const std::string text = kSmall;
  EXPECT_THAT(fault_of(""), HasSubstr("not a valid JSON text: parse error at line 1, column 1"));
  EXPECT_THAT(fault_of("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(fault_of("{}"), HasSubstr("the key 'format' is missing"));
  EXPECT_THAT(fault_of("\xff\xfe"), HasSubstr("not a valid JSON text"));
  EXPECT_THAT(fault_of("{\"format\": 1e999}"), HasSubstr("not a valid JSON text: number overflow"));
  EXPECT_THAT(fault_of(R"({"jaxpr": {"eqns": [{"prim": "a", "prim": "b"}]}})"),
              HasSubstr("jaxpr.eqns[0].prim: the key 'prim' is given twice in one object"));
  for (std::size_t n = 0; n < text.size(); n += 7) EXPECT_NE(fault_of(text.substr(0, n)), "no error") << n;
}

TEST(ModelIo, DepthIsLimitedBeforeAnythingRecurses) {
  EXPECT_THAT(fault_of(std::string(1000000, '[')), HasSubstr("nested more than 512 levels deep"));
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_THAT(fault_of(objects), HasSubstr("nested more than 512 levels deep"));
}

TEST(ModelIo, SpellingsOfJax) {
  Json json = Json::parse(kSmall);
  Json& eqn = json["jaxpr"]["eqns"][1];
  const Json body = eqn["params"]["jaxpr"];
  const Model plain = read_model(kSmall);
  const std::pair<const char*, const char*> spellings[] = {
      {"pjit", "jaxpr"},  {"closed_call", "call_jaxpr"}, {"core_call", "call_jaxpr"},
      {"remat", "jaxpr"}, {"remat2", "jaxpr"},           {"checkpoint", "jaxpr"}};
  for (const auto& [prim, key] : spellings) {
    eqn["prim"] = prim;
    eqn["params"] = {
        {key, body}, {"name", "f"}, {"donated_invars", {false}}, {"in_shardings", {{{"any", 1}}}}};
    EXPECT_TRUE(equal(read_model(json.dump()).program, plain.program)) << prim;
  }
  eqn["prim"] = "custom_vjp_call_jaxpr";
  eqn["params"] = {{"fun_jaxpr", body}};
  const Model custom = read_model(json.dump());
  EXPECT_EQ(custom.program.jaxpr.eqns[1].prim, &custom_vjp_call_p);
  EXPECT_NE(custom.program.jaxpr.eqns[1].params.jaxpr("call_jaxpr"), nullptr);
}

// JAX keeps the rule of a custom_vjp_call in functions; a file must have them as programs, or none.
TEST(ModelIo, TheRuleOfACustomVjpIsWholeOrRefused) {
  Json json = Json::parse(kSmall);
  Json& eqn = json["jaxpr"]["eqns"][1];
  const Json body = eqn["params"]["jaxpr"];
  eqn["prim"] = "custom_vjp_call";
  const Json thunk = {{"unserialised", "WrappedFun"}};
  const auto fault_with = [&](Json params) {
    params["call_jaxpr"] = body;
    eqn["params"] = std::move(params);
    return fault_of(json.dump());
  };
  EXPECT_EQ(fault_with(Json::object()), "no error");
  EXPECT_EQ(fault_with({{"fwd_jaxpr_thunk", thunk}, {"fwd_jaxpr", body}, {"bwd_jaxpr", body}}), "no error");
  EXPECT_THAT(fault_with({{"fwd_jaxpr_thunk", thunk}}),
              AllOf(HasSubstr("jaxpr.eqns[1].params"), HasSubstr("fwd_jaxpr and bwd_jaxpr are missing")));
  EXPECT_THAT(fault_with({{"fwd_jaxpr", body}}), HasSubstr("bwd_jaxpr is missing"));
  EXPECT_THAT(fault_with({{"bwd_jaxpr", body}}), HasSubstr("fwd_jaxpr is missing"));
  EXPECT_THAT(fault_with({{"fwd_jaxpr_thunk", thunk}, {"vjp_jaxpr", body}}),
              AllOf(HasSubstr("there is no parameter 'vjp_jaxpr' of 'custom_vjp_call'"),
                    HasSubstr("fwd_jaxpr, bwd_jaxpr")));
}

// A row with parameters of every kind.
const Primitive kinds_p{{.name = "test_kinds",
                         .doc = "y = x",
                         .params = {"inf", "nan", "neg", "tiny", "list", "dict"},
                         .abstract = sin_p.spec.abstract}};

TEST(ModelIo, ProgramsOfEveryKindOfValueAreWrittenWithoutLoss) {
  const double inf = std::numeric_limits<double>::infinity();
  const Aval v{Dtype::F64, {2}};
  const Var x = fresh_var(v), y = fresh_var(v), z = fresh_var(v), unused = fresh_var(v);
  Model m;
  m.name = "quotes \" and \\ and é";
  m.program.jaxpr.invars = {x};
  m.program.jaxpr.eqns = {make_eqn(kinds_p, {x}, {y},
                                   {{"inf", inf},
                                    {"nan", std::nan("")},
                                    {"neg", -0.0},
                                    {"tiny", 5e-324},
                                    {"list", Attr::list({1, -inf, "a", nullptr, Dims{}})},
                                    {"dict", Attr::dict({{"a", true}, {"b", Attr::dict({})}})}}),
                          make_eqn(add_p, {y, Literal{Dtype::F64, -inf}}, {z}),
                          make_eqn(sin_p, {x}, {unused})};
  m.program.jaxpr.outs = {z, Literal{Dtype::F32, 0.1}, Literal{Dtype::U32, std::int64_t{4294967295}},
                          Literal{Dtype::Bool, true}, Literal{Dtype::BF16, std::nan("")}};
  m.inputs = {{{.role = Role::Arg, .index = 0}, {}}};
  for (std::int64_t i = 0; i < 5; ++i) m.outputs.push_back({.role = Role::Out, .index = i});
  const std::vector<float> odd = {0.1F,           1e-45F,  -0.0F, std::bit_cast<float>(0x7fc00123U),
                                  -std::nanf(""), INFINITY};
  for (const Tensor& t :
       {Tensor::of(odd, {6}), Tensor::full({Dtype::F16, {2}}, 0.1), Tensor::full({Dtype::Bool, {2}}, true),
        Tensor::of<std::int64_t>({std::numeric_limits<std::int64_t>::min()}, {1}),
        Tensor::of<std::uint32_t>({4294967295U}, {1}), Tensor::zeros({Dtype::I32, {0, 4}})}) {
    m.program.jaxpr.constvars.push_back(fresh_var(t.aval()));
    m.program.consts.push_back(t);
  }
  const std::string text = write_model(m);
  const Model back = read_model(text);
  EXPECT_TRUE(equal(back.program, m.program)) << to_string(back.program) << to_string(m.program);
  EXPECT_EQ(back.name, m.name);
  EXPECT_EQ(write_model(back), text);
  EXPECT_THAT(text, HasSubstr("\"drop\":true"));
}

TEST(ModelIo, FloatsAreWrittenShortAndReadExactly) {
  Model m;
  std::vector<float> values(20000);
  std::uint32_t state = 7;
  for (float& f : values) do
      f = std::bit_cast<float>(state = state * 1664525U + 1013904223U);
    while (!std::isfinite(f));
  const Tensor t = Tensor::of(values, {static_cast<std::int64_t>(values.size())});
  m.program.jaxpr.constvars = {fresh_var(t.aval())};
  m.program.consts = {t};
  const std::string text = write_model(m);
  EXPECT_TRUE(read_model(text).program.consts[0] == t);
  EXPECT_LT(text.size(), values.size() * 17);
}

TEST(ModelIo, RefusesToWriteWhatItCouldNotRead) {
  Model m = read_model(kSmall);
  m.inputs.pop_back();
  EXPECT_THROW(write_model(m), CompilationError);
  m = read_model(kSmall);
  m.name = "\xff";
  EXPECT_THROW(write_model(m), ValueError);
  m = read_model(kSmall);
  Eqn& eqn = m.program.jaxpr.eqns[0];
  eqn.params = eqn.params.with("x", Attr::dict({{"jaxpr", 1}}));
  EXPECT_THROW(write_model(m), CompilationError);
}

class ModelFile : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::path(::testing::TempDir()) / ("etrace_model_" + std::to_string(::getpid()));
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(dir_), {}));
  }
  fs::path dir_;
};

TEST_F(ModelFile, WritesAndReads) {
  const Model m = read_model(kSmall);
  const std::string path = (dir_ / "a.json").string();
  write_model_file(m, path);
  write_model_file(m, path);
  EXPECT_TRUE(equal(read_model_file(path).program, m.program));
  EXPECT_EQ(files(), 1U);
}

TEST_F(ModelFile, ALinkStaysALink) {
  write_model_file(read_model(kSmall), (dir_ / "a.json").string());
  fs::create_symlink("a.json", dir_ / "link.json");
  Model m = read_model(kSmall);
  m.name = "changed";
  write_model_file(m, (dir_ / "link.json").string());
  EXPECT_TRUE(fs::is_symlink(dir_ / "link.json"));
  EXPECT_EQ(read_model_file((dir_ / "a.json").string()).name, "changed");
}

TEST_F(ModelFile, UnreadableFiles) {
  EXPECT_THROW(read_model_file((dir_ / "none.json").string()), IoError);
  EXPECT_THROW(read_model_file(dir_.string()), IoError);
  try {
    std::ofstream(dir_ / "bad.json") << "{";
    read_model_file((dir_ / "bad.json").string());
    FAIL();
  } catch (const CompilationError& e) {
    EXPECT_THAT(e.what(), HasSubstr("bad.json: not a valid JSON text"));
  }
}

TEST_F(ModelFile, AFailedWriteLosesNothing) {
  const Model m = read_model(kSmall);
  const fs::path path = dir_ / "a.json";
  write_model_file(m, path.string());
  const std::string before = contents(path);

  // A file-size limit fails in the middle of a write, like a full disk.
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(write_model_file(m, path.string()), IoError);
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);

  EXPECT_EQ(contents(path), before);
  EXPECT_EQ(files(), 1U);
  EXPECT_THROW(write_model_file(m, (dir_ / "no" / "folder.json").string()), IoError);
}

TEST_F(ModelFile, LongNamesAndLeftoversOfAKilledProcessAreNoObstacle) {
  const Model m = read_model(kSmall);
  for (int i = 0; i < 100; ++i)
    std::ofstream(dir_ / (".etrace-" + std::to_string(getpid()) + "-" + std::to_string(i) + ".tmp"))
        << "left";
  const fs::path path = dir_ / (std::string(250, 'n') + ".json");  // 255 bytes, the longest there is
  write_model_file(m, path.string());
  EXPECT_EQ(contents(path), write_model(m));
  EXPECT_EQ(files(), 101U);
}

TEST_F(ModelFile, ADeviceIsNotReplaced) {
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  EXPECT_THROW(write_model_file(read_model(kSmall), "/dev/full"), IoError);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace etrace
