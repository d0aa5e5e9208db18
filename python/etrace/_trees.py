"""Trees: nested tuples, lists, dictionaries, named tuples, dataclasses and quantities whose leaves are arrays.

`flatten` gives the leaves in a fixed order (dictionaries by sorted key) and the structure, which compares equal and
hashes equal for trees of one form. `None` is a tree without leaves. JAX's own registry is asked for other classes,
if JAX is loaded already.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, Callable, Iterable

from . import _core
from ._errors import ValueError


class TreeDef:
    """The form of a tree: what kind of node, what stands beside the leaves, and the forms of its children."""

    __slots__ = ("kind", "static", "children", "num_leaves")

    def __init__(self, kind: Any, static: Any = None, children: tuple["TreeDef", ...] = ()):
        self.kind = kind
        self.static = static
        self.children = children
        self.num_leaves = 1 if kind == "leaf" else sum(c.num_leaves for c in children)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TreeDef)
            and self.kind == other.kind
            and self.static == other.static
            and self.children == other.children
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.static, self.children))

    def __repr__(self) -> str:
        return repr(unflatten(self, ["*"] * self.num_leaves)) if self.kind != "none" else "None"


_LEAF = TreeDef("leaf")
_NONE = TreeDef("none")
_NUMBERS = (float, int, bool)


def _is_namedtuple(x: Any) -> bool:
    return isinstance(x, tuple) and hasattr(type(x), "_fields")


def _jax_children(x: Any):
    """The children of a class that was registered with JAX, or None."""
    jax = sys.modules.get("jax")
    if jax is None:
        return None
    leaves, form = jax.tree_util.tree_flatten(x, is_leaf=lambda y: y is not x)
    return None if len(leaves) == 1 and leaves[0] is x else (leaves, form)


def is_leaf(x: Any) -> bool:
    """Whether it is seen at once that this is a leaf: an array of ours or NumPy's, or a number."""
    kind = type(x)
    return kind is _core.Array or kind.__module__ == "numpy" or kind in _NUMBERS


def _flatten(x: Any, leaves: list) -> TreeDef:
    if x is None:
        return _NONE
    if is_leaf(x):
        leaves.append(x)
        return _LEAF
    if isinstance(x, _core.Quantity):
        return TreeDef("quantity", x.unit, (_flatten(x.mantissa, leaves),))
    if _is_namedtuple(x):
        return TreeDef("namedtuple", type(x), tuple(_flatten(v, leaves) for v in x))
    if isinstance(x, (list, tuple)):
        return TreeDef("list" if isinstance(x, list) else "tuple", None, tuple(_flatten(v, leaves) for v in x))
    if isinstance(x, dict):
        keys = _sorted_keys(x)
        return TreeDef("dict", keys, tuple(_flatten(x[k], leaves) for k in keys))
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        names = tuple(f.name for f in dataclasses.fields(x))
        return TreeDef("dataclass", (type(x), names), tuple(_flatten(getattr(x, n), leaves) for n in names))
    if (found := _jax_children(x)) is not None:
        return TreeDef("jax", found[1], tuple(_flatten(v, leaves) for v in found[0]))
    leaves.append(x)
    return _LEAF


def _sorted_keys(x: dict) -> tuple:
    try:
        return tuple(sorted(x))
    except TypeError:
        return tuple(sorted(x, key=lambda k: (type(k).__name__, str(k))))


def flatten(tree: Any) -> tuple[list, TreeDef]:
    """The leaves of a tree, and its form."""
    leaves: list = []
    form = _flatten(tree, leaves)
    return leaves, form


def _unflatten(form: TreeDef, leaves) -> Any:
    if form.kind == "leaf":
        return next(leaves)
    if form.kind == "none":
        return None
    children = [_unflatten(c, leaves) for c in form.children]
    if form.kind == "quantity":
        mantissa = children[0]
        return _core.Quantity(mantissa, form.static) if isinstance(mantissa, _core.Array) else (mantissa, form.static)
    if form.kind == "namedtuple":
        return form.static(*children)
    if form.kind == "list":
        return children
    if form.kind == "tuple":
        return tuple(children)
    if form.kind == "dict":
        return dict(zip(form.static, children))
    if form.kind == "dataclass":
        cls, names = form.static
        return cls(**dict(zip(names, children)))
    return sys.modules["jax"].tree_util.tree_unflatten(form.static, children)


def unflatten(form: TreeDef, leaves: Iterable) -> Any:
    """The tree of that form with these leaves."""
    leaves = list(leaves)
    if len(leaves) != form.num_leaves:
        raise ValueError(f"a tree of {form.num_leaves} leaves cannot be made of {len(leaves)}")
    return _unflatten(form, iter(leaves))


def results_of(form: TreeDef | None, results: Iterable) -> Any:
    """What a model returns: the tree of its results; without one the only result, or a tuple of several."""
    if form is not None:
        return unflatten(form, results)
    results = tuple(results)
    return results[0] if len(results) == 1 else results


def map(f: Callable, tree: Any, *rest: Any) -> Any:  # noqa: A001
    """f on the leaves of trees of one form."""
    leaves, form = flatten(tree)
    columns = [leaves]
    for other in rest:
        more, other_form = flatten(other)
        if other_form != form:
            raise ValueError(f"trees of different forms: {form} and {other_form}")
        columns.append(more)
    return unflatten(form, [f(*row) for row in zip(*columns)])


def leaves(tree: Any) -> list:
    """The leaves of a tree."""
    return flatten(tree)[0]


def structure(tree: Any) -> TreeDef:
    """The form of a tree."""
    return flatten(tree)[1]


def broadcast_prefix(prefix: Any, form: TreeDef, what: str) -> list:
    """One entry per leaf: `prefix` is a tree that may stop early, and its leaves stand for all that is below."""
    if prefix is None or not isinstance(prefix, (list, tuple, dict)):
        return [prefix] * form.num_leaves
    if form.kind in ("list", "tuple", "namedtuple") and isinstance(prefix, (list, tuple)):
        if len(prefix) != len(form.children):
            raise ValueError(f"{what} has {len(prefix)} entries for {len(form.children)}")
        return [e for p, c in zip(prefix, form.children) for e in broadcast_prefix(p, c, what)]
    if form.kind == "dict" and isinstance(prefix, dict):
        if set(prefix) != set(form.static):
            raise ValueError(f"{what} has the keys {sorted(prefix)}, needed are {list(form.static)}")
        return [e for k, c in zip(form.static, form.children) for e in broadcast_prefix(prefix[k], c, what)]
    raise ValueError(f"{what} has another form than what it belongs to: {prefix!r} for {form}")
