// Rows of B are taken four at a time, whole, while the next four are fetched: they come from afar, and nobody
// but the list knows which.
#include "ops/few_rows.h"

#include <algorithm>

#include "runtime/etp_vector.h"

namespace etrace {

namespace {

using Index = std::int64_t;

template <class T>
class FewRowsPass {
 public:
  FewRowsPass(const MatrixProduct::Sizes& sizes, const MatrixProduct::Strides& strides, void* scratch)
      : n_(sizes),
        at_(strides),
        place_(static_cast<Index*>(scratch)),
        value_(reinterpret_cast<T*>(place_ + sizes.rows * sizes.depth)) {}

  static std::size_t scratch_bytes(const MatrixProduct::Sizes& s) {
    return static_cast<std::size_t>(s.rows * s.depth) * (sizeof(Index) + sizeof(T));
  }

  // sums[j] = Σ_k B[k,j] for some columns, a chain each; whether all of B is finite there, with a margin:
  // then neither a sum nor f times it overflows, and 0·b is 0.
  bool sum_columns(const T* b, Index columns, T* sums) const {
    bool finite = true;
    for (Index j = 0; j < columns; j += FewRows::kPanel)
      finite = (columns - j < FewRows::kPanel ? sum_rest(b + j, columns - j, sums + j)
                                              : sum_panel(b + j, sums + j)) &&
               finite;
    return finite;
  }

  // f of every row; whether there is one that is not zero.
  bool find_bases(const T* a) {
    const bool dense = is_dense_at_a_glance(a);
    bool any = false;
    for (Index i = 0; i < n_.rows; ++i, a += at_.a_row) {
      base_[i] = dense ? T(0) : base_of(a);
      any = any || base_[i] != T(0);
    }
    return any;
  }
  // The list of every row; false if more than a third is left.
  bool list(const T* a) {
    Index all = 0;
    for (Index i = 0; i < n_.rows; ++i, a += at_.a_row) ends_[i] = all = list_row(a, base_[i], all);
    return 3 * all <= n_.rows * n_.depth;
  }

