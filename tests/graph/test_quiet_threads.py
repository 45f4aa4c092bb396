"""Two threads that silence libraries at once: when both are done, everything speaks again."""

import logging
import warnings
from threading import Event, Thread

from edgeopt.graph.nodes import quiet


def overlap(first, second):
    """Runs two contexts in threads: the first is entered first and left first."""
    first_in, second_in, first_out = Event(), Event(), Event()

    def one():
        with first():
            first_in.set()
            second_in.wait(10)
        first_out.set()

    def two():
        first_in.wait(10)
        with second():
            second_in.set()
            first_out.wait(10)

    threads = [Thread(target=one), Thread(target=two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)


def test_levels_and_warnings_are_as_before():
    filters, level = list(warnings.filters), logging.getLogger("onnx_ir").level
    overlap(quiet, quiet)
    assert warnings.filters == filters
    assert logging.getLogger("onnx_ir").level == level
