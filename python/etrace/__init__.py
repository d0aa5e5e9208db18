"""etrace: recurrent and spiking models that learn online, compiled into native code.

    import etrace as et
"""

from . import _errors
from ._errors import (  # noqa: F401
    CompilationError,
    Error,
    InternalError,
    IoError,
    NotSupportedError,
    Origin,
    UnitError,
)
from . import _core
from ._core import *  # noqa: F401,F403

TypeError = _errors.TypeError
ValueError = _errors.ValueError
IndexError = _errors.IndexError

__version__ = _core.__version__
