// Third factors of single groups, put together as a program takes them.
#include <fmt/format.h>

#include <algorithm>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "learn/run/learner_impl.h"
#include "learn/traces/interface.h"

namespace etrace {

namespace {

// "l1" covers l1/v.
bool covers(const std::string& name, const StatePath& path) {
  const std::string text = to_string(path);
  return text == name || (text.starts_with(name) && text[name.size()] == '/');
}

class Packing {
 public:
  Packing(const char* what, const ETraceGraph& g, std::span<const GroupModulator> given)
      : what_(what), g_(g), given_(given) {
    for (const GroupModulator& m : given)
      if (const auto* steps = std::get_if<MultiStepData>(&m.value)) {
        if (steps->value.rank() == 0) refuse("per step has no axis of time", m);
        if (length_ && *length_ != steps->value.shape()[0]) refuse("has another number of steps", m);
        length_ = steps->value.shape()[0];
      }
  }

  StepInput operator()() const {
    std::vector<bool> used(given_.size(), false);
    Arrays parts;
    for (const HiddenGroup& group : g_.hidden_groups) parts.push_back(part(group, used));
    const auto unused = std::find(used.begin(), used.end(), false);
    if (unused != used.end())
      throw ValueError(what_,
                       fmt::format("a modulator for {}, which names no group of hidden states; there "
                                   "are: {}",
                                   given_[static_cast<std::size_t>(unused - used.begin())].group, groups()));
    const Array all = concatenate(parts, -1);
    return length_ ? StepInput(MultiStepData{all}) : StepInput(all);
  }

 private:
  std::string groups() const {
    std::string out;
    for (const HiddenGroup& group : g_.hidden_groups)
      out += (out.empty() ? "" : ", ") + to_string(group.hidden_paths.front());
    return out;
  }
  [[noreturn]] void refuse(const char* text, const GroupModulator& m) const {
    throw ValueError(what_, fmt::format("the modulator of {} with shape {} {}", m.group,
                                        to_string(value_of(m.value).shape()), text));
  }

  // [n], or [T, n].
  Array part(const HiddenGroup& group, std::vector<bool>& used) const {
    const GroupModulator* found = nullptr;
    for (std::size_t i = 0; i < given_.size(); ++i) {
      const auto mine = [&](const StatePath& p) { return covers(given_[i].group, p); };
      if (std::none_of(group.hidden_paths.begin(), group.hidden_paths.end(), mine)) continue;
      if (found != nullptr)
        throw ValueError(what_,
                         fmt::format("two modulators for the group of {}: {} and {}",
                                     to_string(group.hidden_paths.front()), found->group, given_[i].group));
      found = &given_[i];
      used[i] = true;
    }
    if (found == nullptr)
      throw ValueError(what_, fmt::format("no modulator for the group of {}; give one for each of: {}",
                                          to_string(group.hidden_paths.front()), groups()));
    return spread(group, *found);
  }

  Array spread(const HiddenGroup& group, const GroupModulator& m) const {
    const Array& value = value_of(m.value);
    if (!value.defined()) throw ValueError(what_, fmt::format("the modulator of {} has no value", m.group));
    const bool timed = std::holds_alternative<MultiStepData>(m.value);
    const Dims found = (timed ? value.shape().without(0) : value.shape()).to_dims();
    Dims slab = group.varshape().to_dims(), dims = found;
    const Dims positions = slab;
    slab.push_back(group.num_state());
    const std::size_t batch = group.batch_size ? 1 : 0;
    if (m.over == GroupModulator::Samples) {
      if (batch == 0) refuse("counts samples, and the group has none", m);
      dims.resize(slab.size(), 1);
      if (found.size() != 1) refuse("counts samples: one axis", m);
    } else if (m.over == GroupModulator::Neurons) {
      if (found.size() != positions.size() - batch) refuse("has other axes than the neurons of the group", m);
      dims.insert(dims.begin(), batch, 1);
      dims.push_back(1);
    } else if (found.size() == positions.size() && !found.empty()) {
      dims.push_back(1);
    } else if (found.empty()) {
      dims.assign(slab.size(), 1);
    } else if (found.size() != slab.size()) {
      refuse(
          "has neither the axes of the group's positions nor those of its states; say whether it counts "
          "samples or neurons",
          m);
    }
    for (std::size_t i = 0; i < slab.size(); ++i)
      if (dims[i] != slab[i] && (dims[i] != 1 || m.over != GroupModulator::States) &&
          !(dims[i] == 1 && is_filled(m.over, i, batch, slab.size())))
        throw ValueError(
            what_, fmt::format("the modulator of {} has shape {}; the states of its group have {}", m.group,
                               to_string(Shape(found)), to_string(Shape(slab))));
    const std::int64_t steps = length_.value_or(1);
    if (timed) dims.insert(dims.begin(), steps);
    Dims all = slab;
    if (length_) all.insert(all.begin(), steps);
    if (length_ && !timed) dims.insert(dims.begin(), 1);
    const Array wide = broadcast_to(reshape(convert(value, working_dtype(g_)), dims), Shape(all));
    std::int64_t states = 1;
    for (const std::int64_t d : slab) states *= d;
    return reshape(wide, length_ ? Dims{steps, states} : Dims{states});
  }
  // Axes that the value does not count.
  static bool is_filled(GroupModulator::Over over, std::size_t axis, std::size_t batch, std::size_t rank) {
    if (over == GroupModulator::Samples) return axis > 0;
    if (over == GroupModulator::Neurons) return axis < batch || axis + 1 == rank;
    return true;
  }

  const char* what_;
  const ETraceGraph& g_;
  std::span<const GroupModulator> given_;
  std::optional<std::int64_t> length_;
};

}  // namespace

StepInput Learner::Impl::packed(const char* what, std::span<const GroupModulator> given) const {
  return Packing(what, graph, given)();
}

void Learner::set_modulator(const Array& modulator) {
  if (!impl_->rule->takes_modulator())
    throw ValueError("set_modulator", fmt::format("{} takes no modulator", impl_->rule->name()));
  impl_->modulator = kept_modulator(impl_->graph, modulator);
  impl_->modulator_by_group = false;
}

void Learner::set_modulator(std::span<const GroupModulator> given) {
  if (!impl_->rule->takes_modulator())
    throw ValueError("set_modulator", fmt::format("{} takes no modulator", impl_->rule->name()));
  const StepInput all = impl_->packed("set_modulator", given);
  if (std::holds_alternative<MultiStepData>(all))
    throw ValueError("set_modulator",
                     "the modulator that stands is the same at all steps; give one per step "
                     "with the call");
  impl_->modulator = Array(value_of(all).tensor().own());
  impl_->modulator_by_group = true;
}

}  // namespace etrace
