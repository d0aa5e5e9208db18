"""Functions and values of et.nn."""

import etrace._core


from collections.abc import Callable, Sequence
from typing import Any
from etrace._core import Array, ArrayLike, Dtype, DtypeLike, Quantity, Unit

def celu(x: ArrayLike, alpha: float = 1.0) -> etrace._core.Array:
    """x where x > 0, else α·(e^(x/α) − 1)."""

def gelu_exact(x: ArrayLike) -> etrace._core.Array:
    """x·Φ(x); gelu is its approximation by tanh."""

def glu(x: ArrayLike, axis: int = -1) -> etrace._core.Array:
    """First half · σ(second half), along an axis."""

def hard_shrink(x: ArrayLike, bound: float = 0.5) -> etrace._core.Array:
    """x where |x| > bound, else 0."""

def hard_silu(x: ArrayLike) -> etrace._core.Array:
    """x·hard_sigmoid(x)."""

def hard_tanh(x: ArrayLike, low: float = -1.0, high: float = 1.0) -> etrace._core.Array:
    """x cut to [low, high]."""

def log_sigmoid(x: ArrayLike) -> etrace._core.Array:
    """ln σ(x), without overflow."""

def mish(x: ArrayLike) -> etrace._core.Array:
    """x·tanh(softplus(x))."""

def prelu(x: ArrayLike, slope: ArrayLike) -> etrace._core.Array:
    """x where x ≥ 0, else slope·x."""

def relu6(x: ArrayLike) -> etrace._core.Array:
    """min(max(x, 0), 6)."""

def selu(x: ArrayLike) -> etrace._core.Array:
    """λ·elu(x, α): keeps mean 0 and variance 1."""

def soft_shrink(x: ArrayLike, bound: float = 0.5) -> etrace._core.Array:
    """x ∓ bound where |x| > bound, else 0."""

def soft_sign(x: ArrayLike) -> etrace._core.Array:
    """x/(1 + |x|)."""

def softmin(x: ArrayLike, axis: int = -1) -> etrace._core.Array:
    """softmax(−x)."""

def sparse_plus(x: ArrayLike) -> etrace._core.Array:
    """0, (x + 1)²/4, x below, in and above [−1, 1]."""

def sparse_sigmoid(x: ArrayLike) -> etrace._core.Array:
    """(x + 1)/2 cut to [0, 1]."""

def squareplus(x: ArrayLike, b: float = 4.0) -> etrace._core.Array:
    """(x + √(x² + b))/2."""

def standardize(x: ArrayLike, axis: int = -1, epsilon: float = 1e-05) -> etrace._core.Array:
    """(x − mean)/√(variance + ε) along an axis."""

def tanh_shrink(x: ArrayLike) -> etrace._core.Array:
    """x − tanh(x)."""

def threshold(x: ArrayLike, bound: float, value: float) -> etrace._core.Array:
    """x where x > bound, else value."""

def activate(name: str, x: ArrayLike) -> etrace._core.Array:
    """An activation by its name."""

def activation_names() -> list[str]:
    """All names of activations."""

def expm1_ratio(x: ArrayLike) -> etrace._core.Array:
    """(e^z − 1)/z, 1 at 0; accurate everywhere, with its derivatives."""

def weight_standardization(x: ArrayLike, epsilon: float = 0.0001) -> etrace._core.Array:
    """
    (w − μ)/√max(v·n, ε): every output gets weights of mean 0 and sum of squares 1.
    """

def join_input(x: ArrayLike, h: ArrayLike) -> etrace._core.Array:
    """
    [x, h] on the last axis, x first; both with or both without a batch axis.
    """

def euler(f: object, x: object, dt: float) -> Any:
    """
    x + dt·f(x).

    One step of dx/dt = f(x): f takes x and gives its derivative, each entry from its own entry of x. For several
    variables together x is a tuple, and f takes as many arguments and gives a tuple.
    """

def rk4(f: object, x: object, dt: float) -> Any:
    """
    The classical method of fourth order.

    One step of dx/dt = f(x): f takes x and gives its derivative, each entry from its own entry of x. For several
    variables together x is a tuple, and f takes as many arguments and gives a tuple.
    """

def exp_euler(f: object, x: object, dt: float) -> Any:
    """
    x + dt·φ(dt·J)·f(x), J = f'(x), φ(z) = (e^z − 1)/z: exact where f is linear in x.

    One step of dx/dt = f(x): f takes x and gives its derivative, each entry from its own entry of x. For several
    variables together x is a tuple, and f takes as many arguments and gives a tuple.
    """

def integrate(method: object, f: object, x: object, dt: float) -> Any:
    """
    By 'exp_euler', 'euler' or 'rk4'.

    One step of dx/dt = f(x): f takes x and gives its derivative, each entry from its own entry of x. For several
    variables together x is a tuple, and f takes as many arguments and gives a tuple.
    """

class Learned:
    """A constant that is a parameter, with one entry per neuron."""

    @property
    def start(self) -> etrace._core.Quantity: ...

    def __repr__(self) -> str: ...

    def __reduce__(self) -> tuple: ...

def learned(start: object) -> Learned:
    """
    A constant of a neuron or synapse that is learned: tau=et.nn.learned(5 * et.units.ms).
    """

class NeuronInput:
    """
    What a neuron gets in one step: `current`, constant during the step; `current_of(V)`, added to it
    (conductances, gap junctions); `delta`, added to V after the step. Inputs of several sources add up.
    """

    def __init__(self, current: ArrayLike | None = None, current_of: object | None = None, delta: ArrayLike | None = None) -> None: ...

    @property
    def current(self) -> Any: ...

    @property
    def delta(self) -> Any: ...

    def __add__(self, other: object) -> NeuronInput: ...

    def __radd__(self, other: object) -> NeuronInput: ...

class SynapticCurrent:
    """
    From a conductance g to the current into a neuron: delta, cuba, coba, mg_block. Conductances in mS and
    voltages in mV make currents in µA; `scale` says how much of the neuron's unit one of these is.
    """

    @staticmethod
    def delta(scale: float = 1.0) -> SynapticCurrent:
        """V jumps by g·scale."""

    @staticmethod
    def cuba(scale: float = 1.0) -> SynapticCurrent:
        """I = g·scale: does not depend on V."""

    @staticmethod
    def coba(E: object, scale: float = 1.0) -> SynapticCurrent:
        """I = g·(E − V)."""

    @staticmethod
    def mg_block(E: object = 0.0, cMg: float = 1.2, alpha: float = 0.062, beta: float = 3.57, V_offset: object = 0.0, scale: float = 1.0) -> SynapticCurrent:
        """
        I = g·(E − V)/(1 + [Mg]/β·e^(α·(V_off − V))): NMDA receptors, blocked by magnesium at rest.
        """

    def __repr__(self) -> str: ...

    def __reduce__(self) -> tuple: ...

    def __call__(self, g: ArrayLike) -> NeuronInput: ...
