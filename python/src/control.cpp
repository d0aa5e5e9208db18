// Transformations and control flow on flat lists of arrays. etrace/_transforms.py puts the trees around them.
#include <mutex>

#include "base/interruptible.h"
#include "calls.h"
#include "control/as_written.h"
#include "gil.h"
#include "module/state_reads.h"

namespace etrace::python {

Array returned(nb::handle result, const char* who) {
  try {
    return to_owned(result);
  } catch (const TypeError& e) {
    throw TypeError(
        who, "the function returned " + describe(result) + ", expected an array (" + e.message() + ")");
  }
}

Arrays returned_list(nb::handle result) {
  Arrays out;
  for (nb::handle item : nb::iter(result)) out.push_back(returned(item, "trace"));
  return out;
}

nb::list to_list(ArraySpan arrays) {
  nb::list out;
  for (const Array& a : arrays) out.append(a);
  return out;
}

namespace {

nb::object call(const nb::object& f, ArraySpan args) {
  return python_called([&] { return f(*to_list(args)); });
}

}  // namespace

Function flat_function(nb::object f) {
  return [f = std::move(f)](ArraySpan args) { return returned_list(call(f, args)); };
}

WeightFn weight_function(const nb::object& f) {
  if (f.is_none()) return {};
  if (!PyCallable_Check(f.ptr()))
    throw TypeError("operator", "a weight function is a function of one array, not " + describe(f));
  return [f](const Array& w) { return returned(f(w), "weight function"); };
}

namespace {

// What is recorded by a transformation itself belongs to the line that called it.
struct CallLine {
  OriginScope scope{user_line()};
};

// A traced function whose captured arrays have become leading inputs.
struct Traced {
  ClosedJaxpr program;  // (captured…, args…)
  Arrays captured;
  Arrays with(ArraySpan args) const {
    Arrays all = captured;
    all.insert(all.end(), args.begin(), args.end());
    return all;
  }
};

Traced trace(const Function& f, ArraySpan args) {
  Recording r = record(avals_of(args), f);
  Traced t{{std::move(r.jaxpr), {}}, std::move(r.captured)};
  Jaxpr& j = t.program.jaxpr;
  j.invars.insert(j.invars.begin(), j.constvars.begin(), j.constvars.end());
  j.constvars.clear();
  return t;
}

nb::list value_and_grad_(nb::object f, const Arrays& args, const std::vector<std::size_t>& active) {
  const CallLine line;
  const Traced t = trace(flat_function(f), args);
  Mask mask(t.captured.size() + args.size(), false);
  for (const std::size_t i : active) {
    if (!is_floating(args[i].dtype()))
      throw TypeError("grad", "an argument of type " + to_string(args[i].aval()) +
                                  " has no gradient; convert it to floats, or name "
                                  "other arguments in argnums");
    mask[t.captured.size() + i] = true;
  }
  const Aval value = t.program.out_avals().at(0);
  if (!value.shape.is_scalar() || !is_floating(value.dtype))
    throw TypeError("grad", "the function returned a value of type " + to_string(value) +
                                "; a gradient is taken of one float (take "
                                "et.sum or et.mean of an array)");
  Arrays out = eval_jaxpr(value_and_grad(t.program, mask), t.with(args));
  // Gradients come in the order of the arguments; give them in the order of `active`.
  const std::size_t values = out.size() - active.size();
  std::vector<std::size_t> sorted = active;
  std::sort(sorted.begin(), sorted.end());
  Arrays ordered(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(values));
  for (const std::size_t i : active)
    ordered.push_back(
        out[values + static_cast<std::size_t>(std::find(sorted.begin(), sorted.end(), i) - sorted.begin())]);
  return to_list(ordered);
}

nb::tuple jvp_(nb::object f, const Arrays& x, const Arrays& dx) {
  const CallLine line;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (dx[i].aval() != x[i].aval())
      throw TypeError("jvp", "a tangent of type " + to_string(dx[i].aval()) + " for an argument of type " +
                                 to_string(x[i].aval()));
  const Traced t = trace(flat_function(f), x);
  Arrays tangents(t.captured.size());
  for (const Array& d : dx) tangents.push_back(is_floating(d.dtype()) ? d : Array());
  ValuesAndTangents out = jvp_eval(t.program.jaxpr, {}, t.with(x), tangents);
  for (std::size_t i = 0; i < out.dy.size(); ++i) out.dy[i] = instantiate(out.dy[i], out.y[i].aval());
  return nb::make_tuple(to_list(out.y), to_list(out.dy));
}

// The transposed derivative at one point; may be called any number of times.
struct Pullback {
  Linearization linearization;
  Arrays residuals;
  Avals inputs, outputs;
  Mask active;

