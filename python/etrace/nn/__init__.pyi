"""Written by tools/python_stubs.py; do not edit."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from .. import Array, Module, Quantity, SparsePattern, State, Unit
from .._core import ArrayLike, DtypeLike
from .._core._init import Initializer
from .._core._nn import *
from .._core._nn import Learned
from .._core._surrogate import Surrogate
from .._containers import ModuleDict as ModuleDict, ModuleList as ModuleList, Sequential as Sequential
from . import connect as connect, init as init, surrogate as surrogate
from ._containers import AlignPost as AlignPost, AlignPre as AlignPre, Lambda as Lambda
from ._containers import Parallel as Parallel, Residual as Residual
from ._layer import Dynamics as Dynamics, Layer as Layer, Neuron as Neuron, WeightLayer as WeightLayer

InitLike = Initializer | str | float | ArrayLike | Callable[[Array, tuple[int, ...], Any], ArrayLike] | None
ConstantLike = float | ArrayLike | Quantity | Learned

def spike(x: ArrayLike, surrogate: Surrogate | str | Callable[[Array], ArrayLike] = ...) -> Array: ...

from .._core import elu as elu
from .._core import gelu as gelu
from .._core import hard_sigmoid as hard_sigmoid
from .._core import leaky_relu as leaky_relu
from .._core import log_softmax as log_softmax
from .._core import relu as relu
from .._core import sigmoid as sigmoid
from .._core import silu as silu
from .._core import softmax as softmax
from .._core import softplus as softplus
from .._core import tanh as tanh

class Linear(WeightLayer):
    """y = x·W + b

    One parameter `weight` with the leaves bias [out] and weight [in, out]. x is [in] or [batch, in]; more
    leading axes are folded into one and restored.

    Options:
        weight_init = init.kaiming_normal()
        bias_init = init.zeros()  None: no bias
        mask = None  fixed factor of W, broadcast to [in, out]; None: none
        unit = None  of W
        dtype = 'float32'
        seed = 0"""
    def __init__(self, in_size: int, out_size: int, *, weight_init: InitLike = ..., bias_init: InitLike = ..., mask: ArrayLike | None = ..., unit: Unit | None = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class AllToAll(WeightLayer):
    """y = x·W + b, without the diagonal of W unless `include_self`; with one weight for all: y_j = w·Σ_{i (≠ j)}
    x_i

    Every input to every output. One parameter `weight` with the leaves bias [out] and weight [in, out] or [1].

    Options:
        weight_init = init.kaiming_normal()
        bias_init = None  None: no bias
        include_self = True  false: neurons i and i are not connected
        one_weight = False  one number for all connections; weight_init draws a vector of length 1
        unit = None  of W
        dtype = 'float32'
        seed = 0"""
    def __init__(self, in_size: int, out_size: int, *, weight_init: InitLike = ..., bias_init: InitLike = ..., include_self: bool = ..., one_weight: bool = ..., unit: Unit | None = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class OneToOne(WeightLayer):
    """y = x ⊙ w + b

    Every input to the output of its number. One parameter `weight` with the leaves bias and weight of the size
    of one sample, which may have several axes.

    Options:
        weight_init = init.normal()
        bias_init = None  None: no bias
        unit = None  of w
        dtype = 'float32'
        seed = 0"""
    def __init__(self, size: int | Sequence[int], *, weight_init: InitLike = ..., bias_init: InitLike = ..., unit: Unit | None = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class GroupedLinear(WeightLayer):
    """y[…, g, :] = x[…, g, :]·W[g] + b[g]

    Several Linear layers side by side; a trace smaller by the number of groups than that of the dense layer.
    One parameter `weight` with the leaves bias [groups, out] and weight [groups, in, out]. x is [groups, in]
    or [batch, groups, in]; more leading axes are folded.

    Options:
        weight_init = init.kaiming_normal(init.'normal')  One weight [in, out] per group: a group's fan is that of its own matrix.
        bias_init = init.zeros()  None: no bias
        unit = None  of W
        dtype = 'float32'
        seed = 0"""
    def __init__(self, groups: int, in_size: int, out_size: int, *, weight_init: InitLike = ..., bias_init: InitLike = ..., unit: Unit | None = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class SignedWLinear(WeightLayer):
    """y = x·(|W| ⊙ sign)

    Weights that keep their sign. Parameter `weight` [in, out], a bare array; no bias. The derivative of |W| at
    0 is 0.

    Options:
        weight_init = init.kaiming_normal()
        sign = None  broadcast to [in, out]; None: +1 everywhere. A column [in, 1] of ±1 is Dale's law
        unit = None  of W
        dtype = 'float32'
        seed = 0"""
    def __init__(self, in_size: int, out_size: int, *, weight_init: InitLike = ..., sign: ArrayLike | None = ..., unit: Unit | None = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class ScaledWSLinear(Layer):
    """y = (x·(ŵ ⊙ mask)) ⊙ gain + b    ŵ: the weights standardised per output


    One parameter `weight` with the leaves bias [out], gain [1, out] (at first 1) and weight [in, out]. Gain
    and bias are learned online too.

    Options:
        weight_init = init.kaiming_normal()
        bias_init = init.zeros()  None: no bias
        mask = None  fixed factor of ŵ, broadcast to [in, out]; None: none
        gain = True
        epsilon = 0.0001
        dtype = 'float32'
        seed = 0"""
    def __init__(self, in_size: int, out_size: int, *, weight_init: InitLike = ..., bias_init: InitLike = ..., mask: ArrayLike | None = ..., gain: bool = ..., epsilon: float = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class SparseLinear(WeightLayer):
    """y = x·sparse(w) + b, or sparse(|w| ⊙ sign)

    Weights at fixed places [in, out] only; et.nn.connect draws such patterns. One parameter `weight`
    with the leaves bias [out] and weight [nnz], in the pattern's order.

    Options:
        weight_init = None  Of the stored weights [nnz]; None: normal with variance 2 / mean number of inputs of an output.
        bias_init = None  None: no bias
        sign = None  per stored weight; None: weights of either sign
        unit = None  of w
        dtype = 'float32'
        seed = 0"""
    def __init__(self, pattern: SparsePattern | Any, *, weight_init: InitLike = ..., bias_init: InitLike = ..., sign: ArrayLike | None = ..., unit: Unit | None = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class DelayedLinear(WeightLayer):
    """y(t) = x(t − d), zeros before the first step; d is the same for all, or one per entry

    y_j(t) = Σ_i w_ij·x_i(t − d_ij) + b_j: a delay per synapse. `delays` has one entry per entry of the
    pattern. The weights come after the delay, so their own credit is that of a Linear, whatever keeps the
    past; memory='hidden' is for credit of what x comes from; x are numbers, as spikes are. One parameter
    `weight` with the leaves bias [out] and weight [nnz], in the pattern's order.

    Options:
        dt = 1.0
        memory = 'ring'
        weight_init = None  of the stored weights [nnz]; None: normal, variance 2/mean number of inputs
        bias_init = None  None: no bias
        unit = None  of the weights
        dtype = 'float32'
        seed = 0"""
    def __init__(self, pattern: SparsePattern, delays: ConstantLike, *, dt: ConstantLike = ..., memory: Literal['ring', 'hidden'] = ..., weight_init: InitLike = ..., bias_init: InitLike = ..., unit: Unit | None = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class LoRA(WeightLayer):
    """y = (1/R)·x·A·B (+ base(x))    A [in, R] = lora_a, B [R, out] = lora_b

    A weight of low rank, alone or beside another layer. One parameter `weight` with the leaves lora_a and
    lora_b. (The operator beneath, lora_matmul, calls the factor at the input B and the other A.)

    Options:
        factor_init = init.lecun_normal()  of both factors
        unit = None  of A·B
        dtype = 'float32'
        seed = 0"""
    def __init__(self, in_size: int, rank: int, out_size: int, *, factor_init: InitLike = ..., unit: Unit | None = ..., dtype: DtypeLike = ..., seed: int = ..., base_module: Module | None = ...) -> None: ...
class Embedding(WeightLayer):
    """y = T[x]

    A row of a table per whole number x. Parameter `weight` [rows, features], a bare array. x is one index or
    [batch]; more axes are folded and restored. Negative indices count from the end, others out of range give
    NaN.

    Options:
        weight_init = init.lecun_uniform()
        unit = None  of T
        dtype = 'float32'
        seed = 0"""
    def __init__(self, num_embeddings: int, features: int, *, weight_init: InitLike = ..., unit: Unit | None = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class Conv(WeightLayer):
    """y[b, s, k] = Σ_{u,c} x[b, s·stride + u·dilation, c]·K[u, c, k] + bias[k]    in 1 to 3 dimensions of space

    One parameter `weight` with the leaves bias [1, …, 1, out] ([out, 1, …, 1] with channels first) and weight
    [kernel…, in/groups, out], or in the order of the layout. x is one sample or a batch of them.

    Options:
        strides = 1  one per axis of space, or one for all; so are the dilations
        padding = 'SAME'
        dilation = 1  of the kernel
        input_dilation = 1  of x: zeros between its entries; needs padding by numbers
        groups = 1  of channels that see only each other
        weight_init = init.xavier_normal()
        bias_init = None  None: no bias
        mask = None  fixed factor of K, broadcast to it; None: none
        standardize = False  K standardised per output channel
        channel_first = False  samples are [channels, space…] instead of [space…, channels]
        layout = None  Any other order: x, kernel and y by letters, such as {"NCHW", "HWIO", "NHWC"}, the batch in front. Sizes of samples then follow the letters of x; kernel sizes, strides, dilations and padding those of the kernel.
        unit = None  of K
        dtype = 'float32'
        seed = 0"""
    def __init__(self, in_size: int | Sequence[int], out_channels: int, kernel_size: int | Sequence[int], *, strides: int | Sequence[int] = ..., padding: str | int | Sequence[int | tuple[int, int]] = ..., dilation: int | Sequence[int] = ..., input_dilation: int | Sequence[int] = ..., groups: int = ..., weight_init: InitLike = ..., bias_init: InitLike = ..., mask: ArrayLike | None = ..., standardize: bool = ..., channel_first: bool = ..., layout: Sequence[str] = ..., unit: Unit | None = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class Conv1d(Conv):
    """y[b, s, k] = Σ_{u,c} x[b, s·stride + u·dilation, c]·K[u, c, k] + bias[k]    in 1 to 3 dimensions of space

    Options:
        strides = 1  one per axis of space, or one for all; so are the dilations
        padding = 'SAME'
        dilation = 1  of the kernel
        input_dilation = 1  of x: zeros between its entries; needs padding by numbers
        groups = 1  of channels that see only each other
        weight_init = init.xavier_normal()
        bias_init = None  None: no bias
        mask = None  fixed factor of K, broadcast to it; None: none
        standardize = False  K standardised per output channel
        channel_first = False  samples are [channels, space…] instead of [space…, channels]
        layout = None  Any other order: x, kernel and y by letters, such as {"NCHW", "HWIO", "NHWC"}, the batch in front. Sizes of samples then follow the letters of x; kernel sizes, strides, dilations and padding those of the kernel.
        unit = None  of K
        dtype = 'float32'
        seed = 0"""
    def __init__(self, in_size: int | Sequence[int], out_channels: int, kernel_size: int | Sequence[int], *, strides: int | Sequence[int] = ..., padding: str | int | Sequence[int | tuple[int, int]] = ..., dilation: int | Sequence[int] = ..., input_dilation: int | Sequence[int] = ..., groups: int = ..., weight_init: InitLike = ..., bias_init: InitLike = ..., mask: ArrayLike | None = ..., standardize: bool = ..., channel_first: bool = ..., layout: Sequence[str] = ..., unit: Unit | None = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class Conv2d(Conv):
    """y[b, s, k] = Σ_{u,c} x[b, s·stride + u·dilation, c]·K[u, c, k] + bias[k]    in 1 to 3 dimensions of space

    Options:
        strides = 1  one per axis of space, or one for all; so are the dilations
        padding = 'SAME'
        dilation = 1  of the kernel
        input_dilation = 1  of x: zeros between its entries; needs padding by numbers
        groups = 1  of channels that see only each other
        weight_init = init.xavier_normal()
        bias_init = None  None: no bias
        mask = None  fixed factor of K, broadcast to it; None: none
        standardize = False  K standardised per output channel
        channel_first = False  samples are [channels, space…] instead of [space…, channels]
        layout = None  Any other order: x, kernel and y by letters, such as {"NCHW", "HWIO", "NHWC"}, the batch in front. Sizes of samples then follow the letters of x; kernel sizes, strides, dilations and padding those of the kernel.
        unit = None  of K
        dtype = 'float32'
        seed = 0"""
    def __init__(self, in_size: int | Sequence[int], out_channels: int, kernel_size: int | Sequence[int], *, strides: int | Sequence[int] = ..., padding: str | int | Sequence[int | tuple[int, int]] = ..., dilation: int | Sequence[int] = ..., input_dilation: int | Sequence[int] = ..., groups: int = ..., weight_init: InitLike = ..., bias_init: InitLike = ..., mask: ArrayLike | None = ..., standardize: bool = ..., channel_first: bool = ..., layout: Sequence[str] = ..., unit: Unit | None = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class Conv3d(Conv):
    """y[b, s, k] = Σ_{u,c} x[b, s·stride + u·dilation, c]·K[u, c, k] + bias[k]    in 1 to 3 dimensions of space

    Options:
        strides = 1  one per axis of space, or one for all; so are the dilations
        padding = 'SAME'
        dilation = 1  of the kernel
        input_dilation = 1  of x: zeros between its entries; needs padding by numbers
        groups = 1  of channels that see only each other
        weight_init = init.xavier_normal()
        bias_init = None  None: no bias
        mask = None  fixed factor of K, broadcast to it; None: none
        standardize = False  K standardised per output channel
        channel_first = False  samples are [channels, space…] instead of [space…, channels]
        layout = None  Any other order: x, kernel and y by letters, such as {"NCHW", "HWIO", "NHWC"}, the batch in front. Sizes of samples then follow the letters of x; kernel sizes, strides, dilations and padding those of the kernel.
        unit = None  of K
        dtype = 'float32'
        seed = 0"""
    def __init__(self, in_size: int | Sequence[int], out_channels: int, kernel_size: int | Sequence[int], *, strides: int | Sequence[int] = ..., padding: str | int | Sequence[int | tuple[int, int]] = ..., dilation: int | Sequence[int] = ..., input_dilation: int | Sequence[int] = ..., groups: int = ..., weight_init: InitLike = ..., bias_init: InitLike = ..., mask: ArrayLike | None = ..., standardize: bool = ..., channel_first: bool = ..., layout: Sequence[str] = ..., unit: Unit | None = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class AvgPool1d(Layer):
    """Pooling over windows of space, in 1 to 3 dimensions.
      AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative
      AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is
      [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)

    Options:
        strides = ()  one per axis of space, or one for all; None: the window
        padding = None  Entries added before and after; one pair per axis, or one for all. Added entries never are the maximum.
        count_padding = False  means: added entries count as zeros; false: they do not count
        channel_first = False  a sample is [channels, space…] instead of [space…, channels]"""
    def __init__(self, window: int | Sequence[int], *, strides: int | Sequence[int] = ..., padding: int | Sequence[int | tuple[int, int]] = ..., count_padding: bool = ..., channel_first: bool = ...) -> None: ...
class AvgPool2d(Layer):
    """Pooling over windows of space, in 1 to 3 dimensions.
      AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative
      AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is
      [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)

    Options:
        strides = ()  one per axis of space, or one for all; None: the window
        padding = None  Entries added before and after; one pair per axis, or one for all. Added entries never are the maximum.
        count_padding = False  means: added entries count as zeros; false: they do not count
        channel_first = False  a sample is [channels, space…] instead of [space…, channels]"""
    def __init__(self, window: int | Sequence[int], *, strides: int | Sequence[int] = ..., padding: int | Sequence[int | tuple[int, int]] = ..., count_padding: bool = ..., channel_first: bool = ...) -> None: ...
class AvgPool3d(Layer):
    """Pooling over windows of space, in 1 to 3 dimensions.
      AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative
      AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is
      [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)

    Options:
        strides = ()  one per axis of space, or one for all; None: the window
        padding = None  Entries added before and after; one pair per axis, or one for all. Added entries never are the maximum.
        count_padding = False  means: added entries count as zeros; false: they do not count
        channel_first = False  a sample is [channels, space…] instead of [space…, channels]"""
    def __init__(self, window: int | Sequence[int], *, strides: int | Sequence[int] = ..., padding: int | Sequence[int | tuple[int, int]] = ..., count_padding: bool = ..., channel_first: bool = ...) -> None: ...
class MaxPool1d(Layer):
    """Pooling over windows of space, in 1 to 3 dimensions.
      AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative
      AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is
      [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)

    Options:
        strides = ()  one per axis of space, or one for all; None: the window
        padding = None  Entries added before and after; one pair per axis, or one for all. Added entries never are the maximum.
        count_padding = False  means: added entries count as zeros; false: they do not count
        channel_first = False  a sample is [channels, space…] instead of [space…, channels]"""
    def __init__(self, window: int | Sequence[int], *, strides: int | Sequence[int] = ..., padding: int | Sequence[int | tuple[int, int]] = ..., count_padding: bool = ..., channel_first: bool = ...) -> None: ...
class MaxPool2d(Layer):
    """Pooling over windows of space, in 1 to 3 dimensions.
      AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative
      AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is
      [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)

    Options:
        strides = ()  one per axis of space, or one for all; None: the window
        padding = None  Entries added before and after; one pair per axis, or one for all. Added entries never are the maximum.
        count_padding = False  means: added entries count as zeros; false: they do not count
        channel_first = False  a sample is [channels, space…] instead of [space…, channels]"""
    def __init__(self, window: int | Sequence[int], *, strides: int | Sequence[int] = ..., padding: int | Sequence[int | tuple[int, int]] = ..., count_padding: bool = ..., channel_first: bool = ...) -> None: ...
class MaxPool3d(Layer):
    """Pooling over windows of space, in 1 to 3 dimensions.
      AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative
      AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is
      [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)

    Options:
        strides = ()  one per axis of space, or one for all; None: the window
        padding = None  Entries added before and after; one pair per axis, or one for all. Added entries never are the maximum.
        count_padding = False  means: added entries count as zeros; false: they do not count
        channel_first = False  a sample is [channels, space…] instead of [space…, channels]"""
    def __init__(self, window: int | Sequence[int], *, strides: int | Sequence[int] = ..., padding: int | Sequence[int | tuple[int, int]] = ..., count_padding: bool = ..., channel_first: bool = ...) -> None: ...
class AdaptiveAvgPool1d(Layer):
    """Pooling over windows of space, in 1 to 3 dimensions.
    AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative
    AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is
    [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)"""
    def __init__(self, out_size: int | Sequence[int], channel_first: bool = ...) -> None: ...
class AdaptiveAvgPool2d(Layer):
    """Pooling over windows of space, in 1 to 3 dimensions.
    AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative
    AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is
    [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)"""
    def __init__(self, out_size: int | Sequence[int], channel_first: bool = ...) -> None: ...
class AdaptiveAvgPool3d(Layer):
    """Pooling over windows of space, in 1 to 3 dimensions.
    AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative
    AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is
    [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)"""
    def __init__(self, out_size: int | Sequence[int], channel_first: bool = ...) -> None: ...
class AdaptiveMaxPool1d(Layer):
    """Pooling over windows of space, in 1 to 3 dimensions.
    AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative
    AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is
    [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)"""
    def __init__(self, out_size: int | Sequence[int], channel_first: bool = ...) -> None: ...
class AdaptiveMaxPool2d(Layer):
    """Pooling over windows of space, in 1 to 3 dimensions.
    AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative
    AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is
    [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)"""
    def __init__(self, out_size: int | Sequence[int], channel_first: bool = ...) -> None: ...
class AdaptiveMaxPool3d(Layer):
    """Pooling over windows of space, in 1 to 3 dimensions.
    AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative
    AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is
    [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)"""
    def __init__(self, out_size: int | Sequence[int], channel_first: bool = ...) -> None: ...
class LayerNorm(Layer):
    """y = (x − μ)/√(v + ε) ⊙ scale + bias    μ, v: mean and variance over the last axes of a sample

    One parameter `weight` with the leaves bias and scale of the shape of the last axes; both are learned
    online where they reach a hidden state. The variance takes two passes: in one, E[x²] − μ², rounding leaves
    a rest that recurrences amplify.

    Options:
        axes = 1  so many of the last ones
        epsilon = 1e-06
        scale = True
        bias = True
        dtype = 'float32'"""
    def __init__(self, in_size: int | Sequence[int], *, axes: int = ..., epsilon: float = ..., scale: bool = ..., bias: bool = ..., dtype: DtypeLike = ...) -> None: ...
class RMSNorm(Layer):
    """y = x/√(mean(x²) + ε) ⊙ scale    over the last axes of a sample

    One parameter `weight` with the leaf scale; the option bias is not used.

    Options:
        axes = 1  so many of the last ones
        epsilon = 1e-06
        scale = True
        bias = True
        dtype = 'float32'"""
    def __init__(self, in_size: int | Sequence[int], *, axes: int = ..., epsilon: float = ..., scale: bool = ..., bias: bool = ..., dtype: DtypeLike = ...) -> None: ...
class GroupNorm(Layer):
    """y = (x − μ)/√(v + ε) ⊙ scale + bias    μ, v: over space and the channels of one group

    Neighbouring channels form a group. One parameter `weight` with the leaves bias and scale [channels]. x is
    one sample or a batch of them.

    Options:
        groups = 32
        epsilon = 1e-06
        scale = True
        bias = True
        channel_first = False  a sample is [channels, space…] instead of [space…, channels]
        dtype = 'float32'"""
    def __init__(self, in_size: int | Sequence[int], *, groups: int = ..., epsilon: float = ..., scale: bool = ..., bias: bool = ..., channel_first: bool = ..., dtype: DtypeLike = ...) -> None: ...
class BatchNorm(Layer):
    """y = (x − μ)/√(v + ε) ⊙ scale + bias    μ, v: over batch and space; while evaluating, their running averages

    Samples have 0 to 3 axes of space; x must have a batch axis. One parameter `weight` with the leaves bias
    and scale [channels]; running_mean and running_variance [channels] are kept over resets. While the model
    trains (model.train()) the batch counts and the running averages follow it.

    Options:
        momentum = 0.99  running ← momentum·running + (1 − momentum)·that of the batch
        epsilon = 1e-05
        scale = True
        bias = True
        channel_first = False  a sample is [channels, space…] instead of [space…, channels]
        dtype = 'float32'"""
    def __init__(self, in_size: int | Sequence[int], *, momentum: float = ..., epsilon: float = ..., scale: bool = ..., bias: bool = ..., channel_first: bool = ..., dtype: DtypeLike = ...) -> None: ...
class PReLU(Layer):
    """y = x where x ≥ 0, else a·x

    relu with a slope that is learned, also online. Parameter `slope` [1] or [features].

    Options:
        slope = 0.25  at first
        per_feature = False  one slope per entry of the last axis; false: one for all
        dtype = 'float32'"""
    def __init__(self, in_size: int | Sequence[int], *, slope: float = ..., per_feature: bool = ..., dtype: DtypeLike = ...) -> None: ...
class Dropout(Layer):
    """y = x ⊙ m/p    m = 1 with probability p, else 0; drawn anew at every step

    Active while the model trains (model.train()); y = x while it is evaluated. The random key `key` goes on
    over resets.

    Options:
        keep = 0.5  p, the probability with which an entry is kept
        seed = 0"""
    def __init__(self, *, keep: float = ..., seed: int = ...) -> None: ...
class Flatten(Layer):
    """Flatten: […, a, b, c] -> […, a·b·c]     Unflatten: […, a·b·c] -> […, a, b, c]

    All axes of a sample into one. The sample's sizes are said, so that the batch is never guessed."""
    def __init__(self, in_size: int | Sequence[int]) -> None: ...
