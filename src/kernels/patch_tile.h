// The product beneath convolutions and the traces of their kernels: rows of sums whose factors lie at given
// offsets, so that patches of an image are never copied.
//   out[j, c] = Σ_{o, i} x[point_j + o·x_outer + x_inner[i]] · w[o·w_outer + w_inner[i] + c]
//
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/lanes.h"

namespace etrace {

struct PatchSum {
  std::int64_t outer = 1, x_outer = 0, w_outer = 0;
  std::int64_t inner = 0;
  const std::int32_t *x_inner = nullptr, *w_inner = nullptr;
};

template <class T>
class PatchTiles {
 public:
  using Index = std::int64_t;
  static constexpr Index kRows = 6;

  // Rows of whole vectors: `columns` is a multiple of the lanes, w may be read and out written that far.
  static void run(const PatchSum& sum, const T* x, const Index* points, Index count, const T* w,
                  Index columns, T* out, Index out_stride) {
    for (Index j = 0; j < count; j += kRows) {
      const Index rows = std::min(kRows, count - j);
      Index c = 0;
      for (; c + 2 * kLanes<T> <= columns; c += 2 * kLanes<T>) {
        T* to = out + j * out_stride + c;
        tiles<2>(rows, sum, x, points + j, {w + c, w + c + kLanes<T>}, {to, to + kLanes<T>}, out_stride);
      }
      if (c < columns) tiles<1>(rows, sum, x, points + j, {w + c}, {out + j * out_stride + c}, out_stride);
    }
  }
  // Two products with the same x, whose w differ by their address alone.
  static void run_both(const PatchSum& sum, const T* x, const Index* points, Index count,
                       std::array<const T*, 2> w, Index columns, std::array<T*, 2> out, Index out_stride) {
    for (Index j = 0; j < count; j += kRows)
      for (Index c = 0; c < columns; c += kLanes<T>)
        tiles<2>(std::min(kRows, count - j), sum, x, points + j, {w[0] + c, w[1] + c},
                 {out[0] + j * out_stride + c, out[1] + j * out_stride + c}, out_stride);
  }

 private:
  template <std::size_t V>
  using From = std::array<const T*, V>;
  template <std::size_t V>
  using To = std::array<T*, V>;

  template <std::size_t V>
  static void tiles(Index rows, const PatchSum& sum, const T* x, const Index* points, const From<V>& w,
                    const To<V>& out, Index stride) {
    switch (rows) {
      case 6:
        return tile<6, V>(sum, x, points, w, out, stride);
      case 5:
        return tile<5, V>(sum, x, points, w, out, stride);
      case 4:
        return tile<4, V>(sum, x, points, w, out, stride);
      case 3:
        return tile<3, V>(sum, x, points, w, out, stride);
      case 2:
        return tile<2, V>(sum, x, points, w, out, stride);
      default:
        return tile<1, V>(sum, x, points, w, out, stride);
    }
  }

  template <int R, std::size_t V>
  static void tile(const PatchSum& sum, const T* x, const Index* points, const From<V>& w, const To<V>& out,
                   Index stride) {
    using L = Lanes<T>;
    constexpr int n = static_cast<int>(V);
    VectorOf<T> c[R][n] = {};
    for (Index o = 0; o < sum.outer; ++o) {
      const T *row[R], *weights[n];
      ETP_UNROLL for (int j = 0; j < R; ++j) row[j] = x + points[j] + o * sum.x_outer;
      ETP_UNROLL for (int v = 0; v < n; ++v) weights[v] = w[v] + o * sum.w_outer;
      for (Index i = 0; i < sum.inner; ++i) {
        const Index x_at = sum.x_inner[i], w_at = sum.w_inner[i];
        VectorOf<T> b[n];
        ETP_UNROLL for (int v = 0; v < n; ++v) b[v] = L::load(weights[v] + w_at);
        ETP_UNROLL for (int j = 0; j < R; ++j) {
          const VectorOf<T> a = splat(row[j][x_at]);
          ETP_UNROLL for (int v = 0; v < n; ++v) c[j][v] = L::fma(a, b[v], c[j][v]);
        }
      }
    }
    ETP_UNROLL for (int j = 0; j < R; ++j) ETP_UNROLL for (int v = 0; v < n; ++v)
        L::store(out[v] + j * stride, c[j][v]);
  }
};

}  // namespace etrace
