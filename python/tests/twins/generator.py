"""Random models, each as the text of a Python class and of its twin in C++.

    python generator.py models.h        # the C++ side of the first models

A model is drawn piece by piece. Every piece adds the same lines to both texts, one value each: C++ does not say which
operand of + or which argument of a call is evaluated first. Needs nothing but Python.
"""

import random
import sys


class Lines:
    """The texts of one class while it grows. Values have names and a width, the length of their last axis."""

    def __init__(self, draw, name, width, depth):
        self.draw, self.name, self.depth = draw, name, depth
        self.py_members, self.cpp_members, self.py_body, self.cpp_body, self.cpp_making = [], [], [], [], []
        self.classes = []  # of children, (python, C++)
        self.values = [("x", width)]
        self.count = 0

    # Names and numbers -------------------------------------------------------------------------------------------
    def fresh(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def number(self, low, high):
        return repr(round(self.draw.uniform(low, high), 3))

    def any(self, width=None):
        """A value, of that width if there is one; the newest ones most often."""
        found = [v for v in self.values if width in (None, v[1])]
        return self.draw.choice(found[-3:]) if found else None

    # Lines ---------------------------------------------------------------------------------------------------------
    def member(self, py, cpp, letter="m"):
        """An attribute: `py` makes it, `cpp` declares it with {name} in both places."""
        name = self.fresh(letter)
        self.py_members.append(f"self.{name} = {py}")
        self.cpp_members.append(cpp.replace("{name}", name) + ";")
        return name

    def value(self, width, py, cpp):
        name = self.fresh("v")
        self.py_body.append(f"{name} = {py}")
        self.cpp_body.append(f"const et::Array {name} = {cpp};")
        self.values.append((name, width))
        return name

    def line(self, py, cpp):
        self.py_body.append(py)
        self.cpp_body.append(cpp + ";")

    def layer(self, kind, sizes, width, py_options="", cpp_options="", to=None):
        """A layer of the library, called with a value."""
        py_options, cpp_options = both("dtype=dt", py_options), both(".dtype = dt", cpp_options, ordered=True)
        name = self.member(
            f"nn.{kind}({sizes}, {py_options})",
            f'nn::{kind}& {{name}} = child<nn::{kind}>("{{name}}", {sizes}, {{{cpp_options}}})',
        )
        self.call(name, to, width)
        return name

    def call(self, name, to, width):
        self.value(width, f"self.{name}({to})", f"{name}({to})")

    # The whole class -------------------------------------------------------------------------------------------------
    def texts(self):
        result = self.values[-1][0]
        py = [f"class {self.name}(et.Module):", "    def __init__(self):", "        super().__init__()"]
        py += [f"        {m}" for m in self.py_members] + ["", "    def update(self, x):"]
        py += [f"        {b}" for b in self.py_body] + [f"        return {result}", "", ""]
        cpp = [f"struct {self.name} : et::Module {{"] + [f"  {m}" for m in self.cpp_members]
        if self.cpp_making:
            cpp += [f"  {self.name}() {{"] + [f"    {m}" for m in self.cpp_making] + ["  }"]
        cpp += ["  et::Array update(const et::Array& x) override {"] + [f"    {b}" for b in self.cpp_body]
        cpp += [f"    return {result};", "  }", "};", ""]
        inner = list(self.classes)
        return [*inner, ("\n".join(py), "\n".join(cpp))]


def both(first, second, ordered=False):
    """Two lists of options; C++ wants them in the order of the struct, where the element type stands late."""
    if not second:
        return first
    return f"{second}, {first}" if ordered else f"{first}, {second}"


# Pieces: each adds one or more values ------------------------------------------------------------------------------
PIECES = []


def piece(weight):
    def add(f):
        PIECES.append((f, weight))
        return f

    return add


UNARY = [
    ("et.tanh({a})", "et::tanh({a})"), ("et.sigmoid({a})", "et::logistic({a})"), ("et.sin({a})", "et::sin({a})"),
    ("et.relu({a})", "et::relu({a})"), ("et.silu({a})", "et::silu({a})"), ("et.gelu({a})", "et::gelu({a})"),
    ("et.softplus({a})", "et::softplus({a})"), ("et.elu({a})", "et::elu({a})"), ("et.erf({a})", "et::erf({a})"),
    ("et.atan({a})", "et::atan({a})"), ("et.square({a})", "et::square({a})"), ("-{a}", "-{a}"),
    ("abs({a})", "et::abs({a})"), ("{a} ** 2", "et::integer_pow({a}, 2)"), ("{a} * 0.75", "{a} * 0.75"),
    ("1.5 - {a}", "1.5 - {a}"), ("{a} / 2", "{a} / 2"), ("{a} + 1", "{a} + 1"), ("0.3 * {a}", "0.3 * {a}"),
    ("et.clip({a}, -1.0, 1.0)", "et::clamp(-1.0, {a}, 1.0)"), ("et.leaky_relu({a}, 0.2)", "et::leaky_relu({a}, 0.2)"),
    ("et.softmax({a}, -1)", "et::softmax({a}, -1)"), ("et.nn.mish({a})", "nn::mish({a})"),
    ("et.nn.soft_sign({a})", "nn::soft_sign({a})"), ("et.nn.hard_tanh({a})", "nn::hard_tanh({a})"),
    ("et.nn.standardize({a})", "nn::standardize({a})"), ("et.flip({a}, -1)", "et::flip({a}, -1)"),
    ("et.roll({a}, 1, -1)", "et::roll({a}, 1, -1)"), ("et.cumsum({a}, -1)", "et::cumsum({a}, -1)"),
    ("et.stop_gradient({a})", "et::stop_gradient({a})"), ("et.jit(lambda a: et.tanh(a) + 1.0)({a})",
     "et::jit([](et::ArraySpan a) -> et::Arrays {{ return {{et::tanh(a[0]) + 1.0}}; }})(et::Arrays{{{a}}})[0]"),
    ("et.fori_loop(0, 3, lambda i, c: et.sin(c) * 0.9, {a})",
     "et::fori_loop(0, 3, [](const et::Array&, et::ArraySpan c) -> et::Arrays {{ return {{et::sin(c[0]) * 0.9}}; }},"
     " {{{a}}})[0]"),
    ("et.cond(et.sum({a}) > 0.0, lambda a: et.tanh(a), lambda a: a * 0.5, {a})",
     "et::cond(et::sum({a}) > 0.0, [](et::ArraySpan a) -> et::Arrays {{ return {{et::tanh(a[0])}}; }},"
     " [](et::ArraySpan a) -> et::Arrays {{ return {{a[0] * 0.5}}; }}, {{{a}}})[0]"),
]
BINARY = [
    ("{a} + {b}", "{a} + {b}"), ("{a} - {b}", "{a} - {b}"), ("{a} * {b}", "{a} * {b}"),
    ("et.maximum({a}, {b})", "et::maximum({a}, {b})"), ("et.minimum({a}, {b})", "et::minimum({a}, {b})"),
    ("et.where({a} > {b}, {a}, {b})", "et::where({a} > {b}, {a}, {b})"),
    ("et.atan2({a}, {b})", "et::atan2({a}, {b})"),
]


@piece(4)
def unary(t):
    a, width = t.any()
    py, cpp = t.draw.choice(UNARY)
    t.value(width, py.format(a=a), cpp.format(a=a))


@piece(4)
def binary(t):
    a, width = t.any()
    b, _ = t.any(width)
    py, cpp = t.draw.choice(BINARY)
    t.value(width, py.format(a=a, b=b), cpp.format(a=a, b=b))


@piece(1)
def joined(t):
    (a, n), (b, m) = t.any(), t.any()
    if n + m <= 10:
        t.value(n + m, f"et.concatenate([{a}, {b}], -1)", f"et::concatenate({{{a}, {b}}}, -1)")


@piece(1)
def cut(t):
    a, width = t.any()
    if width > 2:
        k = t.draw.randrange(1, width - 1)
        t.value(width - k, f"{a}[..., {k}:]", f"et::slice_axis({a}, -1, {k}, {width})")


@piece(1)
def centred(t):
    a, width = t.any()
    mean = t.value(1, f"et.mean({a}, -1, keepdims=True)", f"et::mean({a}, {{-1}}, true)")
    t.value(width, f"{a} - {mean}", f"{a} - {mean}")


@piece(1)
def by_mode(t):
    a, width = t.any()
    t.value(width, f"et.where(self.training, {a} * 0.5, {a})", f"et::where(training(), {a} * 0.5, {a})")


INITS = [("'zeros'", "nn::init::zeros()"), ("nn.init.normal(0.3)", "nn::init::normal(0.3)"),
         ("nn.init.uniform(-0.2, 0.2)", "nn::init::uniform(-0.2, 0.2)"), ("None", "{}"), ("0.1", "nn::init::constant(0.1)")]


@piece(3)
def linear(t):
    a, width = t.any()
    out = t.draw.randrange(2, 6)
    py, cpp = [], []
    if t.draw.random() < 0.4:
        weight = t.draw.choice(["xavier_normal()", "lecun_uniform()", "orthogonal(0.9)"])
        py.append(f"weight_init=nn.init.{weight}"), cpp.append(f".weight_init = nn::init::{weight}")
    if t.draw.random() < 0.5:
        p, c = t.draw.choice(INITS)
        py.append(f"bias_init={p}"), cpp.append(f".bias_init = {c}")
    name = t.layer("Linear", f"{width}, {out}", out, ", ".join(py), ", ".join(cpp), to=a)
    if t.draw.random() < 0.15:  # the same layer once more, at a second place
        other = t.fresh("m")
        t.py_members.append(f"self.{other} = self.{name}")
        t.cpp_members.append(f'nn::Linear& {other} = share("{other}", {name});')
        if t.any(width):
            t.call(other, t.any(width)[0], out)


CELLS = ["VanillaRNNCell", "GRUCell", "LSTMCell", "MGUCell", "MiniGRU", "MiniLSTM", "MinimalRNNCell", "CFNCell", "URLSTMCell"]


@piece(3)
def cell(t):
    a, width = t.any()
    out, kind = t.draw.randrange(2, 5), t.draw.choice(CELLS)
    py, cpp = [], []
    if t.draw.random() < 0.3:
        p, c = t.draw.choice(INITS[:3])
        py.append(f"weight_init={p}"), cpp.append(f".weight_init = {c}")
    if t.draw.random() < 0.3:
        py.append("bias_init=None"), cpp.append(".bias_init = {}")
    if t.draw.random() < 0.4:
        word = t.draw.choice(["relu", "tanh", "sigmoid"])
        py.append(f"activation='{word}'"), cpp.append(f'.activation = nn::activation("{word}")')
    py_options, cpp_options = ", ".join(py), ", ".join(cpp)
    t.layer(kind, f"{width}, {out}", out, py_options, cpp_options, to=a)


@piece(2)
def neuron(t):
    a, width = t.any()
    kind = t.draw.choice(["LIF", "ALIF", "IF", "LIFRef"])
    tau = t.number(3, 20)
    if t.draw.random() < 0.3:
        py, cpp = [f"tau=nn.learned({tau})"], [f".tau = nn::learned({tau})"]
    else:
        py, cpp = [f"tau={tau} * et.units.ms"], [f".tau = {tau} * et::units::ms"]
    if t.draw.random() < 0.4:
        py.append("reset='hard'"), cpp.append(".reset = nn::Reset::Hard")
    if t.draw.random() < 0.3:
        py.append("detached=True"), cpp.append(".detached = true")
    if t.draw.random() < 0.5:
        word = t.draw.choice(["sigmoid(3.0)", "arctan()", "gaussian(0.4)", "multi_gaussian()", "relu_grad(0.5)"])
        py.append(f"surrogate=nn.surrogate.{word}"), cpp.append(f".surrogate = nn::surrogate::{word}")
    loud = t.value(width, f"3.0 * {a}", f"3.0 * {a}")
    t.layer(kind, str(width), width, ", ".join(py), ", ".join(cpp), to=loud)


@piece(1)
def synapse(t):
    a, width = t.any()
    kind = t.draw.choice(["Expon", "Alpha", "DualExpon", "STD", "STP"])
    t.layer(kind, str(width), width, to=a)


@piece(1)
def norm(t):
    a, width = t.any()
    kind = t.draw.choice(["LayerNorm", "RMSNorm", "PReLU"])
    if kind == "PReLU":
        t.layer(kind, str(width), width, "per_feature=True", ".per_feature = true", to=a)
    else:
        t.layer(kind, str(width), width, "epsilon=0.01", ".epsilon = 0.01", to=a)


@piece(1)
def rate(t):
    a, width = t.any()
    out = t.draw.randrange(2, 5)
    t.layer("LeakyRateReadout", f"{width}, {out}", out, "tau=7.5", ".tau = 7.5", to=a)


# States of the class itself
def drawn(t, shape, scale):
    """An array that both languages draw."""
    seed = t.draw.randrange(1000)
    dims = ", ".join(map(str, shape))
    comma = "," if len(shape) == 1 else ""
    return (
        f"{scale} * et.random.normal(et.random.key({seed}), ({dims}{comma}), dt)",
        f"{scale} * et::random::normal(et::random::key({seed}), {{{dims}}}, dt)",
    )


@piece(3)
def leaky(t):
    a, width = t.any()
    keep = t.number(0.3, 0.95)
    if t.draw.random() < 0.5:
        name = t.member(f"et.HiddenState(et.zeros({width}, dt))", f'et::HiddenState& {{name}} = hidden("{{name}}", {{{width}}}, dt)')
    else:
        py, cpp = drawn(t, (width,), 0.5)
        name = t.member(f"et.HiddenState({py})", f'et::HiddenState& {{name}} = hidden("{{name}}", {cpp})')
    before = t.value(width, f"self.{name}.value", f"{name}.value()")
    kept = t.value(width, f"{keep} * {before}", f"{keep} * {before}")
    t.line(f"self.{name}.value = {kept} + {a}", f"{name}.set({kept} + {a})")
    t.value(width, f"self.{name}.value", f"{name}.value()")


@piece(2)
def recurrent(t):
    """A state with weights of its own: one array, or a dictionary of them."""
    a, width = t.any()
    hidden = t.member(f"et.HiddenState(et.zeros({width}, dt))", f'et::HiddenState& {{name}} = hidden("{{name}}", {{{width}}}, dt)')
    py, cpp = drawn(t, (width, width), 0.4)
    if t.draw.random() < 0.5:
        w = t.member(f"et.ParamState({py})", f'et::ParamState& {{name}} = param("{{name}}", {cpp})')
        product = ("self.{w}.value", "{w}.value()")
    else:
        w = t.member(
            f'et.ParamState({{"weight": {py}, "bias": et.full({width}, 0.1, dt)}})',
            f'et::ParamState& {{name}} = param("{{name}}", et::NamedArrays{{{{"weight", {cpp}}}, {{"bias", et::full({{{width}}}, 0.1, dt)}}}})',
        )
        product = ('self.{w}["weight"], self.{w}["bias"]', '{w}.value("weight"), {w}.value("bias")')
    before = t.value(width, f"self.{hidden}.value", f"{hidden}.value()")
    drive = t.value(width, f"et.matmul({before}, {product[0].format(w=w)})", None)
    names = [p.strip() for p in product[1].format(w=w).split(", ")]
    t.cpp_body.pop()
    for i, text in enumerate(names):  # read in one order under every compiler
        t.cpp_body.append(f"const et::Array {drive}_{i} = {text};")
    t.cpp_body.append(f"const et::Array {drive} = et::matmul({before}, {', '.join(f'{drive}_{i}' for i in range(len(names)))});")
    new = t.value(width, f"et.tanh({drive} + {a})", f"et::tanh({drive} + {a})")
    t.line(f"self.{hidden}.value = {new}", f"{hidden}.set({new})")


@piece(1)
def gated(t):
    """An element-wise weight that sets how much of a state is kept."""
    a, width = t.any()
    py, cpp = drawn(t, (width,), 1.0)
    w = t.member(f"et.ParamState({py})", f'et::ParamState& {{name}} = param("{{name}}", {cpp})')
    h = t.member(f"et.HiddenState(et.zeros({width}, dt))", f'et::HiddenState& {{name}} = hidden("{{name}}", {{{width}}}, dt)')
    gate = t.value(width, f"et.element_wise(self.{w}.value)", f"et::element_wise({w}.value())")
    gate = t.value(width, f"et.sigmoid({gate})", f"et::logistic({gate})")
    before = t.value(width, f"self.{h}.value", f"{h}.value()")
    kept = t.value(width, f"{gate} * {before}", f"{gate} * {before}")
    new = t.value(width, f"{kept} + {a}", f"{kept} + {a}")
    t.line(f"self.{h}.value = {new}", f"{h}.set({new})")
    t.values = [v for v in t.values if v[0] != gate]  # it has no axis of samples


@piece(1)
def group(t):
    """Two states in one array."""
    a, width = t.any()
    name = t.member(
        f"et.HiddenGroupState(et.zeros(({width}, 2), dt))",
        f'et::HiddenGroupState& {{name}} = hidden_group("{{name}}", {{{width}, 2}}, dt)',
    )
    first = t.value(width, f"self.{name}.get_value(0)", f"{name}.get_value(0)")
    second = t.value(width, f"self.{name}.get_value(1)", f"{name}.get_value(1)")
    new = t.value(width, f"0.8 * {first} + {a}", f"0.8 * {first} + {a}")
    other = t.value(width, f"0.5 * {second} + {new}", f"0.5 * {second} + {new}")
    t.line(f"self.{name}.set_values([{new}, {other}])", f"{name}.set_values(et::Arrays{{{new}, {other}}})")


@piece(1)
def carried(t):
    """What was given a step before, which is no hidden state."""
    a, width = t.any()
    name = t.member(f"et.ShortTermState(et.zeros({width}, dt))", f'et::ShortTermState& {{name}} = short_term("{{name}}", et::zeros({{{width}}}, dt))')
    t.value(width, f"self.{name}.value", f"{name}.value()")
    t.line(f"self.{name}.value = {a}", f"{name}.set({a})")


@piece(1)
def noisy(t):
    a, width = t.any()
    seed = t.draw.randrange(1000)
    name = t.member(f"et.RandomState({seed})", f'et::RandomState& {{name}} = random_key("{{name}}", {seed})')
    key = t.fresh("k")
    t.line(f"{key} = self.{name}.next()", f"const et::Array {key} = {name}.next()")
    noise = t.value(width, f"et.random.normal({key}, {a}.shape, dt)", f"et::random::normal({key}, {a}.shape(), dt)")
    t.value(width, f"{a} + 0.1 * {noise}", f"{a} + 0.1 * {noise}")
    t.values = [v for v in t.values if v[0] != noise]


@piece(1)
def constant(t):
    a, width = t.any()
    py, cpp = drawn(t, (width,), 1.0)
    name = t.member(f"et.LongTermState({py})", f'et::LongTermState& {{name}} = long_term("{{name}}", {cpp})')
    kept = t.value(width, f"self.{name}.value", f"{name}.value()")
    t.value(width, f"{a} * {kept}", f"{a} * {kept}")
    t.values = [v for v in t.values if v[0] != kept]


# Modules in modules
def child_class(t, width, out=None):
    """A class of its own; its name and what it makes of that width."""
    inner = Lines(t.draw, t.fresh(f"{t.name}_"), width, t.depth + 1)
    fill(inner, t.draw.randrange(1, 4))
    if out is not None and inner.values[-1][1] != out:
        inner.layer("Linear", f"{inner.values[-1][1]}, {out}", out, to=inner.values[-1][0])
    t.classes += inner.texts()
    return inner.name, inner.values[-1][1]


@piece(2)
def nested(t):
    if t.depth < 2:
        a, width = t.any()
        kind, out = child_class(t, width)
        name = t.member(f"{kind}()", f'{kind}& {{name}} = child<{kind}>("{{name}}")')
        t.call(name, a, out)


@piece(1)
def container(t):
    """Sequential, Residual or Parallel of layers and classes."""
    if t.depth == 2:
        return
    a, width = t.any()
    kind = t.draw.choice(["Sequential", "Residual", "Parallel"])
    own, _ = child_class(t, width, out=width)
    parts = [(f"nn.Linear({width}, {width}, dtype=dt)", f"add<nn::Linear>({width}, {width}, {{.dtype = dt}})"),
             ("nn.Tanh()", "add<nn::Tanh>()"), (f"{own}()", f"add<{own}>()"),
             (f"nn.GRUCell({width}, {width}, dtype=dt)", f"add<nn::GRUCell>({width}, {width}, {{.dtype = dt}})")]
    parts = t.draw.sample(parts, t.draw.randrange(2, 4))
    home = "et" if kind == "Sequential" else "nn"
    name = t.member(
        f"{home}.{kind}({', '.join(p for p, _ in parts)})",
        f'{"et" if kind == "Sequential" else "nn"}::{kind}& {{name}} = child<{home}::{kind}>("{{name}}")',
    )
    t.cpp_making += [f"{name}.{c};" for _, c in parts]
    t.call(name, a, width)


@piece(1)
def listed(t):
    """A list or a dictionary of modules."""
    if t.depth == 2:
        return
    a, width = t.any()
    own, _ = child_class(t, width, out=width)
    layer = (f"nn.Linear({width}, {width}, dtype=dt)", f"nn::Linear>({width}, {width}, nn::LinearOptions{{.dtype = dt}})")
    module = (f"{own}()", f"{own}>()")
    parts = t.draw.choice([[layer, module], [module, layer], [module, module]])
    name = t.fresh("m")
    if t.draw.random() < 0.5:
        t.py_members.append(f"self.{name} = [{', '.join(p for p, _ in parts)}]")
        t.cpp_members.append(f'et::ModuleList& {name} = child<et::ModuleList>("{name}");')
        for i, (_, c) in enumerate(parts):
            t.cpp_members.append(f"et::Module& {name}_{i} = {name}.add<{c};")
        called = [(f"self.{name}[{i}]", f"{name}_{i}") for i in range(2)]
    else:
        keys = ["beta", "alpha"]
        t.py_members.append(f"self.{name} = {{{', '.join(f'{k!r}: {p}' for k, (p, _) in zip(keys, parts))}}}")
        t.cpp_members.append(f'et::ModuleDict& {name} = child<et::ModuleDict>("{name}");')
        for k, (_, c) in zip(keys, parts):
            t.cpp_members.append(f"const std::shared_ptr<et::Module> {name}_{k} = std::make_shared<{c};")
            t.cpp_making.append(f'{name}.attach("{k}", {name}_{k});')
        called = [(f'self.{name}["{k}"]', f"(*{name}_{k})") for k in keys]
    for py, cpp in called:
        t.value(width, f"{py}({a})", f"{cpp}({a})")
        a = t.values[-1][0]


def fill(t, count):
    pieces, weights = zip(*PIECES)
    for _ in range(count):
        t.draw.choices(pieces, weights)[0](t)
    if len(t.values) == 1:  # nothing fitted
        unary(t)


INPUTS, OUTPUTS = 3, 2
FIRST = range(12)  # models that the build compiles


def model(seed):
    """Classes of one model in order, the last one is the model: [(python, C++)]."""
    draw = random.Random(f"twin {seed}")
    t = Lines(draw, f"Twin{seed}", INPUTS, 0)
    fill(t, draw.randrange(3, 8))
    last, width = t.values[-1]
    t.layer("GRUCell", f"{width}, 3", 3, to=last)  # something is learned online in any case
    t.layer("Linear", f"3, {OUTPUTS}", OUTPUTS, to=t.values[-1][0])
    return t.texts()


def python_text(seed):
    return "\n".join(py for py, _ in model(seed))


def cpp_text(seeds):
    seeds = list(seeds)
    text = "".join(cpp for seed in seeds for _, cpp in model(seed))
    rows = "\n".join(f"    {{{seed}, [] {{ return std::shared_ptr<et::Module>(std::make_shared<Twin{seed}>()); }}}}," for seed in seeds)
    return f"{text}\nconst std::vector<Made> kModels = {{\n{rows}\n}};\n"


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        file.write(cpp_text(FIRST))
