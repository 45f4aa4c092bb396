"""Bundles with evidence, of which each test knows what is in it."""

import shutil

import pytest

from tests.commands.report.evidence import outcome, put_evidence, quantized


@pytest.fixture(scope="session")
def raced_bundle(conv_bundle, tmp_path_factory):
    """A bundle with the evidence of a search."""
    copy = shutil.copytree(conv_bundle, tmp_path_factory.mktemp("raced") / "raced.edgeopt")
    return put_evidence(copy, outcome())


@pytest.fixture(scope="session")
def planned_bundle(conv_bundle, tmp_path_factory):
    """A bundle with the evidence of a plan of precision."""
    copy = shutil.copytree(conv_bundle, tmp_path_factory.mktemp("planned") / "planned.edgeopt")
    return put_evidence(copy, quantized())
