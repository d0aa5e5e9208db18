#include "learn/run/label_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "ops/class_label.h"

namespace etrace {

namespace {

[[noreturn]] void refuse(const char* what, std::int64_t label, const std::string& where,
                         std::int64_t classes) {
  throw ValueError(what, fmt::format("label {} {}; the loss has {} {}, numbered from 0. Nothing was changed",
                                     label, where, classes, classes == 1 ? "class" : "classes"));
}

// Labels [steps, …] from a step on.
void require(const char* what, const Tensor& labels, std::int64_t classes, std::int64_t first,
             const StepWeights& weights, const std::function<bool()>& of_samples) {
  if (!first_wrong_label(labels, classes)) return;
  const auto size = static_cast<std::size_t>(labels.size()),
             per_step = size / static_cast<std::size_t>(labels.shape()[0]);
  const bool each = weights.samples() > 1 && of_samples();
  for (std::size_t i = 0; i < size; ++i) {
    const std::int64_t label = label_at(labels, i);
    const std::size_t t = static_cast<std::size_t>(first) + i / per_step, entry = i % per_step;
    if ((label < 0 || label >= classes) && (each ? weights.counts(t, entry, per_step) : weights.counts(t)))
      refuse(what, label, fmt::format("at step {}, entry {}", t, entry), classes);
  }
}

// Where values come from unchanged: the first variable of a chain of reshapes and marks.
const Var* source_of(const Jaxpr& jaxpr, const Atom& atom) {
  const Var* v = as_var(atom);
  for (auto e = jaxpr.eqns.rbegin(); v != nullptr && e != jaxpr.eqns.rend(); ++e) {
    const bool makes_it =
        std::any_of(e->out.begin(), e->out.end(), [&](const Var& o) { return o.id == v->id; });
    if (!makes_it) continue;
    const bool same_values = e->prim == &reshape_p || e->prim == &squeeze_p || e->prim == &class_label_p;
    if (!same_values) return v;
    v = as_var(e->in[0]);
  }
  return v;
}

std::optional<std::size_t> position_of(const std::vector<Var>& vars, const Var& v) {
  for (std::size_t i = 0; i < vars.size(); ++i)
    if (vars[i].id == v.id) return i;
  return std::nullopt;
}

std::vector<std::size_t> inputs_used(const Jaxpr& jaxpr) {
  std::vector<bool> used(jaxpr.invars.size(), false);
  const auto note = [&](const Atom& a) {
    if (const Var* v = as_var(a))
      if (const auto i = position_of(jaxpr.invars, *v)) used[*i] = true;
  };
  for (const Eqn& e : jaxpr.eqns) std::for_each(e.in.begin(), e.in.end(), note);
  std::for_each(jaxpr.outs.begin(), jaxpr.outs.end(), note);
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i]) out.push_back(i);
  return out;
}

}  // namespace

struct LabelCheck::Uses {
  struct Use {
    std::int64_t classes;
    std::optional<std::size_t> slice;    // the labels are this slice
    std::optional<Executable> computed;  // or this program of all inputs

    // Whether each sample has labels of its own, in front of a step's.
    bool of_samples(const SampleAxis& axis) const {
      if (slice) return axis.why_not(*slice).empty();
      const ClosedJaxpr& labels = computed->program();
      return axis.why_not(labels, inputs_used(labels.jaxpr)).empty();
    }
  };
  std::vector<Use> all;
  Avals inputs;  // of the step function's program
  std::size_t num_slices;
  std::int64_t steps;  // that it sees at once
  bool time_axis;      // of its slices

  explicit Uses(const StepProgram& p)
      : inputs(p.program.in_avals()),
        num_slices(p.num_slices),
        steps(p.window.value_or(1)),
        time_axis(p.window.has_value()) {
    const ClosedJaxpr flat = inline_calls(p.program);
    for (const Eqn& e : flat.jaxpr.eqns)
      if (e.prim == &class_label_p) add(flat, e);
  }

