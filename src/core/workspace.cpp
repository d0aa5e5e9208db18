#include "core/workspace.h"

namespace etrace {

Workspace::~Workspace() { free_block(block_); }

std::byte* Workspace::take(std::size_t bytes) {
  if (taken_.exchange(true, std::memory_order_acquire)) return nullptr;
  if (bytes <= bytes_) return block_;
  free_block(block_);
  block_ = allocate_block(bytes);
  bytes_ = block_ == nullptr ? 0 : bytes;
  if (block_ != nullptr) return block_;
  give_back();
  out_of_memory("the intermediate values of a program", bytes);
}

std::shared_ptr<const Runnable> compile_in(const std::shared_ptr<Workspace>& workspace,
                                           const Backend& backend, const Program& p) {
  const auto* sharing = dynamic_cast<const SharesWorkspace*>(&backend);
  return sharing != nullptr ? sharing->compile_in(workspace, p) : backend.compile(p);
}

}  // namespace etrace
