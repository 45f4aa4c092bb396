"""Result of `edgeopt optimize` on a folder of models with data: speed-up, accuracy and winner.

    EDGEOPT_CORPUS=folder python benchmarks/corpus.py [--floor 80dB --floor 30dB] [--keep FOLDER] [NAME ...]
        [--isa native --isa AVX512_CORE_VNNI]

The folder holds NAME.onnx with NAME.npz beside it. Every figure is the one proved from the written bundle,
against the same model in plain ONNX Runtime, measured interleaved. `--isa AVX512_CORE_VNNI` limits OpenVINO to the
instructions of a processor without bf16, as most edge devices are (ONNX Runtime uses none of bf16 by default).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import msgspec

from edgeopt.pipeline.outcome import Outcome


def main() -> None:
    """Prints one Markdown row a model and floor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--floor", action="append")
    parser.add_argument("--isa", action="append", help="native, or a value of ONEDNN_MAX_CPU_ISA")
    parser.add_argument("--keep", type=Path, help="leave the bundles here")
    chosen = parser.parse_args()
    corpus = Path(os.environ["EDGEOPT_CORPUS"])
    models = [m for m in sorted(corpus.glob("*.onnx")) if m.with_suffix(".npz").exists()]
    print("| model | floor | instructions | speed-up over plain ONNX Runtime | accuracy | winner | search |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for model in models:
            for floor, isa in product(chosen.floor or ["transparent"], chosen.isa or ["native"]):
                if not chosen.names or model.stem in chosen.names:
                    print(_row(model, floor, isa, folder), flush=True)


def _row(model: Path, floor: str, isa: str, folder: Path) -> str:
    begin = time.monotonic()
    data = str(model.with_suffix(".npz"))
    command = ["-m", "edgeopt", "optimize", str(model), "--data", data, "--json", "--fresh"]
    out = folder / f"{model.stem}-{floor}-{isa}.edgeopt"
    limited = {} if isa == "native" else {"ONEDNN_MAX_CPU_ISA": isa}
    done = subprocess.run(
        [sys.executable, *command, "--floor", floor, "-o", str(out)],
        capture_output=True,
        check=False,
        env=os.environ | limited,
    )
    last = msgspec.json.decode(done.stdout.splitlines()[-1])
    if done.returncode != 0:
        return f"| {model.stem} | {floor} | {isa} | failed: {last['message']} | | | |"
    outcome = msgspec.convert(last["data"], Outcome)
    proof = outcome.proof
    accuracy = "equal" if proof.accuracy_db >= 199 else f"{proof.accuracy_db:.1f} dB"
    return (
        f"| {model.stem} | {outcome.floor_db:g} dB | {isa} | {proof.speedup} | {accuracy} | {outcome.winner.name} "
        f"| {time.monotonic() - begin:.0f} s |"
    )


if __name__ == "__main__":
    main()
