#include "support/check_primitive.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "etrace/error.h"
#include "etrace/interp.h"
#include "etrace/ops/shape.h"
#include "etrace/transform.h"
#include "kernels/context.h"
#include "support/check_claims.h"
#include "support/numeric.h"

namespace etrace::testing {

namespace {

// Exceptions, each with its reason --------------------------------------------------------------------------
bool contains(std::span<const std::string_view> names, const Primitive& p) {
  return std::find(names.begin(), names.end(), p.name()) != names.end();
}
// Exists between linearize and transpose only: there is nothing to evaluate.
constexpr std::array<std::string_view, 1> kNoEvaluation{"custom_vjp_linear"};
// The tape of a loop is not kept by the program, so reverse mode over it is refused; forward mode over it
// works.
constexpr std::array<std::string_view, 1> kNoReverse{"tape_while"};

// Tolerances ------------------------------------------------------------------------------------------------
// Where a type narrower than f64 takes part, its rounding decides.
struct Tolerances {
  explicit Tolerances(double roundoff)
      : same(std::max(1e-12, 128 * roundoff)),
        dual(std::max(1e-9, 64 * roundoff)),
        step(roundoff < 1e-12 ? 1e-4 : 0x1p-9),
        first(std::max(1e-6, 128 * roundoff / step)) {}

  double same;   // another order of summation
  double dual;   // inner products, relative to the sum of magnitudes
  double step;   // of finite differences; stays clear of kinks that samples avoid
  double first;  // first derivatives against finite differences
  double second = 1e-5;
};

// Programs --------------------------------------------------------------------------------------------------
ClosedJaxpr one_equation(const Primitive& prim, const Params& params, const Avals& in) {
  Jaxpr jaxpr;
  std::vector<Atom> atoms;
  for (const Aval& a : in) {
    jaxpr.invars.push_back(fresh_var(a));
    atoms.emplace_back(jaxpr.invars.back());
  }
  std::vector<Var> outs;
  for (const Aval& a : abstract_eval(prim, params, in)) {
    outs.push_back(fresh_var(a));
    jaxpr.outs.emplace_back(outs.back());
  }
  jaxpr.eqns.push_back(make_eqn(prim, std::move(atoms), std::move(outs), params));
  return {std::move(jaxpr), {}};
}

Mask floating_mask(const Avals& avals) {
  Mask mask;
  for (const Aval& a : avals) mask.push_back(is_floating(a.dtype));
  return mask;
}

bool any(const Mask& mask) { return std::find(mask.begin(), mask.end(), true) != mask.end(); }

// Each floating operand alone, and all together.
std::vector<Mask> derivative_masks(const Mask& floating) {
  std::vector<Mask> masks;
  if (any(floating)) masks.push_back(floating);
  if (std::count(floating.begin(), floating.end(), true) == 1) return masks;
  for (std::size_t i = 0; i < floating.size(); ++i)
    if (floating[i]) {
      masks.emplace_back(floating.size(), false);
      masks.back()[i] = true;
    }
  return masks;
}

// Every choice of mapped operands up to three, beyond that each alone, all, and all but one.
std::vector<Mask> batch_masks(std::size_t n) {
  std::vector<Mask> masks;
  if (n <= 3) {
    for (unsigned bits = 1; bits < (1U << n); ++bits) {
      masks.emplace_back(n, false);
      for (std::size_t i = 0; i < n; ++i) masks.back()[i] = ((bits >> i) & 1U) != 0;
    }
    return masks;
  }
  masks.emplace_back(n, true);
  for (std::size_t i = 0; i < n; ++i) {
    masks.emplace_back(n, false);
    masks.back()[i] = true;
    masks.emplace_back(n, true);
    masks.back()[i] = false;
  }
  return masks;
}

std::string to_text(const Mask& mask) {
  std::string text;
  for (const bool b : mask) text += b ? '1' : '0';
  return text;
}

// Operands for one sample of a batch: like x but different. Floating values shrink, which keeps loops finite;
// rows of the leading axis rotate, which keeps indices valid.
Tensor varied(const Tensor& x, std::size_t sample) {
  if (sample == 0 || x.size() == 0) return x;
  if (x.dtype() == Dtype::F64 || x.dtype() == Dtype::F32) {
    Tensor away = x;
    const Tensors one{x};
    away = moved(one, one, std::pow(0.9, static_cast<double>(sample)) - 1.0)[0];
    return away;
  }
  if (x.shape().is_scalar()) {
    if (x.dtype() == Dtype::Bool) return Tensor::full(x.aval(), (to_int(x.at(0)) != 0) != (sample % 2 != 0));
    if (is_integer(x.dtype()))
      return Tensor::full(x.aval(), to_int(x.at(0)) + static_cast<std::int64_t>(sample));
    return x;
  }
  Tensor out = Tensor::uninitialized(x.aval());
  const std::size_t row = x.aval().bytes() / static_cast<std::size_t>(x.shape()[0]);
  const std::size_t shift = (sample % static_cast<std::size_t>(x.shape()[0])) * row;
  std::memcpy(out.writable(), x.bytes() + shift, x.aval().bytes() - shift);
  std::memcpy(out.writable() + (x.aval().bytes() - shift), x.bytes(), shift);
  return out;
}

// Storage for a result with guards on both sides, to see what a kernel writes.
class Guarded {
 public:
  Guarded(std::size_t bytes, unsigned char fill) : bytes_(bytes), fill_(fill) {
    block_ = Tensor::uninitialized({Dtype::Bool, {static_cast<std::int64_t>(bytes + 2 * kGuard)}});
    std::memset(block_.writable(), fill, bytes + 2 * kGuard);
  }
  std::byte* data() { return block_.writable() + kGuard; }
  bool guards_intact() {
    const auto is_fill = [&](std::byte b) { return static_cast<unsigned char>(b) == fill_; };
    std::byte* const end = data() + bytes_;
    return std::all_of(block_.writable(), data(), is_fill) && std::all_of(end, end + kGuard, is_fill);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  std::size_t bytes_;
  unsigned char fill_;
  Tensor block_;
};

class Checker {
 public:
  Checker(const Primitive& prim, const PrimitiveSpec::Sample& sample, std::string label, std::uint64_t seed)
      : prim_(prim), sample_(sample), params_(sample.params), label_(std::move(label)), random_(seed) {}

