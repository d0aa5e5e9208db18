// Memory in which names lie in place of numbers: a plan is followed in it step by step, by whoever made the
// plan, and every read must find what it wants. check_plan.cpp follows the interpreter's plans, and
// emit/follow.cpp emitted programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "etrace/primitive.h"

namespace etrace {

// Bytes [begin, end) of one block: an argument, a result, the arena.
struct MemoryRange {
  int block;
  std::size_t begin, end;
  bool overlaps(const MemoryRange& o) const { return block == o.block && begin < o.end && o.begin < end; }
  friend bool operator==(const MemoryRange&, const MemoryRange&) = default;
};

class NamedMemory {
 public:
  using Name = std::uint64_t;

  // The name of what lies there, in one piece; none if that was overwritten, or never written.
  std::optional<Name> at(const MemoryRange& r) const {
    const auto it = held_.find({r.block, r.begin});
    if (it == held_.end() || it->second.first != r.end) return std::nullopt;
    return it->second.second;
  }
  // What lay there is lost.
  void forget(const MemoryRange& r) {
    if (r.begin == r.end) return;
    auto it = held_.lower_bound({r.block, r.begin});
    if (it != held_.begin() && range_of(std::prev(it)).overlaps(r)) --it;
    while (it != held_.end() && range_of(it).overlaps(r)) it = held_.erase(it);
  }
  void set(const MemoryRange& r, Name name) {
    forget(r);
    if (r.begin != r.end) held_[{r.block, r.begin}] = {r.end, name};
  }

 private:
  // Start of a range -> end and name; the ranges do not overlap.
  using Held = std::map<std::pair<int, std::size_t>, std::pair<std::size_t, Name>>;
  static MemoryRange range_of(Held::const_iterator it) {
    return {it->first.first, it->first.second, it->second.first};
  }
  Held held_;
};

// InternalError if a kernel would overwrite what it or another result still needs: results lie apart from
// each other and from the scratch memory, and in place of an operand only where the kernel allows it.
void check_overlaps(std::span<const InPlace>, std::span<const MemoryRange> operands,
                    std::span<const MemoryRange> results, const MemoryRange& scratch);

}  // namespace etrace
