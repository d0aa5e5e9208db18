// Where kernels run (etp_context), for C++: made from a pool, and its parts dealt out to a lambda.
#pragma once

#include <algorithm>
#include <memory>

#include "kernels/etp_abi.h"
#include "runtime/thread_pool.h"

#pragma GCC visibility push(default)
namespace etrace {

etp_context serial_context();         // everything on the calling thread
etp_context context_of(ThreadPool&);  // that must outlive all who hold the context
etp_context default_context();        // of the process's pool: for whoever is given none

// f(part) for every part.
template <class F>
void in_parts(const etp_context& context, std::int64_t parts, const F& f) {
  if (parts <= 1) {
    if (parts == 1) f(0);
    return;
  }
  context.parallel(
      context.pool, parts,
      [](void* data, std::int64_t part) { (*static_cast<const F*>(data))(static_cast<int>(part)); },
      const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

// How many threads share a pass over so many elements. Parts must not change a result.
inline int parts_of_work(std::int64_t elements, std::int64_t threads) {
  constexpr std::int64_t kPart = 1 << 15;  // outweighs the hand-over to another thread
  if (elements < 2 * kPart) return 1;
  return static_cast<int>(std::min(elements / kPart, threads));
}

}  // namespace etrace
#pragma GCC visibility pop
