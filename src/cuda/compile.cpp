#include "cuda/compile.h"

#include <fmt/format.h>

#include <fstream>

#include "etrace/error.h"
#include "native/cache.h"

namespace etrace::cuda {

namespace {

// No contraction: as everywhere, a multiplication and an addition are one only where the code says so. No
// warnings: headers have functions that a program does not use, and errors would stand behind all of them.
constexpr const char* kOptions[] = {"--std=c++17",       "--fmad=false",     "--ftz=false",
                                    "--prec-div=true",   "--prec-sqrt=true", "-lineinfo",
                                    "--disable-warnings"};
// The emitted text has what it needs of these.
constexpr const char* kHeaders[] = {"math.h", "stddef.h", "stdint.h"};
constexpr const char* kNoText[] = {"", "", ""};

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A program of NVRTC that has gone through it.
class Compiled {
 public:
  Compiled(const CudaDriver& d, const std::string& source, const std::string& architecture,
           const char* one_more_option)
      : d_(d) {
    if (d.program_create(&program_, source.c_str(), "etrace.cu", 3, kNoText, kHeaders) != 0)
      throw IoError("cuda", "NVRTC does not take a program");
    const std::string target = "--gpu-architecture=" + architecture;
    std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
    options.push_back(target.c_str());
    if (one_more_option != nullptr) options.push_back(one_more_option);
    if (d.program_compile(program_, static_cast<int>(options.size()), options.data()) == 0) return;
    const std::string why = log();
    d.program_destroy(&program_);
    throw IoError("cuda", "NVRTC refuses the emitted program: " + why.substr(0, 4000));
  }
  ~Compiled() { d_.program_destroy(&program_); }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  std::string code() const {
    std::size_t bytes = 0;
    d_.program_code_size(program_, &bytes);
    std::string image(bytes, '\0');
    if (bytes > 0 && d_.program_code(program_, image.data()) != 0) image.clear();
    return image;
  }

 private:
  std::string log() const {
    std::size_t bytes = 0;
    d_.program_log_size(program_, &bytes);
    std::string text(bytes, '\0');
    if (bytes > 0) d_.program_log(program_, text.data());
    return text.c_str();  // up to its zero
  }
  const CudaDriver& d_;
  nvrtcProgram program_ = nullptr;
};

}  // namespace

std::string compile_source(const CudaDriver& d, const std::string& source, const std::string& architecture) {
  std::string image = Compiled(d, source, architecture, nullptr).code();
  if (image.empty()) throw IoError("cuda", "NVRTC gives no code for " + architecture);
  return image;
}

void check_source(const CudaDriver& d, const std::string& source, const std::string& architecture) {
  const Compiled taken(d, source, architecture, "-dlto");  // ends before the code is made better
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
