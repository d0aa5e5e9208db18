"""
The engine of etrace. Import etrace, which shows it under the names that are meant for use.
"""

from collections.abc import Iterator, Sequence
import types
from typing import overload

from etrace._core import (
    _connect as _connect,
    _init as _init,
    _loss as _loss,
    _metrics as _metrics,
    _nn as _nn,
    _optim as _optim,
    _surrogate as _surrogate,
    random as random,
    units as units
)
from etrace._core._optim import Optimizer as _Optimizer


from collections.abc import Callable, Sequence
from typing import Any, SupportsFloat, SupportsInt
import numpy
from numpy import ndarray

# What a function of arrays takes: an et.Array, a NumPy array or one of another library, a number, nested lists,
# and, where the function has units, a quantity.
ArrayLike = Any
# A Dtype, its name, a NumPy type, or float, int, bool.
DtypeLike = Any

class Dtype:
    """
    An element type: et.bool_, int32, int64, uint32, float16, bfloat16, float32, float64.

    float16 and bfloat16 are for storage: convert with `astype` to compute. Compares equal to its
    name and to NumPy's type of that name.
    """

    def __init__(self, dtype: DtypeLike) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""

    @property
    def is_floating(self) -> bool: ...

    @property
    def is_integer(self) -> bool: ...

    @property
    def dtype(self) -> Any:
        """The NumPy type of that name."""

    @property
    def __numpy_dtype__(self) -> Any: ...

    def __repr__(self) -> str: ...

    def __str__(self) -> str: ...

    def __hash__(self) -> int: ...

    def __eq__(self, other: Any) -> bool: ...  # type: ignore[override]

    def __reduce__(self) -> tuple: ...

bool_: Dtype = ...

int32: Dtype = ...

int64: Dtype = ...

uint32: Dtype = ...

float16: Dtype = ...

bfloat16: Dtype = ...

float32: Dtype = ...

float64: Dtype = ...

class Array:
    """
    An immutable array of numbers, or a value of a program that is being recorded.

    Made by et.array (copies) and et.asarray (shares the memory of NumPy where it can). Operators
    broadcast like NumPy's; a bare Python number takes the element type of what it meets.
    """

    def __init__(self, x: ArrayLike, dtype: DtypeLike | None = None) -> None: ...

    def __add__(self, other: Any) -> Array: ...

    def __radd__(self, arg: Any, /) -> Array: ...

    def __sub__(self, other: Any) -> Array: ...

    def __rsub__(self, arg: Any, /) -> Array: ...

    def __mul__(self, other: Any) -> Array: ...

    def __rmul__(self, arg: Any, /) -> Array: ...

    def __truediv__(self, other: Any) -> Array: ...

    def __rtruediv__(self, arg: Any, /) -> Array: ...

    def __floordiv__(self, other: Any) -> Array: ...

    def __rfloordiv__(self, arg: Any, /) -> Array: ...

    def __mod__(self, other: Any) -> Array: ...

    def __rmod__(self, arg: Any, /) -> Array: ...

    def __pow__(self, other: Any) -> Array: ...

    def __rpow__(self, arg: Any, /) -> Array: ...

    def __matmul__(self, other: Any) -> Array: ...

    def __rmatmul__(self, arg: Any, /) -> Array: ...

    def __and__(self, other: Any) -> Array: ...

    def __rand__(self, arg: Any, /) -> Array: ...

    def __or__(self, other: Any) -> Array: ...

    def __ror__(self, arg: Any, /) -> Array: ...

    def __xor__(self, other: Any) -> Array: ...

    def __rxor__(self, arg: Any, /) -> Array: ...

    def __lshift__(self, other: Any) -> Array: ...

    def __rlshift__(self, arg: Any, /) -> Array: ...

    def __rshift__(self, other: Any) -> Array: ...

    def __rrshift__(self, arg: Any, /) -> Array: ...

    def __eq__(self, other: Any) -> Array: ...  # type: ignore[override]

    def __ne__(self, other: Any) -> Array: ...  # type: ignore[override]

    def __lt__(self, other: Any) -> Array: ...

    def __le__(self, other: Any) -> Array: ...

    def __gt__(self, other: Any) -> Array: ...

    def __ge__(self, other: Any) -> Array: ...

    def __neg__(self) -> Array: ...

    def __pos__(self) -> Array: ...

    def __abs__(self) -> Array: ...

    def __invert__(self) -> Array: ...

    def __getitem__(self, index: object | None) -> Array: ...

    def __setitem__(self, index: object | None, value: object | None) -> None: ...

    def __iter__(self) -> Iterator[Array]: ...

    @property
    def at(self) -> _At:
        """x.at[index].set(v), .add(v), … : copies with some entries changed."""

    __hash__: None = None  # type: ignore[assignment]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes along each axis."""

    @property
    def ndim(self) -> int:
        """Number of axes."""

    @property
    def size(self) -> int:
        """Number of elements."""

    @property
    def dtype(self) -> Dtype:
        """Element type."""

    @property
    def __numpy_dtype__(self) -> Any: ...

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""

    @property
    def is_traced(self) -> bool:
        """
        True for a value of a program that is being recorded: it has a type and no numbers.
        """

    def __repr__(self) -> str: ...

    def __str__(self) -> str: ...

    def __bool__(self) -> bool: ...

    def __int__(self) -> int: ...

    def __float__(self) -> float: ...

    def __index__(self) -> int: ...

    def __len__(self) -> int: ...

    def item(self) -> Any:
        """The only element, as a Python number."""

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""

    def numpy(self) -> ndarray:
        """A read-only NumPy view of the same memory."""

    def __array__(self, dtype: object | None = None, copy: object | None = None) -> ndarray: ...

    def __copy__(self) -> Array: ...

    def __deepcopy__(self, arg: Any, /) -> Array: ...

    def __array_ufunc__(self, arg0: object, arg1: str, /, *args, **kwargs) -> Any: ...

    def __reduce__(self) -> tuple[Any, ...]: ...

    def __dlpack__(self, *, stream: object | None = None, max_version: object | None = None, dl_device: object | None = None, copy: object | None = None) -> Any: ...

    def __dlpack_device__(self) -> tuple: ...

    def __array_namespace__(self, *, api_version: object | None = None) -> types.ModuleType: ...

    @property
    def device(self) -> str:
        """Where the numbers are: always "cpu"."""

    def to_device(self, device: str, *, stream: object | None = None) -> Any: ...

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, dtype: DtypeLike | None = None, out: object | None = None) -> Array:
        """Σ x over the axes (all if None). Truth values are counted."""

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, dtype: DtypeLike | None = None, out: object | None = None) -> Array:
        """The mean over the axes (all if None). Integers become floats."""

    def prod(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, dtype: DtypeLike | None = None, out: object | None = None) -> Array:
        """Π x over the axes (all if None)."""

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, dtype: DtypeLike | None = None, out: object | None = None) -> Array:
        """The largest element along the axes (all if None)."""

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, dtype: DtypeLike | None = None, out: object | None = None) -> Array:
        """The smallest element along the axes (all if None)."""

    def all(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, dtype: DtypeLike | None = None, out: object | None = None) -> Array:
        """True where all elements along the axes are not 0."""

    def any(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, dtype: DtypeLike | None = None, out: object | None = None) -> Array:
        """True where an element along the axes is not 0."""

    def logsumexp(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, dtype: DtypeLike | None = None, out: object | None = None) -> Array:
        """log Σ e^x over the axes (all if None), without overflow."""

    def var(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, ddof: float = 0.0, *, dtype: object | None = None, out: object | None = None) -> Array:
        """Σ (x - mean)² / (n - ddof) over the axes (all if None)."""

    def std(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, ddof: float = 0.0, *, dtype: object | None = None, out: object | None = None) -> Array:
        """The square root of var."""

    def cumsum(self, axis: int | None = None, reverse: bool = False) -> Array:
        """Running sums along the axis."""

    def cumprod(self, axis: int | None = None, reverse: bool = False) -> Array:
        """Running products along the axis."""

    def cummax(self, axis: int | None = None, reverse: bool = False) -> Array:
        """Running maxima along the axis."""

    def cummin(self, axis: int | None = None, reverse: bool = False) -> Array:
        """Running minima along the axis."""

    def cumlogsumexp(self, axis: int | None = None, reverse: bool = False) -> Array:
        """Running log Σ e^x along the axis."""

    def softmax(self, axis: int = -1) -> Array:
        """e^x / Σ e^x along the axis."""

    def log_softmax(self, axis: int = -1) -> Array:
        """x - log Σ e^x along the axis."""

    def reshape(self, *args) -> Array:
        """The same elements in row-major order; one size may be -1."""

    def flatten(self) -> Array:
        """All elements in one axis, row by row."""

    def ravel(self) -> Array:
        """All elements in one axis, row by row."""

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Array:
        """Without the axes (all if None) of size 1."""

    def expand_dims(self, axis: int | Sequence[int]) -> Array:
        """With new axes of size 1 at these places of the result."""

    def transpose(self, *args) -> Array:
        """
        Axes in another order, one tuple or several numbers; reversed if there are none.
        """

    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """Two axes exchanged."""

    def roll(self, shift: int, axis: int | None = None) -> Array:
        """
        Entries moved along an axis; those that leave at the end come in at the start.
        """

    def flip(self, axis: int | Sequence[int] | None = None) -> Array:
        """Entries in reverse order along the axes (all if None)."""

    def tile(self, repeats: int | Sequence[int]) -> Array:
        """Copies side by side, so many along each axis."""

    def repeat(self, repeats: int, axis: int | None = None) -> Array:
        """Every entry so many times in a row."""

    @property
    def T(self) -> Array:
        """Axes reversed."""

    @property
    def mT(self) -> Array:
        """The last two axes exchanged."""

    def astype(self, dtype: DtypeLike) -> Array:
        """
        Converted to another element type. Floats become integers by dropping the fraction.
        """

    def sort(self, axis: int = -1) -> Array:
        """Sorted along the axis, the smallest first."""

    def argsort(self, axis: int = -1) -> Array:
        """
        The positions that sort x along the axis; equal elements keep their order.
        """

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Array:
        """
        Position of the first largest element along the axis (of all elements if None).
        """

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Array:
        """
        Position of the first smallest element along the axis (of all elements if None).
        """

    def take(self, indices: ArrayLike, axis: int = 0) -> Array:
        """
        x[indices] along the axis; positions outside are moved to the nearest one inside.
        """

    def dot(self, other: ArrayLike) -> Array:
        """Σ over the last axis of self and the first of other."""

