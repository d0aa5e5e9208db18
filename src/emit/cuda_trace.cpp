// trace_window for a CUDA device: which kernel of etp_cuda_trace.h fits, its geometry as constants, and into
// how many parts samples are divided.
//   direct   a few steps of a dense weight, at the rate of memory
//   tile     many steps of a dense weight; Σ_k x_k⊗w_k is a product
//   any      every other pattern
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "emit/cuda_kernels.h"
#include "etrace/error.h"
#include "kernels/context.h"
#include "ops/trace_describe.h"
#include "ops/trace_window.h"

namespace etrace::emit {

namespace trace_kernels {
namespace {

constexpr Index kTileSteps = 4;          // from so many steps on, tiles pay
constexpr Index kManyThreads = 1 << 16;  // that fill a device
constexpr Index kManyTiles = 264;        // two for each multiprocessor of a large one
constexpr Index kSharedBytes = 40 * 1024;

enum Operand : std::uint8_t {
  Trace,
  Transition,
  Injection,
  Source,
  Gain,
  Entry,
  Weighted,
  Go,
  Total,
  Rounding,
  Next,
  Gradient,
  Sums,
  Table
};

struct TraceAxis {
  Index size, source, anchor, parameter;
};

class TraceStep {
 public:
  TraceStep(CudaBuilder& b, const EmitProgram& p, const Call& q)
      : b_(b), p_(p), q_(q), at_(q.params), pattern_(trace_pass::pattern_of(q.params)) {
    const etp_context anywhere = serial_context();
    trace_pass::Described described = trace_pass::describe({q.params, q.in_types, q.out_types, anywhere});
    d_ = described.d;
    tables_ = std::move(described.tables);
    for (Index i = 0; i < d_.outer_axes; ++i) {
      const auto* row = reinterpret_cast<const Index*>(tables_[0].bytes()) + 4 * i;
      axes_.push_back({row[0], row[1], row[2], row[3]});
    }
    axes_.push_back({d_.row_size, d_.row_source, d_.row_anchor, d_.row_parameter});
    axes_.push_back({d_.column_size, d_.column_source, d_.column_anchor, d_.column_parameter});
    operands();
  }

  void run() {
    if (d_.slots == 0 || d_.batch == 0) return no_slots();
    if (is_dense() && d_.steps >= kTileSteps && d_.elements > 0 && d_.outer_axes <= 1)
      tile();
    else if (is_dense() && d_.steps >= 1 && d_.steps < kTileSteps && d_.states <= 4)
      direct();
    else
      any();
  }

 private:
  void operands() {
    pointers_.resize(static_cast<std::size_t>(Table) + 3);
    const auto set = [&](Operand to, std::optional<std::size_t> operand) {
      if (operand) pointers_[to] = b_.place(q_.in[*operand]);
    };
    set(Trace, at_.trace), set(Transition, at_.transition), set(Injection, at_.injection);
    set(Source, at_.source), set(Gain, at_.gain), set(Entry, at_.entry), set(Weighted, at_.weighted);
    set(Go, at_.go), set(Total, at_.total), set(Rounding, at_.rounding);
    pointers_[Next] = b_.place(q_.out[0]);
    if (d_.has_gradient != 0) pointers_[Gradient] = b_.place(q_.out[1]);
  }

  // Rows have one source each, columns one anchor each, side by side; every slot has a parameter of its own.
  bool is_dense() const {
    return d_.gathered == 0 && d_.shared == 0 && d_.has_gain == 0 && d_.states <= 8 &&
           (d_.column_source == 0 || d_.elements == 0) && d_.column_anchor == 1 &&
           (d_.row_anchor == 0 || d_.row_size == 1) &&
           (d_.row_source == 1 || d_.row_size == 1 || d_.elements == 0) &&
           (d_.has_gradient == 0 || d_.column_parameter == 1);
  }
  // Whether columns can be read four at a time.
  Index lanes() const {
    const auto aligned = [](const CudaPlace& at) {
      return at.first % 16 == 0 &&
             std::all_of(at.time.begin(), at.time.end(), [](const auto& t) { return t.second % 16 == 0; });
    };
    for (const Operand i : {Trace, Transition, Injection, Entry, Weighted, Next})
      if (!aligned(pointers_[i])) return 1;
    for (Index a = 0; a < d_.outer_axes; ++a)
      if (axes_[static_cast<std::size_t>(a)].anchor % 4 != 0) return 1;
    return d_.column_size % 4 == 0 && d_.positions % 4 == 0 ? 4 : 1;
  }
  std::size_t width() const { return d_.dtype == ETP_F32 ? 4 : 8; }

