"""Initial values of parameters: `weight_init=et.nn.init.kaiming_normal()`."""

from .._core._init import *  # noqa: F401,F403
from .._core._init import family_b  # noqa: F401
