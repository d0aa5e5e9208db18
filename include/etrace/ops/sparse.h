// Products with a matrix of fixed sparse pattern: entry p of the matrix S(w) stands at (row[p], col[p]) and
// has the value w[p]; entries at one place add up.
#pragma once

#include "etrace/array.h"
#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

// Integers that all who copy the list share: tables of a million entries stand in many equations.
class SharedList {
 public:
  SharedList() = default;
  SharedList(Dims values) {
    if (!values.empty()) list_ = Attr(std::move(values));
  }
  explicit SharedList(const Attr& list) : list_(list) {}  // a list of integers, or null

  const Dims& values() const;
  bool empty() const { return values().empty(); }
  std::size_t size() const { return values().size(); }
  std::int64_t operator[](std::size_t i) const { return values()[i]; }
  Dims::const_iterator begin() const { return values().begin(); }
  Dims::const_iterator end() const { return values().end(); }
  Attr attr() const;  // as a parameter of an equation
  friend bool operator==(const SharedList& a, const SharedList& b) { return a.values() == b.values(); }

 private:
  Attr list_;
};

// params: row, col (lists of one length), shape [I, O]
extern const Primitive sparse_product_p;   // x [B,I], w [nnz] -> y [B,O]
extern const Primitive sparse_gradient_p;  // x [B,I], y [B,O] -> [nnz]

struct SparseEntries {
  SharedList row, col;
  std::int64_t rows = 0, cols = 0;
};
// y[b,o] = Σ_p x[b,row(p)]·w[p] over the entries with col(p) = o
Array sparse_product(const Array& x, const Array& w, const SparseEntries&);
// g[p] = Σ_b x[b,row(p)]·y[b,col(p)]
Array sparse_gradient(const Array& x, const Array& y, const SparseEntries&);

}  // namespace etrace
#pragma GCC visibility pop
