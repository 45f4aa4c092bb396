"""A speech model that writes one text for low tones and another for high ones, in the files of Whisper."""

import itertools
import json
import wave

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeopt.text.tokenizer import Tokenizer
from tests.text.tiny import write_tokenizer

LOW, HIGH = "The cat: Grüße!", "日本語 👋🏽 sat?"
LOW_HZ, HIGH_HZ, RATE_HZ = 300, 5000, 16_000
WINDOW_S = 8
LANGUAGES = ("<|en|>", "<|de|>")
MARKS = ("<|startoftranscript|>", *LANGUAGES, "<|transcribe|>", "<|translate|>", "<|notimestamps|>", "<|0.00|>")
MELS = 80
END_ID, NOISE_ID = 1, 5
_INPUTS = {name: f"past_key_values.0.{name}" for name in ("encoder.key", "encoder.value")}


def tone(hz, seconds):
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(int(seconds * RATE_HZ)) / RATE_HZ)).astype(np.float32)


def write_wav(path, samples, rate_hz=RATE_HZ):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return path


def write_speech(path, *, multilingual=True, endless=False, **settings):
    """Writes the decoder, its encoder and the folder of its tokenizer; returns the path of the decoder.

    It would begin with a suppressed token or the end token, unless these are excluded. Spanish is a language of
    the tokenizer that the model does not have. With `endless`, a text begins again at its end.
    """
    folder = write_tokenizer(path.with_suffix(".text"))
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    made.add_special_tokens(list(MARKS))
    made.save(str(folder / "tokenizer.json"))
    ids = {mark: made.token_to_id(mark) for mark in MARKS}
    languages = {name: ids[name] for name in LANGUAGES}
    described = {
        "eos_token_id": END_ID,
        "is_multilingual": multilingual,
        "suppress_tokens": [NOISE_ID],
        "begin_suppress_tokens": [END_ID],
        "max_length": 48,
        **({"lang_to_id": languages} if multilingual else {}),
        **settings,
    }
    (folder / "generation_config.json").write_text(json.dumps(described))
    (folder / "preprocessor_config.json").write_text(
        json.dumps({"feature_size": MELS, "sampling_rate": RATE_HZ, "chunk_length": WINDOW_S})
    )
    following = np.zeros((made.get_vocab_size(),) * 2, np.float32)
    heard = np.zeros(len(following), np.float32)
    tokenizer = Tokenizer(folder)
    chains = [tokenizer.encode(f" {LOW}"), tokenizer.encode(HIGH)]
    assert len(set(chains[0] + chains[1])) == len(chains[0]) + len(chains[1]), "a token comes twice"
    for chain, direction in zip(chains, (1, -1), strict=True):
        first = following[ids["<|notimestamps|>"]]
        first[[chain[0], END_ID, NOISE_ID]] = 10, 15, 20
        heard[chain[0]] = direction
        for token, next_token in itertools.pairwise([*chain, chain[0] if endless else END_ID]):
            following[token, next_token] = 30
    following[ids["<|startoftranscript|>"], list(languages.values())] = 10
    heard[list(languages.values())] = 1, -1
    _save_decoder(path, following, heard)
    _save_encoder(path.with_suffix(".encoder.onnx"))
    return path


def _save_encoder(path):
    """The value of each frame is the loudness of low frequencies over that of high ones."""
    node = helper.make_node
    weights = np.where(np.arange(MELS) < MELS // 2, 1, -1).astype(np.float32)[None] / 4
    nodes = [
        node("MatMul", ["weights", "input_features"], ["heard"]),
        node("Unsqueeze", ["heard", "last"], [_INPUTS["encoder.value"]]),
        node("Mul", [_INPUTS["encoder.value"], "zero"], [_INPUTS["encoder.key"]]),
    ]
    constants = {"weights": weights, "last": np.array([3]), "zero": np.array(0, np.float32)}
    _save(
        path,
        nodes,
        {"input_features": ("batch", MELS, "frames")},
        dict.fromkeys(_INPUTS.values(), ("batch", 1, "frames", 1)),
        constants,
    )


def _save_decoder(path, following, heard):
    """The cache holds the token ids, and what is heard decides between the tokens that may follow."""
    node = helper.make_node
    nodes = [
        node("Gather", ["following", "input_ids"], ["scripted"]),
        node("Softmax", [_INPUTS["encoder.key"]], ["shares"], axis=2),
        node("Mul", ["shares", _INPUTS["encoder.value"]], ["shared"]),
        node("ReduceSum", ["shared", "axes"], ["mixed"], keepdims=0),
        node("Mul", ["mixed", "heard"], ["added_row"]),
        node("Unsqueeze", ["added_row", "one"], ["added"]),
        node("Add", ["scripted", "added"], ["logits"]),
        node("Cast", ["input_ids"], ["ids"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["ids", "places"], ["new"]),
        *(
            node("Concat", [f"past_key_values.0.decoder.{part}", "new"], [f"present.0.decoder.{part}"], axis=2)
            for part in ("key", "value")
        ),
    ]
    constants = {
        "following": following,
        "heard": heard,
        "axes": np.array([1, 2]),
        "one": np.array([1]),
        "places": np.array([1, 3]),
    }
    inputs = {
        "input_ids": ("batch", "sequence"),
        **{f"past_key_values.0.decoder.{part}": ("batch", 1, "past", 1) for part in ("key", "value")},
        **dict.fromkeys(_INPUTS.values(), ("batch", 1, "encoder_sequence", 1)),
    }
    outputs = {
        "logits": ("batch", "sequence", len(heard)),
        **{f"present.0.decoder.{part}": ("batch", 1, "total", 1) for part in ("key", "value")},
    }
    _save(path, nodes, inputs, outputs, constants)


def _save(path, nodes, inputs, outputs, constants):
    def info(name, shape):
        kind = TensorProto.INT64 if name == "input_ids" else TensorProto.FLOAT
        return helper.make_tensor_value_info(name, kind, shape)

    graph = helper.make_graph(
        nodes,
        "speech",
        *([info(*each) for each in ports.items()] for ports in (inputs, outputs)),
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
