#include "etrace/nn/delay.h"

#include <algorithm>
#include <cmath>

#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/transform.h"
#include "nn/check.h"

namespace etrace::nn {

namespace {

// Delays in steps, one per value.
Dims whole_steps(const char* who, const Constant& delay, double dt) {
  if (delay.is_learned()) wrong_option(who, "delays cannot be learned");
  Dims steps;
  for (const double d : delay.value().tensor().to_doubles()) {
    const double count = std::round(d / dt);
    if (!(d >= 0.0) || std::abs(count * dt - d) > 1e-6 * std::max(dt, d))
      wrong_option(who, "a delay of " + std::to_string(d) + " ms in steps of " + std::to_string(dt) +
                            " ms; expected a whole number of steps, 0 or more");
    steps.push_back(static_cast<std::int64_t>(count));
  }
  return steps;
}

// Ascending; 0 alone if there are none.
Dims different(Dims steps) {
  if (steps.empty()) steps.push_back(0);
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

std::int64_t place_in(const Dims& sorted, std::int64_t value) {
  return std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
}

Array whole(std::int64_t value) { return full({}, value, Dtype::I32); }

double time_step(const char* who, const Time& dt) {
  if (!dt.number() || !(*dt.number() > 0.0)) wrong_option(who, "the time step must be one positive number");
  return *dt.number();
}

}  // namespace

DelayLine::DelayLine(const Shape& size, std::int64_t longest, DelayMemory memory, Dtype dtype)
    : size_(size), longest_(longest) {
  if (longest == 0) return;
  if (memory == DelayMemory::Hidden) {
    for (std::int64_t k = 1; k <= longest; ++k)
      past_.push_back(&hidden("past_" + std::to_string(k), size, dtype));
  } else {
    ring_ = &short_term("ring", full(size.with_front(longest + 1), 0.0, dtype));
    next_ = &short_term("next", full({}, std::int64_t{0}, Dtype::I32));
  }
}

bool DelayLine::batched() const {
  const std::size_t axes =
      ring_ != nullptr ? ring_->avals()[0].shape.rank() - 1 : past_.front()->avals()[0].shape.rank();
  return axes > size_.rank();
}

Arrays DelayLine::through(const Array& x, const Dims& delays) {
  const std::string who = "a delay of values " + to_string(size_);
  require_sample(who, x, size_);
  for (const std::int64_t d : delays)
    if (d < 0 || d > longest_)
      wrong_option(who,
                   "a delay of " + std::to_string(d) + " steps; the longest is " + std::to_string(longest_));
  if (longest_ == 0) return Arrays(delays.size(), x);
  if (is_batch(x, size_.rank()) != batched())
    wrong_input(who, x,
                "a batch as the states have it; call init_all_states(model, batch) with that of the input");
  return ring_ != nullptr ? through_ring(x, delays) : through_states(x, delays);
}

// LIMIT: the ring is no hidden state, so no trace follows it: online rules carry no credit through it.
Arrays DelayLine::through_ring(const Array& x, const Dims& delays) {
  std::vector<double> back;
  for (const std::int64_t d : delays) back.push_back(static_cast<double>(longest_ + 1 - d));
  // The next place, ring [longest + 1, size] and entry -> place and ring after it, the entries by delay.
  const Function of_sample = [&](ArraySpan in) {
    const Array &place = in[0], entry = expand_dims(in[2], {0});
    Arrays starts(entry.rank(), whole(0));
    starts[0] = place;
    const Array ring = dynamic_update_slice(in[1], entry, starts);
    const Array places = rem(place + array(back, Dtype::I32), whole(longest_ + 1));
    const Array read = take(ring, places, 0);
    Arrays out{rem(place + whole(1), whole(longest_ + 1)), ring};
    for (std::int64_t k = 0; k < static_cast<std::int64_t>(delays.size()); ++k)
      out.push_back(squeeze(slice_axis(read, 0, k, k + 1), {0}));
    return out;
  };
  const Arrays in{next_->value(), ring_->value(), convert(x, ring_->avals()[0].dtype)};
  const Arrays out = batched() ? vmap(of_sample)(in) : of_sample(in);
  next_->set(out[0]);
  ring_->set(out[1]);
  return {out.begin() + 2, out.end()};
}

Arrays DelayLine::through_states(const Array& x, const Dims& delays) {
  Arrays entries{convert(x, past_.front()->avals()[0].dtype)};  // by age
  for (const HiddenState* s : past_) entries.push_back(s->value());
  for (std::size_t k = 0; k < past_.size(); ++k) past_[k]->set(entries[k]);
  Arrays found;
  for (const std::int64_t d : delays) found.push_back(entries[static_cast<std::size_t>(d)]);
  return found;
}

Delay::Delay(const Size& n, const Time& delay, const DelayOptions& o)
    : LinearDynamics("Delay", n, o.dt, o.unit, o.dtype) {
  const Dims each = whole_steps("Delay", delay, dt());
  steps_ = different(each);
  if (each.size() > 1) {
    std::vector<double> which;
    for (const std::int64_t d : each) which.push_back(static_cast<double>(place_in(steps_, d)));
    const Shape given = delay.value().shape();
    if (numpy_broadcast_shapes(given, size()) != size())
      wrong_option("Delay",
                   "delays of shape " + to_string(given) + " for values of shape " + to_string(size()));
    choice_ = broadcast_to(array(which, given, Dtype::I32), size());
  }
  if (steps_.back() > 0) line_ = &child<DelayLine>("line", size(), steps_.back(), o.memory, o.dtype);
}

Array Delay::update(const Array& x) {
  require_input(x);
  if (line_ == nullptr) return x;
  const Arrays read = line_->through(x, steps_);
  Array y = read[0];
  for (std::size_t k = 1; k < read.size(); ++k)
    y = where(broadcast_to(equal_to(choice_, static_cast<int>(k)), y.shape()), read[k], y);
  return y;
}

namespace {

// Row d·in + i stands for input i, `steps[d]` steps ago.
SparsePattern spread(const SparsePattern& p, const Dims& delays, const Dims& steps) {
  Dims rows;
  for (std::size_t e = 0; e < delays.size(); ++e)
    rows.push_back(place_in(steps, delays[e]) * p.rows() + p.row()[e]);
  return SparsePattern::coo(static_cast<std::int64_t>(steps.size()) * p.rows(), p.cols(), std::move(rows),
                            Dims(p.col().begin(), p.col().end()));
}

Dims delays_of(const SparsePattern& p, const Time& delays, double dt) {
  Dims each = whole_steps("DelayedLinear", delays, dt);
  if (each.size() == 1) each.resize(static_cast<std::size_t>(p.nnz()), each[0]);
  if (static_cast<std::int64_t>(each.size()) != p.nnz())
    wrong_option("DelayedLinear", std::to_string(each.size()) + " delays for " + std::to_string(p.nnz()) +
                                      " connections; expected one for each, or one for all");
  return each;
}

NamedArrays delayed_leaves(const SparsePattern& p, const DelayedLinearOptions& o) {
  const Array key = layer_key(o.seed);
  const double fan =
      std::max(1.0, static_cast<double>(p.nnz()) / static_cast<double>(std::max<std::int64_t>(1, p.cols())));
  const Initializer init = o.weight_init ? o.weight_init : init::normal(std::sqrt(2.0 / fan));
  NamedArrays leaves{{"weight", init(random::fold_in(key, 0), {p.nnz()}, o.dtype)}};
  if (o.bias_init) leaves.emplace_back("bias", o.bias_init(random::fold_in(key, 1), {p.cols()}, o.dtype));
  return leaves;
}

}  // namespace

DelayedLinear::DelayedLinear(const SparsePattern& p, const Time& delays, const DelayedLinearOptions& o)
    : WeightLayer(o.unit),
      weight(param("weight", [=] { return delayed_leaves(p, o); })),
      steps_(different(delays_of(p, delays, time_step("DelayedLinear", o.dt)))),
      pattern_(spread(p, delays_of(p, delays, *o.dt.number()), steps_)),
      in_size_(p.rows()),
      line_(child<DelayLine>("line", Shape{p.rows()}, steps_.back(), o.memory, o.dtype)) {}

Array DelayedLinear::update(const Array& x) {
  require_sample("a DelayedLinear", x, {in_size_});
  const Array past = concatenate(line_.through(x, steps_), -1);  // [batch, delays·in]
  const Array bias = weight.has_leaf("bias") ? weight.value("bias") : Array();
  return sparse_matmul(past, weight.value("weight"), pattern_, bias);
}

}  // namespace etrace::nn
