"""Processes that start at once: they are forked from one that has imported what takes each of them a second."""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import BaseContext, ForkServerContext
from types import SimpleNamespace

import pytest

_IMPORTED = (
    "tvm",
    "tvm.rpc.server",
    "tvm.rpc.tracker",
    "onnxruntime",
    "dsascape.tuner.measure.candidate_worker",
    "dsascape.tuner.on_device.session",
    "dsascape.tuner.on_device.candidate_bench",
    "dsascape.tuner.on_device.cross",
    "dsascape.tuner.on_device.bundling",
    "dsascape.tuner.on_device.probes",
)


def context() -> ForkServerContext:
    """Return how such processes start: what is passed to them is pickled, and they share nothing else with this one."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload([*_IMPORTED])
    return found


@contextmanager
def forked() -> Iterator[None]:
    """Let kernels be built and run in processes that start so; those of the processes of a run are spawned as ever."""
    here = os.getpid()

    def chosen(way: str) -> BaseContext:
        return context() if os.getpid() == here else multiprocessing.get_context(way)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dsascape.tuner.measure.child.multiprocessing", SimpleNamespace(get_context=chosen))
        yield
