// The transformations as model code uses them: functions from function to function. Each traces its argument,
// applies the program form, and evaluates the result, so that they nest and work inside a recording.
#include <algorithm>

#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/shape.h"
#include "etrace/transform.h"
#include "transform/env.h"

namespace etrace {

namespace {

// A traced function whose captured arrays (possibly of an enclosing recording) have become leading inputs.
struct Traced {
  ClosedJaxpr program;  // (captured…, args…)
  Arrays captured;
};

Traced trace_function(const Function& f, ArraySpan args) {
  Recording r = record(avals_of(args), f);
  Traced t{{std::move(r.jaxpr), {}}, std::move(r.captured)};
  Jaxpr& j = t.program.jaxpr;
  j.invars.insert(j.invars.begin(), j.constvars.begin(), j.constvars.end());
  j.constvars.clear();
  return t;
}

Arrays with_captured(const Traced& t, ArraySpan args) {
  Arrays all = t.captured;
  all.insert(all.end(), args.begin(), args.end());
  return all;
}

Mask mask_of(const Traced& t, std::size_t num_args, const std::vector<int>& argnums) {
  Mask mask(t.captured.size() + num_args, false);
  for (const int i : argnums) {
    if (i < 0 || static_cast<std::size_t>(i) >= num_args)
      throw ValueError("grad",
                       "argnums names argument " + std::to_string(i) + " of " + std::to_string(num_args));
    mask[t.captured.size() + static_cast<std::size_t>(i)] = true;
  }
  return mask;
}

std::vector<int> first_n(std::size_t n) {
  std::vector<int> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<int>(i);
  return out;
}

}  // namespace

Function value_and_grad(ScalarFunction f, std::vector<int> argnums) {
  return [f = std::move(f), argnums = std::move(argnums)](ArraySpan args) {
    const Traced t = trace_function([&](ArraySpan x) { return Arrays{f(x)}; }, args);
    const ClosedJaxpr g = value_and_grad(t.program, mask_of(t, args.size(), argnums));
    return eval_jaxpr(g, with_captured(t, args));
  };
}

Function grad(ScalarFunction f, std::vector<int> argnums) {
  return [g = value_and_grad(std::move(f), std::move(argnums))](ArraySpan args) {
    Arrays out = g(args);
    out.erase(out.begin());
    return out;
  };
}

Function jvp(Function f) {
  return [f = std::move(f)](ArraySpan args) {
    if (args.size() % 2 != 0)
      throw ValueError(
          "jvp", std::to_string(args.size()) + " arguments; give the inputs and then one tangent per input");
    const std::size_t n = args.size() / 2;
    const Traced t = trace_function(f, args.first(n));
    Arrays x = with_captured(t, args.first(n)), dx(t.captured.size());
    dx.insert(dx.end(), args.begin() + static_cast<std::ptrdiff_t>(n), args.end());
    ValuesAndTangents out = jvp_eval(t.program.jaxpr, {}, x, dx);
    for (std::size_t i = 0; i < out.dy.size(); ++i) out.y.push_back(instantiate(out.dy[i], out.y[i].aval()));
    return out.y;
  };
}

Function vjp(Function f, std::size_t num_outputs) {
  return [f = std::move(f), num_outputs](ArraySpan args) -> Arrays {
    const std::string expected = std::to_string(num_outputs) + " cotangents, one for each output";
    if (args.size() < num_outputs)
      throw ValueError("vjp",
                       std::to_string(args.size()) + " arguments; give the inputs and then " + expected);
    const std::size_t n = args.size() - num_outputs;
    const Traced t = trace_function(f, args.first(n));
    const Avals found = avals_of(args.subspan(n)), wanted = t.program.out_avals();
    if (wanted.size() != num_outputs)
      throw ValueError("vjp", "the function has " + std::to_string(wanted.size()) +
                                  " outputs, but vjp was told of " + std::to_string(num_outputs));
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (found[i] != wanted[i])
        throw ValueError("vjp", "the cotangent of output " + std::to_string(i) + " has type " +
                                    to_string(found[i]) + ", expected " + to_string(wanted[i]));
    const ClosedJaxpr g = vjp(t.program, mask_of(t, n, first_n(n)));
    return eval_jaxpr(g, with_captured(t, args));
  };
}

Function vmap(Function f, std::vector<int> in_axes, int out_axis) {
  return [f = std::move(f), in_axes = std::move(in_axes), out_axis](ArraySpan args) {
    std::vector<int> axes = in_axes.empty() ? std::vector<int>(args.size(), 0) : in_axes;
    if (axes.size() != args.size())
      throw ValueError("vmap", "in_axes has " + std::to_string(axes.size()) + " entries for " +
                                   std::to_string(args.size()) + " arguments");
    Arrays moved;
    Avals sample;
    Mask mapped;
    std::int64_t n = -1;
    for (std::size_t i = 0; i < args.size(); ++i) {
      mapped.push_back(axes[i] >= 0);
      moved.push_back(mapped[i] ? moveaxis(args[i], axes[i], 0) : args[i]);
      sample.push_back(moved[i].aval());
      if (!mapped[i]) continue;
      const std::int64_t size = moved[i].shape()[0];
      if (n >= 0 && n != size)
        throw ValueError("vmap", "mapped axes of sizes " + std::to_string(n) + " and " +
                                     std::to_string(size) +
                                     "; all mapped arguments must have the same size along their axis");
      n = size;
      sample[i].shape = sample[i].shape.without(0);
    }
    if (n < 0) throw ValueError("vmap", "no argument is mapped; give at least one axis");
    const Recording body = record(sample, f);
    BatchedArrays out = batch_eval(body.jaxpr, body.captured, moved, mapped, n);
    for (std::size_t i = 0; i < out.values.size(); ++i) {
      Array& y = out.values[i];
      if (!out.batched[i]) y = broadcast_to(y, y.shape().with_front(n));
      if (out_axis != 0) y = moveaxis(y, 0, out_axis);
    }
    return out.values;
  };
}

namespace {

// The standard basis of a shape: [size, shape…], one unit array per element.
Array basis(const Aval& aval) {
  const std::int64_t n = aval.shape.size();
  Tensor eye = Tensor::zeros({Dtype::F64, {n, n}});
  auto* p = reinterpret_cast<double*>(eye.writable());
  for (std::int64_t i = 0; i < n; ++i) p[i * n + i] = 1.0;
  return reshape(convert(Array(eye), aval.dtype), aval.shape.with_front(n).to_dims());
}

const Array& argument(ArraySpan args, int argnum, const char* who) {
  if (argnum < 0 || static_cast<std::size_t>(argnum) >= args.size())
    throw ValueError(
        who, "argnum " + std::to_string(argnum) + " of " + std::to_string(args.size()) + " arguments");
  return args[static_cast<std::size_t>(argnum)];
}

Shape joined(const Shape& a, const Shape& b) {
  Dims dims = a.to_dims();
  dims.insert(dims.end(), b.begin(), b.end());
  return {dims};
}

}  // namespace

Function jacfwd(Function f, int argnum) {
  return [f = std::move(f), argnum](ArraySpan args) {
    const Aval in = argument(args, argnum, "jacfwd").aval();
    const Traced t = trace_function(f, args);
    const Arrays x = with_captured(t, args);
    const std::size_t at = t.captured.size() + static_cast<std::size_t>(argnum);
    const Function push = [&](ArraySpan tangent) {
      Arrays dx(x.size());
      dx[at] = tangent[0];
      ValuesAndTangents out = jvp_eval(t.program.jaxpr, {}, x, dx);
      for (std::size_t i = 0; i < out.dy.size(); ++i) out.dy[i] = instantiate(out.dy[i], out.y[i].aval());
      return out.dy;
    };
    Arrays jacobians = vmap(push)(Arrays{basis(in)});  // [in.size, out…]
    for (Array& j : jacobians) {
      const Shape out = j.shape().without(0);
      j = reshape(moveaxis(j, 0, static_cast<int>(out.rank())), joined(out, in.shape).to_dims());
    }
    return jacobians;
  };
}

Function jacrev(Function f, int argnum) {
  return [f = std::move(f), argnum](ArraySpan args) {
    const Aval in = argument(args, argnum, "jacrev").aval();
    const Traced t = trace_function(f, args);
    const Arrays x = with_captured(t, args);
    const ClosedJaxpr pull = vjp(t.program, mask_of(t, args.size(), {argnum}));
    const Avals outs = t.program.out_avals();
    Arrays jacobians;
    for (std::size_t k = 0; k < outs.size(); ++k) {
      const Function one = [&](ArraySpan ct) {
        Arrays all = x;
        for (std::size_t i = 0; i < outs.size(); ++i) all.push_back(i == k ? ct[0] : zeros_of(outs[i]));
        return Arrays{eval_jaxpr(pull, all).back()};
      };
      jacobians.push_back(
          reshape(vmap(one)(Arrays{basis(outs[k])})[0], joined(outs[k].shape, in.shape).to_dims()));
    }
    return jacobians;
  };
}

}  // namespace etrace