class _AtIndex:
    def get(self) -> Array:
        """x[index]"""

    def set(self, value: object) -> Array:
        """A copy of the array with these values at the index."""

    def add(self, value: object) -> Array:
        """
        A copy with the values added; positions that come twice are added to twice.
        """

    def subtract(self, value: object) -> Array: ...

    def multiply(self, value: object) -> Array: ...

    def divide(self, value: object) -> Array: ...

    def power(self, value: object) -> Array: ...

    def min(self, value: object) -> Array: ...

    def max(self, value: object) -> Array: ...

class _At:
    def __getitem__(self, index: object | None) -> _AtIndex: ...

def asarray(x: object | None, dtype: DtypeLike | None = None, copy: bool | None = None) -> Array:
    """
    An array of x's numbers, sharing x's memory where type and layout allow.

    x: et.Array, NumPy array, anything with the buffer protocol, DLPack (PyTorch, JAX) or __array__, a number,
    or nested lists. The owner of shared memory is kept alive; whoever writes to it changes the array, too.
    copy: None copies where it must, False raises BufferError instead, True always copies. Lists of Python floats
    become float32, of ints int32; integers of less than 32 bits are widened to int32.
    """

def array(x: object, dtype: DtypeLike | None = None) -> Array:
    """An array with a copy of x's numbers; see asarray."""

def _same(arg: ArrayLike, /) -> Array: ...

class Unit:
    """
    A physical unit: seven SI dimensions with rational exponents, and a scale.

    5 * et.units.mV is a Quantity; units multiply, divide and have powers: et.units.mV / et.units.ms.
    """

    @overload
    def __init__(self) -> None: ...

    @overload
    def __init__(self, arg0: object, arg1: object, arg2: float, /) -> None: ...

    def __mul__(self, arg: Any, /) -> Quantity: ...

    def __rmul__(self, arg: Any, /) -> Quantity: ...

    def __truediv__(self, arg: Any, /) -> Quantity: ...

    def __rtruediv__(self, arg: Any, /) -> Quantity: ...

    def __pow__(self, arg: Any, /) -> Unit: ...

    def __eq__(self, other: Any) -> bool: ...  # type: ignore[override]

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

    def same_dimension(self, other: Unit) -> bool:
        """True for units of one dimension: mV and V."""

    @property
    def dimensionless(self) -> bool:
        """True for plain numbers, whatever their scale."""

    def __reduce__(self) -> tuple: ...

    __array_ufunc__: None = None

class Quantity:
    """
    Numbers with a physical unit: mantissa · unit.

    Sums, comparisons and choices need operands of one dimension (et.UnitError) and take the scale of the
    left one: 1 mV + 1 V is 1001 mV. Products compose units; a quantity without dimension is a plain number.
    """

    def __init__(self, mantissa: ArrayLike, unit: Unit | None = None) -> None: ...

    @property
    def mantissa(self) -> Array:
        """The numbers, in the quantity's own unit."""

    @property
    def unit(self) -> Unit: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Dtype: ...

    @property
    def ndim(self) -> int: ...

    @property
    def size(self) -> int: ...

    def to(self, unit: Unit) -> Array:
        """
        The numbers in that unit, an et.Array; UnitError if the dimension is another.
        """

    def in_unit(self, unit: Unit) -> Quantity:
        """The same quantity in another unit of its dimension."""

    def decimal(self) -> Array:
        """The plain numbers; UnitError if there is a dimension."""

    def __getitem__(self, index: object | None) -> Quantity: ...

    def __len__(self) -> int: ...

    def __neg__(self) -> Quantity: ...

    def __abs__(self) -> Quantity: ...

    def __pow__(self, arg: Any, /) -> Quantity: ...

    def __float__(self) -> float: ...

    def __repr__(self) -> str: ...

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Quantity: ...

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Quantity: ...

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Quantity: ...

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Quantity: ...

    def __array__(self, dtype: object | None = None, copy: object | None = None) -> None: ...

    def __reduce__(self) -> tuple: ...

    def __add__(self, arg: Any, /) -> Quantity: ...

    def __radd__(self, arg: Any, /) -> Quantity: ...

    def __sub__(self, arg: Any, /) -> Quantity: ...

    def __rsub__(self, arg: Any, /) -> Quantity: ...

    def __mul__(self, arg: Any, /) -> Quantity: ...

    def __rmul__(self, arg: Any, /) -> Quantity: ...

    def __truediv__(self, arg: Any, /) -> Quantity: ...

    def __rtruediv__(self, arg: Any, /) -> Quantity: ...

    def __mod__(self, arg: Any, /) -> Quantity: ...

    def __matmul__(self, arg: Any, /) -> Quantity: ...

    def __rmatmul__(self, arg: Any, /) -> Quantity: ...

    def __eq__(self, other: Any) -> Array: ...  # type: ignore[override]

    def __ne__(self, other: Any) -> Array: ...  # type: ignore[override]

    def __lt__(self, other: Any) -> Array: ...

    def __le__(self, other: Any) -> Array: ...

    def __gt__(self, other: Any) -> Array: ...

    def __ge__(self, other: Any) -> Array: ...

    __hash__: None = None  # type: ignore[assignment]

    __array_ufunc__: None = None

def negative(x: ArrayLike) -> Array:
    """-x, elementwise."""

def abs(x: ArrayLike) -> Array:
    """|x|, elementwise."""

def sign(x: ArrayLike) -> Array:
    """-1, 0 or 1, elementwise. Of a quantity: a plain number."""

def floor(x: ArrayLike) -> Array:
    """
    The largest integer not above x, as a float. Integers stay as they are.
    """

def ceil(x: ArrayLike) -> Array:
    """The smallest integer not below x, as a float."""

def round(x: ArrayLike) -> Array:
    """The nearest integer as a float; halves go to the even one."""

def trunc(x: ArrayLike) -> Array:
    """x without its fraction."""

def exp(x: ArrayLike) -> Array:
    """e^x, elementwise. A quantity must be a plain number."""

