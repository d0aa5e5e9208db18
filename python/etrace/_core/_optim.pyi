"""Optimisers, schedules of the learning rate, constraints."""

from collections.abc import Sequence

import etrace._core


from collections.abc import Callable, Sequence
from typing import Any
from etrace._core import Array, ArrayLike, Dtype, DtypeLike, Quantity, Unit

class Schedule:
    """
    A learning rate as a function of the count of updates made so far: the first one asks for step 0.
    """

    def __init__(self, rate: object) -> None: ...

    def __call__(self, step: int) -> float:
        """The rate of the update after so many."""

def constant(rate: float) -> Schedule:
    """The same for ever."""

def step_decay(initial: float, factor: float, every: int) -> Schedule:
    """initial·factor^⌊step/every⌋"""

def exponential(initial: float, factor: float, every: int = 1) -> Schedule:
    """initial·factor^(step/every)"""

def linear_warmup(peak: float, warmup: int) -> Schedule:
    """peak·(step + 1)/warmup, then peak: the first update already moves."""

def cosine(peak: float, total: int, warmup: int = 0, final: float = 0.0) -> Schedule:
    """
    Linear warm-up, then half a cosine from peak at step `warmup` to `final` at step `total` and ever after.
    """

def piecewise(values: Sequence[float], boundaries: Sequence[int]) -> Schedule:
    """
    values[i] from step boundaries[i − 1] on; one value more than boundaries, which ascend.
    """

class Constraint:
    """
    What holds for a parameter after every update. `leaf` is the name of a parameter or of a leaf
    ("rnn/W/weight", "rnn/W/weight.bias"), or the beginning of names: "rnn" means everything below.
    """

    @property
    def leaf(self) -> str:
        """The path of the parameter, or the beginning of several."""

    def __repr__(self) -> str: ...

def non_negative(leaf: str) -> Constraint:
    """Never below 0."""

def non_positive(leaf: str) -> Constraint:
    """Never above 0."""

def keep_sign(leaf: str, signs: ArrayLike | None = None) -> Constraint:
    """
    Dale's law: an element that would change its sign becomes 0. Elements of sign 0 are free. Without signs: those
    at the start. Signs broadcast: shape [n, 1] gives each row of a weight its own.
    """

def fixed_mask(leaf: str, mask: ArrayLike) -> Constraint:
    """Zero stays where the mask is 0 or False."""

class ParamGroup:
    """
    Some parameters treated differently: those that `leaf` covers, as in Constraint. What is None is
    as for all; of several groups that cover a leaf the last one counts.
    """

    def __init__(self, leaf: str, *, learning_rate: object | None = None, weight_decay: float | None = None, clip_norm: float | None = None, clip_value: float | None = None, frozen: bool = False) -> None: ...

    @property
    def leaf(self) -> str:
        """The path of the parameter, or the beginning of several."""

    @property
    def frozen(self) -> bool:
        """Whether its parameters keep their values."""

class Optimizer:
    """
    From gradients to new parameters.

        optimizer = et.optim.Adam(model, 1e-3, clip_norm=1.0)
        optimizer.update(result.grads)

    One update: clip_value, clip_norm, weight decay, the rule's direction times the rate, constraints.
    """

    @property
    def name(self) -> str:
        """'adam', 'sgd' …"""

    def update(self, grads: etrace._core.ParamValues | dict[str, Any]) -> None:
        """
        One update of the model's parameters, from what etrace_grad gives or a dictionary of arrays by name. A leaf that `grads` does not name keeps its value.
        """

    @property
    def step(self) -> int:
        """Updates so far."""

    @property
    def learning_rate(self) -> float:
        """Of the next update."""

    @learning_rate.setter
    def learning_rate(self, arg: Any, /) -> None: ...

    def set_learning_rate(self, rate: object, group: object | None = None) -> None:
        """
        From the next update on, for all parameters or for the group of this name.
        """

    @property
    def weight_decay(self) -> float:
        """Of all parameters that no group treats differently."""

    @property
    def bound(self) -> bool:
        """Whether it knows its model."""

    @property
    def leaves(self) -> list[str]:
        """Paths of the parameters that it updates."""

    def bind(self, model: object) -> None:
        """Takes all parameters of the model and starts with a fresh state."""

    def state(self) -> dict:
        """What it remembers, by name: counts and averages."""

    def set_state(self, state: dict) -> None:
        """The inverse; nothing changes unless everything fits."""

    def init(self, params: Sequence[ArrayLike]) -> list:
        """Pure form: the first state for these arrays."""

    def apply(self, params: Sequence[ArrayLike], grads: Sequence[ArrayLike], state: Sequence[ArrayLike]) -> tuple:
        """Pure form: (new params, new state). May be recorded."""

    def __repr__(self) -> str: ...

    def __reduce__(self) -> tuple[Any, ...]: ...

