// Fixed sparse patterns (CSR, CSC, COO): validation, and the form they have in files.
#include <algorithm>
#include <limits>

#include "etrace/error.h"
#include "etrace/etp.h"

namespace etrace {

namespace {

[[noreturn]] void refuse(const std::string& message) { throw ValueError("sparse_pattern", message); }

// One line (row or column) number per entry, from the offsets at which the lines begin.
Dims expand(const Dims& indptr, std::int64_t lines, std::size_t entries, const char* line) {
  if (indptr.size() != static_cast<std::size_t>(lines) + 1)
    refuse("indptr has " + std::to_string(indptr.size()) + " entries, expected one per " + line +
           " and one more: " + std::to_string(lines + 1));
  if (indptr.front() != 0) refuse("indptr begins with " + std::to_string(indptr.front()) + ", expected 0");
  if (indptr.back() != static_cast<std::int64_t>(entries))
    refuse("indptr ends with " + std::to_string(indptr.back()) + ", expected the number of indices, " +
           std::to_string(entries));
  Dims out;
  for (std::size_t i = 0; i + 1 < indptr.size(); ++i) {
    if (indptr[i + 1] < indptr[i])
      refuse("indptr falls from " + std::to_string(indptr[i]) + " to " + std::to_string(indptr[i + 1]) +
             " at " + line + " " + std::to_string(i));
    // A number beyond the entries falls again later; until then it must not cost memory.
    out.resize(std::min(static_cast<std::size_t>(indptr[i + 1]), entries), static_cast<std::int64_t>(i));
  }
  return out;
}

void check_indices(const Dims& indices, std::int64_t limit, const char* what) {
  for (std::size_t p = 0; p < indices.size(); ++p)
    if (indices[p] < 0 || indices[p] >= limit)
      refuse("entry " + std::to_string(p) + " has " + what + " " + std::to_string(indices[p]) +
             ", expected 0 … " + std::to_string(limit - 1));
}

void check_size(std::int64_t n, const char* what) {
  if (n < 0 || n > std::numeric_limits<std::int32_t>::max())
    refuse(std::string(what) + " " + std::to_string(n) + " is out of range; expected 0 … 2^31-1");
}

}  // namespace

SparsePattern SparsePattern::csr(std::int64_t rows, std::int64_t cols, Dims indptr, Dims indices) {
  SparsePattern s;
  s.kind_ = "csr";
  s.rows_ = rows, s.cols_ = cols;
  check_size(rows, "the number of rows");
  s.row_ = expand(indptr, rows, indices.size(), "row");
  s.col_ = indices;
  s.indptr_ = std::move(indptr), s.indices_ = std::move(indices);
  s.validate();
  return s;
}

SparsePattern SparsePattern::csc(std::int64_t rows, std::int64_t cols, Dims indptr, Dims indices) {
  SparsePattern s;
  s.kind_ = "csc";
  s.rows_ = rows, s.cols_ = cols;
  check_size(cols, "the number of columns");
  s.col_ = expand(indptr, cols, indices.size(), "column");
  s.row_ = indices;
  s.indptr_ = std::move(indptr), s.indices_ = std::move(indices);
  s.validate();
  return s;
}

SparsePattern SparsePattern::coo(std::int64_t rows, std::int64_t cols, Dims row, Dims col) {
  SparsePattern s;
  s.kind_ = "coo";
  s.rows_ = rows, s.cols_ = cols;
  s.row_ = std::move(row), s.col_ = std::move(col);
  s.validate();
  return s;
}

// Indices are 32-bit in programs.
void SparsePattern::validate() const {
  check_size(rows_, "the number of rows");
  check_size(cols_, "the number of columns");
  check_size(nnz(), "the number of entries");
  if (row_.size() != col_.size())
    refuse(std::to_string(row_.size()) + " row and " + std::to_string(col_.size()) +
           " column indices were given; every entry has one of each");
  check_indices(row_, rows_, "row");
  check_indices(col_, cols_, "column");
}

SparsePattern SparsePattern::from_attr(const Attr& attr) {
  const Attr::Dict* dict = attr.dict_items();
  if (dict == nullptr)
    throw CompilationError(
        "sparse_pattern",
        "sparse_mat must be a record with kind, shape and indptr, indices (csr, csc) or row, col (coo)");
  const Params p(*dict);
  const std::string kind = p.text("kind");
  const Dims shape = p.dims("shape");
  if (shape.size() != 2)
    throw CompilationError("sparse_pattern", "the shape of a sparse matrix has " +
                                                 std::to_string(shape.size()) +
                                                 " entries, expected [rows, columns]");
  try {
    if (kind == "csr") return csr(shape[0], shape[1], p.dims("indptr"), p.dims("indices"));
    if (kind == "csc") return csc(shape[0], shape[1], p.dims("indptr"), p.dims("indices"));
    if (kind == "coo") return coo(shape[0], shape[1], p.dims("row"), p.dims("col"));
  } catch (const ValueError& e) {  // in a program it is the file that is wrong
    throw CompilationError(e.stage(), e.message());
  }
  throw CompilationError("sparse_pattern", "unknown kind \"" + kind + "\", expected csr, csc or coo");
}

Attr SparsePattern::to_attr() const {
  Attr::Dict dict{{"kind", kind_}, {"shape", Dims{rows_, cols_}}};
  if (kind_ == "coo") {
    dict.emplace_back("row", row_);
    dict.emplace_back("col", col_);
  } else {
    dict.emplace_back("indptr", indptr_);
    dict.emplace_back("indices", indices_);
  }
  return Attr::dict(std::move(dict));
}

}  // namespace etrace
