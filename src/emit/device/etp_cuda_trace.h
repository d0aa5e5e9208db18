/* Passes of trace_window:
 *   e ← P·e + gain·Σ_k x_k·q_k        at every slot and sample, P [M, M], e, q [M]
 *   g = (total +) Σ_b (u·e + gain·Σ_k x_k·w_k)
 * A pass that is told not to go on leaves all as it is. G is the geometry, constants of the text:
 *   T, S         types of the sums and of the trace as it is stored
 *   batch, states, steps, positions, elements (0: no source), slots, parameters, parts
 *   has_gain, has_gradient, has_weighted, has_total, has_go, has_rounding; direct: the
 *              pass writes the gradient itself
 *   etp_place place(slot, p)   where a slot points
 * Dense passes also have matrices, rows, columns, row_source, row_parameter, lanes (columns that a thread
 * takes together), depth (rows that it takes), and etp_place start(matrix).
 *
 * Samples are divided into parts, for as many blocks as a device likes; the gradient of each part stands in
 * `sums` until etp_trace_sum adds them up. Every sum has one order. */
#ifndef ETP_CUDA_TRACE_H
#define ETP_CUDA_TRACE_H

#include "emit/device/etp_cuda_vector.h"

enum {
  ETP_TRACE,
  ETP_TRANSITION,
  ETP_INJECTION,
  ETP_SOURCE,
  ETP_GAIN,
  ETP_ENTRY,
  ETP_WEIGHTED,
  ETP_GO,
  ETP_TOTAL,
  ETP_ROUNDING,
  ETP_NEXT,
  ETP_GRADIENT,
  ETP_SUMS,
  ETP_TABLE, /* sources, anchors and parameters by slot; or the slots of every parameter */
  ETP_TRACE_POINTERS = ETP_TABLE + 3
};
typedef etp_pointers<ETP_TRACE_POINTERS> etp_trace_pointers;

struct etp_place {
  int64_t source, anchor, parameter;
};

template <class G>
ETP_DEVICE bool etp_trace_goes_on(const etp_trace_pointers& p) {
  return !G::has_go || *(const uint8_t*)p.at[ETP_GO] != 0;
}
template <class G>
ETP_DEVICE const typename G::T* etp_trace_operand(const etp_trace_pointers& p, int which) {
  return (const typename G::T*)p.at[which];
}

/* N numbers of the new trace, from `place` on. */
template <class G, int N>
ETP_DEVICE void etp_trace_store(const etp_trace_pointers& p, int64_t place,
                                const etp_pack<typename G::T, N>& x) {
  typedef typename G::S S;
  etp_pack<S, N> to;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if constexpr (G::has_rounding)
      to.at[j] = etp_rounded<S>((float)x.at[j], *(const uint32_t*)p.at[ETP_ROUNDING], (uint32_t)(place + j));
    else
      to.at[j] = etp_narrow<S, typename G::T>::of(x.at[j]);
  }
  etp_put_once((S*)p.at[ETP_NEXT] + place, to);
}

/* What the pass has found for a parameter. */
template <class G>
ETP_DEVICE void etp_trace_put(const etp_trace_pointers& p, int64_t parameter, int64_t part, typename G::T g) {
  typedef typename G::T T;
  if (!G::direct) {
    ((T*)p.at[ETP_SUMS])[part * G::parameters + parameter] = g;
    return;
  }
  T* const gradient = (T*)p.at[ETP_GRADIENT];
  gradient[parameter] = G::has_total ? etp_trace_operand<G>(p, ETP_TOTAL)[parameter] + g : g;
}

/* Any pattern: one thread for every slot, and part of the samples. Where several slots share a parameter,
 * `sums` has a row of slots for every part. */