def exp2(x: ArrayLike) -> Array:
    """2^x, elementwise."""

def expm1(x: ArrayLike) -> Array:
    """e^x - 1, exact near 0."""

def log(x: ArrayLike) -> Array:
    """Natural logarithm, elementwise."""

def log1p(x: ArrayLike) -> Array:
    """log(1 + x), exact near 0."""

def log2(x: ArrayLike) -> Array:
    """Logarithm to base 2."""

def log10(x: ArrayLike) -> Array:
    """Logarithm to base 10."""

def sin(x: ArrayLike) -> Array:
    """Sine of x in radians."""

def cos(x: ArrayLike) -> Array:
    """Cosine of x in radians."""

def tan(x: ArrayLike) -> Array:
    """Tangent of x in radians."""

def asin(x: ArrayLike) -> Array:
    """Inverse sine, in [-π/2, π/2]."""

def acos(x: ArrayLike) -> Array:
    """Inverse cosine, in [0, π]."""

def atan(x: ArrayLike) -> Array:
    """Inverse tangent, in (-π/2, π/2)."""

def sinh(x: ArrayLike) -> Array:
    """Hyperbolic sine."""

def cosh(x: ArrayLike) -> Array:
    """Hyperbolic cosine."""

def tanh(x: ArrayLike) -> Array:
    """Hyperbolic tangent."""

def asinh(x: ArrayLike) -> Array:
    """Inverse hyperbolic sine."""

def acosh(x: ArrayLike) -> Array:
    """Inverse hyperbolic cosine."""

def atanh(x: ArrayLike) -> Array:
    """Inverse hyperbolic tangent."""

def logistic(x: ArrayLike) -> Array:
    """1 / (1 + e^-x). The same as sigmoid."""

def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + e^-x)."""

def erf(x: ArrayLike) -> Array:
    """Error function."""

def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), exact for large x."""

def erf_inv(x: ArrayLike) -> Array:
    """Inverse of erf."""

def lgamma(x: ArrayLike) -> Array:
    """log |Γ(x)|."""

def digamma(x: ArrayLike) -> Array:
    """Derivative of lgamma."""

def sqrt(x: ArrayLike) -> Array:
    """Square root. The unit of a quantity: its root."""

def rsqrt(x: ArrayLike) -> Array:
    """1 / sqrt(x)."""

def cbrt(x: ArrayLike) -> Array:
    """Cube root."""

def square(x: ArrayLike) -> Array:
    """x·x, elementwise."""

def is_finite(x: ArrayLike) -> Array:
    """True where x is neither infinite nor NaN."""

def isfinite(x: ArrayLike) -> Array:
    """True where x is neither infinite nor NaN."""

def isnan(x: ArrayLike) -> Array:
    """True where x is NaN."""

def isinf(x: ArrayLike) -> Array:
    """True where x is infinite."""

def logical_not(x: ArrayLike) -> Array:
    """True where x is 0 or False."""

def bitwise_not(x: ArrayLike) -> Array:
    """~x: every bit the other one; `not` of truth values."""

def stop_gradient(x: ArrayLike) -> Array:
    """x, whose derivative is taken to be 0."""

def relu(x: ArrayLike) -> Array:
    """max(x, 0)."""

def softplus(x: ArrayLike) -> Array:
    """log(1 + e^x)."""

def silu(x: ArrayLike) -> Array:
    """x·sigmoid(x)."""

def gelu(x: ArrayLike) -> Array:
    """x·Φ(x), with tanh's approximation as in JAX."""

def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6."""

def add(a: ArrayLike, b: ArrayLike) -> Array:
    """a + b."""

def sub(a: ArrayLike, b: ArrayLike) -> Array:
    """a - b."""

def subtract(a: ArrayLike, b: ArrayLike) -> Array:
    """a - b."""

def mul(a: ArrayLike, b: ArrayLike) -> Array:
    """a·b, elementwise."""

def multiply(a: ArrayLike, b: ArrayLike) -> Array:
    """a·b, elementwise."""

def div(a: ArrayLike, b: ArrayLike) -> Array:
    """a / b; integers become floats."""

def divide(a: ArrayLike, b: ArrayLike) -> Array:
    """a / b; integers become floats."""

def floor_divide(a: ArrayLike, b: ArrayLike) -> Array:
    """
    a // b: the quotient rounded down; for integers a // 0 is -1 (all bits set).
    """

def mod(a: ArrayLike, b: ArrayLike) -> Array:
    """a % b: has the sign of b."""

def remainder(a: ArrayLike, b: ArrayLike) -> Array:
    """a % b: has the sign of b."""

def fmod(a: ArrayLike, b: ArrayLike) -> Array:
    """The remainder with the sign of a, as in C."""

def rem(a: ArrayLike, b: ArrayLike) -> Array:
    """The remainder with the sign of a, as in C."""

def pow(a: ArrayLike, b: ArrayLike) -> Array:
    """
    a ** b. A Python integer as exponent is exact, and integers stay integers.
    """

def power(a: ArrayLike, b: ArrayLike) -> Array:
    """a ** b."""

def atan2(a: ArrayLike, b: ArrayLike) -> Array:
    """The angle of the point (x, y) = (b, a), in [-π, π]."""

def nextafter(a: ArrayLike, b: ArrayLike) -> Array:
    """The float that follows a on the way to b."""

def maximum(a: ArrayLike, b: ArrayLike) -> Array:
    """The larger of a and b, elementwise; NaN wins."""

def minimum(a: ArrayLike, b: ArrayLike) -> Array:
    """The smaller of a and b, elementwise; NaN wins."""

def logical_and(a: ArrayLike, b: ArrayLike) -> Array:
    """True where both are not 0."""

def logical_or(a: ArrayLike, b: ArrayLike) -> Array:
    """True where one is not 0."""

def logical_xor(a: ArrayLike, b: ArrayLike) -> Array:
    """True where one of both is not 0."""

def bitwise_and(a: ArrayLike, b: ArrayLike) -> Array:
    """a & b, bit by bit."""

def bitwise_or(a: ArrayLike, b: ArrayLike) -> Array:
    """a | b, bit by bit."""

def bitwise_xor(a: ArrayLike, b: ArrayLike) -> Array:
    """a ^ b, bit by bit."""

def shift_left(a: ArrayLike, b: ArrayLike) -> Array:
    """a << b."""

def shift_right(a: ArrayLike, b: ArrayLike) -> Array:
    """a >> b; the sign stays, where the type has one."""

def shift_right_logical(a: ArrayLike, b: ArrayLike) -> Array:
    """a >> b; zeros come in."""

def equal(a: ArrayLike, b: ArrayLike) -> Array:
    """a == b, elementwise."""

def not_equal(a: ArrayLike, b: ArrayLike) -> Array:
    """a != b, elementwise."""

def less(a: ArrayLike, b: ArrayLike) -> Array:
    """a < b, elementwise."""

def less_equal(a: ArrayLike, b: ArrayLike) -> Array:
    """a <= b, elementwise."""

def greater(a: ArrayLike, b: ArrayLike) -> Array:
    """a > b, elementwise."""

def greater_equal(a: ArrayLike, b: ArrayLike) -> Array:
    """a >= b, elementwise."""

def clip(x: ArrayLike, low: ArrayLike | None = None, high: ArrayLike | None = None) -> Array:
    """x, not below `low` and not above `high`."""

def where(condition: ArrayLike, if_true: ArrayLike, if_false: ArrayLike) -> Array:
    """
    if_true where the condition holds, else if_false; all broadcast. Both are computed.
    """

def select_n(which: ArrayLike, cases: Sequence[ArrayLike]) -> Array:
    """
    Elementwise cases[which]; `which` is bool or int32, all cases have its shape.
    """

def heaviside_surrogate(x: ArrayLike, dx: ArrayLike) -> Array:
    """1 where x ≥ 0, else 0; its derivative is taken to be dx: H(x)' := dx."""

def leaky_relu(x: ArrayLike, slope: float = 0.01) -> Array:
    """x where x > 0, else slope·x."""

def elu(x: ArrayLike, alpha: float = 1.0) -> Array:
    """x where x > 0, else alpha·(e^x - 1)."""

def integer_pow(x: ArrayLike, exponent: int) -> Array:
    """x to an integer power, by multiplications."""