class Unflatten(Layer):
    """Flatten: […, a, b, c] -> […, a·b·c]     Unflatten: […, a·b·c] -> […, a, b, c]

    The last axis into several."""
    def __init__(self, out_size: int | Sequence[int]) -> None: ...
class Identity(Layer):
    """The activation Identity as a layer."""
    def __init__(self) -> None: ...
class CELU(Layer):
    """The activation CELU as a layer."""
    def __init__(self, alpha: float = ...) -> None: ...
class ELU(Layer):
    """The activation ELU as a layer."""
    def __init__(self, alpha: float = ...) -> None: ...
class GELU(Layer):
    """The activation GELU as a layer."""
    def __init__(self, approximate: bool = ...) -> None: ...
class GLU(Layer):
    """The activation GLU as a layer."""
    def __init__(self, axis: int = ...) -> None: ...
class HardShrink(Layer):
    """The activation HardShrink as a layer."""
    def __init__(self, bound: float = ...) -> None: ...
class HardSigmoid(Layer):
    """The activation HardSigmoid as a layer."""
    def __init__(self) -> None: ...
class HardSiLU(Layer):
    """The activation HardSiLU as a layer."""
    def __init__(self) -> None: ...
class HardTanh(Layer):
    """The activation HardTanh as a layer."""
    def __init__(self, low: float = ..., high: float = ...) -> None: ...
