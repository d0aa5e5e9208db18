/* Plays a CUDA grid on a CPU: emitted CUDA C++ is compiled as C++ with this header before it. Blocks run one
 * after the other, threads of a block too, until they meet a barrier (played.cpp has the fibres). */
#ifndef PLAYED_GRID_H
#define PLAYED_GRID_H

struct played_dim {
  unsigned x, y, z;
};
struct played_host {
  void (*block)(unsigned threads, void (*thread)(const void* pointers, unsigned number),
                const void* pointers);
  void (*barrier)();
  bool backwards; /* blocks */
};
static played_dim threadIdx, blockIdx, blockDim, gridDim;
static const played_host* played_now;

static inline __attribute__((unused)) void __syncthreads() {
  const unsigned own = threadIdx.x;
  played_now->barrier();
  threadIdx.x = own;
}
static inline __attribute__((unused)) void __threadfence() {}
static inline __attribute__((unused)) void __threadfence_system() {}
static inline __attribute__((unused)) int atomicAdd(int* at, int more) {
  const int old = *at;
  *at = old + more;
  return old;
}
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))

#define ETP_KERNEL(name, count, threads)                                                                \
  static void name##_thread(const etp_pointers<count> p);                                               \
  extern "C" const int name##_pointers = count;                                                         \
  extern "C" void name(unsigned blocks, unsigned size, const void* pointers, const played_host* host) { \
    played_now = host;                                                                                  \
    blockDim = {size, 1, 1}, gridDim = {blocks, 1, 1};                                                  \
    for (unsigned b = 0; b < blocks; ++b) {                                                             \
      blockIdx = {host->backwards ? blocks - 1 - b : b, 0, 0};                                          \
      host->block(                                                                                      \
          size,                                                                                         \
          [](const void* at, unsigned number) {                                                         \
            threadIdx = {number, 0, 0};                                                                 \
            name##_thread(*(const etp_pointers<count>*)at);                                             \
          },                                                                                            \
          pointers);                                                                                    \
    }                                                                                                   \
  }                                                                                                     \
  static void name##_thread(const etp_pointers<count> p)

#endif
