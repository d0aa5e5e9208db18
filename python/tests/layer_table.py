"""One row per class of et.nn: how it is made, and the shape of one sample that it takes."""

import numpy as np

import etrace as et

nn = et.nn


def _pattern():
    return nn.connect.fixed_probability(4, 5, 0.6, seed=1)


# name: (make, shape of a sample, its element type)
ROWS = {
    "Linear": (lambda: nn.Linear(4, 5), (4,)),
    "AllToAll": (lambda: nn.AllToAll(4, 4, include_self=False), (4,)),
    "OneToOne": (lambda: nn.OneToOne(4, bias_init="zeros"), (4,)),
    "GroupedLinear": (lambda: nn.GroupedLinear(2, 3, 4), (2, 3)),
    "SignedWLinear": (lambda: nn.SignedWLinear(4, 5, sign=nn.connect.dale_signs(4, 3)), (4,)),
    "ScaledWSLinear": (lambda: nn.ScaledWSLinear(4, 5), (4,)),
    "SparseLinear": (lambda: nn.SparseLinear(_pattern(), bias_init=0.1), (4,)),
    "DelayedLinear": (
        lambda: nn.DelayedLinear(_pattern(), np.arange(_pattern().nnz) % 3 * et.units.ms, memory="hidden"),
        (4,),
    ),
    "LoRA": (lambda: nn.LoRA(4, 2, 5, base_module=nn.Linear(4, 5)), (4,)),
    "Embedding": (lambda: nn.Embedding(7, 4), (), "int32"),
    "Conv": (lambda: nn.Conv((6, 2), 3, 3), (6, 2)),
    "Conv1d": (lambda: nn.Conv1d((6, 2), 3, 3, strides=2), (6, 2)),
    "Conv2d": (lambda: nn.Conv2d((5, 5, 2), 3, (3, 3), padding="VALID", bias_init="zeros"), (5, 5, 2)),
    "Conv3d": (lambda: nn.Conv3d((3, 3, 3, 1), 2, 2, padding=[(1, 0)] * 3), (3, 3, 3, 1)),
    "LayerNorm": (lambda: nn.LayerNorm(4), (4,)),
    "RMSNorm": (lambda: nn.RMSNorm((4,)), (4,)),
    "GroupNorm": (lambda: nn.GroupNorm((3, 4), groups=2), (3, 4)),
    "BatchNorm": (lambda: nn.BatchNorm(4), (4,)),
    "PReLU": (lambda: nn.PReLU(4, per_feature=True), (4,)),
    "Dropout": (lambda: nn.Dropout(keep=0.8), (4,)),
    "Flatten": (lambda: nn.Flatten((2, 3)), (2, 3)),
    "Unflatten": (lambda: nn.Unflatten((2, 3)), (6,)),
    "VanillaRNNCell": (lambda: nn.VanillaRNNCell(4, 3, activation="tanh"), (4,)),
    "GRUCell": (lambda: nn.GRUCell(4, 3, activation=lambda x: et.tanh(x)), (4,)),
    "MGUCell": (lambda: nn.MGUCell(4, 3), (4,)),
    "LSTMCell": (lambda: nn.LSTMCell(4, 3, bias_init=None), (4,)),
    "URLSTMCell": (lambda: nn.URLSTMCell(4, 3), (4,)),
    "MinimalRNNCell": (lambda: nn.MinimalRNNCell(4, 3), (4,)),
    "MiniGRU": (lambda: nn.MiniGRU(4, 3), (4,)),
    "MiniLSTM": (lambda: nn.MiniLSTM(4, 3), (4,)),
    "CFNCell": (lambda: nn.CFNCell(4, 3), (4,)),
    "LRUCell": (lambda: nn.LRUCell(4, 3, r_min=0.2, r_max=0.9), (4,)),
    "ConvRNNCell": (lambda: nn.ConvRNNCell((5, 2), 3, 3), (5, 2)),
    "ConvGRUCell": (lambda: nn.ConvGRUCell((5, 2), 2, 3), (5, 2)),
    "ConvLSTMCell": (lambda: nn.ConvLSTMCell((5, 2), 2, 3), (5, 2)),
    "LIF": (lambda: nn.LIF(4, tau=nn.learned(5 * et.units.ms), reset="hard", surrogate="sigmoid"), (4,)),
    "IF": (lambda: nn.IF(4), (4,)),
    "LIFRef": (lambda: nn.LIFRef(4, tau_ref=2.0), (4,)),
    "ALIF": (lambda: nn.ALIF(4, beta=np.full(4, 0.2, np.float32)), (4,)),
    "Gif": (lambda: nn.Gif(4, V_rest=-70 * et.units.mV), (4,)),
    "CurrentGif": (lambda: nn.CurrentGif(4), (4,)),
    "AdEx": (lambda: nn.AdEx(4, method="euler"), (4,)),
    "Izhikevich": (lambda: nn.Izhikevich(4), (4,)),
    "HodgkinHuxley": (lambda: nn.HodgkinHuxley(4), (4,)),
    "LIFLayer": (lambda: nn.LIFLayer(4, 3, neuron=dict(tau=10.0), synapse="delta"), (4,)),
    "LeakySpikeReadout": (lambda: nn.LeakySpikeReadout(4, 3), (4,)),
    "LeakyRateReadout": (lambda: nn.LeakyRateReadout(4, 3, tau=5 * et.units.ms), (4,)),
    "Expon": (lambda: nn.Expon(4), (4,)),
    "Alpha": (lambda: nn.Alpha((4,)), (4,)),
    "DualExpon": (lambda: nn.DualExpon(4, A=1.0), (4,)),
    "AMPA": (lambda: nn.AMPA(4), (4,)),
    "GABAa": (lambda: nn.GABAa(4), (4,)),
    "NMDA": (lambda: nn.NMDA(4), (4,)),
    "STD": (lambda: nn.STD(4), (4,)),
    "STP": (lambda: nn.STP(4), (4,)),
    "Delay": (lambda: nn.Delay(4, 2 * et.units.ms), (4,)),
    "Residual": (lambda: nn.Residual(nn.Linear(4, 4), nn.Tanh()), (4,)),
    "Parallel": (lambda: nn.Parallel(nn.Linear(4, 3), nn.GRUCell(4, 2), joined="concatenated"), (4,)),
    "Lambda": (lambda: nn.Lambda(lambda x: x * x), (4,)),
    "AlignPost": (lambda: nn.AlignPost(nn.SynapticCurrent.cuba(), nn.Linear(4, 5), nn.Expon(5)), (4,)),
    "AlignPre": (lambda: nn.AlignPre(nn.SynapticCurrent.delta(), [nn.Linear(4, 5)], nn.Alpha(4)), (4,)),
    "Identity": (lambda: nn.Identity(), (4,)),
    "GLU": (lambda: nn.GLU(axis=-1), (4,)),
    "Threshold": (lambda: nn.Threshold(0.1, value=0.0), (4,)),
}
for _kind in ("Avg", "Max"):
    for _d, _shape in ((1, (6, 2)), (2, (4, 4, 2)), (3, (4, 4, 4, 1))):
        _fixed, _adaptive = f"{_kind}Pool{_d}d", f"Adaptive{_kind}Pool{_d}d"
        ROWS[_fixed] = (lambda c=_fixed, d=_d: getattr(nn, c)((2,) * d, padding=[(1, 1)]), _shape)
        ROWS[_adaptive] = (lambda c=_adaptive, d=_d: getattr(nn, c)((2,) * d), _shape)
for _name in (
    "CELU ELU GELU HardShrink HardSigmoid HardSiLU HardTanh LeakyReLU LogSigmoid LogSoftmax Mish ReLU ReLU6 SELU "
    "Sigmoid SiLU Softmax Softmin Softplus SoftShrink SoftSign Tanh TanhShrink"
).split():
    ROWS[_name] = (lambda c=_name: getattr(nn, c)(), (4,))
