"""OpenAI's protocol over HTTP: a decoder and its tokenizer served by a worker process."""

import asyncio
import http.client
import json
import os
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import msgspec
import psutil
import pytest
from websockets.sync.client import connect

from edgeopt.events import Metric, decode
from edgeopt.hw.load import process_memory_bytes
from edgeopt_agent.completions.request import UNSUPPORTED
from edgeopt_agent.http import telemetry
from edgeopt_agent.http.completions import MAX_REQUEST_BYTES
from edgeopt_agent.workers.frames import Piece
from edgeopt_agent.workers.open_text import MAX_STEP_TOKENS
from edgeopt_agent.workers.process import Worker
from tests.agent.http.text_requests import CONTEXT, ask, ask_json, events, metric, text_bundle, until
from tests.bundle.runtime.decoder import HEADS, PAIRS, WIDTH
from tests.bundle.runtime.scripted import ANSWER, CHAT, PROMPT, write_scripted
from tests.bundle.runtime.test_generation import bundle_of

pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")

CHOICE = ("invalid_value", "cannot be 'a'.")
CHAT_PATH, PATH = "/v1/chat/completions", "/v1/completions"


@pytest.fixture(scope="module")
def endless_bundle(tmp_path_factory):
    return text_bundle(tmp_path_factory.mktemp("endless"), 40_000, endless=True)


@pytest.fixture(scope="module")
def server(serving_all, tmp_path_factory):
    started = serving_all()
    started.deploy(text_bundle(tmp_path_factory.mktemp("text")), "c0ffee000000")
    return started


@pytest.fixture(scope="module")
def endless(serving_all, endless_bundle):
    """A server whose model never stops by itself; one request may wait."""
    started = serving_all(generation_queue_length=1)
    started.deploy(endless_bundle)
    return started


@pytest.fixture
def open_stream():
    """Opens streams, which are closed when the test ends."""
    with ExitStack() as stack:
        yield lambda *given, **body: stack.enter_context(closing(OpenStream(*given, **body)))


class OpenStream:
    """A stream of an endless text that a test reads event by event."""

    def __init__(self, server, **body):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        asked = {"model": "m", "prompt": PROMPT, "max_tokens": 30_000, "stream": True, **body}
        self.connection.request("POST", PATH, json.dumps(asked))
        self.answer = self.connection.getresponse()
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


def infer_once(server):
    """Returns the status of a single run of the model."""
    integers = [
        {"name": name, "datatype": "INT64", "shape": [1, 1], "data": [int(name == "attention_mask")]}
        for name in ("input_ids", "attention_mask", "position_ids")
    ]
    past = [{"name": name, "datatype": "FP32", "shape": [1, HEADS, 0, WIDTH], "data": []} for name in PAIRS]
    return ask(server, "/v2/models/m/infer", {"inputs": [*integers, *past]})[0]


def kill_at_work(server, worker):
    """Kills a worker while it computes a token: an end between two tokens is no fault of the text."""
    process = psutil.Process(worker.pid)

    def stopped_at_work():
        process.suspend()
        until(lambda: process.status() == psutil.STATUS_STOPPED)
        if worker._lanes.at_work is not None:
            return True
        process.resume()
        return False

    until(stopped_at_work)
    for _ in range(20):  # until the agent has read all answers and waits for the next one
        server.do(asyncio.sleep(0.01))
    process.kill()


def test_a_text_is_continued(server):
    status, answer = ask_json(server, PATH, prompt=PROMPT, max_tokens=64)
    assert status == 200
    assert re.fullmatch(r"cmpl-\w+", answer.pop("id"))
    assert abs(answer.pop("created") - time.time()) < 600
    tokens = answer["usage"]["completion_tokens"]
    assert tokens > 5
    assert answer == {
        "object": "text_completion",
        "model": "m",
        "choices": [{"index": 0, "text": ANSWER, "finish_reason": "stop", "logprobs": None}],
        "usage": {"prompt_tokens": 1, "completion_tokens": tokens, "total_tokens": tokens + 1},
    }


