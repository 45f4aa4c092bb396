"""The analysis of the sample, looked for once: it takes seconds."""

import pytest

from edgeopt.commands.analyze.analyze import analyze
from edgeopt.data.demo import MODEL


@pytest.fixture(scope="session")
def analysis():
    return analyze(MODEL)
