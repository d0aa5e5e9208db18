#include "cuda/compile.h"

#include <fmt/format.h>

#include <fstream>

#include "etrace/error.h"
#include "native/cache.h"

namespace etrace::cuda {

namespace {

// No contraction: as everywhere, a multiplication and an addition are one only where the code says so.
constexpr const char* kOptions[] = {"--std=c++17",     "--fmad=false",     "--ftz=false",
                                    "--prec-div=true", "--prec-sqrt=true", "-lineinfo"};
// The emitted text has what it needs of these.
constexpr const char* kHeaders[] = {"math.h", "stddef.h", "stdint.h"};
constexpr const char* kNoText[] = {"", "", ""};

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

std::string compile_source(const CudaDriver& d, const std::string& source, const std::string& architecture) {
  nvrtcProgram program = nullptr;
  if (d.program_create(&program, source.c_str(), "etrace.cu", 3, kNoText, kHeaders) != 0)
    throw IoError("cuda", "NVRTC does not take a program");
  struct Owner {
    const CudaDriver& d;
    nvrtcProgram p;
    ~Owner() { d.program_destroy(&p); }
  } const owner{d, program};
  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
  options.push_back(target.c_str());
  if (d.program_compile(program, static_cast<int>(options.size()), options.data()) != 0) {
    std::size_t bytes = 0;
    d.program_log_size(program, &bytes);
    std::string log(bytes, '\0');
    if (bytes > 0) d.program_log(program, log.data());
    throw IoError("cuda", "NVRTC refuses the emitted program: " + log.substr(0, 4000));
  }
  std::size_t bytes = 0;
  d.program_code_size(program, &bytes);
  std::string image(bytes, '\0');
  if (bytes == 0 || d.program_code(program, image.data()) != 0)
    throw IoError("cuda", "NVRTC gives no code for " + architecture);
  return image;
}

std::string cached_image(const CudaDriver& d, const std::string& source, const std::string& architecture) {
  int major = 0, minor = 0;
  d.compiler_version(&major, &minor);
  std::string key =
      fmt::format("{}\nNVRTC {}.{} {} {}", source, major, minor, d.path[kCompiler], architecture);
  for (const char* option : kOptions) key += std::string(" ") + option;
  const auto write = [&](const std::string& path) {
    const std::string image = compile_source(d, source, architecture);
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(image.data(), static_cast<std::streamsize>(image.size()));
    out.flush();
    if (!out) throw IoError("cuda", "cannot write " + path);
  };
  std::string why;
  try {
    return read_all(native::Cache().object(key, write));
  } catch (const IoError& e) {
    why = e.message();
  }
  std::string image = compile_source(d, source, architecture);  // an error of the compiler is said here
  native::count_not_kept(why);
  return image;
}

}  // namespace etrace::cuda
