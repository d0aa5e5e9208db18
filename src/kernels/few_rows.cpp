// Rows of B are taken four at a time, whole, while the next four are fetched: they come from afar, and nobody
// but the list knows which.
#include "kernels/few_rows.h"

#include <algorithm>

#include "runtime/etp_vector.h"

namespace etrace {

namespace {

using Index = std::int64_t;

template <class T>
class FewRowsPass {
 public:
  FewRowsPass(const etp_matrix_product& p, void* scratch)
      : p_(p),
        place_(static_cast<Index*>(scratch)),
        value_(reinterpret_cast<T*>(place_ + p.rows * p.depth)) {}

  static std::size_t scratch_bytes(const etp_matrix_product& p) {
    return static_cast<std::size_t>(p.rows * p.depth) * (sizeof(Index) + sizeof(T));
  }

  bool is_finite(const T* b) const {
    for (Index k = 0; k < p_.depth; ++k, b += p_.b_depth) {
      Vector zeros{};
      T zero = 0;
      Index j = 0;
      for (; j + kLanes <= p_.columns; j += kLanes) zeros += load(b + j) * T(0);
      for (; j < p_.columns; ++j) zero += b[j] * T(0);
      for (Index l = 0; l < kLanes; ++l) zero += zeros[l];
      if (zero != T(0)) return false;  // a NaN is not equal to anything
    }
    return true;
  }

  // The list of every row; false if more than a third is set.
  bool list(const T* a) {
    if (is_dense_at_a_glance(a)) return false;
    Index all = 0;
    for (Index i = 0; i < p_.rows; ++i, a += p_.a_row) ends_[i] = all = list_row(a, all);
    return 3 * all <= p_.rows * p_.depth;
  }

  // What was listed.
  void multiply(const T* b, T* c, bool accumulate) const {
    for (Index i = 0, first = 0; i < p_.rows; first = ends_[i++], c += p_.c_row)
      sum(first, ends_[i], b, c, accumulate);
  }

  static constexpr Index kMostRows = 15;

 private:
  static constexpr Index kLanes = ETP_VBYTES / sizeof(T);
  using Vector __attribute__((vector_size(ETP_VBYTES), aligned(sizeof(T)), may_alias)) = T;
  static Vector load(const T* p) { return *reinterpret_cast<const Vector*>(p); }
  static Vector fma(Vector a, Vector b, Vector c) {
    if constexpr (sizeof(T) == 4)
      return ETP_VFMA_f32(a, b, c);
    else
      return ETP_VFMA_f64(a, b, c);
  }

  // Some entries of the first row, spread over it, are mostly set.
  bool is_dense_at_a_glance(const T* a) const {
    constexpr Index kFew = 32;
    Index set = 0;
    for (Index i = 0; i < kFew; ++i) set += a[i * p_.depth / kFew * p_.a_depth] != T(0) ? 1 : 0;
    return 4 * set > 3 * kFew;
  }

  // What of a row of A is set, behind entry `n`; where the list then ends.
  Index list_row(const T* a, Index n) {
    for (Index k = 0; k < p_.depth; ++k) {
      const T x = a[k * p_.a_depth];
      place_[n] = k * p_.b_depth;
      value_[n] = x;
      n += x != T(0) ? 1 : 0;
    }
    return n;
  }

  // c (+)= Σ value·row over entries [first, last)
  void sum(Index first, Index last, const T* b, T* c, bool add) const {
    if (first == last) {
      if (!add) std::fill_n(c, p_.columns, T(0));
      if (add)
        for (Index j = 0; j < p_.columns; ++j) c[j] += T(0);
      return;
    }
    const Index head = first + ((last - first - 1) % 4) + 1;  // then whole fours are left
    rows(first, head - first, head, last, b, c, add);
    for (Index i = head; i < last; i += 4) rows(i, 4, i + 4, last, b, c, true);
  }
  void rows(Index i, Index count, Index next, Index last, const T* b, T* c, bool add) const {
    if (count == 1) return some_rows<1>(i, next, last, b, c, add);
    if (count == 2) return some_rows<2>(i, next, last, b, c, add);
    if (count == 3) return some_rows<3>(i, next, last, b, c, add);
    some_rows<4>(i, next, last, b, c, add);
  }
  template <int R>
  void some_rows(Index i, Index next, Index last, const T* b, T* c, bool add) const {
    const T *row[R], *ahead[4];
    Vector factor[R];
    for (int r = 0; r < R; ++r) row[r] = b + place_[i + r], factor[r] = value_[i + r] - Vector{};
    for (int r = 0; r < 4; ++r) ahead[r] = b + place_[std::min(next + r, last - 1)];
    Index j = 0;
    for (; j + kLanes <= p_.columns; j += kLanes) {
      Vector s = add ? load(c + j) : Vector{};
      ETP_UNROLL for (int r = 0; r < R; ++r) s = fma(factor[r], load(row[r] + j), s);
      *reinterpret_cast<Vector*>(c + j) = s + Vector{};  // no −0, as in the dense product
      if (j % kLine == 0) ETP_UNROLL for (int r = 0; r < 4; ++r) __builtin_prefetch(ahead[r] + j);
    }
    if (j == p_.columns) return;
    // The last columns as a vector that is not full.
    Vector s{};
    const auto left = static_cast<std::size_t>(p_.columns - j) * sizeof(T);
    if (add) __builtin_memcpy(&s, c + j, left);
    for (int r = 0; r < R; ++r) {
      Vector x{};
      __builtin_memcpy(&x, row[r] + j, left);
      s = fma(factor[r], x, s);
    }
    s += Vector{};
    __builtin_memcpy(c + j, &s, left);
  }
  static constexpr Index kLine = std::max<Index>(64 / static_cast<Index>(sizeof(T)), kLanes);

  const etp_matrix_product& p_;
  Index* place_;
  T* value_;
  Index ends_[kMostRows];  // of the lists
};

template <class F>
auto with_type(const etp_matrix_product& p, const F& f) {
  return p.dtype == ETP_F32 ? f(float{}) : f(double{});
}

}  // namespace

bool FewRows::fits(const etp_matrix_product& p) {
  return (p.dtype == ETP_F32 || p.dtype == ETP_F64) && p.rows > 0 &&
         p.rows <= FewRowsPass<float>::kMostRows && p.depth >= 64 && p.columns >= 64 && p.b_column == 1;
}

std::size_t FewRows::scratch_bytes() const {
  return with_type(p_, [&]<class T>(T) { return FewRowsPass<T>::scratch_bytes(p_); });
}

bool FewRows::is_finite(const void* b) const {
  return with_type(
      p_, [&]<class T>(T) { return FewRowsPass<T>(p_, nullptr).is_finite(static_cast<const T*>(b)); });
}

bool FewRows::is_sparse(const void* a, void* scratch) const {
  return with_type(p_,
                   [&]<class T>(T) { return FewRowsPass<T>(p_, scratch).list(static_cast<const T*>(a)); });
}

bool FewRows::operator()(const void* a, const void* b, void* c, void* scratch) const {
  return with_type(p_, [&]<class T>(T) {
    FewRowsPass<T> pass(p_, scratch);
    if (!pass.list(static_cast<const T*>(a))) return false;
    pass.multiply(static_cast<const T*>(b), static_cast<T*>(c), p_.onto != 0);
    return true;
  });
}

}  // namespace etrace