  // What was listed, for some columns.
  void multiply(const T* b, const T* sums, Index columns, T* c, bool accumulate) {
    columns_ = columns;
    for (Index i = 0, first = 0; i < n_.rows; first = ends_[i++], c += at_.c_row) {
      sum(first, ends_[i], b, c, accumulate);
      if (base_[i] != T(0)) add_base(base_[i], sums, c);
    }
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

  static constexpr T kLargest = 256;     // of a base
  static constexpr T kMargin = 1 << 30;  // B is so far below the largest number, or there is no base

  bool sum_panel(const T* b, T* sums) const {
    constexpr Index kVectors = FewRows::kPanel / kLanes;
    Vector sum[kVectors] = {}, zeros{};
    for (Index k = 0; k < n_.depth; ++k, b += at_.b_depth) ETP_UNROLL for (Index v = 0; v < kVectors; ++v) {
        const Vector x = load(b + v * kLanes);
        sum[v] += x;
        zeros += x * kMargin * T(0);
      }
    T zero = 0;
    for (Index v = 0; v < kVectors; ++v) *reinterpret_cast<Vector*>(sums + v * kLanes) = sum[v];
    for (Index l = 0; l < kLanes; ++l) zero += zeros[l];
    return zero == T(0);
  }
  bool sum_rest(const T* b, Index columns, T* sums) const {
    std::fill_n(sums, columns, T(0));
    T zero = 0;
    for (Index k = 0; k < n_.depth; ++k, b += at_.b_depth)
      for (Index j = 0; j < columns; ++j) sums[j] += b[j], zero += b[j] * kMargin * T(0);
    return zero == T(0);
  }

  // Some entries of the first row, spread over it, are mostly neither zero nor equal.
  bool is_dense_at_a_glance(const T* a) const {
    constexpr Index kFew = 32;
    T other = 0;
    Index odd = 0;
    for (Index i = 0; i < kFew; ++i) {
      const T x = a[i * n_.depth / kFew * at_.a_depth];
      if (other == T(0)) other = x;
      odd += x != T(0) && x != other ? 1 : 0;
    }
    return 2 * odd > kFew;
  }
  // The first value of a row that is not zero, if fewer entries are something else than are not zero.
  T base_of(const T* a) const {
    Index set = 0, equal = 0;
    T other = 0;
    for (Index k = 0; k < n_.depth && other == T(0); ++k) other = a[k * at_.a_depth];
    for (Index k = 0; k < n_.depth; ++k) {
      const T x = a[k * at_.a_depth];
      set += x != T(0) ? 1 : 0;
      equal += x == other ? 1 : 0;
    }
    const bool usable = other >= -kLargest && other <= kLargest;
    return usable && n_.depth - equal < set ? other : T(0);
  }

  // What of a row of A is not f, behind entry `n`; where the list then ends.
  Index list_row(const T* a, T f, Index n) {
    for (Index k = 0; k < n_.depth; ++k) {
      const T x = a[k * at_.a_depth] - f;
      place_[n] = k * at_.b_depth;
      value_[n] = x;
      n += x != T(0) ? 1 : 0;
    }
    return n;
  }

  // c += f·sums
  void add_base(T f, const T* sums, T* c) const {
    const Vector factor = f - Vector{};
    Index j = 0;
    for (; j + kLanes <= columns_; j += kLanes)
      *reinterpret_cast<Vector*>(c + j) = fma(factor, load(sums + j), load(c + j));
    const auto left = static_cast<std::size_t>(columns_ - j) * sizeof(T);
    Vector x{}, s{};
    __builtin_memcpy(&x, sums + j, left);
    __builtin_memcpy(&s, c + j, left);
    s = fma(factor, x, s);
    __builtin_memcpy(c + j, &s, left);
  }

  // c (+)= Σ value·row over entries [first, last)
  void sum(Index first, Index last, const T* b, T* c, bool add) const {
    if (first == last) {
      if (!add) std::fill_n(c, columns_, T(0));
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
    for (; j + kLanes <= columns_; j += kLanes) {
      Vector s = add ? load(c + j) : Vector{};
      ETP_UNROLL for (int r = 0; r < R; ++r) s = fma(factor[r], load(row[r] + j), s);
      *reinterpret_cast<Vector*>(c + j) = s;
      if (j % kLine == 0) ETP_UNROLL for (int r = 0; r < 4; ++r) __builtin_prefetch(ahead[r] + j);
    }
    if (j == columns_) return;
    // The last columns as a vector that is not full.
    Vector s{};
    const auto left = static_cast<std::size_t>(columns_ - j) * sizeof(T);
    if (add) __builtin_memcpy(&s, c + j, left);
    for (int r = 0; r < R; ++r) {
      Vector x{};
      __builtin_memcpy(&x, row[r] + j, left);
      s = fma(factor[r], x, s);
    }
    __builtin_memcpy(c + j, &s, left);
  }
  static constexpr Index kLine = std::max<Index>(64 / static_cast<Index>(sizeof(T)), kLanes);

  const MatrixProduct::Sizes& n_;
  const MatrixProduct::Strides& at_;
  Index* place_;
  T* value_;
  Index columns_ = 0;
  Index ends_[kMostRows];  // of the lists
  T base_[kMostRows];      // f
};

template <class F>
auto with_type(Dtype dtype, const F& f) {
  return dtype == Dtype::F32 ? f(float{}) : f(double{});
}

}  // namespace

bool FewRows::fits(Dtype dtype, const MatrixProduct::Sizes& s, const MatrixProduct::Strides& at) {
  return (dtype == Dtype::F32 || dtype == Dtype::F64) && s.rows > 0 &&
         s.rows <= FewRowsPass<float>::kMostRows && s.depth >= 64 && s.columns >= 64 && at.b_column == 1;
}

FewRows::FewRows(Dtype dtype, MatrixProduct::Sizes sizes, MatrixProduct::Strides strides, bool accumulate)
    : dtype_(dtype), sizes_(sizes), strides_(strides), accumulate_(accumulate) {}

std::size_t FewRows::scratch_bytes() const {
  return with_type(dtype_, [&]<class T>(T) { return FewRowsPass<T>::scratch_bytes(sizes_); });
}

std::size_t FewRows::sums_bytes() const { return static_cast<std::size_t>(sizes_.columns) * size_of(dtype_); }

bool FewRows::sum_columns(const void* b, void* sums) const {
  return with_type(dtype_, [&]<class T>(T) {
    return FewRowsPass<T>(sizes_, strides_, nullptr)
        .sum_columns(static_cast<const T*>(b), sizes_.columns, static_cast<T*>(sums));
  });
}

bool FewRows::is_sparse(const void* a, void* scratch) const {
  return with_type(dtype_, [&]<class T>(T) {
    FewRowsPass<T> pass(sizes_, strides_, scratch);
    pass.find_bases(static_cast<const T*>(a));
    return pass.list(static_cast<const T*>(a));
  });
}

bool FewRows::operator()(const void* a, const void* b, const void* sums, void* c, void* scratch) const {
  return with_type(dtype_, [&]<class T>(T) {
    FewRowsPass<T> pass(sizes_, strides_, scratch);
    pass.find_bases(static_cast<const T*>(a));
    if (!pass.list(static_cast<const T*>(a))) return false;
    pass.multiply(static_cast<const T*>(b), static_cast<const T*>(sums), sizes_.columns, static_cast<T*>(c),
                  accumulate_);
    return true;
  });
}

bool FewRows::with_base(const void* a, const void* b, void* c, Index first, Index last, void* scratch,
                        const Dense& dense) const {
  return with_type(dtype_, [&]<class T>(T) {
    FewRowsPass<T> pass(sizes_, strides_, scratch);
    if (!pass.find_bases(static_cast<const T*>(a)) || !pass.list(static_cast<const T*>(a))) return false;
    for (Index n = first; n < last; n += kPanel) {
      const Index columns = std::min(kPanel, last - n);
      const T* panel = static_cast<const T*>(b) + n;
      T sums[kPanel];
      if (pass.sum_columns(panel, columns, sums))
        pass.multiply(panel, sums, columns, static_cast<T*>(c) + n, accumulate_);
      else
        dense(n, n + columns);
    }
    return true;
  });
}

}  // namespace etrace
