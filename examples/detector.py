"""Runs a detector on pictures, a video or a camera, and draws the boxes.

    python detector.py detector.edgeopt pictures/ -o drawn
    python detector.py detector.edgeopt 0 -o drawn          camera 0; needs opencv-python

For a model with one input of shape (1, 3, H, W) and the outputs `scores` (1, N, classes), where class 0 is the
background, and `boxes` (1, N, 4): left, top, right and bottom as fractions of the input.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageOps

import edgeopt

# What training subtracted from the pixels, and divided them by.
MEAN, SCALE = 127.0, 128.0


def frames(source: str) -> Iterator[Image.Image]:
    """Pictures of a folder; otherwise frames of a video file, or of the camera with this number."""
    if Path(source).is_dir():
        for path in sorted(Path(source).iterdir()):
            yield Image.open(path).convert("RGB")
        return
    import cv2

    capture = cv2.VideoCapture(int(source) if source.isdigit() else source)
    while (read := capture.read())[0]:
        yield Image.fromarray(cv2.cvtColor(read[1], cv2.COLOR_BGR2RGB))


def letterbox(picture: Image.Image, width: int, height: int) -> np.ndarray:
    """The picture in the size of the model's input, with grey bars instead of distortion."""
    padded = ImageOps.pad(picture, (width, height), color=(127, 127, 127))
    pixels: np.ndarray = (np.asarray(padded, np.float32) - MEAN) / SCALE
    return pixels.transpose(2, 0, 1)[None]


def without_letterbox(boxes: np.ndarray, picture: Image.Image, width: int, height: int) -> np.ndarray:
    """Boxes in pixels of the picture."""
    scale = min(width / picture.width, height / picture.height)
    bars: np.ndarray = (np.array([width, height]) - scale * np.array(picture.size)) / 2
    pixels: np.ndarray = (boxes.reshape(-1, 2, 2) * (width, height) - bars) / scale
    return pixels.reshape(-1, 4)


def best_boxes(boxes: np.ndarray, scores: np.ndarray, min_score: float, max_overlap: float = 0.4) -> list[int]:
    """Non-maximum suppression: the best box of each object."""
    sizes = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[int] = []
    for index in np.argsort(-scores):
        if scores[index] < min_score:
            break
        inner = np.minimum(boxes[kept, 2:], boxes[index, 2:]) - np.maximum(boxes[kept, :2], boxes[index, :2])
        common = np.maximum(inner, 0).prod(axis=1)
        if (common <= max_overlap * (sizes[kept] + sizes[index] - common)).all():
            kept.append(int(index))
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws the boxes that a detector finds.")
    parser.add_argument("bundle")
    parser.add_argument("source", help="folder of pictures, video file, or number of a camera")
    parser.add_argument("-o", "--out", type=Path, default=Path("drawn"))
    parser.add_argument("--score", type=float, default=0.7, help="least score of a box")
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)
    with edgeopt.load(arguments.bundle) as session:
        height, width = (int(size or 0) for size in session.inputs[0].shape[2:])
        for number, picture in enumerate(frames(arguments.source)):
            outputs = session.run(letterbox(picture, width, height))
            boxes = without_letterbox(outputs["boxes"][0], picture, width, height)
            scores = outputs["scores"][0, :, 1:].max(axis=1)
            draw = ImageDraw.Draw(picture)
            for index in best_boxes(boxes, scores, arguments.score):
                print(number, f"{scores[index]:.2f}", *boxes[index].round().astype(int))
                draw.rectangle(tuple(boxes[index]), outline="red", width=3)
            picture.save(arguments.out / f"{number:05}.png")


if __name__ == "__main__":
    main()
