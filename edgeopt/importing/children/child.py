"""Script in the user's environment that exports a model and runs the original on samples.

`python child.py FRAMEWORK.py JOB.json [THREADS]` writes one JSON object a line; the last one is a result or an
error. It needs numpy and what the framework's file names, not edgeopt. The job "answer" only runs the original;
the job "serve" runs it on each line that it reads, as a program of `edgeopt bench`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

_COUNTS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    *("TF_NUM_INTRAOP_THREADS", "LOKY_MAX_CPU_COUNT"),
)
if __name__ == "__main__" and len(sys.argv) > 3:  # libraries read these when they are imported
    os.environ.update(dict.fromkeys(_COUNTS, sys.argv[3]))

try:
    import numpy as np
except ModuleNotFoundError:
    np = None  # type: ignore[assignment]  # `main` says so in an answer

Feeds = dict[str, Any]
SEED = 20240
CONVERTERS = ("onnx", "onnxscript", "skl2onnx", "tf2onnx", "jax2onnx")
"""Packages that only an export needs."""


def _beside(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - it is beside this one
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


runs = _beside("runs")
resized, run_all, base_sizes = runs.resized, runs.run_all, runs.base_sizes


class RefusalError(Exception):
    """Error for the user: a code of `edgeopt.errors`, a sentence, a next step."""


class Input:
    """Input of the original; `shape` is None if the data alone decides."""

    def __init__(self, name: str, dtype: str, shape: Any = None, example: Any = None, draw: Any = None) -> None:
        self.name, self.dtype, self.example, self.draw = name, dtype, example, draw
        self.shape = shape if example is None else example.shape


class Job:
    """Job from the parent, and the way to answer it."""

    def __init__(self, options: dict[str, Any], answers: Any) -> None:
        self.kind: str = options["kind"]
        self.place: str = options["place"]
        self.name: str = options["name"]
        self.task: str = options["task"]
        self.trust: bool = options["trust"]
        self.allow_random: bool = options["allow_random"]
        self.folder = Path(options["folder"])
        self.samples: int = options["samples"]
        self.opset: int | None = options["opset"]
        self.builder: bool = options["builder"]
        """Whether a model builder may write the graph instead of the exporter."""
        self.shapes: dict[str, list[int]] = options["shapes"]
        self.axes: dict[str, int] = options["dynamic"]
        self.work: str = options["work"]
        """`import`, `answer` or `serve`."""
        self.threads: int = options["threads"]
        """Number of threads; 0: as many as the framework takes."""
        self.compiles: bool = options["compile"]
        self.outputs: list[tuple[str, int]] = options["outputs"]
        """Names and ranks of the outputs that the original is compared with."""
        place = os.environ["EDGEOPT_DATA"] if self.work == "serve" else options["data"]
        self.data = read_data(place) if place else None
        self.notes: list[str] = []
        self.dims: dict[str, dict[int, str]] = {}
        """Open dimensions of each input by axis; a framework may set them itself."""
        self.ranges: dict[str, tuple[int, int]] = {}
        """Least and greatest size of open dimensions, where the framework or a run has shown one."""
        self.borders: dict[str, set[int]] = {}
        """Sizes at which the exporter has seen the original branch."""
        self.generated = 0
        """Number of tokens at the end of the last run that the original itself has generated."""
        self.renamed: dict[str, str] = {}
        """Original name of each output of the ONNX model, if the exporter chooses names itself."""
        self.ranks: dict[str, int] = {}
        self.Input = Input
        self.answers = answers

    @property
    def exports(self) -> bool:
        return self.work == "import"

    @property
    def done(self) -> str:
        return "imported" if self.exports else "run"

    def say(self, **event: Any) -> None:
        self.answers.write(json.dumps(event) + "\n")
        self.answers.flush()

    def refuse(self, code: str, message: str, hint: str = "") -> NoReturn:
        raise RefusalError(code, message, hint)

    def missing(self, package: str) -> NoReturn:
        self.refuse(
            "missing",
            f"The {'import' if self.exports else 'model'} needs {package}, which {sys.executable} does not have.",
            f"Install it: {sys.executable} -m pip install {package}. Another environment: --python ENV/bin/python",
        )

    def tidy(self, names: Feeds | None = None, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> None:
        """Renames values of the exported model to the original's names, by name or place, and its dimensions."""
        import onnx

        path = str(self.folder / "exported.onnx")
        model = onnx.load(path, load_external_data=False)
        names = dict(names or {})
        for values, originals in ((model.graph.input, inputs), (model.graph.output, outputs)):
            if len(values) == len(originals):
                names.update(zip((value.name for value in values), originals))
        _rename(model.graph, {old: new for old, new in names.items() if old != new})
        dims: dict[str, str] = {}
        for value in model.graph.input:
            shape = value.type.tensor_type.shape.dim
            for axis, dim in self.dims.get(value.name, {}).items():
                dims[shape[axis].dim_param] = shape[axis].dim_param = dim
        dims.pop("", None)
        for value in (*model.graph.value_info, *model.graph.output):
            for each in value.type.tensor_type.shape.dim:
                each.dim_param = dims.get(each.dim_param, each.dim_param)
        batch = {axes.get(0) for axes in self.dims.values()}
        for value in model.graph.output if len(batch) == 1 else ():
            first = value.type.tensor_type.shape.dim[:1]
            if first and first[0].dim_param:  # tf2onnx numbers each dimension again
                first[0].dim_param = batch.copy().pop() or first[0].dim_param
        onnx.save(model, path)

    def need(self, module: str, package: str) -> None:
        if (self.exports or package not in CONVERTERS) and importlib.util.find_spec(module) is None:
            self.missing(package)

    @staticmethod
    def reason(error: BaseException) -> str:
        """Returns the first cause of an error in one line: libraries wrap it in advice."""
        while error.__cause__ is not None:
            error = error.__cause__
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {lines[0][:250] if lines else ''}".rstrip(".: ")


