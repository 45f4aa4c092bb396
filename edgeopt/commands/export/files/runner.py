"""Runs a model that edgeopt deployed. It needs Python, numpy and the runtime in requirements.txt, nothing else.

    python runner.py --check                     the golden samples, against what they must give
    python runner.py inputs.npz -o outputs.npz   arrays by input name, samples along the first axis
    python runner.py --time 200                  how long a run takes here

From Python:  session = runner.load();  outputs = session({"image": array})
One session belongs to one thread. This file is the same in every export; what differs is in settings.json.
"""

import argparse
import json
import math
import os
import sys
import time
import zipfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, Any]
Session = Callable[[Mapping[str, Any]], Arrays]
HERE = Path(__file__).resolve().parent

# The runtimes send usage reports unless that is disabled before they are imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]


def load(folder: Path = HERE) -> Session:
    """Loads the model with the options of its bundle."""
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    opened = _onnxruntime if settings["runtime"] == "onnxruntime" else _openvino
    return opened(folder / settings["model"], settings)


def _onnxruntime(model: Path, settings: Mapping[str, Any]) -> Session:
    import onnxruntime

    session_settings = settings["session"]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, session_settings["graph_optimization_level"]
    )
    options.execution_mode = getattr(onnxruntime.ExecutionMode, session_settings["execution_mode"])
    for name in (
        "intra_op_num_threads",
        "inter_op_num_threads",
        "enable_cpu_mem_arena",
        "enable_mem_pattern",
        "use_deterministic_compute",
    ):
        setattr(options, name, session_settings[name])
    for key, value in session_settings["config_entries"].items():
        options.add_session_config_entry(key, value)
    for name, size in session_settings["free_dimensions"].items():
        options.add_free_dimension_override_by_name(name, size)
    providers = [(name, chosen) for name, chosen in session_settings["providers"]]
    session = onnxruntime.InferenceSession(str(model), options, providers=providers)
    if providers[0][0] not in session.get_providers():
        raise SystemExit(f"runner.py: ONNX Runtime could not start {providers[0][0]} here.")
    run_options = onnxruntime.RunOptions()
    for key, value in session_settings["run_config_entries"].items():
        run_options.add_run_config_entry(key, value)
    names = settings["outputs"]

    def run(feeds: Mapping[str, Any]) -> Arrays:
        arrays = {name: np.asarray(array) for name, array in feeds.items()}
        return dict(zip(names, session.run(names, arrays, run_options), strict=True))

    return run


def _openvino(path: Path, settings: Mapping[str, Any]) -> Session:
    import openvino

    session_settings = settings["session"]
    core = openvino.Core()
    source = core.read_model(str(path), config=session_settings["read_config"])
    inputs, outputs = [port["name"] for port in settings["inputs"]], settings["outputs"]
    shapes = {inputs.index(name): tuple(shape) for name, shape in session_settings["shapes"].items()}
    requests: dict[bool, Any] = {}

    def request(fixed: bool) -> Any:  # noqa: ANN401 - OpenVINO ships no types
        if fixed not in requests:
            model = source
            if fixed and shapes:
                model = source.clone()
                model.reshape({model.inputs[index]: list(shape) for index, shape in shapes.items()})
            compiled = core.compile_model(model, session_settings["device"], session_settings["config"])
            requests[fixed] = compiled.create_infer_request()
        return requests[fixed]

    def run(feeds: Mapping[str, Any]) -> Arrays:
        arrays = [np.asarray(feeds[name]) for name in inputs]
        # The shapes that it was made fast for; any others run in a program of their own.
        chosen = request(all(arrays[index].shape == shape for index, shape in shapes.items()))
        for index, array in enumerate(arrays):
            # Into the request's own tensors: its `infer` with arrays spends some 40 us more.
            tensor = chosen.get_input_tensor(index)
            if tuple(tensor.shape) != array.shape:
                tensor.shape = array.shape
            tensor.data[...] = array
        if stateful:
            chosen.reset_state()
        chosen.start_async()
        chosen.wait()
        return {name: chosen.get_output_tensor(index).data.copy() for index, name in enumerate(outputs)}

    stateful = bool(request(True).query_state())
    return run