def test_a_conversation_is_answered(server):
    parts = [{"role": "user", "content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]}]
    answers = [ask_json(server, CHAT_PATH, messages=each)[1] for each in (CHAT, parts)]
    assert answers[0]["usage"] == answers[1]["usage"]
    assert answers[0]["object"] == "chat.completion"
    (choice,) = answers[0]["choices"]
    assert choice["message"] == {"role": "assistant", "content": ANSWER, "refusal": None}
    assert choice["finish_reason"] == "stop"


def test_streams_have_the_same_text_and_end_with_done(server):
    asked = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
    status, headers, content = ask(server, CHAT_PATH, {**asked, "messages": CHAT})
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    first, *pieces, last, usage, done = events(content)
    assert done == "[DONE]"
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert len(pieces) > 5
    assert "".join(each["choices"][0]["delta"]["content"] for each in pieces) == ANSWER
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "stop")
    assert usage["choices"] == []
    assert usage["usage"] == ask_json(server, CHAT_PATH, messages=CHAT)[1]["usage"]
    assert len({each["id"] for each in (first, *pieces, last, usage)}) == 1

    plain = {"model": "m", "stream": True, "prompt": PROMPT, "max_tokens": 64}
    *pieces, last, done = events(ask(server, PATH, plain)[2])
    assert "".join(each["choices"][0]["text"] for each in pieces) == ANSWER
    assert (last["choices"][0]["finish_reason"], done) == ("stop", "[DONE]")


def test_limits_and_stop_texts_end_a_text(server, endless):
    _, cut = ask_json(server, PATH, prompt=PROMPT, max_tokens=2)
    assert cut["choices"][0]["finish_reason"] == "length"
    assert cut["usage"]["completion_tokens"] == 2
    _, chat = ask_json(server, CHAT_PATH, messages=CHAT, max_completion_tokens=2)
    assert chat["choices"][0]["finish_reason"] == "length"
    _, stopped = ask_json(server, PATH, prompt=[PROMPT], max_tokens=64, stop=["nothing", "Grüße"])
    assert stopped["choices"][0] == {"index": 0, "text": " cat: ", "finish_reason": "stop", "logprobs": None}
    _, default = ask_json(endless, PATH, prompt=PROMPT)
    assert default["usage"]["completion_tokens"] == 16


def test_draws_are_repeatable_by_their_seed(server):
    def draw(seed):
        asked = {"prompt": PROMPT, "max_tokens": 12, "temperature": 2, "top_p": 0.99, "seed": seed}
        return ask_json(server, PATH, **asked)[1]["choices"][0]["text"]

    texts = [draw(seed) for seed in (1, 1, -2)]
    assert texts[0] == texts[1] != texts[2]


def test_the_context_ends_a_text_and_refuses_a_longer_prompt(server, endless_bundle, serving_all, tmp_path):
    status, answer = ask_json(server, PATH, prompt="The " * 20_000)
    error = answer["error"]
    assert (status, error["code"], error["param"]) == (400, "context_length_exceeded", "prompt")
    assert re.match(rf"The prompt has \d+ tokens; the model takes {CONTEXT}\.", error["message"])
    long_chat = [{"role": "user", "content": "The " * CONTEXT}]
    asked = {"model": "m", "messages": long_chat, "stream": True}
    status, _, content = ask(server, CHAT_PATH, asked)
    assert (status, json.loads(content)["error"]["code"]) == (400, "context_length_exceeded")
    short = serving_all()
    short.deploy(text_bundle(tmp_path, endless=True))
    _, answer = ask_json(short, CHAT_PATH, messages=CHAT)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["total_tokens"] == CONTEXT + 1


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_parameters_that_would_change_the_text_are_refused_by_name(server, name):
    status, answer = ask_json(server, CHAT_PATH, messages=CHAT, **{name: [1]})
    error = answer["error"]
    assert (status, error["type"], error["param"]) == (400, "invalid_request_error", name)
    assert error["code"] == "unsupported_parameter"
    assert f"'{name}'" in error["message"]
    harmless = [None, *map(json.loads, UNSUPPORTED[name])]
    for value in harmless:
        assert ask_json(server, CHAT_PATH, messages=CHAT, **{name: value})[0] == 200


def test_parameters_without_an_effect_on_the_text_are_ignored(server):
    status, _ = ask_json(server, CHAT_PATH, messages=CHAT, user="me", metadata={"a": "b"}, store=False)
    assert status == 200


@pytest.mark.parametrize(
    ("body", "param", "says"),
    [
        (b"{", None, "not a JSON object"),
        (b"[1]", None, "not a JSON object"),
        ({"model": "m", "prompt": PROMPT, "temprature": 1}, "temprature", "no parameter 'temprature'"),
        ({"model": "m", "prompt": PROMPT, "temperature": 3}, "temperature", "must be at most 2."),
        ({"model": "m", "prompt": PROMPT, "max_tokens": 0}, "max_tokens", "must be at least 1."),
        ({"model": "m", "prompt": [1]}, "prompt[0]", "'prompt[0]' must be a string, not an integer."),
        ({"model": "m", "prompt": PROMPT, "stop": ""}, None, "cannot be empty"),
        ({"model": "m"}, "prompt", "The parameter 'prompt' is missing."),
        ({"prompt": PROMPT}, "model", "The parameter 'model' is missing."),
    ],
)
def test_wrong_requests_say_what_is_wrong(server, body, param, says):
    status, _, content = ask(server, PATH, body)
    error = json.loads(content)["error"]
    assert (status, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert says in error["message"]


@pytest.mark.parametrize(
    ("wrong", "param", "code", "message"),
    [
        ({"messages": 3}, "messages", "invalid_type", "must be an array, not an integer."),
        ({"messages": ["Hi"]}, "messages[0]", "invalid_type", "must be an object, not a string."),
        ({"messages": []}, "messages", "invalid_value", "must have at least 1 entry."),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "missing_required_parameter", "is missing."),
        ({"messages": [{**CHAT[0], "content": [{"type": "a"}]}]}, "messages[0].content[0].type", *CHOICE),
        ({"temperature": "warm"}, "temperature", "invalid_type", "must be a number, not a string."),
        ({"top_p": 0}, "top_p", "invalid_value", "must be greater than 0."),
        ({"stop": ["a"] * 5}, "stop", "invalid_value", "must have at most 4 entries."),
        ({"stop": True}, "stop", "invalid_type", "must be a string or an array, not a boolean."),
    ],
)
def test_wrong_values_are_named_in_sentences(server, wrong, param, code, message):
    status, answer = ask_json(server, CHAT_PATH, **{"messages": CHAT, **wrong})
    assert status == 400
    assert answer["error"] == {
        "message": f"The parameter '{param}' {message}",
        "type": "invalid_request_error",
        "param": param,
        "code": code,
    }


def test_errors_of_routes_have_the_form_of_the_protocol(server):
    for path, body, method, expected in (
        (PATH, {"model": "none", "prompt": PROMPT}, "POST", (404, "model_not_found")),
        ("/v1/embeddings", {"input": "a"}, "POST", (404, "not_found")),
        (PATH, None, "GET", (405, None)),
        (PATH + "?n=1", {}, "POST", (400, "bad-query")),
    ):
        status, _, content = ask(server, path, body, method)
        error = json.loads(content)["error"]
        assert (status, error["code"]) == expected
        assert error.keys() == {"message", "type", "param", "code"}


def test_a_request_that_announces_too_long_a_body_is_refused_unread(server):
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.putrequest("POST", PATH)
        connection.putheader("Content-Length", str(MAX_REQUEST_BYTES + 1))
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, json.load(answer)["error"]["code"]) == (413, "body_too_large")


