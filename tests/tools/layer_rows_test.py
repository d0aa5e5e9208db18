"""Every layer that a public header declares is a row of a table of tests: forward numbers, gradients, errors."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLASS = re.compile(r"^(?:class|struct) (\w+)(?: final)? : (?:public )?(\w+)", re.MULTILINE)
# What the others derive from; none of them computes anything alone.
BASES = {
    "AdaptivePool", "Conv", "DegreeOne", "DelayLine", "Dynamics", "FixedPool", "LinearDynamics", "Neuron", "NumberLayer",
    "Pool", "SameUnitLayer", "ScaleFreeLayer", "WeightLayer",
}  # fmt: skip
MODULES = {"Module", "Sequential"}  # of etrace/module.h


def declared(root):
    """Names of all classes below include/etrace/nn that derive from Module, on whatever way."""
    parents = {}
    for header in sorted((root / "include/etrace/nn").glob("*.h")):
        parents.update(CLASS.findall(header.read_text(encoding="utf-8")))
    found = set(MODULES)
    while True:
        more = {name for name, parent in parents.items() if parent in found} - found
        if not more:
            return found - MODULES - BASES
        found |= more


def rows(root):
    """Names that stand in the tables, without comments."""
    words = set()
    for table in sorted((root / "tests/nn").glob("*_table_test.cpp")):
        text = re.sub(r"//.*", "", table.read_text(encoding="utf-8"))
        words |= set(re.findall(r'\{"(\w+)', text))
    return words


class LayerRows(unittest.TestCase):
    def test_every_layer_has_a_row(self):
        names = declared(ROOT)
        self.assertGreater(len(names), 90)
        self.assertEqual(sorted(names - rows(ROOT)), [], "add a row to a table in tests/nn/*_table_test.cpp")

    def test_every_layer_says_what_it_makes_of_units(self):
        text = re.sub(r"//.*", "", (ROOT / "tests/nn/units_table_test.cpp").read_text(encoding="utf-8"))
        words = set(re.findall(r"\w+", text))
        self.assertEqual(sorted(declared(ROOT) - words), [], "add a row to tests/nn/units_table_test.cpp")

    def test_a_base_that_is_gone_leaves_the_list(self):
        text = "".join(h.read_text(encoding="utf-8") for h in (ROOT / "include/etrace/nn").glob("*.h"))
        for name in sorted(BASES):
            self.assertRegex(text, rf"(class|struct) {name}\b")


if __name__ == "__main__":
    unittest.main()
