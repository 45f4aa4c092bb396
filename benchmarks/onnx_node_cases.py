"""onnx's own test cases of single operators, simplified: each that ONNX Runtime passes must still pass.

    .venv/bin/python benchmarks/onnx_node_cases.py                      all cases, in two processes
    .venv/bin/python benchmarks/onnx_node_cases.py --only test_lstm     those whose name holds this
    .venv/bin/python benchmarks/onnx_node_cases.py --opset 25           raised to this opset first
    .venv/bin/python benchmarks/onnx_node_cases.py --regimes            and with silent, loud, ... inputs too

The passes run without the check of numbers that would undo a faulty one, so that its fault shows here. What
differs only on other inputs fails if that check would let it pass; otherwise it counts as rolled back.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from edgeopt.errors import EdgeoptError
from edgeopt.graph.model import load, save
from edgeopt.graph.passes import Pass, PassContext, standard_passes
from edgeopt.graph.passes.base import node_count
from edgeopt.graph.pipeline import run_pipeline
from edgeopt.measure.exactness.proof import SourceCheck

if TYPE_CHECKING:
    import onnxruntime
    from numpy.typing import NDArray
    from onnx.backend.test.case.test_case import TestCase

NEWEST_IR_VERSION = 13
"""That ONNX Runtime 1.31 takes; onnx stamps its newest cases with the next one, which changes nothing in them."""
SMALL_FLOATS = {
    # as ONNX Runtime calls them, as numpy does
    "bfloat16": "bfloat16",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
}


class Verdict(msgspec.Struct, frozen=True):
    """One case: a reason where something did not pass, None where it did."""

    name: str
    source: str | None
    simplified: str | None = None
    guilty: str = ""
    """The pass with which the case begins to fail."""
    rolled_back: tuple[str, ...] = ()
    """Passes that failed or left an invalid graph, with what they said."""
    nodes_before: int = 0
    nodes_after: int = 0
    seconds: float = 0.0
    regimes: int = 0
    """How many kinds of input besides the case's own gave the same; 0 where none was tried."""
    openvino_before: str | None = "not asked"
    openvino_after: str | None = "not asked"


