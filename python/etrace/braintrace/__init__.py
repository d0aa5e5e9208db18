"""The names, return forms and defaults of braintrace, so that a script written for it runs here:

    import etrace.braintrace as braintrace
    from etrace.braintrace import brainpy, brainstate, braintools, jnp, u       # where the script uses them

A name without a counterpart is an error that says what to use. docs/from-braintrace.md has the table. To bring a model as it
is, without touching its source, use `et.jax.from_braintrace`."""

from __future__ import annotations

import etrace as _et
from etrace import (  # noqa: F401
    CompilationError,
    ETraceConfig,
    ETraceGraph,
    EligibilityTrace,
    MultiStepData,
    NotSupportedError,
    SingleStepData,
    compile_etrace_graph,
    conv,
    einsum,
    element_wise,
    embedding,
    grouped_matmul,
    lora_matmul,
    matmul,
    register_primitive,
    sparse_matmul,
)
from etrace import Report as CompilationReport  # noqa: F401

from . import brainpy, brainstate, braintools, nn  # noqa: F401
from . import _units as u  # noqa: F401
from ._learner import (  # noqa: F401
    DNI,
    D_RTRL,
    EProp,
    ES_D_RTRL,
    ETraceAlgorithm,
    ETraceVjpAlgorithm,
    ETraceVmap,
    IODimVjpAlgorithm,
    OSTLFeedforward,
    OSTLRecurrent,
    ParamDimVjpAlgorithm,
    RandomProjectionVjpAlgorithm,
    SequenceDriverMixin,
    SnAp,
    ThreeFactor,
    UORO,
    compile,
    pp_prop,
)
from ._names import missing as _missing

jnp = _et  # array functions of a model: jnp.concatenate, jnp.tanh …
brainunit = saiunit = u
__version__ = _et.__version__

_INSTEAD = {
    "ETraceVjpGraphExecutor": "compile does its work",
    "ETraceGraphExecutor": "compile does its work",
    "ETPPrimitive": "register_primitive",
    "ModuleInfo": "et.trace_step(model, x)",
    "extract_module_info": "et.trace_step(model, x)",
    "HiddenGroup": "learner.graph.hidden_groups",
    "HiddenParamOpRelation": "learner.graph.relations",
    "HiddenPerturbation": "learner.graph",
    "find_hidden_groups_from_module": "et.compile_etrace_graph(model, x).hidden_groups",
    "find_hidden_groups_from_minfo": "et.compile_etrace_graph(model, x).hidden_groups",
    "find_hidden_param_op_relations_from_module": "et.compile_etrace_graph(model, x).relations",
    "find_hidden_param_op_relations_from_minfo": "et.compile_etrace_graph(model, x).relations",
    "add_hidden_perturbation_in_module": "learner.graph",
    "add_hidden_perturbation_from_minfo": "learner.graph",
    "CompilationRecord": "learner.graph.diagnostics",
    "DiagnosticKind": "texts: record kinds are words",
    "DiagnosticLevel": "texts: levels are words",
    "ControlFlowPolicy": "compile(..., control_flow=...)",
    "GradExpon": "pp_prop(decay_or_rank=...)",
    "KappaFilter": "EProp(kappa_filter_decay=...)",
    "FixedRandomFeedback": "EProp(feedback='random', random_feedback_key=...)",
    "SyntheticGradient": "learner.train_synthetic_gradient",
    "train_synthetic_gradient": "learner.train_synthetic_gradient",
    "MatMulOp": "braintrace.matmul(x, w, b)",
    "ElemWiseOp": "braintrace.element_wise(w)",
    "ConvOp": "braintrace.conv",
    "SpMatMulOp": "braintrace.sparse_matmul",
    "LoraOp": "braintrace.lora_matmul",
    "ETraceOp": "an operator such as braintrace.matmul",
    "ETraceParam": "brainstate.ParamState and an operator such as braintrace.matmul",
    "ElemWiseParam": "brainstate.ParamState and braintrace.element_wise",
    "NonTempParam": "brainstate.ParamState and a plain product",
    "FakeETraceParam": "brainstate.ParamState and a plain product",
    "FakeElemWiseParam": "brainstate.ParamState",
}


def __getattr__(name):
    raise _missing("braintrace", name, _INSTEAD)
