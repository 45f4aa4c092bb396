"""Sixteen threads that decode a type for the first time, all at once."""

import os
import subprocess
import sys

import pytest

from edgeopt.decoding import thread_safe
from tests.structure.imports import ROOT

_TYPES = (
    "edgeopt.bundle.deployment:Deployment",
    "edgeopt.bundle.manifest:Manifest",
    "edgeopt.hw.device:Device",
    "edgeopt_agent.drift.watch:SavedDrift",
)
"""Some that the agent reads in threads and in its loop."""


def _crashed(way: str, *types: str) -> tuple[int, list[str]]:
    """How many types were tried, and which of them crashed."""
    command = (sys.executable, "-m", "tests.first_use", way, *types)
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )
    count, *crashed = done.stdout.split()
    return int(count), crashed


@pytest.mark.cold
def test_threads_decode_types_of_the_agent_at_once() -> None:
    assert _crashed("safe", *_TYPES * 5) == (20, [])


@pytest.mark.cold
def test_the_same_threads_crash_without_it() -> None:
    """If none crashes any more, msgspec is mended: then `edgeopt.decoding` can go."""
    assert _crashed("bare", *_TYPES * 5)[1] != []


@pytest.mark.cold
@pytest.mark.slow
def test_threads_decode_every_struct_at_once() -> None:
    count, crashed = _crashed("safe")
    assert count > 500
    assert crashed == []


def test_a_type_is_known_with_all_within_it() -> None:
    first, second = list[int], list[int]
    assert thread_safe(second) is thread_safe(first)
