#include "module/state_reads.h"

#include <algorithm>

#include "etrace/error.h"
#include "etrace/host.h"
#include "io/step_outputs.h"

namespace etrace {

namespace {
thread_local StateReads* innermost = nullptr;
thread_local std::uint64_t reads_made = 0;

bool is_place(const std::weak_ptr<const State>& place, const State& state) {
  return place.lock().get() == &state;
}
}  // namespace

StateReads* StateReads::active() { return innermost; }
std::uint64_t StateReads::made() { return reads_made; }
void StateReads::count() { ++reads_made; }

StateReads::StateReads(const Model& model, ArraySpan params)
    : model_(model), params_(params), outer_(std::exchange(innermost, this)) {
  std::size_t next = 0;
  for (const InputRecord& in : model.inputs) {
    if (in.role != Role::Param) continue;
    const Array& value = params[next++];
    if (const std::shared_ptr<const State> place = in.place.lock())
      known_[place.get()].emplace_back(static_cast<std::size_t>(in.leaf), value);
  }
}

StateReads::~StateReads() {
  innermost = outer_;
  for (Before& b : before_)
    for (std::size_t i = 0; i < b.values.size(); ++i) b.state->leaves_[i].exchange(std::move(b.values[i]));
}

// Empty: not of the model.
std::string StateReads::path_of(const State& state) const {
  for (const InputRecord& in : model_.inputs)
    if (is_place(in.place, state)) return to_string(in.path);
  for (const auto& [path, place] : model_.unused)
    if (is_place(place, state)) return to_string(path);
  return "";
}

void StateReads::touch(const State& state) {
  if (const auto it = known_.find(&state); it != known_.end()) {
    Before before{&state, {}};
    for (const VersionedArray& leaf : state.leaves_) before.values.push_back(leaf.get());
    for (const auto& [leaf, value] : it->second) state.leaves_[leaf].exchange(value);
    before_.push_back(std::move(before));
    known_.erase(it);  // once
    return;
  }
  if (std::any_of(before_.begin(), before_.end(), [&](const Before& b) { return b.state == &state; })) return;
  const std::string path = path_of(state);
  const std::string what = std::string(state.type()) + " " + path;
  if (path.empty()) {
    if (said_.insert(&state).second)
      warn("a loss or step function reads " + state.describe() +
           ", which is not of the model: it is a constant of the program, with the value that it has now");
    return;
  }
  if (is_a(state.kind(), StateKind::Param))
    throw NotSupportedError("step_fn",
                            "reads the parameter " + path +
                                ", which the model's step does not use, so that nothing would train it: "
                                "compute what needs it in the model's update and return it as a result; for "
                                "a constant, take its value before, outside of the function",
                            OriginScope::current());
  throw NotSupportedError("step_fn",
                          "reads " + what +
                              " outside of the model's step, where it would be a constant: return it from "
                              "the model's update as a result; for a constant, take its value before, "
                              "outside of the function",
                          OriginScope::current());
}

void StateReads::refuse_write(const State& state) const {
  throw NotSupportedError("step_fn",
                          "writes " + state.describe() +
                              ", but it is recorded once, so that this would be written once: write states "
                              "in the model's update",
                          OriginScope::current());
}

}  // namespace etrace