def bitcast(x: ArrayLike, dtype: DtypeLike) -> Array:
    """The same bits as another element type of equal width."""

def copy(x: ArrayLike) -> Array:
    """x in memory of its own."""

def sum(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Array:
    """Σ x over the axes (all if None). Truth values are counted."""

def mean(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Array:
    """The mean over the axes (all if None). Integers become floats."""

def prod(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Array:
    """Π x over the axes (all if None)."""

def max(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Array:
    """The largest element along the axes (all if None)."""

def min(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Array:
    """The smallest element along the axes (all if None)."""

def all(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Array:
    """True where all elements along the axes are not 0."""

def any(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Array:
    """True where an element along the axes is not 0."""

def logsumexp(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Array:
    """log Σ e^x over the axes (all if None), without overflow."""

def var(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, correction: float = 0.0) -> Array:
    """Σ (x - mean)² / (n - correction) over the axes (all if None)."""

def std(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, correction: float = 0.0) -> Array:
    """The square root of var."""

def cumsum(x: ArrayLike, axis: int | None = None, reverse: bool = False) -> Array:
    """Running sums along the axis."""

def cumprod(x: ArrayLike, axis: int | None = None, reverse: bool = False) -> Array:
    """Running products along the axis."""

def cummax(x: ArrayLike, axis: int | None = None, reverse: bool = False) -> Array:
    """Running maxima along the axis."""

def cummin(x: ArrayLike, axis: int | None = None, reverse: bool = False) -> Array:
    """Running minima along the axis."""

def cumlogsumexp(x: ArrayLike, axis: int | None = None, reverse: bool = False) -> Array:
    """Running log Σ e^x along the axis."""

def softmax(x: ArrayLike, axis: int = -1) -> Array:
    """e^x / Σ e^x along the axis."""

def log_softmax(x: ArrayLike, axis: int = -1) -> Array:
    """x - log Σ e^x along the axis."""

def l2_norm(x: ArrayLike) -> Array:
    """sqrt(Σ x²) of all elements."""

def reshape(x: ArrayLike, shape: int | Sequence[int]) -> Array:
    """The same elements in row-major order; one size may be -1."""

def flatten(x: ArrayLike) -> Array:
    """All elements in one axis, row by row."""

def ravel(x: ArrayLike) -> Array:
    """All elements in one axis, row by row."""

def squeeze(x: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Without the axes (all if None) of size 1."""

def expand_dims(x: ArrayLike, axis: int | Sequence[int]) -> Array:
    """With new axes of size 1 at these places of the result."""

def transpose(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Axes in another order; reversed if None."""

def swapaxes(x: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged."""

def moveaxis(x: ArrayLike, source: int, destination: int) -> Array:
    """One axis at another place; the others keep their order."""

def broadcast_to(x: ArrayLike, shape: int | Sequence[int]) -> Array:
    """Repeated along new axes and axes of size 1, by NumPy's rule."""

def concatenate(arrays: object, axis: int = 0) -> Array:
    """Arrays one behind the other along an axis."""

def stack(arrays: object, axis: int = 0) -> Array:
    """Arrays of one shape along a new axis."""

def split(x: ArrayLike, parts: object, axis: int = 0) -> list:
    """A list of equal parts, or of parts cut at the given positions."""

def pad(x: ArrayLike, width: object, value: ArrayLike = 0) -> Array:
    """
    With `value` before and after each axis: one number, or (before, after) per axis.
    """

def roll(x: ArrayLike, shift: int, axis: int | None = None) -> Array:
    """
    Entries moved along an axis; those that leave at the end come in at the start.
    """

def flip(x: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Entries in reverse order along the axes (all if None)."""

def tile(x: ArrayLike, repeats: int | Sequence[int]) -> Array:
    """Copies side by side, so many along each axis."""

def repeat(x: ArrayLike, repeats: int, axis: int | None = None) -> Array:
    """Every entry so many times in a row."""

def slice_axis(x: ArrayLike, axis: int, start: int, stop: int, step: int = 1) -> Array:
    """x[start:stop:step] along one axis."""

def astype(x: ArrayLike, dtype: DtypeLike) -> Array:
    """Converted to another element type."""

def zeros(shape: int | Sequence[int], dtype: DtypeLike | None = None) -> Array:
    """All 0. float32 unless said otherwise."""

def ones(shape: int | Sequence[int], dtype: DtypeLike | None = None) -> Array:
    """All 1. float32 unless said otherwise."""

def empty(shape: int | Sequence[int], dtype: DtypeLike | None = None) -> Array:
    """The same as zeros."""

def full(shape: int | Sequence[int], value: ArrayLike, dtype: DtypeLike | None = None) -> Array:
    """All equal to value."""

def zeros_like(x: ArrayLike, dtype: DtypeLike | None = None) -> Array:
    """Zeros of x's shape and type."""

def ones_like(x: ArrayLike, dtype: DtypeLike | None = None) -> Array:
    """Ones of x's shape and type."""

def empty_like(x: ArrayLike, dtype: DtypeLike | None = None) -> Array:
    """The same as zeros_like."""

def full_like(x: ArrayLike, value: ArrayLike, dtype: DtypeLike | None = None) -> Array:
    """x's shape and type, all equal to value."""

def eye(n: int, dtype: DtypeLike | None = None) -> Array:
    """The n×n identity matrix."""

def linspace(start: float, stop: float, n: int = 50, dtype: DtypeLike | None = None) -> Array:
    """n numbers at equal distances, both ends included."""

def arange(start: object, stop: object | None = None, step: object = 1, dtype: DtypeLike | None = None) -> Array:
    """start, start + step, … below stop; from 0 if one number is given."""

def one_hot(indices: ArrayLike, num: int, dtype: DtypeLike | None = None) -> Array:
    """[…] integers become […, num]: 1 at the index, else 0."""

def tril(x: ArrayLike) -> Array:
    """The lower triangle of matrices, else 0."""

def triu(x: ArrayLike) -> Array:
    """The upper triangle of matrices, else 0."""

def diag(x: ArrayLike) -> Array:
    """A matrix with this diagonal, or the diagonal of a matrix."""

def trace(x: ArrayLike) -> Array:
    """The sum of a matrix's diagonal."""

def sort(x: ArrayLike, axis: int = -1) -> Array:
    """Sorted along the axis, the smallest first."""

def argsort(x: ArrayLike, axis: int = -1) -> Array:
    """
    The positions that sort x along the axis; equal elements keep their order.
    """

def argmax(x: ArrayLike, axis: int | None = None, keepdims: bool = False) -> Array:
    """
    Position of the first largest element along the axis (of all elements if None).
    """

def argmin(x: ArrayLike, axis: int | None = None, keepdims: bool = False) -> Array:
    """
    Position of the first smallest element along the axis (of all elements if None).
    """

def take(x: ArrayLike, indices: ArrayLike, axis: int = 0) -> Array:
    """
    x[indices] along the axis; positions outside are moved to the nearest one inside.
    """

def take_along_axis(x: ArrayLike, indices: ArrayLike, axis: int) -> Array:
    """Picks along an axis; indices have the shape of the result."""

def scatter_add(x: ArrayLike, indices: ArrayLike, updates: ArrayLike, axis: int = 0) -> Array:
    """x with updates added at the indices along the axis."""

def scatter_set(x: ArrayLike, indices: ArrayLike, updates: ArrayLike, axis: int = 0) -> Array:
    """x with updates in place of the entries at the indices along the axis."""

def dynamic_slice(x: ArrayLike, starts: Sequence[ArrayLike], sizes: int | Sequence[int]) -> Array:
    """
    A block of fixed sizes at traced positions; starts are moved so that it fits.
    """

def dynamic_update_slice(x: ArrayLike, update: ArrayLike, starts: Sequence[ArrayLike]) -> Array:
    """x with a block replaced."""

def dynamic_index(x: ArrayLike, index: ArrayLike, axis: int = 0) -> Array:
    """One entry along an axis, at a traced position."""

def matmul_plain(a: ArrayLike, b: ArrayLike) -> Array:
    """
    NumPy's matmul, the operator @. Not trainable: weights of a model that learns online go through et.matmul.
    """

def dot(a: ArrayLike, b: ArrayLike) -> Array:
    """Σ over the last axis of a and the first of b."""

def outer(a: ArrayLike, b: ArrayLike) -> Array:
    """a[i]·b[j]."""

def einsum_plain(equation: str, *operands) -> Array:
    """
    Sums of products by letters, as NumPy's einsum. Not trainable: see et.einsum.
    """

def dot_general(a: ArrayLike, b: ArrayLike, a_contract: int | Sequence[int], b_contract: int | Sequence[int], a_batch: int | Sequence[int] | None = None, b_batch: int | Sequence[int] | None = None) -> Array:
    """
    Σ over pairs of contracted axes; batch axes come first in the result, then the rest of a, then of b.
    """

def conv_general_dilated(x: ArrayLike, kernel: ArrayLike, strides: int | Sequence[int] | None = None, padding: object | None = None, lhs_dilation: int | Sequence[int] | None = None, rhs_dilation: int | Sequence[int] | None = None, feature_group_count: int = 1, batch_group_count: int = 1) -> Array:
    """
    Cross-correlation of x [batch, channel, space…] with kernel [out, in, space…]. Not trainable: see et.conv.
    """

class Eqn:
    """One equation of a program."""

    @property
    def primitive(self) -> str:
        """Name of the operation."""

    @property
    def origin(self) -> Any:
        """Module path, file and line of the model."""

    @property
    def in_types(self) -> list: ...

    @property
    def out_types(self) -> list: ...

    @property
    def params(self) -> dict:
        """The static parameters, as text."""

    def __repr__(self) -> str: ...

class Jaxpr:
    """A typed program. str() shows it; calling it runs it."""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    def __eq__(self, other: Any) -> bool: ...  # type: ignore[override]

    def __hash__(self) -> int: ...

    def __reduce__(self) -> tuple: ...

    @property
    def eqns(self) -> list[Eqn]:
        """The equations, in order."""

    @property
    def in_types(self) -> list: ...

    @property
    def out_types(self) -> list: ...

    @property
    def consts(self) -> list:
        """Arrays that the function used from outside."""

    def to_text(self) -> str:
        """The program with its constants: et.parse_jaxpr reads it."""

    def __call__(self, *args) -> list: ...

def parse_jaxpr(text: str) -> Jaxpr:
    """The program that Jaxpr.to_text wrote."""

class _Jitted:
    @property
    def closed(self) -> bool: ...

    def __call__(self, args: Sequence[Array]) -> list: ...

class _Pullback:
    def __call__(self, cotangents: Sequence[Array]) -> list: ...

def _leaf(x: object | None) -> Array: ...

def _first_value(x: object | None) -> Array: ...

def _value_and_grad(arg0: object, arg1: Sequence[Array], arg2: Sequence[int], /) -> list: ...

def _jvp(arg0: object, arg1: Sequence[Array], arg2: Sequence[Array], /) -> tuple: ...

def _vjp(arg0: object, arg1: Sequence[Array], /) -> tuple: ...

def _vmap(arg0: object, arg1: Sequence[Array], arg2: Sequence[int], /) -> list: ...

def _jacfwd(arg0: object, arg1: Sequence[Array], arg2: int, /) -> list: ...

def _jacrev(arg0: object, arg1: Sequence[Array], arg2: int, /) -> list: ...

def _scan(arg0: object, arg1: Sequence[Array], arg2: Sequence[Array], arg3: int, arg4: bool, arg5: int, /) -> tuple: ...

def _while_loop(arg0: object, arg1: object, arg2: Sequence[Array], /) -> list: ...

def _fori_loop(arg0: int, arg1: int, arg2: object, arg3: Sequence[Array], /) -> list: ...

def _cond(arg0: Array, arg1: object, arg2: object, arg3: Sequence[Array], /) -> list: ...

def _switch_case(arg0: Array, arg1: Sequence[object], arg2: Sequence[Array], /) -> list: ...

def _custom_jvp(arg0: object, arg1: object, arg2: Sequence[Array], /) -> list: ...

def _custom_vjp(arg0: object, arg1: object, arg2: object, arg3: Sequence[Array], /) -> list: ...

def _as_written() -> bool: ...

def _recorded_calls() -> int: ...

def _record_as_written(record: object) -> Any:
    """What `record` gives when et.jit makes no calls."""

def _make_jaxpr(arg0: object, arg1: Sequence[Array], /) -> Jaxpr: ...

def _jit(arg0: object, arg1: Sequence[Array], arg2: str, /) -> _Jitted: ...

class SparsePattern:
    """
    Where the entries of a sparse matrix [rows, cols] stand; the values are a parameter [nnz].

    Made by csr, csc, coo, or from a SciPy matrix; entries keep the order they are given in.
    """

    def __init__(self, matrix: object) -> None: ...

    @staticmethod
    def csr(rows: int, cols: int, indptr: object, indices: object) -> SparsePattern: ...

    @staticmethod
    def csc(rows: int, cols: int, indptr: object, indices: object) -> SparsePattern: ...

    @staticmethod
    def coo(rows: int, cols: int, row: object, col: object) -> SparsePattern: ...

    @property
    def shape(self) -> tuple: ...

    @property
    def nnz(self) -> int:
        """Number of entries."""

    @property
    def row(self) -> Any:
        """Row of each entry."""

    @property
    def col(self) -> Any:
        """Column of each entry."""

    def __eq__(self, other: Any) -> bool: ...  # type: ignore[override]

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

    def __reduce__(self) -> tuple: ...

def matmul(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, weight_fn: object | None = None, bias_fn: object | None = None) -> Array:
    """
    y = x·f(W) + g(b), and W and b learn online.

    x [B, I] or [I], weight [I, O], bias [O]. weight_fn, bias_fn: any function of the parameter
    that keeps its element type (a mask, a sign, a norm); it belongs to the operator.
    """

def grouped_matmul(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, weight_fn: object | None = None, bias_fn: object | None = None) -> Array:
    """
    y[…,g,n] = Σ_k x[…,g,k]·f(W)[g,k,n] + h(b)[g,n].

    x [B, G, K] or [G, K], weight [G, K, N], bias [G, N].
    """

def element_wise(weight: ArrayLike, weight_fn: object | None = None) -> Array:
    """y = f(w), any shape: a parameter that acts element by element."""

def embedding(indices: ArrayLike, weight: ArrayLike, weight_fn: object | None = None) -> Array:
    """
    y = f(T)[indices]; integer indices [B] or a single one, table [N, D]. Out of range gives NaN.
    """

def einsum(equation: str, x: ArrayLike, weight: ArrayLike, weight_fn: object | None = None) -> Array:
    """
    "bi,io->bo": sums of products by letters; the first letter of x and y is the batch.
    """

def sparse_matmul(x: ArrayLike, weight: ArrayLike, pattern: object, bias: ArrayLike | None = None, weight_fn: object | None = None, bias_fn: object | None = None) -> Array:
    """
    y = x·sparse(f(w)) + g(b); x [B, I] or [I], w [nnz] in the order of the pattern [I, O] (SparsePattern or SciPy matrix).
    """

def lora_matmul(x: ArrayLike, b: ArrayLike, a: ArrayLike, bias: ArrayLike | None = None, alpha: float = 1.0, b_fn: object | None = None, a_fn: object | None = None, bias_fn: object | None = None) -> Array:
    """y = alpha·x·f(B)·g(A) + h(bias); B [I, R], A [R, O]."""

def conv(x: ArrayLike, kernel: ArrayLike, bias: ArrayLike | None = None, strides: int | Sequence[int] | None = None, padding: object = 'SAME', lhs_dilation: int | Sequence[int] | None = None, rhs_dilation: int | Sequence[int] | None = None, feature_group_count: int = 1, batch_group_count: int = 1, layout: Sequence[str] = [], kernel_fn: object | None = None, bias_fn: object | None = None) -> Array:
    """
    Cross-correlation, always batched: x [B, C, space…], kernel [out, in, space…], or as the three words of
    layout say ("NHWC", "HWIO", "NHWC"). A bias [C] stands on the channel axis.
    """

class AnchorMap:
    """
    Which output each trace slot of a trainable belongs to, for one sample.

    slots: shape of the slots. y_axes: for each axis of y, the slot axis that gives its index; or table: slot
    (flat) -> position of y (flat). position_axes: slot axes that the parameter does not have.
    A dense weight [I, O] with y [O]: AnchorMap((I, O), y_axes=[1]).
    """

    def __init__(self, slots: int | Sequence[int], y_axes: object | None = None, table: object | None = None, position_axes: object | None = None) -> None: ...

class TraceSource:
    """
    ∂y[anchor]/∂θ[slot] as a product: gain[θ]·values[source of the slot]. axes: for each axis of values (batch
    apart), the slot axis that gives its index.
    """

    def __init__(self, values: ArrayLike | None = None, axes: object | None = None, gain: ArrayLike | None = None) -> None: ...

class Primitive:
    """An operation: call it on arrays; options of its own are keywords."""

    @property
    def name(self) -> str: ...

    @property
    def doc(self) -> str: ...

    @property
    def trainable(self) -> bool:
        """True if weights learn online through it."""

    def __call__(self, *operands, **options) -> Array: ...

    def __repr__(self) -> str: ...

    def __reduce__(self) -> tuple: ...

def register_primitive(name: str, forward: object, *, samples: object, trainable: object | None = None, anchors: object | None = None, source: object | None = None, x_operand: object = 0, batched: bool = False, gradient_enabled: bool = False, params: Sequence[str] = [], doc: str = '') -> Primitive:
    """
    An operator of one's own, for the rest of the program.

    forward(*operands, **options): the function, in terms of et; derivatives, batching and native code follow from it.
    samples: operands (tuples) on which the rules are checked. An operator whose weights learn online has
    trainable: {key: position among the operands}, and anchors(key, shapes of the operands, shape of y) -> et.AnchorMap.
    source(key, *operands) -> et.TraceSource or None: optional, for speed. x_operand: the data (None: there is none).
    batched: operands (but trainable ones) and the result carry a leading batch axis. params: names of options.
    A wrong rule is refused with the slot and the output that disagree (et.CompilationError).
    """

def primitive(name: str) -> Primitive:
    """The operation of that name."""

def primitives() -> list:
    """The names of all operations."""

def _rows() -> dict:
    """
    Of every operation without bodies and weights: whether it is elementwise, and the names of its parameters.
    """

def set_num_threads(n: int) -> None:
    """
    Threads that programs run on, the caller included. Not while a program runs.
    """

def num_threads() -> int: ...

def backends() -> dict:
    """What can run programs: {name: what it is}."""

def default_backend() -> str: ...

def wait_for_compilations() -> None:
    """Returns when all native code that was asked for is compiled."""

class State:
    """
    A value that outlives a step: one array, or a dictionary of named leaves.
    """

    @property
    def value(self) -> Any:
        """
        The value: an array, or a dictionary of the leaves.

        Setting it keeps element types and shapes; a number fills the array. While a step is traced the value is a
        traced one, and reading and setting it are recorded.
        """

    @value.setter
    def value(self, arg: Any, /) -> None: ...

    def __getitem__(self, leaf: str) -> Array: ...

    def __setitem__(self, leaf: str, value: object) -> None: ...

    @property
    def leaf_keys(self) -> list[str]:
        """Names of the leaves; empty for a bare array."""

    @property
    def name(self) -> str:
        """The name in the module that holds it; empty outside of every module."""

    @property
    def kind(self) -> str:
        """The name of its class."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the (first) array."""

    @property
    def dtype(self) -> Dtype:
        """Of the (first) array."""

    def __repr__(self) -> str: ...

    def __reduce__(self) -> tuple: ...

def _restored_state(type: object, first: object, saved: object | None) -> Any: ...

class LongTermState(State):
    """Kept over resets: running statistics, and parameters."""

    def __init__(self, value: object | None, *, dtype: DtypeLike | None = None) -> None: ...

class ParamState(LongTermState):
    """Trainable. A step must not write it."""

    def __init__(self, value: object | None, *, dtype: DtypeLike | None = None) -> None: ...

class RandomState(LongTermState):
    """
    A random key that goes on from step to step and over resets. A step draws with `key.next()`.
    """

    def __init__(self, seed: object = 0) -> None: ...

    def next(self) -> Array:
        """A key of its own for one draw; the state moves on."""

    def seed(self, seed: int) -> None:
        """Begins anew with this seed."""

class ModeState(LongTermState):
    """Whether the model trains or is evaluated."""

class ShortTermState(State):
    """
    Set back to its initial value by init_all_states and reset_all_states: delays, counters. With a batch every
    sample has a copy, along a leading axis, unless `per_sample` is false.
    """

    def __init__(self, init: object | None, *, dtype: DtypeLike | None = None, per_sample: bool = True) -> None: ...

    def init(self, batch_size: int | None = None) -> None:
        """Its initial value, with or without a batch axis."""

    def reset(self) -> None:
        """Back to its initial value, for the batch that it has."""

    @property
    def batch_size(self) -> int | None:
        """Samples; None: it has no batch axis."""

class KeyState(ShortTermState):
    """
    A random key that every reset sets back, so that each sequence has the same noise; RandomState goes on.
    With a batch each sample has a key of its own, unless `per_sample` is false.
    """

    def __init__(self, seed: object = 0, *, per_sample: bool = True) -> None: ...

    def next(self) -> Array:
        """A key of its own for one draw; the state moves on."""

    def seed(self, seed: int) -> None:
        """Begins anew with this seed, and after every reset."""

class HiddenState(ShortTermState):
    """One array that the compiler takes for the network's memory."""

    def __init__(self, init: object | None, *, dtype: DtypeLike | None = None) -> None: ...

class HiddenGroupState(HiddenState):
    """
    Several hidden states of one shape, stacked on the last axis: [*varshape, S].
    """

    def __init__(self, init: object | None, *, dtype: DtypeLike | None = None) -> None: ...

    @property
    def num_state(self) -> int: ...

    @property
    def varshape(self) -> tuple[int, ...]: ...

    def get_value(self, index: int) -> Array: ...

    def set_value(self, index: int, value: ArrayLike) -> None: ...

    def set_values(self, values: Sequence[ArrayLike]) -> None:
        """All of them, in order."""

class HiddenTreeState(HiddenGroupState):
    """The same with a name for each, in the order of the dictionary."""

    def __init__(self, init: dict, *, dtype: DtypeLike | None = None) -> None: ...

    @property
    def names(self) -> list[str]: ...

    @overload
    def get_value(self, name: str) -> Array: ...

    @overload
    def get_value(self, index: int) -> Array: ...

    @overload
    def set_value(self, name: str, value: ArrayLike) -> None: ...

    @overload
    def set_value(self, index: int, value: ArrayLike) -> None: ...

class _Scope:
    def __enter__(self) -> None: ...

    def __exit__(self, *args) -> None: ...

class _ModuleBase:
    """A node of a model: named children, named states, and one time step."""

    def _put(self, name: object, member: object) -> None: ...

    def _detach(self, name: object) -> None: ...

    def _members(self) -> list: ...

    def _states(self, kind: object | None) -> list: ...

    def _place(self) -> list[str]: ...

    def _scope(self) -> _Scope: ...

    def train(self, mode: bool = True) -> None:
        """Training, for the whole tree that the module belongs to."""

    def eval(self) -> None:
        """Evaluating, for the whole tree that the module belongs to."""

    @property
    def is_training(self) -> bool: ...

    @property
    def training(self) -> Array:
        """A truth value for steps: et.where(self.training, a, b)."""

    def __call__(self, *args) -> Any:
        """One step."""

    def update(self, *args) -> Any:
        """One step."""

class _Node(_ModuleBase):
    def __init__(self, type: str) -> None: ...

class _ListNode(_ModuleBase):
    def __init__(self) -> None: ...

class _DictNode(_ModuleBase):
    def __init__(self) -> None: ...

def _init_all_states(module: _ModuleBase, batch_size: int | None) -> None: ...

def _reset_all_states(module: _ModuleBase) -> None: ...

def _is_tracing() -> bool: ...

class ParamValues:
    """
    Gradients, or parameters, by name.

    A mapping: `values["rnn/Wz/weight"]`, or the path as a tuple, is an array or a dictionary of leaves;
    `values["rnn/Wz/weight.bias"]` is one leaf. Two of them can be added and subtracted, and each multiplied by a
    number; `numpy()` gives plain NumPy arrays.
    """

    def __init__(self, leaves: list) -> None: ...

    def __getitem__(self, name: object) -> Any: ...

    def __contains__(self, name: object) -> bool: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator: ...

    def keys(self) -> list[str]: ...

    def values(self) -> list: ...

    def items(self) -> list: ...

    def get(self, name: object, default: object | None = None) -> Any: ...

    def leaves(self) -> dict:
        """One entry per leaf: {'rnn/Wz/weight.bias': array, …}."""

    def numpy(self) -> dict:
        """One NumPy array per leaf, copied."""

    def replace(self, values: object) -> ParamValues:
        """The same with other values, given by name."""

    def __add__(self, arg: ParamValues, /) -> ParamValues: ...

    def __sub__(self, arg: ParamValues, /) -> ParamValues: ...

    def __mul__(self, arg: float, /) -> ParamValues: ...

    def __rmul__(self, arg: float, /) -> ParamValues: ...

    def __truediv__(self, arg: float, /) -> ParamValues: ...

    def __neg__(self) -> ParamValues: ...

    def __repr__(self) -> str: ...

    def __reduce__(self) -> tuple: ...

def _param_values(module: _ModuleBase) -> ParamValues: ...

def _set_param_values(module: _ModuleBase, values: ParamValues) -> None: ...

class _Rule:
    """A learning rule with its options. Immutable."""

    @property
    def name(self) -> str: ...

    def describe(self) -> str: ...

    @property
    def takes_modulator(self) -> bool: ...

    def _config(self) -> str | None: ...

def _rule_rows() -> list: ...

def _find_rule(name: str) -> str: ...

def _make_rule(name: str, options: dict) -> _Rule: ...

class _Config:
    def __init__(self, options: dict) -> None: ...

    def replace(self, options: dict) -> _Config: ...

    def describe(self) -> str: ...

    def options(self) -> dict: ...

    def rule(self) -> _Rule: ...

    def __eq__(self, arg: _Config, /) -> bool: ...  # type: ignore[override]

def _config_options() -> list: ...

def _make_python_rule(rule: object, options: dict) -> _Rule: ...

class _Graph:
    def explain(self, notes: Sequence[str] = []) -> str: ...

    def to_json(self) -> str: ...

    def to_dot(self) -> str: ...

    def to_html(self) -> str: ...

    def _groups(self) -> list: ...

    def _relations(self) -> list: ...

    def _records(self) -> list: ...

    def _report(self, level: int) -> str: ...

    def _weights(self) -> tuple: ...

def _compile_graph(module: _ModuleBase, update: object | None, example: Sequence[ArrayLike], options: dict) -> _Graph: ...

class _Model:
    """
    One traced step of a model: a program whose inputs are known by role and path.
    """

    @property
    def name(self) -> str: ...

    def to_json(self) -> str: ...

    def jaxpr(self) -> str: ...

    def _inputs(self) -> list: ...

def _trace_step(module: _ModuleBase, update: object | None, example: object, name: str = 'model') -> _Model: ...

def _summary(module: _ModuleBase, update: object | None, example: object | None) -> tuple: ...

class Program:
    """A program as a learner runs it."""

    @property
    def name(self) -> str: ...

    def text(self, equations: bool = True) -> str: ...

    def counts(self) -> dict: ...

    def __repr__(self) -> str: ...

class VerifyReport:
    """Gradients of a rule against BPTT, for every parameter and lag."""

    def to_string(self) -> str: ...

    def to_json(self) -> str: ...

    def to_dict(self) -> dict:
        """The same as to_json, read."""

    def to_html(self) -> str:
        """A page that stands alone."""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    def _repr_html_(self) -> str: ...

    def met(self) -> bool:
        """Whether everything that must be exact is."""

    def failures(self) -> list[str]:
        """What is not, in words."""

    @property
    def loss(self) -> float: ...

class RuleComparison:
    """Rules side by side: memory, time, and how close they come to BPTT."""

    def to_string(self) -> str: ...

    def to_json(self) -> str: ...

    def to_dict(self) -> dict:
        """The same as to_json, read."""

    def to_html(self) -> str:
        """A page that stands alone."""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    def _repr_html_(self) -> str: ...

    def to_markdown(self) -> str: ...

def _verify(model: _Model, as_written: _Model | None, rule: _Rule, sequences: Sequence[ArrayLike], step: _Function, function: object, options: dict, python_rules: list) -> VerifyReport: ...

def _compare_rules(draws: list, rules: list, step: _Function, function: object, on_row: object | None, options: dict, python_rules: list) -> RuleComparison: ...

def _call_model(args: object) -> list: ...

class SingleStepData:
    """An argument that is the same at every step of a call."""

    def __init__(self, value: ArrayLike) -> None: ...

    @property
    def value(self) -> Array: ...

class MultiStepData:
    """An argument with one value per step: its first axis is time."""

    def __init__(self, value: ArrayLike) -> None: ...

    @property
    def value(self) -> Array: ...

class _ModulatorOver:
    pass

class PerSample(_ModulatorOver):
    """A modulator with one number per sample, [B]."""

    def __init__(self, value: object) -> None: ...

class PerNeuron(_ModulatorOver):
    """
    A modulator with one number per neuron: the shape of the group without the batch.
    """

    def __init__(self, value: object) -> None: ...

class _Function:
    @staticmethod
    def of_steps() -> _Function: ...

    @staticmethod
    def of_loss(windows: bool, per_sample: bool) -> _Function: ...

class _Learner:
    @overload
    def __init__(self, module: _ModuleBase, update: object | None, rule: _Rule, example: Sequence[ArrayLike], options: dict, python_rule: object | None) -> None: ...

    @overload
    def __init__(self, model: _Model, rule: _Rule, options: dict, python_rule: object | None) -> None: ...

    def _grad(self, sequences: object, step: _Function, function: object, options: dict, progress: object | None) -> tuple: ...

    def _grad_again(self, sequences: object, step: _Function, function: object, n: int) -> None: ...

    def _train(self, sequences: object, step: _Function, function: object, optimizer: _optim.Optimizer, options: dict, progress: object | None) -> tuple: ...

    def _evolve(self, sequences: object, mask: object | None, freeze: bool, progress: object | None) -> list: ...

    def _update(self, args: object) -> list: ...

    def _fit(self, sequences: object, step: _Function, function: object, options: dict, optimizer: _optim.Optimizer | None) -> list[float]: ...

    def solve(self, signals: object) -> ParamValues:
        """
        Gradients for learning signals ∂L/∂h that come from elsewhere: one array [*varshape, S] per group. They are those of the traces: a parameter without one, such as a readout, is not among them, since the signals do not say what the loss is. Add them to a gradient of that loss; by themselves they leave such a parameter as it is.
        """

    def set_modulator(self, modulator: object) -> None:
        """
        The third factor where a call gives none, for rules that take one (ThreeFactor): a number, an array of the shape
        of the states, or {group: value} with one per group, of which et.PerSample(m) has [B] and et.PerNeuron(m)
        the neurons without the batch. A group has the name of one of its states or of the module that holds it.
        """

    @property
    def rule_param_names(self) -> list[str]:
        """Names of the rule's own parameters: fixed feedback, an estimator."""

    def rule_param(self, name: str) -> Array:
        """A parameter of the rule's own: 'group0/feedback'."""

    def set_rule_param(self, name: str, value: object) -> None:
        """Sets a parameter of the rule's own."""

    def reset_state(self) -> None:
        """
        Traces and counters to zero; hidden states stay. reset_model_state() is the other half.
        """

    def reset_model_state(self) -> None:
        """Short-term states to their initial values; traces stay."""

    def _get_etrace_of(self, arg: Any, /) -> list: ...

    def _etraces(self) -> list: ...

    def sync(self) -> None:
        """
        Model and optimiser get their newest values now, not when they are asked for them.
        """

    @property
    def skipped(self) -> int:
        """
        Steps, windows and updates that would not have been finite and changed nothing.
        """

    @property
    def running_index(self) -> int:
        """Calls so far: steps, or windows of a multi-step learner."""

    @property
    def age(self) -> int:
        """Steps that the traces have seen."""

    @property
    def trace_bytes(self) -> int:
        """Memory of all traces."""

    @property
    def fingerprint(self) -> str:
        """Of program, rule and traces: a checkpoint fits where it is the same."""

    @property
    def execution(self) -> str:
        """How sequences run, and why."""

    @property
    def backend(self) -> str:
        """What runs the programs: 'auto', 'native' …"""

    @property
    def vjp_method(self) -> str:
        """'single-step' or 'multi-step'."""

    def describe(self) -> str:
        """The rule with its options, and the method: 'D_RTRL, single-step'."""

    @property
    def params(self) -> ParamValues:
        """All parameters that the step uses, by name."""

    @params.setter
    def params(self, arg: Any, /) -> None: ...

    @property
    def state_names(self) -> list[str]:
        """Paths of all states that are carried from step to step."""

    def get_state(self, path: object) -> Array:
        """The newest value of a state, by its path."""

    def set_state(self, path: object, value: object) -> None:
        """Sets a state, by its path."""

    def step(self, x: object | None, target: object | None = None) -> StepResult:
        """
        One step, on buffers that are bound once.

        With a target there are loss and gradient or, if bind_step() was given an optimiser, the update. `x` is the
        argument of the model, or a tuple of its arguments. What comes back has `loss`, `results` and `grads`; reading
        `results` or `grads` copies them, and the next step overwrites what was not read.
        """

    def _bind_step(self, loss: object, optimizer: _optim.Optimizer | None) -> None: ...

    def _seconds_of_steps(self, x: object, target: object | None, n: int) -> float: ...

    def prepare(self, target: object | None = None) -> None:
        """
        Makes the programs of step(x) and, with an example target, of step(x, target), and runs nothing.
        """

    def save(self, path: object, optimizer: _optim.Optimizer | None = None, notes: object | None = None) -> None:
        """
        A checkpoint: parameters, states, traces, counters, the optimiser's state, and texts of your own.
        """

    def load(self, path: object, optimizer: _optim.Optimizer | None = None) -> dict:
        """
        Goes on from a checkpoint; everything is checked first, and nothing is changed if it does not fit.
        """

    def checkpoint(self, optimizer: _optim.Optimizer | None = None, notes: object | None = None) -> tuple:
        """The same in memory: (arrays by name, texts)."""

    def restore(self, checkpoint: object, optimizer: _optim.Optimizer | None = None) -> dict:
        """Goes on from what checkpoint() has given, and returns its texts."""

    @property
    def _graph(self) -> _Graph: ...

    def _plan(self, slices: list, step: _Function, function: object, optimizer: _optim.Optimizer | None) -> list[Program]: ...

    def compiled(self) -> list[Program]:
        """
        The programs that were compiled for sequences until now, the newest first.
        """

class StepResult:
    """What a step of Learner.step gave. The next step overwrites it."""

    @property
    def loss(self) -> float:
        """NaN without a target."""

    @property
    def results(self) -> tuple:
        """The results of the model, a tuple of arrays."""

    @property
    def result(self) -> Array:
        """The first result."""

    @property
    def grads(self) -> ParamValues:
        """With a target and no optimiser: the gradients of this step."""

    def __repr__(self) -> str: ...

def save_safetensors(path: object, tensors: object, metadata: object | None = None) -> None:
    """
    Arrays by name as a safetensors file; the old one is replaced as a whole.
    """

def load_safetensors(path: object) -> tuple:
    """(arrays by name, metadata)"""

def save_npz(path: object, tensors: object) -> None: ...

def load_npz(path: object) -> dict[str, Array]: ...

def _save_parameters(module: _ModuleBase, path: object) -> None: ...

def _load_parameters(module: _ModuleBase, path: object) -> None: ...

def _read_model(path: object) -> _Model:
    """A model file: one traced step."""

def _write_model(model: _Model, path: object) -> None: ...

def _make_layer(name: str, args: tuple, options: dict) -> _ModuleBase: ...

def _layer_rows() -> list: ...

def _layer_name(node: _ModuleBase) -> Any: ...

def _layer_call(node: _ModuleBase, args: tuple) -> Any: ...

def _layer_update(node: _ModuleBase, args: tuple) -> Any: ...

def _layer_member(node: _ModuleBase, name: str) -> Any: ...

def _neuron_spikes(node: _ModuleBase) -> Array: ...

def _neuron_step(node: _ModuleBase, fired: ArrayLike, input: object | None) -> Array: ...

def _lif_after_reset(node: _ModuleBase, fired: ArrayLike) -> Array: ...

def _dynamics_size(node: _ModuleBase) -> tuple[int, ...]: ...

def _dynamics_dt(node: _ModuleBase) -> float: ...

def _dynamics_unit(node: _ModuleBase) -> Unit: ...

def _weight_unit(node: _ModuleBase) -> Unit: ...

def _conv_out_size(node: _ModuleBase) -> tuple[int, ...]: ...

def _spike(x: ArrayLike, surrogate: object = 'relu_grad') -> Array:
    """H(x) = 1 where x ≥ 0, else 0, with the derivative s(x) of a surrogate."""

class TaskBatch:
    """
    inputs [steps, batch, num_inputs]; targets: labels i32 [steps, batch], or numbers [steps, batch,
    num_outputs]; mask [steps], 1 where a step is scored. `inputs, targets, mask = batch`.
    """

    @property
    def inputs(self) -> Array:
        """[steps, batch, num_inputs]."""

    @property
    def targets(self) -> Array:
        """Labels [steps, batch], or numbers [steps, batch, num_outputs]."""

    @property
    def mask(self) -> Array:
        """[steps], 1 where a step is scored."""

    def __iter__(self) -> Iterator: ...

class Task:
    """
    A seeded stream of batches: batch i is a function of the options, i and the batch size.
    """

    @property
    def name(self) -> str:
        """As in et.tasks."""

    @property
    def num_inputs(self) -> int:
        """Numbers per step and sample."""

    @property
    def num_outputs(self) -> int:
        """What a model has to give per step and sample: classes, or numbers."""

    @property
    def steps(self) -> int:
        """The length of a sequence."""

    @property
    def loss(self) -> str:
        """The name of its loss in et.loss."""

    @property
    def seed(self) -> int:
        """From which the batches follow."""

    @property
    def dtype(self) -> Dtype:
        """The type of the inputs."""

    def batch(self, index: object, batch_size: object) -> TaskBatch:
        """The batch of this number: always the same one."""

    def __repr__(self) -> str: ...

def _make_task(name: str, settings: dict, dtype: DtypeLike | None, seed: object) -> Task: ...

def _task_rows() -> list: ...

def _task_accuracy(outputs: ArrayLike, batch: TaskBatch) -> float: ...

def _make_model(name: str, sizes: object | None, batch: object | None, dtype: DtypeLike | None, seed: object) -> tuple: ...

def _model_rows() -> list: ...

def _train(items: list, objects: dict, told: object) -> dict: ...

def _resume(folder: str, changes: list, objects: dict, told: object) -> dict: ...

def _evaluate_run(folder: str, part: str, batches: int, backend: str, objects: dict) -> dict: ...

def _predict_run(folder: str, data: object, backend: str, labelled: bool) -> tuple: ...

def _write_comparison(folder: str, task: str, model: str, groups: list) -> tuple: ...

def _run_options() -> list[str]: ...

def _list_runs(folder: str) -> tuple: ...

class _Data:
    def __len__(self) -> int: ...

    def series(self, index: object) -> Array: ...

    def padded(self) -> Array: ...

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def channels(self) -> int: ...

    @property
    def channel_names(self) -> list[str]: ...

    @property
    def classes(self) -> list[str]: ...

    @property
    def notes(self) -> list[str]: ...

    @property
    def files(self) -> list: ...

    @property
    def lengths(self) -> list: ...

    @property
    def labels(self) -> list: ...

    @property
    def groups(self) -> list: ...

    @property
    def names(self) -> list: ...

    @property
    def parts(self) -> list: ...

    def describe(self) -> str: ...

def _load_data(path: str, format: str, options: dict) -> _Data: ...

def _reader_rows() -> list: ...

def _known_data() -> list: ...

def _read_model_text(json: str, name: str) -> _Model: ...

def _model_inputs(model: _Model) -> list:
    """(role, index, path, leaf key, type, initial value) of every input."""

def _model_outputs(model: _Model) -> list:
    """(role, index, path, leaf key) of every output."""

def _model_apply(model: _Model, values: object) -> list:
    """The program, on a list of values."""
