// etrace doctor: what of this machine etrace would use, and what is missing for the rest.
#include <fmt/format.h>

#include <iostream>

#include "base/memory.h"
#include "cli/verbs.h"
#include "cuda/device.h"
#include "etrace/error.h"
#include "etrace/version.h"
#include "native/cache.h"
#include "native/toolchain.h"
#include "runtime/thread_pool.h"

namespace etrace::cli {

namespace {

void machine_line(const char* what, const std::string& text) {
  std::cout << fmt::format("{:<10}{}\n", what, text);
}

void native_lines() {
  std::string reason;
  const bool found = native::find_compiler(reason).has_value();
  machine_line("compiler", found
                               ? native::compiler_identity().substr(0, native::compiler_identity().find('\n'))
                               : "none (" + reason + "); the interpreter runs alone: set CC to a C compiler");
  try {
    machine_line("cache", native::Cache().folder());
  } catch (const Error& e) {
    machine_line("cache", e.message());
  }
}

bool cuda_lines() {
  const cuda::CudaStatus s = cuda::cuda_status();
  if (!s.missing.empty()) {
    machine_line("cuda", "cannot run: " + s.missing);
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

}  // namespace

void add_doctor(CLI::App& app, Status& status) {
  CLI::App* verb = app.add_subcommand("doctor", "what of this machine would be used, and what is missing");
  auto cuda_alone = std::make_shared<bool>(false);
  verb->add_flag("--cuda", *cuda_alone, "the CUDA device alone; exit status 1 if it cannot be used");
  verb->callback([cuda_alone, &status] {
    if (!*cuda_alone) {
      machine_line("etrace", std::string(version()));
      machine_line("threads", std::to_string(default_threads()));
      native_lines();
    }
    if (!cuda_lines() && *cuda_alone) status.code = 1;
  });
}

}  // namespace etrace::cli
