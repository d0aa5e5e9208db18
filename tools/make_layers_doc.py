#!/usr/bin/env python3
"""Makes docs/layers.md from the headers of the layers.

etrace/nn.h gives the order: a comment there opens a section, the includes below it are what the section holds. Of a
header, the comment at its top says what is computed, the comment above a class what the class is; of functions, the
comment behind a declaration or above a group of them.

    python3 tools/make_layers_doc.py            writes docs/layers.md
    python3 tools/make_layers_doc.py --check    exit code 1 if docs/layers.md is not what would be written
"""

import argparse
import re
import sys
from pathlib import Path

INTRO = """# Layers

All layers of the library, with formula, parameters, options and defaults. A layer has the same name and the same
options in both languages: `child<et::nn::GRUCell>("rnn", 3, 8, {.memory = 20})` in C++ is
`et.nn.GRUCell(3, 8, memory=20)` in Python. `tools/make_layers_doc.py` makes this page from the headers in
`include/etrace/nn`.

- `[…]` is the shape of one sample. Every layer also takes a batch of samples, with one more axis in front.
- The types are `f32` and `f64`.
- σ is the logistic function, φ the activation that the options name, and ⊙ the product entry by entry.
  `[x, h]` means both side by side on the last axis.
- *Hidden* states are the memory that the compiler knows. Parameters that reach it through a trainable operator learn
  online.
- Where no header is named, the class is in `etrace/module.h`.
"""

CLASS = re.compile(r"^(?:class|struct) (\w+) (?:final )?: (?:public )?(\w+)")
FUNCTION = re.compile(r"^(?:Array|Initializer|Surrogate|Arrays|double|SparsePattern) (\w+)\((.*)")
# Bases of others.
HIDDEN = {
    "AdaptivePool", "DegreeOne", "FixedPool", "LinearDynamics", "NumberLayer", "Pool", "SameUnitLayer", "ScaleFreeLayer",
    "WeightLayer",
}  # fmt: skip


def comment_text(lines):
    return "\n".join(re.sub(r"^ ?", "", line.strip().removeprefix("//")) for line in lines)


def paragraphs(lines):
    return " ".join(re.sub(r"^ *", "", line.strip().removeprefix("//")).strip() for line in lines)


def namespace_lines(text):
    """(declaration, comment lines right above it, inner namespace) of what stands in namespace scope."""
    depth, comments, inner = 0, [], []
    for line in re.sub(r"([(,])\n +", r"\1 ", text).replace("( ", "(").splitlines():
        if line.startswith("//"):
            comments.append(line)
        elif m := re.match(r"^namespace (\w+) \{", line):
            inner.append(m.group(1))
        elif re.match(r"^\}\s*//\s*namespace", line):
            del inner[-1:]
        else:
            if depth == 0 and line.strip() and not line.startswith(("#", "namespace", "}", "using", "template")):
                yield line, comments, "".join(f"{n}::" for n in inner)
            bare = re.sub(r"//.*", "", line)
            depth += 0 if line.startswith("namespace") else bare.count("{") - bare.count("}")
            if not line.startswith("template"):
                comments = []


def header_part(root, name):
    text = (root / "include" / name).read_text(encoding="utf-8")
    top, _, rest = text.partition("#pragma once")
    formula = comment_text(top.strip().splitlines())
    classes, plain, functions = [], [], []
    for line, comments, inner in namespace_lines(rest):
        if (m := CLASS.match(line)) and m.group(1) not in HIDDEN and not m.group(1).endswith("Options"):
            (classes if comments else plain).append((m.group(1), paragraphs(comments)))
        elif FUNCTION.match(line):
            declaration, _, said = line.partition("//")
            shown = re.sub(r"^(\w+) ", rf"\1 {inner}", declaration.strip().rstrip(";"))
            functions.append((shown, said.strip() or paragraphs(comments)))
    names = ", ".join(f"`{c}`" for c, _ in classes) or f"`{Path(name).stem}`"
    out = [f"### {names}", "", f"`{name}`", "", "```text", formula, "```", ""]
    for title, said in classes:
        out += [f"**{title}**: {said}", ""]
    if plain:
        out += ["Also " + ", ".join(f"`{c}`" for c, _ in plain) + ".", ""]
    if functions:
        out += ["| function | |", "|---|---|"]
        out += ["| `{}` | {} |".format(d, s.replace("|", r"\|")) for d, s in functions]
        out += [""]
    return out


def document(root):
    out = [INTRO]
    for line in (root / "include/etrace/nn.h").read_text(encoding="utf-8").splitlines()[2:]:
        if line.startswith("// "):
            out += [f"## {line[3:]}", ""]
        elif m := re.match(r'#include "(etrace/nn/.*)"', line):
            out += header_part(root, m.group(1))
    return "\n".join(out).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    page = args.root / "docs" / "layers.md"
    text = document(args.root)
    if not args.check:
        page.parent.mkdir(exist_ok=True)
        page.write_text(text, encoding="utf-8")
        return 0
    if page.exists() and page.read_text(encoding="utf-8") == text:
        return 0
    print(f"{page} is not what the headers say; run python3 tools/make_layers_doc.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
