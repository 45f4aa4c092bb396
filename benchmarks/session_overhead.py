"""What the session of `edgeopt.load` adds to the runtime's own call, interleaved within one process.

python benchmarks/session_overhead.py [MODEL.onnx ...] [--loads 10] [--rounds 40]

Without a model: three tiny ones and one with two outputs of 3 MiB, made here. In each round every way of
calling runs one block of calls, in an order that changes from round to round; differences are taken between
blocks of the same round. Two loads of one model differ by some microseconds, as their memory happens to lie:
OpenVINO's own calls therefore use what the session compiled, and everything is loaded several times. Printed
are the median over the loads of their median differences, and its 95 % interval. Both sides have one thread
and the same feeds. Above zero is what the session adds; the aim is at most 5 us. The last two columns are the
page faults of a call, by the session and by the runtime itself; with MALLOC_MMAP_THRESHOLD_=131072 glibc
gives the memory of every large array back.

A session takes any feeds and gives results that stay; "in place" takes none and gives views that its next run
overwrites, which is the least that OpenVINO can do.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeopt.backends import backend_named
from edgeopt.backends.base import Available, TensorInfo
from edgeopt.backends.openvino.session import OpenVinoSession
from edgeopt.bundle.runtime.session import Session, load

Call = Callable[[], object]
Feeds = dict[str, NDArray[Any]]

Ways = Callable[[Path, Feeds, Session], Iterable[tuple[str, Call]]]

SESSION = "session"
FAULTS = "faults of "
BLOCK_S = 2e-3
AIM_US = 5.0


def main() -> None:
    """Prints one row a model and way of calling."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--loads", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=40, help="for each load")
    arguments = parser.parse_args()
    head = f"{'own us':>8s} {'session adds us':>22s} {'faults':>7s} {'own':>7s}"
    print(f"{'model':20s} {'runtime':12s} {'its own call':34s} {head}")
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.models or tiny_models(Path(folder)):
            for runtime, ways in (("onnxruntime", onnxruntime_ways), ("openvino", openvino_ways)):
                backend = backend_named(f"{runtime}-cpu")
                if not isinstance(backend.available(), Available):
                    continue
                loads = [one_load(f"{runtime}-cpu", ways, model, arguments.rounds) for _ in range(arguments.loads)]
                report(model.stem, runtime, loads)


def one_load(backend: str, ways: Ways, model: Path, rounds: int) -> dict[str, NDArray[np.float64]]:
    """Both sides loaded afresh and run interleaved."""
    session = load(model, backend, {"threads": 1})
    feeds = example(session.inputs)
    try:
        return blocks({SESSION: partial(session.run, feeds), **dict(ways(model, feeds, session))}, rounds)
    finally:
        session.close()


def onnxruntime_ways(model: Path, feeds: Feeds, _session: Session) -> Iterator[tuple[str, Call]]:
    """`InferenceSession.run`, as every example has it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    yield "run(None, feeds)", lambda: session.run(None, feeds)


def openvino_ways(_model: Path, feeds: Feeds, session: Session) -> Iterator[tuple[str, Call]]:
    """The usual call with nothing copied, and two that find their tensors in place."""
    import openvino

    loaded = session._loaded
    assert isinstance(loaded, OpenVinoSession)  # noqa: S101 - for the type checker
    compiled = loaded._programs[0].compiled
    plain, placed, started = (compiled.create_infer_request() for _ in range(3))
    tensors = [openvino.Tensor(np.ascontiguousarray(feeds[port.any_name])) for port in compiled.inputs]
    for request in (placed, started):
        for index, tensor in enumerate(tensors):
            request.set_input_tensor(index, tensor)

    def start_and_wait() -> None:
        started.start_async(share_inputs=True)
        started.wait()

    yield "infer(feeds, shared in and out)", lambda: plain.infer(feeds, share_inputs=True, share_outputs=True)
    yield "infer(), in place", lambda: placed.infer(share_inputs=True, share_outputs=True)
    yield "start_async + wait, in place", start_and_wait


def blocks(calls: dict[str, Call], rounds: int) -> dict[str, NDArray[np.float64]]:
    """Microseconds and page faults a call, one figure a round."""
    names = list(calls)
    for call in calls.values():
        for _ in range(50):
            call()
    begin = time.perf_counter()
    for _ in range(20):
        calls[names[0]]()
    length = max(1, round(BLOCK_S / ((time.perf_counter() - begin) / 20)))
    taken: dict[str, list[float]] = {key: [] for name in names for key in (name, FAULTS + name)}
    for turn in range(rounds):
        at = turn % len(names)
        order = names[at:] + names[:at]
        for name in order if turn % 2 else reversed(order):
            call = calls[name]
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            begin = time.perf_counter()
            for _ in range(length):
                call()
            taken[name].append((time.perf_counter() - begin) / length * 1e6)
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
            taken[FAULTS + name].append(faults / length)
    return {name: np.array(times) for name, times in taken.items()}


def report(model: str, runtime: str, loads: list[dict[str, NDArray[np.float64]]]) -> None:
    """A row for each way of the runtime's own."""
    for name in loads[0]:
        if name == SESSION or name.startswith(FAULTS):
            continue
        medians = np.array([np.median(taken[SESSION] - taken[name]) for taken in loads])
        picks = np.random.default_rng(0).integers(len(medians), size=(2000, len(medians)))
        low, high = np.quantile(np.median(medians[picks], axis=1), [0.025, 0.975])
        own = np.median([np.median(taken[name]) for taken in loads])
        adds = f"{np.median(medians):+7.2f} [{low:+.2f}, {high:+.2f}]"
        verdict = "" if high <= AIM_US else "  above the aim" if low > AIM_US else "  aim not clear"
        faults, own_faults = (np.mean([taken[FAULTS + who] for taken in loads]) for who in (SESSION, name))
        figures = f"{own:8.2f} {adds:>22s} {faults:7.1f} {own_faults:7.1f}"
        print(f"{model:20.20s} {runtime:12s} {name:34s} {figures}{verdict}")


def example(inputs: tuple[TensorInfo, ...]) -> Feeds:
    """A feed for each input, with 1 for what is open."""
    rng = np.random.default_rng(0)
    shapes = {i.name: [d if isinstance(d, int) else 1 for d in i.shape] for i in inputs}
    return {i.name: rng.standard_normal(shapes[i.name]).astype(i.dtype) for i in inputs}


def tiny_models(folder: Path) -> list[Path]:
    """One operator on four numbers, on four inputs, on an array worth not copying (600 kB); two large outputs."""
    import onnx
    from onnx import helper

    def save(name: str, nodes: list[Any], inputs: list[str], shape: list[int], outputs: str = "y") -> Path:
        ports, made = ([helper.make_tensor_value_info(i, 1, shape) for i in names] for names in (inputs, outputs))
        graph = helper.make_graph(nodes, name, ports, made)
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / name
        )
        return folder / name

    relu = [helper.make_node("Relu", ["a"], ["y"])]
    four = [helper.make_node("Sum", list("abcd"), ["y"])]
    return [
        save("four_numbers.onnx", relu, ["a"], [1, 4]),
        save("four_inputs.onnx", four, list("abcd"), [1, 4]),
        save("large_array.onnx", relu, ["a"], [1, 150_000]),
        save("large_outputs.onnx", [*relu, helper.make_node("Neg", ["a"], ["z"])], ["a"], [1, 3, 512, 512], "yz"),
    ]


if __name__ == "__main__":
    main()
