// Output; see the header.
#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "base/file.h"
#include "etrace/error.h"

namespace etrace::cli {

namespace {

namespace fs = std::filesystem;

bool is_file_name(const std::string& path) { return !path.empty() && path != kStandardOutput; }

// Where writing to the path ends up, links followed, also through a link to what does not exist yet.
fs::path destination(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the system has it
  std::error_code error;
  fs::path at = path;
  for (int i = 0; i < kMostLinks && fs::is_symlink(at, error); ++i) {
    const fs::path target = fs::read_symlink(at, error);
    at = target.is_absolute() ? target : at.parent_path() / target;
  }
  const fs::path canonical = fs::weakly_canonical(fs::absolute(at, error), error);
  return error || canonical.empty() ? at : canonical;
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::exists(a, error) && fs::exists(b, error)) {
    if (!fs::is_regular_file(a, error) || !fs::is_regular_file(b, error)) return false;
    return fs::equivalent(a, b, error) && !error;
  }
  return destination(a) == destination(b);
}

}  // namespace

bool finish_standard_output() {
  errno = 0;
  std::cout.flush();
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout;
  const bool failed = std::fclose(stdout) != 0;
  if (!lost && !failed) return true;
  std::cerr << fmt::format(
      "etrace: standard output could not be written{}; what it should have held is lost\n",
      errno != 0 ? fmt::format(" ({})", std::strerror(errno)) : std::string());
  return false;
}

void write_output(const std::string& path, std::string_view text) {
  if (path == kStandardOutput) {
    std::cout << text;
    return;
  }
  write_file(path, text);
  std::cout << "wrote " << path << "\n";
}

void require_different_files(std::string_view stage, const std::vector<NamedFile>& files) {
  for (std::size_t i = 0; i < files.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) {
      const NamedFile &a = files[k], &b = files[i];
      if (!is_file_name(a.path) || !is_file_name(b.path) || !is_same_file(a.path, b.path)) continue;
      throw ValueError(std::string(stage),
                       fmt::format("{} {} and {} {} are the same file, and one would destroy the other; give "
                                   "each a file of its own",
                                   a.option, a.path, b.option, b.path));
    }
}

void require_writable(std::string_view stage, const NamedFile& file) {
  if (!is_file_name(file.path)) return;
  const auto refuse = [&](const std::string& why) {
    throw IoError(std::string(stage), fmt::format("{} {}: {}", file.option, file.path, why));
  };
  std::error_code error;
  if (fs::is_directory(file.path, error)) refuse("that is a folder");
  if (fs::exists(file.path, error) && !fs::is_regular_file(file.path, error)) return;  // a device, a pipe
  fs::path folder = destination(file.path).parent_path();
  if (folder.empty()) folder = ".";
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    refuse(
        fmt::format("no file can be written in '{}'; create the folder or choose another", folder.string()));
}

}  // namespace etrace::cli
