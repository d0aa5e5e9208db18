// A program as loaded native code.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "emit/program.h"
#include "etrace/backend.h"
#include "interp/arena.h"
#include "native/module.h"
#include "ops/few_rows.h"
#include "ops/matrix_product.h"

namespace etrace::native {

class NativeProgram final : public Runnable {
 public:
  // The module must have been made from print_c() of this program.
  NativeProgram(emit::EmitProgram, std::shared_ptr<const LoadedModule>);
  void run(const void* const* arguments, void* const* results) const override;
  std::size_t arena_bytes() const override { return memory_bytes_; }

  // What emitted code calls; public for the functions of etp_host.
  std::vector<Kernel> kernels;
  std::vector<MatrixProduct> products;
  // Per product: of few rows, with a matrix that no step of a run changes.
  std::vector<std::optional<FewRows>> few_rows;
  // What a run knows of such a product. A first call learns nothing: there may be no second.
  enum class Known : std::uint8_t { Nothing, Called, Finite, Dense };
  Known& known(std::size_t product, void* scratch) const {
    return *(static_cast<Known*>(scratch) - few_rows.size() + product);
  }

 private:
  // Arena and scratch of one run. Runs at the same time take different ones; they are kept for the next.
  class Memory;

  std::optional<FewRows> repeated(const emit::Product&) const;

  emit::EmitProgram program_;
  std::shared_ptr<const LoadedModule> module_;
  std::vector<const void*> constants_;
  std::size_t scratch_offset_ = 0, memory_bytes_ = 0;
  mutable std::array<std::atomic<AlignedBuffer*>, 16> spare_{};

 public:
  ~NativeProgram() override;
};

}  // namespace etrace::native
