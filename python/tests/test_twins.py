"""Random models as a Python class and as a C++ class (twins/generator.py): graph, fingerprint, first numbers, outputs,
states, gradients, training and checkpoints agree bit for bit, or both are refused with the same words.

The C++ side is a program that the build makes of the first models. With ETRACE_TWINS=100 (or ETRACE_TWINS=100:200,
seeds from to) it is compiled anew for that many, which needs a compiler and the library of the build."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import etrace as et

HERE = Path(__file__).parent / "twins"
sys.path.insert(0, str(HERE))
import generator  # noqa: E402

BUILT = Path(os.environ.get("ETRACE_TWINS_PROGRAM", "build/dev/tests/twins"))
RULES = ("d_rtrl", "pp_prop", "e_prop", "windows")


def seeds_and_program(folder):
    wanted = os.environ.get("ETRACE_TWINS")
    if not wanted:
        if not BUILT.exists():
            pytest.skip("the C++ side is not built: ./dev python builds it")
        return generator.FIRST, BUILT
    first, last = (0, wanted) if ":" not in wanted else wanted.split(":")
    seeds = range(int(first), int(last))
    (folder / "models.h").write_text(generator.cpp_text(seeds))
    library = Path(os.environ.get("ETRACE_LIBRARY", "build/dev/lib/libetrace.so")).resolve()
    build = library.parent.parent
    command = shlex.split(os.environ.get("CXX", "c++")) + ["-std=c++20", "-O0", f'-DETRACE_TWINS="{folder}/models.h"']
    command += ["-I", "include", "-I", str(build / "generated/include"), str(HERE / "main.cpp"), str(library)]
    subprocess.run([*command, f"-Wl,-rpath,{library.parent}", "-o", str(folder / "twins")], check=True)
    return seeds, folder / "twins"


def runs_of(seeds):
    """Every model with two rules, both element types and both batches."""
    runs = []
    for seed in seeds:
        for i, (dtype, batch) in enumerate([("float32", 1), ("float32", 3), ("float64", 3), ("float64", 1)]):
            runs.append((seed, dtype, batch, RULES[(seed + i) % 4]))
    return runs


class Side:
    """What one side found, by name."""

    def __init__(self):
        self.arrays, self.texts = {}, {}

    def add(self, name, value):
        self.arrays[name] = np.array(value)

    def add_values(self, name, values):
        for leaf, value in values.numpy().items():
            self.add(f"{name}/{leaf}", value)


class Twin:
    """One learner of one run, as in twins/main.cpp."""

    def __init__(self, seed, dtype, batch, rule):
        names = {"et": et, "nn": et.nn, "dt": dtype}
        exec(compile(generator.python_text(seed), f"twin {seed}", "exec"), names)  # noqa: S102
        self.model = names[f"Twin{seed}"]()
        self.xs = et.random.normal(et.random.key(1), (6, batch, 3), dtype)
        self.ys = et.random.normal(et.random.key(2), (6, batch, 2), dtype)
        self.windows = rule == "windows"
        options = {"vjp_method": "multi-step"} if self.windows else {}
        self.learner = et.compile(
            self.model, "d_rtrl" if self.windows else rule, self.xs[0], batch_size=batch, backend="interpreter", **options
        )
        self.optimizer = et.optim.Adam(self.model, 0.05)

    def train(self):
        options = {"chunk_size": 2} if self.windows else {"update": "step"}
        return self.learner.etrace_train(self.xs, self.ys, et.loss.mse, self.optimizer, **options).losses


def graph_text(graph):
    out = ""
    for g in graph.hidden_groups:
        shape = "[" + ",".join(map(str, g["varshape"])) + "]"
        out += f"group {' '.join(g['hidden_paths'])} {shape} {'diagonal' if g['is_diagonal_recurrence'] else 'mixing'}\n"
    for r in graph.hidden_param_op_relations:
        out += f"relation {r['path']} {r['primitive']}\n"
    return out


def gradients(out, name, run):
    twin = Twin(*run)
    out.texts[f"{name}/fingerprint"] = twin.learner.fingerprint
    out.texts[f"{name}/graph"] = graph_text(twin.learner.graph)
    out.add_values(f"{name}/start", et.params(twin.model))
    out.add(f"{name}/outputs", twin.learner.etrace_evolve(twin.xs))
    for state in twin.learner.state_names:
        out.add(f"{name}/state/{state}", twin.learner.get_state(state))
    twin.learner.reset_state()
    twin.learner.reset_model_state()
    options = {"chunk_size": 3} if twin.windows else {}
    g = twin.learner.etrace_grad(twin.xs, twin.ys, et.loss.mse, **options)
    out.add(f"{name}/losses", g.losses)
    out.add_values(f"{name}/grads", g.grads)


def steps(out, name, run):
    twin = Twin(*run)
    if twin.windows:
        return
    twin.learner.bind_step(et.loss.mse)
    for t in range(2):
        r = twin.learner.step(np.array(twin.xs[t]), np.array(twin.ys[t]))
        out.add(f"{name}/step{t}/result", r.result)
        out.add_values(f"{name}/step{t}/grads", r.grads)


def training(out, name, run, folder):
    twin = Twin(*run)
    out.add(f"{name}/trained/losses", twin.train())
    twin.learner.save(folder / f"{name}.py.ckpt", twin.optimizer, notes={"written by": "Python"})
    out.add(f"{name}/again/losses", twin.train())
    out.add_values(f"{name}/again/params", et.params(twin.model))


def attempt(out, name, part, *args):
    try:
        part(out, *args)
    except et.Error as error:
        out.texts[f"{name}/error"] = error.message


def from_cpp(out, name, run, folder):
    """What the other side trains on from our checkpoint, from its checkpoint here."""
    if (folder / f"{name}.cpp.ckpt").exists():
        twin = Twin(*run)
        assert twin.learner.load(folder / f"{name}.cpp.ckpt", twin.optimizer) == {"written by": "C++"}
        out.texts[f"{name}/notes"] = "Python"  # what the other side has read
        out.add(f"{name}/from_other/losses", twin.train())
        out.add_values(f"{name}/from_other/params", et.params(twin.model))


def same_bits(ours, theirs):
    return ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.tobytes() == theirs.tobytes()


def test_twins(tmp_path):
    seeds, program = seeds_and_program(tmp_path)
    runs = {f"{s}_{d}_b{b}_{r}": (s, d, b, r) for s, d, b, r in runs_of(seeds)}
    (tmp_path / "runs.txt").write_text("".join(" ".join(map(str, run)) + "\n" for run in runs.values()))
    ours = Side()
    for name, run in runs.items():
        attempt(ours, name, gradients, name, run)
        attempt(ours, f"{name}/step", steps, name, run)
        attempt(ours, f"{name}/train", training, name, run, tmp_path)
    subprocess.run([str(program), str(tmp_path)], check=True)
    for name, run in runs.items():
        attempt(ours, f"{name}/train", from_cpp, name, run, tmp_path)
    tensors, texts = et.load_safetensors(tmp_path / "cpp.safetensors")
    theirs = {name: np.asarray(value) for name, value in tensors.items()}
    different = [n for n in sorted(set(ours.texts) | set(texts)) if ours.texts.get(n) != texts.get(n)]
    different += [n for n in sorted(set(ours.arrays) | set(theirs))
                  if n not in theirs or n not in ours.arrays or not same_bits(ours.arrays[n], theirs[n])]
    assert not different, report(different, ours, texts, theirs)
    whole = [n for n in runs if f"{n}/from_other/losses" in theirs]
    assert len(whole) >= 0.8 * len(runs), "most models shall get to the end"


def report(different, ours, texts, theirs):
    lines = [f"{len(different)} differ:"]
    for name in different[:20]:
        if name in ours.texts or name in texts:
            lines.append(f"{name}\n  Python: {ours.texts.get(name)}\n  C++:    {texts.get(name)}")
        else:
            lines.append(f"{name}\n  Python: {ours.arrays.get(name)}\n  C++:    {theirs.get(name)}")
    seed = different[0].split("_")[0]
    return "\n".join([*lines, "", generator.python_text(int(seed)), generator.cpp_text([int(seed)])])
