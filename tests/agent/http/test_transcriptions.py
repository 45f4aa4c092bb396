"""Speech over HTTP in OpenAI's protocol: a decoder with its encoder served by a worker process."""

import http.client
import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from edgeopt_agent.completions.request import IGNORED
from edgeopt_agent.completions.speech import UNSUPPORTED_SPEECH
from edgeopt_agent.http import completions
from edgeopt_agent.http.completions import MAX_AUDIO_BYTES
from edgeopt_agent.workers.channel import Channel
from edgeopt_agent.workers.frames import NextPiece, Transcribe
from edgeopt_agent.workers.memory import memory_limit_bytes
from edgeopt_agent.workers.requests import LARGE_BYTES
from tests.agent.http.text_requests import ask, ask_json, events, metric, text_bundle, until
from tests.bundle.runtime.scripted import CHAT, PROMPT
from tests.bundle.runtime.speech import HIGH, HIGH_HZ, LOW, LOW_HZ, WINDOW_S, tone, write_speech, write_wav
from tests.bundle.runtime.test_transcription import speech_bundle

pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")

PATH, TRANSLATIONS = "/v1/audio/transcriptions", "/v1/audio/translations"
BOUNDARY = "1a7ed7b1db9cd9ff0105937ad7dea5e1"
# As the Python client 3.57.0 of OpenAI sends create(file=("a b\".wav", …), stream=True, …).
RECORDED = (
    b'--BOUNDARY\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n'
    b'--BOUNDARY\r\nContent-Disposition: form-data; name="language"\r\n\r\nde\r\n'
    b'--BOUNDARY\r\nContent-Disposition: form-data; name="prompt"\r\n\r\n\r\n'
    b'--BOUNDARY\r\nContent-Disposition: form-data; name="response_format"\r\n\r\njson\r\n'
    b'--BOUNDARY\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n'
    b'--BOUNDARY\r\nContent-Disposition: form-data; name="temperature"\r\n\r\n0\r\n'
    b'--BOUNDARY\r\nContent-Disposition: form-data; name="file"; filename="a b%22.wav"\r\n'
    b"Content-Type: audio/x-wav\r\n\r\nAUDIO\r\n--BOUNDARY--\r\n"
).replace(b"BOUNDARY", BOUNDARY.encode())


@pytest.fixture(scope="module")
def server(serving_all, tmp_path_factory):
    folder = tmp_path_factory.mktemp("speech")
    started = serving_all()
    started.deploy(speech_bundle(write_speech(folder / "m.onnx"), folder / "m.edgeopt"))
    return started


@pytest.fixture(scope="module")
def endless_bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("endless")
    model = write_speech(folder / "m.onnx", endless=True, max_length=40_000)
    return speech_bundle(model, folder / "m.edgeopt")


@pytest.fixture(scope="module")
def endless(serving_all, endless_bundle):
    """A server whose model never stops by itself; one request may wait."""
    started = serving_all(generation_queue_length=1)
    started.deploy(endless_bundle)
    return started


@pytest.fixture(scope="module")
def audio(tmp_path_factory):
    """WAV files of a low tone, of a high one, and of both in two windows."""
    folder = tmp_path_factory.mktemp("audio")
    tones = {"low": tone(LOW_HZ, 1), "high": tone(HIGH_HZ, 1), "long": tone(LOW_HZ, WINDOW_S + 1)}
    return {name: write_wav(folder / "a.wav", each).read_bytes() for name, each in tones.items()}


def form(audio, **fields):
    texts = {"model": "m", **fields}
    parts = [f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'.encode()
             for name, text in texts.items() if text is not None]  # fmt: skip
    if audio is not None:
        head = b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav'
        parts.append(b"--%b\r\n%b\r\n\r\n%b\r\n" % (BOUNDARY.encode(), head, audio))
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def send(connection, body, path=PATH, content_type=f"multipart/form-data; boundary={BOUNDARY}"):
    connection.request("POST", path, body, {"Content-Type": content_type})
    return connection.getresponse()


