"""Random graphs with Loop, Scan and If at sizes 0, 1, 2 and many: the simplified graph against the file itself.

    .venv/bin/python -m tests.differential.turns_sweep --seed 0 --graphs 2000

Runs both in ONNX Runtime as it is, in ONNX Runtime with its own rewrites, and in OpenVINO. Prints each graph that
differs as its bytes with what is wrong, then what was compared, and why some samples say nothing.
Ends with 1 if one differs.
"""

import argparse
import os
import pickle
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import onnx

from tests.differential import check
from tests.differential.graphs import BYTES, Case, case_from
from tests.differential.openvino_sweep import FAULTS, _in_short, _kinds
from tests.differential.runtimes import OPTIMIZED, RUNTIMES
from tests.differential.table import WITH_TURNS
from tests.differential.turns import TURNS

TURNING = {"Loop", "Scan", "If"}
REGIMES = (0, 1, 2, 3, 9, 10)
"""Ordinary numbers, zeros, small ones, NaN, infinities: with 2, 0, 1, 7, 0 and 1 turns."""
_ASKED_AGAIN = 3
UNEXPLAINED = "unexplained"
_SOURCE_RAN = b"+"
NAMES = (check.JUDGE, OPTIMIZED, "OpenVINO")


@dataclass
class Outcome:
    """What became of one graph."""

    differences: list[str] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)
    """Samples that were compared, by runtime, and by how many turns they ask for."""
    silent: Counter[str] = field(default_factory=Counter)
    """Why a sample says nothing in a runtime."""
    unexplained: list[str] = field(default_factory=list)
    """Where runtimes differ on the file itself for no known reason."""


def outcome(case: Case) -> Outcome:
    found = Outcome()
    try:
        source = check.Source(case, NAMES, REGIMES)
    except check.UselessError as error:
        found.silent[f"ONNX Runtime does not run the file: {_in_short(str(error))}"] += 1
        return found
    differences = list(source.findings())
    if differences and all(one.runtime == "OpenVINO" for one in differences) and not _repeats(source):
        found.silent["OpenVINO does not repeat its results for the file"] += len(differences)
        differences = []
    found.differences = [str(one) for one in differences]
    wrong = {(one.runtime, one.where): one.said for one in source.disagreements()}
    for name in NAMES:
        for sample, answer in zip(source.samples, source.answers(name), strict=True):
            said = wrong.get((name, sample.title))
            if isinstance(answer, str):
                found.silent[f"{name} does not run the file: {_in_short(answer)}"] += 1
            elif sample.extent in source.failing:
                found.silent[
                    f"{name} runs the file, but ONNX Runtime does not with other values of this size"
                ] += 1
            elif name == "OpenVINO" and sample.title.startswith("NaN"):
                found.silent["OpenVINO is not compared with NaN"] += 1
            elif said is not None:
                why = _why(case.model, said)
                found.silent[f"{name} computes the file otherwise: {why}"] += 1
                if why == UNEXPLAINED:
                    found.unexplained.append(f"{name}, {sample.title}: {said}")
            else:
                found.compared[f"{name}, {int(sample.feeds[TURNS.name])} turns"] += 1
    return found


def forked_outcome(case: Case) -> Outcome:
    """Judges a graph in a process of its own, because ONNX Runtime ends the process for some empty sizes."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            with os.fdopen(writing, "wb") as pipe:
                with suppress(check.UselessError):
                    source = check.Source(case, NAMES, REGIMES)
                    for name in NAMES:
                        source.answers(name)
                pipe.write(_SOURCE_RAN)
                pipe.flush()
                pipe.write(pickle.dumps(outcome(case)))
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 0:
        found: Outcome = pickle.loads(said[len(_SOURCE_RAN) :])  # noqa: S301 - what the child wrote
        return found
    how = signal.Signals(-status).name if status < 0 else f"exit code {status}"
    if said.startswith(_SOURCE_RAN):
        return Outcome(differences=[f"{how} while the result runs"])
    return Outcome(silent=Counter({f"a runtime ends the process for the file: {how}": 1}))


def _repeats(source: check.Source) -> bool:
    """Whether OpenVINO gives for the file, asked again in other orders, what it gave before."""
    feeds = [sample.feeds for sample in source.samples]
    wanted = source.answers("OpenVINO")
    for _ in range(_ASKED_AGAIN):
        forwards = RUNTIMES["OpenVINO"](source.case.model, feeds)
        backwards = RUNTIMES["OpenVINO"](source.case.model, feeds[::-1])[::-1]
        for answers in (forwards, backwards):
            for sample, was, now in zip(source.samples, wanted, answers, strict=True):
                both = not isinstance(was, str) and not isinstance(now, str)
                if both and sample.difference(was, now, "OpenVINO"):
                    return False
    return True


def _why(model: onnx.ModelProto, said: str) -> str:
    if "nan" in said:
        return "it makes numbers of NaN, or drops it"
    known = sorted(set(_kinds(model.graph)) & FAULTS.keys())
    return f"{known[0]} {FAULTS[known[0]]}" if known else UNEXPLAINED


def sweep(seed: int, count: int) -> Iterator[tuple[bytes, Case, Outcome]]:
    """The bytes of each graph, with what became of it."""
    source = random.Random(seed)  # noqa: S311 - graphs are no secrets
    done = 0
    while done < count:
        data = source.randbytes(BYTES + BYTES // 2)
        case = turning_case(data)
        if TURNING & set(_kinds(case.model.graph)):
            done += 1
            yield data, case, forked_outcome(case)


def turning_case(data: bytes) -> Case:
    return case_from(data, steps=WITH_TURNS, more=(TURNS,))


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Random graphs with loops, simplified and judged in both runtimes."
    )
    parser.add_argument("--seed", type=int, default=0, help="Seed of the graphs, default 0.")
    parser.add_argument("--graphs", type=int, default=2000, help="Number of graphs, default 2000.")
    asked = parser.parse_args()
    start, failing = time.monotonic(), 0
    kinds, compared, silent = Counter[str](), Counter[str](), Counter[str]()
    for number, (data, case, one) in enumerate(sweep(asked.seed, asked.graphs), 1):
        failing += bool(one.differences)
        kinds.update(TURNING & set(_kinds(case.model.graph)))
        compared += one.compared
        silent += one.silent
        if one.differences:
            _print(f"DIFFERS {data.hex()}\n    " + "\n    ".join(one.differences[:3]))
        if one.unexplained:
            _print(f"UNEXPLAINED {data.hex()}\n    {one.unexplained[0]}")
        if number % 100 == 0 or number == asked.graphs:
            took = time.monotonic() - start
            _print(f"{number} graphs, {failing} differ, {compared.total()} samples compared, {took:.0f} s")
    for title, counted in (("graphs with", kinds), ("compared", compared), ("silent", silent)):
        for reason, count in counted.most_common():
            _print(f"{count:6} {title} {reason}")
    return int(failing > 0)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
