"""Graphs of the Neuromorphic Intermediate Representation (NIR), both ways, through the package `nir`.

    model = et.nir.read("network.nir", dt=1e-4)      # a file or a nir.NIRGraph; one step of it
    …                                                # compile, train online: cycles, too
    et.nir.write(model, "trained.nir")               # the same graph with what was learned

NIR is written in continuous time; `model.conventions` says how its equations became steps."""

from ._graph import Graph, read
from ._write import write

__all__ = ["Graph", "read", "write"]