class LeakyReLU(Layer):
    """The activation LeakyReLU as a layer."""
    def __init__(self, slope: float = ...) -> None: ...
class LogSigmoid(Layer):
    """The activation LogSigmoid as a layer."""
    def __init__(self) -> None: ...
class LogSoftmax(Layer):
    """The activation LogSoftmax as a layer."""
    def __init__(self, axis: int = ...) -> None: ...
class Mish(Layer):
    """The activation Mish as a layer."""
    def __init__(self) -> None: ...
class ReLU(Layer):
    """The activation ReLU as a layer."""
    def __init__(self) -> None: ...
class ReLU6(Layer):
    """The activation ReLU6 as a layer."""
    def __init__(self) -> None: ...
class SELU(Layer):
    """The activation SELU as a layer."""
    def __init__(self) -> None: ...
class Sigmoid(Layer):
    """The activation Sigmoid as a layer."""
    def __init__(self) -> None: ...
class SiLU(Layer):
    """The activation SiLU as a layer."""
    def __init__(self) -> None: ...
class Softmax(Layer):
    """The activation Softmax as a layer."""
    def __init__(self, axis: int = ...) -> None: ...
class Softmin(Layer):
    """The activation Softmin as a layer."""
    def __init__(self, axis: int = ...) -> None: ...
