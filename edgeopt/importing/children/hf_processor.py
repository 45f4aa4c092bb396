"""Runs of a Hugging Face folder's processor on a few pictures or sounds, in the user's environment."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from edgeopt.importing.children.child import Feeds, Job

SIZES = ((480, 640), (640, 427), (300, 300), (225, 341), (97, 131))
"""Height and width of the pictures: landscape and portrait, larger and smaller than models take."""
SECONDS = (0.5, 1.0, 1.7)
SEED = 20241
_KINDS = {"pixel_values": "pictures", "input_values": "sound"}


def processed(job: Job, taken: Any, settings: Feeds) -> tuple[Feeds | None, list[Feeds], list[Feeds]]:
    """Returns the processor as a record, its inputs, and its outputs."""
    name = next((each for each in _KINDS if each in taken), "")
    if not settings or not name:
        if settings and "input_features" in taken:
            job.notes.append(
                "The bundle takes features, as the feature extractor of the folder makes them of sound."
            )
        return None, [], []
    random = np.random.default_rng(SEED)
    try:
        if name == "pixel_values":
            raw, made, processor = _pictures(job, random)
        else:
            raw, made, processor = _sounds(job, random)
    except ModuleNotFoundError:
        raise  # named as the package that is missing
    except Exception as error:
        job.notes.append(
            f"The processor of the folder is not in the bundle, because it fails: {job.reason(error)}."
        )
        return None, [], []
    if processor is None:
        return None, [], []
    record = {
        "name": type(processor).__name__,
        "kind": _KINDS[name],
        "input": name,
        "settings": {key: _plain(value) for key, value in processor.to_dict().items()},
    }
    return record, [{_KINDS[name]: each} for each in raw], [{name: each} for each in made]


def _pictures(job: Job, random: Any) -> tuple[list[Any], list[Any], Any]:
    from PIL import Image
    from transformers import AutoImageProcessor

    processor = AutoImageProcessor.from_pretrained(job.place, trust_remote_code=job.trust)
    raw = [picture(random, *size) for size in SIZES]
    made = [
        np.asarray(processor(images=Image.fromarray(each))["pixel_values"][0], np.float32)[None] for each in raw
    ]
    return raw, made, processor


def _sounds(job: Job, random: Any) -> tuple[list[Any], list[Any], Any]:
    from transformers import AutoFeatureExtractor

    processor = AutoFeatureExtractor.from_pretrained(job.place, trust_remote_code=job.trust)
    if not getattr(processor, "do_normalize", False):
        return [], [], None
    rate = processor.sampling_rate
    raw = [_sound(random, int(rate * seconds))[None] for seconds in SECONDS]
    made = [
        np.asarray(processor(each[0], sampling_rate=rate)["input_values"][0], np.float32)[None] for each in raw
    ]
    return raw, made, processor


def picture(random: Any, height: int, width: int) -> Any:
    """Returns a picture with smooth light, edges and grain, like a photograph."""
    rows, columns = np.mgrid[:height, :width] / np.array([height, width]).reshape(2, 1, 1)
    waves = random.uniform(0.5, 6.0, (2, 3))
    light = np.sin(rows[..., None] * waves[0] * 6 + columns[..., None] * waves[1] * 6 + random.uniform(0, 6, 3))
    edges = ((rows * 5 + columns * 3) % 1 > 0.5)[..., None] * random.uniform(-60, 60, 3)
    found = 128 + 70 * light + edges + random.normal(0, 8, (height, width, 3))
    return np.clip(found, 0, 255).astype(np.uint8)


def _sound(random: Any, length: int) -> Any:
    tone = np.sin(np.arange(length) * random.uniform(0.02, 0.4))
    return (random.uniform(0.05, 0.4) * tone + random.normal(0.02, 0.02, length)).astype(np.float32)


def _plain(value: Any) -> Any:
    """Converts a value to types that JSON holds."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
