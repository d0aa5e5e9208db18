#include "ops/sparse_lines.h"

#include <algorithm>
#include <mutex>
#include <string>

#include "etrace/error.h"

namespace etrace {

namespace {

std::shared_ptr<const Table> table_of(const Dims& values) {
  if (values.empty()) return nullptr;
  auto out = std::make_shared<Table>();
  out->reserve(values.size());
  for (const std::int64_t v : values) {
    if (v != static_cast<std::int32_t>(v))
      throw ValueError("sparse_pattern", "the index " + std::to_string(v) + " does not fit in 32 bits");
    out->push_back(static_cast<std::int32_t>(v));
  }
  return out;
}

}  // namespace

SharedList::SharedList(const Dims& values) : list_(table_of(values)) {}
SharedList::SharedList(Table values)
    : list_(values.empty() ? nullptr : std::make_shared<const Table>(std::move(values))) {}
SharedList::SharedList(const Attr& list) {
  if (const Dims* values = list.ints()) list_ = table_of(*values);
  if (const auto* table = list.table()) list_ = *table;
}

const Table& SharedList::values() const {
  static const Table none;
  return list_ == nullptr ? none : *list_;
}

Tensors tables_of(const std::shared_ptr<const SparseLines>& lines) {
  const auto table = [&](std::span<const std::int32_t> list) {
    return Tensor::part_of({Dtype::I32, {static_cast<std::int64_t>(list.size())}}, list.data(), lines);
  };
  Tensors out{table(lines->first), table(lines->other)};
  if (!lines->in_order()) out.push_back(table(lines->entry));
  return out;
}

SparseLines sort_lines(const SharedList& line, const SharedList& other, std::int64_t lines) {
  SparseLines out;
  const Table &line_of = line.values(), &other_of = other.values();
  out.first.assign(static_cast<std::size_t>(lines) + 1, 0);
  for (const std::int32_t l : line_of) ++out.first[static_cast<std::size_t>(l) + 1];
  for (std::size_t l = 1; l < out.first.size(); ++l) out.first[l] += out.first[l - 1];
  if (std::is_sorted(line_of.begin(), line_of.end())) {
    out.held = other;
  } else {
    Table sorted(other_of.size());
    out.entry.resize(other_of.size());
    std::vector<std::int32_t> next(out.first.begin(), out.first.end() - 1);
    for (std::size_t p = 0; p < line_of.size(); ++p) {
      const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(line_of[p])]++);
      sorted[at] = other_of[p];
      out.entry[at] = static_cast<std::int32_t>(p);
    }
    out.held = SharedList(std::move(sorted));
  }
  out.other = out.held.values();
  return out;
}

namespace {

// Lines with the lists that they were made from: while they live, no other list has those addresses.
struct KnownLines {
  SharedList line, other;
  SparseLines lines;
};

}  // namespace

std::shared_ptr<const SparseLines> sparse_lines(const SharedList& line, const SharedList& other,
                                                std::int64_t lines) {
  static std::mutex mutex;
  static std::vector<std::weak_ptr<const KnownLines>> all;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const KnownLines> found;
  std::erase_if(all, [&](const std::weak_ptr<const KnownLines>& w) {
    const std::shared_ptr<const KnownLines> known = w.lock();
    if (known != nullptr && &known->line.values() == &line.values() &&
        &known->other.values() == &other.values() && known->lines.lines() == lines)
      found = known;
    return known == nullptr;
  });
  if (found == nullptr) {
    found = std::make_shared<const KnownLines>(KnownLines{line, other, sort_lines(line, other, lines)});
    all.push_back(found);
  }
  return {found, &found->lines};
}

}  // namespace etrace
