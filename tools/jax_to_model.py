#!/usr/bin/env python3
"""Writes model files (docs/model-files.md) from step functions in JAX, from a checkout without the Python package: the
code is python/etrace/jax, which needs JAX and NumPy alone.

    from jax_to_model import matmul, to_model_file

    def step(params, hidden, x):                    # -> new hidden states, result
        xh = jnp.concatenate([x, hidden["h"]])
        h = jnp.tanh(matmul(xh, params["rnn"]["W"], params["rnn"]["b"]))
        return {"h": h}, h @ params["out"]

    to_model_file("rnn.json", step, params, hidden, x)

With the package installed, write `import etrace as et` and `et.jax.to_model_file`. docs/from-jax.md has it all.
"""

import importlib
import sys
import types
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1] / "python/etrace"
try:
    importlib.import_module("etrace")
except ImportError:  # the extension is not built, and is not needed: the package without its opening file
    sys.modules["etrace"] = types.ModuleType("etrace")
    sys.modules["etrace"].__path__ = [str(_PACKAGE)]

from etrace.jax import *  # noqa: E402,F401,F403
