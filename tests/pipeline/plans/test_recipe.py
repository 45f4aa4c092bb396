from dataclasses import replace

import pytest

from edgeopt import backends
from edgeopt.pipeline.plans import recipe
from edgeopt.pipeline.plans.exact import CLEANED, LOWERED, SOURCE
from edgeopt.pipeline.plans.libraries import NNCF_INT8, ORT_INT8

NAME = "onnxruntime-like"


@pytest.fixture(autouse=True)
def _one_more(monkeypatch):
    """One more backend of edgeopt's own, of another runtime that reads ONNX."""
    (cpu,) = (backend for backend in backends.BACKENDS if backend.name == "onnxruntime-cpu")
    monkeypatch.setattr(backends, "BACKENDS", (*backends.BACKENDS, replace(cpu, name=NAME, package="onnx")))
    for module in (backends, recipe):
        monkeypatch.setattr(module, "NAMES", (*backends.NAMES, NAME))


def test_a_new_backend_runs_exact_variants_of_what_it_reads():
    assert SOURCE.runs_on(NAME)
    assert CLEANED.runs_on(NAME)


def test_a_new_backend_runs_nothing_that_is_made_for_another_runtime():
    assert not LOWERED.runs_on(NAME)
    assert not ORT_INT8.runs_on(NAME)
    assert not NNCF_INT8.runs_on(NAME)
    assert backends.lowering_names(NAME) == ()
