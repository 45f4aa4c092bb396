import json
from pathlib import Path

import pytest

from edgeopt.hw.host import RecordedHost

FAKEROOTS = Path(__file__).parents[1] / "fakeroots"


@pytest.fixture
def board():
    """A recorded machine by name."""
    return lambda name: RecordedHost(FAKEROOTS / name)


@pytest.fixture
def machine(tmp_path):
    """Makes a recorded machine out of files by path and recorded calls."""

    def make(files=None, cache_folder=None, **tables):
        root = tmp_path / "machine"
        for path, text in (files or {}).items():
            file = root / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        root.mkdir(exist_ok=True)
        (root / "calls.json").write_text(json.dumps(tables))
        return RecordedHost(root, cache_folder)

    return make
