import io
import signal
import subprocess
import sys

import numpy as np
import pytest

from edgeopt import events
from edgeopt.backends import null
from edgeopt.cli import main
from tests.bundle.runtime.decoder import write_decoder
from tests.bundle.runtime.scripted import ANSWER, PROMPT, write_scripted
from tests.bundle.runtime.speech import HIGH, HIGH_HZ, tone, write_speech, write_wav


@pytest.fixture
def arguments(tmp_path, null_model):
    np.savez(tmp_path / "data.npz", x=np.arange(30, dtype=np.float32).reshape(10, 3))
    return ["run", *map(str, (null_model("m"), "--data", tmp_path / "data.npz", "-o", tmp_path / "out"))]


def test_ctrl_c_says_how_to_go_on_and_the_same_command_does(arguments, tmp_path, monkeypatch, capsys):
    run = null.NullSession.run

    def interrupted(self, feeds):
        if feeds["x"][0, 0] == 18:
            raise KeyboardInterrupt
        return run(self, feeds)

    with monkeypatch.context() as patch:
        patch.setattr(null.NullSession, "run", interrupted)
        assert main.run(arguments) == 130
    assert "Cancelled; run the same command to continue with the missing samples." in capsys.readouterr().err
    assert main.run(arguments) == 0
    out = capsys.readouterr().out
    assert "Ran 4 samples and took 6 from the interrupted run" in out
    with np.load(tmp_path / "out" / "outputs.npz") as archive:
        assert archive["y"].shape == (10, 1, 2)


def test_a_batch_of_nothing_is_refused(arguments, capsys):
    assert main.run([*arguments, "--batch", "0"]) == 2
    assert "--batch must be at least 1, not 0" in capsys.readouterr().err


@pytest.fixture(scope="module")
def speaker(tmp_path_factory):
    """A model with a tokenizer that gives one answer."""
    pytest.importorskip("onnxruntime")
    return str(write_scripted(tmp_path_factory.mktemp("speaker") / "m.onnx"))


@pytest.mark.parametrize("more", [[], ["--chat"], ["--chat", "--system", "Be brief."]])
def test_a_prompt_prints_the_text_alone_to_stdout(speaker, capsys, more):
    assert main.run(["run", speaker, "--prompt", PROMPT if not more else "Hi", *more]) == 0
    out, err = capsys.readouterr()
    assert out == f"{ANSWER}\n"
    line = err.splitlines()[-1]
    assert line.startswith("8 tokens after ")
    assert "the first in " in line
    assert line.endswith(" tokens/s; the text ended.")


def test_records_have_each_piece_and_the_whole(speaker, capsys):
    assert main.run(["run", speaker, "--prompt", PROMPT, "--max-tokens", "4", "--json"]) == 0
    *pieces, result = map(events.decode, capsys.readouterr().out.splitlines())
    text = " cat: Grüße"
    assert "".join(each.data["text"] for each in pieces) == result.data["text"] == text
    assert len(pieces) == 4
    assert (result.kind, result.data["ending"]) == ("generate", "max_tokens")
    assert (result.data["prompt_tokens"], result.data["tokens"]) == (1, 4)


