"""Stacked gates taken apart: x·W that is cut into pieces afterwards, as most frameworks compute the gates of a cell,
becomes one product per piece. Each then has the shape of a hidden state, and its weight is learned online.

`split_gates` moves a cut along one axis through what acts element by element up to the product, and cuts its weight."""

from ._program import Eqn, Literal, Program, Var

CONST, WEIGHT, DATA = "constant", "weight", "data"


def split_gates(program, kinds, elementwise):
    """The program with such products taken apart. `kinds`: of the inputs; `elementwise`: primitives that act element by
    element."""
    return _Split(program, kinds, elementwise).run()


class _Split:
    def __init__(self, program, kinds, elementwise):
        self.source, self.elementwise = program, elementwise
        self.kind = {v: CONST for v, _ in program.consts}
        self.kind.update(zip(program.invars, kinds))
        self.eqns, self.definition, self.made, self.renamed = [], {}, {}, {}
        self.reached = set()  # (value, axis) whose cut ends at the weight of a product

    def run(self):
        for eqn in self.source.eqns:
            eqn = Eqn(eqn.prim, [self.now(a) for a in eqn.ins], eqn.outs, eqn.params, eqn.where)
            cuts = self.cuts(eqn)
            if cuts and self.reaches_product(eqn.ins[0], cuts[0][0][0]):
                self.renamed.update((out, self.piece(eqn.ins[0], cut, eqn.where)) for cut, out in cuts)
            else:
                self.add(eqn)
        return Program(self.source.consts, self.source.invars, self.eqns, [self.now(a) for a in self.source.outs])

    def now(self, atom):
        """What stands for a value of the program that came in."""
        return atom if isinstance(atom, Literal) else self.renamed.get(atom, atom)

    def add(self, eqn):
        found = {CONST if isinstance(a, Literal) else self.kind[a] for a in eqn.ins}
        kind = DATA if DATA in found or eqn.prim.startswith("etp_") else WEIGHT if WEIGHT in found else CONST
        self.eqns.append(eqn)
        for out in eqn.outs:
            self.kind[out], self.definition[out] = kind, eqn
            if kind == DATA:
                self.reached.update((out, axis) for axis in range(len(out.shape)) if self.leads_to_product(eqn, out, axis))
        return eqn.outs[0]

    def cuts(self, eqn):
        """[((axis, start, end), result)] of an equation that cuts data along one axis."""
        if eqn.prim not in ("slice", "split") or isinstance(eqn.ins[0], Literal) or self.kind[eqn.ins[0]] != DATA:
            return []
        x = eqn.ins[0]
        if eqn.prim == "split":
            axis, start, out = eqn.params["axis"], 0, []
            for size, result in zip(eqn.params["sizes"], eqn.outs):
                out.append(((axis, start, start + size), result))
                start += size
            return out
        p = eqn.params
        starts, ends = p["start_indices"], p["limit_indices"]
        whole = [a for a in range(len(x.shape)) if (starts[a], ends[a]) != (0, x.shape[a])]
        if len(whole) != 1 or any(s != 1 for s in p.get("strides") or ()):
            return []
        return [((whole[0], starts[whole[0]], ends[whole[0]]), eqn.outs[0])]

    def reaches_product(self, x, axis):
        """Whether a cut of x along the axis ends at the weight of a product, with nothing on the way that it cannot pass."""
        return (x, axis) in self.reached

    def leads_to_product(self, eqn, x, axis):
        if eqn.prim == "dot_general":
            return self.weight_axis(eqn, axis) is not None
        if eqn.prim == "transpose":
            return self.reaches_product(eqn.ins[0], eqn.params["permutation"][axis])
        if eqn.prim not in self.elementwise:
            return False
        return any(_goes_along(a, x, axis) and self.reaches_product(a, axis) for a in eqn.ins)

    def weight_axis(self, eqn, axis):
        """(operand, its axis) if the axis of the product's result is one of the weight alone."""
        (cl, cr), (bl, br) = eqn.params["dimension_numbers"]
        free = [(i, a) for i, (c, b) in enumerate(((cl, bl), (cr, br))) for a in range(len(eqn.ins[i].shape))
                if a not in c and a not in b]
        at = axis - len(bl)
        if at < 0 or isinstance(eqn.ins[free[at][0]], Literal):
            return None
        operand, inside = free[at]
        return (operand, inside) if self.kind[eqn.ins[operand]] == WEIGHT else None

    def piece(self, x, cut, where):
        """The part of x, computed from parts of what it is made of."""
        todo = [(x, cut)]
        while todo:
            part = todo[-1]
            before = [p for p in self.parts_of(*part) if p not in self.made]
            if before:
                todo += before
            else:
                self.made[part] = self.made.get(part) or self.make(*part, where)
                todo.pop()
        return self.made[x, cut]

    def parts_of(self, x, cut):
        """The parts of operands that a part of x is computed from; none where it is cut out of x itself."""
        axis, start, end = cut
        eqn = self.definition.get(x)
        if not self.reaches_product(x, axis) or eqn.prim == "dot_general":
            return []
        if eqn.prim == "transpose":
            return [(eqn.ins[0], (eqn.params["permutation"][axis], start, end))]
        return [(a, cut) for a in eqn.ins if _goes_along(a, x, axis)]

    def make(self, x, cut, where):
        axis, start, end = cut
        if not self.reaches_product(x, axis):
            return self.sliced(x, cut, where)
        eqn = self.definition[x]
        if eqn.prim == "dot_general":
            operand, inside = self.weight_axis(eqn, axis)
            ins = list(eqn.ins)
            ins[operand] = self.sliced(ins[operand], (inside, start, end), eqn.where)
            return self.like(eqn, ins, x, cut)
        made = {a: self.made[a, inside] for a, inside in self.parts_of(x, cut)}
        return self.like(eqn, [a if isinstance(a, Literal) else made.get(a, a) for a in eqn.ins], x, cut)

    def like(self, eqn, ins, x, cut):
        return self.add(Eqn(eqn.prim, ins, [Var(_cut_shape(x.shape, cut), x.dtype)], eqn.params, eqn.where))

    def sliced(self, x, cut, where):
        axis, start, end = cut
        starts, ends = [0] * len(x.shape), list(x.shape)
        starts[axis], ends[axis] = start, end
        return self.add(Eqn("slice", [x], [Var(_cut_shape(x.shape, cut), x.dtype)],
                            {"start_indices": starts, "limit_indices": ends, "strides": None}, where))


def _goes_along(a, x, axis):
    """Whether the operand has an axis of its own there; otherwise it is the same all along."""
    return not isinstance(a, Literal) and len(a.shape) == len(x.shape) and a.shape[axis] == x.shape[axis]


def _cut_shape(shape, cut):
    return (*shape[:cut[0]], cut[2] - cut[1], *shape[cut[0] + 1:])