  // Text ----------------------------------------------------------------------------------------------------
  static const char* type(Index dtype) {
    switch (dtype) {
      case ETP_F16:
        return "etp_half";
      case ETP_BF16:
        return "etp_brain";
      case ETP_F32:
        return "float";
      default:
        return "double";
    }
  }
  // Indices of a number along axes [first, last), and where they point.
  std::string walk(std::size_t first, std::size_t last) const {
    std::string text = "    etp_place at = {0, 0, 0};\n";
    for (std::size_t a = last; a-- > first;) {
      const TraceAxis& x = axes_[a];
      if (x.size == 1) continue;
      text += fmt::format(
          "    at.source += i % {0} * {1}, at.anchor += i % {0} * {2}, at.parameter += i % {0} * {3};\n",
          x.size, d_.elements > 0 ? x.source : 0, x.anchor, x.parameter);
      text += fmt::format("    i /= {};\n", x.size);
    }
    return text + "    return at;\n";
  }
  // The struct that a kernel is made for; its name.
  std::string geometry(Index parts, const std::string& more) {
    const bool weighted = d_.has_weighted != 0;
    const bool tile = more.find("staged") != std::string::npos;
    std::string text = fmt::format("  typedef {} T;\n  typedef {} S;\n", type(d_.dtype), type(d_.stored));
    const auto constant = [&](const char* name, Index value) {
      text += fmt::format("  static constexpr int64_t {} = {};\n", name, value);
    };
    constant("batch", d_.batch), constant("states", d_.states), constant("steps", d_.steps);
    constant("positions", d_.positions), constant("elements", d_.elements), constant("slots", d_.slots);
    constant("parameters", d_.parameters), constant("parts", parts);
    constant("sum_parts", parts + (tile && weighted ? 1 : 0));
    text += fmt::format(
        "  static constexpr bool has_gain = {}, has_gradient = {}, has_weighted = {}, has_total = {}, has_go "
        "= {}, has_rounding = {};\n"
        "  static constexpr bool shared = {}, direct = {};\n",
        d_.has_gain != 0, d_.has_gradient != 0, weighted, d_.has_total != 0, at_.go.has_value(),
        at_.rounding.has_value(), d_.shared != 0, parts == 1 && d_.shared == 0);
    text += more;
    const std::string name = b_.unique("trace_shape");
    b_.declare(fmt::format("struct {} {{\n{}}};\n", name, text));
    return name;
  }
  std::string dense_geometry(Index lanes, Index depth) const {
    const Index matrices = d_.slots / std::max<Index>(d_.row_size * d_.column_size, 1);
    return fmt::format(
        "  static constexpr int64_t matrices = {}, rows = {}, columns = {}, row_source = {}, row_parameter = "
        "{};\n"
        "  static constexpr int lanes = {}, depth = {};\n"
        "  ETP_DEVICE static etp_place start(int64_t i) {{\n{}  }}\n",
        matrices, d_.row_size, d_.column_size, d_.row_source, d_.row_parameter, lanes, depth,
        walk(0, axes_.size() - 2));
  }

  void launch(const char* kernel, const std::string& geometry, Index blocks) {
    CudaCode code{fmt::format("  etp_trace_{}<{}>(p);\n", kernel, geometry)};
    code.blocks = blocks;
    b_.launch(std::string("trace_") + kernel, code, pointers_, q_.eqn);
  }
  void sums(Index rows, Index length) {
    if (d_.has_gradient != 0 && rows > 0)
      pointers_[Sums] = b_.scratch(static_cast<std::size_t>(rows * length) * width());
  }
  void sum_up(const std::string& geometry) {
    if (d_.has_gradient != 0) launch("sum", geometry, (d_.parameters + 255) / 256);
  }
  Index parts_for(Index units, Index wanted) const {
    const Index most = d_.has_gradient != 0 ? std::max<Index>(d_.batch / 4, 1) : d_.batch;
    return std::clamp<Index>((wanted + units - 1) / units, 1, most);
  }

  // Forms ---------------------------------------------------------------------------------------------------
  void any() {
    const Index parts = parts_for(d_.slots, kManyThreads);
    const bool one = parts == 1 && d_.shared == 0;
    if (!one) sums(parts, d_.shared != 0 ? d_.slots : d_.parameters);
    std::string place = "  ETP_DEVICE static etp_place place(int64_t i, const etp_trace_pointers& p) {\n";
    if (d_.gathered != 0) {
      for (std::size_t k = 0; k < 3; ++k) pointers_[Table + k] = b_.constant(tables_[1 + k]);
      place +=
          "    return {((const int64_t*)p.at[ETP_TABLE])[i], ((const int64_t*)p.at[ETP_TABLE + 1])[i],\n"
          "            ((const int64_t*)p.at[ETP_TABLE + 2])[i]};\n";
    } else {
      place += "    (void)p;\n" + walk(0, axes_.size());
    }
    const std::string g = geometry(parts, place + "  }\n");
    launch("any", g, (d_.slots * parts + 255) / 256);
    if (one) return;
    if (d_.shared != 0) pointers_[Table] = b_.constant(slots_of_parameters());
    sum_up(g);
  }

