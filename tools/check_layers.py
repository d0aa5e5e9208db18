#!/usr/bin/env python3
"""Checks who includes whom, and that no two types of a namespace have the same name.

A file in src/<layer>/ may include its own layer and lower ones; a layer is a folder, or a folder of learn/.
Private headers are written "layer/file.h", public ones "etrace/file.h". Public headers include only public headers of their own or lower layers and no
third-party header, and mark what they declare as visible. Examples include only public headers. The C99 kernel
headers src/{runtime,kernels}/etp_*.h include only each other and the C library, because emitted code gets them too; in return
any layer may include them.
The JSON library is used in io/json.h and io/json.cpp alone.
Two types of one name in one namespace, in files that never meet, compile and link: what templates make of them, say
the destructor of a vector, is then that of one of them for both.
The tables below are the whole configuration: a new public header gets a row in PUBLIC.

    python3 tools/check_layers.py [--root DIR] [--quiet]       exit code 1 on a violation
"""

import argparse
import re
import sys
from pathlib import Path

# Lowest first. CMakeLists.txt holds the same list (ETRACE_LAYERS) and passes it for comparison.
LAYERS = [
    "base", "runtime", "kernels", "core", "session", "ops", "interp", "transform", "control", "simplify", "etp",
    "emit", "native", "cuda", "io", "data", "module", "units", "nn", "tasks", "optim", "compiler",
    "learn/traces", "learn/rules", "learn/plan", "learn/run", "export", "verify", "report", "train", "bench", "cli",
]  # fmt: skip

# Public header, relative to include/etrace/ -> layer. A name that ends with "/" stands for a folder.
PUBLIC = {
    "version.h": "base",
    "error.h": "base",
    "host.h": "base",
    "aval.h": "base",
    "dtype.h": "base",
    "shape.h": "base",
    "tensor.h": "base",
    "ir.h": "core",
    "program.h": "core",
    "backend.h": "core",
    "versioned_array.h": "core",
    "params.h": "core",
    "parse.h": "core",
    "print.h": "core",
    "array.h": "core",
    "primitive.h": "core",
    "axes.h": "core",
    "bodies.h": "core",
    "facts.h": "core",
    "emission.h": "core",
    "random.h": "core",
    "trace.h": "core",
    "ops.h": "ops",
    "ops/": "ops",
    "interp.h": "interp",
    "transform.h": "transform",
    "control.h": "control",
    "simplify.h": "simplify",
    "etp.h": "etp",
    "model_io.h": "io",
    "expected.h": "io",
    "module.h": "module",
    "units.h": "units",
    "units/": "units",
    "nn.h": "nn",
    "nn/": "nn",
    "models.h": "nn",
    "layered.h": "nn",
    "metrics.h": "nn",
    "summary.h": "report",
    "diagnostics.h": "compiler",
    "diagnostics.def": "compiler",
    "graph.h": "compiler",
    "trace_memory.h": "compiler",
    "compiler.h": "compiler",
    "explain.h": "report",
    "save.h": "module",
    "param_values.h": "module",
    "tasks.h": "tasks",
    "loss.h": "optim",
    "optim.h": "optim",
    "optim/": "optim",
    "executor.h": "learn/traces",
    "learning.h": "learn/rules",
    "learning_rule.h": "learn/traces",
    "parameter_traces.h": "learn/traces",
    "rules.h": "learn/rules",
    "config.h": "learn/rules",
    "synthesizer.h": "learn/rules",
    "plan.h": "learn/plan",
    "plan_text.h": "report",
    "trace_passes.h": "learn/plan",
    "learner.h": "learn/run",
    "export.h": "export",
    "verify.h": "verify",
    "compare_rules.h": "verify",
    "synthetic_gradient.h": "learn/run",
    "stream.h": "train",
    "train.h": "train",
    "etrace.h": "bench",  # includes them all
}

