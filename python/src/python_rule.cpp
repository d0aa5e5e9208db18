#include "python_rule.h"
#include "gil.h"

#include "convert.h"
#include "options.h"
#include "recording.h"

namespace etrace::python {

namespace {

nb::handle rule_of_call(const PythonRuleForm& form) {
  Call* const call = Call::current();
  for (const nb::handle rule : call != nullptr ? call->rules : std::vector<nb::handle>{})
    if (rule.ptr() == form.identity) return rule;
  throw NotSupportedError("rules", form.name + " is written in Python, and no call from Python is under way");
}

Array checked(const PythonRuleForm& form, const char* function, nb::handle result, const Aval& wanted) {
  const Array a = returned(result, function);
  if (a.aval() != wanted)
    throw ValueError("rules", form.name + "." + function + " returned " + to_string(a.aval()) +
                                  ", expected " + to_string(wanted) + ": what it was given, changed");
  return a;
}

const char* word(BoundRule::SignalTo to) {
  switch (to) {
    case BoundRule::SignalTo::EachStep:
      return "each_step";
    case BoundRule::SignalTo::BeforeStep:
      return "before_step";
    case BoundRule::SignalTo::Entry:
      return "entry";
  }
  return "";
}

ParameterTraceOptions trace_options(const std::shared_ptr<const PythonRuleForm>& form) {
  ParameterTraceOptions o = form->traces;
  o.rule = form->name;
  if (form->jacobian)
    o.jacobian = [form](const Array& d) {
      const Taken gil;
      return checked(*form, "jacobian", rule_of_call(*form).attr("jacobian")(d), d.aval());
    };
  return o;
}

// While it lives the rule's arrays are what stands for them in a program.
class Standing {
 public:
  Standing(nb::handle rule, ArraySpan arrays) : rule_(rule) {
    if (!arrays.empty()) before_ = rule.attr("_stand_in")(to_list(arrays));
  }
  ~Standing() {
    if (before_.is_valid()) rule_.attr("__dict__").attr("update")(before_);
  }
  Standing(const Standing&) = delete;
  Standing& operator=(const Standing&) = delete;

 private:
  nb::handle rule_;
  nb::object before_;
};

// The rule's own arrays are slots behind the traces: programs take them as they are at every call.
class PythonTraces final : public ParameterTraces {
 public:
  PythonTraces(const ETraceGraph& graph, std::shared_ptr<const PythonRuleForm> form)
      : ParameterTraces(graph, trace_options(form)),
        form_(std::move(form)),
        traces_(ParameterTraces::slots().size()) {
    const Taken gil;
    own_ = own_arrays(rule_of_call(*form_));
  }

  std::vector<TraceSlot> slots() const override {
    std::vector<TraceSlot> out = ParameterTraces::slots();
    for (const auto& [name, value] : own_) out.push_back({name, value.aval(), PortRole::RuleParam});
    return out;
  }
  Arrays initial(std::uint64_t seed) const override {
    Arrays out = ParameterTraces::initial(seed);
    for (std::size_t i = 0; i < own_.size(); ++i) out[traces_ + i] = Array(own_[i].second);
    return out;
  }
  std::vector<EligibilityTrace> traces(ArraySpan params, ArraySpan memory) const override {
    return ParameterTraces::traces(params, memory.first(traces_));
  }
  Advanced advance(const WindowData& w, ArraySpan memory, const Signals& signals) const override {
    const ArraySpan own = memory.subspan(traces_);
    const Taken gil;
    const Standing standing(rule_of_call(*form_), own);
    Advanced out = ParameterTraces::advance(w, memory.first(traces_), signals);
    out.memory.insert(out.memory.end(), own.begin(), own.end());
    return out;
  }
  Arrays contract(const WindowData& w, ArraySpan memory, ArraySpan signal) const override {
    return ParameterTraces::contract(w, memory.first(traces_), signal);
  }
  OwnStep own_step() const override { return form_->signal ? OwnStep::Signal : ParameterTraces::own_step(); }
  Arrays learning_signal(const WindowData& w, ArraySpan memory, SignalTo to, Arrays signal) const override {
    if (!form_->signal) return ParameterTraces::learning_signal(w, memory, to, std::move(signal));
    const Taken gil;
    const Standing standing(rule_of_call(*form_), memory.subspan(traces_));
    const nb::object function = rule_of_call(*form_).attr("learning_signal");
    for (std::size_t k = 0; k < signal.size(); ++k)
      if (signal[k].defined())
        signal[k] = checked(*form_, "learning_signal", function(signal[k], k, word(to)), signal[k].aval());
    return signal;
  }

 private:
  std::shared_ptr<const PythonRuleForm> form_;
  std::size_t traces_;  // slots
  NamedTensors own_;
};

class PythonRule final : public LearningRule {
 public:
  explicit PythonRule(PythonRuleForm form) : form_(std::make_shared<const PythonRuleForm>(std::move(form))) {}
  std::string name() const override { return form_->name; }
  std::shared_ptr<const LearningRule> clone() const override { return std::make_shared<PythonRule>(*this); }
  Theory theory(bool carried) const override {
    if (form_->theory.empty()) return LearningRule::theory(carried);
    return {Theory::Approximate, form_->theory};
  }
  std::unique_ptr<const BoundRule> bind(const ETraceGraph& graph) const override {
    return std::make_unique<PythonTraces>(graph, form_);
  }

 private:
  std::shared_ptr<const PythonRuleForm> form_;
};

Rule made(nb::handle self, const nb::dict& options) {
  PythonRuleForm form;
  form.identity = self.ptr();
  const Fields fields{
      {"name", [&](nb::handle v) { form.name = text("name", v); }},
      {"theory", [&](nb::handle v) { form.theory = text("theory", v); }},
      {"signal", [&](nb::handle v) { form.signal = flag("signal", v); }},
      {"jacobian", [&](nb::handle v) { form.jacobian = flag("jacobian", v); }},
      {"trace_dtype", [&](nb::handle v) { form.traces.trace_dtype = from_object<Dtype>(v); }},
      {"memoryless", [&](nb::handle v) { form.traces.memoryless = flag("memoryless", v); }},
      {"kappa", [&](nb::handle v) { form.traces.kappa = number("kappa", v); }},
  };
  read_fields("a rule", options, fields);
  return {make_python_rule(std::move(form))};
}

}  // namespace

std::shared_ptr<const LearningRule> make_python_rule(PythonRuleForm form) {
  return std::make_shared<PythonRule>(std::move(form));
}

NamedTensors own_arrays(nb::handle rule) {
  NamedTensors out;
  for (nb::handle each : nb::iter(rule.attr("_own_arrays")()))
    out.emplace_back("rule/" + nb::cast<std::string>(each[0]), to_owned(each[1]).tensor());
  return out;
}

void bind_python_rules(nb::module_& m) { m.def("_make_python_rule", made, "rule"_a, "options"_a); }

}  // namespace etrace::python
