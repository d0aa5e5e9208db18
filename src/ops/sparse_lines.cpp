#include "ops/sparse_lines.h"

#include <algorithm>
#include <mutex>

namespace etrace {

const Dims& SharedList::values() const {
  static const Dims none;
  return list_.ints() == nullptr ? none : *list_.ints();
}

Attr SharedList::attr() const { return list_.is_null() ? Attr(Dims{}) : list_; }

std::int64_t SparseLines::part_begin(std::int64_t part, std::int64_t parts) const {
  const std::int64_t wanted = size() * part / parts;
  if (part == parts) return lines();
  return std::lower_bound(first.begin(), first.end() - 1, wanted) - first.begin();
}

SparseLines sort_lines(const Dims& line, const Dims& other, std::int64_t lines) {
  SparseLines out;
  out.first.assign(static_cast<std::size_t>(lines) + 1, 0);
  for (const std::int64_t l : line) ++out.first[static_cast<std::size_t>(l) + 1];
  for (std::size_t l = 1; l < out.first.size(); ++l) out.first[l] += out.first[l - 1];
  out.other.resize(other.size());
  if (std::is_sorted(line.begin(), line.end())) {
    std::transform(other.begin(), other.end(), out.other.begin(),
                   [](std::int64_t v) { return static_cast<std::int32_t>(v); });
    return out;
  }
  out.entry.resize(other.size());
  std::vector<std::int32_t> next(out.first.begin(), out.first.end() - 1);
  for (std::size_t p = 0; p < line.size(); ++p) {
    const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(line[p])]++);
    out.other[at] = static_cast<std::int32_t>(other[p]);
    out.entry[at] = static_cast<std::int32_t>(p);
  }
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
    found = std::make_shared<const KnownLines>(
        KnownLines{line, other, sort_lines(line.values(), other.values(), lines)});
    all.push_back(found);
  }
  return {found, &found->lines};
}

}  // namespace etrace