# Third-party headers, by the start of the path -> layers that may include them.
THIRD_PARTY = {
    "nlohmann/": {"io"},
    "CLI/": {"cli"},
    "fmt/": set(LAYERS),
    "zlib.h": {"io", "data"},
    "toml++/": {"train"},
    "gtest/": set(),
    "gmock/": set(),
    "rapidcheck": set(),
    "benchmark/": set(),
}

SUFFIXES = {".h", ".hpp", ".def", ".c", ".cpp", ".inc"}
KERNEL_HEADER = re.compile(r"^(?:runtime|kernels)/etp_[^/]*\.h$")
C_HEADERS = {
    "assert.h", "float.h", "inttypes.h", "limits.h", "math.h", "stdalign.h", "stdatomic.h", "stdbool.h", "stddef.h",
    "stdint.h", "stdio.h", "stdlib.h", "string.h", "time.h", "immintrin.h", "arm_neon.h",
}  # fmt: skip
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
NAMESPACE = re.compile(r"^namespace\s*([\w:]*)\s*\{")
NAMESPACE_END = re.compile(r"^\}\s*// namespace")
TYPE = re.compile(r"^(?:template <.*> *)?(?:struct|class|union|enum(?: class)?) (?:alignas\(\w+\) )?(\w+)\b(?![:<])[^;]*\{")
BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def public_layer(name):
    """Layer of a public header given as a path below include/etrace/, or None."""
    if name in PUBLIC:
        return PUBLIC[name]
    folder = name.split("/", 1)[0] + "/"
    return PUBLIC.get(folder) if "/" in name else None


def layer_of(name):
    """(layer, rest) of a path below src/: the layer whose folders it begins with; ("", name) if there is none."""
    parts = name.split("/")
    for count in (2, 1):
        if len(parts) > count and "/".join(parts[:count]) in LAYERS:
            return "/".join(parts[:count]), "/".join(parts[count:])
    return "", name


