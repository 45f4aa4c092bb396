import os

import pytest

from edgeopt.commands.bench.sides import chosen_cores
from edgeopt.errors import UsageError


@pytest.mark.parametrize("name", ["threads", "inter_threads", "compile_threads"])
def test_more_threads_than_can_get_on_are_refused(monkeypatch, name):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert chosen_cores({name: 16}) == ({name: 16}, ())
    with pytest.raises(UsageError, match=f"'{name}' must be at most 16 here"):
        chosen_cores({name: 17})


def test_no_device_has_cores_for_more_than_a_thousand_threads(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 512)
    with pytest.raises(UsageError, match="at most 1024"):
        chosen_cores({"threads": 1025})
