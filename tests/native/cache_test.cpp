// Compiled code on disk, and what happens where it cannot be made.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "native/background.h"
#include "native/cache.h"
#include "native/compile.h"
#include "native/toolchain.h"
#include "support/native.h"

namespace etrace::testing {
namespace {

namespace fs = std::filesystem;

// A folder of its own for every test, and the variables as they were afterwards.
class NativeCache : public ::testing::Test {
 protected:
  void SetUp() override {
    use_test_cache();
    folder_ = ::testing::TempDir() + "/etrace-cache-" + std::to_string(::getpid());
    fs::remove_all(folder_);
  }
  void TearDown() override {
    ::unsetenv("CC");
    fs::remove_all(folder_);
  }
  static void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  std::string folder_;
};

Program doubled() {
  const Aval v{Dtype::F32, {9}};
  return as_program(make_jaxpr([](ArraySpan x) { return Arrays{x[0] * 2.0 + 1.0}; }, std::span(&v, 1)));
}
const Tensor kNumbers = Tensor::of(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9}, {9});

TEST_F(NativeCache, FoldersOnTheWayAreTheUsersAlone) {
  const mode_t before = ::umask(0);
  const native::Cache cache(folder_ + "/home/.cache/etrace");
  ::umask(before);
  for (const char* name : {"", "/home", "/home/.cache", "/home/.cache/etrace"}) {
    struct stat about {};
    ASSERT_EQ(::stat((folder_ + name).c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777U, 0700U) << name;
  }
}

TEST_F(NativeCache, FilesOfOthersStay) {
  const native::Cache cache(folder_);
  const std::string own = cache.object("key", [](const std::string& path) { write(path, "object"); });
  fs::create_directories(folder_ + "/.work-mine");
  fs::create_directories(folder_ + "/.work-toolong");
  const std::vector<std::string> others{"mine.so",
                                        "libfoo.so",
                                        "0123456789abcdef0123456789abcde.so",
                                        ".c",
                                        ".1-2.c.txt",
                                        "..-",
                                        ".work-mine/lock",
                                        ".work-mine/notes",
                                        ".work-toolong/lock"};
  for (const std::string& name : others) {
    write(folder_ + "/" + name, "mine");
    const timespec old[2] = {{1, 0}, {1, 0}};
    ::utimensat(AT_FDCWD, (folder_ + "/" + name).c_str(), old, 0);
    ::utimensat(AT_FDCWD, (folder_ + "/.work-mine").c_str(), old, 0);
    ::utimensat(AT_FDCWD, (folder_ + "/.work-toolong").c_str(), old, 0);
  }
  cache.shrink(0);
  EXPECT_FALSE(fs::exists(own));
  cache.object("other",
               [](const std::string& path) { write(path, "object"); });  // looks for what was left behind
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder_ + "/" + name)) << name;
}