def _rename(graph: Any, names: dict[str, str]) -> None:
    """Renames the values of a graph and of its subgraphs, unless a new name is taken."""
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    names = {old: new for old, new in names.items() if new not in taken}
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for values in (node.input, node.output):
            values[:] = [names.get(name, name) for name in values]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs) if attribute.type in {5, 10} else ():
                _rename(inner, names)


def read_data(place: str) -> Feeds:
    path = Path(place)
    try:
        if path.is_dir():
            found = {file.stem: np.load(file, allow_pickle=False) for file in sorted(path.glob("*.npy"))}
        else:
            with np.load(path, allow_pickle=False) as archive:
                found = {name: archive[name] for name in archive.files}
    except Exception as error:
        raise RefusalError(
            "bad-data", f"'{path.name}' cannot be read as data: {error}.", "Give an .npz file."
        ) from error
    if not found or not all(array.ndim and len(array) for array in found.values()):
        raise RefusalError(
            "bad-data", f"'{path.name}' holds no samples.", "Give arrays with samples along the first axis."
        )
    return found


def samples_of(job: Job, inputs: list[Input]) -> list[Feeds]:
    if job.data is not None:
        return _samples_from_data(job, inputs, job.data)
    generator = np.random.default_rng(SEED)
    drawn = [{each.name: _drawn(each, generator) for each in inputs} for _ in range(job.samples)]
    if all(each.example is not None for each in inputs):
        drawn[0] = {each.name: each.example for each in inputs}
    return drawn


def _samples_from_data(job: Job, inputs: list[Input], data: Feeds) -> list[Feeds]:
    names = [each.name for each in inputs]
    if len(data) == len(inputs) == 1:
        data = {names[0]: next(iter(data.values()))}
    missing = [name for name in names if name not in data]
    if missing:
        job.refuse(
            "bad-data",
            f"The data has no array for the input '{missing[0]}'; it has: {', '.join(data)}.",
            f"The inputs are: {', '.join(names)}.",
        )
    counts = {len(data[name]) for name in names}
    if len(counts) > 1:
        job.refuse(
            "bad-data", "The arrays of the data hold different numbers of samples.", "Give as many of each."
        )
    found = []
    for k in range(min(job.samples, counts.pop())):
        sample = {}
        for each in inputs:
            array = data[each.name]
            rank = array.ndim if each.shape is None else len(each.shape)
            if not job.exports:
                rank = array.ndim - 1  # edgeopt has stacked whole inputs
            if array.ndim not in (rank, rank + 1):
                job.refuse(
                    "bad-data",
                    f"The array '{each.name}' has {array.ndim} dimensions; the input has {rank}.",
                    f"Give {rank + 1} (samples first), or {rank} where the batch is 1.",
                )
            one = array[k] if array.ndim == rank + 1 else array[k : k + 1]
            sample[each.name] = np.ascontiguousarray(one, None if one.dtype.kind in "US" else each.dtype)
        found.append(sample)
    return found