  std::vector<Failure> run() {
    const bool ready = attempt("types", [&] {
      x_ = to_tensors(sample_.operands);
      in_ = avals_of(sample_.operands);
      label_ += ":";
      for (const Aval& a : in_) label_ += " " + to_string(a);
      if (!params_.empty() && label_.size() < 200) label_ += " " + to_string(Attr::dict(params_.items()));
      y_ = to_tensors(bind_primitive(prim_, sample_.operands, params_));
      out_ = abstract_eval(prim_, params_, in_);
      program_ = one_equation(prim_, params_, in_);
    });
    if (!ready) return failures_;
    Avals all = in_;
    all.insert(all.end(), out_.begin(), out_.end());
    const double roundoff = coarsest_roundoff(all);
    narrow_ = roundoff > 1e-12;
    tolerance_ = Tolerances(roundoff);
    attempt("types", [&] { check_types(); });
    attempt("kernel", [&] { check_kernel(); });
    attempt("interpreter", [&] { check_interpreter(); });
    if (prim_.spec.lower != nullptr) attempt("lower", [&] { check_lower(); });
    attempt("text", [&] { check_program("text", "the equation", program_); });
    if (out_.size() > 1) attempt("prune", [&] { check_prune(); });
    if (!in_.empty()) check_batching();
    if (any(floating_mask(in_)) && any(floating_mask(out_))) check_derivatives();
    return failures_;
  }

 private:
  // Runs one property; what it throws is a failure of that property. True if nothing was thrown.
  template <class F>
  bool attempt(const char* property, const F& body) {
    try {
      body();
      return true;
    } catch (const std::exception& e) {
      fail(property, std::string("threw ") + e.what());
      return false;
    }
  }
  void fail(const std::string& property, std::string detail) {
    failures_.push_back({property, std::string(prim_.name()), label_, std::move(detail)});
  }
  void compare(const std::string& property, const std::string& what, std::span<const Tensor> found,
               std::span<const Tensor> expected, double tolerance) {
    if (const auto d = difference(found, expected, tolerance)) fail(property, what + ": " + *d);
  }
  double same() const { return tolerance_.same; }

  Tensors eager(std::span<const Tensor> x) const {
    return to_tensors(bind_primitive(prim_, to_arrays(x), params_));
  }