class Softplus(Layer):
    """The activation Softplus as a layer."""
    def __init__(self) -> None: ...
class SoftShrink(Layer):
    """The activation SoftShrink as a layer."""
    def __init__(self, bound: float = ...) -> None: ...
class SoftSign(Layer):
    """The activation SoftSign as a layer."""
    def __init__(self) -> None: ...
class Tanh(Layer):
    """The activation Tanh as a layer."""
    def __init__(self) -> None: ...
class TanhShrink(Layer):
    """The activation TanhShrink as a layer."""
    def __init__(self) -> None: ...
class Threshold(Layer):
    """The activation Threshold as a layer."""
    def __init__(self, bound: float, value: float) -> None: ...
class VanillaRNNCell(Layer):
    """h ← φ(W[x, h])

    φ = relu, W Xavier normal. Hidden state h [out]; returns the new h.

    Options:
        weight_init = None  None: the cell's own
        bias_init = init.zeros()  None: no biases
        activation = None  None: the cell's own
        dtype = 'float32'
        seed = 0
        memory = 0.0  For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them."""
    def __init__(self, in_size: int, out_size: int, *, weight_init: InitLike = ..., bias_init: InitLike = ..., activation: Callable[[Array], ArrayLike] | str | None = ..., dtype: DtypeLike = ..., seed: int = ..., memory: float = ...) -> None: ...
class GRUCell(Layer):
    """z = σ(Wz[x, h])   r = σ(Wr[x, h])   c = φ(Wh[x, r⊙h])   h ← (1 − z)⊙h + z⊙c

    φ = tanh, weights orthogonal. Hidden state h [out]; returns the new h.

    Options:
        weight_init = None  None: the cell's own
        bias_init = init.zeros()  None: no biases
        activation = None  None: the cell's own
        dtype = 'float32'
        seed = 0
        memory = 0.0  For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them."""
    def __init__(self, in_size: int, out_size: int, *, weight_init: InitLike = ..., bias_init: InitLike = ..., activation: Callable[[Array], ArrayLike] | str | None = ..., dtype: DtypeLike = ..., seed: int = ..., memory: float = ...) -> None: ...
class MGUCell(Layer):
    """f = σ(Wf[x, h])   c = φ(Wh[x, f⊙h])   h ← (1 − f)⊙h + f⊙c

    The minimal gated unit. φ = tanh, weights orthogonal. Hidden state h [out]; returns the new h. Wf acts on h
    directly and through Wh; the second way is not learned online.

    Options:
        weight_init = None  None: the cell's own
        bias_init = init.zeros()  None: no biases
        activation = None  None: the cell's own
        dtype = 'float32'
        seed = 0
        memory = 0.0  For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them."""
    def __init__(self, in_size: int, out_size: int, *, weight_init: InitLike = ..., bias_init: InitLike = ..., activation: Callable[[Array], ArrayLike] | str | None = ..., dtype: DtypeLike = ..., seed: int = ..., memory: float = ...) -> None: ...
class LSTMCell(Layer):
    """i = Wi[x, h]   g = Wg[x, h]   f = Wf[x, h]   o = Wo[x, h]
    c ← σ(f + 1)⊙c + σ(i)⊙φ(g)   h ← σ(o)⊙φ(c)

    φ = tanh, weights Xavier normal. Hidden states c [out] and h [out]; returns the new h. The 1 beside f lets
    a fresh cell remember.

    Options:
        weight_init = None  None: the cell's own
        bias_init = init.zeros()  None: no biases
        activation = None  None: the cell's own
        dtype = 'float32'
        seed = 0
        memory = 0.0  For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them."""
    def __init__(self, in_size: int, out_size: int, *, weight_init: InitLike = ..., bias_init: InitLike = ..., activation: Callable[[Array], ArrayLike] | str | None = ..., dtype: DtypeLike = ..., seed: int = ..., memory: float = ...) -> None: ...
class URLSTMCell(Layer):
    """f = σ(Wf[x, h] + β)   r = σ(Wr[x, h] − β)   q = 2rf + (1 − 2r)f²
    c ← q⊙c + (1 − q)⊙φ(Wu[x, h])   h ← σ(Wo[x, h])⊙φ(c)

    The LSTM with refined gates. φ = tanh, weights Xavier normal, no biases but β [out], the parameter `bias`:
    σ(β) is at first uniform in (1/out, 1 − 1/out), so that units forget at many speeds. Hidden states c [out]
    and h [out]; returns the new h.

    Options:
        weight_init = None  None: the cell's own
        bias_init = init.zeros()  None: no biases
        activation = None  None: the cell's own
        dtype = 'float32'
        seed = 0
        memory = 0.0  For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them."""
    def __init__(self, in_size: int, out_size: int, *, weight_init: InitLike = ..., bias_init: InitLike = ..., activation: Callable[[Array], ArrayLike] | str | None = ..., dtype: DtypeLike = ..., seed: int = ..., memory: float = ...) -> None: ...
