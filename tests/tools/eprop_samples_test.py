"""examples/08_eprop_evidence.cpp with several samples per update: twice the same sample is that sample."""

import ast
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "eprop" / "evidence_accumulation.npz"
PROGRAM = Path(os.environ.get("ETRACE_CLI", "")).parents[1] / "examples" / "08_eprop_evidence"


def parts(npy):
    """The header's description and the bytes of an array, npy version 1."""
    size = struct.unpack("<H", npy[8:10])[0]
    return ast.literal_eval(npy[10:10 + size].decode("latin1").strip()), npy[10 + size:]


def npy(description, data):
    text = repr(description).encode("latin1")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def repeated(npy_file, times):
    """[updates, 1, …] becomes [updates, times, …]."""
    description, data = parts(npy_file)
    assert not description["fortran_order"] and description["shape"][1] == 1
    updates = description["shape"][0]
    size = len(data) // updates
    description["shape"] = (updates, times) + tuple(description["shape"][2:])
    return npy(description, b"".join(data[i * size:(i + 1) * size] * times for i in range(updates)))


def losses(path):
    done = subprocess.run([str(PROGRAM), str(path)], capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


class Samples(unittest.TestCase):
    def test_two_of_the_same(self):
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(DATA) as source:
            path = Path(folder) / "two.npz"
            with zipfile.ZipFile(path, "w") as target:
                for name in source.namelist():
                    data = source.read(name)
                    target.writestr(name, repeated(data, 2) if name in ("input_spikes.npy", "target.npy") else data)
            one, two = losses(DATA), losses(path)
        self.assertEqual(len(one), len(two))
        for a, b in zip(one, two):
            self.assertAlmostEqual(a, b, delta=1e-9)


if __name__ == "__main__":
    if not PROGRAM.is_file():
        sys.exit(77)
    unittest.main()
