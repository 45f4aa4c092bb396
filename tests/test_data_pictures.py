import sys
import zlib

import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.data.preparation import evenly, picture_files, prepare, prepare_one
from edgeopt.data.read import load_data
from edgeopt.errors import DataError, MissingExtraError
from edgeopt.profiles import Data

IMAGE = TensorInfo("image", "float32", ("n", 3, 4, 4))
OTHER = TensorInfo("other", "float32", (1,))


def pixels(height, width, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def one(picture, **steps):
    return prepare_one(picture, Data(**steps), "it")


def test_without_steps_only_the_layout_and_the_type_change():
    picture = pixels(4, 6)
    assert np.array_equal(one(picture), picture.transpose(2, 0, 1).astype(np.float32))
    assert np.array_equal(one(picture, layout="nhwc", dtype="uint8"), picture)


def test_scale_then_mean_then_std():
    picture = pixels(2, 2)
    steps = {"scale": 1 / 255, "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.25, 0.5), "layout": "nhwc"}
    wanted = (picture / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.25, 0.5]
    assert np.allclose(one(picture, **steps), wanted, atol=1e-5)
    assert one(picture, mean=(128.0,), dtype="int8").dtype == np.int8


def test_the_colour_order():
    picture = pixels(3, 3)
    assert np.array_equal(one(picture, colour_order="bgr", layout="nhwc"), picture[:, :, ::-1])
    gray = one(picture, colour_order="gray", layout="nhwc")
    assert gray.shape == (3, 3, 1)
    assert np.allclose(gray[:, :, 0], picture @ [0.299, 0.587, 0.114], atol=1e-3)


def test_gray_pictures_and_such_with_an_alpha_channel():
    gray = pixels(3, 3, 1)
    assert np.array_equal(one(gray[:, :, 0]), np.repeat(gray, 3, 2).transpose(2, 0, 1))
    alpha = pixels(3, 3, 4)
    assert np.array_equal(one(alpha, layout="nhwc"), alpha[:, :, :3])


@pytest.mark.parametrize(
    ("resize", "crop", "size"),
    [
        ((8,), (), (8, 16)),
        ((8, 12), (), (8, 12)),
        ((), (6,), (6, 6)),
        ((), (6, 10), (6, 10)),
        ((8,), (8,), (8, 8)),
        ((40,), (), (40, 80)),
    ],
)
def test_sizes(resize, crop, size):
    assert one(pixels(16, 32), resize=resize, crop=crop).shape == (3, *size)


def test_the_middle_is_kept():
    picture = pixels(6, 8)
    assert np.array_equal(one(picture, crop=(2, 4), layout="nhwc"), picture[2:4, 2:6])


def test_shrinking_averages_and_does_not_pick_single_pixels():
    board = np.indices((16, 16)).sum(0) % 2 * 255
    picture = np.repeat(board[:, :, None], 3, 2).astype(np.uint8)
    assert abs(one(picture, resize=(4, 4))[:, 1:-1, 1:-1] - 127.5).max() < 4


def test_resizing_keeps_a_plane_a_plane():
    ramp = np.repeat(np.arange(0, 160, 10, np.uint8)[:, None], 16, 1)
    tall = one(ramp, resize=(32, 16), colour_order="gray")[0]
    inner = tall[2:-2, 0]
    assert np.allclose(np.diff(inner), 5, atol=1e-3)
    assert np.allclose(one(np.full((7, 5, 3), 9, np.uint8), resize=(3, 11)), 9, atol=1e-4)


def test_agrees_with_pillow(pillow):
    from PIL import Image

    picture = pixels(37, 53)
    for height, width in ((16, 16), (60, 40)):
        wanted = np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BILINEAR), float)
        assert abs(one(picture, resize=(height, width), layout="nhwc") - wanted).max() <= 1.01


@pytest.mark.parametrize("name", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("height", "width"), [(16, 16), (60, 40), (37, 20), (20, 53), (16, 50), (12, 70)])
@pytest.mark.parametrize("size", [(37, 53), (53, 37), (40, 40)])
def test_rounded_pixels_are_those_of_pillow(pillow, name, size, height, width):
    from PIL import Image

    picture = pixels(*size)
    filter_ = Image.Resampling[name.upper()]
    wanted = np.asarray(Image.fromarray(picture).resize((width, height), filter_), float)
    given = {"filter": name, "rounded": True, "layout": "nhwc"}
    assert np.array_equal(one(picture, resize=(height, width), **given), wanted)


def test_the_longer_side_is_cut_off_as_in_the_common_libraries():
    assert one(pixels(10, 19), resize=(5,)).shape == (3, 5, 9)


@pytest.mark.parametrize(
    ("size", "place", "rows", "columns"),
    [
        ((20, 40), "middle", (4, 12), (0, 16)),
        ((20, 40), "top-left", (0, 8), (0, 16)),
        ((40, 20), "middle", (0, 16), (4, 12)),
        ((8, 8), "top-left", (0, 16), (0, 16)),
    ],
)
def test_a_letter_box_keeps_the_aspect_and_fills_the_rest(size, place, rows, columns):
    made = one(np.full((*size, 3), 200, np.uint8), letter_box=(16,), place=place, scale=0.5, layout="nhwc")
    wanted = np.full((16, 16, 3), 57.0)
    wanted[slice(*rows), slice(*columns)] = 100
    assert np.allclose(made, wanted, atol=1e-4)


