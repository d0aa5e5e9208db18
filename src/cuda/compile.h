// CUDA C++ becomes machine code, which is kept like that of the CPU.
#pragma once

#include <string>

#include "cuda/driver.h"

#pragma GCC visibility push(default)
namespace etrace::cuda {

// Machine code for an architecture ("sm_90") by NVRTC. IoError with the compiler's words.
std::string compile_source(const CudaDriver&, const std::string& source, const std::string& architecture);
// Whether NVRTC takes the source, which is a tenth of the work: no code is made. IoError as above.
void check_source(const CudaDriver&, const std::string& source, const std::string& architecture);
// compile_source, from the cache of the user's if it is there.
std::string cached_image(const CudaDriver&, const std::string& source, const std::string& architecture);

}  // namespace etrace::cuda
#pragma GCC visibility pop
