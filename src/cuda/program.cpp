#include "cuda/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "etrace/error.h"

namespace etrace::cuda {

namespace {

constexpr std::int64_t kMostNodes = 50'000;  // of a graph
constexpr std::size_t kMostGraphs = 16;      // of a program; each is for other buffers

// Numbers of cuBLAS.
enum : std::uint8_t { kF32 = 0, kF64 = 1, kComputeF32 = 68, kComputeF64 = 70, kComputeTf32 = 77 };

}  // namespace

bool products_in_tf32() {
  const char* text = std::getenv("ETRACE_MATMUL_PRECISION");
  const std::string wanted = text == nullptr ? "" : text;
  if (wanted.empty() || wanted == "float32") return false;
  if (wanted == "tf32") return true;
  throw ValueError("cuda", "ETRACE_MATMUL_PRECISION is " + wanted + "; it may be float32 or tf32");
}

// One run through the steps.
class CudaProgram::Walk {
 public:
  Walk(const CudaProgram& p, const void* const* arguments, void* const* results)
      : p_(p), d_(p.device_), arguments_(arguments), results_(results), tf32_(products_in_tf32()) {}

  void steps(const emit::CudaSteps& all) {
    for (const emit::CudaStep& s : all) std::visit([&](const auto& x) { step(x); }, s.what);
  }

 private:
  std::uint64_t base(const emit::CudaPlace& at) const {
    const auto address = [](const void* p) { return reinterpret_cast<std::uint64_t>(p); };
    switch (at.home) {
      case emit::CudaPlace::Argument:
        return address(arguments_[at.index]);
      case emit::CudaPlace::Result:
        return address(results_[at.index]);
      case emit::CudaPlace::Constant:
        return address(p_.constants_[at.index].get());
      case emit::CudaPlace::Arena:
        return address(p_.arena_.get());
      case emit::CudaPlace::Scratch:
        return address(p_.scratch_.get());
      case emit::CudaPlace::Counters:
        return address(p_.counters_.get());
      case emit::CudaPlace::None:
        break;
    }
    return 0;
  }
  std::uint64_t pointer(const emit::CudaPlace& at) const {
    std::int64_t offset = at.first;
    for (const auto& [loop, stride] : at.time) offset += times_[static_cast<std::size_t>(loop)] * stride;
    return base(at) + static_cast<std::uint64_t>(offset);
  }

  void step(const emit::CudaLaunch& s) {
    std::vector<std::uint64_t> pointers;
    for (const emit::CudaPlace& at : s.pointers) pointers.push_back(pointer(at));
    void* parameters[] = {pointers.data()};
    const emit::CudaKernel& kernel = p_.unit_.kernels[s.kernel];
    const int code =
        d_.driver().launch(p_.functions_[s.kernel], static_cast<unsigned>(s.blocks), 1, 1,
                           static_cast<unsigned>(kernel.threads), 1, 1, 0, d_.stream(), parameters, nullptr);
    if (code != 0) d_.check(code, fmt::format("the kernel {} of {}", kernel.name, p_.name_).c_str());
  }

