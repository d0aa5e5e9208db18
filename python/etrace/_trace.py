"""Models as programs: one traced step, model files, and parameters as files."""

from __future__ import annotations

from . import _core
from . import _errors
from ._module import _in_python, node_of, with_width_of
from ._trees import flatten, unflatten


class Root:
    """The step of a model between flat lists of arrays, as the library calls it, and the trees that `update` takes."""

    def __init__(self, model, example):
        self.model = model
        self.node = node_of(model)
        if getattr(model, "_own_update", False):
            raise _errors.NotSupportedError(
                f"{type(model).__name__} derives from a layer of the library and has an update of its own; alone, the "
                "library's step would be recorded. Make it an attribute of an et.Module, or derive from et.Module",
                stage="trace_step",
            )
        leaves, self.tree = flatten(tuple(example))
        self.leaves = with_width_of(model, leaves)
        self.out_tree = None

    @property
    def update(self):
        """None: a layer of the library, which needs no function."""
        return self._call if _in_python(self.model) else None

    def _call(self, leaves):
        try:
            out = self.model.update(*unflatten(self.tree, leaves))
        except Exception as error:
            self.model._note(error)
            raise
        if out is None:
            raise _errors.TypeError(
                f"{type(self.model).__name__}.update returned nothing; return the result of the step",
                stage="trace_step",
            )
        flat, self.out_tree = flatten(out)
        return flat


class Model:
    """One traced step of a model: a program whose inputs are known by role and path."""

    def __init__(self, core):
        self._core = core

    def save(self, path) -> None:
        """As a model file, which `etrace explain` and `et.read_model` take."""
        _core._write_model(self._core, path)

    @property
    def jaxpr(self) -> str:
        return self._core.jaxpr()

    def to_json(self) -> str:
        return self._core.to_json()

    def __repr__(self) -> str:
        return self.jaxpr


def trace_step(model, *example, name: str = "model") -> Model:
    """Traces one step. Afterwards, also if it fails, every state holds what it held before."""
    root = Root(model, example)
    return Model(_core._trace_step(root.node, root.update, root.leaves, name))


def summary(model, example=None) -> str:
    """A table of the modules of a model: shapes, parameters, states, bytes, and what learning rules keep for it."""
    root = Root(model, () if example is None else (example,))
    return _core._summary(root.node, root.update, None if example is None else root.leaves[0])[0]


def read_model(path) -> Model:
    """A model file: one traced step of a model, which `et.compile` takes in place of a module."""
    return Model(_core._read_model(path))


def save_parameters(model, path) -> None:
    """Parameters as a .safetensors or .npz file."""
    _core._save_parameters(node_of(model), path)


def load_parameters(model, path) -> None:
    """Nothing is changed unless all of them fit."""
    _core._load_parameters(node_of(model), path)
