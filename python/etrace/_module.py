"""Models written in Python.

    class Net(et.Module):
        def __init__(self):
            super().__init__()
            self.rnn = et.nn.GRUCell(3, 8)
            self.v = et.HiddenState(et.zeros(4))

        def update(self, x):
            ...

A module owns a node in C++, which has its states and children and knows nothing of Python. Setting an attribute
to a state, a module, or a list, tuple or dictionary of modules attaches it to the node under that name; all else
is an attribute like any other. `update` is one time step: it is called once to be recorded, never while a learner
runs.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABCMeta
from typing import Any, Iterable, Iterator

from . import _core
from . import _errors


def _is_module(value) -> bool:
    return isinstance(value, Module)  # layers of the library are registered


def _in_python(module) -> bool:
    """A module that is written in Python; a layer of the library is its own node."""
    return not isinstance(module, _core._ModuleBase)


def _is_member(value) -> bool:
    return _is_module(value) or isinstance(value, _core.State)


def _node(member):
    """What stands for a module or a state in C++."""
    if not _is_module(member) or not _in_python(member):
        return member
    node = member.__dict__.get("_node")
    if node is None:
        raise AttributeError(_no_init(member))
    return node


def _no_init(module) -> str:
    name = type(module).__name__
    return f"{name}.__init__() must call super().__init__() before it sets states and modules"


def _holds_members(value) -> bool:
    """Whether a plain container has modules or states anywhere inside."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(_is_member(v) or _holds_members(v) for v in value)
    if isinstance(value, dict):
        return any(_is_member(v) or _holds_members(v) for v in value.values())
    return False


def _as_member(name: str, value):
    """The member that an attribute becomes; None: it is no member."""
    if _is_member(value):
        return value
    if not _holds_members(value):
        return None
    from ._containers import ModuleDict, ModuleList

    if isinstance(value, (list, tuple)):
        return ModuleList(value, _name=name)
    if isinstance(value, dict):
        return ModuleDict(value, _name=name)
    raise _errors.TypeError(
        f"'{name}' is a {type(value).__name__} of modules, which has no order; use a list or a dictionary",
        stage="module",
    )


def _element(name: str, value):
    """An element of a list or dictionary of modules."""
    if _is_module(value):
        return value
    if isinstance(value, (list, tuple, dict)) and _holds_members(value):
        return _as_member(name, value)
    what = "a state" if isinstance(value, _core.State) else f"a {type(value).__name__}"
    raise _errors.TypeError(
        f"'{name}' holds {what} beside modules; only modules can be elements. Set states as attributes of a module "
        "of their own",
        stage="module",
    )


# While a step function is recorded for a model without a learner, calling the model is its step in it.
_in_steps = threading.local()


@contextlib.contextmanager
def model_in_steps(model, call):
    before = getattr(_in_steps, "now", None)
    _in_steps.now = (model, call)
    try:
        yield
    finally:
        _in_steps.now = before


class Module(metaclass=ABCMeta):
    """A node of a model: named children, named states, and what one time step does with them.

    Derive from it, call `super().__init__()`, set states, layers and modules as attributes, and define `update`.
    """

    def __init__(self):
        if "_node" not in self.__dict__:
            object.__setattr__(self, "_node", self._make_node())

    def _make_node(self):
        return _core._Node(type(self).__name__)

    # Members -------------------------------------------------------------------------------------------------------
    def __setattr__(self, name: str, value: Any) -> None:
        descriptor = getattr(type(self), name, None)
        if hasattr(type(descriptor), "__set__"):
            object.__setattr__(self, name, value)
            return
        member = _as_member(name, value)
        node = self.__dict__.get("_node")
        if member is None:
            if node is not None and _is_member(self.__dict__.get(name)):
                self._require_no_value(name, value)
                node._detach(name)
            object.__setattr__(self, name, value)
            return
        if node is None:
            raise AttributeError(_no_init(self) + f": '{name}' was set before")
        node._put(name, _node(member))
        self.__dict__[name] = member

    def _require_no_value(self, name: str, value: Any) -> None:
        """`self.h = x` would put x in the place of the state h, where `self.h.value = x` was meant."""
        if value is not None and isinstance(self.__dict__[name], _core.State):
            raise _errors.TypeError(
                f"'{name}' of {type(self).__name__} is a state, and a value of type {type(value).__name__} cannot "
                f"take its place; to give it a new value write self.{name}.value = …",
                stage="module",
            )

    def __delattr__(self, name: str) -> None:
        if _is_member(self.__dict__.get(name)):
            self._node._detach(name)
        object.__delattr__(self, name)

    def __getattr__(self, name: str):
        # Only for what is not there.
        if name == "_node":
            raise AttributeError(_no_init(self))
        return object.__getattribute__(self, name)  # Python's own error; of a property, the one inside it

    def _members(self) -> Iterator[tuple[str, Any]]:
        """Attributes that are states or modules, by name."""
        for name, value in self.__dict__.items():
            if name != "_node" and _is_member(value):
                yield name, value

    def _children(self) -> Iterator[tuple[str, Any]]:
        return ((name, value) for name, value in self._members() if _is_module(value))

    def modules(self) -> Iterator[Module]:
        """The module itself and all below it, each once; layers of the library included."""
        seen: set[int] = set()

        def walk(module):
            if id(module) in seen:
                return
            seen.add(id(module))
            yield module
            if _in_python(module):
                for _, child in module._children():
                    yield from walk(child)

        return walk(self)

    # Steps ---------------------------------------------------------------------------------------------------------
    def update(self, *args):
        """One time step: from arguments to results, reading and setting states."""
        raise _errors.NotSupportedError(
            f"{type(self).__name__} defines no step; define update(self, x)", stage="module"
        )

    def __call__(self, *args, **kwargs):
        """One step. Equations that are recorded meanwhile carry the module's place."""
        now = getattr(_in_steps, "now", None)
        if now is not None and now[0] is self:
            return now[1](*args, **kwargs)
        with self._node._scope():
            try:
                return self.update(*args, **kwargs)
            except Exception as error:
                self._note(error)
                raise

    def _note(self, error: Exception) -> None:
        """Says once, on an exception of any kind, which module was being recorded."""
        if not _core._is_tracing() or getattr(error, "_etrace_noted", False):
            return
        try:
            error._etrace_noted = True
        except AttributeError:
            return
        place = ".".join(self._node._place()) or type(self).__name__
        if hasattr(error, "add_note"):
            error.add_note(f"while tracing {place}")

    def __rrshift__(self, x):
        """`x >> layer` is `layer(x)`."""
        return self(x)

    # Modes and states ------------------------------------------------------------------------------------------------
    def train(self, mode: bool = True) -> None:
        """Training (as a model starts), for the whole tree that the module belongs to."""
        self._node.train(mode)

    def eval(self) -> None:
        """Evaluating, for the whole tree that the module belongs to."""
        self._node.eval()

    @property
    def is_training(self) -> bool:
        return self._node.is_training

    @property
    def training(self):
        """A truth value for steps: `et.where(self.training, dropped, y)`."""
        return self._node.training

    def states(self, kind=None) -> dict:
        """All states below, by path; of one kind only: `states(et.ParamState)`."""
        return states(self, kind)

    # Copies ----------------------------------------------------------------------------------------------------------
    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "_node"}

    def __setstate__(self, state):
        object.__setattr__(self, "_node", self._make_node())
        for name, value in state.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        lines = []
        for name, value in self._members():
            text = repr(value).replace("\n", "\n  ")
            lines.append(f"  {name}: {text}")
        name = type(self).__name__
        return f"{name}(\n" + "\n".join(lines) + "\n)" if lines else f"{name}()"


