"""Errors for names that have no counterpart, and options that say nothing here."""

from .. import _core
from .._errors import NotSupportedError, UnitError


class MissingName(NotSupportedError, AttributeError):
    """hasattr() is false for it, as for any name that is not there."""


def missing(module, name, instead):
    if name.startswith("__"):
        return AttributeError(name)
    advice = f"; use {instead[name]}" if name in instead else ""
    return MissingName(f"{module}.{name} has no counterpart here{advice}", stage="braintrace")


def refuse_options(who, options, advice=""):
    if options:
        raise NotSupportedError(f"{who} has no counterpart for {', '.join(sorted(options))}" + (f"; {advice}" if advice else ""),
                                stage="braintrace")


def plain(value):
    """A quantity as its number in ms, mV, mA, Ω or mS, which is what layers take numbers for; all else as it is."""
    if not isinstance(value, _core.Quantity):
        return value
    for unit in ("ms", "mV", "mA", "ohm", "mS", "one"):
        try:
            return value.to(getattr(_core.units, unit))
        except UnitError:
            continue
    return value.mantissa
