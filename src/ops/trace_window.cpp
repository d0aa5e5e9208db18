// Rules of trace_window; the native code is in trace_window_kernel.cpp.
#include "ops/trace_window.h"

#include <algorithm>

#include "etrace/emission.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/index.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "kernels/context.h"
#include "ops/stochastic_round.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

// Patterns --------------------------------------------------------------------------------------------------
namespace {

std::vector<std::int64_t> places(const Shape& slots, const Dims& strides, const SharedList& table) {
  if (!table.empty()) return {table.begin(), table.end()};
  const Dims slot_strides = strides_of(slots);
  std::vector<std::int64_t> out(to_index(slots.size()), 0);
  for (std::size_t s = 0; s < out.size(); ++s)
    for (std::size_t a = 0; a < strides.size(); ++a)
      out[s] += to_dim(s) / slot_strides[a] % slots[a] * strides[a];
  return out;
}

bool is_position(const TracePattern& p, std::size_t axis) {
  return std::find(p.position_axes.begin(), p.position_axes.end(), static_cast<int>(axis)) !=
         p.position_axes.end();
}

}  // namespace

Dims TracePattern::parameter_dims() const {
  Dims out;
  for (std::size_t a = 0; a < slots.rank(); ++a)
    if (!is_position(*this, a)) out.push_back(slots[a]);
  return out;
}

std::vector<std::int64_t> TracePattern::anchors() const {
  return places(slots, anchor_strides, anchor_table);
}
std::vector<std::int64_t> TracePattern::sources() const {
  return places(slots, source_strides, source_table);
}

namespace trace_pass {

Layout::Layout(const Params& params) {
  if (params.boolean_or("has_source", false)) source = count++;
  if (params.boolean_or("has_gain", false)) gain = count++;
  if (params.boolean_or("has_entry", false)) entry = count++;
  if (params.boolean_or("has_weighted", false)) weighted = count++;
  if (params.boolean_or("has_rounding", false)) rounding = count++;
  if (params.boolean_or("has_go", false)) go = count++;
  if (params.boolean_or("has_total", false)) total = count++;
}

TracePattern pattern_of(const Params& params) {
  TracePattern p;
  p.slots = Shape(params.dims("slots"));
  for (const std::int64_t a : params.dims_or("position_axes", {}))
    p.position_axes.push_back(static_cast<int>(a));
  p.anchor_strides = params.dims_or("anchor_strides", {});
  p.source_strides = params.dims_or("source_strides", {});
  if (const Attr* table = params.find("anchor_table")) p.anchor_table = SharedList(*table);
  if (const Attr* table = params.find("source_table")) p.source_table = SharedList(*table);
  return p;
}

}  // namespace trace_pass