template <class G>
ETP_DEVICE void etp_trace_any(const etp_trace_pointers& p) {
  typedef typename G::T T;
  typedef typename G::S S;
  const int64_t number = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  const int64_t slot = number % G::slots, part = number / G::slots;
  if (part >= G::parts) return;
  const bool go = etp_trace_goes_on<G>(p);
  const S* const trace = (const S*)p.at[ETP_TRACE];
  S* const next = (S*)p.at[ETP_NEXT];
  const T* const transition = etp_trace_operand<G>(p, ETP_TRANSITION);
  const T* const injection = etp_trace_operand<G>(p, ETP_INJECTION);
  const T* const entry = etp_trace_operand<G>(p, ETP_ENTRY);
  const T* const weighted = etp_trace_operand<G>(p, ETP_WEIGHTED);
  const etp_place at = G::place(slot, p);
  const T gain = G::has_gain ? etp_trace_operand<G>(p, ETP_GAIN)[at.parameter] : (T)1;
  constexpr int64_t all = G::batch * G::positions;
  T g = 0;
  for (int64_t b = G::batch * part / G::parts; b < G::batch * (part + 1) / G::parts; ++b) {
    const int64_t place = b * G::positions + at.anchor, first = b * G::states * G::slots + slot;
    T old[G::states], sum[G::states];
    for (int c = 0; c < G::states; ++c) old[c] = etp_wide<T>(trace[first + c * G::slots]);
    if (!go) {
      for (int c = 0; c < G::states; ++c) next[first + c * G::slots] = trace[first + c * G::slots];
      continue;
    }
    T own = 0;
    for (int a = 0; a < G::states; ++a) sum[a] = 0;
    for (int64_t k = 0; k < G::steps; ++k) {
      const T x = G::elements > 0
                      ? etp_trace_operand<G>(p, ETP_SOURCE)[(k * G::batch + b) * G::elements + at.source]
                      : (T)1;
      for (int a = 0; a < G::states; ++a)
        sum[a] = etp_fused(x, injection[(k * G::states + a) * all + place], sum[a]);
      if (G::has_weighted) own = etp_fused(x, weighted[k * all + place], own);
    }
    for (int a = 0; a < G::states; ++a) {
      if (G::has_gain) sum[a] *= gain;
      for (int c = 0; c < G::states; ++c)
        sum[a] = etp_fused(transition[(a * G::states + c) * all + place], old[c], sum[a]);
    }
    for (int a = 0; a < G::states; ++a)
      etp_trace_store<G, 1>(p, first + a * G::slots, etp_pack<T, 1>{{sum[a]}});
    if (!G::has_gradient) continue;
    if (G::has_gain) own *= gain;
    for (int c = 0; c < G::states; ++c) own = etp_fused(entry[c * all + place], old[c], own);
    g += own;
  }
  if (!G::has_gradient) return;
  if (G::shared)
    ((T*)p.at[ETP_SUMS])[part * G::slots + slot] = g;
  else
    etp_trace_put<G>(p, at.parameter, part, g);
}

/* The gradient from the sums of all parts; where slots share parameters, from those of all their slots. */
template <class G>
ETP_DEVICE void etp_trace_sum(const etp_trace_pointers& p) {
  typedef typename G::T T;
  const int64_t parameter = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (parameter >= G::parameters) return;
  const T* const sums = (const T*)p.at[ETP_SUMS];
  T g = 0;
  if (etp_trace_goes_on<G>(p)) {
    for (int64_t part = 0; part < G::sum_parts; ++part)
      if (G::shared)
        for (int64_t i = 0; i < G::slots / G::parameters; ++i)
          g += sums[part * G::slots + ((const int32_t*)p.at[ETP_TABLE])[i * G::parameters + parameter]];
      else
        g += sums[part * G::parameters + parameter];
  }
  T* const gradient = (T*)p.at[ETP_GRADIENT];
  gradient[parameter] = G::has_total ? etp_trace_operand<G>(p, ETP_TOTAL)[parameter] + g : g;
}

/* Dense weights: rows have one source each, columns one anchor each, side by side. --------------------------
 */

/* N numbers of a row of columns from `column` on; zeros behind the last. */
template <class G>
ETP_DEVICE etp_pack<typename G::T, G::lanes> etp_trace_columns(const typename G::T* row, int64_t column) {
  if (column < G::columns) return etp_load<typename G::T, G::lanes>(row + column);
  return {};
}

/* Few steps: bound by memory. A thread has `lanes` columns of `depth` rows, and walks through the samples of
 * its part; what belongs to its anchors serves all of its rows. */
