"""Learning rules: one class for each row of the library's table, with its options as keywords."""

from __future__ import annotations

import ast
import difflib
import inspect

import numpy as np

from . import _core
from . import _errors
from ._trees import flatten, unflatten


class LearningRule:
    """A learning rule with its options. `et.rules()` lists them; `help(et.D_RTRL)` shows the options of one."""

    _name = ""
    _options: tuple = ()

    def __init__(self, **options):
        if not self._name:
            raise _errors.TypeError("use one of the rules, for example et.D_RTRL(); et.rules() lists them", stage="rules")
        known = [o["name"] for o in self._options]
        for name in options:
            if name not in known:
                raise _errors.TypeError(
                    f"{self._name} has no option '{name}'; it has: {', '.join(known) or 'none'}", stage="rules"
                )
        self._given = {k: v for k, v in options.items() if v is not None}
        if isinstance(self._given.get("unfiltered"), (list, tuple)):  # paths, as people write them
            self._given["unfiltered"] = ",".join(self._given["unfiltered"])
        self._rule = _core._make_rule(self._name, self._given)

    @property
    def name(self) -> str:
        return self._rule.name

    def describe(self) -> str:
        """The rule with its options, in words."""
        return self._rule.describe()

    @property
    def config(self):
        """Its coordinates, `et.ETraceConfig`; None for a rule that has none."""
        return self._rule._config()

    def __repr__(self) -> str:
        return f"{self._name}({', '.join(f'{k}={v!r}' for k, v in self._given.items())})"

    def __eq__(self, other) -> bool:
        return type(self) is type(other) and self._given == other._given

    def __hash__(self) -> int:
        return hash((self._name, repr(sorted(self._given.items()))))

    def __reduce__(self):
        return _again, (self._name, self._given)


def _again(name, options):
    return _CLASSES[name](**options)


# What is kept for a weight θ of an operator y = f(x, θ) that feeds the hidden states h [batch, positions, states] of a
# group, and what becomes of it. D = ∂h_t/∂h_{t-1}, as far as the rule keeps it; one block [states, states] for each
# position unless the text says otherwise.
_PER_PARAMETER = """\
    e   <-  D e + ∂h/∂θ          e: [batch, *θ.shape, states]
    dθ  +=  Σ {signal} e"""
_FORMULAS = {
    "D_RTRL": _PER_PARAMETER.format(signal="∂L/∂h") + "\nD leaves out recurrent products (h W): what a state does to itself is kept.",
    "OSTLRecurrent": _PER_PARAMETER.format(signal="∂L/∂h") + "\nD has the diagonal blocks of recurrent products (h W), too.",
    "SnAp": """\
    e   <-  D e + ∂h/∂θ          e: [batch, *θ.shape, states · reached positions]
    dθ  +=  Σ ∂L/∂h e
D and e hold all positions that are reached within n - 1 steps.""",
    "EProp": """\
    e   <-  D e + ∂h/∂θ          e: [batch, *θ.shape, states]
    ē   <-  κ ē + e              the filter of a leaky readout; none without one
    dθ  +=  Σ s ē                s: ∂L/∂h, or the error through fixed random weights""",
    "ThreeFactor": _PER_PARAMETER.format(signal="m") + "\nm: the modulator of the call, or of learner.set_modulator, in place of ∂L/∂h.",
    "DNI": _PER_PARAMETER.format(signal="∂L/∂h") + "\nParameters without a trace also get the estimate of what later windows will say to them.",
    "pp_prop": """\
    εx  <-  αx εx + x                      εx: [batch, inputs]
    εf  <-  αf D εf + (1 - αf) ∂h/∂y       εf: [batch, outputs, states]
    dθ  +=  εx ⊗ (Σ ∂L/∂h εf) / (1 - αf^n)
A rank r stands for the decay α = (r - 1) / (r + 1); n counts the steps.""",
    "OSTLFeedforward": """\
    dθ  +=  x ⊗ (Σ ∂L/∂h ∂h/∂y)
pp_prop with a decay of 1e-6: what came before the step is forgotten.""",
    "UORO": """\
    h̃   <-  ρ0 D h̃ + ρ1 ν                  ν: random signs; h̃: [batch, positions, states]
    θ̃   <-  θ̃ / ρ0 + (ν ∂h/∂θ) / ρ1        θ̃: [batch, *θ.shape]
    dθ  +=  (Σ ∂L/∂h h̃) θ̃
An estimate of RTRL within each group that is right on average; ρ0 and ρ1 keep its variance low.""",
}


