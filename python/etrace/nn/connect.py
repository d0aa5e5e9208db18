"""Which neuron is connected to which: patterns for sparse layers."""

from .._core._connect import *  # noqa: F401,F403
