"""Optimisers, schedules of the learning rate, constraints.

    optimizer = et.optim.Adam(model, et.optim.cosine(1e-3, total=10_000, warmup=500), clip_norm=1.0)
"""

from ._core._optim import *  # noqa: F401,F403