def test_models_that_generate_text_are_listed(server, serving_all, conv_bundle):
    status, answer = ask_json(server, "/v1/models")
    assert status == 200
    (found,) = answer["data"]
    assert (found["id"], found["object"], answer["object"]) == ("m", "model", "list")
    assert abs(found["created"] - time.time()) < 600
    other = serving_all()
    other.deploy(conv_bundle)
    assert ask_json(other, "/v1/models")[1]["data"] == []
    status, answer = ask_json(other, PATH, model="conv", prompt=PROMPT)
    assert (status, answer["error"]["message"]) == (
        400,
        "The model 'conv' generates no text: its bundle declares no cache.",
    )


def test_a_bundle_without_a_tokenizer_says_so(serving_all, tmp_path):
    model = write_scripted(tmp_path / "m.onnx")
    bundle = bundle_of(model, tmp_path / "m.edgeopt")
    server = serving_all()
    server.deploy(bundle)
    status, answer = ask_json(server, PATH, prompt=PROMPT)
    assert status == 400
    assert "There is no tokenizer in the bundle" in answer["error"]["message"]
    assert ask_json(server, "/v1/models")[1]["data"] == []


def test_a_client_that_goes_ends_its_text(endless, open_stream):
    stream = open_stream(endless)
    assert endless.router.serving.generating.locked()
    stream.close()
    until(lambda: not endless.router.serving.generating.locked())
    counted = metric(endless, "edgeopt_generated_tokens")
    assert 0 < counted < 30_000
    assert ask_json(endless, PATH, prompt=PROMPT, max_tokens=2)[0] == 200
    assert metric(endless, "edgeopt_generated_tokens") == counted + 2


