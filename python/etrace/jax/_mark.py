"""Operators that own a weight, as primitives of JAX: a model that uses them runs, differentiates and maps in JAX as
ever, and an imported one learns these weights online.

    y = et.jax.matmul(x, params["W"], params["b"])

Each primitive is a name, the plain function that it computes, and the operand that carries the batch. Under vmap over
the data alone it stays an operator; over its weights it becomes the plain function."""

import functools
import sys

import jax
import jax.core
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching, mlir

from .._errors import NotSupportedError, ValueError

_OWN = set()  # the primitives of this file


def _apply(fn, x):
    return x if fn is None else fn(x)


def _define(name, plain, batch=None):
    """A primitive that computes `plain`. `batch(x, *weights, **params)` is the operator for data with one more leading
    axis."""
    primitive = jax.extend.core.Primitive(name)
    _OWN.add(primitive)
    primitive.def_impl(lambda *x, **params: plain(*x, **params))

    def abstract(*avals, **params):
        types = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        out = jax.eval_shape(functools.partial(plain, **params), *types)
        return jax.core.ShapedArray(out.shape, out.dtype)

    def jvp(primals, tangents, **params):
        moving = [i for i, t in enumerate(tangents) if type(t) is not ad.Zero]

        def along(*values):
            operands = list(primals)
            for i, v in zip(moving, values):
                operands[i] = v
            return plain(*operands, **params)
        _, dy = jax.jvp(along, [primals[i] for i in moving], [tangents[i] for i in moving])
        return primitive.bind(*primals, **params), dy

    def batching_rule(operands, axes, **params):
        if batch is None or any(a is not None for a in axes[1:]):
            mapped = jax.vmap(functools.partial(plain, **params), in_axes=tuple(axes))
            return mapped(*operands), 0
        return batch(jnp.moveaxis(operands[0], axes[0], 0), *operands[1:], **params), 0

    primitive.def_abstract_eval(abstract)
    mlir.register_lowering(primitive, mlir.lower_fun(plain, multiple_results=False))
    ad.primitive_jvps[primitive] = jvp
    batching.primitive_batchers[primitive] = batching_rule
    return primitive


def _pair(name_batched, name_single, plain, further=None):
    """The operator for data with and without a batch axis."""
    batched = _define(name_batched, plain, further)
    single = _define(name_single, plain, lambda *x, **params: batched.bind(*x, **params))
    return batched, single


# What they compute ------------------------------------------------------------------------------------------
def _matmul(x, weight, bias=None, *, has_bias, weight_fn, bias_fn):
    y = x @ _apply(weight_fn, weight)
    return y + _apply(bias_fn, bias) if has_bias else y


def _matmul_further(x, weight, bias=None, *, has_bias, weight_fn, bias_fn):
    y = _einsum_p.bind(x, weight, equation="abi,io->abo", weight_fn=weight_fn)
    return y + element_wise(bias, bias_fn) if has_bias else y


def _grouped(x, weight, bias=None, *, has_bias, weight_fn, bias_fn):
    y = jnp.einsum("...gk,gkn->...gn", x, _apply(weight_fn, weight))
    return y + _apply(bias_fn, bias) if has_bias else y


def _embedding(indices, table, *, weight_fn):
    return jnp.take(_apply(weight_fn, table), indices, axis=0)


def _einsum(x, weight, *, equation, weight_fn):
    return jnp.einsum(equation, x, _apply(weight_fn, weight))


def _element_wise(weight, *, weight_fn):
    return _apply(weight_fn, weight)


def _conv(x, kernel, bias=None, *, has_bias, strides, padding, lhs_dilation, rhs_dilation, feature_group_count,
          batch_group_count, dimension_numbers, kernel_fn, bias_fn):
    y = jax.lax.conv_general_dilated(
        x, _apply(kernel_fn, kernel), strides, padding, lhs_dilation, rhs_dilation, dimension_numbers,
        feature_group_count, batch_group_count)
    if not has_bias:
        return y
    numbers = jax.lax.conv_dimension_numbers(x.shape, kernel.shape, dimension_numbers)
    shape = [1] * y.ndim
    shape[numbers.out_spec[1]] = -1
    bias = _apply(bias_fn, bias)
    return y + (bias.reshape(shape) if bias.ndim == 1 else bias)


