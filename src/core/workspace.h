// Memory for the intermediate values of programs that run one after the other: as much as the largest of them
// needs, not as all of them together.
#pragma once

#include <atomic>
#include <memory>

#include "base/memory.h"
#include "etrace/backend.h"

#pragma GCC visibility push(default)
namespace etrace {

class Workspace {
 public:
  Workspace() = default;
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // So many bytes until they are given back, with whatever the run before has left in them; null if another
  // run has them. ValueError if the machine has not so much memory.
  std::byte* take(std::size_t bytes);
  void give_back() { taken_.store(false, std::memory_order_release); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::atomic<bool> taken_{false};
  std::byte* block_ = nullptr;
  std::size_t bytes_ = 0;
};

// A backend whose programs can run in one.
class SharesWorkspace {
 public:
  virtual std::shared_ptr<const Runnable> compile_in(const std::shared_ptr<Workspace>&,
                                                     const Program&) const = 0;

 protected:
  ~SharesWorkspace() = default;
};

// In the workspace, if the backend has programs that can.
std::shared_ptr<const Runnable> compile_in(const std::shared_ptr<Workspace>&, const Backend&, const Program&);

}  // namespace etrace
#pragma GCC visibility pop