  nb::list operator()(const Arrays& ct) const {
    Arrays used;
    for (std::size_t i = 0; i < ct.size(); ++i) {
      if (ct[i].aval() != outputs[i])
        throw TypeError("vjp", "a cotangent of type " + to_string(ct[i].aval()) + " for a result of type " +
                                   to_string(outputs[i]));
      if (linearization.active_out[i]) used.push_back(ct[i]);
    }
    const std::size_t num_active = linearization.linear.jaxpr.invars.size() - linearization.num_residuals;
    Arrays x = residuals;
    x.resize(residuals.size() + num_active);
    const Arrays back =
        transpose_eval(linearization.linear.jaxpr, to_arrays(linearization.linear.consts), x, used);
    nb::list out;
    std::size_t k = residuals.size();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (active[i])
        out.append(instantiate(back[k++], inputs[i]));
      else
        out.append(zeros_of(inputs[i]));
    }
    return out;
  }
};

nb::tuple vjp_(nb::object f, const Arrays& x) {
  const CallLine line;
  const Traced t = trace(flat_function(f), x);
  Pullback p;
  Mask mask(t.captured.size(), false);
  for (const Array& a : x) {
    p.active.push_back(is_floating(a.dtype()));
    mask.push_back(p.active.back());
    p.inputs.push_back(a.aval());
  }
  p.linearization = linearize(t.program, mask);
  p.outputs = t.program.out_avals();
  Arrays out = eval_jaxpr(p.linearization.primal, t.with(x));
  const auto split = out.begin() + static_cast<std::ptrdiff_t>(p.outputs.size());
  for (auto r = split; r != out.end(); ++r) p.residuals.push_back(owned(*r));
  out.erase(split, out.end());
  return nb::make_tuple(to_list(out), nb::cast(std::move(p)));
}

nb::tuple scan_(nb::object f, const Arrays& init, const Arrays& xs, std::int64_t length, bool reverse,
                std::int64_t checkpoint) {
  const CallLine line;
  const ScanResult r = scan(
      [&](ArraySpan carry, ArraySpan x) -> ScanResult {
        const nb::object out = f(to_list(carry), to_list(x));
        return {returned_list(out[0]), returned_list(out[1])};
      },
      init, xs, {length, reverse, checkpoint});
  return nb::make_tuple(to_list(r.carry), to_list(r.ys));
}

Array predicate(const Array& p) {
  if (p.rank() != 0 || p.dtype() != Dtype::Bool)
    throw TypeError("cond", "a condition is one truth value, not " + to_string(p.aval()) +
                                "; et.where chooses element by element");
  return p;
}

nb::list while_loop_(nb::object condition, nb::object body, const Arrays& init) {
  const CallLine line;
  return to_list(
      while_loop([&](ArraySpan v) { return predicate(returned(call(condition, v), "while_loop")); },
                 flat_function(body), init));
}

nb::list fori_loop_(std::int64_t lower, std::int64_t upper, nb::object body, const Arrays& init) {
  const CallLine line;
  return to_list(fori_loop(
      lower, upper,
      [&](const Array& i, ArraySpan v) {
        Arrays all{i};
        all.insert(all.end(), v.begin(), v.end());
        return returned_list(call(body, all));
      },
      init));
}

// --- programs --------------------------------------------------------------------------------------------

// A recorded function, compiled when it is first called with numbers.
class Jitted {
 public:
  Jitted(Traced t, std::string backend, bool reads_states)
      : traced_(std::move(t)), backend_(std::move(backend)), closed_(!reads_states) {
    for (const Array& a : traced_.captured) closed_ &= !a.is_tracer();
    program_ =
        share(traced_.program);  // may be differentiated: what runs is made lean, and is another program
  }
  // Uses nothing of an enclosing recording, and no states, whose values another call may find changed.
  bool closed() const { return closed_; }

  nb::list operator()(const Arrays& args) {
    const Arrays all = traced_.with(args);
    for (const Array& a : all)
      if (a.is_tracer()) {
        const CallLine line;
        count_recorded_call();
        return to_list(bind_primitive(jit_p, all, {{"jaxpr", program_}}));
      }
    return to_list(to_arrays(run(to_tensors(all))));
  }

