// What is called of CUDA: the driver, the runtime compiler and the library of products, opened when they are
// first asked for. Nothing of CUDA is needed to build or to run the rest. Types and numbers are those of its
// documented interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#pragma GCC visibility push(default)
namespace etrace::cuda {

using CUdevice = int;
using CUdeviceptr = std::uint64_t;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using nvrtcProgram = struct _nvrtcProgram*;
using cublasHandle = struct cublasContext*;

// F(library, name, symbol, parameters). All return 0 for success.
// clang-format off
#define ETRACE_CUDA_FUNCTIONS(F)                                                                                   \
  F(kDriver, init, "cuInit", (unsigned flags))                                                                     \
  F(kDriver, driver_version, "cuDriverGetVersion", (int* version))                                                 \
  F(kDriver, error_string, "cuGetErrorString", (int error, const char** text))                                     \
  F(kDriver, device_count, "cuDeviceGetCount", (int* count))                                                       \
  F(kDriver, device_get, "cuDeviceGet", (CUdevice* device, int ordinal))                                           \
  F(kDriver, device_name, "cuDeviceGetName", (char* name, int bytes, CUdevice))                                    \
  F(kDriver, device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, CUdevice))                      \
  F(kDriver, context_retain, "cuDevicePrimaryCtxRetain", (CUcontext*, CUdevice))                                   \
  F(kDriver, context_set, "cuCtxSetCurrent", (CUcontext))                                                          \
  F(kDriver, memory_info, "cuMemGetInfo_v2", (std::size_t* free, std::size_t* total))                              \
  F(kDriver, memory_alloc, "cuMemAlloc_v2", (CUdeviceptr*, std::size_t bytes))                                     \
  F(kDriver, memory_free, "cuMemFree_v2", (CUdeviceptr))                                                           \
  F(kDriver, host_alloc, "cuMemHostAlloc", (void** at, std::size_t bytes, unsigned flags))                         \
  F(kDriver, host_free, "cuMemFreeHost", (void*))                                                                  \
  F(kDriver, copy_to_device, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void*, std::size_t, CUstream))            \
  F(kDriver, copy_to_host, "cuMemcpyDtoHAsync_v2", (void*, CUdeviceptr, std::size_t, CUstream))                    \
  F(kDriver, fill, "cuMemsetD8Async", (CUdeviceptr, unsigned char value, std::size_t bytes, CUstream))             \
  F(kDriver, stream_create, "cuStreamCreate", (CUstream*, unsigned flags))                                         \
  F(kDriver, stream_wait, "cuStreamSynchronize", (CUstream))                                                       \
  F(kDriver, stream_wait_event, "cuStreamWaitEvent", (CUstream, CUevent, unsigned flags))                          \
  F(kDriver, event_create, "cuEventCreate", (CUevent*, unsigned flags))                                            \
  F(kDriver, event_record, "cuEventRecord", (CUevent, CUstream))                                                   \
  F(kDriver, event_wait, "cuEventSynchronize", (CUevent))                                                          \
  F(kDriver, module_load, "cuModuleLoadData", (CUmodule*, const void* image))                                      \
  F(kDriver, module_unload, "cuModuleUnload", (CUmodule))                                                          \
  F(kDriver, module_function, "cuModuleGetFunction", (CUfunction*, CUmodule, const char* name))                    \
  F(kDriver, launch, "cuLaunchKernel", (CUfunction, unsigned grid_x, unsigned grid_y, unsigned grid_z,             \
    unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream, void** parameters,      \
    void** extra))                                                                                                 \
  F(kDriver, capture_begin, "cuStreamBeginCapture_v2", (CUstream, int mode))                                       \
  F(kDriver, capture_end, "cuStreamEndCapture", (CUstream, CUgraph*))                                              \
  F(kDriver, graph_instantiate, "cuGraphInstantiateWithFlags", (CUgraphExec*, CUgraph, unsigned long long flags))  \
  F(kDriver, graph_launch, "cuGraphLaunch", (CUgraphExec, CUstream))                                               \
  F(kDriver, graph_destroy, "cuGraphDestroy", (CUgraph))                                                           \
  F(kDriver, graph_exec_destroy, "cuGraphExecDestroy", (CUgraphExec))                                              \
  F(kCompiler, compiler_version, "nvrtcVersion", (int* major, int* minor))                                         \
  F(kCompiler, program_create, "nvrtcCreateProgram", (nvrtcProgram*, const char* source, const char* name,         \
    int header_count, const char* const* headers, const char* const* header_names))                                \
  F(kCompiler, program_destroy, "nvrtcDestroyProgram", (nvrtcProgram*))                                            \
  F(kCompiler, program_compile, "nvrtcCompileProgram", (nvrtcProgram, int count, const char* const* options))      \
  F(kCompiler, program_log_size, "nvrtcGetProgramLogSize", (nvrtcProgram, std::size_t*))                           \
  F(kCompiler, program_log, "nvrtcGetProgramLog", (nvrtcProgram, char*))                                           \
  F(kCompiler, program_code_size, "nvrtcGetCUBINSize", (nvrtcProgram, std::size_t*))                               \
  F(kCompiler, program_code, "nvrtcGetCUBIN", (nvrtcProgram, char*))                                               \
  F(kProducts, products_create, "cublasCreate_v2", (cublasHandle*))                                                \
  F(kProducts, products_version, "cublasGetVersion_v2", (cublasHandle, int* version))                              \
  F(kProducts, products_stream, "cublasSetStream_v2", (cublasHandle, CUstream))                                    \
  F(kProducts, products_workspace, "cublasSetWorkspace_v2", (cublasHandle, void*, std::size_t bytes))              \
  F(kProducts, product, "cublasGemmStridedBatchedEx", (cublasHandle, int transpose_a, int transpose_b, int m,      \
    int n, int k, const void* alpha, const void* a, int a_type, int a_step, long long a_stride, const void* b,     \
    int b_type, int b_step, long long b_stride, const void* beta, void* c, int c_type, int c_step,                 \
    long long c_stride, int count, int compute, int algorithm))
// clang-format on

enum Library : std::uint8_t { kDriver, kCompiler, kProducts, kLibraries };

// A table of functions; null where its library is not there.
struct CudaDriver {
#define ETRACE_CUDA_MEMBER(library, name, symbol, parameters) int(*name) parameters = nullptr;
  ETRACE_CUDA_FUNCTIONS(ETRACE_CUDA_MEMBER)
#undef ETRACE_CUDA_MEMBER
  // Per library, the file that was opened; empty: none, and why.
  std::string path[kLibraries], missing[kLibraries];
};

// Opens what there is, once. ETRACE_CUDA_LIBRARY names a file that has all of them, such as the one that
// plays a device on a CPU (tests/cuda/played).
const CudaDriver& cuda_driver();

}  // namespace etrace::cuda
#pragma GCC visibility pop
