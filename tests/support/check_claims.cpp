#include "support/check_claims.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "etrace/axes.h"
#include "etrace/facts.h"

namespace etrace::testing {

namespace {

// Where an element lies along an axis.
std::int64_t index_along(const Shape& shape, std::size_t axis, std::int64_t element) {
  return element / strides_of(shape)[axis] % shape[axis];
}

// With what lies at the last index of an axis in the place of the first.
Tensor with_other_entry(const Tensor& x, std::size_t axis) {
  Tensor out = Tensor::copy_of(x.aval(), x.bytes());
  const std::size_t width = size_of(x.dtype());
  const std::int64_t stride = strides_of(x.shape())[axis], last = x.shape()[axis] - 1;
  for (std::int64_t i = 0; i < x.size(); ++i)
    if (index_along(x.shape(), axis, i) == 0)
      std::memcpy(out.writable() + static_cast<std::size_t>(i) * width,
                  x.bytes() + static_cast<std::size_t>(i + last * stride) * width, width);
  return out;
}

class Claims {
 public:
  Claims(const Primitive& prim, const PrimitiveSpec::Sample& sample, std::string label)
      : prim_(prim), params_(sample.params), label_(std::move(label)), x_(sample.operands) {}

  std::vector<Failure> run() {
    try {
      y_ = evaluate(x_);
      for (const Tensor& t : y_) out_.push_back(t.aval());
      in_ = avals_of(x_);
      check_axes();
      check_facts(x_);
      if (runs_bodies()) return failures_;  // a loop may run for ever
      for (const double special : {-0.0, std::numeric_limits<double>::infinity(),
                                   -std::numeric_limits<double>::infinity(), std::nan("")})
        check_facts(with(special));
    } catch (const std::exception& e) {
      fail("axes", std::string("threw ") + e.what());
    }
    return failures_;
  }

 private:
  void fail(const char* property, std::string detail) {
    failures_.push_back({property, std::string(prim_.name()), label_, std::move(detail)});
  }
  Tensors evaluate(const Arrays& x) const { return to_tensors(bind_primitive(prim_, x, params_)); }

  bool runs_bodies() const { return !nested_jaxprs(make_eqn(prim_, {}, {}, params_)).empty(); }

  void check_axes() {
    const AxisTable t = axes_of(prim_, {params_, in_, out_});
    for (std::size_t i = 0; i < x_.size(); ++i)
      for (std::size_t a = 0; a < in_[i].shape.rank(); ++a) {
        if (in_[i].shape[a] < 2) continue;
        Arrays moved = x_;
        moved[i] = with_other_entry(x_[i].tensor(), a);
        const Tensors z = evaluate(moved);
        for (std::size_t k = 0; k < out_.size(); ++k)
          for (std::size_t b = 0; b < out_[k].shape.rank(); ++b)
            check_axis(t.at(b, i, k), i, a, b, y_[k], z[k]);
      }
  }
  void check_axis(const AxisSource& claim, std::size_t operand, std::size_t a, std::size_t b, const Tensor& y,
                  const Tensor& z) {
    const bool along = claim.kind == AxisSource::Along && claim.axis == a;
    if (!along && claim.kind != AxisSource::Nothing) return;
    const std::size_t width = size_of(y.dtype());
    for (std::int64_t e = 0; e < y.size(); ++e) {
      if (along && index_along(y.shape(), b, e) == 0) continue;
      const std::size_t at = static_cast<std::size_t>(e) * width;
      if (std::memcmp(y.bytes() + at, z.bytes() + at, width) == 0) continue;
      return fail("axes", fmt::format("element {} at index {} of axis {} depends on index 0 of axis {} of "
                                      "operand {}",
                                      e, index_along(y.shape(), b, e), b, a, operand));
    }
  }

  // The first element of every floating operand is another.
  Arrays with(double special) const {
    Arrays out;
    for (const Array& x : x_) {
      const Tensor t = x.tensor();
      if ((t.dtype() != Dtype::F32 && t.dtype() != Dtype::F64) || t.size() == 0) {
        out.push_back(x);
        continue;
      }
      std::vector<double> values = t.to_doubles();
      values[0] = special;
      const Tensor wide = Tensor::of(values, t.shape());
      if (t.dtype() == Dtype::F64) {
        out.emplace_back(wide);
        continue;
      }
      const std::vector<float> narrow(values.begin(), values.end());
      out.emplace_back(Tensor::of(narrow, t.shape()));
    }
    return out;
  }

  Facts claimed(std::span<const Facts> known, std::size_t result) const {
    Eqn eqn = make_eqn(prim_, {}, {}, params_);
    for (const Aval& a : in_) eqn.in.emplace_back(fresh_var(a));
    for (const Aval& a : out_) eqn.out.push_back(fresh_var(a));
    return facts_of(eqn, known, result);
  }
  void check_facts(const Arrays& x) {
    if (out_.empty()) return;
    std::vector<Facts> known;
    bool finite = true;
    for (const Array& a : x) {
      const Tensor t = a.tensor();
      known.push_back(facts_of(t));
      for (const double v : is_floating(t.dtype()) ? t.to_doubles() : std::vector<double>{})
        finite = finite && std::isfinite(v);
    }
    const Tensors y = evaluate(x);
    for (const std::vector<Facts>& given : {known, std::vector<Facts>(x.size())})
      for (std::size_t k = 0; k < y.size(); ++k)
        if (is_floating(y[k].dtype())) check_values(claimed(given, k), y[k].to_doubles());
    const Shows shows = claimed(known, 0).shows;
    if (finite || shows == Shows::None || shows == Shows::Part) return;
    const bool first = x_.empty() || !is_floating(in_[0].dtype);
    if (shows == Shows::First && first) return;
    bool all_finite = y[0].size() > 0 && is_floating(y[0].dtype());
    for (const double v : all_finite ? y[0].to_doubles() : std::vector<double>{})
      all_finite = all_finite && std::isfinite(v);
    if (all_finite) fail("facts", "is finite, although an operand is not");
  }
  void check_values(const Facts& f, const std::vector<double>& values) {
    for (const double v : values) {
      if (f.finite != Finite::Unknown && !std::isfinite(v))
        return fail("facts", fmt::format("{} is not finite", v));
      if (std::isnan(v)) continue;
      const bool fits = f.sign == Sign::Any || (f.sign == Sign::NotPositive && v <= 0.0) ||
                        (f.sign == Sign::NotNegative && v >= 0.0) ||
                        (f.sign == Sign::Unsigned && !std::signbit(v));
      if (!fits) return fail("facts", fmt::format("{} has another sign", v));
      if (f.whole && v != std::floor(v)) return fail("facts", fmt::format("{} is not whole", v));
    }
  }

  const Primitive& prim_;
  const Params& params_;
  std::string label_;
  Arrays x_;
  Tensors y_;
  Avals in_, out_;
  std::vector<Failure> failures_;
};

}  // namespace

std::vector<Failure> check_claims(const Primitive& prim, const PrimitiveSpec::Sample& sample,
                                  const std::string& label) {
  return Claims(prim, sample, label).run();
}

}  // namespace etrace::testing
