// The backend cuda: a program becomes CUDA C++ (emit/cuda_unit.h), machine code, and graphs on the first
// device.
#include "etrace/backend.h"

#include <atomic>
#include <cstdio>

#include "cuda/compile.h"
#include "cuda/program.h"
#include "emit/emit.h"

namespace etrace::cuda {

namespace {

// Once per process: it costs time at every run.
void say_why_no_graph(const std::string& program, const std::string& reason) {
  static std::atomic<bool> said{false};
  if (reason.empty() || said.exchange(true)) return;
  std::fprintf(
      stderr,
      "etrace: the program %s is no graph on the CUDA device, its kernels are launched one by one: %s\n",
      program.c_str(), reason.c_str());
}

class CudaBackend final : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }
  std::string_view doc() const override {
    return "emits CUDA C++ and runs on the first NVIDIA GPU, where all numbers stay";
  }
  std::shared_ptr<const Runnable> compile(const Program& p) const override {
    check(p);
    const Device& device = Device::get();
    const emit::EmitProgram built = emit::build(p, emit::find_target("cuda"));
    emit::CudaUnit unit = emit::cuda_unit(built);
    const std::string image = cached_image(device.driver(), unit.source, device.architecture());
    std::vector<std::string> eqns;
    for (const emit::SourceEqn& e : built.eqns) eqns.push_back(e.text);
    const auto code = std::make_shared<CudaProgram>(p.name, std::move(unit), image, std::move(eqns),
                                                    p.arguments.size(), p.results.size());
    say_why_no_graph(p.name, code->reason());
    return code;
  }
  const DeviceMemory* memory() const override { return &Device::get(); }
};

const CudaBackend kCuda;
const RegisterBackend kCudaRow(kCuda);

}  // namespace

}  // namespace etrace::cuda
