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
from ._core import random, units  # noqa: F401
from . import _trees as tree  # noqa: F401
from ._transforms import (  # noqa: F401
    cond,
    custom_jvp,
    custom_vjp,
    fori_loop,
    grad,
    jacfwd,
    jacrev,
    jit,
    jvp,
    make_jaxpr,
    scan,
    switch_case,
    value_and_grad,
    vjp,
    vmap,
    while_loop,
)

TypeError = _errors.TypeError
ValueError = _errors.ValueError
IndexError = _errors.IndexError

__version__ = _core.__version__
