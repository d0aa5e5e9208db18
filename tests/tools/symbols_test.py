"""What the shared library exports: what public headers declare, and no more than private headers say."""

import os
import subprocess
import sys
import unittest

LIBRARY = os.environ.get("ETRACE_LIBRARY", "")


def exported():
    done = subprocess.run(["nm", "-DC", "--defined-only", LIBRARY], capture_output=True, text=True, check=True)
    return done.stdout


class Symbols(unittest.TestCase):
    def test_public_names_are_there(self):
        names = exported()
        for name in ("etrace::matmul(", "etrace::add_p", "etrace::register_primitive(", "typeinfo for etrace::ValueError",
                     "etrace::nn::GRUCell::update("):
            self.assertIn(name, names)

    def test_private_names_are_not(self):
        names = exported()
        for name in ("etrace::TraceSlots::", "etrace::etp::Operands::"):
            self.assertNotIn(" T " + name, names)


if __name__ == "__main__":
    if not os.path.exists(LIBRARY):
        sys.exit(77)
    unittest.main()