  void check_program(const char* property, const std::string& what, const ClosedJaxpr& program) {
    attempt(property, [&] {
      check(program);
      const std::string text = to_string(program);
      const ClosedJaxpr again = parse(text);
      if (!equal(program, again)) fail(property, what + " does not parse back to itself: " + text);
      if (hash(program) != hash(again)) fail(property, what + " parses back with another hash: " + text);
    });
  }

  void check_types() {
    for (std::size_t i = 0; i < std::max(out_.size(), y_.size()); ++i)
      if (i >= out_.size() || i >= y_.size() || out_[i] != y_[i].aval())
        return fail("types", "result " + std::to_string(i) + " is " +
                                 (i < y_.size() ? to_string(y_[i].aval()) : "missing") +
                                 " but the typing rule says " +
                                 (i < out_.size() ? to_string(out_[i]) : "nothing"));
    if (in_.empty()) return;
    const ClosedJaxpr recorded =
        make_jaxpr([&](ArraySpan x) { return bind_primitive(prim_, x, params_); }, in_);
    if (recorded.out_avals() != out_) fail("types", "a recording has other types: " + to_string(recorded));
    if (recorded.jaxpr.eqns.size() != 1)
      fail("types", "a recording is not one equation: " + to_string(recorded));
  }

  void check_kernel() {
    const etp_context context = default_context();
    const Kernel kernel = make_kernel(prim_, {params_, in_, out_, context});
    run_kernel(kernel, 0x5a, {});
    run_kernel(kernel, 0xa5, {});
    for (const InPlace& pair : kernel.in_place) {
      const std::string what =
          "result " + std::to_string(pair.result) + " in place of operand " + std::to_string(pair.operand);
      if (pair.result >= out_.size() || pair.operand >= in_.size() ||
          out_[pair.result].bytes() != in_[pair.operand].bytes())
        fail("kernel", what + ": there is no such pair of one size");
      else
        run_kernel(kernel, 0x5a, {pair});
    }
    if (kernel.in_place.size() > 1) run_kernel(kernel, 0x5a, pairs_together(kernel));
    if (kernel.view && (out_.size() != 1 || in_.empty() || in_[0].bytes() != out_[0].bytes() ||
                        std::memcmp(x_[0].bytes(), y_[0].bytes(), out_[0].bytes()) != 0))
      fail("kernel", "the result is no view of operand 0");
  }

  // As many of the pairs as may hold at once.
  static std::vector<InPlace> pairs_together(const Kernel& kernel) {
    std::vector<InPlace> out;
    for (const InPlace& pair : kernel.in_place)
      if (std::none_of(out.begin(), out.end(), [&](const InPlace& p) {
            return p.result == pair.result || p.operand == pair.operand;
          }))
        out.push_back(pair);
    return out;
  }

  // The operands of these pairs lie where the results go.
  void run_kernel(const Kernel& kernel, unsigned char fill, const std::vector<InPlace>& shared) {
    std::vector<Guarded> results;
    for (const Aval& a : out_) results.emplace_back(a.bytes(), fill);
    std::vector<const void*> in;
    for (const Tensor& x : x_) in.push_back(x.bytes());
    std::vector<void*> out;
    for (Guarded& r : results) out.push_back(r.data());
    std::string how;
    for (const InPlace& pair : shared) {
      if (out_[pair.result].bytes() != 0)
        std::memcpy(out[pair.result], in[pair.operand], out_[pair.result].bytes());
      in[pair.operand] = out[pair.result];
      how += " in place of operand " + std::to_string(pair.operand);
    }
    Guarded scratch(kernel.scratch_bytes, fill);
    kernel.run({in.data(), out.data(), scratch.data()});
    for (std::size_t i = 0; i < out_.size(); ++i) {
      const std::string what = "result " + std::to_string(i) + how;
      if (!results[i].guards_intact()) fail("kernel", what + " is written beyond its end");
      if (y_[i].aval() != out_[i]) continue;  // check_types says so
      if (out_[i].bytes() != 0 && std::memcmp(out[i], y_[i].bytes(), out_[i].bytes()) != 0)
        fail("kernel",
             what + " has other bits, or was not written in full: " +
                 difference(Tensor::copy_of(out_[i], out[i]), y_[i], 0.0).value_or("signs of zeros or NaN"));
    }
    if (!scratch.guards_intact()) fail("kernel", "scratch is written beyond its end");
  }

