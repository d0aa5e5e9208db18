// A CPU that cannot run the kernels is told so before any of them is: this runs as the first initialiser of
// the library, is compiled for any CPU of the architecture, and calls nothing but the C library. A library
// that others load into their process (Python's) is built without it, with ETRACE_CPU_CHECK=OFF: they look
// before.
#if defined(__x86_64__)
#include <unistd.h>

#include <cstring>

namespace {

// What x86-64-v3 has over the first x86-64, as far as compilers use it.
const char* missing_feature() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2")) return "AVX2";
  if (!__builtin_cpu_supports("fma")) return "FMA";
  if (!__builtin_cpu_supports("bmi2")) return "BMI2";
  return nullptr;
}

void say(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // nobody listens
}

__attribute__((constructor(101))) void require_cpu() {
  const char* missing = missing_feature();
  if (missing == nullptr) return;
  say("etrace: this CPU has no ");
  say(missing);
  say(", which the kernels are built for (x86-64-v3). Build etrace on this machine with "
      "-DETRACE_NATIVE=ON.\n");
  ::_exit(2);
}

}  // namespace
#endif