def samples(folder: Path, name: str) -> list[Arrays]:
    """Reads the arrays of NAME.npz, one dict per sample, or of NAME/0.npz, NAME/1.npz, ... if shapes differ."""
    if (folder / name).is_dir():
        files = sorted((folder / name).glob("*.npz"), key=lambda file: int(file.stem))
        return [dict(np.load(file, allow_pickle=False)) for file in files]
    arrays = dict(np.load(folder / f"{name}.npz", allow_pickle=False))
    count = min(len(array) for array in arrays.values())
    return [{key: array[k] for key, array in arrays.items()} for k in range(count)]


def snr_db(reference: list[Arrays], got: list[Arrays]) -> float:
    """Returns the signal-to-noise ratio of the worst output over all samples, at most 200 dB."""
    worst = 200.0
    for name in reference[0]:
        signal = noise = 0.0
        for expected, found in zip(reference, got, strict=True):
            a, b = expected[name], np.asarray(found[name])
            if a.shape != b.shape:
                return -math.inf
            if a.dtype.kind in "OUS":
                a, b = np.ones(a.shape), (a == b).astype(np.float64)
            a, b = a.astype(np.float64), b.astype(np.float64)
            same = ~np.isfinite(a) & ((a == b) | (np.isnan(a) & np.isnan(b)))
            a, b = np.where(same, 0.0, a), np.where(same, 0.0, b)
            signal += float((a * a).sum())
            noise += float(((a - b) ** 2).sum())
        if noise != 0.0:  # NaN is not 0 either
            ratio = 10 * math.log10(max(signal, 1e-60) / noise) if math.isfinite(noise) else -math.inf
            worst = min(worst, ratio)
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the model beside this file.")
    parser.add_argument("inputs", nargs="?", type=Path, help="an .npz: arrays by input name, samples first")
    parser.add_argument("-o", "--output", type=Path, default=Path("outputs.npz"), help="where the outputs go")
    parser.add_argument("--check", action="store_true", help="run the golden samples and compare")
    parser.add_argument("--time", type=int, metavar="N", help="the median time of N runs of a golden sample")
    chosen = parser.parse_args()
    if not (chosen.inputs or chosen.check or chosen.time):
        parser.print_help()
        return 2
    settings = json.loads((HERE / "settings.json").read_text(encoding="utf-8"))
    session = load()
    if chosen.check:
        found = snr_db(
            samples(HERE / "golden", "reference"), [session(f) for f in samples(HERE / "golden", "inputs")]
        )
        floor_db = settings["floor_db"]
        print(f"golden samples: {found:.2f} dB; at least {floor_db:.2f} dB is needed")
        if not found >= floor_db:
            return 1
    if chosen.time:
        feeds, times = samples(HERE / "golden", "inputs")[0], []
        for _ in range(chosen.time):
            start = time.perf_counter()
            session(feeds)
            times.append(time.perf_counter() - start)
        print(f"median of {chosen.time} runs: {sorted(times)[len(times) // 2] * 1e3:.3f} ms")
    if chosen.inputs:
        _run_file(session, settings, chosen.inputs, chosen.output)
    return 0


def _user_samples(file: Path, names: Collection[str]) -> list[Arrays]:
    """Reads the samples in a file of the user; ends the program with a sentence if they do not fit the model."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            arrays = dict(archive)
    except (OSError, EOFError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        sys.exit(f"'{file}' cannot be read as an .npz file: {error}")
    if arrays.keys() != set(names):
        sys.exit(f"'{file}' has the arrays {', '.join(arrays) or '(none)'}; the model needs {', '.join(names)}.")
    counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if 0 in counts.values() or len(set(counts.values())) != 1:
        found = ", ".join(f"{name} {count}" for name, count in counts.items())
        sys.exit(f"'{file}' needs the same number of samples in each array, at least one; it has: {found}.")
    return [{name: array[k] for name, array in arrays.items()} for k in range(next(iter(counts.values())))]


def _run_file(session: Session, settings: Mapping[str, Any], inputs: Path, output: Path) -> None:
    ranks = {port["name"]: len(port["shape"]) for port in settings["inputs"]}
    results = []
    for feeds in _user_samples(inputs, ranks):
        # A sample may leave out a batch axis of 1.
        whole = {name: array[None] if array.ndim == ranks[name] - 1 else array for name, array in feeds.items()}
        results.append(session(whole))
    arrays: Arrays = {name: np.stack([result[name] for result in results]) for name in results[0]}
    # Texts come as objects, which a plain archive cannot hold.
    np.savez(output, **{name: a.astype(np.str_) if a.dtype == object else a for name, a in arrays.items()})
    print(f"{len(results)} samples: {output}")


if __name__ == "__main__":
    sys.exit(main())