  void add(const ClosedJaxpr& program, const Eqn& mark) {
    const std::int64_t classes = mark.params.integer("classes");
    if (const Var* source = source_of(program.jaxpr, mark.in[0]))
      if (const auto i = position_of(program.jaxpr.invars, *source)) {
        if (*i < num_slices) all.push_back({classes, i, std::nullopt});
        return;
      }
    ClosedJaxpr labels = program;
    labels.jaxpr.outs = {mark.in[0]};
    labels = eliminate_dead_code(labels);
    const std::vector<std::size_t> needed = inputs_used(labels.jaxpr);
    if (!needed.empty() && needed.back() >= num_slices) return;  // known only once the model has run
    all.push_back({classes, std::nullopt, Executable(std::move(labels))});
  }

  // The labels of a call of the step function.
  static Tensor labels_of(const Use& use, const Avals& types, ArraySpan slices) {
    if (use.slice) return slices[*use.slice].tensor();
    Tensors in;
    for (const Array& s : slices) in.push_back(s.tensor());
    for (std::size_t i = in.size(); i < types.size(); ++i)
      in.push_back(zeros(types[i].shape, types[i].dtype).tensor());
    return (*use.computed)(in)[0];
  }

  void sequences(const char* what, ArraySpan data, std::int64_t first, std::int64_t calls,
                 const StepWeights& weights, const SampleAxis& axis) const {
    for (const Use& use : all) {
      if (use.slice) {
        require(what, slice_axis(data[*use.slice], 0, first, first + calls * steps).tensor(), use.classes,
                first, weights, [&] { return use.of_samples(axis); });
        continue;
      }
      for (std::int64_t c = 0; c < calls; ++c) computed(what, use, data, first + c * steps, weights, axis);
    }
  }

  void computed(const char* what, const Use& use, ArraySpan all, std::int64_t first,
                const StepWeights& weights, const SampleAxis& axis) const {
    const auto of_samples = [&] { return use.of_samples(axis); };
    Arrays slices;
    for (const Array& a : all) {
      const Array part = slice_axis(a, 0, first, first + steps);
      slices.push_back(time_axis ? part : squeeze(part, {0}));
    }
    const Tensor labels = labels_of(use, inputs, slices);
    if (time_axis && labels.shape().rank() > 0 && labels.shape()[0] == steps)
      return require(what, labels, use.classes, first, weights, of_samples);
    for (std::int64_t t = first; t < first + steps; ++t)  // all of it belongs to all of these steps
      if (weights.counts(static_cast<std::size_t>(t)))
        return require(what, expand_dims(Array(labels), {0}).tensor(), use.classes, t, weights, of_samples);
  }
};

LabelCheck::LabelCheck(const StepProgram& program) : uses_(std::make_unique<Uses>(program)) {}
LabelCheck::~LabelCheck() = default;
LabelCheck::LabelCheck(LabelCheck&&) noexcept = default;
LabelCheck& LabelCheck::operator=(LabelCheck&&) noexcept = default;

bool LabelCheck::empty() const { return uses_->all.empty(); }

std::optional<std::vector<LabelCheck::Slice>> LabelCheck::slices() const {
  std::vector<Slice> out;
  for (const Uses::Use& use : uses_->all) {
    if (!use.slice) return std::nullopt;
    out.push_back({*use.slice, use.classes});
  }
  return out;
}

void LabelCheck::sequences(const char* what, ArraySpan sequences, const Array& given, const SampleAxis& axis,
                           std::int64_t begin, std::int64_t end) const {
  if (empty() || begin == end) return;
  uses_->sequences(what, sequences, begin, (end - begin) / uses_->steps, StepWeights(given), axis);
}

void LabelCheck::step(const char* what, ArraySpan slices) const {
  for (const Uses::Use& use : uses_->all) {
    const Tensor labels = Uses::labels_of(use, uses_->inputs, slices);
    if (const auto wrong = first_wrong_label(labels, use.classes))
      refuse(what, label_at(labels, *wrong), fmt::format("in entry {}", *wrong), use.classes);
  }
}

}  // namespace etrace
