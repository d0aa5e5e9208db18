// A stateful step becomes a program: states are inputs and outputs, in the order in which the step first
// touched them.
#include "etrace/error.h"
#include "module/stateful_trace.h"

namespace etrace {

namespace {

thread_local StatefulTrace* active_trace = nullptr;
constexpr const char* kModeName = "training_mode";

Role role_of(const State& state) {
  if (is_a(state.kind(), StateKind::Param)) return Role::Param;
  return is_a(state.kind(), StateKind::Hidden) ? Role::Hidden : Role::Other;
}

OutputRecord bare_record(Role role, std::size_t index) {
  OutputRecord r;
  r.role = role;
  r.index = static_cast<std::int64_t>(index);
  return r;
}

InputRecord input_record(OutputRecord record, Tensor init = {}) {
  InputRecord r;
  static_cast<OutputRecord&>(r) = std::move(record);
  r.init = std::move(init);
  return r;
}

}  // namespace

StatefulTrace* StatefulTrace::active() { return active_trace; }

StatefulTrace::StatefulTrace(const Module& root) : known_(states(root)) {
  if (active_trace != nullptr)
    throw NotSupportedError("trace_step", "a step is being traced already; trace the outermost module only",
                            OriginScope::current());
  for (const StateEntry& entry : known_) paths_.emplace(entry.state, entry.path);
  paths_.emplace(root.mode_.get(), StatePath{kModeName});
  active_trace = this;
}

StatefulTrace::~StatefulTrace() {
  active_trace = nullptr;
  for (Touched& t : touched_)
    for (std::size_t i = 0; i < t.before.size(); ++i) t.state->leaves_[i].exchange(std::move(t.before[i]));
}

void StatefulTrace::touch(const State& state) {
  if (!index_.emplace(&state, touched_.size()).second) return;
  Arrays before;
  for (const VersionedArray& leaf : state.leaves_) {
    leaf.get();
    before.push_back(leaf.exchange(recorder_->input(leaf.aval())));
  }
  touched_.push_back({&state, std::move(before)});
}

std::string StatefulTrace::path_text(const State& state) const {
  const auto it = paths_.find(&state);
  return std::string(state.type()) + " " +
         (it == paths_.end() ? "outside of the module" : to_string(it->second));
}

void StatefulTrace::require_writable(const State& state) const {
  if (is_a(state.kind(), StateKind::Param))
    throw NotSupportedError("trace_step",
                            path_text(state) +
                                " was written during a step; parameters change between steps only. Use a "
                                "ShortTermState or LongTermState for what a step changes",
                            OriginScope::current());
  // LIMIT: no state is written inside a body. A value of the body cannot leave it except as a result, and a
  // branch or a loop writes at other times than it is traced.
  if (Recorder::running() != recorder_.get())
    throw NotSupportedError("trace_step",
                            path_text(state) +
                                " was written inside the body of a jit, scan, cond, while or transform; "
                                "pass its value in, return the new one and set() it outside",
                            OriginScope::current());
}

void StatefulTrace::require_other_model(const Module& module, const std::string& member) const {
  if (!paths_.contains(module.mode_.get())) return;  // one for a model
  throw NotSupportedError("module",
                          "the member " + member +
                              " was set or taken away during a step; a model keeps its modules and states "
                              "while it is traced: make them where their module is made",
                          OriginScope::current());
}

void StatefulTrace::describe_states(TracedStep& step) const {
  for (const Touched& t : touched_) {
    OutputRecord record;
    record.role = role_of(*t.state);
    record.type = std::string(t.state->type());
    record.per_sample = false;
    if (is_a(t.state->kind(), StateKind::ShortTerm))
      record.per_sample = static_cast<const ShortTermState&>(*t.state).has_batch_axis();
    if (const auto it = paths_.find(t.state); it != paths_.end()) {
      record.path = it->second;
    } else {
      record.path = {"_unknown_path_" + std::to_string(step.unknown.size())};
      step.unknown.push_back(record.path);
    }
    for (std::size_t i = 0; i < t.before.size(); ++i) {
      record.leaf = static_cast<std::int64_t>(i);
      record.leaf_key.clear();
      if (!t.state->leaf_keys().empty()) record.leaf_key.emplace_back(t.state->leaf_keys()[i]);
      step.model.inputs.push_back(input_record(record, t.before[i].tensor()));
      step.model.inputs.back().place = t.state->weak_from_this();
      step.model.outputs.push_back(record);
    }
    step.touched.push_back(const_cast<State*>(t.state));  // read through const, owned by a module that is not
  }
  for (const StateEntry& entry : known_)
    if (!index_.contains(entry.state)) {
      step.untouched.push_back(entry.path);
      step.model.unused.emplace_back(entry.path, entry.state->weak_from_this());
    }
}

TracedStep StatefulTrace::run(Module& root, std::span<const Aval> args, std::string name) {
  Arrays inputs;
  for (const Aval& aval : args) inputs.push_back(recorder_->input(aval));
  Arrays outs;
  {
    const Recorder::Running running(*recorder_);
    outs = root(ArraySpan(inputs));
  }
  TracedStep step;
  step.model.name = std::move(name);
  step.model.source = "etrace";
  for (std::size_t i = 0; i < args.size(); ++i)
    step.model.inputs.push_back(input_record(bare_record(Role::Arg, i)));
  for (std::size_t i = 0; i < outs.size(); ++i) {
    if (!outs[i].defined())
      throw TypeError("trace_step", "result " + std::to_string(i) + " of the step is undefined");
    step.model.outputs.push_back(bare_record(Role::Out, i));
  }
  describe_states(step);
  for (const Touched& t : touched_)
    for (const VersionedArray& leaf : t.state->leaves_) outs.push_back(leaf.get());
  step.model.program = close(recorder_->finish(outs));
  return step;
}

TracedStep trace_step(Module& module, std::span<const Aval> args, std::string name) {
  return StatefulTrace(module).run(module, args, std::move(name));
}

TracedStep trace_step(Module& module, ArraySpan example_args, std::string name) {
  const Avals avals = avals_of(example_args);
  return trace_step(module, std::span<const Aval>(avals), std::move(name));
}

TracedStep trace_step(Module& module, const Array& example, std::string name) {
  return trace_step(module, ArraySpan(&example, 1), std::move(name));
}

}  // namespace etrace
