// A small fork-join pool: parallel(parts, f) calls f(0) ... f(parts - 1) on the caller and the workers and
// returns when all are done. Which thread runs a part is not fixed, so f must not let results depend on it.
// Start at parallel; the protocol between caller and workers is told in thread_pool.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace {

class ThreadPool {
 public:
  // threads counts the caller: ThreadPool(1) starts none. Throws std::invalid_argument if threads < 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(lanes_.size()); }  // also in a forked process

  // Calls f(part) once for every part in [0, parts). All parts run even if some throw; then the exception of
  // the lowest part that threw is rethrown. From inside a part, or while another thread uses the pool, all
  // parts run on the calling thread. Allocates nothing.
  template <class F>
  void parallel(int parts, F&& f) {
    using Fn = std::remove_reference_t<F>;
    run(
        parts, [](void* fn, int part) { (*static_cast<Fn*>(fn))(part); },
        const_cast<void*>(static_cast<const void*>(std::addressof(f))));
  }

 private:
  using Call = void (*)(void* fn, int part);

  // The parts first meant for one thread; lane 0 is the caller's. On its own cache line, since it is polled.
  struct alignas(64) Lane {
    std::atomic<std::uint32_t> wake{0};   // the last job this worker was called to
    std::atomic<bool> asleep{false};      // it may be, and has to be notified
    std::atomic<std::uint64_t> count{0};  // job << 32 | parts not yet claimed
    int end = 0;                          // one past the last part
  };

  friend struct LivePools;
  void run(int parts, Call call, void* fn);
  void start_workers();
  void forget_workers();  // in a forked process, which has none of them; the next job starts new ones
  void work(std::size_t own);
  void take_parts(std::size_t own, std::uint32_t job);
  void run_part(int part);
  void stop();

  std::vector<Lane> lanes_;
  std::vector<std::thread> threads_;
  bool stay_awake_;  // for a while, when there is nothing to do
  std::atomic<bool> quit_{false};

  std::mutex busy_;  // held by the caller of the current job
  std::uint32_t job_ = 0;
  std::atomic<std::size_t> active_{0};  // lanes of the current job
  Call call_ = nullptr;
  void* fn_ = nullptr;
  alignas(64) std::atomic<int> left_{0};  // parts of the current job that are not finished
  std::atomic<bool> caller_asleep_{false};

  std::mutex error_mutex_;
  std::exception_ptr error_;
  int error_part_ = 0;
};

// The threads that the environment variable ETRACE_NUM_THREADS asks for, by default one per processor.
// ValueError if it is no whole number from 1 to 4096.
int default_threads();

// The pool of the process, started at first use with default_threads() threads.
ThreadPool& default_pool();

// Replaces the default pool by one of n threads. Ends references to the old one; not while it is in use.
void set_num_threads(int n);

}  // namespace etrace
#pragma GCC visibility pop