def post(server, body, path=PATH, **keywords):
    """Returns the status, the type of the answer, and the answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        answer = send(connection, body, path, **keywords)
        return answer.status, answer.getheader("content-type"), answer.read()


def post_json(server, body, path=PATH):
    status, _, content = post(server, body, path)
    return status, json.loads(content)


class OpenStream:
    """A stream of an endless text that a test reads event by event."""

    def __init__(self, server, audio):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.answer = send(self.connection, form(audio, stream="true"))
        assert self.answer.status == 200
        self.event()

    def event(self):
        line = self.answer.readline()
        assert self.answer.readline() == b"\n"
        return json.loads(line.removeprefix(b"data: "))

    def rest(self):
        return events(self.answer.read())

    def close(self):
        self.answer.close()
        self.connection.close()


@pytest.mark.parametrize(
    ("name", "text", "seconds"), [("low", LOW, 1), ("high", HIGH, 1), ("long", f"{LOW} {LOW}", WINDOW_S + 1)]
)
def test_speech_becomes_text(server, audio, name, text, seconds):
    status, kind, content = post(server, form(audio[name]))
    assert (status, kind) == (200, "application/json")
    assert json.loads(content) == {"text": text, "usage": {"type": "duration", "seconds": seconds}}
    plain = post(server, form(audio[name], response_format="text"))
    assert plain == (200, "text/plain; charset=utf-8", text.encode())


def test_a_recorded_request_of_the_client_is_streamed(server, audio):
    status, kind, content = post(server, RECORDED.replace(b"AUDIO", audio["low"]))
    assert (status, kind) == (200, "text/event-stream; charset=utf-8")
    *pieces, done = events(content)
    assert len(pieces) > 3
    assert {each["type"] for each in pieces} == {"transcript.text.delta"}
    assert "".join(each["delta"] for each in pieces) == LOW
    assert done == {"type": "transcript.text.done", "text": LOW}


def test_speech_is_translated(server, audio):
    assert post_json(server, form(audio["low"]), TRANSLATIONS)[1]["text"] == LOW
    status, answer = post_json(server, form(audio["low"], language="de"), TRANSLATIONS)
    assert (status, answer["error"]["param"]) == (400, "language")


def test_an_english_model_says_that_it_does_not_translate(serving_all, tmp_path, audio):
    server = serving_all()
    model = write_speech(tmp_path / "m.onnx", multilingual=False)
    server.deploy(speech_bundle(model, tmp_path / "m.edgeopt"))
    status, answer = post_json(server, form(audio["low"]), TRANSLATIONS)
    assert (status, answer["error"]["message"]) == (
        400,
        "The model has English alone, so it does not translate. Leave the task out.",
    )


@pytest.mark.parametrize("name", UNSUPPORTED_SPEECH)
def test_parameters_that_would_change_the_text_are_refused_by_name(server, audio, name):
    status, answer = post_json(server, form(audio["low"], **{name: "word"}))
    error = answer["error"]
    assert (status, error["code"], error["param"]) == (400, "unsupported_parameter", name)
    assert post_json(server, form(audio["low"], **{f"{name}[]": "word"}))[1]["error"]["param"] == name
    assert not {name} & IGNORED
    for value in map(json.loads, UNSUPPORTED_SPEECH[name]):
        assert post_json(server, form(audio["low"], **{name: value}))[0] == 200


@pytest.mark.parametrize(
    ("fields", "param", "says"),
    [
        ({"response_format": "verbose_json"}, "response_format", "is not supported; take json or text."),
        ({"temperature": "2"}, "temperature", "must be at most 1."),
        ({"temperature": "warm"}, "temperature", "must be a number"),
        ({"stream": "often"}, "stream", "must be true or false"),
        ({"langauge": "de"}, "langauge", "no parameter 'langauge'"),
        ({"language": "es"}, None, "The model has no language 'es'. It has: de, en."),
        ({"model": None}, "model", "model"),
    ],
)  # fmt: skip
def test_wrong_fields_say_what_is_wrong(server, audio, fields, param, says):
    status, answer = post_json(server, form(audio["low"], **fields))
    error = answer["error"]
    assert (status, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert says in error["message"]


def test_files_that_are_no_audio_say_what_to_send(server, audio):
    for sent, says in (
        (None, "The field 'file' is missing; send a WAV file."),
        (b"", "The field 'file' is empty; send a WAV file."),
        (b"ID3" + bytes(1000), "is not a WAV file; edgeopt reads PCM and float WAV files. Convert it: ffmpeg -i"),
        (audio["low"][:20], "is damaged: it has no audio data."),
        (audio["low"][:44], "'AUDIO' is cut off: it has 0 of"),
        (audio["low"][:24] + b"\1\0\0\0" + audio["low"][28:], "has a sampling rate of 1 Hz"),
    ):  # fmt: skip
        status, answer = post_json(server, form(sent))
        assert status == 400
        assert says in answer["error"]["message"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "does not begin with its boundary"),
        (f"--{BOUNDARY}".encode(), "has no fields"),
        (form(b"RIFF")[:-40], "ends within a field"),
        (f"--{BOUNDARY}\r\nno head\r\n--{BOUNDARY}--".encode(), "has no headers"),
        (form(b"RIFF").replace(b'; name="model"', b""), "has no name"),
        (form(b"RIFF").replace(b'"file"', b'"model"'), "'model' comes twice"),
    ],
)
def test_broken_forms_say_what_is_broken(server, body, says):
    status, answer = post_json(server, body)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert says in answer["error"]["message"]


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data", "multipart/form-data; boundary="])
def test_a_body_that_is_no_form_is_refused_unread(server, audio, kind):
    status, _, content = post(server, form(audio["low"]), content_type=kind)
    assert status == 415
    assert "multipart/form-data, with the fields 'file' and 'model'" in json.loads(content)["error"]["message"]


def test_a_file_over_the_limit_is_refused_while_it_is_read(server):
    head = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    for fields in ({"Content-Length": str(MAX_AUDIO_BYTES + 1)}, {"Transfer-Encoding": "chunked"}):
        with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
            connection.putrequest("POST", PATH)
            for field in (head | fields).items():
                connection.putheader(*field)
            connection.endheaders()
            if "Transfer-Encoding" in fields:  # never ends: the answer comes before
                chunk = bytes(MAX_AUDIO_BYTES + 1)
                connection.send(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            answer = connection.getresponse()
            assert (answer.status, json.load(answer)["error"]["code"]) == (413, "body_too_large")


def test_each_kind_of_model_names_the_routes_for_it(server, serving_all, tmp_path, audio, conv_bundle):
    assert [each["id"] for each in ask_json(server, "/v1/models")[1]["data"]] == ["m"]
    for path, body in (("/v1/completions", {"prompt": PROMPT}), ("/v1/chat/completions", {"messages": CHAT})):
        status, answer = ask_json(server, path, **body)
        assert status == 400
        assert "transcribes speech: send audio to /v1/audio/transcriptions." in answer["error"]["message"]
    other = serving_all()
    other.deploy(text_bundle(tmp_path))
    status, answer = post_json(other, form(audio["low"]))
    assert status == 400
    assert "send a prompt to /v1/completions or /v1/chat/completions." in answer["error"]["message"]
    other.deploy(conv_bundle)
    status, answer = post_json(other, form(audio["low"], model="conv"))
    assert (status, "generates no text" in answer["error"]["message"]) == (400, True)
    assert post_json(server, form(audio["low"], model="none"))[1]["error"]["code"] == "model_not_found"


def test_a_client_that_goes_ends_its_text(endless, audio):
    with closing(OpenStream(endless, audio["low"])) as stream:
        assert stream.event()["type"] == "transcript.text.delta"
        assert endless.router.serving.generating.locked()
    until(lambda: not endless.router.serving.generating.locked())
    assert 0 < metric(endless, "edgeopt_generated_tokens") < 30_000


def test_one_text_at_a_time_and_a_queue_with_a_limit(endless, audio):
    with closing(OpenStream(endless, audio["low"])) as stream, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(OpenStream, endless, audio["high"])
        until(lambda: metric(endless, "edgeopt_generation_queue_length") == 1)
        status, answer = post_json(endless, form(audio["low"]))
        assert (status, answer["error"]["code"]) == (429, "queue_full")
        assert not waiting.done()
        stream.event()
        stream.close()
        with closing(waiting.result(60)) as following:
            assert following.event()["delta"] in HIGH


def test_a_time_limit_ends_a_text_with_an_error(endless_bundle, serving_all, audio):
    server = serving_all(generation_timeout_s=0.5)
    server.deploy(endless_bundle)
    with closing(OpenStream(server, audio["low"])) as stream:
        assert stream.rest()[-1]["error"]["code"] == "timeout"
    status, answer = post_json(server, form(audio["low"]))
    assert status == 504
    assert answer["error"]["message"].endswith("Send shorter audio, or raise generation_timeout_s.")


def test_audio_at_once_is_limited_and_given_back(serving_all, endless_bundle, audio, monkeypatch):
    monkeypatch.setattr(completions, "_LARGEST_AUDIO_AT_ONCE", 1)
    monkeypatch.setattr(completions, "MAX_AUDIO_BYTES", 2 * len(audio["long"]))
    server = serving_all()
    server.deploy(endless_bundle)
    for _ in range(2):
        with closing(OpenStream(server, audio["long"])) as first:
            status, answer = post_json(server, form(audio["long"] + audio["low"]))
            assert (status, answer["error"]["code"]) == (503, "unavailable")
            first.event()
        until(lambda: not server.router.serving.generating.locked())


def test_requests_that_wait_while_a_large_file_is_read_wait_behind_it(server, audio, monkeypatch):
    asked = []
    ask_channel = Channel.ask

    def recorded(channel, message, *given):
        asked.append((channel, type(message)))
        return ask_channel(channel, message, *given)

    monkeypatch.setattr(Channel, "ask", recorded)
    assert len(audio["long"]) > LARGE_BYTES
    assert post_json(server, form(audio["long"]))[0] == 200
    small = server.router.serving._lanes._small
    assert {(small, Transcribe), (small, NextPiece)} <= set(asked)
    assert all(channel is small for channel, _ in asked)


def test_metrics_count_tokens_and_failures(server, audio):
    before = metric(server, "edgeopt_generated_tokens"), metric(server, "nv_inference_request_success")
    assert post_json(server, form(audio["low"]))[0] == 200
    assert metric(server, "edgeopt_generated_tokens") > before[0]
    assert metric(server, "nv_inference_request_success") == before[1] + 1
    _, _, text = ask(server, "/metrics")
    failed = re.compile(r'^nv_inference_request_failure{.*reason="OTHER"} (\S+)$', re.MULTILINE)
    assert post_json(server, form(b"RIFF"))[0] == 400
    _, _, after = ask(server, "/metrics")
    assert float(failed.search(after.decode())[1]) == float(failed.search(text.decode())[1]) + 1


def test_the_memory_limit_of_a_worker_has_room_for_the_encoder(tmp_path):
    from edgeopt_agent.settings import MIB, Settings

    settings = Settings(data_dir=tmp_path)
    for name in ("model", "encoder/model"):
        (tmp_path / name).mkdir(parents=True)
        with (tmp_path / name / "m.onnx").open("wb") as file:
            file.truncate(160 * MIB)  # sparse
    assert memory_limit_bytes(settings, tmp_path) == 4 * 2 * 2 * 160 * MIB
