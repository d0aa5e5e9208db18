"""Random numbers by keys: the same key gives the same numbers, everywhere."""

from ._core.random import *  # noqa: F401,F403
