"""Sessions in forked processes; each scene is a program of its own, because pytest has threads."""

import os
import subprocess
import sys

import onnx.parser
import pytest

pytest.importorskip("onnxruntime")
if not hasattr(os, "fork"):
    pytest.skip("this system cannot fork", allow_module_level=True)

START = """
import gc, multiprocessing, os, signal, socket, struct, sys, threading
import numpy as np
import edgeopt
from edgeopt.errors import EdgeoptError
signal.alarm(100)  # a hang ends the program, and with it the test

def ask(session, number):
    x = np.full((1, 4000), number, np.float32)
    return bool((session.run({"x": x})["y"] == number + 1).all())

def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def forked(work):
    child = os.fork()
    if child:
        return child
    signal.alarm(100)
    sys.exit(work())

model = sys.argv[1]
"""


@pytest.fixture
def program(tmp_path):
    """Runs the rest of a program with a model that adds 1."""
    graph = "g (float[n, 4000] x) => (float[n, 4000] y) <float one = {1}> { y = Add (x, one) }"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {graph}'), tmp_path / "m.onnx")

    def run(text):
        command = [sys.executable, "-W", "ignore", "-c", START + text, str(tmp_path / "m.onnx")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout.split()

    return run


def test_parent_and_child_that_ask_in_turns_get_their_own_answers(program):
    found = program("""
session = edgeopt.load(model, isolate=True)
assert ask(session, 0)
ready, steady = os.pipe(), os.pipe()

def calls(first, mine, theirs):
    wrong = 0
    for number in range(first, first + 100):
        os.write(mine, b".")
        os.read(theirs, 1)
        wrong += not ask(session, number)
    return wrong

child = forked(lambda: calls(10_000, ready[1], steady[0]))
wrong = calls(0, steady[1], ready[0])
print(wrong, ended(child), ask(session, 5))
""")
    assert found == ["0", "0", "True"]


def test_child_has_a_worker_of_its_own_and_leaves_that_of_its_parent(program):
    found = program("""
session = edgeopt.load(model, isolate=True)
worker = session._loaded._worker.pid

def work():
    right = ask(session, 1)
    other = session._loaded._worker.pid
    session.close()
    return 0 if right and other != worker else 1

print(ended(forked(work)), ended(forked(lambda: 0)), session._loaded._worker.pid == worker, ask(session, 2))
""")
    assert found == ["0", "0", "True", "True"]


def test_worker_ends_with_the_parent_though_a_child_lives_on(program):
    found = program("""
import contextlib, psutil
from tests.processes import wait_ended
inner_out, inner_in = os.pipe()
alive_out, alive_in = os.pipe()

def parent():
    session = edgeopt.load(model, isolate=True)
    worker = session._loaded._worker.pid
    if os.fork() == 0:
        signal.alarm(100)
        os.write(alive_in, struct.pack("i", worker))
        os.read(inner_out, 1)
        os._exit(0)
    os._exit(0)  # without a word to the worker

ended(forked(parent))
worker, = struct.unpack("i", os.read(alive_out, 4))
with contextlib.suppress(psutil.NoSuchProcess):
    wait_ended([psutil.Process(worker)])
print("ended")
os.write(inner_in, b".")
""")
    assert found == ["ended"]


def test_results_from_before_the_fork_stay_as_they_were(program):
    found = program("""
session = edgeopt.load(model, isolate=True)
kept = session.run({"x": np.full((1, 4000), 7, np.float32)})
go = os.pipe()

def work():
    os.read(go[0], 1)
    return 0 if (kept["y"] == 8).all() else 1

child = forked(work)
del kept
right = all(ask(session, number) for number in range(20))
os.write(go[1], b".")
print(right, ended(child))
""")
    assert found == ["True", "0"]


def test_fork_while_other_threads_ask_does_not_hang(program):
    found = program("""
session = edgeopt.load(model, isolate=True)
stop, wrong = threading.Event(), []

def asks(first):
    number = first
    while not stop.is_set():
        number += 1
        if not ask(session, number):
            wrong.append(number)

threads = [threading.Thread(target=asks, args=(k * 100_000,)) for k in range(3)]
for thread in threads:
    thread.start()
codes = [ended(forked(lambda: 0 if all(ask(session, k) for k in range(3)) else 1)) for _ in range(3)]
stop.set()
for thread in threads:
    thread.join()
print(codes, wrong)
""")
    assert "".join(found) == "[0,0,0][]"


@pytest.mark.parametrize("backend", ["onnxruntime-cpu", "openvino-cpu"])
def test_session_in_its_process_refuses_to_run_in_a_fork_and_does_not_hang(program, backend):
    pytest.importorskip(backend.removesuffix("-cpu"))
    found = program(f"""
import asyncio
session = edgeopt.load(model, {backend!r})
assert ask(session, 1)
asyncio.run(session.run_async(np.ones((1, 4000), np.float32)))

def work():
    count = 0
    for call in (
        lambda: ask(session, 2),
        lambda: asyncio.run(session.run_async(np.ones((1, 4000), np.float32))),
        lambda: session.process({{"x": np.ones((1, 4000), np.float32)}}),
    ):
        try:
            call()
        except EdgeoptError as error:
            count += "isolate=True" in str(error.hint)
    session.close()
    return 0 if count == 3 else 1

print(ended(forked(work)), ask(session, 3))
""")
    assert found == ["0", "True"]


@pytest.mark.parametrize("backend", [pytest.param("onnxruntime-cpu", marks=pytest.mark.slow), "openvino-cpu"])
def test_child_of_a_session_in_its_process_exits_without_hanging(program, backend):
    pytest.importorskip(backend.removesuffix("-cpu"))
    found = program(f"""
session = edgeopt.load(model, {backend!r}, {{"threads": 2}})
assert ask(session, 1)
print(ended(forked(lambda: 0)), ask(session, 3))
""")
    assert found == ["0", "True"]


def test_processes_of_multiprocessing_get_their_own_answers(program):
    found = program("""
session = edgeopt.load(model, isolate=True)
assert ask(session, 0)

def asks(first):
    return sum(not ask(session, first + k) for k in range(30))

with multiprocessing.get_context("fork").Pool(3) as pool:
    waiting = pool.map_async(asks, [1000, 2000, 3000])
    mine = asks(0)
    print(mine, *waiting.get())
    pool.close()
    pool.join()
print(ask(session, 1))
""")
    assert found == ["0", "0", "0", "0", "True"]


def test_workers_of_a_prefork_server_get_their_own_answers(program):
    found = program("""
session = edgeopt.load(model, isolate=True)
listener = socket.create_server(("127.0.0.1", 0))

def serve():
    while True:
        connection, _ = listener.accept()
        with connection:
            number, = struct.unpack("i", connection.recv(4, socket.MSG_WAITALL))
            if number < 0:
                return 0
            answer = session.run({"x": np.full((1, 4000), number, np.float32)})["y"]
            connection.sendall(struct.pack("ii", int(answer.min()), int(answer.max())))

workers = [forked(serve) for _ in range(2)]

def asked(number):
    with socket.create_connection(listener.getsockname()) as connection:
        connection.sendall(struct.pack("i", number))
        return connection.recv(8, socket.MSG_WAITALL)

wrong = []

def client(first):
    for number in range(first, first + 30):
        if asked(number) != struct.pack("ii", number + 1, number + 1) or not ask(session, number):
            wrong.append(number)

clients = [threading.Thread(target=client, args=(k * 1000,)) for k in range(3)]
for thread in clients:
    thread.start()
for thread in clients:
    thread.join()
for _ in workers:
    asked(-1)
print(len(wrong), [ended(worker) for worker in workers], ask(session, 1))
""")
    assert found == ["0", "[0,", "0]", "True"]


def test_pool_and_models_work_in_a_fork(program):
    found = program("""
models = edgeopt.Models({"add": model}, budget_bytes=2**34)
pool = edgeopt.Pool([edgeopt.load(model, isolate=True) for _ in range(2)])
x = lambda number: {"x": np.full((1, 4000), number, np.float32)}

def right():
    return all(
        (run(*name, x(k))["y"] == k + 1).all()
        for k in range(30)
        for run, name in ((pool.run, ()), (models.run, ("add",)))
    )

assert right()

def work():
    found = right()
    pool.close()
    models.close()
    return 0 if found else 1

child = forked(work)
mine = right()
print(mine, ended(child), right())
pool.close()
models.close()
""")
    assert found == ["True", "0", "True"]