class MinimalRNNCell(Layer):
    """z = φ(phi(x))   u = σ(W_u[z, h])   h ← u⊙h + (1 − u)⊙z

    φ = identity, weights orthogonal. Hidden state h [out]; returns the new h. phi is a Linear; it acts on h
    directly and through W_u, of which the second is not learned online.

    Options:
        weight_init = None  None: the cell's own
        bias_init = init.zeros()  None: no biases
        activation = None  None: the cell's own
        dtype = 'float32'
        seed = 0
        memory = 0.0  For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them."""
    def __init__(self, in_size: int, out_size: int, *, weight_init: InitLike = ..., bias_init: InitLike = ..., activation: Callable[[Array], ArrayLike] | str | None = ..., dtype: DtypeLike = ..., seed: int = ..., memory: float = ...) -> None: ...
class MiniGRU(Layer):
    """z = σ(W_z[x, h])   h ← (1 − z)⊙h + z⊙φ(W_x x)

    φ = identity, weights orthogonal. Hidden state h [out]; returns the new h. The candidate does not look at
    h, so both weights reach h directly and both are learned online.

    Options:
        weight_init = None  None: the cell's own
        bias_init = init.zeros()  None: no biases
        activation = None  None: the cell's own
        dtype = 'float32'
        seed = 0
        memory = 0.0  For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them."""
    def __init__(self, in_size: int, out_size: int, *, weight_init: InitLike = ..., bias_init: InitLike = ..., activation: Callable[[Array], ArrayLike] | str | None = ..., dtype: DtypeLike = ..., seed: int = ..., memory: float = ...) -> None: ...
class MiniLSTM(Layer):
    """f = σ(W_f[x, h])   i = σ(W_i[x, h])   h ← f⊙h + i⊙φ(W_x x)

    φ = identity, weights orthogonal. Hidden state h [out]; returns the new h. All three weights are learned
    online.

    Options:
        weight_init = None  None: the cell's own
        bias_init = init.zeros()  None: no biases
        activation = None  None: the cell's own
        dtype = 'float32'
        seed = 0
        memory = 0.0  For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them."""
    def __init__(self, in_size: int, out_size: int, *, weight_init: InitLike = ..., bias_init: InitLike = ..., activation: Callable[[Array], ArrayLike] | str | None = ..., dtype: DtypeLike = ..., seed: int = ..., memory: float = ...) -> None: ...
class CFNCell(Layer):
    """f = σ(Wf[x, h])   i = σ(Wi[x, h])   h ← f⊙φ(h) + i⊙φ(Wh x)

    The chaos-free network. φ = tanh, weights orthogonal. Hidden state h [out]; returns the new h. No weight
    acts through another one, so all three are learned online.

    Options:
        weight_init = None  None: the cell's own
        bias_init = init.zeros()  None: no biases
        activation = None  None: the cell's own
        dtype = 'float32'
        seed = 0
        memory = 0.0  For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them."""
    def __init__(self, in_size: int, out_size: int, *, weight_init: InitLike = ..., bias_init: InitLike = ..., activation: Callable[[Array], ArrayLike] | str | None = ..., dtype: DtypeLike = ..., seed: int = ..., memory: float = ...) -> None: ...
