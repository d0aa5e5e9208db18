"""Losses: a prediction and a target in, one number out. Means over all axes, the batch included."""

from ._core._loss import *  # noqa: F401,F403