Module.register(_core._ModuleBase)


def _restored_state(kind, first, saved):
    """A state again, from what its pickle holds."""
    return _core._restored_state(kind, first, saved)


# Functions of a model ----------------------------------------------------------------------------------------------
def require_attached(model) -> None:
    """Modules in a plain list that was filled later would not be part of the model: said before it is traced."""
    if not _in_python(model):
        return
    for module in model.modules():
        if not _in_python(module):
            continue
        if "_node" not in module.__dict__:
            raise AttributeError(_no_init(module))
        if isinstance(module._node, (_core._ListNode, _core._DictNode)):
            continue
        for name, value in module.__dict__.items():
            if name == "_parts":  # of a layer that were read; its node has them
                continue
            if not _is_member(value) and _holds_members(value):
                raise _errors.ValueError(
                    f"'{name}' of {type(module).__name__} is a plain {type(value).__name__} that holds modules or "
                    "states which are not part of the model; set the attribute after it is filled, or use "
                    "et.ModuleList or et.ModuleDict",
                    stage="module",
                )


def _required_module(model):
    if not _is_module(model):
        kind = type(model).__name__
        what = f"the class {model.__name__}; make one: {model.__name__}(…)" if isinstance(model, type) else f"of type {kind}"
        raise _errors.TypeError(f"a model is an et.Module or a layer of et.nn, not {what}", stage="module")
    return model


def node_of(model):
    require_attached(_required_module(model))
    return _node(model)


def with_width_of(model, leaves) -> list:
    """Floats of other libraries in the width that the model computes with, as everywhere; arrays of ours stay."""
    widths = {s.dtype for s in states(model).values() if s.dtype.is_floating}
    if len(widths) != 1:
        return list(leaves)
    (width,) = widths

    def fitted(leaf):
        if isinstance(leaf, (_core.Array, _core.Quantity, float, int)) or leaf is None:
            return leaf
        a = _core.asarray(leaf)
        return a.astype(width) if a.dtype.is_floating and a.dtype != width else leaf

    return [fitted(leaf) for leaf in leaves]


def states(model, kind=None) -> dict[str, _core.State]:
    """All states of a model by path, depth first and by name; of one kind only: `states(model, et.ParamState)`."""
    return {"/".join(str(p) for p in path): state for path, state in node_of(model)._states(kind)}


def init_all_states(model, batch_size: int | None = None) -> None:
    """Initial values for all short-term states; a batch gives every per-sample state a leading axis of that size.

    Modules that define `init_state(self)` are asked first, and may set new states in it.
    """
    if batch_size is not None and (isinstance(batch_size, bool) or not hasattr(batch_size, "__index__")):
        raise _errors.TypeError(
            f"batch_size is a whole number or None, not a {type(batch_size).__name__}", stage="init_all_states"
        )
    if _in_python(_required_module(model)):
        for module in list(model.modules()):
            if _in_python(module) and hasattr(module, "init_state"):
                module.init_state()
    _core._init_all_states(node_of(model), batch_size)


def reset_all_states(model) -> None:
    """Initial values again, with the batch that each state has."""
    _core._reset_all_states(node_of(model))


def params(model) -> _core.ParamValues:
    """All parameters of a model by name."""
    return _core._param_values(node_of(model))


def set_params(model, values) -> None:
    """Sets parameters by name, from `et.ParamValues` or a dictionary of arrays. All or none."""
    node = node_of(model)
    if not isinstance(values, _core.ParamValues):
        if not hasattr(values, "keys"):
            raise _errors.TypeError(
                f"values are et.ParamValues or a dictionary of arrays by name, not a {type(values).__name__}",
                stage="set_params",
            )
        values = _core._param_values(node).replace(values)
    _core._set_param_values(node, values)
