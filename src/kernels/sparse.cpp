// sparse_product y = x·S(w) and sparse_gradient g[p] = Σ_b x[b,row(p)]·y[b,col(p)]: entries are walked line
// by line of the result, so that threads share nothing and every sum has one order. One sample reads x in
// place; several are turned to lie side by side first, so that an entry meets whole vectors of samples.
#include "kernels/context.h"
#include "kernels/kernels.h"
#include "kernels/lanes.h"
#include "kernels/lines.h"

namespace etrace {

namespace {

using Index = std::int64_t;

// x at the next places of a list, in the lanes of a vector. (Loads one by one are faster than a gather.)
template <class T, std::int64_t... I>
inline VectorOf<T> lanes_at(const T* x, const std::int32_t* at, std::integer_sequence<std::int64_t, I...>) {
  return VectorOf<T>{x[at[I]]...};
}
template <class T>
inline VectorOf<T> lanes_at(const T* x, const std::int32_t* at) {
  return lanes_at(x, at, std::make_integer_sequence<std::int64_t, kLanes<T>>());
}

// Σ_i w[e_i]·x[o_i] over one line, in two vectors of sums that take turns.
template <bool InOrder, class T>
T line_sum(const Lines& lines, Index first, Index last, const T* w, const T* x) {
  using L = Lanes<T>;
  constexpr Index n = kLanes<T>;
  const std::int32_t *other = lines.other, *entry = lines.entry;
  const auto values = [&](Index i) { return InOrder ? L::load(w + i) : lanes_at(w, entry + i); };
  VectorOf<T> even{}, odd{};
  Index i = first;
  for (; i + 2 * n <= last; i += 2 * n) {
    even = L::fma(values(i), lanes_at(x, other + i), even);
    odd = L::fma(values(i + n), lanes_at(x, other + i + n), odd);
  }
  if (i + n <= last) even = L::fma(values(i), lanes_at(x, other + i), even), i += n;
  T rest = 0;
  for (; i < last; ++i) rest += w[InOrder ? i : entry[i]] * x[other[i]];
  return sum_of_lanes<T>(even + odd) + rest;
}

// out[:] = Σ_i w[e_i]·x[o_i, :] for `Count` vectors of samples.
template <int Count, class T>
void line_rows(const Lines& lines, Index first, Index last, const T* w, const T* x, Index stride, T* out) {
  using L = Lanes<T>;
  VectorOf<T> sum[Count] = {};
  for (Index i = first; i < last; ++i) {
    const VectorOf<T> factor = splat(w[lines.entry_at(i)]);
    const T* row = x + lines.other[i] * stride;
    for (int v = 0; v < Count; ++v) sum[v] = L::fma(factor, L::load(row + v * kLanes<T>), sum[v]);
  }
  for (int v = 0; v < Count; ++v) L::store(out + v * kLanes<T>, sum[v]);
}

template <class T>
Index sample_stride(const etp_sparse& d) {  // of samples that lie side by side
  return round_up(d.batch, kLanes<T>);
}
template <class T>
std::size_t turned_bytes(const etp_sparse& d, Index lines) {
  return d.batch == 1
             ? 0
             : static_cast<std::size_t>(round_up(lines * sample_stride<T>(d) * Index(sizeof(T)), 64));
}

Lines lines_of(const etp_sparse& d, const void* const* in) {
  const auto table = [&](std::size_t i) { return static_cast<const std::int32_t*>(in[2 + i]); };
  return {d.columns, d.entries, table(0), table(1), d.in_order != 0 ? nullptr : table(2)};
}

int sparse_parts(const etp_sparse& d, const etp_context& context) {
  return parts_of_work(d.entries * d.batch, context.threads);
}

// x [B, n] -> [n, stride], by all threads.
template <class T>
void turn_samples(const T* x, Index batch, Index n, T* out, Index stride, int parts,
                  const etp_context& context) {
  in_parts(context, parts, [&](int part) {
    turn(x, batch, n, n * part / parts, n * (part + 1) / parts, out, stride, stride);
  });
}

template <class T>
void sparse_product(const etp_sparse& d, const etp_context& context, const void* const* in, void* const* out,
                    void* scratch) {
  const Lines lines = lines_of(d, in);
  const int parts = sparse_parts(d, context);
  const T *x = static_cast<const T*>(in[0]), *w = static_cast<const T*>(in[1]);
  T* y = static_cast<T*>(out[0]);
  const auto for_lines = [&](const auto& f) {
    in_parts(context, parts, [&](int part) {
      const Index end = lines.part_begin(part + 1, parts);
      for (Index o = lines.part_begin(part, parts); o < end; ++o) f(o, lines.first[o], lines.first[o + 1]);
    });
  };
  if (d.batch == 1)
    return for_lines([&](Index o, Index first, Index last) {
      y[o] = lines.in_order() ? line_sum<true>(lines, first, last, w, x)
                              : line_sum<false>(lines, first, last, w, x);
    });
  const Index stride = sample_stride<T>(d);
  T* xt = static_cast<T*>(scratch);
  T* yt = reinterpret_cast<T*>(static_cast<std::byte*>(scratch) + turned_bytes<T>(d, d.rows));
  turn_samples(x, d.batch, d.rows, xt, stride, parts, context);
  for_lines([&](Index o, Index first, Index last) {
    Index c = 0;
    for (; c + 4 * kLanes<T> <= stride; c += 4 * kLanes<T>)
      line_rows<4>(lines, first, last, w, xt + c, stride, yt + o * stride + c);
    for (; c < stride; c += kLanes<T>)
      line_rows<1>(lines, first, last, w, xt + c, stride, yt + o * stride + c);
  });
  in_parts(context, parts, [&](int part) {
    turn(yt, d.columns, stride, d.batch * part / parts, d.batch * (part + 1) / parts, y, d.columns,
         d.columns);
  });
}

template <class T>
void sparse_gradient(const etp_sparse& d, const etp_context& context, const void* const* in, void* const* out,
                     void* scratch) {
  const Lines lines = lines_of(d, in);
  const int parts = sparse_parts(d, context);
  const T *x = static_cast<const T*>(in[0]), *y = static_cast<const T*>(in[1]);
  T* g = static_cast<T*>(out[0]);
  const Index stride = d.batch == 1 ? 1 : sample_stride<T>(d);
  if (d.batch != 1) {
    T* xt = static_cast<T*>(scratch);
    T* yt = reinterpret_cast<T*>(static_cast<std::byte*>(scratch) + turned_bytes<T>(d, d.rows));
    turn_samples(x, d.batch, d.rows, xt, stride, parts, context);
    turn_samples(y, d.batch, d.columns, yt, stride, parts, context);
    x = xt, y = yt;
  }
  in_parts(context, parts, [&](int part) {
    const Index end = lines.part_begin(part + 1, parts);
    for (Index o = lines.part_begin(part, parts); o < end; ++o)
      for (Index i = lines.first[o]; i < lines.first[o + 1]; ++i) {
        const T *a = x + lines.other[i] * stride, *b = y + o * stride;
        if (stride == 1) {
          g[lines.entry_at(i)] = a[0] * b[0];
          continue;
        }
        VectorOf<T> sum{};
        for (Index c = 0; c < stride; c += kLanes<T>)
          sum = Lanes<T>::fma(Lanes<T>::load(a + c), Lanes<T>::load(b + c), sum);
        g[lines.entry_at(i)] = sum_of_lanes<T>(sum);
      }
  });
}

}  // namespace

void run_sparse_product(const void* descriptor, const etp_context* context, const void* const* in,
                        void* const* out, void* scratch) {
  const auto& d = *static_cast<const etp_sparse*>(descriptor);
  (d.dtype == ETP_F32 ? sparse_product<float> : sparse_product<double>)(d, *context, in, out, scratch);
}
void run_sparse_gradient(const void* descriptor, const etp_context* context, const void* const* in,
                         void* const* out, void* scratch) {
  const auto& d = *static_cast<const etp_sparse*>(descriptor);
  (d.dtype == ETP_F32 ? sparse_gradient<float> : sparse_gradient<double>)(d, *context, in, out, scratch);
}
std::int64_t sparse_lanes(bool f32) { return f32 ? kLanes<float> : kLanes<double>; }
std::size_t sparse_scratch(const void* descriptor, std::int64_t) {
  const auto& d = *static_cast<const etp_sparse*>(descriptor);
  return d.dtype == ETP_F32 ? turned_bytes<float>(d, d.rows) + turned_bytes<float>(d, d.columns)
                            : turned_bytes<double>(d, d.rows) + turned_bytes<double>(d, d.columns);
}

}  // namespace etrace