namespace {

constexpr const char* kOp = "trace_window";

void expect_shape(const char* what, const Aval& found, const Shape& expected) {
  if (found.shape != expected)
    refuse(kOp,
           std::string(what) + " has shape " + to_string(found.shape) + ", expected " + to_string(expected));
}

Avals abstract(const Params& params, std::span<const Aval> in) {
  const trace_pass::Layout at(params);
  expect_operands(kOp, in, at.count);
  const TracePattern p = trace_pass::pattern_of(params);
  const Shape &e = in[at.trace].shape, &q = in[at.injection].shape;
  if (e.rank() != p.slots.rank() + 2 || q.rank() != 4)
    refuse(kOp, "the trace has type " + to_string(in[at.trace]) + " and the injection " +
                    to_string(in[at.injection]) +
                    "; expected [batch, states, slots…] and [steps, states, "
                    "batch, positions] with slots " +
                    to_string(p.slots));
  const std::int64_t batch = e[0], states = e[1], steps = q[0], positions = q[3];
  Dims slots = p.slots.to_dims();
  slots.insert(slots.begin(), {batch, states});
  expect_shape("the trace", in[at.trace], Shape(slots));
  expect_shape("the injection", in[at.injection], {steps, states, batch, positions});
  expect_shape("the transition", in[at.transition], {states, states, batch, positions});
  if (at.source) {
    const Shape& x = in[*at.source].shape;
    if (x.rank() != 3 || x[0] != steps || x[1] != batch)
      refuse(kOp, "the source has shape " + to_string(x) + ", expected [" + std::to_string(steps) + "," +
                      std::to_string(batch) + ",elements]");
  }
  const Shape parameter(p.parameter_dims());
  if (at.gain) expect_shape("the gain", in[*at.gain], parameter);
  if (at.entry) expect_shape("the entry signal", in[*at.entry], {states, batch, positions});
  if (at.weighted) expect_shape("the weighted signal", in[*at.weighted], {steps, batch, positions});
  if (at.total) {
    if (!at.entry) refuse(kOp, "a gradient so far, but no signal that adds to it");
    expect_shape("the gradient so far", in[*at.total], parameter);
  }
  const Dtype dtype = in[at.injection].dtype;
  if (at.go && in[*at.go] != Aval{Dtype::Bool, {}})
    refuse_type(kOp, "whether to go on is said by " + to_string(in[*at.go]) + ", expected bool[]");
  const Dtype stored = in[at.trace].dtype;
  if (at.rounding && (in[*at.rounding] != Aval{Dtype::U32, {}} || size_of(stored) != 2))
    refuse_type(kOp, "a trace of type " + to_string(in[at.trace]) + " has the rounding key " +
                         to_string(in[*at.rounding]) + "; expected u32[], and for traces of 16 bits alone");
  for (std::size_t i = 1; i < in.size(); ++i)
    if (at.go == i || at.rounding == i)
      continue;
    else if (in[i].dtype != dtype || !is_floating(dtype))
      refuse_type(kOp, "operand " + std::to_string(i) + " has type " + to_string(in[i]) +
                           "; all but the trace must be float32, or all float64");
  expect_number(kOp, dtype);
  if (!is_floating(in[at.trace].dtype)) refuse_type(kOp, "the trace has type " + to_string(in[at.trace]));
  Avals out{in[at.trace]};
  if (at.entry) out.push_back({dtype, parameter});
  return out;
}

Arrays lower(const Params& params, ArraySpan x) {
  const trace_pass::Layout at(params);
  const TracePattern p = trace_pass::pattern_of(params);
  const std::int64_t batch = x[0].shape()[0], states = x[0].shape()[1], n = p.slots.size();
  const Dtype dtype = x[at.injection].dtype();
  const Array anchor = Tensor::of(p.anchors(), {n});
  const auto at_anchor = [&](const Array& v) { return take(v, anchor, -1); };
  const Array old = reshape(convert(x[at.trace], dtype), {1, batch, states, n});
  // [a, b, c, s]
  const Array move = transpose(at_anchor(x[at.transition]), {0, 2, 1, 3});
  Array next = transpose(reduce_sum(move * old, {2}), {1, 0, 2});  // [b, a, s]

  Array data, gain;  // x [K, 1, b, s], gain [s]
  if (at.source) data = expand_dims(take(x[*at.source], Array(Tensor::of(p.sources(), {n})), -1), {1});
  if (at.gain) {
    Dims axes;
    for (std::size_t a = 0; a < p.slots.rank(); ++a)
      if (!is_position(p, a)) axes.push_back(to_dim(a));
    gain = reshape(broadcast_in_dim(x[*at.gain], p.slots, axes), {n});
  }
  const auto injected = [&](Array v) {  // Σ_k gain·x·v, v [K, m, b, p] -> [m, b, s]
    v = at_anchor(v);
    if (data.defined()) v = v * data;
    v = reduce_sum(v, {0});
    return gain.defined() ? v * gain : v;
  };
  next = next + transpose(injected(x[at.injection]), {1, 0, 2});
  const auto if_it_goes_on = [&](const Array& then, const Array& otherwise) {
    return at.go ? select_n(x[*at.go], Arrays{otherwise, then}) : then;
  };
  next = if_it_goes_on(next, reshape(old, {batch, states, n}));
  Arrays out{stochastic_round(reshape(next, x[at.trace].shape().to_dims()), x[at.trace].dtype(),
                              at.rounding ? x[*at.rounding] : Array())};
  if (!at.entry) return out;
  const Array signal = transpose(at_anchor(x[*at.entry]), {1, 0, 2});  // [b, c, s]
  Array gradient = reduce_sum(signal * reshape(old, {batch, states, n}), {0, 1});
  if (at.weighted) gradient = gradient + reduce_sum(injected(expand_dims(x[*at.weighted], {1})), {0, 1});
  Dims positions;
  for (const int a : p.position_axes) positions.push_back(a);
  gradient = reduce_sum(reshape(gradient, p.slots.to_dims()), positions);
  gradient = if_it_goes_on(gradient, full({}, 0.0, dtype));
  out.push_back(at.total ? x[*at.total] + gradient : gradient);
  return out;
}

Params params_of(const TracePattern& p, const TraceWindow& w) {
  Dims positions(p.position_axes.begin(), p.position_axes.end());
  Params out{{"slots", p.slots},
             {"position_axes", positions},
             {"anchor_strides", p.anchor_strides},
             {"anchor_table", p.anchor_table.attr()},
             {"source_strides", p.source_strides},
             {"source_table", p.source_table.attr()},
             {"has_source", w.source.defined()},
             {"has_gain", w.gain.defined()},
             {"has_entry", w.entry.defined()},
             {"has_weighted", w.weighted.defined()},
             {"has_total", w.total.defined()}};
  if (w.rounding.defined()) out = out.with("has_rounding", true);
  if (w.go.defined()) out = out.with("has_go", true);
  return w.name.empty() ? out : out.with("trace", w.name);
}

Arrays operands_of(const TraceWindow& w) {
  Arrays x{w.trace, w.transition, w.injection};
  for (const Array* a : {&w.source, &w.gain, &w.entry, &w.weighted, &w.rounding, &w.go, &w.total})
    if (a->defined()) x.push_back(*a);
  return x;
}

// Dense, sparse, convolution-like, bias-like slots; with and without source, gain and gradient. `gradient`
// counts what it has: entry, weighted, total.
Samples samples(std::uint64_t seed) {
  Source r(seed);
  Samples out;
  const auto add = [&](const TracePattern& p, std::int64_t positions, std::int64_t elements, bool gain,
                       int gradient, Dtype dtype = Dtype::F64, std::optional<Dtype> stored = {},
                       std::optional<std::int64_t> steps = {}, std::optional<std::int64_t> states = {}) {
    const std::int64_t b = r.integer(1, 3), m = states.value_or(r.integer(1, 3)),
                       k = steps.value_or(r.integer(1, 5));
    Dims e = p.slots.to_dims();
    e.insert(e.begin(), {b, m});
    TraceWindow w;
    w.trace = r.floats(Shape(e), dtype);
    w.transition = r.floats({m, m, b, positions}, dtype);
    w.injection = r.floats({k, m, b, positions}, dtype);
    if (elements > 0) w.source = r.floats({k, b, elements}, dtype);
    if (gain) w.gain = r.floats(Shape(p.parameter_dims()), dtype);
    if (gradient > 0) w.entry = r.floats({m, b, positions}, dtype);
    if (gradient > 1) w.weighted = r.floats({k, b, positions}, dtype);
    if (gradient > 2) w.total = r.floats(Shape(p.parameter_dims()), dtype);
    if (stored) w.trace = convert(w.trace, *stored);
    out.push_back({operands_of(w), params_of(p, w), !stored});
    if (stored && size_of(*stored) == 2) {
      w.rounding = full({}, 123456789.0, Dtype::U32);
      out.push_back({operands_of(w), params_of(p, w), false});
    }
    if (out.size() % 4 != 0) return;
    w.go = full({}, out.size() % 8 == 0, Dtype::Bool);
    out.push_back({operands_of(w), params_of(p, w), !stored});
  };
  const std::int64_t i = r.integer(1, 4), o = r.integer(1, 5), g = r.integer(1, 3);
  const TracePattern dense{{i, o}, {}, {0, 1}, {}, {1, 0}, {}};
  add(dense, o, i, false, 2);
  add(dense, o, i, true, 2);
  add(dense, o, i, false, 1);
  add(dense, o, i, false, 0);
  add(dense, o, i, false, 2, Dtype::F32);
  for (const Dtype stored : {Dtype::F32, Dtype::F16, Dtype::BF16})
    add(dense, o, i, false, 2, Dtype::F64, stored);
  // As many rows as have code of their own for one step, and columns that fill no vector.
  const std::int64_t wide = r.integer(8, 10);
  const TracePattern tall{{wide, 9}, {}, {0, 1}, {}, {1, 0}, {}};
  for (const auto& [gradient, dtype] : {std::pair(0, Dtype::F64), {2, Dtype::F64}, {3, Dtype::F32}})
    add(tall, 9, wide, false, gradient, dtype, {}, 1);
  add({{g, wide, o}, {}, {o, 0, 1}, {}, {wide, 1, 0}, {}}, g * o, g * wide, false, 3, Dtype::F64, {}, 1);
  // Traces in less memory: rows longer than the room through which they pass.
  const TracePattern longer{{9, 270}, {}, {0, 1}, {}, {1, 0}, {}};
  for (const Dtype stored : {Dtype::F16, Dtype::BF16})
    for (const std::int64_t steps : {1, 6}) add(longer, 270, 9, false, 3, Dtype::F32, stored, steps);
  add(dense, o, i, true, 3);
  add({{o, i}, {}, {1, 0}, {}, {0, 1}, {}}, o, i, true, 2);                    // the weight transposed
  add({{g, i, o}, {}, {o, 0, 1}, {}, {i, 1, 0}, {}}, g * o, g * i, false, 2);  // grouped
  add({{g, i, o}, {0}, {o, 0, 1}, {}, {i, 1, 0}, {}}, g * o, g * i, true, 2);  // shared over positions
  add({{o}, {}, {1}, {}, {}, {}}, o, 0, true, 2);                              // bias
  Dims rows, cols;
  for (std::int64_t n = r.integer(1, 6); n > 0; --n) {
    rows.push_back(r.integer(0, i - 1));
    cols.push_back(r.integer(0, o - 1));
  }
  for (const int gradient : {2, 3})
    add({{to_dim(rows.size())}, {}, {}, cols, {}, rows}, o, i, true, gradient);  // sparse
  add({{0, o}, {}, {0, 1}, {}, {1, 0}, {}}, o, 1, false, 2);
  // Many states per slot: dense, shared over positions, sparse.
  const TracePattern few{{2, 3}, {}, {0, 1}, {}, {1, 0}, {}};
  add(few, 3, 2, true, 3, Dtype::F64, {}, 2, 8);
  add({{2, 1, 2}, {0}, {2, 0, 1}, {}, {1, 1, 0}, {}}, 4, 2, true, 2, Dtype::F64, Dtype::F16, 1, 8);
  add({{to_dim(rows.size())}, {}, {}, cols, {}, rows}, o, i, false, 1, Dtype::F32, {}, 1, 9);
  // Kernels of 2 × 1 taps over an image of 4 × 2, channels last and channels first, and their biases.
  for (const std::int64_t channels : {o, std::int64_t{9}}) {
    add({{3, 2, 2, i, channels}, {0, 1}, {2 * channels, channels, 0, 0, 1}, {}, {2 * i, i, 2 * i, 1, 0}, {}},
        6 * channels, 8 * i, true, 3);
    add({{3, 2, channels, i, 2}, {0, 1}, {2, 1, 6, 0, 0}, {}, {2, 1, 0, 8, 2}, {}}, 6 * channels, 8 * i,
        false, 2);
  }
  add({{3, 2, o}, {0, 1}, {2 * o, o, 1}, {}, {}, {}}, 6 * o, 0, false, 3);
  add({{o, 3, 2}, {1, 2}, {6, 2, 1}, {}, {}, {}}, 6 * o, 0, true, 2);
  add({{3, 2, 2, i, 8}, {0, 1}, {16, 8, 0, 0, 1}, {}, {2 * i, i, 2 * i, 1, 0}, {}}, 48, 8 * i, false, 2,
      Dtype::F64, Dtype::F16);
  return out;
}

}  // namespace

