"""Exporter of the encoder of Whisper in a Hugging Face folder, with keys and values for its decoder as outputs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgeopt.importing.children.child import Input, Job


def _beside(name: str) -> Any:
    """Imports a module of this folder, which is on no path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - it is a path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


speech_child = _beside("speech_child")
torch_child = speech_child.torch_child

NEEDS, version, check = speech_child.NEEDS, speech_child.version, speech_child.check
unsteady, run, export, layers = torch_child.unsteady, torch_child.run, torch_child.export, torch_child.layers


def load(job: Job) -> Any:
    return torch_child.Original(speech_child.load(job).encoder)


def inputs(original: Any, job: Job) -> list[Input]:
    job.dims = {speech_child.FEATURES: {0: "batch"}}
    return [speech_child.feature_input(original, job)]
