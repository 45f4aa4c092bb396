"""Thirty broken files dropped, one after the other: each gets its sentence, and the app goes on."""

import gzip
import io
import json
import os
import pickle
import random
import zipfile

import pytest

from edgeopt.data.demo import DATA, MODEL
from edgeopt_gui.imports.dialog import ImportDialog

PATIENCE_MS = 60_000
WHOLE = MODEL.read_bytes()


def damaged(seed, count):
    """The model with some of its bytes changed, but for the weights at its end."""
    dice = random.Random(seed)  # noqa: S311 - not for secrets: the same damage in every run
    raw = bytearray(WHOLE)
    for _ in range(count):
        raw[dice.randrange(len(raw) // 8)] = dice.randrange(256)
    return bytes(raw)


def zipped(name, content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


FILES = {
    "empty.onnx": b"",
    "one-byte.onnx": b"\x08",
    "zeros.onnx": bytes(5000),
    "ones.onnx": b"\xff" * 5000,
    "noise.onnx": bytes(place * place % 251 for place in range(9000)),
    "text.onnx": b"this is no model\n" * 50,
    "page.onnx": b"<!DOCTYPE html><html><body>404</body></html>",
    "settings.onnx": json.dumps({"model": "none"}).encode(),
    "picture.onnx": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "pickle.onnx": pickle.dumps({"weights": [1, 2, 3]}),
    "packed.onnx": gzip.compress(WHOLE),
    "archive.onnx": zipped("model.onnx", WHOLE),
    "checkpoint.pt": zipped("archive/data.pkl", b"x"),
    "pointer.onnx": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    "lite.tflite": b"\x1c\x00\x00\x00TFL3" + bytes(64),
    "keras.h5": b"\x89HDF\r\n\x1a\n" + bytes(64),
    "language.gguf": b"GGUF" + bytes(64),
    "no-ending": b"\x00\x01\x02",
    "long-field.onnx": b"\x3a\xff\xff\xff\xff\x0f" + bytes(10),
    "ümläut & space.onnx": b"broken",
    **{f"cut-{size}.onnx": WHOLE[:size] for size in (7, 100, 2000, len(WHOLE) // 2, len(WHOLE) - 1)},
    "empty.edgeopt": b"",
    "zip.edgeopt": zipped("readme.txt", b"nothing"),
    "photo.png": b"\x89PNG\r\n\x1a\n",
    "array.npy": b"\x93NUMPY",
}
# The sentences themselves are tested without a window; each file here is a process of its own.
STRIDE = 4
DAMAGED = {f"damaged-{seed}.onnx": damaged(seed, 40) for seed in range(4)}


@pytest.fixture
def window(open_window):
    return open_window()


def drop(qtbot, window, path):
    """The sentence that the drop led to; "" where the page shows the model after all."""
    page = window.page("model")
    window.statusBar().clearMessage()
    before = window.context.subject
    window.open_paths([path])
    if window.context.subject is before:
        dialog = window.findChild(ImportDialog)
        if dialog is None:
            return window.statusBar().currentMessage()
        said = f"{dialog.windowTitle()}: {dialog.kind.text()}"
        dialog.close()
        qtbot.waitUntil(lambda: window.findChild(ImportDialog) is None)
        return said
    qtbot.waitUntil(lambda: page.state in {"error", "content"}, timeout=PATIENCE_MS)
    if page.state == "error":
        assert window.page("graph").state == "error"
        return page._error.sentence.text()
    return ""


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("stride", [STRIDE, pytest.param(1, marks=pytest.mark.slow)])
def test_each_gets_its_sentence_and_the_app_goes_on(qtbot, window, context, tmp_path, stride):
    unsaid = []
    for name, content in list(FILES.items())[::stride]:
        path = tmp_path / name
        path.write_bytes(content)
        sentence = drop(qtbot, window, path)
        if len(sentence) < 15 or "Traceback" in sentence or "should not" in sentence:
            unsaid.append((name, sentence))
    assert unsaid == []
    for name, content in list(DAMAGED.items())[
        ::stride
    ]:  # what is changed may still be a model, and then it is shown
        (tmp_path / name).write_bytes(content)
        assert "should not" not in drop(qtbot, window, tmp_path / name)
    assert len(FILES) + len(DAMAGED) >= 30
    window.open_paths([MODEL, DATA])
    qtbot.waitUntil(lambda: window.page("model").state == "content", timeout=PATIENCE_MS)
    assert context.data == DATA
    assert not window._failure.isVisible()


def test_what_is_no_file_at_all_is_refused(qtbot, window, tmp_path):
    folder = tmp_path / "folder.onnx"
    folder.mkdir()
    loop = tmp_path / "loop.onnx"
    loop.symlink_to(loop)
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    for path, said in ((folder, "not a bundle"), (loop, "does not exist"), (pipe, "not a file")):
        assert said in drop(qtbot, window, path)


def test_broken_data_is_told_where_it_is_chosen(qtbot, window, tmp_path):
    window.open_paths([MODEL])
    wrong = tmp_path / "wrong.npz"
    wrong.write_bytes(b"no arrays")
    window.open_paths([wrong])
    why = window.book["optimize.start"].why_not
    qtbot.waitUntil(lambda: "data" in why(), timeout=PATIENCE_MS)
