// Checks, weight functions, bias and batching of the eligibility-trace operators; see the header.
#include "etp/common.h"

#include <algorithm>
#include <unordered_set>

#include "core/flow.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/shape.h"
#include "etrace/transform.h"

namespace etrace {

const EtpRules* etp_rules(const Primitive& p) { return p.spec.etp.get(); }
std::shared_ptr<const EtpRules> make_etp(EtpRules rules) {
  return std::make_shared<const EtpRules>(std::move(rules));
}

namespace etp {

bool has_bias(const Params& params) { return params.boolean_or("has_bias", false); }

// Typing ----------------------------------------------------------------------------------------------------
Operands::Operands(std::string_view op, const Params& params, std::span<const Aval> in,
                   std::initializer_list<Operand> operands)
    : op_(op), params_(params), in_(in), operands_(operands) {
  if (biased()) operands_.emplace_back("bias", "bias_fn");
  if (in.size() != operands_.size()) {
    std::string expected;
    for (const Operand& o : operands_) expected += (expected.empty() ? "" : ", ") + o.name;
    throw CompilationError(op_, "takes the operands " + expected + (biased() ? " (has_bias is true)" : "") +
                                    ", but " + std::to_string(in.size()) + " were given");
  }
  for (std::size_t i = 0; i < in.size(); ++i) seen_.push_back(seen(i));
}

Aval Operands::seen(std::size_t i) const {
  const Operand& o = operands_[i];
  const JaxprPtr fn = o.fn.empty() ? nullptr : params_.jaxpr_or_null(o.fn);
  if (fn == nullptr) return in_[i];
  const Avals from = fn->in_avals(), to = fn->out_avals();
  if (from.size() != 1 || to.size() != 1)
    throw CompilationError(op_, o.fn + " must be a function of one array, but takes " +
                                    std::to_string(from.size()) + " and gives " + std::to_string(to.size()));
  const std::string change = o.fn + " maps " + to_string(from[0]) + " to " + to_string(to[0]) + ", but " +
                             o.name + " is " + to_string(in_[i]);
  if (from[0].shape != in_[i].shape) throw ValueError(op_, change);
  if (from[0].dtype != in_[i].dtype || to[0].dtype != in_[i].dtype)
    throw TypeError(op_, change + " and must keep its element type; do the rest outside the operator");
  return to[0];
}

std::string Operands::list() const {
  std::string text;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    text += (i == 0 ? "" : ", ") + operands_[i].name + " " + to_string(in_[i]);
    if (seen_[i] != in_[i]) text += ", by " + operands_[i].fn + " " + to_string(seen_[i]);
  }
  return text;
}

void Operands::refuse(const std::string& message) const {
  throw ValueError(op_, message + " (" + list() + ")");
}

void Operands::expect(std::size_t i, const Dims& sizes) const {
  const Shape& shape = seen_[i].shape;
  bool fits = shape.rank() == sizes.size();
  for (std::size_t a = 0; fits && a < sizes.size(); ++a) fits = sizes[a] == kAny || sizes[a] == shape[a];
  if (fits) return;
  std::string expected;
  for (const std::int64_t n : sizes)
    expected += (expected.empty() ? "" : ",") + (n == kAny ? "any" : std::to_string(n));
  refuse(operands_[i].name + " has shape " + to_string(shape) + ", expected [" + expected + "]");
}

void Operands::expect_bias(const Dims& sizes) const {
  if (biased()) expect(seen_.size() - 1, sizes);
}

Avals Operands::result(const Shape& shape) const {
  Dtype dtype = seen_[0].dtype;
  for (const Aval& a : seen_) {
    structure::expect_number(op_, a.dtype, true);
    dtype = promote(dtype, a.dtype);
  }
  structure::expect_number(op_, dtype);
  return {{dtype, shape}};
}

Aval type_behind(const Params& params, std::string_view key, const Aval& w) {
  const JaxprPtr fn = key.empty() ? nullptr : params.jaxpr_or_null(key);
  return fn == nullptr ? w : fn->out_avals().at(0);
}

Avals types_behind(const EtpRules& rules, const Params& params, std::span<const Aval> in) {
  Avals out(in.begin(), in.end());
  for (const Trainable& t : rules.trainables(params))
    if (t.operand < out.size()) out[t.operand] = type_behind(params, t.fn, out[t.operand]);
  return out;
}

// Values ----------------------------------------------------------------------------------------------------
Array apply_fn(const Params& params, std::string_view key, const Array& w) {
  const JaxprPtr fn = params.jaxpr_or_null(key);
  return fn == nullptr ? w : eval_jaxpr(*fn, {&w, 1})[0];
}

Array add_bias(const Params& params, const Array& y, ArraySpan operands) {
  return has_bias(params) ? add(y, convert(apply_fn(params, "bias_fn", operands.back()), y.dtype())) : y;
}

Dtype common_dtype(ArraySpan operands) {
  Dtype dtype = operands[0].dtype();
  for (const Array& a : operands) dtype = promote(dtype, a.dtype());
  return dtype;
}

Array dense(const Array& x, const Array& weight) {
  return dot_general(x, weight, {{to_dim(x.rank()) - 1}, {0}, {}, {}});
}

Attr trace_fn(std::string_view op, std::string_view key, const WeightFn& fn, const Array& operand) {
  if (!fn) return {};
  Recording body = record({&operand.aval(), 1}, [&](ArraySpan w) { return Arrays{fn(w[0])}; });
  for (const Array& a : body.captured)
    if (a.is_tracer())
      throw CompilationError(
          std::string(op), std::string(key) + " uses a traced value of type " + to_string(a.aval()) +
                               " from outside; it may hold constants only. Apply it to the weight before the "
                               "operator instead: the gradient is pulled back through that too");
  return share(close(std::move(body)));
}

Array bind_with_bias(const Primitive& prim, Arrays operands, const Array& bias, const WeightFn& bias_fn,
                     const Params& params) {
  Attr fn;
  if (bias.defined()) {
    operands.push_back(bias);
    fn = trace_fn(prim.name(), "bias_fn", bias_fn, bias);
  }
  return bind_primitive(prim, operands,
                        params.with("has_bias", bias.defined()).with("bias_fn", std::move(fn)))[0];
}

// Rules -----------------------------------------------------------------------------------------------------
std::vector<Trainable> weight_only(const Params&) { return {{"weight", 1, "weight_fn"}}; }

std::vector<Trainable> weight_and_bias(const Params& params) {
  std::vector<Trainable> out = weight_only(params);
  if (has_bias(params)) out.push_back({"bias", 2, "bias_fn"});
  return out;
}

std::vector<bool> all_to_all(const Params&, std::int64_t n) {
  return std::vector<bool>(to_index(n * n), true);
}

Shape sample_shape(const Aval& y, bool batched) { return batched ? y.shape.without(0) : y.shape; }

AnchorMap anchored_at(const Shape& slots, std::vector<int> y_axes) {
  return {slots, std::move(y_axes), {}, {}};
}

AnchorMap anchored_at_self(const Shape& y) {
  std::vector<int> axes;
  for (std::size_t i = 0; i < y.rank(); ++i) axes.push_back(static_cast<int>(i));
  return anchored_at(y, std::move(axes));
}

std::vector<std::int64_t> anchor_positions(const AnchorMap& map, const Shape& y) {
  if (!map.table.empty()) return {map.table.begin(), map.table.end()};
  const Dims y_strides = strides_of(y), slot_strides = strides_of(map.slots);
  Dims step(map.slots.rank(), 0);  // of the position, per slot axis
  for (std::size_t a = 0; a < map.y_axes.size(); ++a)
    step[static_cast<std::size_t>(map.y_axes[a])] += y_strides[a];
  std::vector<std::int64_t> out(to_index(map.slots.size()), 0);
  for (std::size_t s = 0; s < out.size(); ++s)
    for (std::size_t a = 0; a < step.size(); ++a)
      out[s] += to_dim(s) / slot_strides[a] % map.slots[a] * step[a];
  return out;
}

std::vector<std::int64_t> source_positions(const TraceSource& source, const Shape& slots, bool batched) {
  if (!source.values.defined() || !source.table.empty()) return {source.table.begin(), source.table.end()};
  const Shape values = batched ? source.values.shape().without(0) : source.values.shape();
  AnchorMap map;
  map.slots = slots;
  map.y_axes = source.axes;
  if (source.strides.empty()) return anchor_positions(map, values);
  const Dims slot_strides = strides_of(slots);
  std::vector<std::int64_t> out(to_index(slots.size()), 0);
  for (std::size_t s = 0; s < out.size(); ++s)
    for (std::size_t a = 0; a < slots.rank(); ++a)
      out[s] += to_dim(s) / slot_strides[a] % slots[a] * source.strides[a];
  return out;
}

bool element_by_element(const ClosedJaxpr& fn) {
  for (const Eqn& eqn : fn.jaxpr.eqns)
    if (!eqn.prim->spec.elementwise) return false;
  return fn.in_avals()[0].shape == fn.out_avals()[0].shape;
}

std::optional<TraceSource> trace_source(const Params& params, std::string_view fn_key, const Array& weight,
                                        const Array& values, std::vector<int> axes) {
  TraceSource source{values, std::move(axes), {}, {}, {}};
  const JaxprPtr fn = params.jaxpr_or_null(fn_key);
  if (fn == nullptr) return source;
  if (!element_by_element(*fn)) return std::nullopt;
  const Function f = [&](ArraySpan w) { return eval_jaxpr(*fn, w); };
  source.gain = vjp(f)(Arrays{weight, full_like(weight, 1.0)})[1];
  return source;
}

// Traces ----------------------------------------------------------------------------------------------------
std::optional<std::size_t> data_read(const Avals& in, const std::vector<bool>& fixed, const Function& f) {
  const Recording body = record(in, f);
  const Reached read = backward(body.jaxpr, ids_of(body.jaxpr.outs));
  for (std::size_t i = 0; i < in.size(); ++i)
    if (!fixed[i] && read.holds(body.jaxpr.invars[i])) return i;
  return std::nullopt;
}

namespace {

// The source, unless its gain would change with the data.
void find_source(const EtpRules& rules, std::string_view key, const std::vector<bool>& fixed,
                 TraceForm& form) {
  std::optional<TraceSource> source;
  if (rules.source == nullptr) return;
  const auto varying = data_read(form.in, fixed, [&](ArraySpan operands) {
    source = rules.source(form.params, key, operands);
    return source && source->gain.defined() ? Arrays{source->gain} : Arrays{};
  });
  if (varying || !source) return;
  form.source = source;
  std::vector<bool> known = fixed;
  if (rules.x_operand) known[*rules.x_operand] = true;
  form.source_of_x = !data_read(form.in, known, [&](ArraySpan operands) {
    const Array values = rules.source(form.params, key, operands)->values;
    return values.defined() ? Arrays{values} : Arrays{};
  });
}

// Every position of y has its own slots for all elements: true of any operator.
AnchorMap anchored_everywhere(const Shape& y, const Shape& parameter) {
  AnchorMap map = anchored_at_self(y);
  map.position_axes = map.y_axes;
  Dims slots = y.to_dims();
  slots.insert(slots.end(), parameter.begin(), parameter.end());
  map.slots = Shape(slots);
  return map;
}

}  // namespace

TraceForm trace_form(const Primitive& prim, const Params& params, std::string_view key,
                     std::span<const Aval> in, const Aval& y, const std::vector<bool>& fixed,
                     bool keep_function) {
  const EtpRules& rules = *etp_rules(prim);
  Trainable own;
  for (const Trainable& t : rules.trainables(params))
    if (t.key == key) own = t;
  TraceForm form;
  form.params = params;
  form.in.assign(in.begin(), in.end());
  const JaxprPtr fn = own.fn.empty() ? nullptr : params.jaxpr_or_null(own.fn);
  const bool reshapes = fn != nullptr && fn->out_avals().at(0).shape != in[own.operand].shape;
  const auto strip = [&] {
    form.function = fn;
    form.params = params.with(own.fn, nullptr);
    form.in[own.operand] = fn->out_avals().at(0);
  };
  if (reshapes) strip();
  find_source(rules, key, fixed, form);
  if (fn != nullptr && !reshapes && !form.source && !keep_function) {
    strip();
    find_source(rules, key, fixed, form);
  }
  const Avals seen = types_behind(rules, form.params, form.in);
  if (rules.effective && rules.effective->key == key) {
    form.effective = !data_read(form.in, fixed, [&](ArraySpan operands) -> Arrays {
      return {rules.effective->weight(form.params, operands)};
    });
    if (!form.effective) {
      form.source.reset();
      form.anchors = anchored_everywhere(sample_shape(y, rules.batched), form.in[own.operand].shape);
      return form;
    }
  }
  form.anchors = rules.anchors(form.params, key, seen, y);
  return form;
}

Arrays promoting_batch(const EtpRules& rules, const LowerRule& lower, const Params& params, ArraySpan x,
                       const std::vector<bool>& batched, std::int64_t n) {
  bool x_alone = rules.batched_form != nullptr && rules.x_operand.has_value();
  for (std::size_t i = 0; x_alone && i < x.size(); ++i) x_alone = batched[i] == (i == *rules.x_operand);
  if (x_alone) return bind_primitive(*rules.batched_form, x, params);

  Avals in;
  for (std::size_t i = 0; i < x.size(); ++i)
    in.push_back(batched[i] ? Aval{x[i].dtype(), x[i].shape().without(0)} : x[i].aval());
  const Recording body = record(in, [&](ArraySpan args) { return lower(params, args); });
  BatchedArrays out = batch_eval(body.jaxpr, body.captured, x, batched, n);
  for (std::size_t i = 0; i < out.values.size(); ++i)
    out.values[i] = structure::with_batch_axis(out.values[i], out.batched[i], n);
  return out.values;
}

// Rows ------------------------------------------------------------------------------------------------------
namespace {
PrimitiveSpec common_row(const OperatorPair& pair, bool batched) {
  const std::string name = batched ? pair.batched_name : pair.name;
  return {
      .name = name,
      .doc = batched ? pair.batched_doc : pair.doc,
      .params = pair.params,
      .abstract =
          [types = pair.types, name, batched](const Params& params, std::span<const Aval> in) {
            return types({name, batched}, params, in);
          },
      .lower = pair.lower,
      .facts = pair.facts,
      .samples = [samples = pair.samples, batched](std::uint64_t seed) { return samples(seed, batched); }};
}
}  // namespace

PrimitiveSpec batched_row(const OperatorPair& pair) {
  PrimitiveSpec row = common_row(pair, true);
  EtpRules rules = pair.rules;
  rules.batched = true;
  row.etp = make_etp(std::move(rules));
  return row;
}

PrimitiveSpec single_row(const OperatorPair& pair, const Primitive& batched_form) {
  PrimitiveSpec row = common_row(pair, false);
  EtpRules rules = pair.rules;
  rules.batched_form = &batched_form;
  row.etp = make_etp(std::move(rules));
  row.batch = [rules = row.etp, lower = pair.lower](const Params& params, ArraySpan x,
                                                    const std::vector<bool>& batched, std::int64_t n) {
    return promoting_batch(*rules, lower, params, x, batched, n);
  };
  return row;
}

}  // namespace etp
}  // namespace etrace