  void check_interpreter() {
    const Executable exe(program_);
    compare("interpreter", "first run", exe(x_), y_, same());
    compare("interpreter", "second run", exe(x_), y_, same());
  }

  // Each result alone: what only the others need may go, this one must stay as it is.
  void check_prune() {
    for (std::size_t i = 0; i < out_.size(); ++i) {
      Mask used(out_.size(), false);
      used[i] = true;
      const ClosedJaxpr alone = eliminate_dead_code(program_, used);
      check_program("prune", "the equation for one result", alone);
      compare("prune", "result " + std::to_string(i) + " alone", evaluate(alone, x_), {&y_[i], 1}, same());
    }
  }

  void check_lower() {
    compare("lower", "evaluated at once", to_tensors(prim_.spec.lower(params_, to_arrays(x_))), y_, same());
    const ClosedJaxpr lowered = make_jaxpr([&](ArraySpan x) { return prim_.spec.lower(params_, x); }, in_);
    check_program("lower", "the lowering", lowered);
    compare("lower", "as a program", evaluate(lowered, x_), y_, same());
  }

  // Derivatives ------------------------------------------------------------------------------------
  Tensors random_like(const Avals& avals, const Mask& mask) {
    Tensors out(avals.size());
    for (std::size_t i = 0; i < avals.size(); ++i)
      if (mask[i]) out[i] = random_.tensor(avals[i]);
    return out;
  }
  static Tensors joined(std::span<const Tensor> a, std::span<const Tensor> b) {
    Tensors out(a.begin(), a.end());
    for (const Tensor& t : b)
      if (t.defined()) out.push_back(t);
    return out;
  }
  // Derivatives of floating results only; an undefined entry stays undefined.
  static Tensors floating_only(std::span<const Tensor> tensors) {
    Tensors out;
    for (const Tensor& t : tensors)
      if (t.defined() && is_floating(t.dtype())) out.push_back(t);
    return out;
  }

  // Where a sample is not differentiable (a kink, a derivative by convention, a narrow type), forward and
  // reverse mode must still agree with each other, unless the operation refuses.
  void check_derivatives() {
    for (const Mask& mask : derivative_masks(floating_mask(in_))) {
      const Tensors v = random_like(in_, mask);
      Tensors dy;
      const bool has_tangent = attempt("jvp", [&] {
        try {
          dy = check_jvp(mask, v);
        } catch (const NotSupportedError&) {
          if (sample_.differentiable) throw;
        }
      });
      if (!has_tangent || dy.empty()) continue;
      if (contains(kNoReverse, prim_)) continue;
      attempt("linearize", [&] { check_linearize(mask, v, dy); });
      attempt("transpose", [&] { check_transpose(mask, v, dy); });
    }
    if (!sample_.differentiable) return;
    const Mask mask = floating_mask(in_);
    attempt("second order", [&] {
      const ClosedJaxpr forward = jvp(program_, mask, floating_mask(out_)).jaxpr;
      check_derivative_of("jvp", forward, joined(x_, random_like(in_, mask)));
      check_batched_program("jvp", forward, joined(x_, random_like(in_, mask)));
    });
    if (contains(kNoReverse, prim_)) return;
    attempt("second order", [&] {
      const ClosedJaxpr backward = vjp(program_, mask);
      check_derivative_of("vjp", backward, joined(x_, cotangents()));
      check_batched_program("vjp", backward, joined(x_, cotangents()));
    });
  }

  Tensors check_jvp(const Mask& mask, const Tensors& v) {
    const Mask floating = floating_mask(out_);
    const Jvp forward = jvp(program_, mask, floating);
    check_program("jvp", "the jvp program", forward.jaxpr);
    if (forward.active_out != floating) {
      fail("jvp", "a result that is not floating has a tangent");
      return {};
    }
    const Tensors all = evaluate(forward.jaxpr, joined(x_, v));
    const Tensors y(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(y_.size()));
    const Tensors dy(all.begin() + static_cast<std::ptrdiff_t>(y_.size()), all.end());
    compare("jvp", "values beside tangents of " + to_text(mask), y, y_, same());
    for (std::size_t i = 0; i < dy.size(); ++i)
      if (dy[i].aval() != floating_only(y_)[i].aval()) {
        fail("jvp", "a tangent has type " + to_string(dy[i].aval()) + " instead of " +
                        to_string(floating_only(y_)[i].aval()));
        return {};
      }
    if (!sample_.differentiable) return dy;
    const Tensors expected =
        directional_difference([&](std::span<const Tensor> x) { return eager(x); }, x_, v, tolerance_.step);
    compare("jvp", "tangent of operands " + to_text(mask), dy, floating_only(expected), tolerance_.first);
    return dy;
  }

