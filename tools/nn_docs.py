#!/usr/bin/env python3
"""Texts of the layers of et.nn, from the comments of include/etrace/nn/*.h: formulas, classes, options.

    tools/nn_docs.py            writes python/etrace/nn/_docs.py
    tools/nn_docs.py --check    says whether it is up to date
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "python/etrace/nn/_docs.py"
HEAD = '''"""Texts of the layers, by class: (formula, meaning, {option: (first value, meaning)}).

Written by tools/nn_docs.py from the headers; do not edit.
"""

DOCS = '''
# What C++ writes differently.
WORDS = [
    (r" ?\(etrace/nn/\w+\.h\)", ""),
    (r"etrace/nn/connect\.h", "et.nn.connect"),
    (r" ?\(Module::train\)", " (model.train())"),
    (r"DelayMemory::(\w+)", lambda m: f"memory='{m[1].lower()}'"),
    (r"Synapse::(\w+)", lambda m: f"synapse='{m[1].lower()}'"),
    (r"NormOptions::bias", "the option bias"),
    (r"\bundefined\b", "None"),
    (r"\bempty\b", "None"),
    (r"\bnull\b", "None"),
]
CLASS = re.compile(
    r"((?:^//[^\n]*\n)*)^(?:class|struct) (\w+)(?: final)? : (?:public )?\w+(.*?)^\};", re.MULTILINE | re.DOTALL
)
STRUCT = re.compile(r"^struct (\w+Options) \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)


def worded(text: str) -> str:
    for pattern, word in WORDS:
        text = re.sub(pattern, word, text)
    return text


def uncommented(block: str) -> str:
    return worded("\n".join(re.sub(r"^\s*// ?", "", line) for line in block.strip().splitlines()))


def value(text: str) -> str:
    """A first value as Python writes it."""
    text = text.strip().rstrip(";")
    for pattern, word in [
        (r"^\{\}$", "None"),
        (r"^\{(.*)\}$", r"(\1,)"),
        (r"Distribution::(\w+)", lambda m: "'" + re.sub(r"(?<!^)(?=[A-Z])", "_", m[1]).lower() + "'"),
        (r"init::", "init."),
        (r"surrogate::", "surrogate."),
        (r"units::", "units."),
        (r'"', "'"),
        (r"^true$", "True"),
        (r"^false$", "False"),
    ]:
        text = re.sub(pattern, word, text)
    return text


def declarators(text: str):
    """("tau", "5.0"), ("dt", "1.0") of `tau = 5.0, dt = 1.0`."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "({<"
        depth -= c in ")}>"
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    for part in parts:
        name, _, first = part.partition("=")
        yield name.strip(), value(first)


def fields(body: str) -> dict:
    """The fields of an options struct, with the comment before or behind them."""
    out: dict = {}
    before: list[str] = []
    statement, behind = "", []
    for line in body.splitlines():
        code, _, comment = line.partition("//")
        comment = comment.strip()
        if not code.strip() and not statement:
            if out and not before and line.startswith(" " * 20):
                name = list(out)[-1]  # a comment behind a field goes on
                out[name] = (out[name][0], worded(f"{out[name][1]} {comment}".strip()))
            else:
                before.append(comment)
            continue
        statement += " " + code.strip()
        if comment:
            behind.append(comment)
        if ";" in code:
            match = re.match(r"\s*((?:std::)?(?:\w+::)*\w+(?:<[^;]*?>)?)\s+(.*);", statement)
            text = worded(" ".join([*before, *behind]))
            for name, first in declarators(match[2]):
                out[name] = (first, text)
            statement, before, behind = "", [], []
    return out


def texts(folder: Path) -> dict:
    headers = [(h, h.read_text(encoding="utf-8")) for h in sorted(folder.glob("*.h"))]
    options = {name: fields(body) for _, text in headers for name, body in STRUCT.findall(text)}
    own: dict = {}  # class -> its options struct
    parents = {}
    for _, text in headers:
        for found in re.finditer(r"^(?:class|struct) (\w+)(?: final)? : (?:public )?(\w+)", text, re.MULTILINE):
            parents[found[1]] = found[2]
        for _, name, body in CLASS.findall(text):
            if match := re.search(r"using Options = (\w+);", body):
                own[name] = match[1]
    out = {}
    for header, text in headers:
        first = re.match(r"((?:^//[^\n]*\n)+)", text, re.MULTILINE)
        formula = uncommented(first[1]) if first else ""
        if header.name == "activation.h":
            formula = ""
        for comment, name, _ in CLASS.findall(text):
            at = name
            while at in parents and at not in own:
                at = parents[at]
            out[name] = (formula, uncommented(comment), options.get(own.get(at, ""), {}))
    return out


def written() -> str:
    lines = ["{"]
    for name, (formula, meaning, options) in sorted(texts(ROOT / "include/etrace/nn").items()):
        lines += [f"    {name!r}: (", f"        {formula!r},", f"        {meaning!r},", "        {"]
        lines += [f"            {o!r}: {v!r}," for o, v in options.items()]
        lines += ["        },", "    ),"]
    return HEAD + "\n".join(lines) + "\n}\n"


def main() -> int:
    text = written()
    if "--check" in sys.argv[1:]:
        same = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
        print("up to date" if same else "python/etrace/nn/_docs.py is old: run tools/nn_docs.py")
        return 0 if same else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
