/* What a host gives to a program and takes from it, beside its kernels: up to 16 small pieces are copied by
 * one block, a warp each. The device sees the host's pinned memory under its own addresses.
 *
 * p.at[3k], p.at[3k + 1], p.at[3k + 2]: from, to, and the number of bytes of piece k.
 * p.at[48], p.at[49]: when all pieces are there, and not before, the 8 bytes at the second go to the first; a
 * host that looks at them knows that the run is done. Null: nobody looks. */
#ifndef ETP_CUDA_COPIES_H
#define ETP_CUDA_COPIES_H

ETP_KERNEL(etp_copies, 50, 512) {
  const int piece = threadIdx.x / 32, lane = threadIdx.x % 32;
  const char* const from = p.at[3 * piece];
  char* const to = p.at[3 * piece + 1];
  const int bytes = (int)(uint64_t)p.at[3 * piece + 2], words = bytes / 4;
#pragma unroll 8
  for (int i = lane; i < words; i += 32) ((uint32_t*)to)[i] = ((const volatile uint32_t*)from)[i];
  for (int i = 4 * words + lane; i < bytes; i += 32) to[i] = ((const volatile char*)from)[i];
  if (p.at[48] == 0) return;
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) *(volatile uint64_t*)p.at[48] = *(const volatile uint64_t*)p.at[49];
}

#endif /* ETP_CUDA_COPIES_H */
