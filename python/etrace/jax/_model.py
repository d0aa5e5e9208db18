"""Programs from JAX and braintrace as models of etrace: `from_step`, `from_braintrace`."""

import jax
import jax.numpy as jnp
import numpy as np

from .. import _core
from .._errors import ValueError
from .._imported import Imported, _text
from .._module import params as param_values
from ._braintrace import trace_braintrace, write_states
from ._step import leaves, trace
from ._walk import is_key


def from_step(step, params, state, example, *, batch_size=None, operators="auto", hidden=None, keys=(), name=None):
    """The model of `step(params, state, x) -> (state, y)`, a pure function of pytrees in JAX.

    Arguments are those of `trace`. `et.compile(model, rule, example, batch_size=…)` takes it like a model written here;
    `model.params()` gives the parameters as the tree that came in, with the values that they have now."""
    return StepModel(trace(step, params, state, example, batch_size=batch_size, operators=operators, hidden=hidden,
                           keys=keys, name=name))


def from_braintrace(model, example, *, batch_size=None, init=True, operators="marked", name=None):
    """The model of one of braintrace, brainstate or brainpy.state, as it is; arguments are those of `trace_braintrace`.

    `model.put_back()` writes the parameters that were learned into the model that came in."""
    return StatesModel(trace_braintrace(model, example, batch_size=batch_size, init=init, operators=operators, name=name))


class _FromJax(Imported):
    """A program that was traced in JAX: arguments and results are the trees of the step."""

    def __init__(self, traced):
        super().__init__(_core._read_model_text(traced.json(), traced.file["name"]), traced.batch_size)
        self.found, self.notes = traced.found, traced.notes
        self._trees = (traced.args, traced.result)

    def update(self, *args):
        expected = jax.tree_util.tree_structure(self._trees[0])
        flat, structure = jax.tree_util.tree_flatten(args)
        if structure != expected:
            raise ValueError(f"the step was imported for arguments {expected}, these are {structure}", stage="import")
        result = jax.tree_util.tree_structure(self._trees[1])
        return jax.tree_util.tree_unflatten(result, self._step(flat))

    def _values(self, given):
        """{path.leaf: array} of what is given: None for the values now, et.ParamValues (gradients, too), or a mapping."""
        out = {}
        for name, value in (param_values(self) if given is None else given).items():
            if isinstance(value, dict):
                out.update({f"{name}.{key}": np.asarray(leaf) for key, leaf in value.items()})
            else:
                out[name] = np.asarray(value)
        return out

    def __repr__(self):
        return "\n".join([super().__repr__(), *self.found, *self.notes])


class StepModel(_FromJax):
    """A step function of JAX as a model. `found`: a sentence for every operator; `notes`: what was left out."""

    def __init__(self, traced):
        super().__init__(traced)
        self._params, self._state = traced.parameters(), traced.state
        self._state_paths = [tuple(path.split("/")) for path in traced.state_paths]

    def params(self, values=None):
        """The tree of parameters that came in, with the values that they have now; or with `values`, by path: gradients
        become a tree by `model.params(result.grads)`."""
        values = self._values(values)
        flat, structure = jax.tree_util.tree_flatten(self._params)
        out = []
        for (path, _), old in zip(leaves(self._params, "params"), flat):
            name = _text(path)
            if self._by_path[path].kind != "ParamState":
                out.append(old)
            elif name not in values:
                raise ValueError(f"there is no value for the parameter {name}", stage="params")
            else:
                out.append(_checked(name, values[name], self._by_path[path]))
        return jax.tree_util.tree_unflatten(structure, out)

    def set_params(self, params):
        """Takes the values of a tree like the one that came in. All or none."""
        old, new = jax.tree_util.tree_structure(self._params), jax.tree_util.tree_structure(params)
        if old != new:
            raise ValueError(f"the model has parameters {old}, these are {new}", stage="set_params")
        given = [(self._by_path[path], _text(path), value) for path, value in leaves(params, "params")]
        given = [(state, _checked(name, value, state)) for state, name, value in given if state.kind == "ParamState"]
        for state, value in given:
            state.value = np.asarray(value)

    def state(self):
        """The tree of states, with the values that they have now."""
        flat, structure = jax.tree_util.tree_flatten(self._state)
        out = []
        for path, old in zip(self._state_paths, flat):
            value = jnp.asarray(np.asarray(self._by_path[path].value))
            is_a_key = hasattr(old, "dtype") and is_key(old.dtype)
            out.append(jax.random.wrap_key_data(value) if is_a_key else value)
        return jax.tree_util.tree_unflatten(structure, out)


def _checked(name, value, state):
    if tuple(np.shape(value)) != tuple(state.shape):
        raise ValueError(f"the parameter {name} has shape {tuple(state.shape)}, the value {tuple(np.shape(value))}",
                         stage="params")
    return jnp.asarray(value)


class StatesModel(_FromJax):
    """A model of braintrace. `units`: of every leaf that has one; `source`: the states of its parameters by path."""

    def __init__(self, traced):
        super().__init__(traced)
        self.units, self.source = traced.units, traced.states

    def params(self, values=None):
        """{path: value} as the braintrace model holds them (dictionaries, quantities), with the values of now or `values`
        (gradients, for example)."""
        return write_states(self.source, self._values(values), write=False)

    def put_back(self, values=None):
        """Writes the values of now, or `values`, into the parameters of the braintrace model. All or none."""
        write_states(self.source, self._values(values), write=True)

    def __getstate__(self):
        return {**super().__getstate__(), "source": {}}  # a copy is no longer bound to the braintrace model
