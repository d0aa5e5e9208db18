// Runs the blocked product of the runtime, in parts on several threads where that pays; integers by a plain
// loop.
#include "kernels/matrix_product.h"

#include <algorithm>
#include <atomic>

#include "etrace/error.h"
#include "kernels/context.h"
#include "kernels/event_product.h"
#include "kernels/few_rows.h"
#include "runtime/etp_gemm.h"

namespace etrace {

namespace {

// Multiplications that outweigh the hand-over to another thread: some microseconds of a product of one row,
// which waits for its matrix, as of one that does not.
constexpr double kPartWork = 1.2e5;
constexpr std::int64_t kRowUnit = 6, kColumnUnit = 64;  // whole tiles of the product beneath
// Multiplications in whose time an element of A or B is laid out, or looked at: each part does so with its
// rows of A and its columns of B.
constexpr double kLayOut = 16;

// One of the dimensions of C, in stretches for parts.
struct Cut {
  std::int64_t size, length, count;
  Cut(std::int64_t size, std::int64_t wanted, std::int64_t unit) : size(size), length(size), count(1) {
    if (wanted <= 1) return;
    length = ((size + wanted - 1) / wanted + unit - 1) / unit * unit;
    count = (size + length - 1) / length;
  }
  std::int64_t begin(std::int64_t i) const { return i * length; }
  std::int64_t end(std::int64_t i) const { return std::min(size, (i + 1) * length); }
  std::int64_t longest() const { return std::min(size, length); }
};

// Parts of C for threads, the last one in a row or column perhaps smaller.
struct Grid {
  Cut rows, columns;
  std::int64_t parts() const { return rows.count * columns.count; }
  double cost() const {
    const auto m = static_cast<double>(rows.longest()), n = static_cast<double>(columns.longest());
    return m * n + kLayOut * (m + n);
  }
  static Grid of(const etp_matrix_product& p, std::int64_t wanted) {
    Grid best{{p.rows, 1, kRowUnit}, {p.columns, 1, kColumnUnit}};
    for (std::int64_t d = 1; d < 2 * wanted; d *= 2) {
      const std::int64_t down = std::min(d, wanted);
      const Grid grid{{p.rows, down, kRowUnit}, {p.columns, wanted / down, kColumnUnit}};
      if (grid.cost() < best.cost()) best = grid;
    }
    return best;
  }
};

template <class T>
void plain_product(const etp_matrix_product& p, const T* a, const T* b, T* c) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    T* __restrict row = c + i * p.c_row;
    if (p.onto == 0) std::fill_n(row, p.columns, T(0));
    for (std::int64_t k = 0; k < p.depth; ++k) {
      const T factor = a[i * p.a_row + k * p.a_depth];
      const T* __restrict other = b + k * p.b_depth;
      if (p.b_column == 1)
        for (std::int64_t j = 0; j < p.columns; ++j) row[j] += factor * other[j];
      else
        for (std::int64_t j = 0; j < p.columns; ++j) row[j] += factor * other[j * p.b_column];
    }
  }
}

template <class T>
const T* as(const void* p) {
  return static_cast<const T*>(p);
}

// A product, and how it is dealt out.
class MatrixProduct {
 public:
  MatrixProduct(const etp_matrix_product&, std::int64_t threads);
  std::size_t scratch_bytes() const { return part_scratch_ * static_cast<std::size_t>(grid_.parts()); }
  void run(const etp_context&, const void* a, const void* b, void* c, void* scratch) const;

 private:
  void run_part(std::int64_t part, const void* a, const void* b, void* c, void* scratch) const;
  static std::int64_t parts_that_pay(const etp_matrix_product&, std::int64_t threads);
  template <class T, class Gemm>
  void multiply(std::int64_t m0, std::int64_t m1, std::int64_t n0, std::int64_t n1, const T* a, const T* b,
                T* c, void* scratch, Gemm gemm) const;

  const etp_matrix_product& p_;
  Grid grid_;
  std::size_t part_scratch_ = 0, dense_scratch_ = 0;
  bool events_ = false;  // A is looked at, at every call
};

bool is_floating(const etp_matrix_product& p) { return p.dtype == ETP_F32 || p.dtype == ETP_F64; }

std::int64_t MatrixProduct::parts_that_pay(const etp_matrix_product& p, std::int64_t threads) {
  const double work =
      static_cast<double>(p.rows) * static_cast<double>(p.columns) * static_cast<double>(p.depth);
  if (!is_floating(p) || work < 2 * kPartWork) return 1;
  return static_cast<std::int64_t>(std::min(static_cast<double>(threads), work / kPartWork));
}

MatrixProduct::MatrixProduct(const etp_matrix_product& p, std::int64_t threads)
    : p_(p), grid_(Grid::of(p, parts_that_pay(p, threads))) {
  if (!is_floating(p)) return;
  const bool single = p.dtype == ETP_F32;
  const std::int64_t m = grid_.rows.longest(), n = grid_.columns.longest();
  const int flags = (p.a_depth != 1 ? ETP_GEMM_TA : 0) | (p.b_column != 1 ? ETP_GEMM_TB : 0);
  part_scratch_ =
      single ? etp_gemm_scratch_f32(m, n, p.depth, flags) : etp_gemm_scratch_f64(m, n, p.depth, flags);
  dense_scratch_ = part_scratch_ = (part_scratch_ + 63) / 64 * 64;
  // Of all rows and columns: what is decided must not depend on the parts.
  events_ = single ? EventProduct<float>::fits(p.rows, p.columns, p.depth, p.b_column)
                   : EventProduct<double>::fits(p.rows, p.columns, p.depth, p.b_column);
  if (events_)
    part_scratch_ += single ? EventProduct<float>::scratch_bytes() : EventProduct<double>::scratch_bytes();
}

