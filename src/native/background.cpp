#include "native/background.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

#include "etrace/error.h"
#include "etrace/host.h"
#include "native/compile.h"
#include "native/toolchain.h"

namespace etrace::native {

namespace {

class SwitchingProgram final : public Runnable {
 public:
  explicit SwitchingProgram(std::shared_ptr<const Runnable> interpreted)
      : interpreted_(std::move(interpreted)) {}

  void run(const void* const* arguments, void* const* results) const override {
    current().run(arguments, results);
  }
  void run_at(const std::uint64_t* versions, const void* const* arguments,
              void* const* results) const override {
    current().run_at(versions, arguments, results);
  }
  std::size_t arena_bytes() const override { return current().arena_bytes(); }
  // Native code that comes later is then ready before it takes over.
  void prepare() const override {
    const std::lock_guard lock(preparing_);
    prepared_ = true;
    current().prepare();
  }

  void switch_to(std::shared_ptr<const Runnable> native) {
    const std::lock_guard lock(preparing_);
    native_ = std::move(native);
    if (prepared_) native_->prepare();
    ready_.store(native_.get(), std::memory_order_release);
  }

 private:
  const Runnable& current() const {
    const Runnable* native = ready_.load(std::memory_order_acquire);
    return native != nullptr ? *native : *interpreted_;
  }
  std::shared_ptr<const Runnable> interpreted_, native_;
  std::atomic<const Runnable*> ready_{nullptr};
  mutable std::mutex preparing_;
  mutable bool prepared_ = false;
};

// One thread for the process: compilers get in each other's way, and in that of the work. At exit the job at
// hand is finished and the others are dropped.
class CompileQueue {
 public:
  // What a job reads is made before the queue, so that it is still there when the last job is waited for.
  CompileQueue() { emitted_code_options(); }
  // A forked process has the jobs but not the thread; what that was compiling stays interpreted there.
  void before_fork() {
    finishing_.lock();
    mutex_.lock();
  }
  void after_fork() {
    mutex_.unlock();
    finishing_.unlock();
  }
  void in_forked_process() {
    new std::thread(std::move(thread_));  // nothing to join or to detach
    new (&changed_) std::condition_variable;
    busy_ = false;
    after_fork();
  }
  std::unique_lock<std::mutex> finishing() { return std::unique_lock(finishing_); }
  ~CompileQueue() {
    {
      const std::lock_guard lock(mutex_);
      jobs_.clear();
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  void add(std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    try {
      start();
    } catch (const std::system_error& e) {
      return say_why_interpreted(std::string("there is no thread to compile in (") + e.what() + ")");
    }
    jobs_.push_back(std::move(job));
    changed_.notify_all();
  }
  void drop() {
    const std::lock_guard lock(mutex_);
    jobs_.clear();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    if (!jobs_.empty()) start();
    changed_.wait(lock, [&] { return jobs_.empty() && !busy_; });
  }

 private:
  void start() {
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
      if (stop_) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
      lock.unlock();
      try {
        job();
      } catch (const std::exception& e) {  // above all out of memory; nobody waits here who could be told
        try {
          say_why_interpreted(std::string("native code could not be made (") + e.what() + ")");
        } catch (const std::exception&) {  // nor is there memory to say so
        }
      }
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::mutex finishing_;  // no fork while a program gets its native code
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

CompileQueue& queue() {
  static CompileQueue instance;
  static const int forks = ::pthread_atfork([] { queue().before_fork(); }, [] { queue().after_fork(); },
                                            [] { queue().in_forked_process(); });
  (void)forks;
  return instance;
}

}  // namespace

void say_why_interpreted(const std::string& reason) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) warn("programs run in the interpreter: " + reason);
}

std::shared_ptr<const Runnable> compile_in_background(const Program& p,
                                                      const std::shared_ptr<Workspace>& workspace) {
  auto program = std::make_shared<SwitchingProgram>(find_backend("interpreter").compile(p));
  // Emitting is quick and happens here; only the compiler runs beside us.
  auto emitted = std::make_shared<EmittedProgram>(emit_program(p));
  queue().add([emitted, workspace, waiting = std::weak_ptr<SwitchingProgram>(program)] {
    if (waiting.expired()) return;  // nobody wants it any more
    try {
      std::shared_ptr<const Runnable> native =
          compile_emitted(std::move(*emitted), default_context(), workspace);
      const auto no_fork = queue().finishing();
      if (const auto target = waiting.lock()) target->switch_to(std::move(native));
    } catch (const IoError& e) {
      say_why_interpreted(e.message());
    }
  });
  return program;
}

void run_in_background(std::function<void()> job) { queue().add(std::move(job)); }
void wait_for_compilations() { queue().wait(); }
void drop_compilations() {
  queue().drop();
  queue().wait();
}

}  // namespace etrace::native
