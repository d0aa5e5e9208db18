"""The built-in models of the command line.

    model = et.models.make("gru", sizes=(3, 8, 1), batch=1)
    learner = et.compile(model, et.D_RTRL(), *model.example, batch_size=1)
"""

from __future__ import annotations

from . import _core
from .nn._layer import Layer


class BuiltinModel(Layer):
    """A built-in model with initialised states; `example` are arguments for one step."""


def make(name: str, *, sizes=None, batch: int | None = None, dtype=None, seed: int = 0) -> BuiltinModel:
    """A model by name. `sizes`: features of input, hidden layers, output; None: the model's own."""
    node, example = _core._make_model(name, sizes, batch, dtype, seed)
    model = BuiltinModel.__new__(BuiltinModel)
    object.__setattr__(model, "_given", None)
    object.__setattr__(model, "_node", node)
    object.__setattr__(model, "name", name)
    object.__setattr__(model, "example", example)
    return model


def names() -> list[str]:
    """All built-in models."""
    return [row[0] for row in _core._model_rows()]


def describe(name: str) -> str:
    """One line about a model, with its own sizes."""
    for each, doc, sizes in _core._model_rows():
        if each == name:
            return f"{doc}; sizes {tuple(sizes)}"
    _core._make_model(name, None, None, None, 0)  # says which there are
    return ""
