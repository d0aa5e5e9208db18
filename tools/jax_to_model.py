#!/usr/bin/env python3
"""Writes a model file (docs/model-files.md) from a step function in JAX.

    import jax.numpy as jnp
    from jax_to_model import matmul, write_model

    def step(params, hidden, x):                    # -> new hidden states, result
        xh = jnp.concatenate([x, hidden["h"]])
        h = jnp.tanh(matmul(xh, params["rnn"]["W"], params["rnn"]["b"]))
        return {"h": h}, h @ params["out"]

    write_model("rnn.json", step, params, hidden, [x])

`params` and `hidden` are nested dictionaries of arrays: their keys become paths ("rnn/W"). Weights that are to be
learned online act through `matmul` or `element_wise` of this module, which are ordinary functions in JAX and
trainable operators in the file. With sequence=([xs], targets) the file also holds what JAX computes over that
sequence: outputs, and the gradient of the summed mean squared error, which `etrace check FILE` compares.

Needs JAX, which etrace itself does not.
"""

import enum
import json

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np

_OPERATORS = {}  # name of the traced call -> its equation in the file


def _operator(equation):
    def register(function):
        _OPERATORS[function.__name__] = equation
        return jax.jit(function)
    return register


def _matmul_equation(inputs):
    x = inputs[0].aval
    if len(x.shape) not in (1, 2):
        raise ValueError(f"matmul of x {x.str_short()}: expected [features] or [batch, features]")
    return "etp_mv" if len(x.shape) == 1 else "etp_mm", {"has_bias": len(inputs) == 3}


@_operator(_matmul_equation)
def etrace_matmul(x, weight):
    return x @ weight


@_operator(_matmul_equation)
def etrace_matmul_bias(x, weight, bias):
    return x @ weight + bias


@_operator(lambda inputs: ("etp_elemwise", {}))
def etrace_element_wise(weight):
    return weight


def matmul(x, weight, bias=None):
    """x [I] or [B,I] times a weight [I,O] that is learned online, plus a bias [O]."""
    return etrace_matmul(x, weight) if bias is None else etrace_matmul_bias(x, weight, bias)


def element_wise(weight):
    """A weight that is learned online and acts element by element."""
    return etrace_element_wise(weight)


# Programs ---------------------------------------------------------------------------------------------------
def _number(value):
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    value = float(value)
    return value if np.isfinite(value) else "nan" if np.isnan(value) else "inf" if value > 0 else "-inf"


def _array(value):
    value = np.asarray(value)
    return {"shape": list(value.shape), "dtype": value.dtype.name, "data": [_number(v) for v in value.ravel()]}


def _is_literal(atom):
    return hasattr(atom, "val")


class _Program:
    """One jaxpr; ids are counted per program."""

    # What has no bearing on the meaning is left out.
    IGNORED = {
        "jit": {"name", "donated_invars", "keep_unused", "inline", "compiler_options_kvs", "ctx_mesh", "in_layouts",
                "out_layouts", "in_shardings", "out_shardings", "resource_env"},
        "scan": {"linear", "unroll", "_split_transpose"},
        "custom_jvp_call": {"symbolic_zeros", "jvp_jaxpr_fun", "name"},
    }

    def __init__(self, closed, within_rule=False):
        self.closed = closed
        self.within_rule = within_rule
        self.ids = {}

    def json(self):
        jaxpr = self.closed.jaxpr
        return {
            "constvars": [self.define(v) for v in jaxpr.constvars],
            "consts": [_array(c) for c in self.closed.consts],
            "invars": [self.define(v) for v in jaxpr.invars],
            "eqns": [self.equation(e) for e in jaxpr.eqns],
            "outvars": [self.atom(v) for v in jaxpr.outvars],
        }

    def define(self, var):
        self.ids[var] = len(self.ids)
        out = {"id": self.ids[var], "shape": list(var.aval.shape), "dtype": var.aval.dtype.name}
        return {**out, "drop": True} if type(var).__name__ == "DropVar" else out

    def atom(self, atom):
        if not _is_literal(atom):
            return self.ids[atom]
        return {"lit": _number(atom.val), "dtype": atom.aval.dtype.name, "shape": []}

    def equation(self, eqn):
        name = {"pjit": "jit"}.get(eqn.primitive.name, eqn.primitive.name)
        inputs = [self.atom(v) for v in eqn.invars]
        if name.startswith("custom_vjp_call"):
            # LIMIT: a function with a reverse rule of its own is not written; one with a forward rule is.
            raise NotImplementedError("custom_vjp is not written to model files; give the function a custom_jvp")
        if name == "jit" and eqn.params["name"] in _OPERATORS:
            name, params = _OPERATORS[eqn.params["name"]](eqn.invars)
        else:
            ignored = self.IGNORED.get(name, set()) | {"sharding", "out_sharding"}
            params = {k: self.param(v) for k, v in eqn.params.items() if k not in ignored and v is not None}
        if name == "custom_jvp_call" and not self.within_rule:  # a rule may call the function: it has none again
            params["jvp_jaxpr"] = {"jaxpr": _Program(self.derivative_rule(eqn), within_rule=True).json()}
        return {"prim": name, "in": inputs, "out": [self.define(v) for v in eqn.outvars], "params": params}

    def param(self, value):
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if hasattr(value, "jaxpr") and hasattr(value, "consts"):
            return {"jaxpr": _Program(value, self.within_rule).json()}
        if hasattr(value, "eqns"):
            return {"jaxpr": _Program(jax.extend.core.ClosedJaxpr(value, ()), self.within_rule).json()}
        if isinstance(value, enum.Enum):
            return value.name
        if hasattr(value, "_asdict"):
            return {k: self.param(v) for k, v in value._asdict().items()}
        if hasattr(value, "__dataclass_fields__"):
            return {k: self.param(getattr(value, k)) for k in value.__dataclass_fields__}
        if isinstance(value, (list, tuple)):
            return [self.param(v) for v in value]
        if isinstance(value, np.ndarray):
            return value.tolist()
        if isinstance(value, np.generic):
            return value.item()
        return np.dtype(value).name  # a dtype, or nothing that the format knows

    def derivative_rule(self, eqn):
        """(x…, dx…) -> (y…, dy…), by the function's own rule: the equation alone, differentiated by JAX."""
        info = self.closed.jaxpr.debug_info
        alone = self.closed.jaxpr.replace(constvars=[], invars=[v for v in eqn.invars if not _is_literal(v)],
                                          outvars=list(eqn.outvars), eqns=[eqn],
                                          debug_info=info and info.with_unknown_names())
        call = jax.extend.core.jaxpr_as_fun(jax.extend.core.ClosedJaxpr(alone, ()))

        def rule(*values):
            half = len(values) // 2
            kept = [i for i in range(half) if not _is_literal(eqn.invars[i])]
            y, dy = jax.jvp(call, [values[i] for i in kept], [values[half + i] for i in kept])
            return [*y, *dy]
        types = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
        return jax.make_jaxpr(rule)(*types, *types)


