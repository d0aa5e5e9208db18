"""
Spikes H(x) = 1 where x ≥ 0, else 0, whose derivative is taken to be s(x). An option `surrogate` takes one of these, its name, or a function of one array. N(x; μ, σ) is the density of the normal distribution.
"""

import etrace._core


from collections.abc import Callable, Sequence
from typing import Any
from etrace._core import Array, ArrayLike, Dtype, DtypeLike, Quantity, Unit

class Surrogate:
    """x -> s(x), the derivative of a spike."""

    def __call__(self, x: ArrayLike) -> etrace._core.Array: ...

    def __repr__(self) -> str: ...

    def __reduce__(self) -> tuple: ...

def arctan(alpha: float = 1.0) -> Surrogate:
    """α/2 / (1 + (πα·x/2)²)"""

def boxcar(half_width: float = 0.5, height: float = 1.0) -> Surrogate:
    """height where |x| ≤ half_width"""

def erf(alpha: float = 1.0) -> Surrogate:
    """α/√π · exp(−α²x²)"""

def gaussian(sigma: float = 0.5, alpha: float = 0.5) -> Surrogate:
    """α·N(x; 0, σ)"""

def inv_square(alpha: float = 100.0) -> Surrogate:
    """1/(α|x| + 1)²"""

def leaky_relu(alpha: float = 0.1, beta: float = 1.0) -> Surrogate:
    """α where x < 0, else β"""

def log_tailed_relu(alpha: float = 0.0) -> Surrogate:
    """α where x ≤ 0, else 1/max(x, 1)"""

def multi_gaussian(h: float = 0.15, s: float = 6.0, sigma: float = 0.5, scale: float = 0.5) -> Surrogate:
    """scale·[(1 + h)·N(x; 0, σ) − h·N(x; σ, sσ) − h·N(x; −σ, sσ)]"""

def nonzero_sign_log(alpha: float = 1.0) -> Surrogate:
    """1/(1/α + |x|)"""

def piecewise_exp(alpha: float = 1.0) -> Surrogate:
    """α/2 · exp(−α|x|)"""

def piecewise_leaky_relu(c: float = 0.01, width: float = 1.0) -> Surrogate:
    """1/(2·width) where |x| ≤ width, else c"""

def piecewise_quadratic(alpha: float = 1.0) -> Surrogate:
    """max(α − α²|x|, 0)"""

def q_pseudo_spike(alpha: float = 2.0) -> Surrogate:
    """(1 + 2|x|/(α + 1))^(−α)"""

def relu_grad(alpha: float = 0.3, width: float = 1.0) -> Surrogate:
    """max(α·width − α|x|, 0)"""

def s2nn(alpha: float = 4.0, beta: float = 1.0) -> Surrogate:
    """α·σ(αx)(1 − σ(αx)) where x < 0, else β/(x + 1)"""

def sigmoid(alpha: float = 4.0) -> Surrogate:
    """α·σ(αx)(1 − σ(αx))"""

def slayer(alpha: float = 1.0) -> Surrogate:
    """exp(−α|x|)"""

def soft_sign(alpha: float = 1.0) -> Surrogate:
    """α/2 / (1 + |αx|)²"""

def squarewave_fourier(n: int = 2, period: float = 8.0) -> Surrogate:
    """4/T · Σ_{i=1…n} cos((2i − 1)·2πx/T)"""

def by_name(name: str) -> Surrogate:
    """A surrogate with its defaults."""

def names() -> list[str]:
    """All names that by_name knows."""
