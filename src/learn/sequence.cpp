#include "learn/sequence.h"

#include <algorithm>

#include "etrace/control.h"
#include "etrace/ops/numpy.h"
#include "learn/lists.h"

namespace etrace {

namespace {

// Steps [begin, end) of every sequence.
Arrays time_part(ArraySpan sequences, std::int64_t begin, std::int64_t end) {
  Arrays out;
  for (const Array& a : sequences) out.push_back(slice_axis(a, 0, begin, end));
  return out;
}

// [count·steps, …] -> [count, steps, …] and back.
Array in_blocks(const Array& a, std::int64_t count) {
  Dims dims = a.shape().to_dims();
  dims[0] /= count;
  dims.insert(dims.begin(), count);
  return reshape(a, dims);
}
Array out_of_blocks(const Array& a) {
  Dims dims = a.shape().to_dims();
  dims[1] *= dims[0];
  dims.erase(dims.begin());
  return reshape(a, dims);
}

// What a loop over blocks gives besides its carry, one block after the other in time.
struct Collected {
  Arrays values;

  void append(ArraySpan more) {
    for (std::size_t i = 0; i < more.size(); ++i) {
      if (i == values.size())
        values.push_back(more[i]);
      else
        values[i] = concatenate(Arrays{values[i], more[i]});
    }
  }
  const Array& losses() const { return values[0]; }
  Arrays aux() const { return {values.begin() + 1, values.end()}; }
};

// f over blocks of `size` steps, in a loop if there are several, and once more over the rest. What is carried
// goes through; f gives the new carry, then losses and aux.
using Block = std::function<ScanResult(ArraySpan carry, ArraySpan sequences)>;
Arrays over_blocks(const Block& f, Arrays carry, ArraySpan sequences, std::int64_t size,
                   Collected& collected) {
  const std::int64_t length = sequences[0].shape()[0], count = length / size, rest = length % size;
  if (count == 1) {
    const ScanResult r = f(carry, time_part(sequences, 0, size));
    carry = r.carry;
    collected.append(r.ys);
  }
  if (count > 1) {
    Arrays xs;
    for (const Array& a : sequences) xs.push_back(in_blocks(slice_axis(a, 0, 0, count * size), count));
    ScanResult r = scan(f, carry, xs, {.length = count});
    carry = r.carry;
    for (Array& y : r.ys) y = out_of_blocks(y);
    collected.append(r.ys);
  }
  if (rest > 0) {
    const ScanResult r = f(carry, time_part(sequences, count * size, length));
    carry = r.carry;
    collected.append(r.ys);
  }
  return carry;
}

}  // namespace

PlanBuilder::Learned SequenceDriver::gradients(ArraySpan params, const Carry& c, ArraySpan sequences,
                                               const Array& weights, bool freeze) const {
  const std::int64_t length = weights.shape()[0];
  const std::int64_t size = program_.window ? *program_.window : std::min(window_, length);
  const std::size_t ns = c.states.size(), nm = c.memory.size();
  Arrays init = joined({c.states, c.memory});
  for (const Array& p : params) init.push_back(zeros_of(p.aval()));
  const Block block = [&](ArraySpan carry, ArraySpan now) -> ScanResult {
    const Array& w = now.back();
    const Carry before{Arrays(carry.begin(), carry.begin() + static_cast<std::ptrdiff_t>(ns)),
                       Arrays(carry.begin() + static_cast<std::ptrdiff_t>(ns),
                              carry.begin() + static_cast<std::ptrdiff_t>(ns + nm))};
    const Array active = freeze ? not_equal_to(w, 0.0) : Array();
    const PlanBuilder::Learned l =
        builder_.learn(params, before, program_, now.first(now.size() - 1), w, active);
    Arrays sums;
    for (std::size_t i = 0; i < params.size(); ++i) sums.push_back(carry[ns + nm + i] + l.gradients[i]);
    return {joined({l.carry.states, l.carry.memory, sums}), joined({Arrays{l.losses}, l.aux})};
  };
  Collected collected;
  const Arrays last = over_blocks(block, init, joined({sequences, Arrays{weights}}), size, collected);
  PlanBuilder::Learned out;
  ArraySpan left = last;
  out.carry.states = to_list(take_front(left, ns));
  out.carry.memory = to_list(take_front(left, nm));
  out.gradients.assign(left.begin(), left.end());
  out.losses = collected.losses();
  out.aux = collected.aux();
  return out;
}

Arrays evolve_sequence(const PlanBuilder& builder, ArraySpan params, const Carry& c, ArraySpan sequences,
                       const Array& active, std::int64_t window) {
  const std::size_t ns = c.states.size();
  const Block block = [&](ArraySpan carry, ArraySpan now) -> ScanResult {
    ArraySpan left = carry;
    const Arrays states = to_list(take_front(left, ns));
    std::vector<StepInput> args;
    for (std::size_t i = 0; i < sequences.size(); ++i) args.emplace_back(MultiStepData{now[i]});
    const PlanBuilder::Driven d = builder.drive(params, {states, Arrays(left.begin(), left.end())}, args,
                                                active.defined() ? now.back() : Array());
    return {joined({d.carry.states, d.carry.memory}), d.outputs};
  };
  Collected collected;
  Arrays xs(sequences.begin(), sequences.end());
  if (active.defined()) xs.push_back(active);
  const Arrays last = over_blocks(block, joined({c.states, c.memory}), xs, window, collected);
  return joined({collected.values, last});
}

Arrays reduced(Arrays gradients, const Array& weights, Reduction reduction, Compat compat) {
  if (reduction == Reduction::Sum) return gradients;
  const Array total = sum(weights);
  const Array divisor =
      compat == Compat::Braintrace ? maximum(total, 1.0) : where(total > 0.0, total, full_like(total, 1.0));
  for (Array& g : gradients) g = g / convert(divisor, g.dtype());
  return gradients;
}

SequenceDriver::Trained SequenceDriver::train(ArraySpan params, ArraySpan optimizer_state, const Carry& c,
                                              ArraySpan sequences, const Array& weights, bool freeze,
                                              const optim::Optimizer& optimizer, Reduction reduction,
                                              std::int64_t every) const {
  const std::size_t np = params.size(), no = optimizer_state.size(), ns = c.states.size();
  const std::vector<ParamLeafId> leaves = param_leaf_ids(builder_.graph().module_info);
  const Block block = [&](ArraySpan carry, ArraySpan now) -> ScanResult {
    ArraySpan left = carry;
    const Arrays p = to_list(take_front(left, np)), o = to_list(take_front(left, no)),
                 states = to_list(take_front(left, ns));
    const Carry before{states, Arrays(left.begin(), left.end())};
    const PlanBuilder::Learned l = gradients(p, before, now.first(now.size() - 1), now.back(), freeze);
    const Arrays g = reduced(l.gradients, now.back(), reduction, builder_.graph().options.compat);
    const optim::Updated next = optimizer.apply(p, g, o, leaves);
    return {joined({next.params, next.state, l.carry.states, l.carry.memory}),
            joined({Arrays{l.losses}, l.aux})};
  };
  Collected collected;
  const Arrays last = over_blocks(block, joined({params, optimizer_state, c.states, c.memory}),
                                  joined({sequences, Arrays{weights}}), every, collected);
  ArraySpan left = last;
  Trained out;
  out.params = to_list(take_front(left, np));
  out.optimizer = to_list(take_front(left, no));
  out.carry.states = to_list(take_front(left, ns));
  out.carry.memory.assign(left.begin(), left.end());
  out.losses = collected.losses();
  out.aux = collected.aux();
  return out;
}

}  // namespace etrace