  void check_linearize(const Mask& mask, const Tensors& v, const Tensors& dy) {
    const Linearization lin = linearize(program_, mask, floating_mask(out_));
    check_program("linearize", "the primal program", lin.primal);
    check_program("linearize", "the linear program", lin.linear);
    const Tensors all = evaluate(lin.primal, x_);
    const auto split = all.begin() + static_cast<std::ptrdiff_t>(y_.size());
    compare("linearize", "values", Tensors(all.begin(), split), y_, same());
    compare("linearize", "tangents of operands " + to_text(mask),
            evaluate(lin.linear, joined(Tensors(split, all.end()), v)), dy, same());
  }

  // One per result, zero where it is not floating.
  Tensors cotangents() {
    Tensors u;
    for (const Aval& a : out_) u.push_back(is_floating(a.dtype) ? random_.tensor(a) : Tensor::zeros(a));
    return u;
  }

  void check_transpose(const Mask& mask, const Tensors& v, const Tensors& dy) {
    const ClosedJaxpr backward = vjp(program_, mask);
    check_program("transpose", "the vjp program", backward);
    const Tensors u = cotangents();
    const Tensors all = evaluate(backward, joined(x_, u));
    const auto split = all.begin() + static_cast<std::ptrdiff_t>(y_.size());
    compare("transpose", "values beside cotangents", Tensors(all.begin(), split), y_, same());
    const Tensors ct(split, all.end());
    const Tensors tangents = floating_only(v);
    for (std::size_t i = 0; i < tangents.size(); ++i)
      if (ct[i].aval() != tangents[i].aval())
        return fail("transpose", "a cotangent has type " + to_string(ct[i].aval()) + " instead of " +
                                     to_string(tangents[i].aval()));
    const InnerProduct forward = inner(floating_only(u), dy), reverse = inner(ct, tangents);
    if (!sample_.differentiable && !std::isfinite(forward.value)) return;
    const double bound = tolerance_.dual * std::max(1.0, forward.magnitude);
    if (!(std::abs(forward.value - reverse.value) <= bound))
      fail("transpose", "operands " + to_text(mask) + ": <u, J v> = " + std::to_string(forward.value) +
                            " but <Jᵀ u, v> = " + std::to_string(reverse.value));
  }

  // Forward mode over a derivative program, along the operands and along its (co)tangents.
  void check_derivative_of(const std::string& what, const ClosedJaxpr& program, const Tensors& args) {
    if (narrow_) return;
    const Avals in = program.in_avals(), out = program.out_avals();
    const Mask mask = floating_mask(in);
    const Tensors v = random_like(in, mask);
    const Jvp forward = jvp(program, mask, floating_mask(out));
    check_program("second order", "the jvp program of " + what, forward.jaxpr);
    const Tensors all = evaluate(forward.jaxpr, joined(args, v));
    const Tensors dy(all.begin() + static_cast<std::ptrdiff_t>(out.size()), all.end());
    const Executable exe(program);
    const Tensors expected =
        directional_difference([&](std::span<const Tensor> x) { return exe(x); }, args, v, tolerance_.step);
    compare("second order", "jvp of " + what, dy, floating_only(expected), tolerance_.second);
  }

