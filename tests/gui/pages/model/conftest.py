"""The analysis of the sample, looked for once: it takes seconds."""

import pytest

from edgeopt.analyzing.analyze import analyze
from edgeopt.samples import MODEL


@pytest.fixture(scope="session")
def analysis():
    return analyze(MODEL)