# Models -----------------------------------------------------------------------------------------------------
def _leaves(tree, role, kind):
    """Input records and values of a dictionary of states, sorted by path."""
    if not isinstance(tree, dict):
        raise TypeError(f"{role}: expected a dictionary of arrays, found {type(tree).__name__}")
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    for path, value in flat:
        keys = [str(getattr(k, "key", getattr(k, "idx", k))) for k in path]
        yield {"role": role, "path": keys, "leaf": 0, "leaf_key": [], "type": kind}, jnp.asarray(value)


def _reference_run(step, params, hidden, sequence):
    xs, targets = [jnp.asarray(x) for x in sequence[0]], jnp.asarray(sequence[1])

    def run(weights):
        def one(states, slices):
            states, out = step(weights, states, *slices[:-1])
            return states, (out, jnp.mean((out - slices[-1]) ** 2))
        states, (outputs, losses) = jax.lax.scan(one, hidden, (*xs, targets))
        return jnp.sum(losses), (states, outputs, losses)

    (_, (states, outputs, losses)), grads = jax.value_and_grad(run, has_aux=True)(params)
    def named(tree, wrap):
        return {"/".join(r["path"]): wrap(v) for r, v in _leaves(tree, "", "")}
    return {
        "id": "BPTT", "algorithm": "BPTT", "options": {}, "loss": "mse", "window": 1,
        "args": [_array(x) for x in xs], "targets": _array(targets), "outputs": _array(outputs),
        "losses": _array(losses), "hidden": named(states, _array), "grads": named(grads, lambda g: [_array(g)]),
    }


def model_of(step, params, hidden, args, name="model", sequence=None):
    """The model file of one step, as a dictionary for json.dump."""
    closed = jax.make_jaxpr(step)(params, hidden, *args)
    states = [*_leaves(params, "param", "ParamState"), *_leaves(hidden, "hidden", "HiddenState")]
    inputs = [{**record, "init": _array(value)} for record, value in states]
    inputs += [{"role": "arg", "index": i} for i in range(len(args))]
    new_hidden, results = jax.eval_shape(step, params, hidden, *args)
    if jax.tree_util.tree_structure(new_hidden) != jax.tree_util.tree_structure(hidden):
        raise ValueError("step must return the hidden states that it got, under the same names, and then its result")
    outputs = [record for record, _ in states if record["role"] == "hidden"]
    outputs += [{"role": "out", "index": i} for i in range(len(jax.tree_util.tree_leaves(results)))]
    model = {"format": "etrace.model", "version": 1, "name": name, "source": f"JAX {jax.__version__}",
             "jaxpr": _Program(closed).json(), "inputs": inputs, "outputs": outputs}
    if sequence is not None:
        model["expected"] = {"runs": [_reference_run(step, params, hidden, sequence)]}
    return model


def write_model(path, step, params, hidden, args, name="model", sequence=None):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(model_of(step, params, hidden, args, name, sequence), file)
