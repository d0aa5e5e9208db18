// etrace doctor: what of this machine etrace would use, and what would improve it.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "base/memory.h"
#include "base/wrap.h"
#include "bench/ceilings.h"
#include "cli/verbs.h"
#include "cuda/device.h"
#include "data/catalog.h"
#include "data/hdf5.h"
#include "etrace/error.h"
#include "etrace/version.h"
#include "native/cache.h"
#include "native/toolchain.h"
#include "runtime/thread_pool.h"

namespace etrace::cli {

namespace {

using Advice = std::vector<std::string>;

void machine_line(const char* what, const std::string& text) {
  std::cout << fmt::format("{:<10}{}\n", what, text);
}

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

// A line of /proc/meminfo, in bytes; 0: it is not told.
std::int64_t memory_of(const std::string& key) {
  std::ifstream in("/proc/meminfo");
  std::string name, unit;
  for (std::int64_t kilobytes = 0; in >> name >> kilobytes; std::getline(in, unit))
    if (name == key) return 1024 * kilobytes;
  return 0;
}

// The first line that the compiler says of itself.
std::string compiler_name() {
  const std::string identity = native::compiler_identity().substr(0, native::compiler_identity().find('\n'));
  std::vector<std::string> words;
  for (std::size_t at = 0; at < identity.size();) {
    const std::size_t end = std::min(identity.find(' ', at), identity.size());
    words.push_back(identity.substr(at, end - at));
    at = end + 1;
  }
  return words.size() < 2 ? identity : fmt::format("{} ({})", words[0], words[1]);
}

void processor_lines(Advice& advice) {
  const int threads = default_threads();
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  machine_line("processor", fmt::format("{}, {} processors", processor_name(), cores));
  machine_line("threads", std::to_string(threads));
  if (threads < cores)
    advice.push_back(fmt::format("ETRACE_NUM_THREADS lets it use {} of {} processors", threads, cores));
  machine_line("memory", fmt::format("{}, {} available", bytes_text(memory_of("MemTotal:")),
                                     bytes_text(memory_of("MemAvailable:"))));
  constexpr std::size_t kBuffer = std::size_t{64} << 20U;
  const double seconds = seconds_of_copy(default_pool(), kBuffer);
  machine_line("speed", fmt::format("{:.1f} GB/s of memory (read and written), {:.0f} GFLOP/s in f32",
                                    2.0 * static_cast<double>(kBuffer) / seconds / 1e9,
                                    fma_rate(default_pool()) / 1e9));
}

void native_lines(Advice& advice) {
  std::string reason;
  const bool found = native::find_compiler(reason).has_value();
  machine_line("compiler", found ? compiler_name() : "none (" + reason + "); the interpreter runs alone");
  if (!found)
    advice.emplace_back("a C compiler makes training several times faster: `apt-get install gcc`, or set CC");
  try {
    const native::Cache cache;
    std::error_code error;
    std::int64_t bytes = 0, objects = 0;
    for (const auto& e : std::filesystem::recursive_directory_iterator(cache.folder(), error))
      if (e.is_regular_file(error)) {
        bytes += static_cast<std::int64_t>(e.file_size(error));
        ++objects;
      }
    machine_line("cache", fmt::format("{}, {} files, {}", cache.folder(), objects, bytes_text(bytes)));
  } catch (const Error& e) {
    machine_line("cache", e.message());
    advice.emplace_back(
        "without a cache programs are compiled in every process: set ETRACE_CACHE_DIR to a "
        "folder that only you can write");
  }
}

bool cuda_lines(Advice& advice) {
  const cuda::CudaStatus s = cuda::cuda_status();
  if (!s.missing.empty()) {
    machine_line("cuda", "cannot run: " + s.missing);
    if (std::filesystem::exists("/dev/nvidia0"))
      advice.push_back("there is a GPU, and the backend cuda cannot use it: " + s.missing);
    return false;
  }
  machine_line("cuda", s.device);
  machine_line("memory", fmt::format("{} of {} free", bytes_text(static_cast<std::int64_t>(s.free_bytes)),
                                     bytes_text(static_cast<std::int64_t>(s.total_bytes))));
  machine_line("driver",
               fmt::format("for CUDA {}.{}", s.driver_version / 1000, s.driver_version % 1000 / 10));
  machine_line("libraries", s.compiler + ", " + s.products);
  return true;
}

void data_lines(Advice& advice) {
  std::vector<std::string> here, missing;
  for (const data::KnownData& d : data::known_data())
    (data::installed_path(d).empty() ? missing : here).push_back(d.name);
  machine_line("data", fmt::format("{}; in {}",
                                   here.empty() ? "no data set" : fmt::format("{}", fmt::join(here, ", ")),
                                   data::data_folder()));
  const std::string hdf5 = data::hdf5_library();
  machine_line("hdf5", hdf5.empty() ? "none" : hdf5);
  if (!missing.empty())
    advice.push_back(
        fmt::format("data sets that are not here: {}; `etrace data` says which packages bring "
                    "them",
                    fmt::join(missing, ", ")));
  if (hdf5.empty()) advice.emplace_back("SHD and SSC need HDF5: `apt-get install libhdf5-103-1`");
}

void print_advice(const Advice& advice) {
  std::cout << (advice.empty() ? "nothing is missing\n" : "\nwhat would improve it:\n");
  for (const std::string& line : advice) std::cout << wrapped("  -", 4, line);
}

}  // namespace

void add_doctor(CLI::App& app, Status& status) {
  CLI::App* verb = app.add_subcommand(
      "doctor",
      "what of this machine would be used (compiler, cores, memory, cache, GPU, data), and what is missing");
  auto cuda_alone = std::make_shared<bool>(false);
  verb->add_flag("--cuda", *cuda_alone, "the CUDA device alone; exit status 1 if it cannot be used");
  verb->callback([cuda_alone, &status] {
    Advice advice;
    if (*cuda_alone) {
      if (!cuda_lines(advice)) status.code = 1;
      return;
    }
    machine_line("etrace", std::string(version()));
    processor_lines(advice);
    native_lines(advice);
    cuda_lines(advice);
    data_lines(advice);
    print_advice(advice);
  });
}

}  // namespace etrace::cli
