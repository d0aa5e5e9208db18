// Saving to disk: files, parameters of a model, checkpoints. The formats themselves: tests/io.
#include "etrace/save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "etrace/nn.h"
#include "etrace/ops/numpy.h"
#include "etrace/param_values.h"
#include "support/errors.h"

namespace etrace {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

struct Net : Module {
  explicit Net(std::int64_t width = 2, double value = 1.0, Dtype dtype = Dtype::F32)
      : cell(param("cell",
                   {{"weight", full({3, width}, value, dtype)}, {"bias", full({width}, value, dtype)}})),
        scale(param("scale", full({}, value, dtype))) {}
  ParamState &cell, &scale;
  HiddenState& h = hidden("h", {2});  // no parameter: not saved
};

Tensors parameters(const Module& m) { return to_tensors(param_values(m).values); }

class Save : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::path(::testing::TempDir()) / ("etrace_save_" + std::to_string(::getpid()) + "_" +
                                             ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }
  std::string path(const std::string& name) const { return (dir_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(dir_), {}));
  }
  fs::path dir_;
};

const TensorFile kFile{{{"a", Tensor::of<double>({1.5, -0.0}, {2})}, {"b", Tensor::of<float>({3}, {})}},
                       {{"note", "x"}, {"seed", "18446744073709551615"}}};

TEST_F(Save, FilesOfTensors) {
  save_safetensors(path("a.safetensors"), kFile);
  const TensorFile read = load_safetensors(path("a.safetensors"));
  EXPECT_EQ(read.tensors, kFile.tensors);
  EXPECT_EQ(read.metadata, kFile.metadata);
  save_npz(path("a.npz"), {kFile.tensors});
  EXPECT_EQ(load_npz(path("a.npz")).tensors, kFile.tensors);
  EXPECT_EQ(files(), 2U);
  EXPECT_THAT(message_of<ValueError>([&] { save_npz(path("b.npz"), kFile); }),
              AllOf(HasSubstr("b.npz"), HasSubstr("no metadata"), HasSubstr("'note'")));
  EXPECT_EQ(files(), 2U);
}

TEST_F(Save, WhatCannotBeRead) {
  EXPECT_THAT(message_of<IoError>([&] { load_npz(path("none.npz")); }),
              AllOf(HasSubstr("none.npz"), HasSubstr("No such file")));
  EXPECT_THROW(load_safetensors(dir_.string()), IoError);
  std::ofstream(path("bad.safetensors")) << "text";
  EXPECT_THAT(message_of<CompilationError>([&] { load_safetensors(path("bad.safetensors")); }),
              HasSubstr(path("bad.safetensors")));
  std::ofstream(path("bad.npz")) << "text";
  EXPECT_THAT(message_of<CompilationError>([&] { load_npz(path("bad.npz")); }), HasSubstr(path("bad.npz")));
}

TEST_F(Save, WhatCannotBeWritten) {
  const auto error = [&](const std::string& where) {
    return message_of<IoError>([&] { save_safetensors(where, kFile); });
  };
  EXPECT_THAT(error(path("no/folder.safetensors")),
              AllOf(HasSubstr("no/folder.safetensors"), HasSubstr("No such")));
  EXPECT_THAT(error(path(std::string(300, 'x'))), AllOf(HasSubstr("xxxxx"), HasSubstr("too long")));
  EXPECT_THROW(save_npz(dir_.string(), {kFile.tensors}), IoError);
  std::ofstream(path("file")) << "no folder";
  EXPECT_THAT(error(path("file/a.safetensors")), HasSubstr("Not a directory"));
  EXPECT_EQ(files(), 1U);
  if (fs::is_character_file("/dev/full")) {
    EXPECT_THAT(error("/dev/full"), AllOf(HasSubstr("/dev/full"), HasSubstr("No space")));
    EXPECT_TRUE(fs::is_character_file("/dev/full"));
  }
}