def test_a_prompt_from_stdin_and_options_reach_the_model(speaker, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"The\n")))
    options = [
        "--stop",
        "X",
        "--stop",
        "\u65e5",
        "--temperature",
        "5",
        "--top-k",
        "1",
        "--top-p",
        "0.5",
        "--seed",
        "1",
    ]
    assert main.run(["run", speaker, "--prompt", "-", *options]) == 0
    assert capsys.readouterr().out == " cat: Grüße \U0001f44b\U0001f3fd\n"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--prompt", "a", "--data", "b.npz"], 2, "--data and --prompt exclude each other"),
        ([], 2, "There is nothing to run the model on"),
        (["--data", "b.npz"], 2, "--data needs a folder"),
        (["--data", "b.npz", "-o", "c", "--chat"], 2, "--chat needs --prompt"),
        (["--audio", "a.wav", "--data", "b.npz"], 2, "--data and --audio exclude each other"),
        (["--audio", "a.wav", "--chat"], 2, "--chat needs --prompt"),
        (["--prompt", "a", "--language", "de"], 2, "--language needs --audio"),
        (["--audio", "a.wav"], 2, "has no encoder"),
        (["--data", "b.npz", "-o", "c", "--max-tokens", "3"], 2, "--max-tokens needs --prompt"),
        (["--prompt", "a", "--batch", "2"], 2, "--batch needs --data"),
        (["--prompt", "a", "-o", "c"], 2, "--out needs --data"),
        (["--prompt", "a", "--system", "b"], 2, "--system needs --chat"),
        (["--prompt", ""], 3, "The prompt has no tokens"),
        (["--prompt", "a", "--top-p", "0"], 2, "'top_p' cannot be 0"),
    ],
)
def test_options_that_do_not_go_together_are_refused(speaker, capsys, arguments, code, says):
    assert main.run(["run", speaker, *arguments]) == code
    assert says in capsys.readouterr().err


@pytest.fixture(scope="module")
def listener(tmp_path_factory):
    """A speech model, and a file of speech."""
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("listener")
    return str(write_speech(folder / "m.onnx")), str(write_wav(folder / "a.wav", tone(HIGH_HZ, 2)))


def test_speech_is_written_to_stdout(listener, capsys):
    model, audio = listener
    assert main.run(["run", model, "--audio", audio]) == 0
    out, err = capsys.readouterr()
    assert out == f"{HIGH}\n"
    assert err.splitlines()[-1].startswith("5 tokens of 2.0 s of audio (de), the first in ")
    more = ["--language", "en", "--task", "translate", "--max-tokens", "1", "--json"]
    assert main.run(["run", model, "--audio", audio, *more]) == 0
    *pieces, result = map(events.decode, capsys.readouterr().out.splitlines())
    assert [each.data["text"] for each in pieces] == ["日本"]  # the rest is an incomplete character
    found = result.data
    assert (result.kind, found["ending"], found["language"]) == ("generate", "max_tokens", "en")
    assert (found["audio_s"], found["tokens"]) == (2, 1)


def test_wrong_speech_says_why(listener, tmp_path, capsys):
    model, audio = listener
    assert main.run(["run", model, "--audio", str(tmp_path / "none.wav")]) == 3
    assert "cannot be read" in capsys.readouterr().err
    assert main.run(["run", model, "--audio", audio, "--language", "xx"]) == 2
    assert "It has: de, en." in capsys.readouterr().err
    assert main.run(["run", model, "--prompt", "a"]) == 2
    assert "edgeopt run MODEL --audio FILE" in capsys.readouterr().err


def test_models_that_cannot_take_a_prompt_say_why(tmp_path, null_model, capsys):
    assert main.run(["run", str(write_decoder(tmp_path / "m.onnx")), "--prompt", "a"]) == 2
    assert "There is no tokenizer in the folder 'm.text' beside the model" in capsys.readouterr().err
    assert main.run(["run", str(null_model("m")), "--prompt", "a"]) == 2
    assert "The model has no cache that can be used to generate" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_ctrl_c_ends_the_text_with_130(tmp_path):
    model = write_scripted(tmp_path / "m.onnx", endless=True)
    command = [
        sys.executable,
        "-m",
        "edgeopt",
        "run",
        str(model),
        "--prompt",
        PROMPT,
        "--max-tokens",
        "1000000000",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout.read(len(" cat:")) == b" cat:"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
        assert running.returncode == 130
    assert out.endswith(b"\n")
    assert "Cancelled; nothing was changed." in err.decode()


def test_control_characters_of_a_text_do_not_reach_a_terminal(tmp_path, capsys, monkeypatch):
    model = write_scripted(tmp_path / "m.onnx", " cat\x1b[2J\n!")
    assert main.run(["run", str(model), "--prompt", PROMPT]) == 0
    assert capsys.readouterr().out == " cat\x1b[2J\n!\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main.run(["run", str(model), "--prompt", PROMPT]) == 0
    assert capsys.readouterr().out == " cat\\x1b[2J\n!\n"
