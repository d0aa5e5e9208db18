// Where intermediate values live: one aligned block, planned before anything runs.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "base/memory.h"
#include "etrace/ir.h"

#pragma GCC visibility push(default)
namespace etrace {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  AlignedBuffer(std::size_t bytes, std::byte* block) : size_(bytes), data_(block) {}
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { free_block(p); }
  };
  std::size_t size_ = 0;
  std::unique_ptr<std::byte[], Free> data_;
};

// The intermediate values of a program. ValueError names the largest of them, its equation and the module if
// the machine has not so much memory.
AlignedBuffer arena_for(const Jaxpr&, std::size_t bytes);

// Hands out offsets; freed ranges are reused, the smallest that fits first. Deterministic.
class ArenaPlanner {
 public:
  explicit ArenaPlanner(std::size_t alignment = kBlockAlignment) : alignment_(alignment) {}
  std::size_t take(std::size_t bytes) {
    const std::size_t need = rounded(bytes);
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if (it->second >= need && (best == free_.end() || it->second < best->second)) best = it;
    if (best == free_.end()) return grow(need);
    const auto [offset, size] = *best;
    free_.erase(best);
    if (size > need) free_.emplace(offset + need, size - need);
    return offset;
  }

  void give(std::size_t offset, std::size_t bytes) {
    auto it = free_.emplace(offset, rounded(bytes)).first;
    if (auto next = std::next(it); next != free_.end() && it->first + it->second == next->first) {
      it->second += next->second;
      free_.erase(next);
    }
    if (it == free_.begin()) return;
    if (auto before = std::prev(it); before->first + before->second == it->first) {
      before->second += it->second;
      free_.erase(it);
    }
  }

  std::size_t high_water() const { return end_; }

 private:
  std::size_t rounded(std::size_t bytes) const {
    return bytes == 0 ? alignment_ : (bytes + alignment_ - 1) / alignment_ * alignment_;
  }
  std::size_t grow(std::size_t need) {
    const std::size_t offset = end_;
    end_ = alignment_ == kBlockAlignment ? with_block(end_, need) : end_ + need;
    if (end_ == kUncountable) out_of_memory("the memory of a program", end_);
    return offset;
  }
  std::map<std::size_t, std::size_t> free_;  // offset -> size, never adjacent
  std::size_t end_ = 0;
  std::size_t alignment_;
};

}  // namespace etrace
#pragma GCC visibility pop
