// What runs programs. The interpreter is one backend; learners know only this interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "etrace/program.h"

#pragma GCC visibility push(default)
namespace etrace {

// Memory that the host may not touch. Addresses in it are for programs and for these functions alone.
class DeviceMemory {
 public:
  struct Upload {
    void* to;
    const void* from_host;
    std::size_t bytes;
  };
  // Aligned to 64 bytes, given back with the last owner. Other memory is in use until then.
  virtual std::shared_ptr<void> allocate(std::size_t bytes) const = 0;
  virtual void upload(void* to, const void* from_host, std::size_t bytes) const = 0;
  // Beside the runs that were called before, which must not use `to`. Runs that are called later come after
  // it.
  virtual void upload_ahead(void* to, const void* from_host, std::size_t bytes) const {
    upload(to, from_host, bytes);
  }
  virtual void clear(void* at, std::size_t bytes) const = 0;  // zeros
  virtual void download(void* to_host, const void* from, std::size_t bytes) const = 0;
  virtual std::size_t free_bytes() const { return static_cast<std::size_t>(-1); }  // that nobody holds
  // Several at once, when all runs that were called before are done.
  struct Download {
    void* to_host;
    const void* from;
    std::size_t bytes;
  };
  virtual void download_all(std::span<const Download> all) const {
    for (const Download& d : all) download(d.to_host, d.from, d.bytes);
  }

 protected:
  DeviceMemory() = default;
  ~DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
};

// A program, ready to run on buffers that the caller owns.
class Runnable {
 public:
  virtual ~Runnable() = default;
  // One pointer per argument and per result, to row-major data in the backend's memory. The two pointers of
  // an alias pair are the same; no other result overlaps an argument or another result. No checks, and no
  // allocation after the first run. May be called from several threads at once, on different buffers.
  virtual void run(const void* const* arguments, void* const* results) const = 0;
  // The same with a version per argument: wherever the process shows a version again, other than 0, the
  // contents are the same, and what a run has found out about them still holds.
  virtual void run_at(const std::uint64_t* versions, const void* const* arguments,
                      void* const* results) const {
    (void)versions;
    run(arguments, results);
  }
  // A run may go on after run() has returned, in the order in which runs were called; wait() returns when all
  // results are there. Programs on the host have nothing to wait for.
  virtual void wait() const {}
  // A run between copies, where the backend can do it all at once: `given` goes to the device before it, and
  // what is `taken` is there when this returns. False: it cannot, and nothing was done.
  virtual bool run_between(std::span<const DeviceMemory::Upload> given, const void* const* arguments,
                           void* const* results, std::span<const DeviceMemory::Download> taken) const {
    (void)given, (void)arguments, (void)results, (void)taken;
    return false;
  }
  virtual std::size_t arena_bytes() const = 0;  // intermediate values of one run
  // Allocates what a run needs, so that the first one does not.
  virtual void prepare() const {}
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // "interpreter"
  virtual std::string_view doc() const = 0;   // one line
  virtual std::shared_ptr<const Runnable> compile(const Program&) const = 0;
  // Where its programs find their buffers; null: in the memory of the host, where nothing is copied.
  virtual const DeviceMemory* memory() const { return nullptr; }

 protected:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
};

// A backend adds itself while the program starts: `const RegisterBackend row(the_backend);` at namespace
// scope.
struct RegisterBackend {
  explicit RegisterBackend(const Backend&);
};
std::vector<const Backend*> backends();              // sorted by name
const Backend& find_backend(std::string_view name);  // ValueError lists the names
// What runs where no backend is named: the environment variable ETRACE_BACKEND, else "auto". ValueError if
// there is none of that name.
std::string default_backend();

}  // namespace etrace
#pragma GCC visibility pop