@cache
def cases() -> "dict[str, TestCase]":
    """Every case by its name, in the order in which onnx collects them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found = {case.name: case for case in collect_testcases(None)}
    for case in found.values():
        case.model.ir_version = min(case.model.ir_version, NEWEST_IR_VERSION)
    return found


def judge(name: str, folder: Path, context: PassContext, openvino: bool = False, regimes: bool = False) -> Verdict:
    """Runs a case as it is and simplified; where only the latter fails, finds the pass."""
    import onnx

    case, source = cases()[name], folder / "source.onnx"
    onnx.save(case.model, source)
    if reason := why_failing(source, case):
        return Verdict(name, reason)
    start = time.perf_counter()
    nodes, rolled_back, reason = _simplified(source, folder, standard_passes(), context)
    seconds = time.perf_counter() - start
    reason = reason or why_failing(folder / "simplified.onnx", case)
    verdict = Verdict(name, None, reason, _guilty(source, folder, case, context) if reason else "", rolled_back)
    if regimes and not reason:
        import node_regimes  # beside this file, which tests load from elsewhere

        count, differs = node_regimes.compared(source, folder / "simplified.onnx", case.data_sets[0][0], _session)
        # Without a proof, nobody has seen it yet; `edgeopt simplify` would undo it.
        refused = _refused(source, folder / "simplified.onnx") if differs else None
        if refused:
            undone, differs = (*rolled_back, f"the proof: {refused}"), None
            verdict = msgspec.structs.replace(verdict, rolled_back=undone)
        verdict = msgspec.structs.replace(
            verdict, regimes=count, simplified=differs, guilty="a regime" * bool(differs)
        )
    if openvino and not reason:
        before = why_failing_in_openvino(source, case)
        after = None if before else why_failing_in_openvino(folder / "simplified.onnx", case)
        verdict = msgspec.structs.replace(verdict, openvino_before=before, openvino_after=after)
    return msgspec.structs.replace(verdict, nodes_before=nodes[0], nodes_after=nodes[1], seconds=round(seconds, 3))


def _simplified(
    source: Path, folder: Path, passes: Sequence[Pass], context: PassContext
) -> tuple[tuple[int, int], tuple[str, ...], str | None]:
    """Simplifies into `simplified.onnx`: nodes before and after, what was rolled back, why it failed."""
    try:
        model = load(source)
        result = run_pipeline(model, passes=passes, context=context)
        save(result.model_ir, folder / "simplified.onnx")
    except EdgeoptError as error:
        return (0, 0), (), f"edgeopt: {error.message}"
    undone = tuple(f"{e.pass_name}: {e.rolled_back}" for e in result.ledger if e.rolled_back)
    return (node_count(model.ir), node_count(result.model_ir)), undone, None


def _refused(source: Path, simplified: Path) -> str | None:
    """Why the proof of a rewrite, on samples made up as for a user without data, does not let it pass."""
    check = SourceCheck.of(load(source), None)
    try:
        return check.why_wrong(load(simplified).ir)
    finally:
        check.close()


def _guilty(source: Path, folder: Path, case: "TestCase", context: PassContext) -> str:
    """The last of the fewest passes with which the case fails."""
    passes = standard_passes()
    for count in range(len(passes) + 1):
        _, _, reason = _simplified(source, folder, passes[:count], context)
        if reason or why_failing(folder / "simplified.onnx", case):
            return passes[count - 1].name if count else "load and save"
    return "no pass alone"


def why_failing(path: Path, case: "TestCase") -> str | None:
    """Why ONNX Runtime does not give what the case wants, or None."""
    try:
        session = _session(path)
        names = [value.name for value in session.get_inputs()]
        for inputs, wanted in case.data_sets:
            got = _run(session, {name: _plain(value) for name, value in zip(names, inputs, strict=True)})
            _compare([_plain(value) for value in wanted], got, case)
    except Exception as error:  # noqa: BLE001 - the runtime raises its own kinds, and so does numpy
        return _short(error)
    return None


def _session(path: Path) -> "onnxruntime.InferenceSession":
    import onnxruntime

    # The cases of the newest operators have an opset that onnx has not released yet.
    os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])


def _plain(value: object) -> object:
    """An array of what onnx gives as a tensor or as a number of numpy's."""
    import onnx

    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def _run(session: "onnxruntime.InferenceSession", feeds: dict[str, object]) -> list[object]:
    """ONNX Runtime takes and gives no numpy arrays of small floats; these go by their bytes."""
    import onnxruntime

    ports = [*session.get_inputs(), *session.get_outputs()]
    if not any(f"tensor({kind})" in port.type for port in ports for kind in SMALL_FLOATS):
        return list(session.run(None, feeds))
    values = {name: _ort_value(array) for name, array in feeds.items()}
    results = session.run_with_ort_values([port.name for port in session.get_outputs()], values)
    return [_array(value) if isinstance(value, onnxruntime.OrtValue) else value for value in results]


def _ort_value(array: "NDArray[Any]") -> "onnxruntime.OrtValue":
    import onnx
    import onnxruntime

    if array.dtype.name not in SMALL_FLOATS.values():
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(np.ascontiguousarray(array), kind)


def _array(value: "onnxruntime.OrtValue") -> "NDArray[Any]":
    import ml_dtypes

    name = SMALL_FLOATS.get(value.data_type().removeprefix("tensor(").removesuffix(")"))
    if name is None:
        return value.numpy()
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(raw, getattr(ml_dtypes, name)).reshape(value.shape())


def why_failing_in_openvino(path: Path, case: "TestCase") -> str | None:
    """The same for OpenVINO."""
    from edgeopt.backends import backend_named

    try:
        session = backend_named("openvino-cpu").load(path, {})
        try:
            names = [value.name for value in session.inputs]
            for inputs, wanted in case.data_sets:
                got = session.run(dict(zip(names, map(_plain, inputs), strict=True)))
                _compare([_plain(value) for value in wanted], [got[info.name] for info in session.outputs], case)
        finally:
            session.close()
    except Exception as error:  # noqa: BLE001 - as above
        return _short(error)
    return None


def _compare(wanted: Sequence[object], got: Sequence[object], case: "TestCase") -> None:
    from onnx.backend.test.runner import Runner

    Runner.assert_similar_outputs(wanted, got, rtol=case.rtol, atol=case.atol)


