"""A pure step function of JAX becomes the program of a model file: `trace`, `to_model_file`."""

import json

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import TypeError, ValueError
from . import _program
from ._recognise import CONST, DATA, WEIGHT, recognise
from ._walk import is_key, value_of, walk


# Paths ------------------------------------------------------------------------------------------------------
def _part(key):
    """One step of a path, whatever JAX calls it; slashes part the steps, so that none may hold one."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute)).replace("/", "|")
    return str(key).strip(".[]'\"").replace("/", "|")


def leaves(tree, what):
    """(path, value) of every leaf, in JAX's order."""
    out = [(tuple(map(_part, path)) or (what,), value) for path, value in
           jax.tree_util.tree_flatten_with_path(tree)[0]]
    seen = set()
    for path, value in out:
        if path in seen:
            raise ValueError(f"two leaves of {what} have the path {'/'.join(path)}; rename one", stage="from_step")
        seen.add(path)
        if not hasattr(value, "dtype"):
            _checked_number(what, path, value)
    kept = (jax.Array, jax.ShapeDtypeStruct)
    return [(path, value if isinstance(value, kept) else jnp.asarray(value)) for path, value in out]


def _states_apart(weights, states):
    """Paths of states: under "state" if one of them is also a parameter's or leads to one."""
    taken = {path[:n] for path, _ in weights for n in range(1, len(path) + 1)}
    mine = {path[:n] for path, _ in states for n in range(1, len(path) + 1)}
    if not any(path in mine for path, _ in weights) and not any(path in taken for path, _ in states):
        return states
    first = "state"
    while (first,) in taken:
        first += "_"
    return [((first, *path), value) for path, value in states]


def _is_trainable(value):
    return not is_key(value.dtype) and jnp.issubdtype(value.dtype, jnp.floating)


def _checked_number(what, path, value):
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"{what}/{'/'.join(path)} is a {type(value).__name__}; expected an array. Bind what is no array "
                        "with functools.partial", stage="from_step")


class Traced:
    """A step that was traced in JAX: the dictionary of a model file, and what was found on the way.

    `found`: a sentence for every operator; `notes`: what was left out; `state_paths`: of the leaves of the state;
    `args`, `result`: trees like those of a step, with the number of the array in place of each leaf."""

    def __init__(self, file, params, found, notes, batch_size=None):
        self.file, self.found, self.notes, self.batch_size = file, found, notes, batch_size
        self._params = params
        self.state, self.state_paths, self.args, self.result = None, [], None, None

    def json(self):
        return json.dumps(self.file)

    def write(self, path):
        """Writes the model file."""
        text = self.json()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def paths(self):
        """Paths of the parameters, in the order of the tree's leaves."""
        return ["/".join(path) for path, _ in leaves(self._params, "params")]

    def parameters(self, values=None):
        """The tree of parameters with `values`, a mapping from path to array; None: as they were traced."""
        flat, structure = jax.tree_util.tree_flatten(self._params)
        if values is None:
            return self._params
        out = []
        for path, old in zip(self.paths(), flat):
            if path not in values:
                raise ValueError(f"there is no value for the parameter {path}", stage="parameters")
            new = jnp.asarray(np.asarray(values[path]))
            if new.shape != jnp.shape(old):
                raise ValueError(f"the parameter {path} has shape {jnp.shape(old)}, the value {new.shape}",
                                 stage="parameters")
            out.append(new)
        return jax.tree_util.tree_unflatten(structure, out)

    def flat(self, params):
        """The reverse: a mapping from path to array, of a tree like the one that was traced."""
        old, new = jax.tree_util.tree_structure(self._params), jax.tree_util.tree_structure(params)
        if old != new:
            raise ValueError(f"the model has parameters {old}, these are {new}", stage="parameters")
        return {"/".join(path): np.asarray(value) for path, value in leaves(params, "params")}

    def __repr__(self):
        return "\n".join([f"model '{self.file['name']}' from {self.file['source']}", *self.found, *self.notes])


def trace(step, params, state, example, *, batch_size=None, operators="auto", hidden=None, keys=(), name=None):
    """Traces `step(params, state, x) -> (state, y)`, a pure function of pytrees.

    example     an argument like those of a step, or a tuple of arguments; its values do not matter
    batch_size  the leading axis of all states and arguments counts samples
    operators   "auto": a product of a parameter becomes an operator that learns it online; "marked": only those of
                et.jax.matmul and its kin
    hidden      states that are traced: None for all of floating type, or a function of (path, value)
    keys        paths of states, such as "rng" or "cell/rng", that hold random keys as pairs of uint32; those of JAX's
                own type are known
    """
    if operators not in ("auto", "marked"):
        raise ValueError(f"operators is {operators!r}; there are 'auto' and 'marked'", stage="from_step")
    args = example if isinstance(example, tuple) else (example,)
    weights = leaves(params, "params")
    plain = leaves(state, "state")
    states = _states_apart(weights, plain)
    keys = _known_keys((keys,) if isinstance(keys, str) else tuple(keys), plain)
    chosen = [hidden is None or bool(hidden(path, value)) for path, value in plain]
    inputs = [*(_param_record(path, value) for path, value in weights),
              *(_state_record(path, value, hidden is not None, yes, batch_size, kept in keys)
                for (path, value), (kept, _), yes in zip(states, plain, chosen))]
    leaf_args = jax.tree_util.tree_leaves(args)
    for i, x in enumerate(leaf_args):
        _check_batch(f"argument {i}", np.shape(x), batch_size)
    inputs += [{"role": "arg", "index": i} for i in range(len(leaf_args))]

    closed, (new_state, result) = jax.make_jaxpr(step, return_shape=True)(params, state, *args)
    _check_state(state, new_state)
    outputs = [{k: v for k, v in r.items() if k != "init"} for r in inputs[len(weights):] if r["role"] != "arg"]
    outputs += [{"role": "out", "index": i} for i in range(len(jax.tree_util.tree_leaves(result)))]

    notes = []
    program, found = walk(closed, notes), []
    if operators == "auto":
        kinds = [WEIGHT if r["role"] == "param" else CONST for r in inputs[:len(weights)]]
        program, found = recognise(program, [*kinds, *[DATA] * (len(inputs) - len(weights))], batch_size)
    file = {"format": "etrace.model", "version": 1, "name": name or getattr(step, "__name__", "model"),
            "source": f"JAX {jax.__version__}", "jaxpr": _program.to_json(_program.without_dead_code(program)),
            "inputs": inputs, "outputs": outputs}
    traced = Traced(file, params, found, notes, batch_size)
    traced.state, traced.state_paths = state, ["/".join(path) for path, _ in states]
    traced.args, traced.result = _numbered(args), _numbered(result)
    return traced