class LRUCell(Layer):
    """λ = exp(−e^ν + i·e^θ)   h ← λ⊙h + e^γ⊙(B x)   y = Re(C h) + D⊙x
    in real numbers, with a = e^(−e^ν), b = e^θ:
      h_re ← a·cos(b)⊙h_re − a·sin(b)⊙h_im + e^γ⊙(B_re x)   h_im ← a·sin(b)⊙h_re + a·cos(b)⊙h_im + e^γ⊙(B_im x)
      y = C_re h_re − C_im h_im + D⊙x

    The linear recurrent unit: complex states whose transition is diagonal, so that D-RTRL is exact for all
    that acts on them (ν, θ, γ, B_re, B_im). Hidden states h_re, h_im [hidden]; returns y [model]. Parameters
    nu_log, theta_log, gamma_log [hidden] and D [model], and the layers B_re, B_im, C_re, C_im without biases.

    Options:
        r_min = 0.0  |λ| at first: uniform over this ring
        r_max = 1.0  |λ| at first: uniform over this ring
        max_phase = 6.28  the phase of λ at first: uniform in [0, max_phase)
        dtype = 'float32'
        seed = 0"""
    def __init__(self, model_size: int, hidden_size: int, *, r_min: float = ..., r_max: float = ..., max_phase: float = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class ConvRNNCell(Layer):
    """The cells with convolutions in place of matrix products; x and h are images [space…, channels]:
      ConvRNNCell    h ← φ(W[x, h])
      ConvGRUCell    z = σ(Wz[x, h])   r = σ(Wr[x, h])   h ← (1 − z)⊙h + z⊙φ(Wh[x, r⊙h])
      ConvLSTMCell   c ← σ(Wf[x, h] + 1)⊙c + σ(Wi[x, h])⊙φ(Wg[x, h])   h ← σ(Wo[x, h])⊙φ(c)

    φ = tanh. Samples x are [space…, in] in 1 to 3 dimensions, `in_size`; hidden state h [space…, out].

    Options:
        weight_init = init.xavier_normal()
        bias_init = init.zeros()  None: no biases
        activation = None  None: the cell's own
        dilation = 1
        dtype = 'float32'
        seed = 0
        memory = 0.0  of cells with gates: as CellOptions::memory"""
    def __init__(self, in_size: int | Sequence[int], out_channels: int, kernel_size: int | Sequence[int], *, weight_init: InitLike = ..., bias_init: InitLike = ..., activation: Callable[[Array], ArrayLike] | str | None = ..., dilation: int | Sequence[int] = ..., dtype: DtypeLike = ..., seed: int = ..., memory: float = ...) -> None: ...
class ConvGRUCell(Layer):
    """The cells with convolutions in place of matrix products; x and h are images [space…, channels]:
      ConvRNNCell    h ← φ(W[x, h])
      ConvGRUCell    z = σ(Wz[x, h])   r = σ(Wr[x, h])   h ← (1 − z)⊙h + z⊙φ(Wh[x, r⊙h])
      ConvLSTMCell   c ← σ(Wf[x, h] + 1)⊙c + σ(Wi[x, h])⊙φ(Wg[x, h])   h ← σ(Wo[x, h])⊙φ(c)

    φ = tanh; as ConvRNNCell.

    Options:
        weight_init = init.xavier_normal()
        bias_init = init.zeros()  None: no biases
        activation = None  None: the cell's own
        dilation = 1
        dtype = 'float32'
        seed = 0
        memory = 0.0  of cells with gates: as CellOptions::memory"""
    def __init__(self, in_size: int | Sequence[int], out_channels: int, kernel_size: int | Sequence[int], *, weight_init: InitLike = ..., bias_init: InitLike = ..., activation: Callable[[Array], ArrayLike] | str | None = ..., dilation: int | Sequence[int] = ..., dtype: DtypeLike = ..., seed: int = ..., memory: float = ...) -> None: ...
class ConvLSTMCell(Layer):
    """The cells with convolutions in place of matrix products; x and h are images [space…, channels]:
      ConvRNNCell    h ← φ(W[x, h])
      ConvGRUCell    z = σ(Wz[x, h])   r = σ(Wr[x, h])   h ← (1 − z)⊙h + z⊙φ(Wh[x, r⊙h])
      ConvLSTMCell   c ← σ(Wf[x, h] + 1)⊙c + σ(Wi[x, h])⊙φ(Wg[x, h])   h ← σ(Wo[x, h])⊙φ(c)

    φ = tanh; as ConvRNNCell, with the second hidden state c.

    Options:
        weight_init = init.xavier_normal()
        bias_init = init.zeros()  None: no biases
        activation = None  None: the cell's own
        dilation = 1
        dtype = 'float32'
        seed = 0
        memory = 0.0  of cells with gates: as CellOptions::memory"""
    def __init__(self, in_size: int | Sequence[int], out_channels: int, kernel_size: int | Sequence[int], *, weight_init: InitLike = ..., bias_init: InitLike = ..., activation: Callable[[Array], ArrayLike] | str | None = ..., dilation: int | Sequence[int] = ..., dtype: DtypeLike = ..., seed: int = ..., memory: float = ...) -> None: ...
class LIF(Neuron):
    """s = H((V − V_th)/(V_th − V_reset))           the spikes of the step before
    τ dV/dt = −V + V_rest + R·I                  from reset(V, s), then V ← V + what jumps
    reset   soft: V − (V_th − V_reset)·s    hard: V − (sg(V) − V_reset)·s,  sg: stop_gradient
    For a current that does not depend on V the step is exact: V ← λ·V + (1 − λ)·(V_rest + R·I), λ = e^(−dt/τ)

    Leaky integrate-and-fire neurons. Hidden state V [size], at first V_rest; the input is the current I;
    returns the spikes of the new V. With tau_ref the number of steps since the last spike, up to the period,
    is the state `since`. The constants may differ between neurons, and all but tau_ref be learned.

    Options:
        tau = 5.0
        dt = 1.0
        R = 1.0
        V_th = 1.0
        V_reset = 0.0
        V_rest = 0.0
        reset = 'soft'
        detached = False  no gradient flows through the reset's spikes
        tau_ref = 0.0  So long after a spike V stays where the reset has put it: the fewest steps that last as long.
        surrogate = surrogate.relu_grad()
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, tau: ConstantLike = ..., dt: ConstantLike = ..., R: ConstantLike = ..., V_th: ConstantLike = ..., V_reset: ConstantLike = ..., V_rest: ConstantLike = ..., reset: Literal['soft', 'hard'] = ..., detached: bool = ..., tau_ref: ConstantLike = ..., surrogate: Surrogate | Callable[[Array], ArrayLike] | str = ..., dtype: DtypeLike = ...) -> None: ...
    def after_reset(self, fired: ArrayLike) -> Array: ...
class IF(LIF):
    """s = H((V − V_th)/(V_th − V_reset))           the spikes of the step before
    τ dV/dt = −V + V_rest + R·I                  from reset(V, s), then V ← V + what jumps
    reset   soft: V − (V_th − V_reset)·s    hard: V − (sg(V) − V_reset)·s,  sg: stop_gradient
    For a current that does not depend on V the step is exact: V ← λ·V + (1 − λ)·(V_rest + R·I), λ = e^(−dt/τ)

    LIF neurons that rest at 0, as the reference system's IF (it leaks, too).

    Options:
        tau = 5.0
        dt = 1.0
        R = 1.0
        V_th = 1.0
        V_reset = 0.0
        V_rest = 0.0
        reset = 'soft'
        detached = False  no gradient flows through the reset's spikes
        tau_ref = 0.0  So long after a spike V stays where the reset has put it: the fewest steps that last as long.
        surrogate = surrogate.relu_grad()
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, tau: ConstantLike = ..., dt: ConstantLike = ..., R: ConstantLike = ..., V_th: ConstantLike = ..., V_reset: ConstantLike = ..., V_rest: ConstantLike = ..., reset: Literal['soft', 'hard'] = ..., detached: bool = ..., tau_ref: ConstantLike = ..., surrogate: Surrogate | Callable[[Array], ArrayLike] | str = ..., dtype: DtypeLike = ...) -> None: ...
class LIFRef(LIF):
    """s = H((V − V_th)/(V_th − V_reset))           the spikes of the step before
    τ dV/dt = −V + V_rest + R·I                  from reset(V, s), then V ← V + what jumps
    reset   soft: V − (V_th − V_reset)·s    hard: V − (sg(V) − V_reset)·s,  sg: stop_gradient
    For a current that does not depend on V the step is exact: V ← λ·V + (1 − λ)·(V_rest + R·I), λ = e^(−dt/τ)

    LIF neurons with a refractory period of 5 ms, unless the options name one.

    Options:
        tau = 5.0
        dt = 1.0
        R = 1.0
        V_th = 1.0
        V_reset = 0.0
        V_rest = 0.0
        reset = 'soft'
        detached = False  no gradient flows through the reset's spikes
        tau_ref = 0.0  So long after a spike V stays where the reset has put it: the fewest steps that last as long.
        surrogate = surrogate.relu_grad()
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, tau: ConstantLike = ..., dt: ConstantLike = ..., R: ConstantLike = ..., V_th: ConstantLike = ..., V_reset: ConstantLike = ..., V_rest: ConstantLike = ..., reset: Literal['soft', 'hard'] = ..., detached: bool = ..., tau_ref: ConstantLike = ..., surrogate: Surrogate | Callable[[Array], ArrayLike] | str = ..., dtype: DtypeLike = ...) -> None: ...
class ALIF(Neuron):
    """s = H((V − V_th − β·a)/(V_th − V_reset))
    V ← reset(V, s), a ← a + s;  τ dV/dt = −V + V_rest + R·I   τ_a da/dt = −a

    LIF neurons whose threshold rises with every spike. Hidden states V [size] and a [size]; the input is the
    current I; returns the spikes of the new states.

    Options:
        tau = 5.0
        tau_a = 100.0
        dt = 1.0
        beta = 0.1
        R = 1.0
        V_th = 1.0
        V_reset = 0.0
        V_rest = 0.0
        reset = 'soft'
        detached = False  no gradient flows through the reset's spikes
        surrogate = surrogate.relu_grad()
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, tau: ConstantLike = ..., tau_a: ConstantLike = ..., dt: ConstantLike = ..., beta: ConstantLike = ..., R: ConstantLike = ..., V_th: ConstantLike = ..., V_reset: ConstantLike = ..., V_rest: ConstantLike = ..., reset: Literal['soft', 'hard'] = ..., detached: bool = ..., surrogate: Surrogate | Callable[[Array], ArrayLike] | str = ..., dtype: DtypeLike = ...) -> None: ...
class Gif(Neuron):
    """s = H((V − V_th)/(V_th − V_reset))     V_th is a state
    on a spike   I_j ← R_j·I_j + A_j   V_th ← max(V_th_reset, V_th)   V ← reset(V, s)
    dI_j/dt = −k_j·I_j   dV_th/dt = a·(V − V_rest) − b·(V_th − V_th_inf)   τ dV/dt = −(V − V_rest) + R·(I + I_1
    + I_2) V follows the new I_1 and I_2; V_th follows V as the reset has left it

    Generalised integrate-and-fire neurons. Hidden states V, I1, I2, V_th [size], at first V_rest, 0, 0,
    V_th_inf; the input is the current I; returns the spikes of the new states.

    Options:
        tau = 20.0
        dt = 1.0
        R = 20.0
        V_rest = -70.0
        V_reset = -70.0
        V_th_inf = -50.0
        V_th_reset = -60.0
        a = 0.0  1/ms
        b = 0.01  1/ms
        k1 = 0.2  1/ms
        k2 = 0.02  1/ms
        R1 = 0.0
        R2 = 1.0
        A1 = 0.0
        A2 = 0.0
        reset = 'soft'
        detached = False  no gradient flows through the reset's spikes
        surrogate = surrogate.relu_grad()
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, tau: ConstantLike = ..., dt: ConstantLike = ..., R: ConstantLike = ..., V_rest: ConstantLike = ..., V_reset: ConstantLike = ..., V_th_inf: ConstantLike = ..., V_th_reset: ConstantLike = ..., a: ConstantLike = ..., b: ConstantLike = ..., k1: ConstantLike = ..., k2: ConstantLike = ..., R1: ConstantLike = ..., R2: ConstantLike = ..., A1: ConstantLike = ..., A2: ConstantLike = ..., reset: Literal['soft', 'hard'] = ..., detached: bool = ..., surrogate: Surrogate | Callable[[Array], ArrayLike] | str = ..., dtype: DtypeLike = ...) -> None: ...
class CurrentGif(Neuron):
    """s = H((V − V_th)/(V_th − V_reset))   V ← reset(V, s), I2 ← I2 + A2·s
    τ_I2 dI2/dt = −I2   τ dV/dt = −V + V_rest + R·(I + I2), with the new I2

    LIF neurons with a slow current after each spike: the GIF neurons of working-memory models. Hidden states
    V [size] and I2 [size]; the input is the current I; returns the spikes of the new states.

    Options:
        tau = 20.0
        tau_I2 = 50.0
        dt = 1.0
        A2 = -1.0  below 0: spikes make further spikes less likely
        R = 1.0
        V_th = 1.0
        V_reset = 0.0
        V_rest = 0.0
        reset = 'soft'
        detached = True  no gradient flows through the spikes that reset V and drive I2
        surrogate = surrogate.relu_grad()
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, tau: ConstantLike = ..., tau_I2: ConstantLike = ..., dt: ConstantLike = ..., A2: ConstantLike = ..., R: ConstantLike = ..., V_th: ConstantLike = ..., V_reset: ConstantLike = ..., V_rest: ConstantLike = ..., reset: Literal['soft', 'hard'] = ..., detached: bool = ..., surrogate: Surrogate | Callable[[Array], ArrayLike] | str = ..., dtype: DtypeLike = ...) -> None: ...
class AdEx(Neuron):
    """s = H((V − V_th)/(V_th − V_reset))   V ← reset(V, s), w ← w + b·s
    τ dV/dt = −(V − V_rest) + Δ_T·e^((V − V_T)/Δ_T) − R·w + R·I   τ_w dw/dt = a·(V − V_rest) − w

    Adaptive exponential integrate-and-fire neurons. Hidden states V [size], at first V_rest, and w [size]; the
    input is the current I; returns the spikes of the new states. V is cut at V_th: beyond it, it only runs off
    to infinity.

    Options:
        tau = 10.0
        tau_w = 30.0
        dt = 0.1
        R = 1.0
        V_rest = -65.0
        V_reset = -68.0
        V_th = -30.0
        V_T = -59.9
        delta_T = 3.48
        a = 1.0  mA/mV
        b = 1.0
        reset = 'hard'
        detached = False  no gradient flows through the reset's spikes
        method = 'exp_euler'
        surrogate = surrogate.relu_grad()
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, tau: ConstantLike = ..., tau_w: ConstantLike = ..., dt: ConstantLike = ..., R: ConstantLike = ..., V_rest: ConstantLike = ..., V_reset: ConstantLike = ..., V_th: ConstantLike = ..., V_T: ConstantLike = ..., delta_T: ConstantLike = ..., a: ConstantLike = ..., b: ConstantLike = ..., reset: Literal['soft', 'hard'] = ..., detached: bool = ..., method: Literal['exp_euler', 'euler', 'rk4'] = ..., surrogate: Surrogate | Callable[[Array], ArrayLike] | str = ..., dtype: DtypeLike = ...) -> None: ...
class Izhikevich(Neuron):
    """s = H((V − V_th)/(V_th − c))   V ← reset(V, s) to c, u ← u + d·s
    dV/dt = 0.04·V² + 5·V + 140 − u + I   du/dt = a·(b·V − u)

    Izhikevich's neurons; the defaults fire regularly and adapt, others give bursts, fast spikes and more.
    Hidden states V [size], at first c, and u [size], at first b·c; the input is the current I in mV/ms;
    returns the spikes of the new states. V is cut at V_th.

    Options:
        a = 0.02  1/ms
        b = 0.2  1/ms
        c = -65.0
        V_th = 30.0
        d = 8.0  mV/ms
        dt = 0.1
        reset = 'hard'
        detached = False  no gradient flows through the reset's spikes
        method = 'exp_euler'
        surrogate = surrogate.relu_grad()
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, a: ConstantLike = ..., b: ConstantLike = ..., c: ConstantLike = ..., V_th: ConstantLike = ..., d: ConstantLike = ..., dt: ConstantLike = ..., reset: Literal['soft', 'hard'] = ..., detached: bool = ..., method: Literal['exp_euler', 'euler', 'rk4'] = ..., surrogate: Surrogate | Callable[[Array], ArrayLike] | str = ..., dtype: DtypeLike = ...) -> None: ...
class HodgkinHuxley(Neuron):
    """C dV/dt = −g_Na·m³·h·(V − E_Na) − g_K·n⁴·(V − E_K) − g_L·(V − E_L) + I
    dx/dt = α_x(V)·(1 − x) − β_x(V)·x  for x = m, h, n
      α_m = 0.1(V + 40)/(1 − e^(−(V + 40)/10))   β_m = 4·e^(−(V + 65)/18)
      α_h = 0.07·e^(−(V + 65)/20)                β_h = 1/(1 + e^(−(V + 35)/10))
      α_n = 0.01(V + 55)/(1 − e^(−(V + 55)/10))  β_n = 0.125·e^(−(V + 65)/80)
    a spike: V rises through V_th

    Hodgkin and Huxley's neurons. Hidden states V, m, h, n [size], at first at rest for V_start; the input is
    the current I in µA/cm²; returns 1 at the step at which V rises through V_th.

    Options:
        E_Na = 50.0
        E_K = -77.0
        E_L = -54.387
        g_Na = 120.0  mS/cm²
        g_K = 36.0  mS/cm²
        g_L = 0.3  mS/cm²
        C = 1.0  µF/cm²
        V_th = 20.0
        V_start = -65.0
        dt = 0.01
        method = 'exp_euler'
        surrogate = surrogate.relu_grad()
        surrogate_width = 20.0  mV that count as 1 in the surrogate
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, E_Na: ConstantLike = ..., E_K: ConstantLike = ..., E_L: ConstantLike = ..., g_Na: ConstantLike = ..., g_K: ConstantLike = ..., g_L: ConstantLike = ..., C: ConstantLike = ..., V_th: ConstantLike = ..., V_start: ConstantLike = ..., dt: ConstantLike = ..., method: Literal['exp_euler', 'euler', 'rk4'] = ..., surrogate: Surrogate | Callable[[Array], ArrayLike] | str = ..., surrogate_width: float = ..., dtype: DtypeLike = ...) -> None: ...
class LIFLayer(LIF):
    """A recurrent layer of LIF neurons: s = spikes of the step before, y = [x, s]·W + b, and
      synapse='expon'   g ← e^(−dt/τ_syn)·g + y;  the current is g
      synapse='delta'   y is added to V

    Hidden states V [out] and, with synapse='expon', g [out]; W and b are the parameter syn/weight. Returns the
    spikes of the new V.

    Options:
        neuron = None
        synapse = 'expon'
        tau_syn = 10.0  not used by synapse='delta'
        input_init = init.kaiming_normal()  Rows of W for the input [in, out] and for the spikes [out, out]: each block has its own fan.
        recurrent_init = init.kaiming_normal()  Rows of W for the input [in, out] and for the spikes [out, out]: each block has its own fan.
        input_scale = 1.0  factors of what the initialisers give
        recurrent_scale = 1.0  factors of what the initialisers give
        bias_init = init.zeros()  None: no bias
        seed = 0"""
    def __init__(self, in_size: int, out_size: int, *, neuron: dict = ..., synapse: Literal['delta', 'expon'] = ..., tau_syn: ConstantLike = ..., input_init: InitLike = ..., recurrent_init: InitLike = ..., input_scale: float = ..., recurrent_scale: float = ..., bias_init: InitLike = ..., seed: int = ...) -> None: ...
class LeakySpikeReadout(IF):
    """s = H((V − V_th)/V_th)   V ← V − V_th·s   τ dV/dt = −V + x·W

    Output neurons that spike. Parameter W [in, out], a bare array; hidden state V [out]; returns the spikes of
    the new V.

    Options:
        tau = 5.0
        dt = 1.0
        V_th = 1.0
        reset = 'soft'
        weight_init = init.kaiming_normal()
        surrogate = surrogate.relu_grad()
        dtype = 'float32'
        seed = 0"""
    def __init__(self, in_size: int, out_size: int, *, tau: ConstantLike = ..., dt: ConstantLike = ..., V_th: ConstantLike = ..., reset: Literal['soft', 'hard'] = ..., weight_init: InitLike = ..., surrogate: Surrogate | Callable[[Array], ArrayLike] | str = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class LeakyRateReadout(Dynamics):
    """r ← e^(−dt/τ)·r + x·W

    Filtered rates of spikes, weighted. Parameter W [in, out], a bare array; hidden state r [out]; returns the
    new r. W reaches a hidden state, so it has a trace of its own.

    Options:
        tau = 5.0
        dt = 1.0
        weight_init = init.kaiming_normal()
        dtype = 'float32'
        seed = 0"""
    def __init__(self, in_size: int, out_size: int, *, tau: ConstantLike = ..., dt: ConstantLike = ..., weight_init: InitLike = ..., dtype: DtypeLike = ..., seed: int = ...) -> None: ...
class Expon(Dynamics):
    """g ← e^(−dt/τ)·g + x

    A synapse whose conductance jumps and decays. Hidden state g [size]; returns the new g, in the unit of x.

    Options:
        tau = 8.0
        dt = 1.0
        unit = units.mS  of x and g, where x has one
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, tau: ConstantLike = ..., dt: ConstantLike = ..., unit: Unit | None = ..., dtype: DtypeLike = ...) -> None: ...
class Alpha(Dynamics):
    """g ← e^(−dt/τ)·g + (1 − e^(−dt/τ))·h   h ← e^(−dt/τ)·h + x, with the old h in the first

    A synapse with a smooth rise. Hidden states g and h [size]; returns the new g, in the unit of x.

    Options:
        tau = 8.0
        dt = 1.0
        unit = units.mS  of x and g, where x has one
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, tau: ConstantLike = ..., dt: ConstantLike = ..., unit: Unit | None = ..., dtype: DtypeLike = ...) -> None: ...
class DualExpon(Dynamics):
    """g_r ← e^(−dt/τ_r)·g_r + x   g_d ← e^(−dt/τ_d)·g_d + x   g = a·(g_d − g_r)
    By default a makes the peak of one spike 1: a = τ_d/(τ_d − τ_r)·(τ_r/τ_d)^(τ_r/(τ_r − τ_d)). With A it is
    A·(τ_d − τ_r)/(τ_r·τ_d), in 1/ms, as in the reference system (whose default A is the first formula).

    A synapse that rises and decays. Hidden states g_rise and g_decay [size]; returns g, in the unit of x.

    Options:
        tau_decay = 10.0
        tau_rise = 1.0
        dt = 1.0
        A = None  none: the peak of one spike is 1, at the time between steps where it lies
        unit = units.mS  of x and g, where x has one
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, tau_decay: ConstantLike = ..., tau_rise: ConstantLike = ..., dt: ConstantLike = ..., A: float | None = ..., unit: Unit | None = ..., dtype: DtypeLike = ...) -> None: ...
class AMPA(Dynamics):
    """Receptors that transmitter opens for a while after each spike: on = 1 for T_dur from a spike on, in whole
    steps (the nearest number, at least one).
      AMPA, GABAa   dg/dt = α·T·on·(1 − g) − β·g
      NMDA          dx/dt = α_2·T·on·(1 − x) − β_2·x   dg/dt = α_1·x·(1 − g) − β_1·g, with the new x
    Both are linear in g (and x), so that the step is exact.

    Hidden state g [size], the part of open channels; the input is 1 where a spike arrives and 0 elsewhere. The
    number of steps that transmitter is still there is the state `left`. Spikes act through a switch, so no
    gradient passes through them.

    Options:
        alpha = 0.98  1/(mM·ms), 1/ms
        beta = 0.18  1/(mM·ms), 1/ms
        T = 0.5  mM
        T_dur = 0.5
        dt = 0.1
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, alpha: ConstantLike = ..., beta: ConstantLike = ..., T: ConstantLike = ..., T_dur: ConstantLike = ..., dt: ConstantLike = ..., dtype: DtypeLike = ...) -> None: ...
class GABAa(AMPA):
    """Receptors that transmitter opens for a while after each spike: on = 1 for T_dur from a spike on, in whole
    steps (the nearest number, at least one).
      AMPA, GABAa   dg/dt = α·T·on·(1 − g) − β·g
      NMDA          dx/dt = α_2·T·on·(1 − x) − β_2·x   dg/dt = α_1·x·(1 − g) − β_1·g, with the new x
    Both are linear in g (and x), so that the step is exact.

    As AMPA, with the constants of inhibition.

    Options:
        alpha = 0.53  1/(mM·ms), 1/ms
        beta = 0.18  1/(mM·ms), 1/ms
        T = 1.0  mM
        T_dur = 1.0
        dt = 0.1
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, alpha: ConstantLike = ..., beta: ConstantLike = ..., T: ConstantLike = ..., T_dur: ConstantLike = ..., dt: ConstantLike = ..., dtype: DtypeLike = ...) -> None: ...
class NMDA(Dynamics):
    """Receptors that transmitter opens for a while after each spike: on = 1 for T_dur from a spike on, in whole
    steps (the nearest number, at least one).
      AMPA, GABAa   dg/dt = α·T·on·(1 − g) − β·g
      NMDA          dx/dt = α_2·T·on·(1 − x) − β_2·x   dg/dt = α_1·x·(1 − g) − β_1·g, with the new x
    Both are linear in g (and x), so that the step is exact.

    Hidden states g and x [size]; otherwise as AMPA.

    Options:
        alpha1 = 2.0  1/ms
        beta1 = 0.01  1/ms
        alpha2 = 1.0  1/(mM·ms), 1/ms
        beta2 = 0.5  1/(mM·ms), 1/ms
        T = 1.0  mM
        T_dur = 0.5
        dt = 0.1
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, alpha1: ConstantLike = ..., beta1: ConstantLike = ..., alpha2: ConstantLike = ..., beta2: ConstantLike = ..., T: ConstantLike = ..., T_dur: ConstantLike = ..., dt: ConstantLike = ..., dtype: DtypeLike = ...) -> None: ...
class STD(Dynamics):
    """Synapses whose strength depends on what they have just done; s: spikes that arrive.
      STD   x⁻ = 1 + (x − 1)·e^(−dt/τ)   x ← x⁻ − s·U·x_old                              passes on x·s
      STP   u⁻ = u·e^(−dt/τ_f)   x⁻ = 1 + (x − 1)·e^(−dt/τ_d)
            u ← u⁻ + s·U·(1 − u_old)   x ← x⁻ − s·u_new·x_old                            passes on u·x·s

    Short-term depression. Hidden state x [size], at first 1: the share of vesicles that is left.

    Options:
        tau = 200.0
        dt = 1.0
        U = 0.07
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, tau: ConstantLike = ..., dt: ConstantLike = ..., U: ConstantLike = ..., dtype: DtypeLike = ...) -> None: ...
class STP(Dynamics):
    """Synapses whose strength depends on what they have just done; s: spikes that arrive.
      STD   x⁻ = 1 + (x − 1)·e^(−dt/τ)   x ← x⁻ − s·U·x_old                              passes on x·s
      STP   u⁻ = u·e^(−dt/τ_f)   x⁻ = 1 + (x − 1)·e^(−dt/τ_d)
            u ← u⁻ + s·U·(1 − u_old)   x ← x⁻ − s·u_new·x_old                            passes on u·x·s

    Short-term facilitation and depression. Hidden states u [size], at first U, and x [size], at first 1.

    Options:
        tau_f = 1500.0
        tau_d = 200.0
        dt = 1.0
        U = 0.15
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], *, tau_f: ConstantLike = ..., tau_d: ConstantLike = ..., dt: ConstantLike = ..., U: ConstantLike = ..., dtype: DtypeLike = ...) -> None: ...
class Delay(Dynamics):
    """y(t) = x(t − d), zeros before the first step; d is the same for all, or one per entry

    The delay must be a whole number of steps (ValueError).

    Options:
        dt = 1.0
        memory = 'ring'
        unit = None  of x, if it has one
        dtype = 'float32'"""
    def __init__(self, size: int | Sequence[int], delay: ConstantLike, *, dt: ConstantLike = ..., memory: Literal['ring', 'hidden'] = ..., unit: Unit | None = ..., dtype: DtypeLike = ...) -> None: ...

ValinaRNNCell = VanillaRNNCell
BatchNorm0d = BatchNorm
BatchNorm1d = BatchNorm
BatchNorm2d = BatchNorm
BatchNorm3d = BatchNorm
