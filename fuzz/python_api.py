"""Calls every public function, class and method of etrace with arguments that nobody should give.

    python fuzz/python_api.py --seconds 120          # or --count 20000; --from SEED; --seed N for one call

Calls run in processes with limits on time and memory. A fault is: a process that dies, a call of more than ten
seconds, an exception that is neither ours nor one of Python's plain ones, one of ours that says the fault is etrace's,
or words of the C++ library in its text. A raising argument's own exception may come through.
"""

import argparse
import array
import builtins
import faulthandler
import inspect
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import types
import warnings

LIMIT = 10  # seconds per call
MEMORY = 4 << 30
# Calls that may rightly take for ever, end the process, or write outside of the folder they run in.
LEFT_OUT = {"while_loop", "fori_loop", "train", "resume", "compare_training", "wait_for_compilations"}
PLAIN = (TypeError, ValueError, IndexError, KeyError, OverflowError, MemoryError, RecursionError, NotImplementedError,
         OSError, ImportError, BufferError, StopIteration, RuntimeError, AttributeError)  # fmt: skip
FOREIGN = re.compile(r"std::|vector::|_M_|basic_string|nlohmann|json\.exception|bad_alloc|bad_cast|St\d\w+E\b|not ours")


class Raised(Exception):
    """What hostile objects raise."""


# --- arguments ---------------------------------------------------------------------------------------------------


def hostile(method, result=Raised):
    """An object whose method raises, or gives `result`."""

    def act(self, *args, **kwargs):
        if result is Raised:
            raise Raised(method)
        return self if result == "self" else result

    return type("Hostile", (), {method: act})()


METHODS = ["__array__", "__index__", "__int__", "__float__", "__len__", "__getitem__", "__iter__", "__dlpack__",
           "__dlpack_device__", "__buffer__", "__bool__", "__str__", "__repr__", "__hash__", "__eq__", "__call__",
           "__getattr__", "__next__", "__fspath__", "__array_interface__", "__enter__"]  # fmt: skip


def arguments(et, np):
    """Makers of arguments: sane ones, and others."""
    layer = lambda: et.nn.GRUCell(2, 3)
    sane = [
        lambda: 0, lambda: 1, lambda: 3, lambda: 2.5, lambda: True, lambda: (2, 3), lambda: [3], lambda: "float32",
        lambda: et.float32, lambda: et.ones((2, 3)), lambda: et.ones(3), lambda: et.zeros((3, 3)), lambda: et.ones(()),
        lambda: et.arange(4), lambda: et.random.key(0), lambda: np.ones((2, 3)), lambda: np.arange(3), lambda: 0.1,
        lambda: et.ParamState(et.ones((2, 3))), lambda: et.HiddenState(et.zeros(3)), layer, lambda: et.D_RTRL(),
        lambda: et.optim.Adam(1e-3), lambda: et.loss.mse, lambda: (lambda *x: x[0]), lambda: et.tanh, lambda: None,
        lambda: {"a": et.ones(2)}, lambda: [et.ones(2), et.ones(2)], lambda: "relu", lambda: et.nn.LIF(3),
        lambda: et.ones(3) * et.units.mV, lambda: et.units.ms, lambda: et.trace_step(layer(), et.ones(2)),
        lambda: et.make_jaxpr(et.tanh)(1.0), lambda: slice(0, 2), lambda: ...,
    ]  # fmt: skip
    odd = [
        lambda: -1, lambda: 2**31, lambda: 2**40, lambda: 2**63 - 1, lambda: 2**64, lambda: -(2**63), lambda: 10**400,
        lambda: float("nan"), lambda: float("inf"), lambda: 1e300, lambda: 2j, lambda: "", lambda: "a\0b",
        lambda: "x\udc80", lambda: "\ud800", lambda: "/" * 5000, lambda: b"\xff", lambda: (2**40, 2**40), lambda: (-1, 3),
        lambda: (0, 3), lambda: [2**63], lambda: [[1], [1, 2]], lambda: recursive(), lambda: object(), lambda: int,
        lambda: os, lambda: {}, lambda: {1: 2}, lambda: set(), lambda: range(3), lambda: iter([1]), lambda: bytearray(3),
        lambda: memoryview(b"abcdef").cast("B", (2, 3)), lambda: array.array("d", [1, 2]), lambda: raising,
        lambda: (lambda *a, **k: None), lambda: (lambda *a, **k: "text"), lambda: np.array(["2020-01-01"], "M8[D]"),
        lambda: np.timedelta64(1, "s"), lambda: np.array([1 + 2j]), lambda: np.array(["a"]), lambda: np.array([None]),
        lambda: np.array([(1, 2.0)], [("a", int), ("b", float)]), lambda: np.ones((0, 3)), lambda: np.ones((2, 3)).T,
        lambda: np.ones((4, 6))[::2, ::-2], lambda: np.ones(3, ">f8"), lambda: np.ones(3, np.longdouble),
        lambda: np.frombuffer(b"\x02\xff\x00", np.bool_), lambda: np.ones(3, np.int8), lambda: read_only(np),
        lambda: np.broadcast_to(np.float32(1), (1 << 20, 1 << 20)), lambda: np.ma.ones(3), lambda: np.float64(1),
        lambda: np.ones((1,) * 20), lambda: et.zeros((0,)), lambda: et.Array, lambda: et.nn, lambda: 1 << 1000,
        lambda: [et.ones(2)] * 3, lambda: np.void(b"abc"), lambda: np.str_("a"), lambda: type("T", (), {})(),
    ]  # fmt: skip
    for method in METHODS:
        for result in (Raised, None, -1, 2**70, "self", "text"):
            odd.append(lambda method=method, result=result: hostile(method, result))
    return sane, odd