  // Row-major matrices are the transposes of what the library sees: Cᵀ = Bᵀ·Aᵀ.
  struct Operand {
    int transposed, step;
  };
  static Operand operand(std::int64_t inner, std::int64_t inner_step, std::int64_t outer,
                         std::int64_t outer_step) {
    const auto step = [](std::int64_t s, std::int64_t least) {
      return static_cast<int>(std::max({s, least, std::int64_t{1}}));
    };
    if ((inner == 1 || inner_step == 1) && (outer == 1 || outer_step >= inner))
      return {0, outer == 1 ? step(0, inner) : step(outer_step, inner)};
    return {1, inner == 1 ? step(0, outer) : step(inner_step, outer)};
  }
  void step(const emit::CudaProduct& s) {
    const Operand b = operand(s.columns, s.b_column, s.depth, s.b_depth);
    const Operand a = operand(s.depth, s.a_depth, s.rows, s.a_row);
    const bool wide = s.dtype == Dtype::F64;
    const int type = wide ? kF64 : kF32;
    const int compute = wide ? kComputeF64 : tf32_ ? kComputeTf32 : kComputeF32;
    const float one = 1, start = s.onto ? 1 : 0;
    const double one_wide = 1, start_wide = s.onto ? 1 : 0;
    const auto at = [&](const emit::CudaPlace& p) { return reinterpret_cast<void*>(pointer(p)); };
    const int c_step = static_cast<int>(s.rows == 1 ? std::max<std::int64_t>(s.columns, 1) : s.c_row);
    constexpr int kDefault = -1;
    d_.check(d_.driver().product(d_.products(), b.transposed, a.transposed, static_cast<int>(s.columns),
                                 static_cast<int>(s.rows), static_cast<int>(s.depth),
                                 wide ? static_cast<const void*>(&one_wide) : &one, at(s.b), type, b.step,
                                 s.b_batch, at(s.a), type, a.step, s.a_batch,
                                 wide ? static_cast<const void*>(&start_wide) : &start, at(s.c), type, c_step,
                                 s.c_batch, static_cast<int>(s.batch), compute, kDefault),
             "a product of cuBLAS");
  }
  void step(const emit::CudaFill& s) {
    d_.check(d_.driver().fill(pointer(s.to), s.value, static_cast<std::size_t>(s.bytes), d_.stream()),
             "filling memory");
  }
  void step(const emit::CudaLoop& s) {
    const auto loop = static_cast<std::size_t>(s.loop);
    if (times_.size() <= loop) times_.resize(loop + 1);
    for (std::int64_t i = 0; i < s.length; ++i) {
      times_[loop] = s.reverse ? s.length - 1 - i : i;
      steps(s.body);
    }
  }
  template <class T>
  T look(const emit::CudaPlace& at) const {
    T value{};
    d_.download(&value, reinterpret_cast<const void*>(pointer(at)), sizeof value);
    return value;
  }
  void step(const emit::CudaWhile& s) {
    for (;;) {
      steps(s.condition);
      if (look<std::uint8_t>(s.predicate) == 0) return;
      steps(s.body);
    }
  }
  void step(const emit::CudaCond& s) {
    const auto last = static_cast<std::int64_t>(s.branches.size()) - 1;
    const std::int64_t which =
        s.dtype == Dtype::Bool ? look<std::uint8_t>(s.index) : look<std::int32_t>(s.index);
    steps(s.branches[static_cast<std::size_t>(std::clamp<std::int64_t>(which, 0, last))]);
  }

