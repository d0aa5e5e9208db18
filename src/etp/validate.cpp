// Are an operator's rules true? Its anchor map says which output position each trace slot belongs to; the
// Jacobian of its forward function says which positions a trainable really touches.
//   J[b, q, e] = ∂y[b, q] / ∂θ[e] must vanish unless a slot of e belongs to q.
// Where a parameter has several slots (one per position), they must belong to different positions: each then
// stands for its own copy of the parameter.
#include <algorithm>
#include <cmath>
#include <set>

#include "etp/common.h"
#include "etrace/transform.h"

namespace etrace {

using namespace etp;

namespace {

std::string index_text(std::int64_t flat, const Shape& shape) {
  const Dims strides = strides_of(shape);
  Dims index;
  for (std::size_t a = 0; a < shape.rank(); ++a) index.push_back(flat / strides[a] % shape[a]);
  return structure::show(index);
}

class Check {
 public:
  Check(const Primitive& prim, const PrimitiveSpec::Sample& sample)
      : op_(prim.name()),
        prim_(prim),
        rules_(*etp_rules(prim)),
        sample_(sample),
        in_(avals_of(sample.operands)) {
    y_ = abstract_eval(prim, sample.params, in_).at(0);
    if (rules_.batched && y_.shape.is_scalar()) fail("is said to be batched, but its result is a scalar");
    position_ = sample_shape(y_, rules_.batched);
  }

  void run() {
    const std::vector<Trainable> trainables = rules_.trainables(sample_.params);
    std::vector<bool> fixed(in_.size(), false);  // as in a model whose trainables are all parameters
    for (const Trainable& t : trainables) {
      key_ = t.key;
      if (t.operand >= in_.size() || t.operand == rules_.x_operand)
        fail("trainable stands at operand " + std::to_string(t.operand) + ", which is none or x");
      fixed[t.operand] = true;
    }
    for (const Trainable& t : trainables) {
      key_ = t.key;
      form_ = trace_form(prim_, sample_.params, t.key, in_, y_, fixed);
      operands_ = sample_.operands;
      if (form_.function != nullptr)
        operands_[t.operand] = eval_jaxpr(*form_.function, {&operands_[t.operand], 1})[0];
      if (rules_.effective && rules_.effective->key == t.key && !form_.effective)
        fail("its effective weight depends on the data");
      check_trainable(t);
    }
  }

 private:
  void check_trainable(const Trainable& t) {
    const Params& params = form_.params;
    const Array at = form_.effective ? rules_.effective->weight(params, operands_) : operands_[t.operand];
    map_ = form_.anchors;
    check_form(at.shape());
    if (!sample_.differentiable || at.dtype() != Dtype::F64 || y_.shape.size() == 0 || at.size() == 0) return;
    const Function forward = [&](ArraySpan w) -> Arrays {
      if (form_.effective) return {rules_.effective->forward(params, operands_, w[0])};
      Arrays operands = operands_;
      operands[t.operand] = w[0];
      return bind_primitive(prim_, operands, params);
    };
    if (form_.effective) check_same_value(forward({&at, 1})[0]);
    const Tensor jacobian = jacfwd(forward)({&at, 1})[0].tensor();
    check_jacobian(jacobian, at.shape());
    if (form_.source) check_source(jacobian);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw CompilationError(op_, (key_.empty() ? "" : "trainable '" + key_ + "': ") + what);
  }

  // The map fits the shapes of y and of the parameter.
  void check_form(const Shape& parameter) {
    const std::size_t rank = map_.slots.rank();
    std::vector<bool> is_position(rank, false);
    for (const int a : map_.position_axes) {
      if (a < 0 || static_cast<std::size_t>(a) >= rank)
        fail("position axis " + std::to_string(a) + " is no slot axis");
      is_position[static_cast<std::size_t>(a)] = true;
    }
    std::int64_t elements = 1;
    for (std::size_t a = 0; a < rank; ++a)
      if (!is_position[a]) elements *= map_.slots[a];
    if (elements != parameter.size())
      fail("slots " + to_string(map_.slots) +
           " without their position axes do not match the parameter's shape " + to_string(parameter));
    if (map_.slots.size() == 0) return;
    if (!map_.table.empty()) {
      if (to_dim(map_.table.size()) != map_.slots.size())
        fail("the table has " + std::to_string(map_.table.size()) + " entries for slots " +
             to_string(map_.slots));
      for (std::size_t s = 0; s < map_.table.size(); ++s)
        if (map_.table[s] < 0 || map_.table[s] >= position_.size())
          fail("slot " + index_text(to_dim(s), map_.slots) + " belongs to position " +
               std::to_string(map_.table[s]) + ", but y " + to_string(y_) + " has " +
               std::to_string(position_.size()));
      return;
    }
    if (map_.y_axes.size() != position_.rank())
      fail("y_axes has " + std::to_string(map_.y_axes.size()) + " entries for the axes of one sample of y " +
           to_string(y_));
    for (std::size_t a = 0; a < map_.y_axes.size(); ++a) {
      const int slot_axis = map_.y_axes[a];
      if (slot_axis < 0 || static_cast<std::size_t>(slot_axis) >= rank ||
          map_.slots[static_cast<std::size_t>(slot_axis)] != position_[a])
        fail("axis " + std::to_string(a) + " of one sample of y " + to_string(y_) +
             " cannot take its index from slot axis " + std::to_string(slot_axis) + " of " +
             to_string(map_.slots));
    }
  }