def test_a_letter_box_that_is_no_square_with_its_own_fill():
    made = one(np.full((10, 10, 3), 50, np.uint8), letter_box=(10, 30), fill=0.0)
    assert made.shape == (3, 10, 30)
    assert np.allclose(made.sum(axis=(0, 1))[[0, 9, 10, 19, 20, 29]], [0, 0, 1500, 1500, 0, 0])


def test_values_that_do_not_fit_the_type():
    with pytest.raises(DataError, match=r"it has values from .* which do not fit into int8") as caught:
        one(pixels(8, 8), dtype="int8")
    assert "[data]" in caught.value.hint


def test_a_picture_smaller_than_the_crop():
    with pytest.raises(DataError, match="it is 4x4 and cannot be cropped to 5x5"):
        one(pixels(4, 4), crop=(5,))


def test_few_of_many_are_evenly_spread():
    assert evenly(10, 4) == [0, 2, 5, 7]
    assert evenly(3, 256) == [0, 1, 2]
    prepared = prepare(np.arange(10, dtype=np.uint8)[:, None, None], Data(most_samples=5), "it")
    assert prepared[:, 0, 0, 0].tolist() == [0, 2, 4, 6, 8]


@pytest.fixture
def save(tmp_path):
    def write(name, **arrays):
        np.savez(tmp_path / name, **arrays)
        return tmp_path / name

    return write


def test_arrays_of_bytes_are_pictures(save):
    path = save("data.npz", image=np.stack([pixels(8, 8, seed=k) for k in range(3)]), label=np.arange(3))
    samples = load_data(path, (IMAGE,), Data(resize=(4, 4), scale=1 / 255))
    assert (len(samples), samples.shapes(), samples.ignored) == (3, {"image": [1, 3, 4, 4]}, ("label",))
    assert samples.arrays["image"].max() <= 1


def test_arrays_of_floats_were_prepared_already(save):
    floats = np.random.default_rng(0).random((3, 3, 4, 4), np.float32)
    samples = load_data(save("data.npz", image=floats), (IMAGE,), Data(scale=7.0))
    assert np.array_equal(samples.arrays["image"], floats)


def test_which_input_takes_the_pictures(save):
    picture, rest = np.stack([pixels(4, 4)]), np.ones((1, 1), np.float32)
    path = save("data.npz", image=picture, other=rest)
    assert load_data(path, (IMAGE, OTHER), Data(input="image")).shapes()["image"] == [1, 3, 4, 4]
    with pytest.raises(DataError, match="does not name the one for pictures") as caught:
        load_data(path, (IMAGE, OTHER), Data())
    assert 'input = "image"' in caught.value.hint
    with pytest.raises(DataError, match="has no input 'picture'"):
        load_data(path, (IMAGE, OTHER), Data(input="picture"))


def png(picture):
    """A PNG file of this picture, without a library."""

    def chunk(kind, content):
        return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")

    height, width = picture.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in picture)
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.fixture
def folder(tmp_path):
    """Pictures in folders by class, and what else lies about."""
    for k, name in enumerate(("b/2.png", "a/1.PNG", "a/0.png")):
        file = tmp_path / "pictures" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(pixels(8, 8, seed=k)))
    (tmp_path / "pictures" / "readme.txt").touch()
    return tmp_path / "pictures"


@pytest.fixture
def pillow():
    pytest.importorskip("PIL", reason="Pillow is not installed (the extra 'images')")


def test_which_files_are_pictures(folder):
    assert [file.name for file in picture_files(folder)] == ["0.png", "1.PNG", "2.png"]
    np.save(folder / "image.npy", np.zeros((2, 3, 4, 4), np.float32))
    assert picture_files(folder) == []
    assert picture_files(folder / "readme.txt") == []


def test_a_folder_of_pictures(folder, pillow):
    samples = load_data(folder, (IMAGE,), Data(crop=(4,)))
    assert (len(samples), samples.shapes()) == (3, {"image": [1, 3, 4, 4]})
    first = pixels(8, 8, seed=2)[2:6, 2:6].transpose(2, 0, 1)
    assert np.array_equal(samples.arrays["image"][0], first)


def test_a_damaged_picture_is_named(folder, pillow):
    (folder / "b" / "2.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    with pytest.raises(DataError, match=r"2\.png' cannot be read as a picture"):
        load_data(folder, (IMAGE,), Data(crop=(4,)))


def test_pictures_of_two_sizes(folder, pillow):
    (folder / "b" / "2.png").write_bytes(png(pixels(8, 9)))
    with pytest.raises(DataError, match=r"becomes \[3, 8, 8\], but .*2\.png becomes \[3, 8, 9\]") as caught:
        load_data(folder, (IMAGE,), Data())
    assert "resize" in caught.value.hint


def test_without_pillow_it_is_said_what_brings_it(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError) as caught:
        load_data(folder, (IMAGE,), Data())
    assert caught.value.hint == "Install it with: pip install pillow"


def test_pictures_without_a_data_table(folder):
    with pytest.raises(DataError, match="holds pictures, but nothing says how") as caught:
        load_data(folder, (IMAGE,))
    assert "[data]" in caught.value.hint


def test_an_empty_folder(tmp_path):
    with pytest.raises(DataError, match=r"holds no \.npy files and no pictures"):
        load_data(tmp_path, (IMAGE,), Data())
