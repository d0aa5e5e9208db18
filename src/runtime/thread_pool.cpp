// How a job runs. The caller cuts the parts into one lane per thread, publishes each lane's count together
// with the number of the job, wakes the workers, and works itself. A thread claims parts by compare-and-swap
// on a lane's count, its own lane first (so that data stays in its cache from job to job), then the others'.
// A claim holds only for the job it was made for, so a worker that wakes too late finds nothing and nobody
// waits for it: a job lasts until its last part is done, never until a sleeper is awake.
#include "runtime/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include "etrace/error.h"

namespace etrace {
namespace {

// Set while a thread runs parts: a nested parallel then runs inline, because waiting for workers that may be
// waiting for us would deadlock.
thread_local bool in_part = false;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

using Clock = std::chrono::steady_clock;

// A thread that sleeps costs whoever wakes it a call of the system, and is back after tens of microseconds.
// So one that waits polls first; then it stays awake for about as long as the host works alone between two
// jobs of a window, but offers its processor to others at every look; then it sleeps.
constexpr int kLooks = 1000;
constexpr auto kAwake = std::chrono::microseconds(200);

template <class T>
T look_for_change(const std::atomic<T>& value, T old) {
  T now = value.load(std::memory_order_acquire);
  for (int i = 0; now == old && i < kLooks; i++) {
    pause();
    now = value.load(std::memory_order_acquire);
  }
  for (const auto start = Clock::now(); now == old && Clock::now() - start < kAwake;) {
    ::sched_yield();
    now = value.load(std::memory_order_acquire);
  }
  return now;
}

// Waits until value != old. `asleep` is true while the thread may be asleep: who changes the value first and
// looks at it then (both sequentially consistent) misses nobody, and need not notify the others.
template <class T>
T wait_for_change(std::atomic<T>& value, std::atomic<bool>& asleep, T old, bool stay_awake) {
  T now = stay_awake ? look_for_change(value, old) : old;
  if (now != old) return now;
  asleep.store(true);
  while ((now = value.load()) == old) value.wait(old);
  asleep.store(false, std::memory_order_relaxed);
  return now;
}

template <class T>
void notify(std::atomic<T>& value, const std::atomic<bool>& asleep) {
  if (asleep.load()) value.notify_one();
}

int processors() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace

// All pools, for what happens at a fork: the new process has one thread.
struct LivePools {
  static LivePools& of_process() {
    static LivePools& instance = *new LivePools;  // pools are destroyed until the process ends
    return instance;
  }
  LivePools() {
    ::pthread_atfork([] { of_process().mutex.lock(); }, [] { of_process().mutex.unlock(); },
                     [] {
                       for (ThreadPool* pool : of_process().pools) pool->forget_workers();
                       of_process().mutex.unlock();
                     });
  }
  void add(ThreadPool* pool) {
    const std::lock_guard<std::mutex> lock(mutex);
    pools.push_back(pool);
  }
  void remove(ThreadPool* pool) {
    const std::lock_guard<std::mutex> lock(mutex);
    std::erase(pools, pool);
  }
  std::mutex mutex;
  std::vector<ThreadPool*> pools;
};

ThreadPool::ThreadPool(int threads)
    : lanes_(threads < 1 ? throw std::invalid_argument("ThreadPool: threads must be at least 1, got " +
                                                       std::to_string(threads))
                         : static_cast<std::size_t>(threads)),
      stay_awake_(threads <= processors()) {  // else those who wait keep others off their processor
  start_workers();
  LivePools::of_process().add(this);
}

ThreadPool::~ThreadPool() {
  LivePools::of_process().remove(this);
  stop();
}

void ThreadPool::start_workers() {
  threads_.reserve(lanes_.size() - 1);
  try {
    for (std::size_t i = 1; i < lanes_.size(); i++) threads_.emplace_back([this, i] { work(i); });
  } catch (...) {  // the system gives no more threads; those that run must not outlive us
    stop();
    throw;
  }
}

// The objects of the threads are left as they are: there is nothing to join or to detach.
void ThreadPool::forget_workers() {
  new std::vector<std::thread>(std::move(threads_));
  threads_.clear();
  for (Lane& lane : lanes_) {
    lane.wake.store(0);
    lane.asleep.store(false);
    lane.count.store(0);
  }
  caller_asleep_.store(false);
  new (&busy_) std::mutex;  // whoever held it is not here
  new (&error_mutex_) std::mutex;
  error_ = nullptr;
}

void ThreadPool::stop() {
  quit_ = true;
  for (std::size_t i = 1; i < lanes_.size(); i++) {
    lanes_[i].wake.fetch_add(1);
    notify(lanes_[i].wake, lanes_[i].asleep);
  }
  for (std::thread& t : threads_) t.join();
}

void ThreadPool::run(int parts, Call call, void* fn) {
  std::unique_lock<std::mutex> busy(busy_, std::defer_lock);
  if (parts <= 1 || lanes_.size() == 1 || in_part || !busy.try_lock()) {
    std::exception_ptr first;
    for (int part = 0; part < parts; part++) {
      try {
        call(fn, part);
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
    return;
  }

  if (threads_.empty()) start_workers();  // we were forked
  // Everything a claimer reads is written before the count that it claims from.
  const std::uint32_t job = ++job_;
  const std::size_t lanes = std::min(lanes_.size(), static_cast<std::size_t>(parts));
  call_ = call;
  fn_ = fn;
  left_.store(parts, std::memory_order_relaxed);
  active_.store(lanes, std::memory_order_relaxed);
  int begin = 0;
  for (std::size_t i = 0; i < lanes; i++) {
    const int end = static_cast<int>(static_cast<std::int64_t>(parts) * static_cast<std::int64_t>(i + 1) /
                                     static_cast<std::int64_t>(lanes));
    lanes_[i].end = end;
    lanes_[i].count.store(std::uint64_t{job} << 32 | static_cast<std::uint32_t>(end - begin),
                          std::memory_order_release);
    begin = end;
  }
  for (std::size_t i = 1; i < lanes; i++) {
    lanes_[i].wake.store(job);
    notify(lanes_[i].wake, lanes_[i].asleep);
  }

  take_parts(0, job);
  for (int left; (left = left_.load(std::memory_order_acquire)) != 0;)
    wait_for_change(left_, caller_asleep_, left, stay_awake_);

  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::work(std::size_t own) {
  std::uint32_t job = 0;
  for (;;) {
    job = wait_for_change(lanes_[own].wake, lanes_[own].asleep, job, stay_awake_);
    if (quit_) return;
    take_parts(own, job);
  }
}

void ThreadPool::take_parts(std::size_t own, std::uint32_t job) {
  in_part = true;
  const std::size_t lanes = active_.load(std::memory_order_relaxed);  // if of a later job: the counts tell
  for (std::size_t i = 0; i < lanes; i++) {
    Lane& lane = lanes_[(own + i) % lanes];
    std::uint64_t count = lane.count.load(std::memory_order_acquire);
    while (count >> 32 == job && static_cast<std::uint32_t>(count) != 0) {
      if (!lane.count.compare_exchange_weak(count, count - 1, std::memory_order_acq_rel)) continue;
      run_part(lane.end - static_cast<int>(static_cast<std::uint32_t>(count)));
      count = lane.count.load(std::memory_order_acquire);
    }
  }
  in_part = false;
}

void ThreadPool::run_part(int part) {
  try {
    call_(fn_, part);
  } catch (...) {
    std::lock_guard<std::mutex> lock(error_mutex_);
    if (!error_ || part < error_part_) {
      error_ = std::current_exception();
      error_part_ = part;
    }
  }
  if (left_.fetch_sub(1) == 1) notify(left_, caller_asleep_);
}

namespace {

struct DefaultPool {
  std::mutex mutex;
  std::unique_ptr<ThreadPool> pool;
  std::atomic<ThreadPool*> ready{nullptr};
};

DefaultPool& holder() {
  static DefaultPool instance;
  return instance;
}

}  // namespace

int default_threads() {
  const char* text = std::getenv("ETRACE_NUM_THREADS");
  if (text == nullptr || *text == '\0') return processors();
  char* end = nullptr;
  errno = 0;
  const long n = std::strtol(text, &end, 10);
  if (errno != 0 || *end != '\0' || n < 1 || n > 4096)
    throw ValueError("threads", "the environment variable ETRACE_NUM_THREADS is '" + std::string(text) +
                                    "', expected a whole number from 1 to 4096; unset it to have a thread "
                                    "per processor");
  return static_cast<int>(n);
}

ThreadPool& default_pool() {
  DefaultPool& h = holder();
  if (ThreadPool* pool = h.ready.load(std::memory_order_acquire)) return *pool;
  std::lock_guard<std::mutex> lock(h.mutex);
  if (!h.pool) h.pool = std::make_unique<ThreadPool>(default_threads());
  h.ready.store(h.pool.get(), std::memory_order_release);
  return *h.pool;
}

void set_num_threads(int n) {
  auto pool = std::make_unique<ThreadPool>(n);
  DefaultPool& h = holder();
  std::lock_guard<std::mutex> lock(h.mutex);
  h.ready.store(pool.get(), std::memory_order_release);
  h.pool = std::move(pool);
}

}  // namespace etrace
