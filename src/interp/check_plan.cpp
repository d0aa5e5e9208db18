// The proof that a memory plan is right: the plan is followed with the numbers of values in place of data.
// It knows nothing of how the plan was made.
#include <algorithm>
#include <map>

#include "etrace/error.h"
#include "interp/memory_plan.h"

namespace etrace {

namespace {

constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

// Bytes [begin, end) of one block: an argument, a result (the same block as its argument where the two are
// aliased), the arena, a constant.
struct Range {
  int block;
  std::size_t begin, end;
  bool overlaps(const Range& o) const { return block == o.block && begin < o.end && o.begin < end; }
  friend bool operator==(const Range&, const Range&) = default;
};

class Memory {
 public:
  Memory(const Values& values, const std::vector<Alias>& aliases, bool together) : values_(values) {
    const int arguments = static_cast<int>(values.arguments.size());
    for (int a = 0; a < arguments; ++a) writable_.push_back(false);
    for (int r = 0; r < static_cast<int>(values.outs.size()); ++r) {
      result_block_.push_back(arguments + r);
      writable_.push_back(true);
    }
    arena_ = static_cast<int>(writable_.size());
    writable_.push_back(true);
    for (const Alias& a : aliases) {
      if (!together) continue;
      result_block_[a.result] = static_cast<int>(a.argument);
      writable_[a.argument] = true;
    }
    for (std::size_t a = 0; a < values.arguments.size(); ++a)
      set({static_cast<int>(a), 0, values.all[values.arguments[a]].bytes}, values.arguments[a]);
  }

  Range range(const Place& place, std::size_t bytes) const {
    if (place.kind == Place::Arena) return {arena_, place.index, place.index + bytes};
    if (place.kind == Place::Argument) return {static_cast<int>(place.index), 0, bytes};
    if (place.kind == Place::Result) return {result_block_[place.index], 0, bytes};
    return {-1, 0, 0};  // nobody writes there
  }

  bool holds(const Place& place, std::size_t value) const {
    const auto& [source, index, result, bytes] = values_.all[value];
    if (bytes == 0) return true;
    if (place.kind == Place::Constant) return source == Values::Source::Constant && index == place.index;
    if (place.kind == Place::Literal) return source == Values::Source::Literal && index == place.index;
    const Range r = range(place, bytes);
    const auto it = held_.find({r.block, r.begin});
    return it != held_.end() && it->second.first == r.end && it->second.second == value;
  }

  bool can_write(const Place& place) const {
    if (place.kind == Place::Constant || place.kind == Place::Literal) return false;
    return writable_[static_cast<std::size_t>(range(place, 0).block)];
  }

  // What lay there is lost.
  void set(const Range& r, std::size_t value) {
    if (r.begin == r.end) return;
    auto it = held_.lower_bound({r.block, r.begin});
    if (it != held_.begin() && range_of(std::prev(it)).overlaps(r)) --it;
    while (it != held_.end() && range_of(it).overlaps(r)) it = held_.erase(it);
    if (value != kNobody) held_[{r.block, r.begin}] = {r.end, value};
  }

 private:
  // Start of a range -> end and value; the ranges do not overlap.
  using Held = std::map<std::pair<int, std::size_t>, std::pair<std::size_t, std::size_t>>;
  static Range range_of(Held::const_iterator it) {
    return {it->first.first, it->first.second, it->second.first};
  }

  const Values& values_;
  std::vector<int> result_block_;
  std::vector<bool> writable_;
  int arena_ = 0;
  Held held_;
};

void follow_call(const MemoryPlan::Call& call, const Values& values, const Kernel& kernel,
                 std::size_t arena_bytes, Memory& memory) {
  const auto& operands = values.operands[call.eqn];
  const auto& results = values.results[call.eqn];
  ETRACE_CHECK(call.in.size() == operands.size() && call.out.size() == results.size());
  std::vector<Range> read, written;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    ETRACE_CHECK(memory.holds(call.in[i], operands[i]));
    read.push_back(memory.range(call.in[i], values.all[operands[i]].bytes));
  }
  const Range scratch = memory.range({Place::Arena, call.scratch}, kernel.scratch_bytes);
  ETRACE_CHECK(kernel.scratch_bytes == 0 || scratch.end <= arena_bytes);
  for (const Range& r : read) ETRACE_CHECK(!r.overlaps(scratch));
  for (std::size_t k = 0; k < results.size(); ++k) {
    ETRACE_CHECK(memory.can_write(call.out[k]));
    const Range w = memory.range(call.out[k], values.all[results[k]].bytes);
    ETRACE_CHECK(call.out[k].kind != Place::Arena || w.end <= arena_bytes);
    ETRACE_CHECK(!w.overlaps(scratch));
    for (const Range& other : written) ETRACE_CHECK(!w.overlaps(other));
    for (std::size_t i = 0; i < read.size(); ++i)
      ETRACE_CHECK(!w.overlaps(read[i]) || (w == read[i] && may_replace(kernel, operands, k, operands[i])));
    written.push_back(w);
  }
  memory.set(scratch, kNobody);
  for (std::size_t k = 0; k < results.size(); ++k) memory.set(written[k], results[k]);
}

void follow(const MemoryPlan& plan, const Values& values, const std::vector<Kernel>& kernels,
            const std::vector<Alias>& aliases, bool together) {
  Memory memory(values, aliases, together);
  const auto copy = [&](const MemoryPlan::Copy& c) {
    ETRACE_CHECK(memory.can_write(c.to));
    // Whatever value lies in the source now lies in both.
    for (std::size_t v = 0; v < values.size(); ++v)
      if (values.all[v].bytes == c.bytes && c.bytes != 0 && memory.holds(c.from, v)) {
        const Range to = memory.range(c.to, c.bytes), from = memory.range(c.from, c.bytes);
        ETRACE_CHECK(to == from || !to.overlaps(from));
        memory.set(to, v);
        return;
      }
    ETRACE_CHECK(c.bytes == 0);
  };
  for (const MemoryPlan::Copy& c : plan.before) copy(c);
  for (const MemoryPlan::Call& call : plan.calls)
    follow_call(call, values, kernels[call.eqn], plan.arena_bytes, memory);
  for (const MemoryPlan::Copy& c : plan.after) copy(c);
  for (std::size_t r = 0; r < values.outs.size(); ++r)
    ETRACE_CHECK(memory.holds({Place::Result, r}, values.outs[r]));
}

}  // namespace

void check_plan(const MemoryPlan& plan, const Values& values, const std::vector<Kernel>& kernels,
                const std::vector<Alias>& aliases) {
  std::size_t calls = 0;
  for (const Kernel& k : kernels) calls += k.view ? 0 : 1;
  ETRACE_CHECK(plan.calls.size() == calls);
  follow(plan, values, kernels, aliases, false);
  if (!aliases.empty()) follow(plan, values, kernels, aliases, true);
}

}  // namespace etrace