TEST_F(Save, NoPermission) {
  constexpr uid_t kNobody = 65534;
  save_safetensors(path("a.safetensors"), kFile);
  fs::permissions(dir_, fs::perms(0555));
  const uid_t user = ::geteuid();  // root may write everywhere: become somebody else for the call
  if (user == 0 && ::seteuid(kNobody) != 0) GTEST_SKIP() << "root cannot become another user here";
  EXPECT_THAT(message_of<IoError>([&] { save_safetensors(path("a.safetensors"), {}); }),
              AllOf(HasSubstr("a.safetensors"), HasSubstr("Permission")));
  ASSERT_EQ(::seteuid(user), 0);
  fs::permissions(dir_, fs::perms::owner_all);
  EXPECT_EQ(load_safetensors(path("a.safetensors")).tensors, kFile.tensors);
  EXPECT_EQ(files(), 1U);
}

TEST_F(Save, AFailedWriteLosesNothing) {
  const std::string names[] = {path("a.safetensors"), path("a.npz"), path("checkpoint")};
  const auto save_all = [&](const NamedTensors& tensors, bool fails) {
    const std::function<void()> writes[] = {[&] { save_safetensors(names[0], {tensors}); },
                                            [&] { save_npz(names[1], {tensors}); },
                                            [&] { save_checkpoint(names[2], {tensors}); }};
    for (const auto& write : writes)
      if (fails)
        EXPECT_THROW(write(), IoError);
      else
        write();
  };
  save_all(kFile.tensors, false);
  std::vector<std::string> before;
  for (const std::string& name : names) before.push_back(contents(name));

  // A file-size limit fails in the middle of a write, like a full disk.
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  save_all({{"big", Tensor::zeros({Dtype::F32, {1000}})}}, true);
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);

  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(contents(names[i]), before[i]);
  EXPECT_EQ(files(), 3U);
  // Nor does a refusal before the first byte.
  EXPECT_THROW(save_safetensors(names[0], {{{"a", Tensor()}}}), ValueError);
  EXPECT_THROW(save_checkpoint(names[2], {{{"a", Tensor()}}}), ValueError);
  EXPECT_EQ(contents(names[0]), before[0]);
}

// Parameters ------------------------------------------------------------------------------------------------
TEST_F(Save, ParametersComeBack) {
  for (const char* file : {"p.safetensors", "p.npz"}) {
    const Net saved(2, 0.1);
    save_parameters(saved, path(file));
    Net loaded(2, 7.0);
    loaded.h.set(full({2}, 3.0, Dtype::F32));
    load_parameters(loaded, path(file));
    EXPECT_EQ(parameters(loaded), parameters(saved));
    EXPECT_EQ(loaded.h.value().tensor().to_doubles(), (std::vector<double>{3, 3}));
  }
  std::vector<std::string> names;
  for (const auto& [name, tensor] : load_npz(path("p.npz")).tensors) names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAre("cell.bias", "cell.weight", "scale"));
}

TEST_F(Save, ParametersOfACell) {
  const nn::GRUCell saved(3, 4);
  save_parameters(saved, path("gru.safetensors"));
  nn::GRUCell loaded(3, 4);
  for (const StateEntry& e : states(loaded, StateKind::Param)) {
    Arrays zero;
    for (const Aval& a : e.state->avals()) zero.push_back(zeros_of(a));
    e.state->set_leaves(zero);
  }
  load_parameters(loaded, path("gru.safetensors"));
  EXPECT_EQ(parameters(loaded), parameters(saved));
}

TEST_F(Save, ARefusedLoadChangesNothing) {
  save_safetensors(path("p.safetensors"), {{{"cell.bias", Tensor::zeros({Dtype::F32, {5}})},
                                            {"cell.weight", Tensor::zeros({Dtype::F64, {3, 2}})},
                                            {"extra", Tensor::zeros({Dtype::I32, {1}})}}});
  Net model(2, 0.25);
  const Tensors before = parameters(model);
  EXPECT_THAT(
      message_of<ValueError>([&] { load_parameters(model, path("p.safetensors")); }),
      AllOf(HasSubstr(path("p.safetensors")), HasSubstr("4 places"), HasSubstr("missing scale, f32[]"),
            HasSubstr("wrong shape of cell.bias: found f32[5], expected f32[2]"),
            HasSubstr("wrong type of cell.weight: found f64[3,2], expected f32[3,2]"),
            HasSubstr("surplus extra, i32[1]"), HasSubstr("the model is unchanged")));
  EXPECT_EQ(parameters(model), before);

  // One that fits in all but the last place.
  save_parameters(Net(2, 9.0), path("q.npz"));
  NamedTensors tensors = load_npz(path("q.npz")).tensors;
  tensors.pop_back();
  save_npz(path("q.npz"), {tensors});
  EXPECT_THAT(message_of<ValueError>([&] { load_parameters(model, path("q.npz")); }), HasSubstr("1 place:"));
  EXPECT_EQ(parameters(model), before);
}

