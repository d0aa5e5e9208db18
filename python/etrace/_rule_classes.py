"""The learning rules by their names. The stub beside this file shows them to editors and type checkers."""

from ._rules import exported as _exported

globals().update(_exported())
__all__ = list(_exported())
