"""Modules that hold modules: lists, dictionaries, and one after the other."""

from __future__ import annotations

from typing import Iterable

from . import _core
from . import _errors
from ._module import Module, _as_member, _element, _node


class _Container(Module):
    def __call__(self, *args, **kwargs):
        raise _errors.NotSupportedError(f"a {type(self).__name__} is no step; call its elements", stage="module")


class ModuleList(_Container):
    """Modules by position: the i-th has the path part i. The list itself is no step; call its elements."""

    def __init__(self, modules: Iterable = (), *, _name: str = "list"):
        super().__init__()
        self.__dict__["_items"] = []
        for module in modules:
            self._append(_element(_name, module))

    def _make_node(self):
        return _core._ListNode()

    def __setattr__(self, name, value):
        if _as_member(name, value) is not None:
            raise AttributeError(f"a ModuleList holds modules by position; '{name}' cannot be attached to it")
        object.__setattr__(self, name, value)

    def _append(self, module) -> None:
        self._node._put(len(self._items), _node(module))
        self._items.append(module)

    def _replace_all(self, modules: list) -> None:
        before = self._items
        for i in reversed(range(len(before))):
            self._node._detach(i)
        self.__dict__["_items"] = []
        for module in modules:
            self._append(module)

    def append(self, module) -> None:
        self._append(_element("append", module))

    def extend(self, modules: Iterable) -> None:
        for module in modules:
            self.append(module)

    def insert(self, index: int, module) -> None:
        items = list(self._items)
        items.insert(index, _element("insert", module))
        self._replace_all(items)

    def __iadd__(self, modules: Iterable) -> ModuleList:
        self.extend(modules)
        return self

    def pop(self, index: int = -1):
        items = list(self._items)
        gone = items.pop(index)
        self._replace_all(items)
        return gone

    def __setitem__(self, index, module) -> None:
        if isinstance(index, slice):
            items = list(self._items)
            items[index] = [_element("list", m) for m in module]
            self._replace_all(items)
            return
        module = _element("list", module)
        index = range(len(self._items))[index]
        self._node._put(index, _node(module))
        self._items[index] = module

    def __delitem__(self, index) -> None:
        items = list(self._items)
        del items[index]
        self._replace_all(items)

    def __getitem__(self, index):
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self):
        return iter(self._items)

    def _children(self):
        return iter((str(i), m) for i, m in enumerate(self._items))

    def __getstate__(self):
        return list(self._items)

    def __setstate__(self, items):
        self.__init__(items)

    def __repr__(self) -> str:
        lines = [f"  {i}: " + repr(m).replace("\n", "\n  ") for i, m in enumerate(self._items)]
        return "ModuleList(\n" + "\n".join(lines) + "\n)" if lines else "ModuleList()"


class ModuleDict(_Container):
    """Modules by name. The dictionary itself is no step; call its elements."""

    def __init__(self, modules: dict | None = None, *, _name: str = "dictionary"):
        super().__init__()
        self.__dict__["_items"] = {}
        for key, module in (modules or {}).items():
            self[key] = module

    def _make_node(self):
        return _core._DictNode()

    def __setattr__(self, name, value):
        if _as_member(name, value) is not None:
            raise AttributeError(f"a ModuleDict holds modules by key: modules['{name}'] = ...")
        object.__setattr__(self, name, value)

    def __setitem__(self, key: str, module) -> None:
        if not isinstance(key, str):
            raise _errors.TypeError(
                f"a key of a dictionary of modules is a text, not {key!r}; use a list for positions", stage="module"
            )
        module = _element(key, module)
        self._node._put(key, _node(module))
        self._items[key] = module

    def __delitem__(self, key: str) -> None:
        if key not in self._items:
            raise KeyError(key)
        self._node._detach(key)
        del self._items[key]

    def __getitem__(self, key: str):
        return self._items[key]

    def __contains__(self, key) -> bool:
        return key in self._items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self):
        return iter(self._items)

    def get(self, key: str, default=None):
        return self._items.get(key, default)

    def pop(self, key: str):
        gone = self._items[key]
        del self[key]
        return gone

    def update(self, modules: dict) -> None:
        """Further modules by name, as of a dictionary of Python."""
        for key, module in modules.items():
            self[key] = module

    def keys(self):
        return self._items.keys()

    def values(self):
        return self._items.values()

    def items(self):
        return self._items.items()

    def _children(self):
        return iter(self._items.items())

    def __getstate__(self):
        return dict(self._items)

    def __setstate__(self, items):
        self.__init__(items)

    def __repr__(self) -> str:
        lines = [f"  {k}: " + repr(m).replace("\n", "\n  ") for k, m in self._items.items()]
        return "ModuleDict(\n" + "\n".join(lines) + "\n)" if lines else "ModuleDict()"


class Sequential(Module):
    """One module after the other; states have paths such as layers/0/h."""

    def __init__(self, *layers):
        super().__init__()
        if len(layers) == 1 and isinstance(layers[0], (list, tuple, dict)):
            raise _errors.TypeError("layers are given one by one: et.Sequential(*layers)", stage="module")
        self.layers = ModuleList(layers)

    def append(self, layer) -> None:
        self.layers.append(layer)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index):
        return self.layers[index]

    def __iter__(self):
        return iter(self.layers)

    def update(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