template <class G>
ETP_DEVICE void etp_trace_direct(const etp_trace_pointers& p) {
  typedef typename G::T T;
  typedef typename G::S S;
  typedef etp_pack<T, G::lanes> Pack;
  constexpr int64_t groups = (G::columns + G::lanes - 1) / G::lanes;
  constexpr int64_t blocks = (G::rows + G::depth - 1) / G::depth;
  int64_t number = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  const int64_t column = number % groups * G::lanes;
  number /= groups;
  const int64_t row = number % blocks * G::depth;
  number /= blocks;
  const int64_t matrix = number % G::matrices, part = number / G::matrices;
  if (part >= G::parts) return;
  const bool go = etp_trace_goes_on<G>(p);
  const etp_place at = G::start(matrix);
  constexpr int64_t all = G::batch * G::positions;
  const int64_t slot = (matrix * G::rows + row) * G::columns + column;
  Pack g[G::depth] = {};
  for (int64_t b = G::batch * part / G::parts; b < G::batch * (part + 1) / G::parts; ++b) {
    const int64_t place = b * G::positions + at.anchor + column;
    Pack move[G::states * G::states], add[G::steps * G::states], entry[G::states], own[G::steps];
    if (go) {
#pragma unroll
      for (int i = 0; i < G::states * G::states; ++i)
        move[i] = etp_load<T, G::lanes>(etp_trace_operand<G>(p, ETP_TRANSITION) + i * all + place);
#pragma unroll
      for (int i = 0; i < G::steps * G::states; ++i)
        add[i] = etp_load<T, G::lanes>(etp_trace_operand<G>(p, ETP_INJECTION) + i * all + place);
#pragma unroll
      for (int i = 0; i < G::states; ++i)
        if (G::has_gradient)
          entry[i] = etp_load<T, G::lanes>(etp_trace_operand<G>(p, ETP_ENTRY) + i * all + place);
#pragma unroll
      for (int i = 0; i < G::steps; ++i)
        if (G::has_weighted)
          own[i] = etp_load<T, G::lanes>(etp_trace_operand<G>(p, ETP_WEIGHTED) + i * all + place);
    }
    /* All rows are read before any is written: so much is on its way from memory at once. */
    Pack old[G::depth * G::states];
    T x[G::depth * G::steps];
#pragma unroll
    for (int r = 0; r < G::depth; ++r) {
      if (row + r >= G::rows) continue;
#pragma unroll
      for (int c = 0; c < G::states; ++c)
        old[r * G::states + c] = etp_load_once<T, G::lanes>(
            (const S*)p.at[ETP_TRACE] + (b * G::states + c) * G::slots + slot + r * G::columns);
#pragma unroll
      for (int k = 0; k < G::steps; ++k)
        x[r * G::steps + k] =
            G::elements > 0
                ? etp_trace_operand<G>(
                      p, ETP_SOURCE)[(k * G::batch + b) * G::elements + at.source + (row + r) * G::row_source]
                : (T)1;
    }
#pragma unroll
    for (int r = 0; r < G::depth; ++r) {
      if (row + r >= G::rows) continue;
      const Pack* const from = old + r * G::states;
      const T* const own_x = x + r * G::steps;
#pragma unroll
      for (int a = 0; a < G::states; ++a) {
        Pack sum = from[a];
        if (go) {
#pragma unroll
          for (int j = 0; j < G::lanes; ++j) {
            T s = 0;
#pragma unroll
            for (int k = 0; k < G::steps; ++k) s = etp_fused(own_x[k], add[k * G::states + a].at[j], s);
#pragma unroll
            for (int c = 0; c < G::states; ++c)
              s = etp_fused(move[a * G::states + c].at[j], from[c].at[j], s);
            sum.at[j] = s;
          }
        }
        etp_trace_store<G, G::lanes>(p, (b * G::states + a) * G::slots + slot + r * G::columns, sum);
      }
      if (!G::has_gradient || !go) continue;
#pragma unroll
      for (int j = 0; j < G::lanes; ++j) {
        T s = g[r].at[j];
#pragma unroll
        for (int k = 0; k < G::steps; ++k)
          if (G::has_weighted) s = etp_fused(own_x[k], own[k].at[j], s);
#pragma unroll
        for (int c = 0; c < G::states; ++c) s = etp_fused(entry[c].at[j], from[c].at[j], s);
        g[r].at[j] = s;
      }
    }
  }
  if (!G::has_gradient) return;
#pragma unroll
  for (int r = 0; r < G::depth; ++r)
    if (row + r < G::rows)
#pragma unroll
      for (int j = 0; j < G::lanes; ++j)
        etp_trace_put<G>(p, at.parameter + (row + r) * G::row_parameter + column + j, part, g[r].at[j]);
}

/* Many steps: a block of 256 threads has a tile of 16·depth rows and 16·lanes columns, each thread
 * depth·lanes slots in registers. The samples of its part pass one after the other; x and q of some steps
 * stand in shared memory. Σ_k x_k·w_k is a product of its own, in the last row of `sums`. */
