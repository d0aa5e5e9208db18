"""Physical units: et.units.mV, et.units.ms …, Unit and Quantity."""

from ._core.units import *  # noqa: F401,F403
