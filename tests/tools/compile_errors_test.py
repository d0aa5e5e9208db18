"""What the compiler says where a model is written wrongly: one error, which names the type and the arguments."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAD = """#include "etrace/nn/gru_cell.h"
#include "etrace/nn/lif.h"
using namespace etrace;
"""


def compiled(body):
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "model.cpp"
        source.write_text(HEAD + body, encoding="utf-8")
        done = subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-I", str(ROOT / "include"),
                               str(source)], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr


class CompileErrors(unittest.TestCase):
    def assert_one_error(self, body, *phrases):
        code, text = compiled(body)
        self.assertNotEqual(code, 0)
        self.assertEqual(text.count("error:"), 1, text)
        self.assertLess(len(text.splitlines()), 25, text)
        for phrase in phrases:
            self.assertIn(phrase, text)

    def test_right_models(self):
        code, text = compiled("""struct Net : Module {
          nn::GRUCell& rnn = child<nn::GRUCell>("rnn", 3, 8, {.seed = 2});
          nn::LIF& lif = child<nn::LIF>("lif", 8, {.tau = 10.0});
          Sequential& rest = child<Sequential>("rest");
          Net() { rest.add<nn::LIF>(8, {.tau = 4.0}); }
        };""")
        self.assertEqual(code, 0, text)

    def test_child_with_wrong_arguments(self):
        self.assert_one_error('struct Net : Module { nn::GRUCell& rnn = child<nn::GRUCell>("rnn", 3, "eight"); };',
                              "GRUCell", "Args = {int, const char (&)[6]}", "no constructor that takes these arguments",
                              "required from here")

    def test_child_with_too_few_arguments(self):
        self.assert_one_error('struct Net : Module { nn::GRUCell& rnn = child<nn::GRUCell>("rnn"); };', "GRUCell",
                              "no constructor that takes these arguments")

    def test_added_module(self):
        self.assert_one_error('void f(Sequential& net) { net.add<nn::LIF>("many"); }', "LIF", "Args = {const char (&)[5]}")

    def test_state(self):
        self.assert_one_error('struct Net : Module { HiddenState& h = state<HiddenState>("h", "zero"); };', "HiddenState",
                              "no constructor that takes these arguments")

    def test_option_that_does_not_exist(self):
        code, text = compiled('struct Net : Module { nn::LIF& l = child<nn::LIF>("l", 4, {.tua = 10.0}); };')
        self.assertNotEqual(code, 0)
        self.assertEqual(text.count("error:"), 1, text)
        self.assertIn("LIFOptions", text)


if __name__ == "__main__":
    unittest.main()
