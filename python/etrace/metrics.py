"""Metrics: scores that add up over batches."""

from ._core._metrics import *  # noqa: F401,F403
