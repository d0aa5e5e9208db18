#include "native/runnable.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

#include "base/interruptible.h"
#include "base/memory.h"
#include "etrace/error.h"
#include "etrace/host.h"
#include "etrace/interp.h"
#include "runtime/etp_parts.h"

namespace etrace::native {

namespace {

// A row that the host runs by itself: its kernel stands in the place of a descriptor.
void run_row(const void* kernel, const etp_context*, const void* const* in, void* const* out, void* scratch) {
  static_cast<const Kernel*>(kernel)->run({in, out, scratch});
}

// Asks for a run whether it is to end. Loops ask at every step, which may be short: the clock is read after
// so many of them as take about a millisecond. The host is asked on the thread of the call; others that share
// its rows hear what it said.
class Watch {
 public:
  static std::int64_t ends(void* watch) { return static_cast<Watch*>(watch)->ends() ? 1 : 0; }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool ends() noexcept {
    if (ended_.load(std::memory_order_relaxed)) return true;
    if (std::this_thread::get_id() != caller_ || --left_ > 0) return false;
    const Clock::time_point now = Clock::now();
    constexpr std::int64_t kMost = 1 << 20;
    const bool soon = now - last_ < std::chrono::milliseconds(1);
    pace_ = std::clamp<std::int64_t>(soon ? 2 * pace_ : pace_ / 2, 1, kMost);
    left_ = pace_;
    last_ = now;
    try {
      check_interrupt();
    } catch (...) {  // which must not go through code in C
      error_ = std::current_exception();
      ended_ = true;
    }
    return ended_;
  }

