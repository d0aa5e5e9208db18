"""Written by tools/python_stubs.py; do not edit."""

from typing import Any

from ._core import Array, DtypeLike, Task as Task, TaskBatch as TaskBatch
from ._own_task import OwnTask as OwnTask, part_of as part_of

def make(name: str, *, seed: int = 0, dtype: DtypeLike | None = None, **settings: Any) -> Task: ...
def names() -> list[str]: ...
def accuracy(outputs: Array, batch: TaskBatch) -> float: ...

def adding(*, steps: int = ..., seed: int = 0, dtype: DtypeLike | None = None) -> Task:
    """the sum of the two numbers of a long stream that are marked

    Settings:
        steps = 50  (2 to 1e+06) length of a sequence
        seed = 0, dtype = float32"""
def copying(*, symbols: int = ..., alphabet: int = ..., lag: int = ..., curriculum: int = ..., seed: int = 0, dtype: DtypeLike | None = None) -> Task:
    """remember a sequence of symbols over a lag, then name them in order

    Settings:
        symbols = 10  (1 to 10000) symbols per sequence
        alphabet = 8  (2 to 10000) different symbols
        lag = 20  (0 to 1e+06) blank steps between the symbols and the cue
        curriculum = 0  (0 to 1e+09) batches over which the lag grows to its full length; 0: it is full from the start
        seed = 0, dtype = float32"""
def data(*, test: float = ..., valid: float = ..., normalise: int = ..., by_group: int = ..., seed: int = 0, dtype: DtypeLike | None = None, **settings: Any) -> Task:
    """which class does a series belong to? data from a file, a folder or a known data set

    Settings:
        test = 0.2  (0.001 to 0.9) part kept for the final score, where the data has none
        valid = 0.1  (0.001 to 0.9) part of the rest kept for checks, where the data has none
        normalise = 1  (0 to 1) 1: channels get mean 0 and variance 1 over the training part
        by_group = 0  (0 to 1) 1: speakers, users … are not torn apart by the split
        seed = 0, dtype = float32"""
def decision_making(*, cues: int = ..., pause: int = ..., cue: int = ..., delay: int = ..., recall: int = ..., group: int = ..., rate: float = ..., noise: float = ..., odds: float = ..., seed: int = 0, dtype: DtypeLike | None = None) -> Task:
    """on which side were there more cues? more channels, and a delay of a second

    Settings:
        cues = 7  (1 to 1001) cues per trial
        pause = 50  (0 to 1e+06) steps before each cue
        cue = 100  (1 to 1e+06) steps of a cue
        delay = 1000  (0 to 1e+06) steps between the last cue and recall
        recall = 150  (1 to 1e+06) steps of recall, which are scored
        group = 25  (1 to 100000) channels of each of the four groups
        rate = 40.0  (0 to 1000) spikes per second of a channel while its group is active
        noise = 10.0  (0 to 1000) spikes per second of a channel of noise
        odds = 0.7  (0 to 1) how often a cue lies on the favoured side
        seed = 0, dtype = float32"""
def delayed_match(*, inputs: int = ..., fixation: int = ..., sample: int = ..., delay: int = ..., test: int = ..., rate: float = ..., background: float = ..., seed: int = 0, dtype: DtypeLike | None = None) -> Task:
    """are the two directions shown before and after a delay the same? two directions, few channels

    Settings:
        inputs = 16  (2 to 100000) channels
        fixation = 0  (0 to 1e+06) steps before the sample
        sample = 10  (1 to 1e+06) steps of the sample
        delay = 20  (0 to 1e+06) steps between sample and test
        test = 10  (1 to 1e+06) steps of the test, which are scored
        rate = 0.3  (0 to 1) spikes per step of a channel that prefers the direction
        background = 0.0  (0 to 1) spikes per step of every channel
        seed = 0, dtype = float32"""
def delayed_match_von_mises(*, inputs: int = ..., fixation: int = ..., sample: int = ..., delay: int = ..., test: int = ..., rate: float = ..., background: float = ..., directions: int = ..., kappa: float = ..., seed: int = 0, dtype: DtypeLike | None = None) -> Task:
    """are the two directions shown before and after a delay the same? channels with tuning curves

    Settings:
        inputs = 100  (2 to 100000) channels
        fixation = 10  (0 to 1e+06) steps before the sample
        sample = 50  (1 to 1e+06) steps of the sample
        delay = 100  (0 to 1e+06) steps between sample and test
        test = 50  (1 to 1e+06) steps of the test, which are scored
        rate = 0.1  (0 to 1) spikes per step of a channel that prefers the direction
        background = 0.001  (0 to 1) spikes per step of every channel
        directions = 8  (2 to 1000) directions around the circle
        kappa = 3.0  (0 to 1000) sharpness of the tuning
        seed = 0, dtype = float32"""
