"""Models from JAX.

    model = et.jax.from_step(step, params, state, example)   # step(params, state, x) -> (state, y)
    learner = et.compile(model, et.D_RTRL(), example)        # … and it learns online
    params = model.params()                                  # the tree that came in, with what was learned

Products of parameters become operators that learn them online; `matmul` and its kin mark them by hand and are ordinary
functions in JAX. `from_braintrace` takes a model of braintrace, brainstate or brainpy.state as it is. `trace` and
`trace_braintrace` give the program of a model file alone."""

from ._braintrace import trace_braintrace
from ._mark import (
    SparsePattern,
    conv,
    einsum,
    element_wise,
    embedding,
    grouped_matmul,
    lora_matmul,
    matmul,
    sparse_matmul,
)
from ._model import StatesModel, StepModel, from_braintrace, from_step
from ._step import Traced, reference_run, to_model_file, trace

__all__ = [
    "SparsePattern", "StatesModel", "StepModel", "from_braintrace", "from_step", "Traced", "conv", "einsum", "element_wise", "embedding", "grouped_matmul", "lora_matmul", "matmul",
    "reference_run", "sparse_matmul", "to_model_file", "trace", "trace_braintrace",
]
