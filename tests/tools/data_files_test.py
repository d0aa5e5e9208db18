#!/usr/bin/env python3
"""Files that other programs write (NumPy, h5py, SciPy) are read as they were meant: `etrace data show` counts what was
written, and a damaged HDF5 file is an error, never a crash."""

import csv
import gzip
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import needs

ROOT = Path(__file__).resolve().parents[2]
CLI = needs.program()

h5py, np, wavfile = needs.modules("h5py", "numpy", "scipy.io.wavfile")


def show(*words):
    done = subprocess.run([CLI, "data", "show", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def sample(number, *words):
    """The series of a sample as it was read, and its class."""
    code, text = show(*words, "--sample", number)
    assert code == 0, text
    head, *lines = text[text.index(f"sample {number}: class ") :].splitlines()
    return head.split("class ")[1].split(",")[0], np.array([[float(v) for v in line.split(",")] for line in lines])


class DataFiles(unittest.TestCase):
    def setUp(self):
        self.held = tempfile.TemporaryDirectory()
        self.folder = Path(self.held.name)
        self.random = np.random.default_rng(0)

    def tearDown(self):
        self.held.cleanup()

    def spoken(self, name, samples):
        with h5py.File(self.folder / name, "w") as file:
            times = file.create_dataset("spikes/times", (samples,), dtype=h5py.vlen_dtype(np.float16))
            units = file.create_dataset("spikes/units", (samples,), dtype=h5py.vlen_dtype(np.uint16))
            for i in range(samples):
                count = 7 * i  # the first row is empty
                times[i] = np.sort(self.random.uniform(0, 1.2, count)).astype(np.float16)
                units[i] = self.random.integers(0, 700, count).astype(np.uint16)
            file["labels"] = (np.arange(samples) % 3).astype(np.uint8)
            file.create_dataset("extra/keys", data=np.array([b"zero", b"one", b"two"]))
            file.create_dataset("extra/speaker", data=(np.arange(samples) % 2).astype(np.uint16))

    def test_shd_written_by_h5py(self):
        self.spoken("shd_train.h5", 9)
        self.spoken("shd_test.h5", 3)
        code, text = show(self.folder)
        if "needs HDF5" in text:
            self.skipTest("no library of HDF5")
        self.assertEqual(code, 0, text)
        self.assertIn("12 samples of 100 steps with 700 channels, 3 classes (9 for training, 3 for testing)", text)
        self.assertIn("class 2 two: 4 samples", text)
        self.assertIn(f"{7 * 36 + 7 * 3} spikes; 0 come after 1.4 s", text)
        code, text = show(self.folder, "--option", "duration=0.1")
        self.assertNotIn("; 0 come after", text)

    def test_recordings_of_a_clone_become_a_known_data_set(self):
        recordings = self.folder / "clone/recordings"
        recordings.mkdir(parents=True)
        for digit in range(2):
            for index in range(7):
                tone = np.sin(np.arange(2000) * (digit + 1) / 10) * 9000
                wavfile.write(recordings / f"{digit}_jackson_{index}.wav", 8000, tone.astype(np.int16))
        held = dict(os.environ, ETRACE_DATA=str(self.folder / "data"))
        make = [sys.executable, ROOT / "tools/make_data.py"]
        subprocess.run([*make, "spoken_digits_wav", self.folder / "clone"], env=held, check=True, capture_output=True)
        told = subprocess.run([CLI, "data", "show", "spoken_digits_wav"], env=held, capture_output=True, text=True)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("2 classes (4 for training, 10 for testing)", told.stdout)
        for words in (["spoken_digits_wav", self.folder], ["spoken_digits_wav"], ["other"], []):
            self.assertNotEqual(subprocess.run([*make, *words], env=held, capture_output=True).returncode, 0, words)

    def test_damaged_hdf5_is_no_crash(self):
        self.spoken("shd_train.h5", 4)
        whole = (self.folder / "shd_train.h5").read_bytes()
        if "needs HDF5" in show(self.folder / "shd_train.h5")[1]:
            self.skipTest("no library of HDF5")
        draw = random.Random(5)
        for _ in range(40):
            broken = bytearray(whole)
            for _ in range(draw.randint(1, 8)):
                broken[draw.randrange(len(broken))] = draw.randrange(256)
            (self.folder / "shd_train.h5").write_bytes(broken[: draw.choice([len(broken), draw.randrange(len(broken))])])
            code, text = show(self.folder / "shd_train.h5")
            self.assertIn(code, (0, 2), text)

    def test_npz_written_by_numpy(self):
        x = self.random.normal(size=(30, 7, 2)).astype(np.float32)
        np.savez_compressed(self.folder / "a.npz", X=x, y=np.arange(30) % 3)
        self.assertIn("30 samples of 7 steps with 2 channels, 3 classes", show(self.folder / "a.npz")[1])
        lengths = np.arange(1, 11)
        np.savez(self.folder / "b.npz", X=np.zeros((lengths.sum(), 4)), y=np.arange(10) % 2, lengths=lengths)
        self.assertIn("10 samples of 1 to 10 steps with 4 channels, 2 classes", show(self.folder / "b.npz")[1])
        np.savez(self.folder / "c.npz", X=np.zeros((5, 4)), y=np.arange(2), lengths=np.array([2, 2]))
        code, text = show(self.folder / "c.npz")
        self.assertEqual(code, 2)
        self.assertIn("2 series with 4 steps, but x is", text)

    def test_values_of_npz(self):
        x = self.random.normal(size=(5, 7, 2))
        for kind in (np.float64, np.float32, np.float16, np.int16):
            np.savez_compressed(self.folder / "v.npz", X=(10 * x).astype(kind), y=np.arange(5) % 2)
            label, series = sample(3, self.folder / "v.npz")
            self.assertEqual(label, "1")
            np.testing.assert_allclose(series, (10 * x).astype(kind)[3].astype(np.float32), rtol=1e-6)

    def test_csv_written_by_csv_and_numpy(self):
        x = self.random.normal(size=(6, 4))
        with open(self.folder / "a.csv", "w", newline="", encoding="utf-8-sig") as file:
            writer = csv.writer(file)
            writer.writerow(["a", "b", "c", "d", "kind, of"])
            for i, row in enumerate(x):
                writer.writerow([*row, 'say "x", y' if i % 2 else "z"])
        label, series = sample(1, self.folder / "a.csv", "--option", "channels=2")
        self.assertEqual(label, 'say "x"')  # up to its comma, which the helper cuts
        np.testing.assert_allclose(series, x[1].reshape(2, 2), rtol=1e-6)
        table = np.column_stack([x, np.arange(6) % 3])
        np.savetxt(self.folder / "b.csv", table, delimiter=",")
        np.savetxt(self.folder / "c.csv.gz", table, delimiter=",")
        np.savetxt(self.folder / "d.tsv", table, delimiter="\t", header="a\tb\tc\td\ty", comments="")
        for name in ("b.csv", "c.csv.gz", "d.tsv"):
            label, series = sample(4, self.folder / name)
            np.testing.assert_allclose(series[:, 0], x[4], rtol=1e-6)
            self.assertIn("6 samples of 4 steps with 1 channels, 3 classes", show(self.folder / name)[1])

    def test_idx_packed_by_gzip(self):
        images = self.random.integers(0, 256, (5, 4, 3)).astype(np.uint8)
        labels = np.array([3, 1, 3, 1, 7], np.uint8)
        for stem, array in (("train-images-idx3-ubyte", images), ("train-labels-idx1-ubyte", labels)):
            with gzip.open(self.folder / f"{stem}.gz", "wb") as file:
                file.write(struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())
        label, series = sample(4, self.folder)
        self.assertEqual(label, "7")
        np.testing.assert_allclose(series, images[4] / 255, rtol=1e-6)

    def test_gestures_as_numpy_saves_them(self):
        for part, user in (("ibmGestureTrain", "user01_fluorescent"), ("ibmGestureTest", "user24_led")):
            (self.folder / part / user).mkdir(parents=True)
            for k in range(2):
                events = np.column_stack([self.random.integers(0, 128, (50, 2)), self.random.integers(0, 2, 50), np.sort(self.random.integers(0, 200, 50))])
                np.save(self.folder / part / user / f"{k}.npy", events.astype(np.float64 if k else np.int64))
        code, text = show(self.folder, "--option", "pool=32")
        self.assertEqual(code, 0, text)
        self.assertIn("(2 for training, 2 for testing)", text)
        _, series = sample(0, self.folder, "--option", "pool=32")
        self.assertEqual(series.shape[1], 32)
        self.assertEqual(series.sum(), 50)

    def test_nmnist_as_numpy_packs_it(self):
        for part, digit in (("Train", 0), ("Train", 1), ("Test", 1)):
            (self.folder / part / str(digit)).mkdir(parents=True)
            x, y = self.random.integers(0, 34, (2, 40))
            t = np.sort(self.random.integers(0, 300000, 40))
            word = x.astype(np.uint64) << 32 | y.astype(np.uint64) << 24 | np.uint64(1 << 23) | t.astype(np.uint64)
            raw = word.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 3:]
            raw.tofile(self.folder / part / str(digit) / "00001.bin")
        _, series = sample(0, self.folder)
        self.assertEqual(series.sum(), 40)
        self.assertEqual(series[:, :1156].sum(), 0, "all of one polarity")

    def test_ts_of_the_archive(self):
        for name, said in (
            ("japanese_vowels", "640 samples of 7 to 29 steps with 12 channels, 9 classes (270 for training, 370 for testing)"),
            ("basic_motions", "80 samples of 100 steps with 6 channels, 4 classes (40 for training, 40 for testing)"),
            ("fashion_mnist", "70000 samples of 28 steps with 28 channels, 10 classes"),
            ("spoken_digits", "3000 samples of 6 to 92 steps with 13 channels, 10 classes"),
        ):
            with self.subTest(name):
                code, text = show(name)
                if "is not installed" in text:
                    self.skipTest(f"the data set {name} is not installed; ./dev data brings it")
                self.assertEqual(code, 0, text)
                self.assertIn(said, text)

    def test_wav_written_by_scipy(self):
        for label, hertz in (("low", 300), ("high", 2000)):
            (self.folder / label).mkdir()
            wave = 0.5 * np.sin(2 * np.pi * hertz * np.arange(1600) / 8000)
            for i, kind in enumerate((np.float32, np.float64, np.int16, np.int32)):
                scale = 1 if np.issubdtype(kind, np.floating) else np.iinfo(kind).max
                wavfile.write(self.folder / label / f"{i}.wav", 8000, (wave * scale).astype(kind))
        code, text = show(self.folder)
        self.assertEqual(code, 0, text)
        self.assertIn("8 samples of 18 steps with 40 channels, 2 classes", text)


if __name__ == "__main__":
    unittest.main()
