"""Pythons as if on other systems."""

import pytest

from tests.portable.systems import start_python, uses


@pytest.fixture
def python():
    """Starts Python as if on another system; what a failed test leaves running is killed."""
    started, folders = [], set()

    def start(system, folder, *arguments, **options):
        folders.add(folder)
        started.append(start_python(system, folder, *arguments, **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
    assert [use for folder in folders for use in uses(folder)] == []