def test_one_text_at_a_time_and_a_queue_with_a_limit(endless, open_stream):
    stream = open_stream(endless)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask_json, endless, PATH, prompt=PROMPT, max_tokens=3)
        until(lambda: metric(endless, "edgeopt_generation_queue_length") == 1)
        status, headers, content = ask(endless, PATH, {"model": "m", "prompt": PROMPT})
        error = json.loads(content)["error"]
        assert (status, headers["retry-after"]) == (429, "1")
        assert (error["type"], error["code"]) == ("rate_limit_error", "queue_full")
        assert not waiting.done()
        # Single runs of the model are answered between two tokens.
        assert infer_once(endless) == 200
        assert ask(endless, "/v2/health/ready")[0] == 200
        stream.event()
        stream.close()
        status, answer = waiting.result(60)
    assert (status, answer["usage"]["completion_tokens"]) == (200, 3)
    assert metric(endless, "edgeopt_generation_queue_length") == 0


def test_other_requests_are_answered_between_the_parts_of_a_long_prompt(endless, monkeypatch):
    parts, between, go_on = [], threading.Event(), threading.Event()
    generate = Worker.generate

    async def watched(*given):
        answer = await generate(*given)
        if isinstance(answer, Piece) and not answer.tokens:
            parts.append(answer)
            between.set()
            await asyncio.to_thread(go_on.wait, 60)
        return answer

    monkeypatch.setattr(Worker, "generate", watched)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask_json, endless, PATH, prompt="The " * 700 + PROMPT, max_tokens=3)
        try:
            assert between.wait(60)
            assert infer_once(endless) == 200
            assert not waiting.done()
        finally:
            go_on.set()
        status, answer = waiting.result(60)
    usage = answer["usage"]
    assert (status, usage["completion_tokens"]) == (200, 3)
    assert len(parts) == (usage["prompt_tokens"] - 1) // MAX_STEP_TOKENS > 0


def test_a_worker_that_dies_ends_its_stream_with_an_error(endless_bundle, serving_all, open_stream):
    server = serving_all()
    worker = server.deploy(endless_bundle)
    stream = open_stream(server)
    os.kill(worker.pid, signal.SIGKILL)
    *_, last = stream.rest()
    assert last["error"]["type"] == "server_error"
    assert "did not finish the text. The worker was killed (SIGKILL)" in last["error"]["message"]
    server.deploy(endless_bundle, "fresh0000000")
    assert ask_json(server, PATH, prompt=PROMPT)[0] == 200


def test_a_time_limit_ends_a_text_with_an_error(endless_bundle, serving_all, open_stream):
    server = serving_all(generation_timeout_s=0.5)
    server.deploy(endless_bundle)
    stream = open_stream(server)
    *_, last = stream.rest()
    assert last["error"]["code"] == "timeout"
    status, answer = ask_json(server, PATH, prompt=PROMPT, max_tokens=30_000)
    assert (status, answer["error"]["code"]) == (504, "timeout")
    assert ask_json(server, PATH, prompt=PROMPT, max_tokens=2)[0] == 200


def test_a_stopping_worker_finishes_its_text_and_a_stopping_agent_says_so(
    endless_bundle, serving_all, open_stream, caplog
):
    server = serving_all(drain_s=0.2)
    worker = server.deploy(endless_bundle)
    stream = open_stream(server, max_tokens=200, stream_options={"include_usage": True})
    server.deploy(endless_bundle, "fresh0000000")
    server.do(worker.stop(30.0), 60)
    *_, usage, done = stream.rest()
    assert (usage["usage"]["completion_tokens"], done) == (200, "[DONE]")
    stream = open_stream(server)
    server.stop()
    *_, last = stream.rest()
    assert last["error"]["message"] == "The agent stops, and the text is not complete."
    assert "Traceback" not in caplog.text


