"""etrace: recurrent and spiking models that learn online, compiled into native code.

    import etrace as et
"""

import typing as _typing

from . import _cpu

if not _cpu.main_interpreter():
    raise ImportError("etrace works in the main interpreter of a process only; use threads, or processes of their own")
if _cpu.missing():
    raise ImportError(
        f"this CPU has no {_cpu.missing()}, which the kernels of etrace are built for (x86-64-v3); build it on this "
        "machine with: pip install . -Ccmake.define.ETRACE_NATIVE=ON"
    )
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

if not hasattr(_core, "__version__"):  # the folder of its stubs
    raise ImportError("the extension etrace._core is not built for this Python; install the package with pip install .")
from ._core import *  # noqa: F401,F403

from . import _pickle  # noqa: F401  says how functions of the extension are copied

del random, units  # noqa: F821  the modules of these names take their place
from . import random, units  # noqa: E402,F401
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

from ._module import (  # noqa: F401
    Module,
    init_all_states,
    params,
    reset_all_states,
    set_params,
    states,
)
from ._containers import ModuleDict, ModuleList, Sequential  # noqa: F401
from ._trace import Model, load_parameters, read_model, save_parameters, summary, trace_step  # noqa: F401
from ._graph import ETraceGraph, Plan, Report, compile_etrace_graph  # noqa: F401
from ._learner import EligibilityTrace, Learner, SequenceGradient, SequenceTraining, compile  # noqa: F401
from ._verify import compare_rules, verify  # noqa: F401
from ._rules import CustomRule, ETraceConfig, LearningRule, rules  # noqa: F401
from ._rule_classes import *  # noqa: F401,F403

from . import data, loss, metrics, models, nn, optim, tasks  # noqa: F401
from ._compare_training import TrainingComparison, compare_training  # noqa: F401
from ._train import Predictions, Run, Score, resume, runs, train  # noqa: F401

TypeError = _errors.TypeError
ValueError = _errors.ValueError
IndexError = _errors.IndexError

__version__ = _core.__version__


if _typing.TYPE_CHECKING:
    from . import array_api, braintrace, jax, nir, torch
else:

    def __getattr__(name):
        """What needs other packages is imported when it is first used."""
        if name in ("jax", "torch", "nir", "braintrace", "array_api"):
            import importlib

            return importlib.import_module("." + name, __name__)
        raise AttributeError(f"module 'etrace' has no attribute '{name}'")


# What `from etrace import *` brings: nothing that hides a name of Python.
import builtins as _builtins  # noqa: E402

__all__ = [name for name in globals() if not name.startswith("_") and not hasattr(_builtins, name)]
