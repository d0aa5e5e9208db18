#include "emit/cuda_join.h"

#include <fmt/format.h>

#include <algorithm>

namespace etrace::emit {

namespace {

constexpr std::int64_t kSmall = 1 << 17;  // threads: more of them take longer than a launch
constexpr std::size_t kMostPointers = 96, kMostParts = 12;

bool overlap(const std::vector<CudaRange>& a, const std::vector<CudaRange>& b) {
  return std::any_of(a.begin(), a.end(), [&](const CudaRange& x) {
    return std::any_of(b.begin(), b.end(), [&](const CudaRange& y) {
      return x.home == y.home && x.index == y.index && x.begin < y.end && y.begin < x.end;
    });
  });
}

}  // namespace

void CudaAccess::add(const CudaAccess& more) {
  reads.insert(reads.end(), more.reads.begin(), more.reads.end());
  writes.insert(writes.end(), more.writes.begin(), more.writes.end());
  everything = everything || more.everything;
}

bool conflict(const CudaAccess& a, const CudaAccess& b) {
  return a.everything || b.everything || overlap(a.writes, b.writes) || overlap(a.writes, b.reads) ||
         overlap(a.reads, b.writes);
}

bool may_join(const CudaCode& c) {
  return c.scratch_bytes == 0 && c.counters == 0 && c.blocks * c.threads <= kSmall;
}

// All threads of a block meet a barrier, and the memory that they share is limited: so one part of a launch
// may have one, and it has as many threads as the launch.
bool fits(const std::vector<CudaPart>& group, const CudaPart& more) {
  std::size_t pointers = more.pointers.size(), barriers = more.code.has_barrier ? 1 : 0;
  int threads = more.code.threads, with_barrier = more.code.has_barrier ? threads : 0;
  for (const CudaPart& p : group) {
    pointers += p.pointers.size();
    threads = std::max(threads, p.code.threads);
    if (!p.code.has_barrier) continue;
    ++barriers;
    with_barrier = p.code.threads;
  }
  return pointers <= kMostPointers && group.size() < kMostParts &&
         (barriers == 0 || (barriers == 1 && with_barrier == threads));
}

std::string part_function(const std::string& name, const CudaPart& part) {
  std::string body = part.code.body;
  constexpr std::string_view there = "blockIdx.x", here = "block";
  for (std::size_t at = body.find(there); at != std::string::npos; at = body.find(there, at + here.size()))
    body.replace(at, there.size(), here);
  return fmt::format("ETP_FN void {}(const etp_pointers<{}> p, const unsigned block) {{\n{}}}\n\n", name,
                     part.pointers.size(), body);
}

CudaCode joined(const std::vector<CudaPart>& group, const std::vector<std::string>& functions) {
  CudaCode out;
  out.threads = 0, out.blocks = 0;
  for (const CudaPart& p : group) out.threads = std::max(out.threads, p.code.threads);
  std::size_t pointer = 0;
  for (std::size_t k = 0; k < group.size(); ++k) {
    const CudaPart& p = group[k];
    std::string pointers;
    for (std::size_t i = 0; i < p.pointers.size(); ++i)
      pointers += fmt::format("{}p.at[{}]", i == 0 ? "" : ", ", pointer++);
    const std::string call = fmt::format("{}(etp_pointers<{}>{{{{{}}}}}, blockIdx.x - {});", functions[k],
                                         p.pointers.size(), pointers, out.blocks);
    const std::string guard =
        p.code.threads < out.threads ? fmt::format("if (threadIdx.x < {}) ", p.code.threads) : "";
    out.body += fmt::format("  {}if (blockIdx.x < {}) {{\n    {}{}\n  }}\n", k == 0 ? "" : "else ",
                            out.blocks + p.code.blocks, guard, call);
    out.blocks += p.code.blocks;
    out.has_barrier = out.has_barrier || p.code.has_barrier;
  }
  return out;
}

}  // namespace etrace::emit
