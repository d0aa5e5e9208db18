// Fixed sparse patterns (CSR, CSC, COO): validation, and the form they have in files.
#include <algorithm>
#include <limits>
#include <mutex>

#include "etrace/error.h"
#include "etrace/etp.h"

namespace etrace {

namespace {

[[noreturn]] void refuse(const std::string& message) { throw ValueError("sparse_pattern", message); }

// One line (row or column) number per entry, from the offsets at which the lines begin.
Table expand(const Table& indptr, std::int64_t lines, std::size_t entries, const char* line) {
  if (indptr.size() != static_cast<std::size_t>(lines) + 1)
    refuse("indptr has " + std::to_string(indptr.size()) + " entries, expected one per " + line +
           " and one more: " + std::to_string(lines + 1));
  if (indptr.front() != 0) refuse("indptr begins with " + std::to_string(indptr.front()) + ", expected 0");
  if (indptr.back() != static_cast<std::int64_t>(entries))
    refuse("indptr ends with " + std::to_string(indptr.back()) + ", expected the number of indices, " +
           std::to_string(entries));
  Table out;
  for (std::size_t i = 0; i + 1 < indptr.size(); ++i) {
    if (indptr[i + 1] < indptr[i])
      refuse("indptr falls from " + std::to_string(indptr[i]) + " to " + std::to_string(indptr[i + 1]) +
             " at " + line + " " + std::to_string(i));
    // A number beyond the entries falls again later; until then it must not cost memory.
    out.resize(std::min(static_cast<std::size_t>(indptr[i + 1]), entries), static_cast<std::int32_t>(i));
  }
  return out;
}

void check_indices(const Table& indices, std::int64_t limit, const char* what) {
  for (std::size_t p = 0; p < indices.size(); ++p)
    if (indices[p] < 0 || indices[p] >= limit)
      refuse("entry " + std::to_string(p) + " has " + what + " " + std::to_string(indices[p]) +
             ", expected 0 … " + std::to_string(limit - 1));
}

void check_size(std::int64_t n, const char* what) {
  if (n < 0 || n > std::numeric_limits<std::int32_t>::max())
    refuse(std::string(what) + " " + std::to_string(n) + " is out of range; expected 0 … 2^31-1");
}

// The list with 32 bits a number. The given one is freed at once: others may follow.
SharedList narrowed(Dims& indices) {
  SharedList out(indices);
  Dims().swap(indices);
  return out;
}

}  // namespace

// All patterns that are in use, by the address of their record. The rules of an operator ask for a pattern
// again and again: it is checked and spelled out once.
struct SparsePattern::Known {
  std::shared_ptr<const Data> find(const Attr& attr) {
    const std::lock_guard lock(mutex);
    std::shared_ptr<const Data> found;
    std::erase_if(all, [&](const std::weak_ptr<const Data>& w) {
      const std::shared_ptr<const Data> data = w.lock();
      if (data != nullptr && data->attr.dict_items() == attr.dict_items()) found = data;
      return data == nullptr;
    });
    return found;
  }
  void add(const std::shared_ptr<const Data>& data) {
    const std::lock_guard lock(mutex);
    all.push_back(data);
  }

  static Known& of_process() {
    static Known known;
    return known;
  }

 private:
  std::mutex mutex;
  std::vector<std::weak_ptr<const Data>> all;
};

// The lists have 32 bits a number and exist once, however many programs name them.
SparsePattern::SparsePattern(Data data) {
  const SparseEntries& e = data.entries;
  check_size(e.rows, "the number of rows");
  check_size(e.cols, "the number of columns");
  check_size(static_cast<std::int64_t>(e.row.size()), "the number of entries");
  if (e.row.size() != e.col.size())
    refuse(std::to_string(e.row.size()) + " row and " + std::to_string(e.col.size()) +
           " column indices were given; every entry has one of each");
  check_indices(e.row.values(), e.rows, "row");
  check_indices(e.col.values(), e.cols, "column");
  data_ = std::make_shared<const Data>(std::move(data));
  Known::of_process().add(data_);
}

SparsePattern SparsePattern::compressed(const char* kind, std::int64_t rows, std::int64_t cols,
                                        const SharedList& indptr, const SharedList& indices, Attr attr) {
  const bool by_row = std::string_view(kind) == "csr";
  check_size(by_row ? rows : cols, by_row ? "the number of rows" : "the number of columns");
  const SharedList lines =
      SharedList(expand(indptr.values(), by_row ? rows : cols, indices.size(), by_row ? "row" : "column"));
  if (attr.is_null())
    attr = Attr::dict({{"kind", kind},
                       {"shape", Dims{rows, cols}},
                       {"indptr", indptr.attr()},
                       {"indices", indices.attr()}});
  return SparsePattern(Data{std::move(attr), by_row ? SparseEntries{lines, indices, rows, cols}
                                                    : SparseEntries{indices, lines, rows, cols}});
}

SparsePattern SparsePattern::listed(std::int64_t rows, std::int64_t cols, const SharedList& row,
                                    const SharedList& col, Attr attr) {
  if (attr.is_null())
    attr =
        Attr::dict({{"kind", "coo"}, {"shape", Dims{rows, cols}}, {"row", row.attr()}, {"col", col.attr()}});
  return SparsePattern(Data{std::move(attr), {row, col, rows, cols}});
}

SparsePattern SparsePattern::csr(std::int64_t rows, std::int64_t cols, Dims indptr, Dims indices) {
  const SharedList starts = narrowed(indptr), others = narrowed(indices);
  return compressed("csr", rows, cols, starts, others, {});
}
SparsePattern SparsePattern::csc(std::int64_t rows, std::int64_t cols, Dims indptr, Dims indices) {
  const SharedList starts = narrowed(indptr), others = narrowed(indices);
  return compressed("csc", rows, cols, starts, others, {});
}
SparsePattern SparsePattern::coo(std::int64_t rows, std::int64_t cols, Dims row, Dims col) {
  const SharedList from = narrowed(row), to = narrowed(col);
  return listed(rows, cols, from, to, {});
}

SparsePattern SparsePattern::read(const Attr& attr) {
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
  const auto list = [&](const char* key) {
    const Attr* a = p.find(key);
    return a != nullptr && a->table() != nullptr ? SharedList(*a) : SharedList(p.dims(key));
  };
  try {
    if (kind == "coo") return listed(shape[0], shape[1], list("row"), list("col"), attr);
    if (kind == "csr" || kind == "csc")
      return compressed(kind.c_str(), shape[0], shape[1], list("indptr"), list("indices"), attr);
  } catch (const ValueError& e) {  // in a program it is the file that is wrong
    throw CompilationError(e.stage(), e.message());
  }
  throw CompilationError("sparse_pattern", "unknown kind \"" + kind + "\", expected csr, csc or coo");
}

SparsePattern SparsePattern::from_attr(const Attr& attr) {
  if (attr.dict_items() != nullptr)
    if (std::shared_ptr<const Data> found = Known::of_process().find(attr))
      return SparsePattern(std::move(found));
  return read(attr);
}

}  // namespace etrace
