"""Derivatives of spikes: `surrogate=et.nn.surrogate.relu_grad()`."""

from .._core._surrogate import *  # noqa: F401,F403