  const std::thread::id caller_ = std::this_thread::get_id();
  std::atomic<bool> ended_{false};
  std::int64_t pace_ = 1, left_ = 1;
  Clock::time_point last_ = Clock::now();
  std::exception_ptr error_;
};

AlignedBuffer buffer(std::size_t bytes) {
  if (std::byte* block = allocate_block(bytes)) return {bytes, block};
  out_of_memory("the intermediate values of a program", bytes);
}

}  // namespace

NativeProgram::NativeProgram(emit::EmitProgram p, std::shared_ptr<const LoadedModule> module,
                             const etp_context& context, std::shared_ptr<Workspace> workspace)
    : context_(context),
      program_(std::move(p)),
      module_(std::move(module)),
      workspace_(std::move(workspace)) {
  const etp_module& table = module_->table();
  ETRACE_CHECK(static_cast<std::size_t>(table.arena_bytes) == program_.arena_bytes &&
               static_cast<std::size_t>(table.constants) == program_.constants.size());
  const emit::HostSteps steps = emit::host_steps(program_);
  const std::size_t scratch = std::max(scratch_of(steps), scratch_of_rows(steps));
  bind();
  for (const Tensor& t : program_.constants) constants_.push_back(t.bytes());
  const auto known_bytes = static_cast<std::size_t>(table.known_bytes);
  versions_offset_ = (known_bytes + 7) / 8 * 8;
  facts_bytes_ = versions_offset_ + known_bytes * sizeof(std::uint64_t);
  scratch_offset_ = with_block(0, program_.arena_bytes);
  work_bytes_ = scratch_offset_ + scratch;
}

// Makes the kernels of rows, too.
std::size_t NativeProgram::scratch_of(const emit::HostSteps& steps) {
  std::size_t most = 0;
  for (const emit::Call* call : steps.calls) {
    if (call->kernel != nullptr) {
      most = std::max(most, call->kernel->scratch_bytes(context_));
      continue;
    }
    const Kernel& made = rows_[steps.name(*call)] =
        make_kernel(*call->prim, {call->params, call->in_types, call->out_types, context_});
    most = std::max(most, made.scratch_bytes);
  }
  for (const emit::Product* q : steps.products) {
    const etp_matrix_product d = steps.descriptor(program_, *q);
    most = std::max(most, matrix_product_scratch(&d, context_.threads));
    if (d.known > 0)
      known_.push_back({static_cast<std::size_t>(d.known - 1),
                        program_.values[static_cast<std::size_t>(q->b.value)].index});
  }
  return most;
}

// Threads that keep rows of their own multiply at the same time, each with scratch for its products.
std::size_t NativeProgram::scratch_of_rows(const emit::HostSteps& steps) {
  std::int64_t most_parts = 0;
  for (const emit::Item& item : program_.entry) {
    const auto* loop = std::get_if<emit::Region>(&item.step);
    if (loop == nullptr || loop->rows == 0) continue;
    const std::int64_t parts = etp_row_parts(context_.threads, loop->rows, loop->most_parts);
    if (parts == 1) continue;
    most_parts = std::max(most_parts, parts);
    for (const emit::Item& step : loop->blocks[0]) {
      const auto* q = std::get_if<emit::Product>(&step.step);
      if (q == nullptr) continue;
      etp_matrix_product d = steps.descriptor(program_, *q);
      for (const std::int64_t rows : {loop->rows / parts, (loop->rows + parts - 1) / parts}) {
        d.rows = rows * (q->rows / loop->rows);
        row_scratch_ = std::max(row_scratch_, matrix_product_scratch(&d, 1));
      }
    }
  }
  row_scratch_ = (row_scratch_ + 63) / 64 * 64;
  return row_scratch_ * static_cast<std::size_t>(most_parts);
}

void NativeProgram::bind() {
  const etp_module& table = module_->table();
  for (std::int64_t i = 0; i < table.callee_count; ++i) {
    const std::string name = table.callees[i];
    if (const KernelRow* kernel = find_kernel(name))
      callees_.push_back({kernel->run, nullptr});
    else if (const auto row = rows_.find(name); row != rows_.end())
      callees_.push_back({run_row, &row->second});
    else
      throw IoError("native", fmt::format("the code of {} calls the kernel {}, which this version of etrace "
                                          "does not have",
                                          program_.name, name));
  }
}

NativeProgram::~NativeProgram() {
  for (auto& slot : spare_) delete slot.load();
}

NativeProgram::RunMemory* NativeProgram::take_memory() const {
  for (auto& slot : spare_)
    if (RunMemory* memory = slot.exchange(nullptr, std::memory_order_acquire)) return memory;
  auto fresh = std::make_unique<RunMemory>(RunMemory{buffer(facts_bytes_)});
  std::fill_n(fresh->facts.data(), facts_bytes_, std::byte{});
  return fresh.release();
}

void NativeProgram::give_back(RunMemory* memory) const {
  for (auto& slot : spare_) {
    RunMemory* none = nullptr;
    if (slot.compare_exchange_strong(none, memory, std::memory_order_release)) return;
  }
  delete memory;
}

// The memory of one run, for as long as it runs.
class NativeProgram::Taken {
 public:
  explicit Taken(const NativeProgram& owner) : owner_(owner), memory_(owner.take_memory()) {
    try {
      take_room();
    } catch (...) {
      owner_.give_back(memory_);
      throw;
    }
  }
  ~Taken() {
    if (shared_) owner_.workspace_->give_back();
    owner_.give_back(memory_);
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  std::byte* facts() const { return memory_->facts.data(); }
  std::byte* room() const { return room_; }

 private:
  void take_room() {
    room_ = memory_->room.data();  // it had to be made once, and what was prepared is there
    if (room_ != nullptr) return;
    if (owner_.workspace_ != nullptr) room_ = owner_.workspace_->take(owner_.work_bytes_);
    shared_ = room_ != nullptr;
    if (shared_) return;
    memory_->room = buffer(owner_.work_bytes_);
    room_ = memory_->room.data();
  }

  const NativeProgram& owner_;
  RunMemory* memory_;
  std::byte* room_ = nullptr;
  bool shared_ = false;  // the room is the workspace's
};

void NativeProgram::prepare() const {
  const Taken memory(*this);
  std::fill_n(memory.room(), work_bytes_, std::byte{});  // so that the system has given every page
}

void NativeProgram::forget(std::byte* facts, const std::uint64_t* versions) const {
  auto* const learnt_at = reinterpret_cast<std::uint64_t*>(facts + versions_offset_);
  for (const Known& k : known_) {
    const std::uint64_t now = versions == nullptr ? 0 : versions[k.argument];
    if (now == 0 || learnt_at[k.byte] != now) facts[k.byte] = std::byte{0};
    learnt_at[k.byte] = now;
  }
}

void NativeProgram::run_at(const std::uint64_t* versions, const void* const* arguments,
                           void* const* results) const {
  const Taken memory(*this);
  forget(memory.facts(), versions);
  etp_context context = context_;
  context.known = reinterpret_cast<std::uint8_t*>(memory.facts());
  Watch watch;
  if (Interruptible::active()) context.ends = &Watch::ends, context.host = &watch;
  const Interruptible no_throw_through_c(false);
  const etp_run r{&context,
                  callees_.data(),
                  arguments,
                  results,
                  constants_.data(),
                  memory.room(),
                  memory.room() + scratch_offset_,
                  static_cast<std::int64_t>(row_scratch_)};
  module_->table().run(&r);
  watch.rethrow();
}

}  // namespace etrace::native