  // [slots of a parameter][parameter], as the slots come.
  Tensor slots_of_parameters() const {
    const Dims strides = strides_of(pattern_.slots);
    std::vector<std::int32_t> next(static_cast<std::size_t>(d_.parameters), 0),
        out(static_cast<std::size_t>(d_.slots));
    if (d_.slots > std::numeric_limits<std::int32_t>::max())
      throw NotSupportedError("emit", "a trace has more slots that share parameters than 32 bits can count");
    for (Index s = 0; s < d_.slots; ++s) {
      Index parameter = 0, size = 1;
      for (std::size_t a = pattern_.slots.rank(); a-- > 0;) {
        const auto& positions = pattern_.position_axes;
        if (std::find(positions.begin(), positions.end(), static_cast<int>(a)) != positions.end()) continue;
        parameter += s / strides[a] % pattern_.slots[a] * size;
        size *= pattern_.slots[a];
      }
      const Index row = next[static_cast<std::size_t>(parameter)]++;
      out[static_cast<std::size_t>(row * d_.parameters + parameter)] = static_cast<std::int32_t>(s);
    }
    return Tensor::of(out, {d_.slots});
  }

  void direct() {
    const Index lanes = this->lanes(), depth = d_.states == 1 ? 8 : d_.states == 2 ? 4 : 2;
    const Index matrices = d_.slots / (d_.row_size * d_.column_size);
    const Index threads =
        (d_.column_size + lanes - 1) / lanes * ((d_.row_size + depth - 1) / depth) * matrices;
    const Index parts = parts_for(threads, kManyThreads);
    if (parts > 1) sums(parts, d_.parameters);
    const std::string g = geometry(parts, dense_geometry(lanes, depth));
    launch("direct", g, (threads * parts + 255) / 256);
    if (parts > 1) sum_up(g);
  }

  void tile() {
    const bool wide = d_.dtype == ETP_F64;
    const Index lanes = this->lanes();
    const Index depth = d_.states <= (wide ? 1 : 2) ? 4 : d_.states <= (wide ? 2 : 4) ? 2 : 1;
    Index staged = 16;
    while (staged > 1 &&
           staged * (16 * depth + d_.states * 16 * lanes) * static_cast<Index>(width()) > kSharedBytes)
      staged /= 2;
    const Index matrices = d_.slots / (d_.row_size * d_.column_size);
    const Index tiles = matrices * ((d_.row_size + 16 * depth - 1) / (16 * depth)) *
                        ((d_.column_size + 16 * lanes - 1) / (16 * lanes));
    const Index parts = parts_for(tiles, kManyTiles);
    const bool weighted = d_.has_weighted != 0;
    sums(parts == 1 ? (weighted ? 1 : 0) : parts + (weighted ? 1 : 0), d_.parameters);
    if (weighted) own_product(matrices, parts == 1 ? 0 : parts);
    const std::string g = geometry(
        parts, dense_geometry(lanes, depth) + fmt::format("  static constexpr int staged = {};\n", staged));
    launch("tile", g, tiles * parts);
    if (parts > 1) sum_up(g);
  }

  // Σ_k x_k⊗w_k of all steps and samples, into this row of the sums.
  void own_product(Index matrices, Index row) {
    CudaProduct d{d_.dtype == ETP_F32 ? Dtype::F32 : Dtype::F64,
                  d_.row_size,
                  d_.column_size,
                  d_.steps * d_.batch,
                  1,
                  d_.elements,
                  d_.positions,
                  1,
                  d_.row_size == 1 ? d_.column_size : d_.row_parameter,
                  pointers_[Source],
                  pointers_[Weighted],
                  pointers_[Sums],
                  false};
    d.c.first += row * d_.parameters * static_cast<Index>(width());
    d.eqn = q_.eqn;
    if (d_.outer_axes == 1) {
      d.batch = matrices;
      d.a_batch = axes_[0].source, d.b_batch = axes_[0].anchor, d.c_batch = axes_[0].parameter;
    }
    b_.product(std::move(d));
  }

  // Nothing but the gradient so far.
  void no_slots() {
    if (d_.has_gradient == 0 || d_.parameters == 0) return;
    const std::string g = geometry(0, "");
    pointers_[Sums] = {};
    launch("sum", g, (d_.parameters + 255) / 256);
  }

  CudaBuilder& b_;
  const EmitProgram& p_;
  const Call& q_;
  const trace_pass::Layout at_;
  const TracePattern pattern_;
  etp_trace_window d_{};
  Tensors tables_;
  std::vector<TraceAxis> axes_;  // outermost first; rows and columns last
  std::vector<CudaPlace> pointers_;
};

}  // namespace
}  // namespace trace_kernels

void cuda_trace_window(CudaBuilder& b, const EmitProgram& p, const Call& q) {
  trace_kernels::TraceStep(b, p, q).run();
}

}  // namespace etrace::emit
