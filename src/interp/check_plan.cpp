// The proof that a memory plan is right: the plan is followed with the numbers of values in place of data.
// It knows nothing of how the plan was made.
#include <algorithm>
#include <map>

#include "etrace/error.h"
#include "interp/memory_plan.h"
#include "interp/named_memory.h"

namespace etrace {

namespace {

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

  MemoryRange range(const Place& place, std::size_t bytes) const {
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
    return held_.at(range(place, bytes)) == value;
  }

  bool can_write(const Place& place) const {
    if (place.kind == Place::Constant || place.kind == Place::Literal) return false;
    return writable_[static_cast<std::size_t>(range(place, 0).block)];
  }

  void set(const MemoryRange& r, std::size_t value) { held_.set(r, value); }
  void forget(const MemoryRange& r) { held_.forget(r); }

 private:
  const Values& values_;
  std::vector<int> result_block_;
  std::vector<bool> writable_;
  int arena_ = 0;
  NamedMemory held_;
};

void follow_call(const MemoryPlan::Call& call, const Values& values, const Kernel& kernel,
                 std::size_t arena_bytes, Memory& memory) {
  const auto& operands = values.operands[call.eqn];
  const auto& results = values.results[call.eqn];
  ETRACE_CHECK(call.in.size() == operands.size() && call.out.size() == results.size());
  std::vector<MemoryRange> read, written;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    ETRACE_CHECK(memory.holds(call.in[i], operands[i]));
    read.push_back(memory.range(call.in[i], values.all[operands[i]].bytes));
  }
  const MemoryRange scratch = memory.range({Place::Arena, call.scratch}, kernel.scratch_bytes);
  ETRACE_CHECK(kernel.scratch_bytes == 0 || scratch.end <= arena_bytes);
  for (std::size_t k = 0; k < results.size(); ++k) {
    ETRACE_CHECK(memory.can_write(call.out[k]));
    written.push_back(memory.range(call.out[k], values.all[results[k]].bytes));
    ETRACE_CHECK(call.out[k].kind != Place::Arena || written[k].end <= arena_bytes);
  }
  check_overlaps(kernel.in_place, read, written, scratch);
  memory.forget(scratch);
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
        const MemoryRange to = memory.range(c.to, c.bytes), from = memory.range(c.from, c.bytes);
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

void check_overlaps(std::span<const InPlace> in_place, std::span<const MemoryRange> operands,
                    std::span<const MemoryRange> results, const MemoryRange& scratch) {
  for (const MemoryRange& r : operands) ETRACE_CHECK(!r.overlaps(scratch));
  for (std::size_t k = 0; k < results.size(); ++k) {
    const MemoryRange& w = results[k];
    ETRACE_CHECK(!w.overlaps(scratch));
    for (std::size_t other = 0; other < k; ++other) ETRACE_CHECK(!w.overlaps(results[other]));
    for (std::size_t i = 0; i < operands.size(); ++i)
      ETRACE_CHECK(!w.overlaps(operands[i]) ||
                   (w == operands[i] &&
                    std::any_of(in_place.begin(), in_place.end(),
                                [&](const InPlace& pair) { return pair.result == k && pair.operand == i; })));
  }
}

void check_plan(const MemoryPlan& plan, const Values& values, const std::vector<Kernel>& kernels,
                const std::vector<Alias>& aliases) {
  std::size_t calls = 0;
  for (const Kernel& k : kernels) calls += k.view ? 0 : 1;
  ETRACE_CHECK(plan.calls.size() == calls);
  follow(plan, values, kernels, aliases, false);
  if (!aliases.empty()) follow(plan, values, kernels, aliases, true);
}

}  // namespace etrace