  // Batching ---------------------------------------------------------------------------------------
  // Arguments of each of n samples: mapped ones vary.
  static std::vector<Tensors> samples_of(const Tensors& args, const Mask& mapped, std::size_t n) {
    std::vector<Tensors> out(n, args);
    for (std::size_t b = 0; b < n; ++b)
      for (std::size_t i = 0; i < args.size(); ++i)
        if (mapped[i]) out[b][i] = varied(args[i], b);
    return out;
  }
  // The arguments of all samples together.
  static Tensors batched_args(const std::vector<Tensors>& samples, const Tensors& args, const Mask& mapped) {
    Tensors out = args;
    for (std::size_t i = 0; i < args.size(); ++i) {
      if (!mapped[i]) continue;
      Tensors column;
      for (const Tensors& s : samples) column.push_back(s[i]);
      out[i] = stack_tensors(column, args[i].aval());
    }
    return out;
  }
  static Tensors stacked_results(const std::vector<Tensors>& results, const Avals& out) {
    Tensors stacked;
    for (std::size_t k = 0; k < out.size(); ++k) {
      Tensors column;
      for (const Tensors& r : results) column.push_back(r[k]);
      stacked.push_back(stack_tensors(column, out[k]));
    }
    return stacked;
  }
  // Results of a loop over samples.
  static Tensors looped(const TensorFunction& f, const std::vector<Tensors>& samples, const Avals& out) {
    std::vector<Tensors> results;
    for (const Tensors& s : samples) results.push_back(f(s));
    return stacked_results(results, out);
  }

  void check_batching() {
    const TensorFunction f = [&](std::span<const Tensor> x) { return eager(x); };
    for (const Mask& mapped : batch_masks(in_.size())) {
      for (const std::size_t n : {3, 1, 0}) {
        attempt("vmap", [&] {
          const Batched b = vmap(program_, mapped, static_cast<std::int64_t>(n), Mask(out_.size(), true));
          const std::string what = "operands " + to_text(mapped) + " mapped, batch of " + std::to_string(n);
          check_program("vmap", what, b.jaxpr);
          const std::vector<Tensors> samples = samples_of(x_, mapped, n);
          compare("vmap", what, evaluate(b.jaxpr, batched_args(samples, x_, mapped)),
                  looped(f, samples, out_), same());
        });
      }
    }
    attempt("vmap", [&] { check_other_axes(f); });
    const Mask all(in_.size(), true);
    Mask first(in_.size(), false), rest(in_.size(), true);
    first[0] = true;
    rest[0] = in_.size() == 1;
    attempt("vmap", [&] { check_nested(f, all, all); });
    attempt("vmap", [&] { check_nested(f, first, rest); });
  }

  // The function form: the mapped axis last in every operand, second in the results.
  void check_other_axes(const TensorFunction& f) {
    const Mask all(in_.size(), true);
    const std::vector<Tensors> samples = samples_of(x_, all, 2);
    const Tensors leading = batched_args(samples, x_, all);
    std::vector<int> in_axes;
    Arrays args;
    for (std::size_t i = 0; i < in_.size(); ++i) {
      in_axes.push_back(static_cast<int>(in_[i].shape.rank()));
      args.push_back(moveaxis(leading[i], 0, in_axes.back()));
    }
    const bool ranked =
        std::all_of(out_.begin(), out_.end(), [](const Aval& a) { return !a.shape.is_scalar(); });
    const int out_axis = ranked ? 1 : 0;
    const Function mapped =
        vmap([&](ArraySpan x) { return bind_primitive(prim_, x, params_); }, in_axes, out_axis);
    Tensors expected;
    for (const Tensor& t : looped(f, samples, out_)) expected.push_back(moveaxis(t, 0, out_axis).tensor());
    compare("vmap", "at the last axis", to_tensors(mapped(args)), expected, same());
  }

  void check_nested(const TensorFunction& f, const Mask& inner_mapped, const Mask& outer_mapped) {
    const Mask forced(out_.size(), true);
    const ClosedJaxpr once = vmap(program_, inner_mapped, 3, forced).jaxpr;
    const ClosedJaxpr twice = vmap(once, outer_mapped, 2, forced).jaxpr;
    check_program("vmap", "a nested vmap", twice);
    std::vector<Tensors> outer_args, outer_results;
    for (const Tensors& outer : samples_of(x_, outer_mapped, 2)) {
      const std::vector<Tensors> samples = samples_of(outer, inner_mapped, 3);
      outer_args.push_back(batched_args(samples, outer, inner_mapped));
      outer_results.push_back(looped(f, samples, out_));
    }
    const Tensors args = batched_args(outer_args, outer_args[0], outer_mapped);
    compare("vmap", "vmap of vmap, " + to_text(inner_mapped) + " in " + to_text(outer_mapped),
            evaluate(twice, args), stacked_results(outer_results, once.out_avals()), same());
  }

