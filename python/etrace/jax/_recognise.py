"""Products of a parameter become operators that own it (operators="auto"): matrix products, convolutions, rows of a
table, and element by element for everything else. Works on programs of model files. Start with `recognise`.

A value is a *weight* if it follows from parameters and constants alone, and *data* if an argument or a state has a
part in it. Where a weight meets data an operator is put; what was done to the weight before stays before it."""

import collections

import numpy as np

from .. import _core
from ._gates import split_gates
from ._program import Eqn, Literal, Program, Var, without_dead_code

CONST, WEIGHT, DATA = "constant", "weight", "data"
_ELEMENTWISE = {name for name, (elementwise, _) in _core._rows().items() if elementwise}


def recognise(program, kinds, batch_size=None):
    """The program with operators, and a list of sentences on what was found. `kinds`: WEIGHT or DATA per input;
    `batch_size`: the leading axis of data counts samples."""
    return _Recognise(batch_size).program(program, kinds)


class _Recognise:
    def __init__(self, batch_size):
        self.batch_size = batch_size
        self.found = []

    def program(self, program, kinds):
        return _Body(self, program, kinds).run(), self.found


class _Body:
    """One program: `kind` of every value, equations so far, and the equation that defined each."""

    def __init__(self, owner, program, kinds):
        program = without_dead_code(split_gates(program, kinds, _ELEMENTWISE))
        self.owner, self.source = owner, program
        self.batch = owner.batch_size
        self.kind = {v: CONST for v, _ in program.consts}
        self.kind.update(zip(program.invars, kinds))
        self.consts, self.eqns, self.definition, self.marked = list(program.consts), [], {}, {}
        self.narrowed = {}  # a weight that was spread over the batch -> the weight before, or None
        self.uses = collections.Counter(a for e in program.eqns for a in e.ins if isinstance(a, Var))
        self.uses.update(a for a in program.outs if isinstance(a, Var))
        self.renamed = {}

    def run(self):
        for eqn in self.source.eqns:
            eqn = Eqn(eqn.prim, [self.renamed.get(a, a) if isinstance(a, Var) else a for a in eqn.ins],
                      eqn.outs, eqn.params, eqn.where)
            self.equation(eqn)
        outs = [self.renamed.get(a, a) if isinstance(a, Var) else a for a in self.source.outs]
        return Program(self.consts, self.source.invars, self.eqns, outs)

    def out_kinds(self):
        return [self.kind_of(self.renamed.get(a, a) if isinstance(a, Var) else a) for a in self.source.outs]

    # Equations -----------------------------------------------------------------------------------------------
    def kind_of(self, atom):
        return CONST if isinstance(atom, Literal) else self.kind[atom]

    def add(self, prim, ins, shape, dtype, params, where, kind):
        """A new equation with one result."""
        out = Var(tuple(shape), dtype)
        return self.put(Eqn(prim, list(ins), [out], params, where), [kind])[0]

    def put(self, eqn, kinds):
        self.eqns.append(eqn)
        for var, kind in zip(eqn.outs, kinds):
            self.kind[var] = kind
            self.definition[var] = eqn
        return eqn.outs

    def equation(self, eqn):
        kinds = [self.kind_of(a) for a in eqn.ins]
        if eqn.prim.startswith("etp_"):
            self.put(eqn, [DATA])
        elif eqn.prim == "transpose" and self.turned_back(eqn):
            pass
        elif eqn.prim in ("scan", "cond") and WEIGHT in kinds:
            getattr(self, eqn.prim)(eqn, kinds)
        elif WEIGHT not in kinds or DATA not in kinds:
            kind = DATA if DATA in kinds else WEIGHT if WEIGHT in kinds else CONST
            self.put(eqn, [kind] * len(eqn.outs))
        elif eqn.prim == "while":
            self.note(eqn, "a weight inside a while loop is learned by the gradient of the step alone")
            self.put(eqn, [DATA] * len(eqn.outs))
        else:
            handler = getattr(self, "on_" + eqn.prim, None)
            if handler is None or not handler(eqn, kinds):
                self.element_wise_operands(eqn, kinds)

    def note(self, eqn, text):
        self.owner.found.append(f"{eqn.where}: {text}" if eqn.where else text)

    def turned_back(self, eqn):
        """A transpose that undoes the one before it, as products with the weight in front have it."""
        before = self.definition.get(eqn.ins[0])
        if before is None or before.prim != "transpose" or self.kind_of(eqn.ins[0]) != DATA:
            return False
        order = [before.params["permutation"][i] for i in eqn.params["permutation"]]
        return order == sorted(order) and self.replace(eqn, before.ins[0])

    def replace(self, eqn, value):
        """What was the result of `eqn` is now `value`."""
        self.renamed[eqn.outs[0]] = value
        return True

    # Element by element --------------------------------------------------------------------------------------
    def element_wise_operands(self, eqn, kinds):
        floating = [k == WEIGHT and a.dtype.startswith(("float", "bfloat")) for a, k in zip(eqn.ins, kinds)]
        ins = [self.spread(a, eqn) if f else a for a, f in zip(eqn.ins, floating)]
        if eqn.prim == "add" and self.as_bias(eqn, ins, kinds):
            return
        ins = [self.element_wise(a, eqn) if f else a for a, f in zip(ins, floating)]
        self.put(Eqn(eqn.prim, ins, eqn.outs, eqn.params, eqn.where), [DATA] * len(eqn.outs))

    def spread(self, weight, eqn):
        """The weight in the shape of the result: operators whose result is spread later would mix positions."""
        shape = eqn.outs[0].shape
        if eqn.prim not in _ELEMENTWISE or weight.shape == shape:
            return weight
        if (weight, shape) not in self.marked:
            axes = list(range(len(shape) - len(weight.shape), len(shape)))
            self.marked[weight, shape] = self.add(
                "broadcast_in_dim", [weight], shape, weight.dtype,
                {"shape": list(shape), "broadcast_dimensions": axes}, eqn.where, WEIGHT)
        return self.marked[weight, shape]

    def element_wise(self, weight, eqn):
        """The weight behind an operator of its own; without the batch axis, if it was spread over that."""
        if weight in self.marked:
            return self.marked[weight]
        narrow = self.without_batch(weight)
        source = weight if narrow is None else narrow
        y = self.add("etp_elemwise", [source], source.shape, source.dtype, {}, eqn.where, DATA)
        if narrow is not None:
            axes = list(range(1, len(weight.shape)))
            y = self.add("broadcast_in_dim", [y], weight.shape, weight.dtype,
                         {"shape": list(weight.shape), "broadcast_dimensions": axes}, eqn.where, DATA)
        self.note(eqn, f"{eqn.prim}: a weight {source.dtype}{list(source.shape)} acts element by element")
        self.marked[weight] = y
        return y

    def without_batch(self, weight):
        """The same weight before it was spread over the batch; None if it was not."""
        if self.batch is None or not weight.shape or weight.shape[0] != self.batch or weight not in self.definition:
            return None
        if weight not in self.narrowed:
            self.narrowed[weight] = self.narrow(weight)
        return self.narrowed[weight]

    def narrow(self, weight):
        eqn, shape = self.definition[weight], weight.shape[1:]
        if eqn.prim == "broadcast_in_dim":
            x, axes = eqn.ins[0], list(eqn.params["broadcast_dimensions"])
            if 0 in axes:
                at = axes.index(0)
                if x.shape[at] != 1 or self.batch == 1:
                    return None
                sizes = [n for i, n in enumerate(x.shape) if i != at]
                x = self.add("reshape", [x], sizes, x.dtype, {"new_sizes": sizes}, eqn.where, WEIGHT)
                axes.remove(0)
            if x.shape == shape and [a - 1 for a in axes] == list(range(len(shape))):
                return x
            return self.add("broadcast_in_dim", [x], shape, x.dtype,
                            {"shape": list(shape), "broadcast_dimensions": [a - 1 for a in axes]}, eqn.where, WEIGHT)
        if eqn.prim in _ELEMENTWISE:
            ins = [a if isinstance(a, Literal) or not a.shape else self.without_batch(a) for a in eqn.ins]
            if None not in ins:
                return self.add(eqn.prim, ins, shape, weight.dtype, eqn.params, eqn.where, WEIGHT)
        return None

    def as_bias(self, eqn, ins, kinds):
        """x·W + b in one operator, if nothing else reads x·W."""
        at = kinds.index(WEIGHT)
        y, bias = ins[1 - at], ins[at]
        product = self.definition.get(y)
        if product is None or product.prim not in ("etp_mm", "etp_mv") or product.params["has_bias"]:
            return False
        if product.outs[0] is not y or bias.dtype != y.dtype or not self.is_read_once(y):
            return False
        narrow = bias if product.prim == "etp_mv" else self.without_batch(bias)
        if narrow is None or narrow.shape != y.shape[-1:]:
            return False
        self.eqns.remove(product)
        self.put(Eqn(product.prim, [*product.ins, narrow], eqn.outs, {**product.params, "has_bias": True},
                     product.where), [DATA])
        return True

    def is_read_once(self, y):
        """Whether one equation reads the value, under all names that it has had."""
        turned = [e.outs[0] for e in self.eqns if e.prim == "transpose" and e.ins[0] is y]
        names = [v for v, new in self.renamed.items() if new is y or any(new is t for t in turned)]
        return all(self.uses[v] == 1 for v in names or [y]) and sum(new is y for new in self.renamed.values()) <= 1

    # Products ------------------------------------------------------------------------------------------------
    def transposed(self, x, order, where):
        before = self.definition.get(x)
        if before is not None and before.prim == "transpose":  # two of them are one, or none
            x, order = before.ins[0], [before.params["permutation"][i] for i in order]
        if list(order) == list(range(len(order))):
            return x
        return self.add("transpose", [x], [x.shape[i] for i in order], x.dtype, {"permutation": list(order)}, where,
                        self.kind_of(x))

    def reshaped(self, x, sizes, where):
        return self.add("reshape", [x], sizes, x.dtype, {"new_sizes": list(sizes)}, where, self.kind_of(x))

    def on_dot_general(self, eqn, kinds):
        at = kinds.index(WEIGHT)
        out = eqn.outs[0]
        if any(a.dtype != out.dtype for a in eqn.ins) or not eqn.ins[at].shape:
            return False  # a product in another type than its operands, or a number that scales
        (contract, shared) = eqn.params["dimension_numbers"]
        w, x = eqn.ins[at], eqn.ins[1 - at]
        cw, cx, sw, sx = contract[at], contract[1 - at], shared[at], shared[1 - at]
        free_x = [i for i in range(len(x.shape)) if i not in cx and i not in sx]
        free_w = [i for i in range(len(w.shape)) if i not in cw and i not in sw]
        if self.batch is None:
            samples = None
        else:
            candidates = [i for i in free_x if x.shape[i] == self.batch]
            if not candidates or (candidates[0] != 0 and len(candidates) > 1):
                return False
            samples = candidates[0]
        plain = not sw and len(cw) == 1 and len(free_w) == 1
        if plain and free_x == ([] if samples is None else [samples]):
            y = self.matmul(eqn, x, w, cx[0], cw[0], samples)
            order = [0, 1] if at == 1 else [1, 0]
            return self.replace(eqn, y if samples is None else self.transposed(y, order, eqn.where))
        letters = iter("abcdefghijklmnopqrstuvwxyz")
        name_x, name_w = {}, {}
        for i, j in [*zip(sx, sw), *zip(cx, cw)]:
            name_x[i] = name_w[j] = next(letters)
        name_x.update((i, next(letters)) for i in free_x)
        name_w.update((i, next(letters)) for i in free_w)
        lhs_free, rhs_free = ([name_x[i] for i in free_x], [name_w[i] for i in free_w])[::-1 if at == 0 else 1]
        result = [name_x[i] for i in sx] + lhs_free + rhs_free
        return self.replace(eqn, self.einsum(eqn, x, w, name_x, name_w, result, samples, letters))

    def matmul(self, eqn, x, w, cx, cw, samples):
        x = self.transposed(x, [0] if samples is None else [samples, cx], eqn.where)
        w = self.transposed(w, [cw, 1 - cw], eqn.where)
        prim, shape = ("etp_mv", [w.shape[1]]) if samples is None else ("etp_mm", [x.shape[0], w.shape[1]])
        self.note(eqn, f"matrix product with a weight {w.dtype}{list(w.shape)}")
        return self.add(prim, [x, w], shape, w.dtype, {"has_bias": False}, eqn.where, DATA)

    def einsum(self, eqn, x, w, name_x, name_w, result, samples, letters):
        spec_x = [name_x[i] for i in range(len(x.shape))]
        if samples is None:
            first = next(letters)
            x = self.reshaped(x, [1, *x.shape], eqn.where)
            spec_x = [first, *spec_x]
        else:
            first = spec_x[samples]
            order = [samples, *(i for i in range(len(x.shape)) if i != samples)]
            x = self.transposed(x, order, eqn.where)
            spec_x = [spec_x[i] for i in order]
        spec_y = [first, *(c for c in result if c != first)]
        spec_w = [name_w[i] for i in range(len(w.shape))]
        sizes = dict(zip(spec_w, w.shape)) | dict(zip(spec_x, x.shape))
        equation = f"{''.join(spec_x)},{''.join(spec_w)}->{''.join(spec_y)}"
        y = self.add("etp_einsum", [x, w], [sizes[c] for c in spec_y], w.dtype, {"equation": equation}, eqn.where, DATA)
        self.note(eqn, f"einsum {equation} with a weight {w.dtype}{list(w.shape)}")
        if samples is None:
            return self.reshaped(y, eqn.outs[0].shape, eqn.where)
        return self.transposed(y, [spec_y.index(c) for c in result], eqn.where)

    def on_conv_general_dilated(self, eqn, kinds):
        p, out = eqn.params, eqn.outs[0]
        numbers = p["dimension_numbers"]
        if kinds[1] != WEIGHT or any(a.dtype != out.dtype for a in eqn.ins):
            return False
        x, kernel = eqn.ins
        if numbers["lhs_spec"][0] != 0 or numbers["out_spec"][0] != 0:
            return False
        if x.shape[0] != (1 if self.batch is None else self.batch):
            return False
        params = {"has_bias": False, "strides": p["window_strides"], "padding": p["padding"],
                  "dimension_numbers": numbers}
        params.update((k, p[k]) for k in ("lhs_dilation", "rhs_dilation", "feature_group_count", "batch_group_count"))
        self.note(eqn, f"convolution with a kernel {kernel.dtype}{list(kernel.shape)}")
        return self.replace(eqn, self.add("etp_conv", [x, kernel], out.shape, out.dtype, params, eqn.where, DATA))

    # Rows of a table -----------------------------------------------------------------------------------------
    def on_gather(self, eqn, kinds):
        table, index = eqn.ins
        p, n = eqn.params, eqn.params["dimension_numbers"]
        rows = (kinds[0] == WEIGHT and len(table.shape) == 2 and list(p["slice_sizes"]) == [1, table.shape[1]]
                and list(n["collapsed_slice_dims"]) == [0] and list(n["start_index_map"]) == [0]
                and not n.get("operand_batching_dims"))
        count = () if self.batch is None else (self.batch,)
        filled = "FILL" in str(p["mode"]).upper()
        if not rows or index.shape != (*count, 1) or list(n["offset_dims"]) != [len(count)] \
                or (filled and p.get("fill_value") is not None):
            return False
        index = self.reshaped(index, count, eqn.where)
        return self.replace(eqn, self.embedding(eqn, table, index, filled))

    def on_dynamic_slice(self, eqn, kinds):
        table, index = eqn.ins[0], eqn.ins[1]
        if self.batch is not None or len(table.shape) != 2 or kinds[0] != WEIGHT or isinstance(index, Literal) \
                or list(eqn.params["slice_sizes"]) != [1, table.shape[1]]:
            return False
        row = self.embedding(eqn, table, index, False)
        return self.replace(eqn, self.reshaped(row, [1, table.shape[1]], eqn.where))

    def embedding(self, eqn, table, index, filled):
        """etp_emb counts negative indices from the end once, which the program did already where it wants it: here
        they are out of range, as all that is not in the table."""
        rows, dtype, shape = table.shape[0], index.dtype, index.shape

        def step(prim, ins, dtype=dtype):
            return self.add(prim, ins, shape, dtype, {}, eqn.where, self.kind_of(index))

        def number(value):
            if not shape:
                return Literal(value, dtype)
            return self.add("broadcast_in_dim", [Literal(value, dtype)], shape, dtype,
                            {"shape": list(shape), "broadcast_dimensions": []}, eqn.where, CONST)
        if filled:
            outside = step("lt", [index, number(0)], "bool")
            index = step("select_n", [outside, index, number(rows)])
        else:
            index = step("max", [step("min", [index, number(rows - 1)]), number(0)])
        self.note(eqn, f"rows of a table {table.dtype}{list(table.shape)}")
        return self.add("etp_emb" if shape else "etp_emb_v", [index, table], [*shape, table.shape[1]], table.dtype, {},
                        eqn.where, DATA)

    # Control flow --------------------------------------------------------------------------------------------
    def scan(self, eqn, kinds):
        """Weights may come in as constants of the loop; as carries or along its axis they act element by element."""
        consts, carry = eqn.params["num_consts"], eqn.params["num_carry"]
        everywhere = DATA if DATA in kinds else WEIGHT
        if everywhere == WEIGHT:
            self.put(eqn, [WEIGHT] * len(eqn.outs))
            return
        ins = list(eqn.ins)
        for i in range(consts, len(ins)):
            if kinds[i] == WEIGHT:
                ins[i] = self.element_wise(ins[i], eqn)
        inside = [*kinds[:consts], *([DATA] * (len(ins) - consts))]
        body = _Body(self.owner, eqn.params["jaxpr"], inside).run()
        del carry
        self.put(Eqn("scan", ins, eqn.outs, {**eqn.params, "jaxpr": body}, eqn.where), [DATA] * len(eqn.outs))

    def cond(self, eqn, kinds):
        if DATA not in kinds:
            self.put(eqn, [WEIGHT] * len(eqn.outs))
            return
        bodies = [_Body(self.owner, b, kinds[1:]) for b in eqn.params["branches"]]
        branches = [b.run() for b in bodies]
        # A branch that returns a weight untouched chooses it by data: it acts element by element.
        for body, branch in zip(bodies, branches):
            outs = []
            for atom, kind in zip(branch.outs, body.out_kinds()):
                outs.append(body.element_wise(atom, eqn) if kind == WEIGHT else atom)
            branch.outs = outs
        self.put(Eqn("cond", eqn.ins, eqn.outs, {**eqn.params, "branches": branches}, eqn.where),
                 [DATA] * len(eqn.outs))
