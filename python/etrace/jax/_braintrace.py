"""A model of braintrace, brainstate or brainpy.state becomes a model: `trace_braintrace`. Its operators, states,
parameters, units and sparse matrices stay what they are. Public names of brainstate alone are used."""

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import NotSupportedError, ValueError
from . import _program
from ._recognise import DATA, WEIGHT, recognise
from ._step import Traced, _numbered, _part, _record
from ._walk import walk


def _is_quantity(value):
    return hasattr(value, "mantissa") and hasattr(value, "unit")


def _leaves(state):
    """(key, value) of every leaf; a quantity is one leaf."""
    flat, _ = jax.tree_util.tree_flatten_with_path(state.value, is_leaf=_is_quantity)
    return [(tuple(map(_part, key)), value) for key, value in flat]


def _mantissa(value):
    return value.mantissa if _is_quantity(value) else value


def _path_part(part):
    return int(part) if isinstance(part, (int, np.integer)) else str(part).replace("/", "|")


def _role(brainstate, state):
    if isinstance(state, brainstate.ParamState):
        return "param"
    return "hidden" if isinstance(state, brainstate.HiddenState) else "other"


class TracedStates(Traced):
    """A model that came from braintrace. `units`: of every leaf that has one; `states`: its parameters by path."""

    def __init__(self, file, states, found, notes, batch_size, units):
        self.states = {"/".join(map(str, path)): state for path, state in states}
        super().__init__(file, self.states, found, notes, batch_size)
        self.units = units

    def paths(self):
        return list(self.states)

    def parameters(self, values=None):
        """Values by path; None: those that the braintrace model has. A parameter of several arrays is a dictionary."""
        return {path: state.value for path, state in self.states.items()} if values is None else values

    def flat(self, params):
        return dict(params)

    def put_back(self, values):
        """Writes values (path -> array, or dictionary of leaves) into the parameters of the braintrace model. All are
        checked before the first is written."""
        flat = {}
        for path, given in values.items():
            _flatten_into(flat, path, given)
        write_states(self.states, flat, write=True)


def _flatten_into(flat, path, value, sep="."):
    if isinstance(value, dict):
        for key, item in value.items():
            _flatten_into(flat, f"{path}{sep}{key}", item, "/")
    else:
        flat[path] = value


def write_states(states, values, write):
    """{path: value} like the states', with `values`: by path, and behind a point by the key of the leaf. They are written
    if `write` is set, after all were checked."""
    new = {}
    for path, state in states.items():
        flat, structure = jax.tree_util.tree_flatten_with_path(state.value, is_leaf=_is_quantity)
        out = []
        for key, old in flat:
            name = path + ("." + "/".join(map(_part, key)) if key else "")
            if name not in values:
                raise ValueError(f"there is no value for the parameter {name}", stage="put_back")
            value = jnp.asarray(np.asarray(_mantissa(values[name])), jnp.result_type(_mantissa(old)))
            if value.shape != jnp.shape(_mantissa(old)):
                raise ValueError(f"the parameter {name} has shape {jnp.shape(_mantissa(old))}, the value {value.shape}",
                                 stage="put_back")
            out.append(type(old)(value, unit=old.unit) if _is_quantity(old) else value)
        new[path] = jax.tree_util.tree_unflatten(structure, out)
    if write:
        for path, value in new.items():
            states[path].value = value
    return new


def trace_braintrace(model, example, *, batch_size=None, init=True, operators="marked", name=None):
    """Traces a model of braintrace, brainstate or brainpy.state as it is.

    example     an argument like those of a step, or a tuple of arguments
    batch_size  states start with a leading axis of so many samples; arguments must have it, too
    init        states start anew (brainstate.nn.init_all_states); False: with the values that they have
    operators   "marked": braintrace's own; "auto": products of all other parameters, too
    Values of brainstate.environ (dt, t …) are constants: call it inside the context that the model runs in.
    """
    import brainstate

    args = example if isinstance(example, tuple) else (example,)
    if init:
        brainstate.nn.init_all_states(model, **({} if batch_size is None else {"batch_size": batch_size}))
    function = brainstate.transform.StatefulFunction(model, return_only_write=False)
    function.make_jaxpr(*args)
    closed, states = function.get_jaxpr(*args), list(function.get_states(*args))
    path_of = {id(state): tuple(map(_path_part, path)) for path, state in brainstate.graph.states(model).items()}

    inputs = [{"role": "arg", "index": i} for i in range(len(jax.tree_util.tree_leaves(args)))]
    outputs, units, params = [], {}, []
    for i, state in enumerate(states):
        path = path_of.get(id(state), (f"_unknown_path_{i}",))
        role = _role(brainstate, state)
        if role == "param":
            params.append((path, state))
        for leaf, (key, value) in enumerate(_leaves(state)):
            record = _record(role, path, jnp.asarray(_mantissa(value)), type(state).__name__, leaf, key)
            inputs.append(record)
            outputs.append({k: v for k, v in record.items() if k != "init"})
            if _is_quantity(value):
                units["/".join(map(str, (*path, *key)))] = str(value.unit)
    results = len(closed.out_avals) - len(outputs)
    outputs = [{"role": "out", "index": i} for i in range(results)] + outputs
    if len(closed.in_avals) != len(inputs):
        raise NotSupportedError(f"the step has {len(closed.in_avals)} inputs, its arguments and states have "
                                f"{len(inputs)} leaves: a state holds something that is no array", stage="from_braintrace")

    notes = []
    program, found = walk(closed, notes), []
    if operators == "auto":
        program, found = recognise(program, [WEIGHT if r["role"] == "param" else DATA for r in inputs], batch_size)
    # A parameter that the step does not write is no output: braintrace returns it all the same.
    kept = [i for i, r in enumerate(outputs) if r["role"] != "param" or program.outs[i] not in program.invars]
    program.outs, outputs = [program.outs[i] for i in kept], [outputs[i] for i in kept]
    import braintrace
    file = {"format": "etrace.model", "version": 1, "name": name or type(model).__name__,
            "source": f"braintrace {braintrace.__version__}, JAX {jax.__version__}",
            "jaxpr": _program.to_json(_program.without_dead_code(program)), "inputs": inputs, "outputs": outputs}
    traced = TracedStates(file, params, found, notes, batch_size, units)
    traced.args, traced.result = (_numbered(t, _is_quantity) for t in (args, function.get_out_shapes(*args)[0]))
    return traced