def _numbered(tree, is_leaf=None):
    structure = jax.tree_util.tree_structure(tree, is_leaf=is_leaf)
    return jax.tree_util.tree_unflatten(structure, range(structure.num_leaves))


def _param_record(path, value):
    """What is no number of floating type is kept beside the parameters and never trained."""
    trainable = _is_trainable(value)
    return _record("param" if trainable else "other", path, value, "ParamState" if trainable else "LongTermState")


def _record(role, path, value, kind, leaf=0, leaf_key=()):
    return {"role": role, "path": list(path), "leaf": leaf, "leaf_key": list(leaf_key), "type": kind,
            "init": _program.array(value_of(value))}


def _known_keys(given, states):
    """The paths of states that hold keys."""
    by_text = {"/".join(path): (path, value) for path, value in states}
    for name in given:
        if name not in by_text:
            raise ValueError(f"keys names {name!r}, which is no state; there are: {', '.join(by_text)}", stage="from_step")
        value = by_text[name][1]
        if not is_key(value.dtype) and (value.dtype != jnp.uint32 or value.shape[-1:] != (2,)):
            raise ValueError(f"keys names {name!r}, of type {value.dtype}{list(value.shape)}; a random key is a pair of "
                             "uint32", stage="from_step")
    return {by_text[name][0] for name in given} | {path for path, value in states if is_key(value.dtype)}


def _state_record(path, value, asked, chosen, batch_size, key):
    floating = _is_trainable(value)
    traced = floating and chosen
    if asked and chosen and not floating:
        raise ValueError(f"state {'/'.join(path)} has type {value.dtype}; only states of floating type can be traced",
                         stage="from_step")
    if traced:
        _check_batch("state " + "/".join(path), value.shape, batch_size)
    kind = "HiddenState" if traced else "KeyState" if key else "ShortTermState"
    return _record("hidden" if traced else "other", path, value, kind)


def _check_batch(what, shape, batch_size):
    if batch_size is not None and (not shape or shape[0] != batch_size):
        raise ValueError(f"batch_size is {batch_size}, but {what} has shape {tuple(shape)}; its leading axis must count "
                         "the samples", stage="from_step")


def _check_state(old, new):
    if jax.tree_util.tree_structure(old) != jax.tree_util.tree_structure(new):
        raise ValueError("step must return the states that it got, under the same names, and then its result: it got "
                         f"{jax.tree_util.tree_structure(old)} and returned {jax.tree_util.tree_structure(new)}",
                         stage="from_step")
    for (path, before), (_, after) in zip(leaves(old, "state"), leaves(new, "state")):
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            raise ValueError(f"state {'/'.join(path)} is {before.dtype}{list(before.shape)} before the step and "
                             f"{after.dtype}{list(after.shape)} after it; both must agree", stage="from_step")


# With what JAX computes -------------------------------------------------------------------------------------
def reference_run(step, params, state, xs, targets):
    """What JAX computes over a sequence, for `etrace check`: outputs, and the gradient of the summed mean squared error.
    `xs`: a tuple of arguments, time first."""
    xs = tuple(map(jnp.asarray, xs))
    targets = jnp.asarray(targets)

    def run(weights):
        def one(states, slices):
            states, out = step(weights, states, *slices[:-1])
            return states, (out, jnp.mean((out - slices[-1]) ** 2))
        states, (outputs, losses) = jax.lax.scan(one, state, (*xs, targets))
        return jnp.sum(losses), (states, outputs, losses)

    (_, (states, outputs, losses)), grads = jax.value_and_grad(run, has_aux=True)(params)
    floating = [(p, v) for p, v in _states_apart(leaves(params, "params"), leaves(states, "state")) if _is_trainable(v)]
    return {"id": "BPTT", "algorithm": "BPTT", "options": {}, "loss": "mse", "window": 1,
            "args": [_program.array(x) for x in xs], "targets": _program.array(targets),
            "outputs": _program.array(outputs), "losses": _program.array(losses),
            "hidden": {"/".join(p): _program.array(v) for p, v in floating},
            "grads": {"/".join(p): [_program.array(v)] for p, v in leaves(grads, "params")}}


def to_model_file(path, step, params, state, example, *, sequence=None, **options):
    """Writes what `etrace check`, `explain` and all that takes a MODEL read. With sequence=(xs, targets), xs a tuple of
    arguments with time in front, the file also holds what JAX computes over it, which `etrace check` compares."""
    model = trace(step, params, state, example, **options)
    if sequence is not None:
        xs = sequence[0] if isinstance(sequence[0], (tuple, list)) else (sequence[0],)
        model.file["expected"] = {"runs": [reference_run(step, params, state, xs, sequence[1])]}
    model.write(path)
    return model
