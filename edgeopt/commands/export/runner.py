"""`runner`: a script with its requirements, for devices without edgeopt; run on the golden samples here."""

import json
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from edgeopt.bundle.golden import GoldenAnswer, golden_floor_db
from edgeopt.commands.export.base import (
    HINT,
    ExportedFiles,
    ExportJob,
    Format,
    copy_golden,
    copy_model,
    missing_here,
    ports,
    refuse,
)
from edgeopt.commands.export.settings import (
    ONNXRUNTIME,
    openvino_settings,
    ort_options,
    ort_settings,
    provider_of,
    runtime_of,
)
from edgeopt.errors import VerificationError

NAME = "runner"
FILES = Path(__file__).with_name("files")
_LIMIT_S = 600


def write(job: ExportJob, folder: Path) -> ExportedFiles:
    made = ExportedFiles(
        use=["pip install -r requirements.txt", "python runner.py --check", "python runner.py inputs.npz"]
    )
    write_runner(job, folder, made)
    return made


def write_runner(job: ExportJob, folder: Path, made: ExportedFiles, format_name: str = NAME) -> None:
    """Writes the script, its requirements, and the files that it runs; also the inside of a container."""
    runtime = runtime_of(job, format_name)
    model = copy_model(job, folder / "model")
    copy_golden(job, folder)
    inputs, outputs = ports(job, job.bundle.model, job.backend)
    odd = next((port for port in (*inputs, *outputs) if port.dtype == "bfloat16"), None)
    if odd is not None:
        raise refuse(
            job,
            format_name,
            f"'{odd.name}' is bfloat16, which numpy does not have",
            "Convert it in the model itself.",
        )
    session = ort_settings(job, model) if runtime == ONNXRUNTIME else openvino_settings(job)
    settings = {
        "name": job.name,
        "runtime": runtime,
        "model": model.relative_to(folder).as_posix(),
        "inputs": [{"name": each.name, "dtype": each.dtype, "shape": list(each.shape)} for each in inputs],
        "outputs": [each.name for each in outputs],
        "floor_db": golden_floor_db(job.bundle),
        "session": msgspec.to_builtins(session),
    }
    (folder / "settings.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    shutil.copyfile(FILES / "runner.py", folder / "runner.py")
    (folder / "requirements.txt").write_text(_requirements(job, runtime, made), encoding="utf-8")
    if runtime == ONNXRUNTIME and ort_options(job).io_binding:
        made.notes.append("The option io_binding is left out: each run copies its arrays to the device and back.")
    if job.bundle.deployment.run.options.get("cores"):
        made.notes.append(
            "settings.json pins its threads to cores as that device counts them; change it elsewhere."
        )
    if job.bundle.deployment.run.options.get("cache_dir"):
        made.notes.append("settings.json names the cache_dir of the bundle's device; change it there.")
    made.not_checked = missing_here(job.backend)
    if not made.not_checked:
        _run(job, folder, made)


def _requirements(job: ExportJob, runtime: str, made: ExportedFiles) -> str:
    """Returns the versions that the bundle was made with, if they are known."""
    distribution = runtime
    if runtime == ONNXRUNTIME:
        listed = provider_of(job).distributions
        if not listed:
            made.notes.append(f"No package on PyPI has the backend {job.backend}: build ONNX Runtime with it.")
        distribution = listed[0] if listed else runtime
    recorded = job.bundle.deployment.runtimes.get(distribution) or job.bundle.deployment.runtimes.get(runtime)
    here = _installed(distribution)
    if recorded and here and recorded != here:
        made.notes.append(
            f"requirements.txt names {distribution} {recorded}, as the bundle does; here {here} is installed."
        )
    pinned = recorded or here
    numpy = _installed("numpy")
    return f"{distribution}=={pinned}\nnumpy=={numpy}\n" if pinned else f"{distribution}\nnumpy=={numpy}\n"


def _installed(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _run(job: ExportJob, folder: Path, made: ExportedFiles) -> None:
    """Runs the script as its user would, and takes its own check of the golden samples as the answer."""
    if getattr(sys, "frozen", False):
        made.not_checked = "No Python is available here, so the script was not run."
        return
    done = subprocess.run(
        [sys.executable, "-P", "-B", "runner.py", "--check"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    match = re.search(r"golden samples: (\S+) dB", done.stdout)
    if match is None:
        output = done.stderr.strip() or done.stdout.strip() or f"it ended with {done.returncode}"
        raise VerificationError(
            f"The exported runner failed on the golden samples: {output.splitlines()[-1][:300]}", HINT
        )
    made.answer = GoldenAnswer(float(match[1]), golden_floor_db(job.bundle), None)
    wrong = made.answer.sentence("The exported runner")
    if wrong or done.returncode:
        raise VerificationError(wrong or f"The exported runner ended with {done.returncode}.", HINT)


FORMAT = Format(NAME, "A script with its requirements: the runtime and numpy, no edgeopt", write)
