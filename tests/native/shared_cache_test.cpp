// One folder of compiled code for several processes: with the same process number, as containers have, with
// leftovers of killed ones, and where the folder takes nothing.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "etrace/ops/elementwise.h"
#include "native/cache.h"
#include "native/compile.h"
#include "native/work_folder.h"
#include "support/native.h"
#include "support/processes.h"

namespace etrace::testing {
namespace {

namespace fs = std::filesystem;

std::string only_entry(const std::string& folder) { return fs::directory_iterator(folder)->path(); }

class SharedCache : public ::testing::Test {
 protected:
  void SetUp() override {
    use_test_cache();
    folder_ = ::testing::TempDir() + "/etrace-shared-" + std::to_string(::getpid());
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    ::chmod(folder_.c_str(), 0700);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // In a process of its own, which knows nothing of what other tests counted.
  void use_folder() const {
    ::setenv("ETRACE_CACHE_DIR", folder_.c_str(), 1);
    native::reset_cache_counts();
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  std::string folder_;
};

#define SKIP_IF_NOT_PERMITTED(results)      \
  for (const ProcessResult& each : results) \
    if (each.kind == ProcessResult::NotPermitted) GTEST_SKIP() << "this system lets nobody have namespaces"

// x·factor + 1, of which every factor is a program of its own.
Program scaled(double factor) {
  const Aval v{Dtype::F32, {5}};
  return as_program(make_jaxpr([&](ArraySpan x) { return Arrays{x[0] * factor + 1.0}; }, std::span(&v, 1)));
}
int wrong_numbers(double factor) {
  const Tensors found = run_program(*native::compile_native(scaled(factor)), scaled(factor),
                                    Tensors{Tensor::of(std::vector<float>{1, 2, 3, 4, 5}, {5})});
  int wrong = 0;
  for (int i = 0; i < 5; ++i)
    wrong +=
        found[0].data<float>()[static_cast<std::size_t>(i)] != static_cast<float>((i + 1) * factor + 1.0);
  return wrong;
}

void expect_all_passed(const std::vector<ProcessResult>& results) {
  for (const ProcessResult& each : results) EXPECT_EQ(each.kind, ProcessResult::Passed) << each.errors;
}

// Objects that are only text; so many that the making of one falls into that of another.
int wrong_texts(const std::string& folder, int process) {
  const native::Cache cache(folder);
  int wrong = 0;
  for (int round = 0; round < 50; ++round) {
    const std::string key = "process " + std::to_string(process) + ", round " + std::to_string(round);
    const std::string path = cache.object(key, [&](const std::string& to) {
      std::ofstream out(to);
      for (const char c : key) out << c << std::flush;
    });
    std::ifstream in(path);
    std::string text(key.size(), ' ');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    wrong += text != key;
  }
  return wrong;
}

TEST_F(SharedCache, ContainersWithTheSameProcessNumbersGetTheirOwnObjects) {
  const auto results = in_processes(4, CLONE_NEWPID, [&](int i) { return wrong_texts(folder_, i); });
  SKIP_IF_NOT_PERMITTED(results);
  expect_all_passed(results);
  EXPECT_EQ(entries(), 200U);
}

TEST_F(SharedCache, ContainersWithTheSameProcessNumbersRunTheirOwnPrograms) {
  const auto results = in_processes(3, CLONE_NEWPID, [&](int i) {
    use_folder();
    return ::getpid() == 1 ? wrong_numbers(i + 2.0) : 1;
  });
  SKIP_IF_NOT_PERMITTED(results);
  expect_all_passed(results);
  EXPECT_EQ(entries(), 3U);
  expect_all_passed(in_processes(1, 0, [&](int) {
    use_folder();
    return wrong_numbers(2.0) + wrong_numbers(3.0) + wrong_numbers(4.0);
  }));
  EXPECT_EQ(entries(), 3U) << "those who come later find them";
}

TEST_F(SharedCache, ProcessesMakeTheSameObjectsAtOnce) {
  expect_all_passed(in_processes(4, 0, [&](int) { return wrong_texts(folder_, 0); }));
  EXPECT_EQ(entries(), 50U);
}

// A file under the right name, whole and with the right checksum, but of another program: what two processes
// of one number could leave behind in earlier versions.
TEST_F(SharedCache, AnObjectOfAnotherProgramIsMadeAnew) {
  const auto results = in_processes(1, 0, [&](int) {
    use_folder();
    const int wrong = wrong_numbers(7.0);
    const std::string seven = only_entry(folder_);
    const auto module = native::module_of(native::emit_program(scaled(8.0)));
    const auto* key = static_cast<const char*>(module->symbol("etrace_key"));
    for (const auto& file : fs::directory_iterator(folder_))
      if (file.path() != seven) fs::remove(file.path());
    // In its place the code of 7, kept for the key of 8.
    bool hit = true;
    native::Cache(folder_).object(
        key, [&](const std::string& to) { fs::copy_file(seven, to); }, &hit);
    return wrong + (hit ? 1 : 0);
  });
  expect_all_passed(results);
  const auto later = in_processes(1, 0, [&](int) {
    use_folder();
    const int wrong = wrong_numbers(8.0) + wrong_numbers(8.0);
    return wrong + (native::cache_counts().discarded == 1 ? 0 : 1);
  });
  expect_all_passed(later);
  EXPECT_NE(later[0].errors.find("holds the code of another program"), std::string::npos) << later[0].errors;
  EXPECT_EQ(later[0].errors.find("another program"), later[0].errors.rfind("another program")) << "said once";
}

TEST_F(SharedCache, ADamagedObjectIsMadeAnew) {
  const auto results = in_processes(1, 0, [&](int) {
    use_folder();
    int wrong = wrong_numbers(3.0);
    const std::string path = only_entry(folder_);
    fs::resize_file(path, fs::file_size(path) / 2);
    wrong += wrong_numbers(4.0);  // nothing else is touched
    wrong += wrong_numbers(3.0);
    return wrong + (native::cache_counts().discarded == 1 ? 0 : 1);
  });
  expect_all_passed(results);
  EXPECT_NE(results[0].errors.find("made anew: it is damaged"), std::string::npos) << results[0].errors;
}

void set_back(const std::string& path, int seconds) {
  struct stat about {};
  ASSERT_EQ(::stat(path.c_str(), &about), 0);
  timespec times[2] = {about.st_mtim, about.st_mtim};
  times[0].tv_sec -= seconds, times[1].tv_sec -= seconds;
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}
TEST_F(SharedCache, LeftoversOfKilledProcessesGo) {
  // A process that ends while it compiles.
  const auto results = in_processes(1, 0, [&](int) {
    native::Cache(folder_).object("key", [](const std::string& to) {
      std::ofstream(to) << "half of an object";
      ::_exit(0);
    });
    return 1;
  });
  expect_all_passed(results);
  ASSERT_EQ(entries(), 1U);
  const std::string leftover = only_entry(folder_), old = folder_ + "/.4711-0.c";
  std::ofstream(old) << "of an earlier version";
  const native::Cache cache(folder_);
  const auto make = [](const std::string& to) { std::ofstream(to) << "object"; };
  const std::uint64_t before = native::cache_counts().leftovers;
  cache.object("young leftovers stay", make);
  EXPECT_TRUE(fs::exists(leftover) && fs::exists(old));
  set_back(leftover, 3601);
  set_back(old, 86401);
  cache.object("old ones go", make);
  EXPECT_FALSE(fs::exists(leftover) || fs::exists(old));
  EXPECT_EQ(native::cache_counts().leftovers, before + 2);
}

// However long a compiler takes, what it works on stays.
TEST_F(SharedCache, WorkOfTheLivingStays) {
  const native::WorkFolder alive(folder_);
  std::ofstream(alive.path() + "/object.so.c") << "at work";
  set_back(alive.path(), 30 * 86400);
  EXPECT_EQ(native::remove_leftovers(folder_, alive.made()), 0U);
  EXPECT_TRUE(fs::exists(alive.path() + "/object.so.c"));
}

TEST_F(SharedCache, WorkFoldersAreNeverShared) {
  const native::WorkFolder first(folder_), second(folder_);
  EXPECT_NE(first.path(), second.path());
  struct stat about {};
  ASSERT_EQ(::stat(first.path().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0700U);
}

// A file system of its own over the folder; 1: it could not be had.
int mount_over(const std::string& folder, unsigned long flags, const char* options) {
  return ::mount("none", folder.c_str(), "tmpfs", flags, options) == 0 ? 0 : 1;
}

void expect_not_kept(const std::vector<ProcessResult>& results, const std::string& reason) {
  SKIP_IF_NOT_PERMITTED(results);
  expect_all_passed(results);
  EXPECT_NE(results[0].errors.find("compiled code is not kept"), std::string::npos) << results[0].errors;
  EXPECT_NE(results[0].errors.find(reason), std::string::npos) << results[0].errors;
}

TEST_F(SharedCache, OnAFullDiskCodeIsCompiledAndNotKept) {
  expect_not_kept(in_processes(1, CLONE_NEWNS,
                               [&](int) {
                                 use_folder();
                                 int wrong = mount_over(folder_, 0, "size=16k,mode=0700");
                                 wrong += wrong_numbers(2.5);
                                 return wrong + (native::cache_counts().not_kept == 1 ? 0 : 1) +
                                        (fs::is_empty(folder_) ? 0 : 1);
                               }),
                  folder_);
}

TEST_F(SharedCache, InAReadOnlyFolderCodeIsCompiledAndNotKept) {
  expect_not_kept(in_processes(1, CLONE_NEWNS,
                               [&](int) {
                                 use_folder();
                                 int wrong = mount_over(folder_, MS_RDONLY, "mode=0700");
                                 return wrong + wrong_numbers(2.5) + wrong_numbers(3.5) +
                                        (native::cache_counts().not_kept == 2 ? 0 : 1);
                               }),
                  "Read-only file system");
}

TEST_F(SharedCache, WhereNothingCanBeRunFromCodeIsLoadedFromElsewhere) {
  expect_not_kept(in_processes(1, CLONE_NEWNS,
                               [&](int) {
                                 use_folder();
                                 const int wrong = mount_over(folder_, MS_NOEXEC, "mode=0700");
                                 return wrong + wrong_numbers(2.5);
                               }),
                  "cannot load");
}

}  // namespace
}  // namespace etrace::testing
