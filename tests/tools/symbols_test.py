"""What the shared library exports: what public headers declare, and what private headers mark as visible."""

import os
import re
import subprocess
import unittest
from pathlib import Path

import needs

LIBRARY = Path(os.environ.get("ETRACE_LIBRARY", ""))
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
NAMESPACE = re.compile(r"\bnamespace\s+([\w:]+)\s*\{")
DECLARED = re.compile(r"\b(?:class|struct|union|enum)\s+(\w+)|\b(\w+)\s*[({;=\[,]")


def exported():
    done = subprocess.run(["nm", "-DC", "--defined-only", LIBRARY], capture_output=True, text=True, check=True)
    return [line.split(" ", 2) for line in done.stdout.splitlines()]


def visible():
    """(names of namespaces, names that headers declare which are visible outside of the library)"""
    namespaces, names = set(), set()
    for folder in ("include", "src"):
        for header in (needs.ROOT / folder).rglob("*.h"):
            text = COMMENT.sub("", header.read_text("utf-8"))
            namespaces.update(part for m in NAMESPACE.finditer(text) for part in m[1].split("::"))
            if folder == "include" or "visibility push(default)" in text:
                names.update(m[1] or m[2] for m in DECLARED.finditer(text))
    return namespaces, names


def without_brackets(name):
    """A demangled name without template arguments, parameters and what returns it."""
    out, depth = "", 0
    for c in re.sub(r"operator(<=>|<<|>>|<=|>=|<|>|->|\(\))", "operator", name.replace("(anonymous namespace)", "anonymous")):
        depth += c == "<"
        if depth == 0 and c == "(":
            break
        out += c if depth == 0 else ""
        depth -= c == ">"
    return out


def entity(name, namespaces):
    """What stands in a namespace of ours: a class, for its members; a function; a variable."""
    found = re.search(r"\betrace::([\w:~]+)", without_brackets(name))
    parts = found[1].split("::") if found else []
    while parts and parts[0] in namespaces:
        parts.pop(0)
    return parts[0] if parts else None


class Symbols(unittest.TestCase):
    def test_public_names_are_there(self):
        names = "\n".join(name for _, _, name in exported())
        for name in ("etrace::matmul(", "etrace::add_p", "etrace::register_primitive(", "typeinfo for etrace::ValueError",
                     "etrace::nn::GRUCell::update("):
            self.assertIn(name, names)

    def test_private_names_are_not(self):
        namespaces, names = visible()
        functions = [name for _, kind, name in exported() if kind in "TtBbDdRr"]
        ours = {name: entity(name, namespaces) for name in functions}
        self.assertGreater(sum(e is not None for e in ours.values()), 1500)
        lost = sorted(name for name, e in ours.items() if e and not e.startswith("operator") and e not in names)
        self.assertEqual(lost, [], "exported, and no public header or marked private one declares it")

    def test_a_private_name_would_be_seen(self):
        namespaces, names = visible()
        for name in ("etrace::TraceSlots::TraceSlots(int)", "std::vector<int> etrace::etp::Operands::all() const",
                     "etrace::(anonymous namespace)::helper()"):
            self.assertFalse(entity(name, namespaces) in names, name)


if __name__ == "__main__":
    if not LIBRARY.is_file():
        needs.skip(f"there is no library '{LIBRARY}'")
    unittest.main()