def recursive():
    out = []
    out.append(out)
    return out


def raising(*args, **kwargs):
    raise Raised("function")


def read_only(np):
    out = np.ones(3, np.float32)
    out.setflags(write=False)
    return out


# --- what is called ----------------------------------------------------------------------------------------------


def targets(et, np):
    """(name, maker of a callable) of all that is public."""
    found = {}
    spaces = {"et": et}
    for name in ("nn", "nn.init", "nn.surrogate", "optim", "loss", "metrics", "random", "units", "tasks", "models", "data",
                 "tree", "array_api"):  # fmt: skip
        space = et
        for part in name.split("."):
            space = getattr(space, part, None)
        if space is not None:
            spaces["et." + name] = space
    for prefix, space in spaces.items():
        for name in dir(space):
            value = getattr(space, name)
            if name.startswith("_") or name in LEFT_OUT or isinstance(value, types.ModuleType) or not callable(value):
                continue
            if isinstance(value, type) and issubclass(value, BaseException):
                continue
            found[f"{prefix}.{name}"] = lambda value=value: value
    net = lambda: et.compile(et.nn.GRUCell(2, 3), et.D_RTRL(), et.ones(2), backend="interpreter")
    samples = {
        "array": lambda: et.ones((2, 3)), "scalar": lambda: et.asarray(1.0), "bool": lambda: et.ones(3) > 0,
        "empty": lambda: et.zeros((0, 2)), "param": lambda: et.ParamState(et.ones((2, 3))),
        "hidden": lambda: et.HiddenState(et.zeros(3)), "layer": lambda: et.nn.GRUCell(2, 3), "lif": lambda: et.nn.LIF(3),
        "learner": net, "adam": lambda: et.optim.Adam(1e-3), "quantity": lambda: et.ones(3) * et.units.mV,
        "unit": lambda: et.units.mV, "jaxpr": lambda: et.make_jaxpr(et.tanh)(1.0),
        "model": lambda: et.trace_step(et.nn.GRUCell(2, 3), et.ones(2)), "rule": lambda: et.D_RTRL(),
        "jit": lambda: et.jit(lambda x: x + 1), "dtype": lambda: et.float32,
        "graph": lambda: et.compile_etrace_graph(et.nn.GRUCell(2, 3), et.ones(2)),
    }  # fmt: skip
    dunder = {"__getitem__", "__setitem__", "__add__", "__radd__", "__mul__", "__matmul__", "__rmatmul__", "__pow__", "__eq__",
              "__lt__", "__call__", "__array__", "__dlpack__", "__index__", "__float__", "__int__", "__bool__", "__len__",
              "__iter__", "__format__", "__setattr__", "__getattr__", "__reduce__", "__str__", "__and__", "__lshift__",
              "__floordiv__", "__mod__", "__contains__", "__setstate__", "__reduce_ex__", "__deepcopy__"}  # fmt: skip
    for kind, make in samples.items():
        try:
            names = dir(make())
        except Exception:  # not in this version
            continue
        for name in names:
            if name.startswith("_") and name not in dunder:
                continue
            found[f"{kind}.{name}"] = lambda make=make, name=name: bound(make(), name)
    return found


def bound(value, name):
    """A method, or what reads and writes an attribute."""
    got = getattr(value, name)
    return got if callable(got) else lambda *a: setattr(value, name, a[0] if a else None)