TEST_F(NativeCache, KeepsObjectsByTheirWholeKey) {
  const native::Cache cache(folder_);
  int made = 0;
  const auto make = [&](const std::string& path) { write(path, "object " + std::to_string(++made)); };
  bool hit = true;
  const std::string first = cache.object("key a", make, &hit);
  EXPECT_FALSE(hit);
  EXPECT_EQ(cache.object("key a", make, &hit), first);
  EXPECT_TRUE(hit);
  EXPECT_NE(cache.object("key b", make, &hit), first);
  EXPECT_FALSE(hit);
  EXPECT_EQ(made, 2);
  struct stat about {};
  ASSERT_EQ(::stat(folder_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0700U);
}

TEST_F(NativeCache, MakesDamagedAndForeignFilesAnew) {
  const native::Cache cache(folder_);
  const auto make = [](const std::string& path) { write(path, "the object"); };
  const std::string path = cache.object("key", make);
  std::ifstream in(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::string flipped = whole;
  flipped[3] = static_cast<char>(flipped[3] ^ 1);
  for (const std::string& damaged : {std::string(), whole.substr(0, whole.size() / 2), flipped}) {
    write(path, damaged);
    bool hit = true;
    cache.object("key", make, &hit);
    EXPECT_FALSE(hit);
  }
}

TEST_F(NativeCache, LeavesNothingBehindWhenMakingFails) {
  const native::Cache cache(folder_);
  EXPECT_THROW(cache.object("key",
                            [](const std::string& path) {
                              write(path, "half");
                              throw IoError("native", "the disk is full");
                            }),
               IoError);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(NativeCache, ForgetsWhatWasNotUsedForLongest) {
  const native::Cache cache(folder_);
  const auto make = [](const std::string& path) { write(path, std::string(1000, 'x')); };
  const std::string old = cache.object("old", make), recent = cache.object("recent", make);
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(1));
  cache.shrink(1500);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(recent));
}

TEST_F(NativeCache, RefusesAFolderThatOthersMayWriteTo) {
  fs::create_directory(folder_);
  ::chmod(folder_.c_str(), 0777);
  EXPECT_THROW(native::Cache{folder_}, IoError);
  write(folder_ + "/file", "");
  EXPECT_THROW(native::Cache{folder_ + "/file"}, IoError);
}

TEST_F(NativeCache, WithoutACompilerTheInterpreterRuns) {
  for (const char* cc : {"/nonexistent/cc", "false"}) {
    ::setenv("CC", cc, 1);
    EXPECT_THROW(native::compile_native(doubled()), IoError);
    const auto code = find_backend("native").compile(doubled());
    const Tensors args{kNumbers};
    EXPECT_TRUE(run_program(*code, doubled(), args)[0] == run_interpreter(doubled(), args)[0]);
  }
}

// No shell and no compiler takes the name of a folder, or of the compiler, for more than a name.
TEST_F(NativeCache, NamesOfFoldersAndCompilersAreNames) {
  const fs::path before = fs::current_path();
  fs::create_directory(folder_);
  fs::current_path(folder_);
  for (const std::string name : {"-o x; touch RUN", "@file", "a b\"'$(touch RUN)`touch RUN`", "-", "n\nm"}) {
    SCOPED_TRACE(name);
    ::setenv("ETRACE_CACHE_DIR", name.c_str(), 1);
    fs::create_directory("my " + name + "tools");
    const std::string cc = folder_ + "/my " + name + "tools/c c";
    write(cc, "#!/bin/sh\nexec cc \"$@\"\n");
    ::chmod(cc.c_str(), 0755);
    ::setenv("CC", cc.c_str(), 1);
    EXPECT_NO_THROW(native::compile_native(doubled()));
    EXPECT_FALSE(fs::is_empty(name));
  }
  EXPECT_FALSE(fs::exists("RUN"));
  fs::current_path(before);
}

// Code that is in the cache is loaded without asking the compiler; another compiler makes its own.
TEST_F(NativeCache, ACachedStartRunsNoCompiler) {
  ::setenv("ETRACE_CACHE_DIR", folder_.c_str(), 1);
  const std::string tools = folder_ + "-tools", cc = tools + "/cc", calls = tools + "/calls";
  fs::create_directory(tools);
  const auto make_compiler = [&](const std::string& remark) {
    write(cc, "#!/bin/sh\n# " + remark + "\necho call >> " + calls + "\nexec cc \"$@\"\n");
    ::chmod(cc.c_str(), 0755);
  };
  make_compiler("one");
  ::setenv("CC", cc.c_str(), 1);
  const auto calls_now = [&] { return fs::exists(calls) ? fs::file_size(calls) : 0; };
  native::compile_native(doubled());
  const std::uintmax_t first = calls_now();
  EXPECT_GT(first, 0U);
  native::compile_native(doubled());
  EXPECT_EQ(calls_now(), first);
  make_compiler("another");
  native::compile_native(doubled());
  EXPECT_GT(calls_now(), first);
  fs::remove_all(tools);
}

// A folder that cannot be used costs the cache alone; if nothing can be written anywhere, the interpreter
// runs.
TEST_F(NativeCache, WithoutAFolderCodeIsCompiledAndNotKept) {
  write(folder_, "a file, not a folder");
  ::setenv("ETRACE_CACHE_DIR", folder_.c_str(), 1);
  const Tensors args{kNumbers};
  const Tensor expected = run_interpreter(doubled(), args)[0];
  const std::uint64_t before = native::cache_counts().not_kept;
  EXPECT_TRUE(run_program(*native::compile_native(doubled()), doubled(), args)[0] == expected);
  EXPECT_EQ(native::cache_counts().not_kept, before + 1);
  ::setenv("TMPDIR", "/nonexistent", 1);
  EXPECT_THROW(native::compile_native(doubled()), IoError);
  EXPECT_TRUE(run_program(*find_backend("native").compile(doubled()), doubled(), args)[0] == expected);
  ::unsetenv("TMPDIR");
}

TEST_F(NativeCache, TheBackgroundSwitchChangesNoBit) {
  const auto code = find_backend("auto").compile(doubled());
  const Tensors args{kNumbers};
  const Tensors before = run_program(*code, doubled(), args);
  native::wait_for_compilations();
  EXPECT_TRUE(run_program(*code, doubled(), args)[0] == before[0]);
}

TEST_F(NativeCache, ProcessesRunWithoutAShell) {
  EXPECT_EQ(native::run_process({"echo", "$HOME; `x`"}).output, "$HOME; `x`\n");
  EXPECT_EQ(native::run_process({"false"}).status, 1);
  const int file = ::open("/dev/null", O_RDONLY);  // what HDF5 and others open without O_CLOEXEC
  ASSERT_GT(file, 2);
  EXPECT_EQ(native::run_process({"test", "-e", "/proc/self/fd/" + std::to_string(file)}).status, 1);
  ::close(file);
  EXPECT_EQ(native::run_process({"/nonexistent/program"}).status, -1);
}

}  // namespace
}  // namespace etrace::testing
