// Learner.step: one step called from a Python loop, with as little around it as can be.
//
// Arrays and buffers are read where they lie; anything else goes the general way. The GIL is kept while a
// step is short: to give it away and get it back from a busy thread can take as long as the switch interval,
// 5 ms.
#include <chrono>

#include "convert.h"
#include "gil.h"
#include "learner.h"

namespace etrace::python {

namespace {

constexpr double kShort = 50e-6;  // seconds

// What a step gave. There is one for each kind of step; the next step overwrites it.
struct StepView {
  std::shared_ptr<Core> core;
  const Learner::StepResult* result = nullptr;
  double loss = 0.0;

  const Learner::StepResult& get() const {
    require_no_other_thread(*core);
    if (result == nullptr)
      throw Error("step",
                  "the result of this step is gone: a later step has failed, or bind_step() was called");
    return *result;
  }
};

// The numbers themselves: what the next step writes is another matter.
Array copied(const Array& a) { return Array(Tensor::copy_of(a.aval(), a.tensor().bytes())); }
nb::tuple results_of(const StepView& v) {
  nb::list out;
  for (const Array& a : v.get().results) out.append(nb::cast(copied(a)));
  return nb::tuple(out);
}
ParamValues grads_of(const StepView& v) {
  ParamValues out = v.get().grads;
  if (out.leaves.empty())
    throw ValueError("step",
                     "this step gave no gradients: it had no target, or an optimiser has used them up");
  for (Array& a : out.values) a = copied(a);
  return out;
}

std::optional<Dtype> element(const Py_buffer& b) {
  const char* f = b.format == nullptr ? "" : b.format;
  if (f[0] == '\0' || f[1] != '\0') return std::nullopt;
  switch (f[0]) {
    case 'f':
      return Dtype::F32;
    case 'd':
      return Dtype::F64;
    case '?':
      return Dtype::Bool;
    case 'i':
    case 'l':
    case 'q':
      if (b.itemsize == 4) return Dtype::I32;
      if (b.itemsize == 8) return Dtype::I64;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

// An argument of a step, borrowed for the call.
class Fed {
 public:
  Fed() = default;
  ~Fed() {
    if (held_) PyBuffer_Release(&view_);
  }
  Fed(const Fed&) = delete;
  Fed& operator=(const Fed&) = delete;

  void read(nb::handle h, Dtype working) {
    if (is_array(h)) {
      array = nb::cast<const Array&>(h);
      return;
    }
    if (PyObject_CheckBuffer(h.ptr()) != 0 && over_buffer(h, working)) return;
    array = adapted(h, working);
  }
  Array array;

 private:
  bool over_buffer(nb::handle h, Dtype working) {
    if (PyObject_GetBuffer(h.ptr(), &view_, PyBUF_RECORDS_RO) != 0) {
      PyErr_Clear();
      return false;
    }
    held_ = true;
    const std::optional<Dtype> dtype = element(view_);
    if (!dtype || (is_floating(*dtype) && *dtype != working) || view_.buf == nullptr || view_.len == 0 ||
        PyBuffer_IsContiguous(&view_, 'C') == 0 ||
        reinterpret_cast<std::uintptr_t>(view_.buf) % size_of(*dtype) != 0)
      return false;
    const std::span<const std::int64_t> dims(reinterpret_cast<const std::int64_t*>(view_.shape),
                                             static_cast<std::size_t>(view_.ndim));
    array = Array(Tensor::over({*dtype, Shape(dims)}, view_.buf));
    return true;
  }

  Py_buffer view_{};
  bool held_ = false;
};

nb::object& view_of(LearnerObject& l, bool learned) {
  nb::object& place = learned ? l.learned : l.evolved;
  if (!place.is_valid()) place = nb::cast(StepView{l.core});
  return place;
}

template <class F>
const Learner::StepResult& timed(LearnerObject& l, const F& f) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const Learner::StepResult* result = nullptr;
  if (l.step_seconds < kShort) {
    result = &f();
  } else {
    const Released free;
    result = &f();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  l.step_seconds += 0.1 * (seconds - l.step_seconds);
  return *result;
}

nb::object run(LearnerObject& l, ArraySpan args, const Array* target) {
  const Use use(*l.core);
  Call call;  // the loss is recorded by the first step with a target
  LongCall::prepare(call, l);
  follow_rule(l);
  call.function = l.loss;
  const nb::object view = view_of(l, target != nullptr);
  auto& result = *nb::inst_ptr<StepView>(view);
  result.result = nullptr;
  Learner& learner = l.core->learner;
  const Learner::StepResult& r = timed(l, [&]() -> const Learner::StepResult& {
    return target != nullptr ? learner.step(args, *target) : learner.step(args);
  });
  result.result = &r;
  result.loss = r.loss;
  return view;
}

nb::object step(LearnerObject& l, nb::handle x, nb::handle target) {
  const Dtype working = l.working;
  Fed y;
  const bool learns = !target.is_none();
  if (learns) y.read(target, working);
  if (!PyTuple_CheckExact(x.ptr())) {
    Fed only;
    only.read(x, working);
    return run(l, ArraySpan(&only.array, 1), learns ? &y.array : nullptr);
  }
  const auto n = static_cast<std::size_t>(nb::len(x));
  const auto fed = std::make_unique<Fed[]>(n);
  Arrays args(n);
  for (std::size_t i = 0; i < n; ++i) {
    fed[i].read(x[i], working);
    args[i] = fed[i].array;
  }
  return run(l, args, learns ? &y.array : nullptr);
}

void bind_step(LearnerObject& l, nb::object loss, std::shared_ptr<optim::Optimizer> optimizer) {
  const Use use(*l.core);
  l.core->learner.bind_step(loss_of_call, optimizer.get());
  for (nb::object* each : {&l.evolved, &l.learned}) {
    if (each->is_valid()) nb::inst_ptr<StepView>(*each)->result = nullptr;
    each->reset();
  }
  l.loss = std::move(loss);
  l.optimizer = std::move(optimizer);
}

// What the same steps take when C++ calls them, for benchmarks: seconds of n.
double seconds_of_steps(LearnerObject& l, nb::handle x, nb::handle target, std::int64_t n) {
  using Clock = std::chrono::steady_clock;
  const Array a = adapted(x, l.working), b = target.is_none() ? Array() : adapted(target, l.working);
  LongCall call(l);
  call.call.function = l.loss;
  return call.run([&] {
    const Clock::time_point begin = Clock::now();
    for (std::int64_t i = 0; i < n; ++i) b.defined() ? l.core->learner.step(a, b) : l.core->learner.step(a);
    return std::chrono::duration<double>(Clock::now() - begin).count();
  });
}

void prepare(LearnerObject& l, nb::handle target) {
  std::optional<Aval> type;
  if (!target.is_none()) type = adapted(target, l.working).aval();
  LongCall call(l);
  call.call.function = l.loss;
  call.run([&] {
    if (type)
      l.core->learner.prepare(*type);
    else
      l.core->learner.prepare();
  });
}

constexpr const char* kStep = R"(One step, on buffers that are bound once.

With a target there are loss and gradient or, if bind_step() was given an optimiser, the update. `x` is the
argument of the model, or a tuple of its arguments. What comes back has `loss`, `results` and `grads`; reading
`results` or `grads` copies them, and the next step overwrites what was not read.)";

}  // namespace

Array adapted(nb::handle h, Dtype working) {
  const Array a = to_array(h);
  if (is_array(h) || a.is_weak() || !is_floating(a.dtype()) || a.dtype() == working) return a;
  return convert(a, working);
}

void bind_steps(nb::class_<LearnerObject>& c, nb::module_& m) {
  nb::class_<StepView>(m, "StepResult", "What a step of Learner.step gave. The next step overwrites it.")
      .def_ro("loss", &StepView::loss, "NaN without a target.")
      .def_prop_ro("results", results_of, "The results of the model, a tuple of arrays.")
      .def_prop_ro(
          "result", [](const StepView& v) { return copied(v.get().results.at(0)); }, "The first result.")
      .def_prop_ro("grads", grads_of, "With a target and no optimiser: the gradients of this step.")
      .def("__repr__", [](const StepView& v) { return "StepResult(loss=" + std::to_string(v.loss) + ")"; });
  c.def("step", step, "x"_a.none(), "target"_a = nb::none(), kStep)
      .def("_bind_step", bind_step, "loss"_a, "optimizer"_a.none())
      .def("_seconds_of_steps", seconds_of_steps, "x"_a, "target"_a.none(), "n"_a)
      .def(
          "prepare", prepare, "target"_a = nb::none(),
          "Makes the programs of step(x) and, with an example target, of step(x, target), and runs nothing.");
}

}  // namespace etrace::python