 private:
  Tensors run(const Tensors& args) {
    const Released released;
    std::call_once(compiled_, [this] { runnable_ = compile(); });
    std::vector<const void*> in;
    for (const Tensor& t : args) in.push_back(t.bytes());
    Tensors results;
    std::vector<void*> out;
    for (const Aval& aval : program_->out_avals())
      out.push_back(results.emplace_back(Tensor::uninitialized(aval)).writable());
    const Interruptible nothing_outlives_it;
    runnable_->run(in.data(), out.data());
    runnable_->wait();
    return results;
  }
  std::shared_ptr<const Runnable> compile() const {
    const Backend& backend = find_backend(backend_.empty() ? default_backend() : backend_);
    if (backend.memory() != nullptr)
      throw NotSupportedError("jit", "backend '" + std::string(backend.name()) +
                                         "' has memory of its own, which functions of arrays do "
                                         "not use; choose backend=\"auto\", \"native\" or \"interpreter\"");
    Program p{"jit", simplify(*program_).to_run(), {}, {}, {}};
    std::size_t i = 0;
    for (const Aval& a : program_->in_avals())
      p.arguments.push_back({"x" + std::to_string(i++), PortRole::Arg, a});
    i = 0;
    for (const Aval& a : program_->out_avals())
      p.results.push_back({"y" + std::to_string(i++), PortRole::Result, a});
    return backend.compile(p);
  }

  Traced traced_;
  std::string backend_;
  bool closed_;
  JaxprPtr program_;
  std::once_flag compiled_;  // several threads may be the first
  std::shared_ptr<const Runnable> runnable_;
};

nb::object origin_object(const Origin& origin) {
  nb::list module;
  for (const std::string& part : origin.module) module.append(part);
  return nb::module_::import_("etrace._errors").attr("Origin")(nb::tuple(module), origin.file, origin.line);
}

nb::list type_texts(const Avals& avals) {
  nb::list out;
  for (const Aval& a : avals) out.append(to_string(a));
  return out;
}

void bind_programs(nb::module_& m) {
  nb::class_<Eqn>(m, "Eqn", "One equation of a program.")
      .def_prop_ro(
          "primitive", [](const Eqn& e) { return std::string(e.prim->name()); }, "Name of the operation.")
      .def_prop_ro(
          "origin", [](const Eqn& e) { return origin_object(e.origin); },
          "Module path, file and line of the model.")
      .def_prop_ro("in_types",
                   [](const Eqn& e) {
                     Avals a;
                     for (const Atom& x : e.in) a.push_back(aval_of(x));
                     return type_texts(a);
                   })
      .def_prop_ro("out_types",
                   [](const Eqn& e) {
                     Avals a;
                     for (const Var& x : e.out) a.push_back(x.aval);
                     return type_texts(a);
                   })
      .def_prop_ro(
          "params",
          [](const Eqn& e) {
            nb::dict d;
            for (const auto& [key, value] : e.params.items()) d[key.c_str()] = to_string(value);
            return d;
          },
          "The static parameters, as text.")
      .def("__repr__",
           [](const Eqn& e) { return std::string(e.prim->name()) + " (" + to_string(e.origin) + ")"; });
  nb::class_<ClosedJaxpr>(m, "Jaxpr", "A typed program. str() shows it; calling it runs it.")
      .def("__str__", [](const ClosedJaxpr& j) { return to_string(j.jaxpr); })
      .def("__repr__", [](const ClosedJaxpr& j) { return to_string(j.jaxpr); })
      .def(
          "__eq__",
          [](const ClosedJaxpr& a, nb::handle b) {
            return nb::isinstance<ClosedJaxpr>(b) && equal(a, nb::cast<const ClosedJaxpr&>(b));
          },
          nb::arg("other").none())
      .def("__hash__", [](const ClosedJaxpr& j) { return hash(j); })
      .def("__reduce__",
           [](const ClosedJaxpr& j) {
             return nb::make_tuple(nb::module_::import_("etrace._pickle").attr("program"),
                                   nb::make_tuple(to_string(j)));
           })
      .def_prop_ro(
          "eqns", [](const ClosedJaxpr& j) { return j.jaxpr.eqns; }, "The equations, in order.")
      .def_prop_ro("in_types", [](const ClosedJaxpr& j) { return type_texts(j.in_avals()); })
      .def_prop_ro("out_types", [](const ClosedJaxpr& j) { return type_texts(j.out_avals()); })
      .def_prop_ro(
          "consts", [](const ClosedJaxpr& j) { return to_list(to_arrays(j.consts)); },
          "Arrays that the function used from outside.")
      .def(
          "to_text", [](const ClosedJaxpr& j) { return to_string(j); },
          "The program with its constants: et.parse_jaxpr reads it.")
      .def("__call__", [](const ClosedJaxpr& j, nb::args args) {
        const CallLine line;
        Arrays all;
        for (nb::handle h : args) all.push_back(from_object<Array>(h));
        return to_list(eval_jaxpr(j, all));
      });
  m.def(
      "parse_jaxpr", [](const std::string& text) { return parse(text); }, "text"_a,
      "The program that Jaxpr.to_text wrote.");
  nb::class_<Jitted>(m, "_Jitted")
      .def_prop_ro("closed", &Jitted::closed)
      .def("__call__", &Jitted::operator(), "args"_a);
  nb::class_<Pullback>(m, "_Pullback").def("__call__", &Pullback::operator(), "cotangents"_a);
}

}  // namespace

