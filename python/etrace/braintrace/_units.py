"""Units by brainunit's names; `math` has the functions of arrays."""

import etrace as math  # noqa: F401
from etrace import Quantity  # noqa: F401
from etrace.units import *  # noqa: F401,F403
from etrace.units import A, S, V  # noqa: F401

volt, amp, siemens, second = V, A, S, math.units.s
UNITLESS = math.units.one


def get_unit(x):
    return x.unit if isinstance(x, Quantity) else UNITLESS


def get_mantissa(x):
    return x.mantissa if isinstance(x, Quantity) else x


def get_magnitude(x):
    return get_mantissa(x)


def maybe_decimal(x):
    return x.decimal() if isinstance(x, Quantity) else x
