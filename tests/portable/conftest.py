"""Pythons as if on other systems."""

import pytest

from tests.portable.systems import start_python


@pytest.fixture
def python():
    """Starts Python as if on another system; what a failed test leaves running is killed."""
    started = []

    def start(*arguments, **options):
        started.append(start_python(*arguments, **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