def test_a_stopping_agent_answers_whoever_waits_for_a_whole_text(endless_bundle, serving_all, caplog):
    server = serving_all(drain_s=0.2)
    worker = server.deploy(endless_bundle)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask_json, server, PATH, prompt=PROMPT, max_tokens=30_000)
        until(worker.generating.locked)
        server.stop()
        status, answer = waiting.result(60)
    assert (status, answer["error"]["message"]) == (503, "The agent stops, and the text is not complete.")
    assert "Traceback" not in caplog.text


def test_texts_are_never_mixed_and_memory_stays_flat(endless):
    def generate(count):
        _, answer = ask_json(endless, PATH, prompt=PROMPT, max_tokens=8 + count % 5)
        return answer["choices"][0]["text"], 8 + count % 5

    expected = {size: generate(size - 8)[0] for size in range(8, 13)}
    assert len(set(expected.values())) > 3
    sizes = []
    for _ in range(2):
        # Two at once: one generates, one waits.
        with ThreadPoolExecutor(2) as pool:
            for text, size in pool.map(generate, range(50)):
                assert text == expected[size]
        sizes.append(process_memory_bytes(endless.router.serving.pid))
    assert sizes[1] - sizes[0] < 8 << 20


def test_metrics_count_tokens_and_times(server):
    before = {name: metric(server, f"edgeopt_{name}_tokens") for name in ("prompt", "generated")}
    _, answer = ask_json(server, PATH, prompt=PROMPT, max_tokens=64)
    usage = answer["usage"]
    assert metric(server, "edgeopt_prompt_tokens") == before["prompt"] + usage["prompt_tokens"]
    assert metric(server, "edgeopt_generated_tokens") == before["generated"] + usage["completion_tokens"]
    assert metric(server, "edgeopt_tokens_per_second") > 0
    assert metric(server, "edgeopt_decode_duration_us") > 0
    assert metric(server, "edgeopt_first_token_histogram_ms_count") >= 1


def test_refused_prompts_and_ended_workers_count_as_failed_requests(endless_bundle, serving_all, open_stream):
    def failures():
        _, _, text = ask(server, "/metrics")
        found = re.findall(r'^nv_inference_request_failure{.*reason="(\w+)"} (\S+)$', text.decode(), re.MULTILINE)
        return {reason: int(float(count)) for reason, count in found}

    server = serving_all()
    seen = []
    server.router.watchers.append(lambda *outcome: seen.append(outcome))
    worker = server.deploy(endless_bundle)
    assert ask_json(server, PATH, prompt="")[0] == 400
    assert failures() == {"REJECTED": 0, "BACKEND": 0, "OTHER": 1}
    assert seen == []
    stream = open_stream(server)
    kill_at_work(server, worker)
    assert "error" in stream.rest()[-1]
    assert failures() == {"REJECTED": 0, "BACKEND": 1, "OTHER": 1}
    ((release, went_well, *_),) = seen
    assert (release, went_well) == (worker.release_id, False)


def test_every_parameter_is_known_once():
    from edgeopt_agent.completions.records import ChatRequest, CompletionRequest
    from edgeopt_agent.completions.request import IGNORED

    for kind in (ChatRequest, CompletionRequest):
        fields = {field.name for field in msgspec.structs.fields(kind)}
        assert not fields & (IGNORED | UNSUPPORTED.keys())


def test_telemetry_has_the_speed_of_texts_only_where_the_model_generates_text(server, serving, null_bundle):
    def latest(of, until):
        found = {}
        with connect(f"ws://{of.place}{telemetry.PATH}") as viewer:
            viewer.recv(10)  # the counters are read before the first frame
            if of is server:
                ask_json(of, PATH, prompt=PROMPT, max_tokens=64)
            while until not in found:
                events = map(decode, viewer.recv(10).splitlines())
                found |= {event.name: event.value for event in events if isinstance(event, Metric)}
        return found

    found = latest(server, "tokens_per_s")
    assert found["tokens_per_s"] > 0
    assert found["first_token_p50_ms"] > 0
    assert found["generated_tokens"] == metric(server, "edgeopt_generated_tokens")
    other = serving()
    other.deploy(null_bundle())
    assert not {"tokens_per_s", "first_token_p50_ms", "generated_tokens"} & set(latest(other, "load_percent"))
