"""Cells as PyTorch computes them, where the library's differ."""

from __future__ import annotations

from .. import _core, nn
from .._module import Module


class GRUCell(Module):
    """PyTorch's GRU, also that of Flax, Equinox and cuDNN: the gate r acts on the product with h, not on h before it.

    r = σ(Wr[x, h])   z = σ(Wz[x, h])   n = tanh(Wn·x + r ⊙ Un·h)   h ← (1 − z)⊙n + z⊙h

    Hidden state h [out]; returns the new h. `et.nn.GRUCell` is the other form, n = tanh(Wh[x, r⊙h]), with z and 1 − z
    exchanged."""

    def __init__(self, in_size: int, out_size: int, *, bias: bool = True, dtype="float32"):
        super().__init__()
        self.in_size, self.out_size = in_size, out_size
        options = {"dtype": dtype} if bias else {"dtype": dtype, "bias_init": None}
        self.Wr = nn.Linear(in_size + out_size, out_size, **options)
        self.Wz = nn.Linear(in_size + out_size, out_size, **options)
        self.Wn = nn.Linear(in_size, out_size, **options)
        self.Un = nn.Linear(out_size, out_size, **options)
        self.h = _core.HiddenState(_core.zeros((out_size,), dtype=dtype))

    def update(self, x):
        h = self.h.value
        both = _core.concatenate([x, h], -1)
        r, z = _core.sigmoid(self.Wr(both)), _core.sigmoid(self.Wz(both))
        n = _core.tanh(self.Wn(x) + r * self.Un(h))
        self.h.value = (1 - z) * n + z * h
        return self.h.value