def _drawn(each: Input, generator: Any) -> Any:
    if each.draw is not None:
        return each.draw(generator)
    dtype, example = np.dtype(each.dtype), each.example
    if dtype.kind == "b" and example is not None:
        # As many as in the example: a mask that hides everything is seldom one that the model takes.
        return generator.permutation(example.ravel()).reshape(example.shape)
    if dtype.kind == "b":
        return generator.integers(0, 2, each.shape).astype(dtype)
    if dtype.kind in "iu":
        # Tokens and classes: no value beyond those of the example, which the model surely takes.
        low, high = (0, 1) if example is None or not example.size else (int(example.min()), int(example.max()))
        return generator.integers(low, high, each.shape, endpoint=True).astype(dtype)
    scale, middle = (1.0, 0.0) if example is None or example.size < 2 else (example.std() or 1.0, example.mean())
    return (generator.standard_normal(each.shape) * scale + middle).astype(dtype)


def opened(framework: Any, job: Job) -> tuple[Any, list[Feeds]]:
    """Returns the original and its samples."""
    if hasattr(framework, "check"):
        framework.check(job)
    for module, package in framework.NEEDS:
        job.need(module, package)
    if job.work != "serve":
        job.say(event="progress", phase="load", message=job.name or Path(job.place).name)
    original = framework.load(job)
    samples = samples_of(job, framework.inputs(original, job))
    if job.compiles:
        framework.compile_module(original, job)
    return original, samples


def answer(framework: Any, job: Job) -> None:
    """Runs the original on each sample, saves the outputs and reports how it runs."""
    original, samples = opened(framework, job)
    if hasattr(framework, "name_outputs"):
        framework.name_outputs(original, job.outputs, job)
    outputs = [framework.run(original, sample, job) for sample in samples]
    _save(job, "outputs", outputs)
    job.say(
        event="result",
        framework=framework.version(),
        mode=framework.mode(original, job) if hasattr(framework, "mode") else "",
        outputs=list(outputs[0]),
        notes=job.notes,
    )


def serve(framework: Any, job: Job) -> None:
    """Runs the original on the sample of each line, until there are no more."""
    original, samples = opened(framework, job)
    calls = [_caller(framework, original, sample, job) for sample in samples]
    answers = job.answers
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        calls[int(line.split()[1])]()
        answers.write("done\n")
        answers.flush()


def _caller(framework: Any, original: Any, sample: Feeds, job: Job) -> Any:
    """Returns a call with inputs as the framework takes them, if it has one, so that no conversion is timed."""
    if hasattr(framework, "caller"):
        return framework.caller(original, sample, job)
    return lambda: framework.run(original, sample, job)


def export(framework: Any, job: Job) -> None:
    original, samples = opened(framework, job)
    open_dimensions(job, samples)
    first = framework.run(original, samples[0], job)
    again = framework.run(original, samples[0], job)
    for name, array in first.items():
        if not np.array_equal(array, again[name], equal_nan=array.dtype.kind in "fc"):
            reason, hint = framework.unsteady(original, samples[0], job)
            job.refuse(
                "bad-model", f"Two runs on the same inputs give different outputs '{name}': {reason}.", hint
            )
        if array.dtype.kind == "c":
            job.refuse(
                "bad-model",
                f"The output '{name}' holds complex numbers, which runtimes of ONNX do not take.",
                "Return the real and imaginary parts: torch.view_as_real(x).",
            )
    if hasattr(framework, "impure") and (found := framework.impure(original, samples, job)):
        job.refuse("bad-model", f"The original is not a function of its inputs: {found[0]}.", found[1])
    job.say(event="progress", phase="export", message=framework.NEEDS[0][1])
    # An exporter takes a size of 1 for a constant, and equal sizes for one dimension.
    grown = {dim: max(2, size) for dim, size in base_sizes(job, samples).items()}
    exporter = framework.export(original, resized(job, samples, grown), list(first), job)
    job.say(event="progress", phase="run", message="original")
    drawn = _drawn_so_far()
    if hasattr(framework, "run_sizes"):
        done = framework.run_sizes(original, job, samples)
    else:
        done = run_all(lambda feeds: framework.run(original, feeds, job), job, samples)
    if _drawn_so_far() != drawn and not job.allow_random:
        job.refuse(
            "bad-model",
            "The original draws random numbers of Python or NumPy, which ONNX cannot do.",
            "Make them an input; --allow-random imports it with those that the exporter has kept.",
        )
    layers = framework.layers(original, samples[0], job)
    processor, raw, prepared = (
        framework.processor(original, job) if hasattr(framework, "processor") else (None, [], [])
    )
    _save(job, "raw", raw)
    _save(job, "prepared", prepared)
    _save(job, "feeds", done.feeds)
    _save(job, "outputs", done.outputs)
    _save(job, "layers", [{name: array for name, (_, array) in layers.items()}])
    job.say(
        event="result",
        exporter=exporter,
        framework=framework.version(),
        base=len(samples),
        sizes=done.sizes,
        values=done.values,
        limits=_limits(job),
        inputs=list(samples[0]),
        outputs=list(done.outputs[0]),
        layers=[[name, kind] for name, (kind, _) in layers.items()],
        processor=processor,
        generated=job.generated,
        notes=job.notes,
    )


