"""The analysis of the sample, looked for once: it takes seconds."""

import msgspec
import pytest

from edgeopt.commands.analyze.analyze import analyze
from edgeopt.data.demo import MODEL
from edgeopt.graph.analysis import Analysis


@pytest.fixture(scope="session")
def analysis(made_once):
    told = made_once("analysis.json", lambda: msgspec.json.encode(analyze(MODEL)))
    return msgspec.json.decode(told.read_bytes(), type=Analysis)
