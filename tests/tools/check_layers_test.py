"""Made-up source trees, one violation each: tools/check_layers.py must catch it, and name file and line."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "check_layers.py"


def check(files, *args):
    """(exit code, messages) of the script on a tree with these files."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, str(SCRIPT), "--root", root, *args], capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout + done.stderr


class CheckLayers(unittest.TestCase):
    def assert_caught(self, files, *phrases):
        code, output = check(files)
        self.assertEqual(code, 1, output)
        for phrase in phrases:
            self.assertIn(phrase, output)

    def assert_clean(self, files):
        code, output = check(files)
        self.assertEqual(code, 0, output)

    def test_downward_and_own_includes_pass(self):
        self.assert_clean({
            "src/core/print.cpp": '#include "core/walk.h"\n#include "base/text.h"\n#include "etrace/ir.h"\n#include <vector>\n',
            "include/etrace/ir.h": '#pragma once\n#include "etrace/aval.h"\n#include <string>\n',
            "examples/one.cpp": "#include <etrace/etrace.h>\n",
        })

    def test_upward_private_include(self):
        self.assert_caught({"src/core/a.cpp": '#include "base/b.h"\n\n#include "ops/c.h"\n'},
                           "src/core/a.cpp:3", "higher layer ops")

    def test_upward_public_include(self):
        self.assert_caught({"src/base/a.cpp": "#include <etrace/ops/elementwise.h>\n"}, "src/base/a.cpp:1", "layer ops")

    def test_upward_include_between_public_headers(self):
        self.assert_caught({"include/etrace/aval.h": '#include "etrace/ir.h"\n'}, "include/etrace/aval.h:1", "layer core")

    def test_private_header_in_public_header(self):
        self.assert_caught({"include/etrace/ir.h": '#include "base/text.h"\n'}, "private header")

    def test_third_party_header_in_public_header(self):
        self.assert_caught({"include/etrace/model_io.h": "#include <nlohmann/json.hpp>\n"}, "nlohmann")

    def test_third_party_header_in_wrong_layer(self):
        self.assert_caught({"src/io/a.cpp": "#include <CLI/CLI.hpp>\n"}, "CLI/CLI.hpp", "allowed in: cli")
        self.assert_clean({"src/io/json.cpp": "#include <nlohmann/json.hpp>\n"})

    def test_json_library_outside_of_its_file(self):
        for text in ("#include <nlohmann/json.hpp>\n", "nlohmann::json x;\n", "auto y = x.dump(2);\n", "Json::parse(t);\n"):
            self.assert_caught({"src/io/a.cpp": "\n" + text}, "src/io/a.cpp:2", "io/json.h")
        self.assert_clean({"src/train/a.cpp": '#include "io/json.h"\nauto t = json_text(x);  // not x.dump()\n'})

    def test_kernel_headers_stand_alone_and_serve_every_layer(self):
        self.assert_clean({"src/base/a.cpp": '#include "runtime/etp_math.h"\n',
                           "src/runtime/etp_gemm.h": '#include <math.h>\n#include "runtime/etp_math.h"\n'})
        self.assert_caught({"src/runtime/etp_gemm.h": '#include "base/text.h"\n'}, "src/runtime/etp_gemm.h:1", "C99")
        self.assert_caught({"src/runtime/etp_gemm.h": "#include <vector>\n"}, "C99")
        self.assert_caught({"src/base/a.cpp": '#include "runtime/pool.h"\n'}, "higher layer runtime")

    def test_public_header_whose_names_are_hidden(self):
        body = "namespace etrace {\nint f();\n}\n"
        self.assert_caught({"include/etrace/ir.h": "#pragma once\n" + body}, "include/etrace/ir.h:2", "visibility push")
        self.assert_clean({"include/etrace/ir.h": "#pragma once\n#pragma GCC visibility push(default)\n" + body +
                                                  "#pragma GCC visibility pop\n"})

    def test_unknown_public_header(self):
        self.assert_caught({"include/etrace/surprise.h": "#pragma once\n"}, "surprise.h", "add it to PUBLIC")

    def test_unknown_layer(self):
        self.assert_caught({"src/misc/a.cpp": "int a;\n"}, "unknown layer")

    def test_include_without_layer(self):
        self.assert_caught({"src/core/a.cpp": '#include "walk.h"\n'}, 'write private headers as "layer/file.h"')

    def test_example_with_private_header(self):
        self.assert_caught({"examples/one.cpp": '#include "core/walk.h"\n'}, "an example")

    def test_includes_in_comments_do_not_count(self):
        self.assert_clean({"src/core/a.cpp": '// #include "ops/c.h"\n/*\n#include "ops/c.h"\n*/\n'})

    def test_two_types_of_one_name(self):
        one = "namespace etrace {\nstruct Place {\n  int a;\n};\n}  // namespace etrace\n"
        self.assert_caught({"src/core/a.h": one, "src/learn/run/b.h": "\n" + one}, "src/learn/run/b.h:3",
                           "etrace::Place is also a type of src/core/a.h")
        hidden = "namespace etrace {\nnamespace {\nstruct Place {\n  int a;\n};\n}  // namespace\n}  // namespace etrace\n"
        apart = one.replace("namespace etrace", "namespace etrace::other")
        declared = "namespace etrace {\nstruct Place;\nstruct Place::Part {\n  int a;\n};\n}  // namespace etrace\n"
        self.assert_clean({"src/core/a.h": one, "src/learn/run/b.cpp": hidden, "src/learn/run/c.h": apart, "src/core/d.h": declared})

    def test_layers_of_the_build_must_agree(self):
        code, output = check({}, "--expect-layers", "base,ir")
        self.assertEqual(code, 1)
        self.assertIn("ETRACE_LAYERS", output)


if __name__ == "__main__":
    unittest.main()