def _drawn_so_far() -> tuple[Any, ...]:
    """Returns the state of the random numbers that every module shares."""
    state: Any = np.random.get_state()
    return random.getstate(), state[1].tobytes(), *state[2:]


def _limits(job: Job) -> dict[str, dict[str, dict[str, int]]]:
    """Returns the least and greatest size of axes, by input."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for name, axes in job.dims.items():
        for axis, dim in axes.items():
            low, high = job.ranges.get(dim, (1, sys.maxsize))
            limit = {**({"least": low} if low > 1 else {}), **({"most": high} if high < sys.maxsize else {})}
            if limit:
                found.setdefault(name, {})[str(axis)] = limit
    return found


def open_dimensions(job: Job, samples: list[Feeds]) -> None:
    """Opens the axes that `--dynamic` names in each input that has them, unless the framework has set them."""
    if job.dims:
        return
    for name, array in samples[0].items():
        if axes := {axis: dim for dim, axis in job.axes.items() if axis < array.ndim}:
            job.dims[name] = axes
    unused = set(job.axes) - {dim for axes in job.dims.values() for dim in axes.values()}
    if unused:
        job.refuse(
            "usage",
            f"No input has the axis {job.axes[min(unused)]} of '{min(unused)}'.",
            "Correct --dynamic: NAME=AXIS, counted from 0.",
        )


def _save(job: Job, name: str, runs: list[Feeds]) -> None:
    """Saves arrays by number of the run and place of the array: names may be invalid as file names."""
    arrays = {f"{k}.{place}": array for k, run in enumerate(runs) for place, array in enumerate(run.values())}
    np.savez(job.folder / f"{name}.npz", **arrays)


def main(framework: str, request: str, threads: str = "") -> None:  # noqa: ARG001 - read above
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries print there
    del sys.path[0]  # this folder: a file of the user's may have the name of one in it
    warnings.simplefilter("ignore")
    with Path(request).open(encoding="utf-8") as file:
        options = json.load(file)
    if options["work"] != "serve":  # which ends with its input
        threading.Thread(target=_end_with_parent, daemon=True).start()
    code, message, hint = "", "", ""
    try:
        job = Job(options, answers)
        if np is None:
            job.missing("numpy")
        spec = importlib.util.spec_from_file_location("framework", framework)
        assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - it is a path
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        try:
            {"import": export, "answer": answer, "serve": serve}[job.work](module, job)
        except ModuleNotFoundError as error:
            job.missing(str(error.name))
    except RefusalError as error:
        code, message, hint = error.args
    except BaseException as error:
        done = "imported" if options["work"] == "import" else "run"
        code, message = "bad-model", f"It cannot be {done}: {Job.reason(error)}."
        hint = "Correct the model's code or its inputs (--data, --shape)."
    if code and options["work"] == "serve":
        os.write(2, message.encode())
        os._exit(1)
    if code:
        answers.write(json.dumps({"event": "error", "code": code, "message": message, "hint": hint}) + "\n")
        answers.flush()
    os._exit(0)  # frameworks have been seen to crash at their end


def _end_with_parent() -> None:
    """Waits until the parent ends, then ends this process with all that the model's code has started."""
    sys.stdin.buffer.read()
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
