"""Models from JAX.

    model = et.jax.from_step(step, params, state, example)       # step(params, state, x) -> (state, y)

Products of parameters become operators that learn them online; `matmul` and its kin mark them by hand and are ordinary
functions in JAX. `from_braintrace` takes a model of braintrace, brainstate or brainpy.state as it is."""

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
from ._step import Imported, from_step, reference_run, to_model_file

__all__ = [
    "Imported", "SparsePattern", "conv", "einsum", "element_wise", "embedding", "from_step", "grouped_matmul",
    "lora_matmul", "matmul", "reference_run", "sparse_matmul", "to_model_file",
]
