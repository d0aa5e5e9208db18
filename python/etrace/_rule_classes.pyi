"""Written by tools/python_stubs.py; do not edit."""

from ._core import ArrayLike, DtypeLike
from ._rules import LearningRule

class DNI(LearningRule):
    """D_RTRL in windows, with an estimate of later losses for parameters without a trace; its memory and the estimator's.

        e   <-  D e + ∂h/∂θ          e: [batch, *θ.shape, states]
        dθ  +=  Σ ∂L/∂h e
    Parameters without a trace also get the estimate of what later windows will say to them.

    Gradient: that of D_RTRL; parameters without a trace are exact as far as the estimate is.

    Options:
        trace_dtype (dtype; f16, bf16, f32, f64): type that traces are kept in; sums stay in the model's type
        composite (bool; default False): trace weights behind other weights, too; memory batch x weights x states of all units
        composite_max_bytes (int; at least 0; default 1073741824): composite: refuse if these traces take more

        learner = et.compile(model, et.DNI(), example, batch_size=1)"""
    def __init__(self, *, trace_dtype: DtypeLike | None = ..., composite: bool = ..., composite_max_bytes: int = ...) -> None: ...
class D_RTRL(LearningRule):
    """One trace per weight and output, Jacobians without recurrent products; memory batch x weights x states of a unit.

        e   <-  D e + ∂h/∂θ          e: [batch, *θ.shape, states]
        dθ  +=  Σ ∂L/∂h e
    D leaves out recurrent products (h W): what a state does to itself is kept.

    Gradient: exact where states act on themselves position by position, outside of recurrent products.
    Also named ParamDimVjpAlgorithm.

    Options:
        trace_dtype (dtype; f16, bf16, f32, f64): type that traces are kept in; sums stay in the model's type
        fast_solve (bool; default True): how the reference system sums; here all sums are fast, and it changes nothing
        composite (bool; default False): trace weights behind other weights, too; memory batch x weights x states of all units
        composite_max_bytes (int; at least 0; default 1073741824): composite: refuse if these traces take more

        learner = et.compile(model, et.D_RTRL(), example, batch_size=1)"""
    def __init__(self, *, trace_dtype: DtypeLike | None = ..., fast_solve: bool = ..., composite: bool = ..., composite_max_bytes: int = ...) -> None: ...
ParamDimVjpAlgorithm = D_RTRL
class EProp(LearningRule):
    """D_RTRL with a filter behind the trace, that of the model's leaky readout, and random feedback, if wanted; the memory of D_RTRL, twice that with a filter.

        e   <-  D e + ∂h/∂θ          e: [batch, *θ.shape, states]
        ē   <-  κ ē + e              the filter of a leaky readout; none without one
        dθ  +=  Σ s ē                s: ∂L/∂h, or the error through fixed random weights

    Gradient: that of D_RTRL with symmetric feedback and no filter, else approximate.
    Also named e_prop.

    Options:
        feedback (str; symmetric, random; default symmetric): how the loss comes back: by its gradient, or through fixed random weights
        kappa_filter_decay (float; [0, 1)): of the filter behind the trace; not given: that of a leaky readout, which is found by structure, for single steps; none where there is no such readout. Leaky readouts themselves are not filtered
        random_feedback_key (int; any): from which random weights are drawn; random feedback needs it
        unfiltered (str; paths, with commas between them): hidden states whose learning signals are multiplied with the trace itself, not with its filter
        trace_dtype (dtype; f16, bf16, f32, f64): type that traces are kept in; sums stay in the model's type
        composite (bool; default False): trace weights behind other weights, too; memory batch x weights x states of all units
        composite_max_bytes (int; at least 0; default 1073741824): composite: refuse if these traces take more

        learner = et.compile(model, et.EProp(), example, batch_size=1)"""
    def __init__(self, *, feedback: str | None = ..., kappa_filter_decay: float | None = ..., random_feedback_key: int | None = ..., unfiltered: str | None = ..., trace_dtype: DtypeLike | None = ..., composite: bool = ..., composite_max_bytes: int = ...) -> None: ...
e_prop = EProp
class OSTLFeedforward(LearningRule):
    """pp_prop that forgets at once (decay 1e-6); memory batch x (inputs + outputs x states of a unit).

        dθ  +=  x ⊗ (Σ ∂L/∂h ∂h/∂y)
    pp_prop with a decay of 1e-6: what came before the step is forgotten.

    Gradient: approximate: only the step itself is in the trace.
    Also named ostl_feedforward.

        learner = et.compile(model, et.OSTLFeedforward(), example, batch_size=1)"""
    def __init__(self) -> None: ...
