#!/usr/bin/env python3
"""Writes docs/api/python.md from the signatures and docstrings of the installed package.

    PYTHONPATH=build/dev/python build/venv/bin/python tools/make_python_doc.py > docs/api/python.md
"""

import inspect
import re

import etrace as et

HEAD = """# Python interface

The package is imported by `import etrace as et`. This page is made from its docstrings, so `help(et.compile)` says the same. [etrace in Python](../python.md) shows how to use it. [Layers](../layers.md) (`et.nn`) and [rules](../rules.md) have pages of their own.
"""

# Sections: title, and the objects in it. A module stands for its public functions and classes.
SECTIONS = [
    ("Learners", ["compile", "Learner", "SequenceGradient", "SequenceTraining", "EligibilityTrace"]),
    ("Modules and states", ["Module", "Sequential", "ModuleList", "ModuleDict", "ParamState", "HiddenState", "ShortTermState",
                            "LongTermState", "RandomState", "init_all_states", "reset_all_states", "params", "set_params", "states",
                            "save_parameters", "load_parameters", "summary"]),
    ("Explanations and evidence", ["compile_etrace_graph", "ETraceGraph", "Report", "Plan", "verify", "compare_rules"]),
    ("Operators that own weights", ["matmul", "element_wise", "conv", "sparse_matmul", "lora_matmul", "embedding", "einsum",
                                    "grouped_matmul", "register_primitive", "AnchorMap"]),
    ("Rules of your own", ["CustomRule", "ETraceConfig"]),
    ("Losses", et.loss),
    ("Optimisers", et.optim),
    ("Tasks", et.tasks),
    ("Runs", ["train", "resume", "Run", "Score", "Predictions", "runs", "compare_training", "TrainingComparison"]),
    ("Data", et.data),
    ("Random numbers", et.random),
    ("Functions of functions", ["grad", "value_and_grad", "vmap", "jvp", "vjp", "jacfwd", "jacrev", "jit", "make_jaxpr", "scan",
                                "cond", "while_loop", "fori_loop"]),
    ("Errors", ["Error", "CompilationError", "NotSupportedError", "UnitError", "IoError"]),
]


def text_of(thing):
    """The docstring without the signatures that the extension writes at its top."""
    text = inspect.getdoc(thing) or ""
    if hasattr(thing, "_fields") and text.startswith(thing.__name__ + "("):
        return ""  # what every named tuple says of itself
    return re.sub(r"\A(?:\w+\(.*\)(?: -> .*)?\n+)+", "", text).strip()


def signature(name, thing):
    try:
        return f"{name}{inspect.signature(thing)}"
    except (TypeError, ValueError):
        first = (inspect.getdoc(thing) or "").partition("\n")[0]
        return first if first.startswith(name.rpartition(".")[2] + "(") else name


def escaped(text):
    """Characters that Markdown would take for its own, outside of code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_<|\[\]])", r"\\\1", p) for p in parts)


def prose(text):
    """Paragraphs; those that are indented or hold columns stay as they are."""
    out = []
    for paragraph in text.split("\n\n") if text else []:
        lines = paragraph.splitlines()
        plain = not any(line.startswith(" ") or "   " in line for line in lines)
        out.append(escaped(paragraph) if plain else f"```text\n{paragraph}\n```")
    return "\n\n".join(out) + "\n" if out else ""


def described(name, thing, level):
    """A heading, the signature and the docstring; of a class, its methods and properties as well."""
    lines = [f"{'#' * level} {name}\n", f"```python\n{short(signature(name, thing))}\n```\n", prose(text_of(thing))]
    if not inspect.isclass(thing) or issubclass(thing, Exception):
        return lines
    rows = []
    found = {k: m for base in reversed(thing.__mro__) if base.__module__.startswith("etrace") for k, m in vars(base).items()}
    for key, member in sorted(found.items()):
        words = escaped(text_of(member).partition("\n\n")[0].replace("\n", " "))
        if key.startswith("_") or not words or words.startswith("Alias for field"):
            continue
        rows.append(f"| `{key}{'()' if callable(member) else ''}` | {words} |")
    return lines + (["| member | meaning |\n|---|---|", *rows, ""] if rows else [])


def short(text):
    """Addresses and long paths of modules say nothing to a reader."""
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text)
    text = re.sub(r"(?<=[:>] )'([^']*)'", r"\1", text)
    text = re.sub(r"<(?:function|class) '?([\w.]+)'?[^>]*>", r"\1", text)
    return re.sub(r"\b(?:etrace\._core\.|etrace\._\w+\.|typing\.|collections\.abc\.)", "", text)


def members(module):
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    prefix = "et." + module.__name__.partition(".")[2]
    for n in sorted(names):
        thing = getattr(module, n)
        if (inspect.isclass(thing) or callable(thing)) and not inspect.ismodule(thing) and text_of(thing):
            yield f"{prefix}.{n}", thing


def main():
    print(HEAD)
    for title, what in SECTIONS:
        print(f"## {title}\n")
        things = members(what) if inspect.ismodule(what) else ((f"et.{n}", getattr(et, n)) for n in what if hasattr(et, n))
        for name, thing in things:
            print("\n".join(described(name, thing, 3)))


if __name__ == "__main__":
    main()