  const CudaProgram& p_;
  const Device& d_;
  const void* const* arguments_;
  void* const* results_;
  const bool tf32_;
  std::vector<std::int64_t> times_;
};

CudaProgram::CudaProgram(std::string name, emit::CudaUnit unit, const std::string& image,
                         std::vector<std::string> eqns, std::size_t arguments, std::size_t results)
    : device_(Device::get()),
      name_(std::move(name)),
      unit_(std::move(unit)),
      num_arguments_(arguments),
      num_results_(results) {
  const std::lock_guard lock(device_.mutex());
  device_.enter();
  const CudaDriver& d = device_.driver();
  if (const auto eqn = emit::host_decides(unit_.steps))
    reason_ = "the host decides how to go on: " + (*eqn < 0 ? "" : eqns[static_cast<std::size_t>(*eqn)]);
  else if (const std::int64_t nodes = emit::launches_of(unit_.steps); nodes > kMostNodes)
    reason_ = fmt::format("a graph of {} kernels would be too large", nodes);
  device_.check(d.module_load(&module_, image.data()), "loading compiled code");
  for (const emit::CudaKernel& k : unit_.kernels) {
    CUfunction f = nullptr;
    device_.check(d.module_function(&f, module_, k.name.c_str()), "a kernel of compiled code");
    functions_.push_back(f);
  }
}

CudaProgram::~CudaProgram() {
  const std::lock_guard lock(device_.mutex());
  const CudaDriver& d = device_.driver();
  try {
    device_.wait();
  } catch (const Error&) {
    return;  // the device has failed, and its memory is gone with it
  }
  for (const Graph& g : graphs_) d.graph_exec_destroy(g.code);
  d.module_unload(module_);
}

void CudaProgram::prepare() const {
  const std::lock_guard lock(device_.mutex());
  if (ready_) return;
  arena_ = device_.allocate(unit_.arena_bytes);
  scratch_ = device_.allocate(unit_.scratch_bytes);
  const std::vector<std::int32_t> zeros(unit_.counters, 0);
  counters_ = device_.allocate(unit_.counters * sizeof(std::int32_t));
  device_.upload(counters_.get(), zeros.data(), unit_.counters * sizeof(std::int32_t));
  constants_.clear();
  for (const Tensor& t : unit_.constants) {
    constants_.push_back(device_.allocate(t.aval().bytes()));
    device_.upload(constants_.back().get(), t.bytes(), t.aval().bytes());
  }
  ready_ = true;
}

void CudaProgram::run(const void* const* arguments, void* const* results) const {
  const std::lock_guard lock(device_.mutex());
  prepare();
  device_.enter();
  // The first run also loads what libraries bring, which cannot be done while a graph is captured.
  if (has_run_ && reason_.empty()) return launch_graph(arguments, results, nullptr);
  Walk(*this, arguments, results).steps(unit_.steps);
  has_run_ = true;
}

bool CudaProgram::run_between(std::span<const DeviceMemory::Upload> given, const void* const* arguments,
                              void* const* results, std::span<const DeviceMemory::Download> taken) const {
  const std::lock_guard lock(device_.mutex());
  if (!has_run_ || !reason_.empty() || !Staging::takes(given, taken)) return false;
  device_.enter();
  const Around around{given, taken};
  staging_.fill(given, taken);
  launch_graph(arguments, results, &around);
  staging_.finish(taken);
  return true;
}

void CudaProgram::launch_graph(const void* const* arguments, void* const* results,
                               const Around* around) const {
  const auto want = [&](const void* p) { wanted_.push_back(reinterpret_cast<std::uint64_t>(p)); };
  wanted_.clear();
  for (std::size_t i = 0; i < num_arguments_; ++i) want(arguments[i]);
  for (std::size_t i = 0; i < num_results_; ++i) want(results[i]);
  if (around != nullptr) {
    wanted_.push_back(around->given.size());
    for (const DeviceMemory::Upload& g : around->given) want(g.to);
    for (const DeviceMemory::Download& t : around->taken) want(t.from);
  }
  const auto found =
      std::find_if(graphs_.begin(), graphs_.end(), [&](const Graph& g) { return g.buffers == wanted_; });
  if (found != graphs_.end()) {
    std::rotate(found, found + 1, graphs_.end());
  } else {
    CUgraphExec code = captured(arguments, results, around);
    if (graphs_.size() == kMostGraphs) {
      device_.wait();
      device_.driver().graph_exec_destroy(graphs_.front().code);
      graphs_.erase(graphs_.begin());
    }
    ++captures_;
    graphs_.push_back({wanted_, code});
  }
  device_.check(device_.driver().graph_launch(graphs_.back().code, device_.stream()), "launching a graph");
}

CUgraphExec CudaProgram::captured(const void* const* arguments, void* const* results,
                                  const Around* around) const {
  const CudaDriver& d = device_.driver();
  constexpr int kThreadLocal = 1;
  CUgraph graph = nullptr;
  device_.check(d.capture_begin(device_.stream(), kThreadLocal), "the start of a capture");
  try {
    if (around != nullptr) staging_.copy_in(around->given);
    Walk(*this, arguments, results).steps(unit_.steps);
    if (around != nullptr) staging_.copy_out(around->taken);
  } catch (...) {
    d.capture_end(device_.stream(), &graph);
    if (graph != nullptr) d.graph_destroy(graph);
    throw;
  }
  device_.check(d.capture_end(device_.stream(), &graph), "the end of a capture");
  CUgraphExec code = nullptr;
  const int error = d.graph_instantiate(&code, graph, 0);
  d.graph_destroy(graph);
  device_.check(error, "making a graph");
  return code;
}

}  // namespace etrace::cuda
