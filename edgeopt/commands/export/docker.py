"""`docker`: the runner in a container that needs no network and no rights."""

import sys
from pathlib import Path

from edgeopt.commands.export.base import ExportedFiles, ExportJob, Format, refuse
from edgeopt.commands.export.runner import write_runner

NAME = "docker"
# Whole versions, so that the same file builds the same thing; wheels are for one minor version of Python.
_BASES = {
    (3, 11): "python:3.11.13-slim-bookworm",
    (3, 12): "python:3.12.11-slim-bookworm",
    (3, 13): "python:3.13.5-slim-bookworm",
}
_DOCKERFILE = """\
# {name}: the runner of this folder. Nothing is fetched when it runs: `docker run --network none` works.
FROM {base}

WORKDIR /app
COPY requirements.txt .
RUN pip install --no-cache-dir --only-binary=:all: -r requirements.txt \\
 && useradd --system --uid 10001 --no-create-home runner

COPY settings.json runner.py ./
COPY golden golden
COPY model model

ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001
ENTRYPOINT ["python", "/app/runner.py"]
CMD ["--check"]
"""
_FILES = "/data/inputs.npz -o /data/outputs.npz"
_IGNORED = "*\n!requirements.txt\n!settings.json\n!runner.py\n!golden\n!model\n"


def write(job: ExportJob, folder: Path) -> ExportedFiles:
    if job.backend not in {"onnxruntime-cpu", "openvino-cpu"}:
        raise refuse(
            job,
            NAME,
            f"it runs with {job.backend}, whose drivers the slim base image does not have",
            "Use --to runner, in an image of the device's maker.",
        )
    base = _BASES.get((sys.version_info[0], sys.version_info[1]), _BASES[3, 11])
    tag = job.file_name.lower()
    made = ExportedFiles(
        use=[
            f"docker build -t {tag} .",
            f"docker run --rm --network none --read-only {tag}",
            f'docker run --rm --network none --user "$(id -u)" -v "$PWD:/data" {tag} {_FILES}',
        ]
    )
    write_runner(job, folder, made, NAME)
    (folder / "Dockerfile").write_text(_DOCKERFILE.format(name=tag, base=base), encoding="utf-8")
    (folder / ".dockerignore").write_text(_IGNORED, encoding="utf-8")
    made.notes.append(
        f"The image was not built here; its base is {base}. What is in it was run here as it is. The network is "
        "needed for building alone."
    )
    return made


FORMAT = Format(NAME, "The runner in a container: pinned slim base, no root, no network", write)