class SGD(Optimizer):
    """
    θ ← θ − η·v, v ← momentum·v + g.

    Options: momentum (0), nesterov (False);
    of all optimisers: clip_norm (of all gradients together), clip_value (of every element, before clip_norm),
    weight_decay, frozen (names that never move), constraints, groups (of ParamGroup). `learning_rate` is a number,
    a schedule, or a function of the count of updates. Without a model it is the pure form: init, apply.
    """

    def __init__(self, model: object | None, learning_rate: object | None = None, **options) -> None: ...

class Adam(Optimizer):
    """
    Averages m of g and v of g²: θ ← θ − η·m̂/(√v̂ + ε).

    Options: beta1 (0.9), beta2 (0.999), epsilon (1e-8), epsilon_first (False: ε is added after the root's bias is corrected);
    of all optimisers: clip_norm (of all gradients together), clip_value (of every element, before clip_norm),
    weight_decay, frozen (names that never move), constraints, groups (of ParamGroup). `learning_rate` is a number,
    a schedule, or a function of the count of updates. Without a model it is the pure form: init, apply.
    """

    def __init__(self, model: object | None, learning_rate: object | None = None, **options) -> None: ...

class AdamW(Optimizer):
    """
    Adam with the weight decay (0.01 unless given) outside of its averages.

    Options: beta1 (0.9), beta2 (0.999), epsilon (1e-8), epsilon_first (False);
    of all optimisers: clip_norm (of all gradients together), clip_value (of every element, before clip_norm),
    weight_decay, frozen (names that never move), constraints, groups (of ParamGroup). `learning_rate` is a number,
    a schedule, or a function of the count of updates. Without a model it is the pure form: init, apply.
    """

    def __init__(self, model: object | None, learning_rate: object | None = None, **options) -> None: ...

class RMSprop(Optimizer):
    """
    θ ← θ − η·g/(√v + ε), v an average of g².

    Options: decay (0.99), epsilon (1e-8), momentum (0);
    of all optimisers: clip_norm (of all gradients together), clip_value (of every element, before clip_norm),
    weight_decay, frozen (names that never move), constraints, groups (of ParamGroup). `learning_rate` is a number,
    a schedule, or a function of the count of updates. Without a model it is the pure form: init, apply.
    """

    def __init__(self, model: object | None, learning_rate: object | None = None, **options) -> None: ...

class Adagrad(Optimizer):
    """
    θ ← θ − η·g/(√s + ε), s the sum of g².

    Options: initial_sum (0), epsilon (1e-10);
    of all optimisers: clip_norm (of all gradients together), clip_value (of every element, before clip_norm),
    weight_decay, frozen (names that never move), constraints, groups (of ParamGroup). `learning_rate` is a number,
    a schedule, or a function of the count of updates. Without a model it is the pure form: init, apply.
    """

    def __init__(self, model: object | None, learning_rate: object | None = None, **options) -> None: ...

class Lion(Optimizer):
    """
    θ ← θ − η·sign(β₁·m + (1 − β₁)·g), m an average of g.

    Options: beta1 (0.9), beta2 (0.99);
    of all optimisers: clip_norm (of all gradients together), clip_value (of every element, before clip_norm),
    weight_decay, frozen (names that never move), constraints, groups (of ParamGroup). `learning_rate` is a number,
    a schedule, or a function of the count of updates. Without a model it is the pure form: init, apply.
    """

    def __init__(self, model: object | None, learning_rate: object | None = None, **options) -> None: ...

def make(name: str, model: object | None, learning_rate: object | None = None, **options) -> Optimizer:
    """An optimiser by the name that command lines know: 'adam'."""
