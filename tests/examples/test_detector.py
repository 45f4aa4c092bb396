import numpy as np
import pytest
from PIL import Image

# A cell of 8 x 8 pixels is an object if it is white; its box is the cell.
SIDE, CELL = 64, 8
DETECTOR = """
net (float[1, 3, 64, 64] image) => (float[1, 64, 2] scores, float[1, 64, 4] boxes) {
  mean = AveragePool <kernel_shape = [8, 8], strides = [8, 8]> (image)
  grey = ReduceMean <axes = [1], keepdims = 1> (mean)
  white = Reshape (grey, shape)
  object = Clip (white, low, high)
  background = Sub (high, object)
  scores = Concat <axis = 2> (background, object)
  boxes = Identity (cells)
}
"""


@pytest.fixture
def detector(write_model):
    corners = np.arange(0, SIDE, CELL)
    cells = [(x, y, x + CELL, y + CELL) for y in corners for x in corners]
    return write_model(
        DETECTOR,
        name="detector.onnx",
        shape=np.array([1, 64, 1]),
        low=np.float32(0),
        high=np.float32(1),
        cells=np.array(cells, np.float32)[None] / SIDE,
    )


@pytest.fixture
def wide(reader):
    """A picture of 256 x 128 pixels, which the letterbox makes 64 x 32; a white square is at two of its places."""
    pixels = np.zeros((128, 256, 3), np.uint8)
    pixels[0:32, 64:96] = pixels[96:128, 224:256] = 255
    (reader.folder / "pictures").mkdir()
    Image.fromarray(pixels).save(reader.folder / "pictures" / "squares.png")
    return pixels


def test_objects_are_found_at_their_places_in_the_picture(reader, detector, wide):
    printed = reader.type("", f"python examples/detector.py '{detector}' pictures -o drawn")
    assert sorted(line.split()[2:] for line in printed.splitlines()) == [
        ["224", "96", "256", "128"],
        ["64", "0", "96", "32"],
    ]
    with Image.open(reader.folder / "drawn" / "00000.png") as drawn:
        assert drawn.size == (256, 128)
        assert drawn.getpixel((65, 16)) == (255, 0, 0)
        assert drawn.getpixel((10, 10)) == (0, 0, 0)


def test_frames_of_a_video_are_read(reader, detector, wide):
    cv2 = pytest.importorskip("cv2", reason="opencv-python is not installed")
    size = (wide.shape[1], wide.shape[0])
    video = cv2.VideoWriter(str(reader.folder / "film.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 10, size)
    for _ in range(3):
        video.write(wide)
    video.release()
    printed = reader.type("", f"python examples/detector.py '{detector}' film.avi")
    assert {line.split()[0] for line in printed.splitlines()} == {"0", "1", "2"}
