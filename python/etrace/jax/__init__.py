"""Models from JAX.

    model = et.jax.trace(step, params, state, example)       # step(params, state, x) -> (state, y)
    model.write("model.json")                                # what the command line and et.read_model take

Products of parameters become operators that learn them online; `matmul` and its kin mark them by hand and are ordinary
functions in JAX. `trace_braintrace` takes a model of braintrace, brainstate or brainpy.state as it is."""

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
from ._step import Traced, reference_run, to_model_file, trace

__all__ = [
    "SparsePattern", "Traced", "conv", "einsum", "element_wise", "embedding", "grouped_matmul", "lora_matmul", "matmul",
    "reference_run", "sparse_matmul", "to_model_file", "trace", "trace_braintrace",
]