void MatrixProduct::run(const etp_context& context, const void* a, const void* b, void* c,
                        void* scratch) const {
  in_parts(context, grid_.parts(), [&](int part) {
    run_part(part, a, b, c,
             static_cast<std::byte*>(scratch) + static_cast<std::size_t>(part) * part_scratch_);
  });
}

// The part [m0, m1) × [n0, n1) of C.
template <class T, class Gemm>
void MatrixProduct::multiply(std::int64_t m0, std::int64_t m1, std::int64_t n0, std::int64_t n1, const T* a,
                             const T* b, T* c, void* scratch, Gemm gemm) const {
  const etp_matrix_product& p = p_;
  const auto dense = [&](std::int64_t m, std::int64_t n, std::int64_t k, const T* from_a, const T* from_b,
                         T* to, bool accumulate) {
    gemm(m, n, k, from_a, p.a_row, p.a_depth, from_b, p.b_depth, p.b_column, to, p.c_row, accumulate ? 1 : 0,
         scratch);
  };
  b += n0 * p.b_column, c += n0;
  if (events_)
    EventProduct<T>::multiply({.rows = p.rows,
                               .columns = n1 - n0,
                               .depth = p.depth,
                               .a = {a, p.a_row, p.a_depth},
                               .b = b,
                               .b_row = p.b_depth,
                               .c = c,
                               .c_row = p.c_row,
                               .first = m0,
                               .last = m1,
                               .accumulate = p.onto != 0},
                              static_cast<std::byte*>(scratch) + dense_scratch_, dense);
  else
    dense(m1 - m0, n1 - n0, p.depth, a + m0 * p.a_row, b, c + m0 * p.c_row, p.onto != 0);
}

void MatrixProduct::run_part(std::int64_t part, const void* a, const void* b, void* c, void* scratch) const {
  const std::int64_t down = part / grid_.columns.count, across = part % grid_.columns.count;
  const std::int64_t m0 = grid_.rows.begin(down), m1 = grid_.rows.end(down);
  const std::int64_t n0 = grid_.columns.begin(across), n1 = grid_.columns.end(across);
  switch (p_.dtype) {
    case ETP_F32:
      return multiply(m0, m1, n0, n1, as<float>(a), as<float>(b), static_cast<float*>(c), scratch,
                      etp_gemm_f32);
    case ETP_F64:
      return multiply(m0, m1, n0, n1, as<double>(a), as<double>(b), static_cast<double*>(c), scratch,
                      etp_gemm_f64);
    case ETP_I64:
      return plain_product(p_, as<std::uint64_t>(a), as<std::uint64_t>(b), static_cast<std::uint64_t*>(c));
    default:
      ETRACE_CHECK(p_.dtype == ETP_I32 || p_.dtype == ETP_U32);
      return plain_product(p_, as<std::uint32_t>(a), as<std::uint32_t>(b), static_cast<std::uint32_t*>(c));
  }
}

// What is known of B. A first call learns nothing: there may be no second.
enum Known : std::uint8_t { kNothing, kCalled, kFinite, kInfinite };

// True if A has few entries, and the product was made of them. Threads that have rows of A each may learn the
// same at the same time.
bool multiply_spikes(const FewRows& product, std::uint8_t& shared, const void* a, const void* b, void* c,
                     void* scratch) {
  const std::atomic_ref<std::uint8_t> at(shared);
  std::uint8_t known = at.load(std::memory_order_relaxed);
  const auto learn = [&](Known what) { at.store(known = what, std::memory_order_relaxed); };
  if (known == kNothing) {
    learn(kCalled);
    return false;
  }
  if (known == kCalled && product.is_sparse(a, scratch)) learn(product.is_finite(b) ? kFinite : kInfinite);
  return known == kFinite && product(a, b, c, scratch);
}

}  // namespace

void run_matrix_product(const void* descriptor, const etp_context* context, const void* const* in,
                        void* const* out, void* scratch) {
  const auto& p = *static_cast<const etp_matrix_product*>(descriptor);
  if (p.known > 0 && FewRows::fits(p) &&
      multiply_spikes(FewRows(p), context->known[p.known - 1], in[0], in[1], out[0], scratch))
    return;
  MatrixProduct(p, context->threads).run(*context, in[0], in[1], out[0], scratch);
}

std::size_t matrix_product_scratch(const void* descriptor, std::int64_t threads) {
  const auto& p = *static_cast<const etp_matrix_product*>(descriptor);
  const std::size_t dense = MatrixProduct(p, threads).scratch_bytes();
  return p.known > 0 && FewRows::fits(p) ? std::max(dense, FewRows(p).scratch_bytes()) : dense;
}

}  // namespace etrace
