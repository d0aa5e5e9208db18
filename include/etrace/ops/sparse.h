// Products with a matrix of fixed sparse pattern: entry p of the matrix S(w) stands at (row[p], col[p]) and
// has the value w[p]; entries at one place add up.
#pragma once

#include "etrace/array.h"
#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

// Integers of 32 bits that all who copy the list share: tables of a million entries stand in many equations.
class SharedList {
 public:
  SharedList() = default;
  SharedList(const Dims& values);  // NOLINT: a list is a list. ValueError for a number beyond 32 bits
  explicit SharedList(Table values);
  explicit SharedList(const Attr& list);  // a list of integers, or null; as above

  const Table& values() const;
  bool empty() const { return list_ == nullptr; }
  std::size_t size() const { return values().size(); }
  std::int64_t operator[](std::size_t i) const { return values()[i]; }
  Table::const_iterator begin() const { return values().begin(); }
  Table::const_iterator end() const { return values().end(); }
  Attr attr() const { return Attr(list_); }  // as a parameter of an equation
  friend bool operator==(const SharedList& a, const SharedList& b) { return a.values() == b.values(); }

 private:
  std::shared_ptr<const Table> list_;  // null: empty
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