def names_of(f):
    try:
        return [p.name for p in inspect.signature(f).parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    except (builtins.TypeError, builtins.ValueError):
        text = getattr(f, "__doc__", None) or ""
        head = text.split(")")[0] if isinstance(text, str) else ""
        return re.findall(r"(\w+):", head)


def one_call(seed, found, sane, odd):
    """The name of what is called, and a function that calls it."""
    rng = random.Random(seed)
    name = rng.choice(sorted(found))
    make = found[name]

    def go():
        def pick():
            return rng.choice(odd if rng.random() < rate else sane)()

        rate = rng.choice((0.1, 0.4, 1.0))
        f = make()
        args = [pick() for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4)))]
        named = names_of(f)
        kwargs = {}
        for key in rng.sample(named, min(len(named), rng.choice((0, 0, 1, 2)))):
            if key not in ("self", "args", "kwargs"):
                kwargs[key] = pick()
        out = f(*args, **kwargs)
        if inspect.isfunction(out) and rng.random() < 0.7:
            out(*[pick() for _ in range(rng.choice((1, 1, 2)))])
        elif rng.random() < 0.3:
            repr(out)

    return name, go


def fault_of(error, et):
    """Why an exception is a fault; None: it is not."""
    seen = error
    while seen is not None:
        if isinstance(seen, Raised):
            return None
        seen = seen.__cause__ or seen.__context__
    if isinstance(error, et.InternalError) or not isinstance(error, PLAIN + (et.Error, Warning)):
        return f"{type(error).__name__}: {error}" + (f" (after {error.__cause__!r})" if error.__cause__ else "")
    try:
        text = str(error)
    except Exception as failed:
        return f"{type(error).__name__} without words: {failed!r}"
    if isinstance(error, NameError):
        return f"{type(error).__name__}: {text}"
    return f"{type(error).__name__}: {text}" if FOREIGN.search(text) else None


# --- processes ---------------------------------------------------------------------------------------------------


def work(first, count, seconds, report):
    """Calls from `first` on; writes what it is at into the file `report`, line by line."""
    import numpy as np

    import etrace as et

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    found, (sane, odd) = targets(et, np), arguments(et, np)
    out = open(report, "a", buffering=1)
    end = time.monotonic() + seconds
    for seed in range(first, first + count):
        if time.monotonic() > end:
            break
        name, go = one_call(seed, found, sane, odd)
        out.write(json.dumps([seed, name]) + "\n")
        faulthandler.dump_traceback_later(LIMIT, exit=True, file=out)
        why = None
        try:
            go()
        except BaseException as error:
            why = fault_of(error, et)
            if why is not None:
                frames = traceback.extract_tb(error.__traceback__)[-1:]
                why += "".join(f" ({os.path.basename(f.filename)}:{f.lineno})" for f in frames)
        faulthandler.cancel_dump_traceback_later()
        if why is not None:
            out.write(json.dumps([seed, name, why[:300].encode("ascii", "backslashreplace").decode()]) + "\n")
    out.write(json.dumps(["end"]) + "\n")


def run(first, count, seconds, per_process=2000):
    """(calls made, faults as texts)."""
    faults, made, seed, end = [], 0, first, time.monotonic() + seconds
    paths = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report")
        while seed < first + count and time.monotonic() < end:
            open(report, "w").close()
            n = min(per_process, first + count - seed)
            command = [sys.executable, os.path.abspath(__file__), "--worker", report, "--from", str(seed), "--count", str(n),
                       "--seconds", str(end - time.monotonic())]  # fmt: skip
            done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, timeout=end - time.monotonic() + 60)  # fmt: skip
            lines = [line for line in open(report, errors="replace") if line.startswith("[")]
            rows = [json.loads(line) for line in lines]
            faults += [f"seed {r[0]}, {r[1]}: {r[2]}" for r in rows if len(r) == 3]
            calls = [r for r in rows if len(r) == 2]
            made += len(calls)
            if not calls:
                faults.append(f"no call was made: {done.stderr.decode(errors='replace')[-2000:]}")
                break
            seed = calls[-1][0] + 1
            if rows[-1] != ["end"]:
                how = f"took more than {LIMIT} s" if done.returncode == 1 else f"ended the process ({done.returncode})"
                faults.append(f"seed {calls[-1][0]}, {calls[-1][1]}: {how}")
    return made, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1 << 40)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--seed", type=int, help="one call, in this process")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.first, given.count, given.seconds, given.worker)
        return 0
    if given.seed is not None:
        import numpy as np

        import etrace as et

        name, go = one_call(given.seed, targets(et, np), *arguments(et, np))
        print(name, flush=True)
        go()
        return 0
    made, faults = run(given.first, given.count, given.seconds)
    print(f"{made} calls, {len(faults)} faults")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