void bind_control(nb::module_& m) {
  bind_programs(m);
  // A leaf of a tree as an array of its own type; a bare number becomes float32, int32 or bool.
  m.def(
      "_leaf",
      [](nb::handle x) {
        if (is_array(x)) return nb::cast<Array>(x);
        return to_owned(x);
      },
      nb::arg("x").none());
  // The same of what a loop starts from: a bare number takes the type that the loop's body gives it.
  m.def(
      "_first_value",
      [](nb::handle x) {
        const bool bare = PyFloat_CheckExact(x.ptr()) != 0 || PyLong_CheckExact(x.ptr()) != 0;
        return is_array(x) ? nb::cast<Array>(x) : bare ? from_object<Array>(x) : to_owned(x);
      },
      nb::arg("x").none());
  m.def("_value_and_grad", &value_and_grad_);
  m.def("_jvp", &jvp_);
  m.def("_vjp", &vjp_);
  m.def("_vmap", [](nb::object f, const Arrays& args, std::vector<int> axes) {
    const CallLine line;
    return to_list(vmap(flat_function(f), std::move(axes), 0)(args));
  });
  m.def("_jacfwd", [](nb::object f, const Arrays& args, int i) {
    const CallLine line;
    return to_list(jacfwd(flat_function(f), i)(args));
  });
  m.def("_jacrev", [](nb::object f, const Arrays& args, int i) {
    const CallLine line;
    return to_list(jacrev(flat_function(f), i)(args));
  });
  m.def("_scan", &scan_);
  m.def("_while_loop", &while_loop_);
  m.def("_fori_loop", &fori_loop_);
  m.def("_cond", [](const Array& p, nb::object t, nb::object f, const Arrays& operands) {
    const CallLine line;
    return to_list(cond(predicate(p), flat_function(t), flat_function(f), operands));
  });
  m.def("_switch_case",
        [](const Array& index, const std::vector<nb::object>& branches, const Arrays& operands) {
          const CallLine line;
          std::vector<Function> all;
          for (const nb::object& b : branches) all.push_back(flat_function(b));
          return to_list(switch_case(index, all, operands));
        });
  m.def("_custom_jvp", [](nb::object f, nb::object rule, const Arrays& args) {
    const CallLine line;
    return to_list(custom_jvp(flat_function(f), flat_function(rule))(args));
  });
  m.def("_custom_vjp", [](nb::object f, nb::object fwd, nb::object bwd, const Arrays& args) {
    const CallLine line;
    return to_list(custom_vjp(flat_function(f), flat_function(fwd), flat_function(bwd))(args));
  });
  m.def("_as_written", &AsWritten::active);
  m.def("_recorded_calls", &recorded_calls);
  m.def(
      "_record_as_written",
      [](const nb::object& record) {
        const AsWritten scope;
        return record();
      },
      "record"_a, "What `record` gives when et.jit makes no calls.");
  m.def("_make_jaxpr",
        [](nb::object f, const Arrays& args) { return make_jaxpr(flat_function(f), avals_of(args)); });
  m.def(
      "_jit",
      [](nb::object f, const Arrays& args, std::string backend) {
        const std::uint64_t reads = StateReads::made();
        Traced traced = trace(flat_function(f), args);
        return new Jitted(std::move(traced), std::move(backend), StateReads::made() != reads);
      },
      nb::rv_policy::take_ownership);
}

}  // namespace etrace::python
