"""How long `edgeopt analyze --json` takes on every model of some folders, against the limit by size.

    python benchmarks/analyze_corpus.py MODELS [MODELS ...] [--light] [--repeat 3]

MODELS are models or folders; `--light` adds those that come with the onnx package. The limit is 3 s and 1 s for
every 50 MB of the model with its external data. The quickest of the repeats counts, to measure
the command and not other load.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

_BASE_S, _BYTES_PER_S = 3.0, 50e6


def main() -> None:
    """Prints the table; exit code 1 where a model failed or took too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--repeat", type=int, default=1)
    wanted = parser.parse_args()
    paths = [path for given in wanted.models for path in _models(given)]
    if wanted.light:
        import onnx.backend.test

        paths += _models(Path(onnx.backend.test.__file__).parent / "data" / "light")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{'model':44} {'MB':>8} {'s':>7} {'cpu s':>7} {'limit':>7}  result")
    bad = 0
    slowest = 0.0
    for path in paths:
        taken, cpu, told, size = _measured(path, wanted.repeat)
        limit = _BASE_S + size / _BYTES_PER_S
        slowest = max(slowest, taken / limit)
        bad += not told.startswith("ok") or taken > limit
        print(f"{path.name[:44]:44} {size / 1e6:8.2f} {taken:7.2f} {cpu:7.2f} {limit:7.2f}  {told}", flush=True)
    print(f"{len(paths)} models, {bad} failed or too slow; the slowest took {slowest:.2f} of its limit")
    sys.exit(bad > 0)


def _models(given: Path) -> list[Path]:
    return sorted(given.glob("*.onnx")) if given.is_dir() else [given]


def _measured(path: Path, repeat: int) -> tuple[float, float, str, int]:
    best, min_cpu, told, size = float("inf"), float("inf"), "", path.stat().st_size
    for _ in range(repeat):
        before, begin = _children_s(), time.perf_counter()
        command = [sys.executable, "-m", "edgeopt", "analyze", str(path), "--json"]
        done = subprocess.run(command, capture_output=True, check=False)
        best = min(best, time.perf_counter() - begin)
        min_cpu = min(min_cpu, _children_s() - before)
        last = json.loads(done.stdout.splitlines()[-1])
        if last["event"] != "result":
            return best, min_cpu, f"failed: {last['message']}", size
        data = last["data"]
        size = data["size_bytes"]
        ran = sum(row["supported"] is not None and not row["unsupported"] for row in data["coverage"])
        told = (
            f"ok: {data['nodes_count']} nodes, {data['work']['unknown']} of unknown cost, "
            f"{len(data['opportunities'])} opportunities, {ran} of {len(data['coverage'])} backends run it all"
        )
        told += "".join(f" [{note}]" for note in data["warnings"] if "no time" in note or "not known" in note[:40])
    return best, min_cpu, told, size


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