ostl_feedforward = OSTLFeedforward
class OSTLRecurrent(LearningRule):
    """D_RTRL with the recurrent products' own blocks in the Jacobian; the same memory.

        e   <-  D e + ∂h/∂θ          e: [batch, *θ.shape, states]
        dθ  +=  Σ ∂L/∂h e
    D has the diagonal blocks of recurrent products (h W), too.

    Gradient: exact where positions of a group do not act on each other.
    Also named ostl_recurrent.

    Options:
        trace_dtype (dtype; f16, bf16, f32, f64): type that traces are kept in; sums stay in the model's type
        composite (bool; default False): trace weights behind other weights, too; memory batch x weights x states of all units
        composite_max_bytes (int; at least 0; default 1073741824): composite: refuse if these traces take more

        learner = et.compile(model, et.OSTLRecurrent(), example, batch_size=1)"""
    def __init__(self, *, trace_dtype: DtypeLike | None = ..., composite: bool = ..., composite_max_bytes: int = ...) -> None: ...
ostl_recurrent = OSTLRecurrent
class pp_prop(LearningRule):
    """The trace as a product of two low-pass filtered sides; memory batch x (inputs + outputs x states of a unit).

        εx  <-  αx εx + x                      εx: [batch, inputs]
        εf  <-  αf D εf + (1 - αf) ∂h/∂y       εf: [batch, outputs, states]
        dθ  +=  εx ⊗ (Σ ∂L/∂h εf) / (1 - αf^n)
    A rank r stands for the decay α = (r - 1) / (r + 1); n counts the steps.

    Gradient: approximate: a rank-one trace.
    Also named ES_D_RTRL, ESD_RTRL, IODimVjpAlgorithm.

    Options:
        decay_or_rank (float; a decay in [0, 1) or a rank ≥ 1; default 0.95): how slowly both sides forget; in files also a pair (input side, output side)
        input_decay_or_rank (float; a decay in [0, 1) or a rank ≥ 1): the same for the input side alone

        learner = et.compile(model, et.pp_prop(), example, batch_size=1)"""
    def __init__(self, *, decay_or_rank: float = ..., input_decay_or_rank: float | None = ...) -> None: ...
ES_D_RTRL = pp_prop
ESD_RTRL = pp_prop
IODimVjpAlgorithm = pp_prop
class SnAp(LearningRule):
    """D_RTRL with the influence on all positions that are reached within n - 1 steps; memory batch x weights x states of a unit x positions.

        e   <-  D e + ∂h/∂θ          e: [batch, *θ.shape, states · reached positions]
        dθ  +=  Σ ∂L/∂h e
    D and e hold all positions that are reached within n - 1 steps.

    Gradient: exact once n - 1 steps reach every position that is ever reached.
    Also named snap_n.

    Options:
        n (int; at least 1; default 2): steps + 1 within which influence is kept
        snap_max_jacobian_elements (int; at least 1; default 16777216): refuse if positions x (neighbours x states)² is more
        trace_dtype (dtype; f16, bf16, f32, f64): type that traces are kept in; sums stay in the model's type

        learner = et.compile(model, et.SnAp(), example, batch_size=1)"""
    def __init__(self, *, n: int = ..., snap_max_jacobian_elements: int = ..., trace_dtype: DtypeLike | None = ...) -> None: ...
snap_n = SnAp
class ThreeFactor(LearningRule):
    """D_RTRL's trace times a modulator from outside, such as a reward; single steps; the memory of D_RTRL.

        e   <-  D e + ∂h/∂θ          e: [batch, *θ.shape, states]
        dθ  +=  Σ m e
    m: the modulator of the call, or of learner.set_modulator, in place of ∂L/∂h.

    Gradient: no statement: the modulator decides.
    Also named three_factor.

    Options:
        modulator (float; a number): the third factor where a call gives none
        trace_dtype (dtype; f16, bf16, f32, f64): type that traces are kept in; sums stay in the model's type
        composite (bool; default False): trace weights behind other weights, too; memory batch x weights x states of all units
        composite_max_bytes (int; at least 0; default 1073741824): composite: refuse if these traces take more

        learner = et.compile(model, et.ThreeFactor(), example, batch_size=1)"""
    def __init__(self, *, modulator: ArrayLike | None = ..., trace_dtype: DtypeLike | None = ..., composite: bool = ..., composite_max_bytes: int = ...) -> None: ...
three_factor = ThreeFactor
class UORO(LearningRule):
    """A random estimate of all influence within a group; memory parameters + batch x states of all units.

        h̃   <-  ρ0 D h̃ + ρ1 ν                  ν: random signs; h̃: [batch, positions, states]
        θ̃   <-  θ̃ / ρ0 + (ν ∂h/∂θ) / ρ1        θ̃: [batch, *θ.shape]
        dθ  +=  (Σ ∂L/∂h h̃) θ̃
    An estimate of RTRL within each group that is right on average; ρ0 and ρ1 keep its variance low.

    Gradient: exact in the mean over its draws, within each group; noisy.
    Also named RandomProjectionVjpAlgorithm.

    Options:
        projection_key (int; any; default 42): from which signs are drawn
        projection_eps (float; positive; default 1e-12): keeps the two factors apart from zero
        fast_solve (bool; default True): how the reference system sums; it changes nothing

        learner = et.compile(model, et.UORO(), example, batch_size=1)"""
    def __init__(self, *, projection_key: int = ..., projection_eps: float = ..., fast_solve: bool = ...) -> None: ...
RandomProjectionVjpAlgorithm = UORO