def _sparse(x, weight, bias=None, *, sparse_mat, has_bias, weight_fn, bias_fn):
    row, col = sparse_mat.entries()
    products = x[..., row] * _apply(weight_fn, weight)
    y = jnp.zeros((*x.shape[:-1], sparse_mat.shape[1]), products.dtype).at[..., col].add(products)
    return y + _apply(bias_fn, bias) if has_bias else y


def _lora(x, b, a, bias=None, *, alpha, has_bias, b_fn, a_fn, bias_fn):
    y = alpha * (x @ _apply(b_fn, b) @ _apply(a_fn, a))
    return y + _apply(bias_fn, bias) if has_bias else y


_mm_p, _mv_p = _pair("etp_mm", "etp_mv", _matmul, _matmul_further)
_gmm_p, _gmv_p = _pair("etp_gmm", "etp_gmv", _grouped)
_emb_p, _emb_v_p = _pair("etp_emb", "etp_emb_v", _embedding)
_sp_mm_p, _sp_mv_p = _pair("etp_sp_mm", "etp_sp_mv", _sparse)
_lora_mm_p, _lora_mv_p = _pair("etp_lora_mm", "etp_lora_mv", _lora)
_einsum_p = _define("etp_einsum", _einsum)
_elemwise_p = _define("etp_elemwise", _element_wise)
_conv_p = _define("etp_conv", _conv)


# What models call -------------------------------------------------------------------------------------------
def _choose(pair, x, ranks, what):
    if x.ndim not in ranks:
        raise ValueError(f"{what}: x has shape {x.shape}; expected {ranks[1]} axes without a batch or {ranks[0]} with "
                         "one; use einsum for others", stage=what)
    return pair[ranks.index(x.ndim)]


def _with_bias(primitive, x, weights, bias, **params):
    operands = [jnp.asarray(x), *map(jnp.asarray, weights), *([] if bias is None else [jnp.asarray(bias)])]
    return primitive.bind(*operands, has_bias=bias is not None, **params)


def matmul(x, weight, bias=None, *, weight_fn=None, bias_fn=None):
    """y = x·f(W) + g(b); x [B,I] or [I], W [I,O], b [O]."""
    p = _choose((_mm_p, _mv_p), jnp.asarray(x), (2, 1), "matmul")
    return _with_bias(p, x, [weight], bias, weight_fn=weight_fn, bias_fn=bias_fn)


def grouped_matmul(x, weight, bias=None, *, weight_fn=None, bias_fn=None):
    """y[…,g,n] = Σ_k x[…,g,k] f(W)[g,k,n] + h(b)[g,n]; x [B,G,K] or [G,K]."""
    p = _choose((_gmm_p, _gmv_p), jnp.asarray(x), (3, 2), "grouped_matmul")
    return _with_bias(p, x, [weight], bias, weight_fn=weight_fn, bias_fn=bias_fn)


def embedding(indices, weight, *, weight_fn=None):
    """y = f(T)[indices]; whole numbers, one or [B]."""
    indices = jnp.asarray(indices)
    p = _choose((_emb_p, _emb_v_p), indices, (1, 0), "embedding")
    return p.bind(indices, jnp.asarray(weight), weight_fn=weight_fn)


def einsum(equation, x, weight, *, weight_fn=None):
    """A product of data and weight, "bi,io->bo": the first letter of x and y is the batch."""
    return _einsum_p.bind(jnp.asarray(x), jnp.asarray(weight), equation=equation.replace(" ", ""), weight_fn=weight_fn)


def element_wise(weight, weight_fn=None):
    """y = f(w): a weight of any shape that acts element by element."""
    return _elemwise_p.bind(jnp.asarray(weight), weight_fn=weight_fn)


def conv(x, kernel, bias=None, *, strides=None, padding="SAME", lhs_dilation=None, rhs_dilation=None,
         feature_group_count=1, batch_group_count=1, dimension_numbers=None, kernel_fn=None, bias_fn=None):
    """Cross-correlation, with arguments as in jax.lax.conv_general_dilated; x has a batch axis in front."""
    strides = (1,) * (jnp.ndim(x) - 2) if strides is None else tuple(strides)
    if not isinstance(padding, str):
        padding = tuple(tuple(map(int, p)) for p in padding)
    if dimension_numbers is not None and not hasattr(dimension_numbers, "lhs_spec"):
        dimension_numbers = tuple(dimension_numbers)
    return _with_bias(_conv_p, x, [kernel], bias, strides=strides, padding=padding,
                      lhs_dilation=lhs_dilation and tuple(lhs_dilation),
                      rhs_dilation=rhs_dilation and tuple(rhs_dilation), feature_group_count=feature_group_count,
                      batch_group_count=batch_group_count, dimension_numbers=dimension_numbers, kernel_fn=kernel_fn,
                      bias_fn=bias_fn)