TEST_F(Save, ManyMisfitsAreCounted) {
  TensorFile file;
  for (int i = 0; i < 20; ++i) file.tensors.emplace_back("x" + std::to_string(i), Tensor::zeros({}));
  save_safetensors(path("p.safetensors"), file);
  Net model;
  EXPECT_THAT(message_of<ValueError>([&] { load_parameters(model, path("p.safetensors")); }),
              AllOf(HasSubstr("23 places"), HasSubstr("and 15 more"), Not(HasSubstr("x9"))));
}

TEST_F(Save, TheExtensionDecides) {
  Net model;
  EXPECT_THAT(message_of<ValueError>([&] { save_parameters(model, path("p.bin")); }),
              AllOf(HasSubstr("'.bin'"), HasSubstr(".safetensors or .npz")));
  EXPECT_THROW(load_parameters(model, path("p")), ValueError);
  EXPECT_EQ(files(), 0U);
}

TEST_F(Save, NamesMustTellParametersApart) {
  struct Twice : Module {
    ParamState& a = param("w.bias", zeros({}));
    ParamState& b = param("w", NamedArrays{{"bias", zeros({})}});
  };
  EXPECT_THAT(message_of<ValueError>([&] { save_parameters(Twice(), path("p.npz")); }),
              HasSubstr("\"w.bias\""));
}

// Checkpoints -----------------------------------------------------------------------------------------------
TEST_F(Save, CheckpointsComeBack) {
  save_checkpoint(path("c"), kFile);
  const TensorFile read = load_checkpoint(path("c"));
  EXPECT_EQ(read.tensors, kFile.tensors);
  EXPECT_EQ(read.metadata, kFile.metadata);
  save_checkpoint(path("empty"), {});
  EXPECT_TRUE(load_checkpoint(path("empty")).tensors.empty());

  // Any reader of the format opens it, and may write it again in its own order.
  TensorFile plain = load_safetensors(path("c"));
  EXPECT_THAT(plain.metadata,
              ::testing::Contains(std::pair<std::string, std::string>("format", "etrace.checkpoint")));
  std::reverse(plain.tensors.begin(), plain.tensors.end());
  std::reverse(plain.metadata.begin(), plain.metadata.end());
  save_safetensors(path("again"), plain);
  EXPECT_EQ(load_checkpoint(path("again")).tensors, kFile.tensors);
}

TEST_F(Save, ADamagedCheckpointIsRefused) {
  save_checkpoint(path("c"), kFile);
  const std::string whole = contents(path("c"));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    std::ofstream(path("d"), std::ios::binary) << damaged;
    EXPECT_THROW(load_checkpoint(path("d")), Error) << i;
  }
  std::string damaged = whole;
  damaged.back() = static_cast<char>(damaged.back() ^ 0x40);
  std::ofstream(path("d"), std::ios::binary) << damaged;
  EXPECT_THAT(message_of<CompilationError>([&] { load_checkpoint(path("d")); }),
              AllOf(HasSubstr("[checkpoint] " + path("d")), HasSubstr("damaged"), HasSubstr("crc32:")));
}

TEST_F(Save, OnlyCheckpointsAreCheckpoints) {
  save_safetensors(path("c"), kFile);
  EXPECT_THAT(message_of<CompilationError>([&] { load_checkpoint(path("c")); }), HasSubstr("no checkpoint"));
  save_checkpoint(path("c"), kFile);
  TensorFile later = load_safetensors(path("c"));
  for (auto& [key, value] : later.metadata)
    if (key == "version") value = "2";
  save_safetensors(path("c"), later);
  EXPECT_THAT(message_of<CompilationError>([&] { load_checkpoint(path("c")); }),
              AllOf(HasSubstr("version '2'"), HasSubstr("expected '1'")));
  for (const char* key : {"format", "version", "checksum"})
    EXPECT_THAT(message_of<ValueError>([&] {
                  save_checkpoint(path("c"), {{}, {{key, "x"}}});
                }),
                HasSubstr(key));
}

}  // namespace
}  // namespace etrace