def includes(path):
    """(line, is_quoted, target) of every include directive of a file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    text = BLOCK_COMMENT.sub(lambda m: "\n" * m.group().count("\n"), text)
    for m in INCLUDE.finditer(text):
        yield text.count("\n", 0, m.start(2)) + 1, m.group(1) == '"', m.group(2)


def types(path):
    """(line, name with its namespaces) of every type that a file defines outside functions and unnamed namespaces."""
    spaces = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if opened := NAMESPACE.match(line):
            spaces.append(opened.group(1))
        elif NAMESPACE_END.match(line) and spaces:
            spaces.pop()
        elif (found := TYPE.match(line)) and "" not in spaces:
            yield number, "::".join([*spaces, found.group(1)])


def sources(folder):
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in SUFFIXES)


# Where exceptions of the JSON library would come from; io/json.h has its own way for each.
FOREIGN_JSON = re.compile(r"\bnlohmann::|\.dump\(|[jJ]son::parse\(|_json_pointer\b|\bnlohmann/json")


def foreign_json(path):
    """(line, text) of every use of the JSON library outside of io/json.h and io/json.cpp."""
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if found := FOREIGN_JSON.search(line.split("//")[0]):
            yield number, found.group()


class Checker:
    def __init__(self, root):
        self.root = root
        self.problems = []
        self.count = 0
        self.defined = {}  # name of a type -> the file that defines it

    def report(self, path, line, text):
        self.problems.append(f"{path.relative_to(self.root)}:{line}: {text}")

    def third_party(self, path, line, target, layer, who):
        for start, allowed in THIRD_PARTY.items():
            if target.startswith(start) and layer not in allowed:
                where = ", ".join(sorted(allowed, key=LAYERS.index)) or "tests only"
                self.report(path, line, f"{who} may not include <{target}> (allowed in: {where})")

    def check_file(self, path, layer, who, private_allowed):
        """`layer` is the highest one that may be included, None for any."""
        self.count += 1
        limit = len(LAYERS) if layer is None else LAYERS.index(layer)
        kernel = KERNEL_HEADER.match(path.relative_to(self.root / "src").as_posix()) if private_allowed else None
        for line, quoted, target in includes(path):
            if kernel and not KERNEL_HEADER.match(target) and target not in C_HEADERS:
                self.report(path, line, 'a C99 kernel header may include only etp_*.h and the C library, '
                                        f"not {target}")
                continue
            first, rest = layer_of(target)
            if target.startswith("etrace/"):
                found = public_layer(target.removeprefix("etrace/"))
                if found is None:
                    self.report(path, line, f'public header "{target}" has no layer; add it to PUBLIC in '
                                            "tools/check_layers.py")
                elif LAYERS.index(found) > limit:
                    self.report(path, line, f'{who} includes "{target}", which belongs to the higher layer '
                                            f"{found}")
            elif first and (quoted or (self.root / "src" / target).exists()):
                if not private_allowed:
                    self.report(path, line, f'{who} includes the private header "{target}"')
                elif LAYERS.index(first) > limit and not KERNEL_HEADER.match(target):
                    self.report(path, line, f'{who} includes "{target}", which belongs to the higher layer '
                                            f"{first}")
            elif quoted:
                self.report(path, line, f'"{target}": write private headers as "layer/file.h", public ones as '
                                        '"etrace/file.h", all others with <>')
            else:
                self.third_party(path, line, target, layer if private_allowed else None, who)

    def check_types(self, path):
        for line, name in types(path):
            first = self.defined.setdefault(name, path)
            if first != path:
                self.report(path, line, f"{name} is also a type of {first.relative_to(self.root)}; rename one of them, "
                                        "or put it into an unnamed namespace")

    def check_json(self, path):
        if path.stem == "json" and path.parent.name == "io":
            return
        for line, found in foreign_json(path):
            self.report(path, line, f"{found}: JSON is read and written by io/json.h, which throws no exception of another "
                                    "library")

    def check_visibility(self, path):
        """The library hides what no header marks; what a public header declares must be seen."""
        text = path.read_text(encoding="utf-8", errors="replace")
        opens = re.search(r"^namespace etrace", text, re.MULTILINE)
        if opens and ("visibility push(default)" not in text[: opens.start()] or "visibility pop" not in text):
            self.report(path, text.count("\n", 0, opens.start()) + 1,
                        'a public header wraps its namespace in "#pragma GCC visibility push(default)" and '
                        '"#pragma GCC visibility pop"')

    def run(self):
        source_root, public_root = self.root / "src", self.root / "include" / "etrace"
        for path in sources(source_root):
            layer, _ = layer_of(path.relative_to(source_root).as_posix())
            if not layer:
                self.report(path.parent, 1, "unknown layer; add it to LAYERS in tools/check_layers.py and to "
                                            "ETRACE_LAYERS in CMakeLists.txt")
                continue
            self.check_file(path, layer, f"layer {layer}", private_allowed=True)
            self.check_json(path)
            self.check_types(path)
        for path in sources(public_root):
            name = path.relative_to(public_root).as_posix()
            layer = public_layer(name)
            if layer is None:
                self.report(path, 1, f"public header {name} has no layer; add it to PUBLIC in "
                                     "tools/check_layers.py")
                continue
            self.check_file(path, layer, f"public header of layer {layer}", private_allowed=False)
            self.check_types(path)
            self.check_visibility(path)
        for path in sources(self.root / "examples"):
            self.check_file(path, None, "an example", private_allowed=False)
        return self.problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--expect-layers", help="comma-separated; fail unless LAYERS is the same list")
    parser.add_argument("--quiet", action="store_true", help="print nothing when all is well")
    args = parser.parse_args()
    if args.expect_layers and args.expect_layers.split(",") != LAYERS:
        print("ETRACE_LAYERS in CMakeLists.txt and LAYERS in tools/check_layers.py differ; make them equal",
              file=sys.stderr)
        return 1
    checker = Checker(args.root.resolve())
    problems = checker.run()
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"check_layers: {len(problems)} violation(s); lowest layer first: {' '.join(LAYERS)}", file=sys.stderr)
        return 1
    if not args.quiet:
        print(f"check_layers: {checker.count} files, no violation")
    return 0


if __name__ == "__main__":
    sys.exit(main())