def sparse_matmul(x, weight, sparse_mat, bias=None, *, weight_fn=None, bias_fn=None):
    """y = x·sparse(f(w)) + g(b); sparse_mat: a SparsePattern, or a matrix of SciPy or brainevent whose values are left
    alone; w holds one number per stored entry, in its order."""
    p = _choose((_sp_mm_p, _sp_mv_p), jnp.asarray(x), (2, 1), "sparse_matmul")
    return _with_bias(p, x, [weight], bias, sparse_mat=SparsePattern.of(sparse_mat), weight_fn=weight_fn,
                      bias_fn=bias_fn)


def lora_matmul(x, b, a, bias=None, *, alpha=1.0, b_fn=None, a_fn=None, bias_fn=None):
    """y = alpha·x·f(B)·g(A) + h(b); B [I,R], A [R,O]."""
    p = _choose((_lora_mm_p, _lora_mv_p), jnp.asarray(x), (2, 1), "lora_matmul")
    return _with_bias(p, x, [b, a], bias, alpha=float(alpha), b_fn=b_fn, a_fn=a_fn, bias_fn=bias_fn)


class SparsePattern:
    """Which entries of a matrix are stored, and in which order; compared by identity, as JAX wants of parameters."""

    def __init__(self, kind, shape, first, second):
        self.kind, self.shape = kind, tuple(int(n) for n in shape)
        self.first, self.second = (np.asarray(v).astype(np.int64).ravel() for v in (first, second))

    @staticmethod
    def of(matrix):
        if isinstance(matrix, SparsePattern):
            return matrix
        matrix = getattr(matrix, "mat", matrix)  # braintrace wraps it to make it hashable
        kind = getattr(matrix, "format", None) or type(matrix).__name__.lower()
        for word in ("csr", "csc"):
            if kind.startswith(word) and hasattr(matrix, "indptr"):
                return SparsePattern(word, matrix.shape, matrix.indptr, matrix.indices)
        if kind.startswith("coo") and hasattr(matrix, "row"):
            return SparsePattern("coo", matrix.shape, matrix.row, matrix.col)
        raise NotSupportedError(f"a sparse matrix of type {type(matrix).__name__}: there are CSR, CSC and COO",
                                stage="from jax")

    def entries(self):
        """Row and column of every stored entry."""
        if self.kind == "coo":
            return self.first, self.second
        major = np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))
        return (major, self.second) if self.kind == "csr" else (self.second, major)

    def as_param(self):
        names = ("row", "col") if self.kind == "coo" else ("indptr", "indices")
        return {"kind": self.kind, "shape": list(self.shape), names[0]: self.first.tolist(),
                names[1]: self.second.tolist()}


def is_operator(primitive):
    """Whether it owns a weight: by what it is, never by its name."""
    braintrace = sys.modules.get("braintrace")
    return primitive in _OWN or braintrace is not None and isinstance(primitive, braintrace.ETPPrimitive)


# Into the file ----------------------------------------------------------------------------------------------
_FN_OPERAND = {"weight_fn": 1, "kernel_fn": 1, "b_fn": 1, "a_fn": 2, "bias_fn": -1}


def operator_params(eqn, name, nested):
    """Parameters of an operator in the file: functions of weights are traced, patterns spelled out. `nested` turns a
    closed jaxpr into a program."""
    out = {}
    for key, value in eqn.params.items():
        if key in _FN_OPERAND:
            operand = 0 if name == "etp_elemwise" else _FN_OPERAND[key]
            out[key] = None if value is None else nested(_traced(value, eqn.invars[operand].aval))
        elif key == "sparse_mat":
            out[key] = SparsePattern.of(value).as_param()
        elif key == "dimension_numbers" and hasattr(value, "lhs_spec"):
            out[key] = {k: list(getattr(value, k)) for k in ("lhs_spec", "rhs_spec", "out_spec")}
        elif isinstance(value, tuple):
            out[key] = [list(v) if isinstance(v, tuple) else v for v in value]
        else:
            out[key] = value
    return out


def _traced(function, aval):
    return jax.make_jaxpr(function)(jax.ShapeDtypeStruct(aval.shape, aval.dtype))
