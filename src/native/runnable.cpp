#include "native/runnable.h"
#include "base/memory.h"

#include <algorithm>

#include "emit/c_printer.h"
#include "etrace/error.h"
#include "runtime/thread_pool.h"

namespace etrace::native {

namespace {

void host_parallel(int64_t parts, void (*f)(void*, int64_t), void* data) {
  default_pool().parallel(static_cast<int>(parts), [&](int part) { f(data, part); });
}
void host_call(const void* context, int64_t kernel, const void* const* in, void* const* out, void* scratch) {
  static_cast<const NativeProgram*>(context)->kernels[static_cast<std::size_t>(kernel)].run(
      {in, out, scratch});
}
// True if A has few entries, and the product was made of them.
bool multiply_spikes(const FewRows& product, NativeProgram::Known& known, const void* a, const void* b,
                     void* c, void* scratch) {
  using Known = NativeProgram::Known;
  if (known == Known::Nothing) {
    known = Known::Called;
    return false;
  }
  if (known == Known::Called)
    known = product.is_sparse(a, scratch) && product.is_finite(b) ? Known::Finite : Known::Dense;
  return known == Known::Finite && product(a, b, c, scratch);
}
void host_product(const void* context, int64_t product, const void* a, const void* b, void* c,
                  void* scratch) {
  const auto& program = *static_cast<const NativeProgram*>(context);
  const auto i = static_cast<std::size_t>(product);
  if (program.few_rows[i] &&
      multiply_spikes(*program.few_rows[i], program.known(i, scratch), a, b, c, scratch))
    return;
  program.products[i](a, b, c, scratch);
}

MatrixProduct::Strides strides_of(const emit::Product& q) {
  const std::size_t row = q.batch.size(), column = row + 1;
  return {q.a.at.step[row], q.a.at.step[column], q.b.at.step[row], q.b.at.step[column], q.c.at.step[row]};
}

constexpr etp_host kHost{ETP_ABI_VERSION, host_parallel, host_call, host_product};

}  // namespace

NativeProgram::NativeProgram(emit::EmitProgram p, std::shared_ptr<const LoadedModule> module)
    : program_(std::move(p)), module_(std::move(module)) {
  const etp_module& table = module_->table();
  ETRACE_CHECK(static_cast<std::size_t>(table.arena_bytes) == program_.arena_bytes &&
               static_cast<std::size_t>(table.constants) == program_.constants.size());
  std::size_t scratch = 0;
  const emit::HostSteps steps = emit::host_steps(program_);
  for (const emit::Call* call : steps.calls) {
    kernels.push_back(call->kernel);
    scratch = std::max(scratch, call->kernel.scratch_bytes);
  }
  for (const emit::Product* q : steps.products) {
    products.emplace_back(q->dtype, MatrixProduct::Sizes{q->rows, q->columns, q->depth}, strides_of(*q),
                          q->onto);
    scratch = std::max(scratch, products.back().scratch_bytes());
    few_rows.push_back(repeated(*q));
    if (few_rows.back()) scratch = std::max(scratch, few_rows.back()->scratch_bytes());
  }
  for (const Tensor& t : program_.constants) constants_.push_back(t.bytes());
  scratch_offset_ = (program_.arena_bytes + few_rows.size() + 63) / 64 * 64;  // what is known lies before it
  memory_bytes_ = scratch_offset_ + scratch;
}

std::optional<FewRows> NativeProgram::repeated(const emit::Product& q) const {
  const emit::Value& b = program_.values[static_cast<std::size_t>(q.b.value)];
  const auto& results = program_.results;
  const bool kept = b.home == emit::Value::Argument &&
                    std::find(results.begin(), results.end(), q.b.value) == results.end();
  if (!kept || !q.batch.empty() || !q.b.at.time.empty()) return std::nullopt;
  const MatrixProduct::Sizes sizes{q.rows, q.columns, q.depth};
  const MatrixProduct::Strides strides = strides_of(q);
  if (!FewRows::fits(q.dtype, sizes, strides)) return std::nullopt;
  return FewRows(q.dtype, sizes, strides, q.onto);
}

NativeProgram::~NativeProgram() {
  for (auto& slot : spare_) delete slot.load();
}

namespace {
std::byte* require_block(std::size_t bytes) {
  if (std::byte* block = allocate_block(bytes)) return block;
  throw std::bad_alloc();
}
}  // namespace

void NativeProgram::run(const void* const* arguments, void* const* results) const {
  AlignedBuffer* memory = nullptr;
  for (auto& slot : spare_)
    if ((memory = slot.exchange(nullptr, std::memory_order_acquire)) != nullptr) break;
  if (memory == nullptr) memory = new AlignedBuffer(memory_bytes_, require_block(memory_bytes_));
  struct GiveBack {
    const NativeProgram& owner;
    AlignedBuffer* memory;
    ~GiveBack() {
      for (auto& slot : owner.spare_) {
        AlignedBuffer* none = nullptr;
        if (slot.compare_exchange_strong(none, memory, std::memory_order_release)) return;
      }
      delete memory;
    }
  } give_back{*this, memory};
  std::byte* const scratch = memory->data() + scratch_offset_;
  std::fill_n(scratch - few_rows.size(), few_rows.size(),
              std::byte{static_cast<std::uint8_t>(Known::Nothing)});
  const etp_run r{&kHost, this, arguments, results, constants_.data(), memory->data(), scratch};
  module_->table().run(&r);
}

}  // namespace etrace::native