def delayed_xor(*, shown: int = ..., delay: int = ..., cue: int = ..., seed: int = 0, dtype: DtypeLike | None = None) -> Task:
    """do two bits differ that were shown one after the other? named after a delay

    Settings:
        shown = 3  (1 to 1e+06) steps that a bit is shown
        delay = 10  (0 to 1e+06) steps after each bit
        cue = 3  (1 to 1e+06) steps in which the answer is asked for
        seed = 0, dtype = float32"""
def evidence_accumulation(*, cues: int = ..., pause: int = ..., cue: int = ..., delay: int = ..., recall: int = ..., group: int = ..., rate: float = ..., noise: float = ..., odds: float = ..., seed: int = 0, dtype: DtypeLike | None = None) -> Task:
    """on which side were there more cues? asked more than a second after the last one

    Settings:
        cues = 7  (1 to 1001) cues per trial
        pause = 50  (0 to 1e+06) steps before each cue
        cue = 100  (1 to 1e+06) steps of a cue
        delay = 1050  (0 to 1e+06) steps between the last cue and recall
        recall = 150  (1 to 1e+06) steps of recall, which are scored
        group = 10  (1 to 100000) channels of each of the four groups
        rate = 40.0  (0 to 1000) spikes per second of a channel while its group is active
        noise = 10.0  (0 to 1000) spikes per second of a channel of noise
        odds = 0.7  (0 to 1) how often a cue lies on the favoured side
        seed = 0, dtype = float32"""
def integrator(*, steps: int = ..., drift: float = ..., noise: float = ..., seed: int = 0, dtype: DtypeLike | None = None) -> Task:
    """the running sum of a noisy signal

    Settings:
        steps = 25  (1 to 1e+06) length of a sequence
        drift = 0.025  (0 to 1000) size of the constant part
        noise = 0.05  (0 to 1000) standard deviation of the noise of a step
        seed = 0, dtype = float32"""
def mackey_glass(*, steps: int = ..., ahead: int = ..., warm: int = ..., tau: float = ..., seed: int = 0, dtype: DtypeLike | None = None) -> Task:
    """a chaotic series, some steps ahead

    Settings:
        steps = 100  (1 to 1e+06) length of a sequence
        ahead = 10  (1 to 100000) how far ahead the value is asked for
        warm = 20  (0 to 1e+06) steps at the start that are not scored
        tau = 17.0  (1 to 1000) delay of the equation; chaotic from 16.8 on
        seed = 0, dtype = float32"""
def parity(*, steps: int = ..., seed: int = 0, dtype: DtypeLike | None = None) -> Task:
    """is the number of ones so far odd? asked in every step

    Settings:
        steps = 20  (1 to 1e+06) length of a sequence
        seed = 0, dtype = float32"""
def pattern_generation(*, steps: int = ..., inputs: int = ..., rate: float = ..., seed: int = 0, dtype: DtypeLike | None = None) -> Task:
    """draw a sum of sine waves from a frozen pattern of spikes

    Settings:
        steps = 1000  (2 to 1e+06) length of a trial
        inputs = 100  (1 to 100000) channels of frozen spikes
        rate = 50.0  (0 to 1000) spikes per second of a channel
        seed = 0, dtype = float32"""
def sequential_digits(*, pixels: int = ..., test: float = ..., valid: float = ..., seed: int = 0, dtype: DtypeLike | None = None) -> Task:
    """handwritten digits, shown row by row or pixel by pixel

    Settings:
        pixels = 8  (1 to 64) pixels per step: 8 is a row, 1 a pixel
        test = 0.28  (0.01 to 0.9) part of the images that is kept for the final score
        valid = 0.1  (0.01 to 0.9) part of the others that is kept for checks
        seed = 0, dtype = float32"""
def text(*, steps: int = ..., seed: int = 0, dtype: DtypeLike | None = None) -> Task:
    """the next character of a text

    Settings:
        steps = 40  (1 to 1e+06) characters of a sequence
        seed = 0, dtype = float32"""