def _short(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: {' '.join(lines)[:300]}"


def work(context: PassContext, openvino: bool, regimes: bool) -> None:
    """A worker: a name of a case a line comes in, a verdict a line goes out."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            verdict = judge(line.strip(), Path(folder), context, openvino, regimes)
            sys.stdout.write(f"VERDICT {json.dumps(msgspec.to_builtins(verdict))}\n")
            sys.stdout.flush()


def _through_worker(names: Sequence[str], options: Sequence[str]) -> Iterator[Verdict]:
    """Verdicts by a worker process; one that dies is a verdict too, and another takes its place."""
    waiting = list(names)
    while waiting:
        command = [sys.executable, __file__, "--worker", *options]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as worker:
            if worker.stdin is None or worker.stdout is None:
                raise OSError("The worker has no pipes.")
            while waiting:
                worker.stdin.write(f"{waiting[0]}\n")
                worker.stdin.flush()
                answer = next((line for line in worker.stdout if line.startswith("VERDICT ")), None)
                if answer is None:
                    yield Verdict(waiting.pop(0), None, f"the process died with {worker.wait()}", "unknown")
                    break
                waiting.pop(0)
                yield msgspec.json.decode(answer.removeprefix("VERDICT "), type=Verdict)
            worker.stdin.close()


def main() -> None:
    """Prints failures as they come, then the figures; exit code 1 where something fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a part of the cases' names")
    parser.add_argument("--stride", type=int, default=1, help="take every Nth case")
    parser.add_argument("--opset", type=int, default=PassContext().target_opset)
    parser.add_argument("--openvino", action="store_true", help="run them in OpenVINO too")
    parser.add_argument("--regimes", action="store_true", help="compare on other kinds of input too")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(PassContext(target_opset=given.opset), given.openvino, given.regimes)
        return
    names = [name for name in cases() if given.only in name][:: given.stride]
    options = ["--opset", str(given.opset), *(["--openvino"] if given.openvino else [])]
    options += ["--regimes"] if given.regimes else []
    start = time.monotonic()
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(given.processes) as pool:
        shares = [names[number :: given.processes] for number in range(given.processes)]
        for share in pool.map(lambda share: list(_told(share, options)), shares):
            verdicts += share
    raise SystemExit(_summary(verdicts, time.monotonic() - start))


def _told(names: Sequence[str], options: Sequence[str]) -> Iterator[Verdict]:
    for verdict in _through_worker(names, options):
        if verdict.simplified:
            print(f"FAILS {verdict.name} with {verdict.guilty}: {verdict.simplified}", flush=True)
        for line in verdict.rolled_back:
            print(f"ROLLED BACK {verdict.name}: {line}", flush=True)
        if verdict.openvino_before is None and verdict.openvino_after:
            print(f"OPENVINO {verdict.name}: {verdict.openvino_after}", flush=True)
        yield verdict


def _summary(verdicts: Sequence[Verdict], seconds: float) -> int:
    judged = [v for v in verdicts if v.source is None]
    failing = [v for v in judged if v.simplified]
    print(f"\n{len(verdicts)} cases, {len(judged)} pass in ONNX Runtime, {len(failing)} of these fail simplified.")
    for name, count in Counter(v.guilty for v in failing).most_common():
        print(f"  {count:4} with {name}")
    nodes = (sum(v.nodes_before for v in judged), sum(v.nodes_after for v in judged))
    slowest = max(judged, key=lambda v: v.seconds, default=None)
    print(
        f"{nodes[0]} nodes became {nodes[1]}; {sum(bool(v.rolled_back) for v in judged)} saw a pass rolled back."
    )
    if slowest is not None:
        print(f"The slowest to simplify is {slowest.name} with {slowest.seconds} s; all in {seconds:.0f} s.")
    if tried := [v for v in judged if v.regimes]:
        print(f"{len(tried)} were compared on other inputs too, {sum(v.regimes for v in tried)} times.")
    asked = [v for v in judged if v.openvino_before != "not asked"]
    if asked:
        before = [v for v in asked if v.openvino_before is None]
        lost = [v for v in before if v.openvino_after]
        print(f"OpenVINO passes {len(before)} of them as they are; {len(lost)} of these fail simplified.")
    return 1 if failing else 0


if __name__ == "__main__":
    main()
