"""Makes data sets that no package holds as files, for `etrace data` to find.

usage: make_data.py mnist1d                    needs the package mnist1d of PyPI
       make_data.py spoken_digits_wav CLONE    CLONE: the repository free-spoken-digit-dataset

The files go to $ETRACE_DATA, else ~/.local/share/etrace/data.
"""

import os
import pathlib
import shutil
import sys


def data_folder(name, fill):
    """The folder of a data set, which is there when all its files are: fill(folder) writes them beside it first."""
    root = os.environ.get("ETRACE_DATA") or os.path.expanduser("~/.local/share/etrace/data")
    folder, unfinished = pathlib.Path(root) / name, pathlib.Path(root) / f"{name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    fill(unfinished)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)
    return folder


def mnist1d():
    """The package's generator with its own settings and seed: a curve of 40 steps for each sample."""
    import numpy as np
    from mnist1d.data import get_dataset_args, make_dataset

    made = make_dataset(get_dataset_args())
    arrays = {
        "X_train": made["x"][:, :, None].astype(np.float32),
        "y_train": made["y"].astype(np.int64),
        "X_test": made["x_test"][:, :, None].astype(np.float32),
        "y_test": made["y_test"].astype(np.int64),
    }
    return data_folder("mnist1d", lambda folder: np.savez(folder / "mnist1d.npz", **arrays))


def spoken_digits_wav(clone):
    """Recordings DIGIT_SPEAKER_INDEX.wav: by the repository's own rule, index 0 to 4 is the test part."""
    recordings = sorted((pathlib.Path(clone) / "recordings").glob("*_*_*.wav"))
    if not recordings:
        sys.exit(f"make_data.py: '{clone}' has no folder recordings with files DIGIT_SPEAKER_INDEX.wav")

    def fill(folder):
        for recording in recordings:
            index = int(recording.stem.rsplit("_", 1)[1])
            part = folder / ("test" if index < 5 else "train")
            part.mkdir(exist_ok=True)
            shutil.copyfile(recording, part / recording.name)

    return data_folder("spoken_digits_wav", fill)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["mnist1d"]:
            print(mnist1d())
        case ["spoken_digits_wav", clone]:
            print(spoken_digits_wav(clone))
        case _:
            sys.exit(__doc__)