template <class G>
ETP_DEVICE void etp_trace_tile(const etp_trace_pointers& p) {
  typedef typename G::T T;
  typedef typename G::S S;
  typedef etp_pack<T, G::lanes> Pack;
  constexpr int kSteps = G::staged, kRows = 16 * G::depth, kColumns = 16 * G::lanes;
  constexpr int64_t across = (G::columns + kColumns - 1) / kColumns, down = (G::rows + kRows - 1) / kRows;
  __shared__ __align__(16) T shared_x[kSteps * kRows];
  __shared__ __align__(16) T shared_q[kSteps * G::states * kColumns];
  int64_t number = blockIdx.x;
  const int64_t first_column = number % across * kColumns;
  number /= across;
  const int64_t first_row = number % down * kRows;
  number /= down;
  const int64_t matrix = number % G::matrices, part = number / G::matrices;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int64_t column = first_column + tx * G::lanes, row = first_row + ty * G::depth;
  const bool inside = column < G::columns;
  const bool go = etp_trace_goes_on<G>(p);
  const etp_place at = G::start(matrix);
  constexpr int64_t all = G::batch * G::positions;
  const T* const source = etp_trace_operand<G>(p, ETP_SOURCE);
  const T* const injection = etp_trace_operand<G>(p, ETP_INJECTION);
  const int64_t slot = (matrix * G::rows + row) * G::columns + column;
  Pack g[G::depth] = {};
  for (int64_t b = G::batch * part / G::parts; b < G::batch * (part + 1) / G::parts; ++b) {
    const int64_t base = b * G::positions + at.anchor;
    Pack e[G::depth * G::states];
    {
      Pack move[G::states * G::states], entry[G::states];
#pragma unroll
      for (int i = 0; i < G::states * G::states; ++i)
        move[i] = etp_trace_columns<G>(etp_trace_operand<G>(p, ETP_TRANSITION) + i * all + base, column);
#pragma unroll
      for (int i = 0; i < G::states; ++i)
        if (G::has_gradient)
          entry[i] = etp_trace_columns<G>(etp_trace_operand<G>(p, ETP_ENTRY) + i * all + base, column);
#pragma unroll
      for (int r = 0; r < G::depth; ++r) {
        const int64_t first = b * G::states * G::slots + slot + r * G::columns;
        Pack old[G::states] = {};
#pragma unroll
        for (int c = 0; c < G::states; ++c)
          if (inside && row + r < G::rows)
            old[c] = etp_load_once<T, G::lanes>((const S*)p.at[ETP_TRACE] + first + c * G::slots);
#pragma unroll
        for (int a = 0; a < G::states; ++a)
#pragma unroll
          for (int j = 0; j < G::lanes; ++j) {
            T s = 0;
#pragma unroll
            for (int c = 0; c < G::states; ++c) s = etp_fused(move[a * G::states + c].at[j], old[c].at[j], s);
            e[r * G::states + a].at[j] = go ? s : old[a].at[j];
            if (G::has_gradient && go) g[r].at[j] = etp_fused(entry[a].at[j], old[a].at[j], g[r].at[j]);
          }
      }
    }
    for (int64_t k0 = 0; go && k0 < G::steps; k0 += kSteps) {
      __syncthreads();
      for (int i = threadIdx.x * G::lanes; i < kSteps * G::states * kColumns; i += 256 * G::lanes) {
        const int64_t c = first_column + i % kColumns, ka = k0 * G::states + i / kColumns;
        Pack q = {};
        if (c < G::columns && ka < G::steps * G::states)
          q = etp_load<T, G::lanes>(injection + ka * all + base + c);
        *(Pack*)&shared_q[i] = q;
      }
      for (int i = threadIdx.x; i < kSteps * kRows; i += 256) {
        const int64_t r = first_row + i % kRows, k = k0 + i / kRows;
        shared_x[i] = r < G::rows && k < G::steps
                          ? source[(k * G::batch + b) * G::elements + at.source + r * G::row_source]
                          : (T)0;
      }
      __syncthreads();
#pragma unroll 4
      for (int k = 0; k < kSteps; ++k) {
        const etp_pack<T, G::depth> x = *(const etp_pack<T, G::depth>*)&shared_x[k * kRows + ty * G::depth];
#pragma unroll
        for (int a = 0; a < G::states; ++a) {
          const Pack q = *(const Pack*)&shared_q[(k * G::states + a) * kColumns + tx * G::lanes];
#pragma unroll
          for (int r = 0; r < G::depth; ++r)
#pragma unroll
            for (int j = 0; j < G::lanes; ++j)
              e[r * G::states + a].at[j] = etp_fused(x.at[r], q.at[j], e[r * G::states + a].at[j]);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < G::depth; ++r)
#pragma unroll
      for (int a = 0; a < G::states; ++a)
        if (inside && row + r < G::rows)
          etp_trace_store<G, G::lanes>(p, b * G::states * G::slots + slot + r * G::columns + a * G::slots,
                                       e[r * G::states + a]);
  }
  if (!G::has_gradient || !inside) return;
#pragma unroll
  for (int r = 0; r < G::depth; ++r)
#pragma unroll
    for (int j = 0; j < G::lanes; ++j) {
      if (row + r >= G::rows) continue;
      const int64_t parameter = at.parameter + (row + r) * G::row_parameter + column + j;
      T sum = g[r].at[j];
      if (G::direct && G::has_weighted && go) sum += ((const T*)p.at[ETP_SUMS])[parameter];
      etp_trace_put<G>(p, parameter, part, sum);
    }
}

#endif /* ETP_CUDA_TRACE_H */