const Primitive trace_window_p{{
    .name = kOp,
    .doc = "e ← P·e + gain·Σ_k x_k·q_k at every slot's anchor, and the gradient (so far +) u·e + "
           "gain·Σ_k x_k·w_k",
    .params = {"slots", "position_axes", "anchor_strides", "anchor_table", "source_strides", "source_table",
               "has_source", "has_gain", "has_entry", "has_weighted", "has_rounding", "has_go", "has_total",
               "trace", "form", "threads"},
    .abstract = abstract,
    .kernel = trace_pass::make_kernel,
    .lower = lower,
    .emit = [](const EmitRequest&) -> Emission { return KernelCode{}; },
    .samples = samples,
}};

TraceWindowResult trace_window(const TracePattern& p, const TraceWindow& w) {
  const Arrays out = bind_primitive(trace_window_p, operands_of(w), params_of(p, w));
  return {out[0], out.size() > 1 ? out[1] : Array()};
}

// How a pass runs -------------------------------------------------------------------------------------------
namespace {

constexpr std::pair<TraceForm, const char*> kForms[] = {
    {TraceForm::Step, "step"}, {TraceForm::Tiles, "tiles"}, {TraceForm::Products, "products"},
    {TraceForm::Rows, "rows"}, {TraceForm::Lines, "lines"}, {TraceForm::Patches, "patches"},
    {TraceForm::Wide, "wide"},
};

// Calls f with what a kernel of the equation is made from.
template <class F>
auto with_request(const Eqn& eqn, const F& f) {
  Avals in, out;
  for (const Atom& a : eqn.in) in.push_back(aval_of(a));
  for (const Var& v : eqn.out) out.push_back(v.aval);
  const etp_context context = default_context();
  return f(KernelRequest{eqn.params, in, out, context});
}

}  // namespace

const char* name(TraceForm form) {
  return std::find_if(std::begin(kForms), std::end(kForms), [&](const auto& f) { return f.first == form; })
      ->second;
}
std::optional<TraceForm> trace_form(std::string_view name) {
  for (const auto& [form, text] : kForms)
    if (name == text) return form;
  return std::nullopt;
}
bool concerns(TraceForm form, std::int64_t steps) {
  if (form == TraceForm::Step) return steps == 1;
  return (form != TraceForm::Tiles && form != TraceForm::Products) || steps > 1;
}

TracePass trace_pass_of(const Eqn& eqn) {
  trace_pass::Choice choice =
      with_request(eqn, [](const KernelRequest& r) { return trace_pass::choice_of(r); });
  return {eqn.params.text_or("trace", ""), aval_of(eqn.in[2]).shape[0], choice.form, choice.threads,
          std::move(choice.reason)};
}
std::vector<TraceForm> forms_that_fit(const Eqn& eqn) {
  return with_request(eqn, [](const KernelRequest& r) { return trace_pass::forms_that_fit(r); });
}

}  // namespace etrace
