"""A trial for tests that leave nothing loaded in it."""

import contextlib

import pytest

from edgeopt.workers.host import LocalHost


@pytest.fixture(scope="module")
def any_trial():
    with contextlib.closing(LocalHost().start()) as child:
        yield child
