"""The processor of a Hugging Face folder as steps of edgeopt: what is covered, and what is not."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.processing.attach import read_pictures
from edgeopt.importing.children.hf_processor import SECONDS, picture, processed
from edgeopt.importing.preprocessing import FolderProcessor, UncoveredError, picture_steps, take_over
from edgeopt.profiles.schema import Data

SCALE = 1 / 255
SIDES = {"height": 8, "width": 8}
VIT = {
    "do_resize": True, "size": SIDES, "resample": 2, "do_rescale": True, "rescale_factor": SCALE,
    "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3,
}  # fmt: skip
CUBIC = {"do_resize": True, "resample": 3}
INPUTS = (TensorInfo("pixel_values", "float32", ("batch", 3, 8, 8)),)


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        (VIT, {"resize": (8, 8), "rounded": True, "scale": SCALE, "mean": (0.5,) * 3, "std": (0.25,) * 3}),
        (
            {
                **CUBIC,
                "size": {"shortest_edge": 9},
                "do_center_crop": True,
                "crop_size": {"height": 8, "width": 8},
            },
            {"resize": (9,), "filter": "bicubic", "rounded": True, "crop": (8, 8)},
        ),
        (
            {**CUBIC, "size": {"shortest_edge": 224}, "crop_pct": 0.875},
            {"resize": (256,), "filter": "bicubic", "rounded": True, "crop": (224,)},
        ),
        (
            {**CUBIC, "size": {"shortest_edge": 384}, "crop_pct": 0.875},
            {"resize": (384, 384), "filter": "bicubic", "rounded": True},
        ),
        ({"do_flip_channel_order": True, "do_resize": False, "size": {}}, {"colour_order": "bgr"}),
    ],
)
def test_settings_become_steps(settings, steps):
    assert picture_steps(settings) == Data(**steps)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"do_pad": True}, "pads"),
        ({"resample": 1}, "the number 1"),
        ({"size": {"shortest_edge": 800, "longest_edge": 1333}}, "shortest_edge 800, longest_edge 1333"),
    ],
)
def test_settings_that_are_not_covered_say_why(change, said):
    with pytest.raises(UncoveredError, match=said):
        picture_steps({**VIT, **change})


def by_pillow(pictures, filter_):
    from PIL import Image

    resized = [np.asarray(Image.fromarray(each).resize((8, 8), filter_), np.float32) for each in pictures]
    return [{"pixel_values": ((each.transpose(2, 0, 1) * SCALE - 0.5) / 0.25)[None]} for each in resized]


@pytest.fixture
def taken(tmp_path):
    """Takes over the steps of a processor that resizes by a filter of Pillow, which it may not say."""
    pytest.importorskip("PIL")
    random = np.random.default_rng(0)
    pictures = [picture(random, *size) for size in ((10, 20), (21, 9), (16, 16))]

    def take(filter_, settings=VIT, inputs=INPUTS):
        processor = FolderProcessor("Resizer", "pictures", "pixel_values", settings)
        raw = [{"pictures": each} for each in pictures]
        return take_over(processor, raw, by_pillow(pictures, filter_), inputs, 90, tmp_path)

    return take


def test_steps_that_agree_are_written(taken):
    pre = taken(2)
    assert (pre.processor, pre.samples) == ("Resizer", 3)
    assert pre.snr_db > 45
    assert read_pictures(Path(pre.file)).resize == (8, 8)


def test_processor_that_does_something_else_than_its_settings_is_refused(taken):
    with pytest.raises(UncoveredError, match=r"agree to \S+ dB only, and 45 dB are needed"):
        taken(0)


def test_steps_that_do_not_fit_the_model_are_refused(taken):
    with pytest.raises(UncoveredError, match=r"makes \[1, 3, 8, 8\] of a picture; the model takes"):
        taken(2, inputs=(TensorInfo("pixel_values", "float32", ("batch", 3, 16, 16)),))


def test_processor_of_a_source_is_written_with_the_line_that_uses_it(imports, planted):
    code, last, left = imports(planted("sound"))
    assert (code, left) == (0, {"out.onnx", "out.npz", "out.pre.onnx"}), last
    pre = last["data"]["pre"]
    assert (pre["file"], pre["processor"], pre["samples"]) == ("out.pre.onnx", "Normalizer", 3)
    assert pre["snr_db"] > 90


def test_processor_that_differs_leaves_a_note_and_no_file(imports, planted):
    code, last, left = imports(planted("sound, then loud"))
    assert (code, left) == (0, {"out.onnx", "out.npz"}), last
    assert last["data"]["pre"] is None
    (note,) = last["data"]["notes"]
    assert note.startswith("Normalizer of the folder is not taken over for --pre: edgeopt's steps agree to")


def test_import_prints_the_line_with_pre(imports, planted, capfd):
    from edgeopt.cli.main import run

    assert imports
    assert run(["import", str(planted("sound")), "-o", "out.onnx"]) == 0
    printed = " ".join(capfd.readouterr().out.split())
    assert "--data out.npz --pre out.pre.onnx -o out.edgeopt" in printed
    assert "Preprocessing: out.pre.onnx" in printed


class Halving:
    """A feature extractor of sound, as `transformers` loads it."""

    sampling_rate = 100

    def __init__(self, do_normalize):
        self.do_normalize = do_normalize

    def to_dict(self):
        return {"do_normalize": self.do_normalize}

    def __call__(self, sound, sampling_rate):
        return {"input_values": [sound * (sampling_rate / 200)]}


@pytest.mark.parametrize("normalizes", [True, False])
def test_feature_extractor_is_recorded_where_it_normalizes(monkeypatch, normalizes):
    loads = SimpleNamespace(from_pretrained=lambda *_, **__: Halving(normalizes))
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(AutoFeatureExtractor=loads))
    job = SimpleNamespace(place="folder", trust=False, notes=[])
    record, raw, made = processed(job, {"input_values"}, {"feature_extractor_type": "Halving"})
    assert job.notes == []
    if not normalizes:
        assert (record, raw, made) == (None, [], [])
        return
    settings = {"do_normalize": True}
    assert record == {"name": "Halving", "kind": "sound", "input": "input_values", "settings": settings}
    assert len(raw) == len(made) == len(SECONDS)
    for sound, features in zip(raw, made, strict=True):
        np.testing.assert_array_equal(features["input_values"], sound["sound"] / 2)