  void check_same_value(const Array& from_effective) const {
    const std::vector<double>
        a = bind_primitive(prim_, sample_.operands, sample_.params)[0].tensor().to_doubles(),
        b = from_effective.tensor().to_doubles();
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!(std::abs(a[i] - b.at(i)) <= 1e-9 * (1.0 + std::abs(a[i]))))
        fail("the effective weight gives y = " + std::to_string(b[i]) + " at element " + std::to_string(i) +
             " where the operator gives " + std::to_string(a[i]));
  }

  // For each slot the parameter element that it is a copy of.
  std::vector<std::int64_t> elements_of_slots() const {
    Dims step(map_.slots.rank(), 0);
    std::int64_t size = 1;
    for (std::size_t a = step.size(); a-- > 0;) {
      if (std::find(map_.position_axes.begin(), map_.position_axes.end(), static_cast<int>(a)) !=
          map_.position_axes.end())
        continue;
      step[a] = size;
      size *= map_.slots[a];
    }
    const Dims strides = strides_of(map_.slots);
    std::vector<std::int64_t> out(to_index(map_.slots.size()), 0);
    for (std::size_t s = 0; s < out.size(); ++s)
      for (std::size_t a = 0; a < step.size(); ++a)
        out[s] += to_dim(s) / strides[a] % map_.slots[a] * step[a];
    return out;
  }

  void check_jacobian(const Tensor& jacobian, const Shape& parameter) const {
    const std::vector<std::int64_t> anchors = anchor_positions(map_, position_),
                                    elements = elements_of_slots();
    std::set<std::pair<std::int64_t, std::int64_t>> allowed;  // (position, element)
    for (std::size_t s = 0; s < anchors.size(); ++s)
      if (!allowed.emplace(anchors[s], elements[s]).second)
        fail("slot " + index_text(to_dim(s), map_.slots) + " is the second one of element " +
             index_text(elements[s], parameter) + " at position " + index_text(anchors[s], position_));
    const std::vector<double> j = jacobian.to_doubles();
    const std::int64_t positions = position_.size(), count = parameter.size();
    for (std::size_t i = 0; i < j.size(); ++i) {
      const std::int64_t element = to_dim(i) % count, position = to_dim(i) / count % positions;
      if (std::abs(j[i]) <= 1e-12 || allowed.contains({position, element})) continue;
      std::size_t slot = 0;
      while (elements[slot] != element) ++slot;
      fail("slot " + index_text(to_dim(slot), map_.slots) + " of " + to_string(map_.slots) +
           " belongs to position " + index_text(anchors[slot], position_) +
           " by the anchor map, but the parameter also acts on position " + index_text(position, position_) +
           " (derivative " + std::to_string(j[i]) + ")");
    }
  }

  // gain·values is the derivative, slot by slot and sample by sample.
  void check_source(const Tensor& jacobian) const {
    const std::optional<TraceSource> source = rules_.source(form_.params, key_, operands_);
    if (!source) return;
    const std::vector<std::int64_t> anchors = anchor_positions(map_, position_),
                                    elements = elements_of_slots(),
                                    places = source_positions(*source, map_.slots, rules_.batched);
    const std::int64_t positions = position_.size(), samples = rules_.batched ? y_.shape[0] : 1;
    const std::vector<double> j = jacobian.to_doubles();
    std::vector<double> values, gain;
    if (source->values.defined()) values = source->values.tensor().to_doubles();
    if (source->gain.defined()) gain = source->gain.tensor().to_doubles();
    const std::int64_t per_sample = to_dim(values.size()) / samples,
                       count = to_dim(j.size()) / (samples * positions);
    for (std::int64_t b = 0; b < samples; ++b)
      for (std::size_t s = 0; s < anchors.size(); ++s) {
        const double expected = j[to_index((b * positions + anchors[s]) * count + elements[s])];
        const double given = (values.empty() ? 1.0 : values.at(to_index(b * per_sample + places.at(s)))) *
                             (gain.empty() ? 1.0 : gain.at(to_index(elements[s])));
        if (!(std::abs(given - expected) <= 1e-9 * (1.0 + std::abs(expected))))
          fail("its source gives the derivative " + std::to_string(given) + " at slot " +
               index_text(to_dim(s), map_.slots) + " of sample " + std::to_string(b) +
               ", but that of the forward function is " + std::to_string(expected));
      }
  }

  std::string op_;
  const Primitive& prim_;
  const EtpRules& rules_;
  const PrimitiveSpec::Sample& sample_;
  Avals in_;
  Aval y_;
  Shape position_;  // of one sample
  std::string key_;
  TraceForm form_;
  Arrays operands_;  // as the form has them
  AnchorMap map_;
};

}  // namespace

void validate_etp(const Primitive& prim, const std::vector<PrimitiveSpec::Sample>& samples) {
  const std::string op(prim.name());
  const EtpRules* rules = etp_rules(prim);
  if (rules == nullptr)
    throw CompilationError(op, "is no eligibility-trace operator: its row has no etp rules");
  if (prim.spec.lower == nullptr || rules->trainables == nullptr || rules->anchors == nullptr)
    throw CompilationError(op, "an eligibility-trace operator needs lower, trainables and anchors");
  if (const Primitive* form = rules->batched_form; form != nullptr) {
    const EtpRules* to = etp_rules(*form);
    if (rules->batched || to == nullptr || !to->batched)
      throw CompilationError(
          op, "batched_form leads from an unbatched operator to a batched one, but this is not so for " +
                  std::string(form->name()));
  }
  for (const PrimitiveSpec::Sample& sample : samples) Check(prim, sample).run();
}

}  // namespace etrace
