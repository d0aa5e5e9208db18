#include "kernels/context.h"

namespace etrace {

etp_context serial_context() {
  return {1,
          [](void*, std::int64_t parts, void (*f)(void*, std::int64_t), void* data) {
            for (std::int64_t part = 0; part < parts; ++part) f(data, part);
          },
          nullptr, nullptr};
}

etp_context context_of(ThreadPool& pool) {
  return {pool.size(),
          [](void* p, std::int64_t parts, void (*f)(void*, std::int64_t), void* data) {
            static_cast<ThreadPool*>(p)->parallel(static_cast<int>(parts), [&](int part) { f(data, part); });
          },
          &pool, nullptr};
}

// The pool is looked up at every use: it may have been replaced by one of another size.
etp_context default_context() {
  return {default_pool().size(),
          [](void*, std::int64_t parts, void (*f)(void*, std::int64_t), void* data) {
            default_pool().parallel(static_cast<int>(parts), [&](int part) { f(data, part); });
          },
          nullptr, nullptr};
}

}  // namespace etrace