  // A derivative program mapped over all of its inputs, and over its leading operand alone.
  void check_batched_program(const std::string& what, const ClosedJaxpr& program, const Tensors& args) {
    const Executable exe(program);
    const TensorFunction f = [&](std::span<const Tensor> x) { return exe(x); };
    Mask first(args.size(), false);
    first[0] = true;
    for (const Mask& mapped : {Mask(args.size(), true), first}) {
      const Batched b = vmap(program, mapped, 2, Mask(program.jaxpr.outs.size(), true));
      check_program("vmap", "vmap of " + what, b.jaxpr);
      const std::vector<Tensors> samples = samples_of(args, mapped, 2);
      compare("vmap", "vmap of " + what + ", inputs " + to_text(mapped),
              evaluate(b.jaxpr, batched_args(samples, args, mapped)), looped(f, samples, program.out_avals()),
              10 * same());
    }
  }

  const Primitive& prim_;
  const PrimitiveSpec::Sample& sample_;
  const Params& params_;
  std::string label_;
  Random random_;
  Tensors x_, y_;
  Avals in_, out_;
  ClosedJaxpr program_;
  bool narrow_ = false;  // a type narrower than f64 takes part: no second derivatives by differences
  Tolerances tolerance_{0x1p-53};
  std::vector<Failure> failures_;
};

// What a row must have, given what its samples show.
void check_row(const Primitive& prim, const std::vector<PrimitiveSpec::Sample>& samples,
               std::vector<Failure>& failures) {
  const PrimitiveSpec& spec = prim.spec;
  auto fail = [&](const char* detail) { failures.push_back({"row", std::string(prim.name()), "", detail}); };
  if (spec.doc.empty()) fail("has no doc line");
  if (samples.empty()) {
    if (!contains(kNoEvaluation, prim)) fail("has no samples");
    return;
  }
  if (spec.kernel == nullptr && spec.lower == nullptr) fail("has neither kernel nor lower");
  bool has_operands = false, maps_floats = false;
  for (const PrimitiveSpec::Sample& s : samples) {
    for (const auto& [key, value] : s.params.items())
      if (!knows_param(prim, key)) fail(("does not list the parameter '" + key + "'").c_str());
    const Avals in = avals_of(s.operands);
    has_operands = has_operands || !in.empty();
    maps_floats =
        maps_floats || (any(floating_mask(in)) && any(floating_mask(abstract_eval(prim, s.params, in))));
  }
  if (has_operands && spec.batch == nullptr && spec.lower == nullptr) fail("has neither batch nor lower");
  if (maps_floats && spec.jvp == nullptr && spec.jvp_joint == nullptr && spec.lower == nullptr)
    fail("takes and gives floating values but has neither jvp nor lower");
}

}  // namespace

std::string to_string(const Failure& f) {
  return f.primitive + " " + f.sample + " [" + f.property + "] " + f.detail;
}

std::string to_string(const std::vector<Failure>& failures) {
  std::string text;
  for (const Failure& f : failures) text += to_string(f) + "\n";
  return text;
}

std::vector<Failure> check_sample(const Primitive& prim, const PrimitiveSpec::Sample& sample,
                                  const std::string& label, std::uint64_t seed) {
  return Checker(prim, sample, label, seed).run();
}

std::vector<Failure> check_primitive(const Primitive& prim, std::uint64_t seed) {
  std::vector<Failure> failures;
  std::vector<PrimitiveSpec::Sample> samples;
  try {
    if (prim.spec.samples != nullptr) samples = prim.spec.samples(seed);
    check_row(prim, samples, failures);
  } catch (const std::exception& e) {
    failures.push_back({"row", std::string(prim.name()), "", std::string("threw ") + e.what()});
    return failures;
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::vector<Failure> found = check_sample(prim, samples[i], std::to_string(i), seed + i);
    failures.insert(failures.end(), found.begin(), found.end());
    if (!found.empty() || contains(kNoEvaluation, prim)) continue;
    const std::vector<Failure> claims = check_claims(prim, samples[i], std::to_string(i));
    failures.insert(failures.end(), claims.begin(), claims.end());
  }
  return failures;
}

}  // namespace etrace::testing