def _value(text: str):
    """A default of the library's table as Python writes it; None where the rule decides."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text or None


def _options_of(row) -> list[str]:
    lines = ["", "Options:"] if row["options"] else []
    for o in row["options"]:
        span = "" if o["type"] == "bool" else o["range"]
        extra = "; ".join(x for x in (span, f"default {_value(o['default'])}" if o["default"] else "") if x)
        lines.append(f"    {o['name']} ({o['type']}{'; ' + extra if extra else ''}): {o['help']}")
    return lines


def _signature(row) -> inspect.Signature:
    return inspect.Signature(
        [
            inspect.Parameter(o["name"], inspect.Parameter.KEYWORD_ONLY, default=_value(o["default"]))
            for o in row["options"]
        ]
    )


def _doc(row) -> str:
    summary = row["doc"][0].upper() + row["doc"][1:] if row["doc"][0].islower() and " " in row["doc"][:4] else row["doc"]
    lines = [summary + ".", ""]
    if row["name"] in _FORMULAS:
        lines += [_FORMULAS[row["name"]], ""]
    lines.append("Gradient: " + row["gradient"] + ".")
    if row["aliases"]:
        lines.append("Also named " + ", ".join(row["aliases"]) + ".")
    lines += _options_of(row)
    lines += ["", f"    learner = et.compile(model, et.{row['name']}(), example, batch_size=1)"]
    return "\n".join(lines)


def _make_class(row):
    return type(
        row["name"],
        (LearningRule,),
        {
            "__doc__": _doc(row),
            "__module__": "etrace",
            "__signature__": _signature(row),
            "_name": row["name"],
            "_options": tuple(row["options"]),
        },
    )


_ROWS = {row["name"]: row for row in _core._rule_rows()}
_CLASSES = {name: _make_class(row) for name, row in _ROWS.items()}
# Names that are words of Python's own kind: `et.ES_D_RTRL` is `et.pp_prop`.
_ALIASES = {
    alias: _CLASSES[row["name"]] for row in _ROWS.values() for alias in row["aliases"] if alias.isidentifier()
}


def exported() -> dict[str, type]:
    """The classes by the names that `et` shows. Coordinates have a class of their own, below."""
    return {name: kind for name, kind in {**_CLASSES, **_ALIASES}.items() if kind is not _CLASSES["ETraceConfig"]}


def rules() -> dict[str, str]:
    """All learning rules: {name: what it is and what it costs}."""
    return {name: row["doc"] for name, row in _ROWS.items()}


class ETraceConfig:
    """A rule by its coordinates: six axes that can be chosen one by one, as words.

    `et.ETraceConfig(recurrence_scope="coupled", trace_filter="kappa", kappa=0.9)`; `replace` gives another one.
    """

    def __init__(self, **options):
        self._core = options.pop("_core", None) or _core._Config(options)

    def replace(self, **options) -> ETraceConfig:
        return ETraceConfig(_core=self._core.replace(options))

    @property
    def options(self) -> dict:
        """What is not the default, by name."""
        return self._core.options()

    @property
    def _rule(self):
        return self._core.rule()

    def describe(self) -> str:
        return self._core.describe()

    __repr__ = describe

    def __eq__(self, other) -> bool:
        return isinstance(other, ETraceConfig) and self._core == other._core

    def __hash__(self) -> int:
        return hash(self.describe())

    def __reduce__(self):
        return _config_again, (self.options,)


ETraceConfig.__doc__ = f"{ETraceConfig.__doc__}\n" + "\n".join(_options_of(_ROWS["ETraceConfig"]))
ETraceConfig.__signature__ = _signature(_ROWS["ETraceConfig"])


def _config_again(options):
    return ETraceConfig(**options)


class CustomRule(LearningRule):
    """A learning rule of your own, with one trace per parameter: derive from it and define what differs.

        class RandomSigns(et.CustomRule):
            def learning_signal(self, signal, group, to):
                return signal * self.signs[group]

    `learning_signal(signal, group, to)` gives what takes the place of dL/dh for hidden group number `group`,
    [K, *varshape, S]; `to` says what it meets: "each_step", "before_step" or "entry". `jacobian(D)` gives what takes
    the place of D, [K, M, M, X] with the states in front of X positions. Both are recorded with each program, and
    never run while a learner does. Arrays that the rule holds as attributes (or lists and dictionaries of arrays) may
    change between calls, in place or by other ones of their type; the learner's names of them are "rule/signs" and so
    on. Numbers are constants of the programs, and refused if they change. Class attributes: `kappa`, a low-pass filter behind the trace; `memoryless`;
    `trace_dtype`; `theory`, why the gradient is not that of BPTT.
    """

    kappa: float | None = None
    memoryless: bool = False
    trace_dtype = None
    theory: str | None = None

    _HOOKS = ("learning_signal", "jacobian", "kappa", "memoryless", "trace_dtype")

    def __init__(self):
        kind = type(self)
        self._require_hooks()
        self._given = {}
        self._rule = _core._make_python_rule(
            self,
            {
                "name": kind.__name__,
                "theory": self.theory,
                "signal": hasattr(kind, "learning_signal"),
                "jacobian": hasattr(kind, "jacobian"),
                "trace_dtype": self.trace_dtype,
                "memoryless": self.memoryless,
                "kappa": self.kappa,
            },
        )

    def _require_hooks(self):
        """Something must differ from D_RTRL; a name that is nearly one of ours was meant to be it."""
        kind = type(self)
        for name in (n for k in kind.__mro__[: kind.__mro__.index(CustomRule)] for n in vars(k)):
            near = difflib.get_close_matches(name, self._HOOKS, 1, 0.8)
            if near and name not in self._HOOKS:
                raise _errors.TypeError(f"{kind.__name__} defines {name}; did you mean {near[0]}?", stage="rule")
        if all(getattr(kind, n, None) is getattr(CustomRule, n, None) for n in self._HOOKS):
            raise _errors.TypeError(
                f"{kind.__name__} changes nothing of D_RTRL; define one of {', '.join(self._HOOKS)}", stage="rule"
            )

    # What the rule holds ---------------------------------------------------------------------------------------------
    def _trees(self):
        """(name, leaves, form) of attributes that are arrays, or trees of arrays."""
        for name, value in vars(self).items():
            if name.startswith("_"):
                continue
            leaves, form = flatten(value)
            if leaves and all(isinstance(x, (_core.Array, np.ndarray)) for x in leaves):
                yield name, leaves, form

    def _own_arrays(self):
        for name, leaves, _ in self._trees():
            for i, leaf in enumerate(leaves):
                yield (name if len(leaves) == 1 else f"{name}/{i}"), leaf

    def _stand_in(self, arrays):
        """Puts these in the place of the arrays; gives what stood there."""
        before, rest = {}, list(arrays)
        for name, leaves, form in list(self._trees()):
            before[name] = self.__dict__[name]
            self.__dict__[name] = unflatten(form, rest[: len(leaves)])
            del rest[: len(leaves)]
        return before

    def _own_numbers(self):
        kinds = (bool, int, float, str, np.number, np.bool_)
        return {k: v for k, v in vars(self).items() if not k.startswith("_") and isinstance(v, kinds)}

    def _refuse_changes(self, before):
        now = self._own_numbers()
        name = next(k for k in {**before, **now} if before.get(k) != now.get(k))
        raise _errors.ValueError(
            f"{type(self).__name__}.{name} was {before.get(name)} when the learner was compiled and is {now.get(name)} "
            "now; numbers are constants of the programs. Make it an array, which may change, or compile anew",
            stage="rules",
        )

    @property
    def config(self):
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __reduce__(self):
        state = {k: v for k, v in self.__dict__.items() if k not in ("_rule", "_given")}
        return _custom_again, (type(self), state)


def _custom_again(kind, state):
    rule = kind.__new__(kind)
    rule.__dict__.update(state)
    CustomRule.__init__(rule)
    return rule


def python_part(rule):
    """The rule itself, where its functions are Python's."""
    return rule if isinstance(rule, CustomRule) else None


def rule_of(rule, options: dict | None = None, others: tuple = ()):
    """The rule that a class, a name, coordinates or an instance mean; `options` belong to a class or a name.

    `others`: options that the caller has, for who mistypes one.
    """
    options = options or {}
    for name in options:
        if near := difflib.get_close_matches(name, others, 1, 0.75):
            raise _errors.TypeError(f"there is no option '{name}' (did you mean {near[0]}?)", stage="compile")
    if isinstance(rule, str):
        return _CLASSES[_core._find_rule(rule)](**options)
    if isinstance(rule, type) and issubclass(rule, LearningRule):
        return rule(**options)
    if not isinstance(rule, (LearningRule, ETraceConfig)):
        raise _errors.TypeError(
            f"a learning rule is a class such as et.D_RTRL, an instance of one, its name, or an et.ETraceConfig, "
            f"not {rule!r}",
            stage="rules",
        )
    if options:
        raise _errors.TypeError(
            f"unknown option {next(iter(options))!r}; options of a rule that is made already are given where it is made",
            stage="compile",
        )
    return rule
