"""Probe of the installed runtimes and their devices; none of them is imported into this process."""

from typing import NamedTuple

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import pip_install
from edgeopt.hw import kernel_text, probe_cache
from edgeopt.hw.device import Facts, Runtime, Unavailable
from edgeopt.hw.host import Host
from edgeopt.hw.probe_cache import Answer
from edgeopt.hw.provider_wheels import OPENVINO, QNN

FACTS_MODULE = "edgeopt.hw.runtime_facts"
_INSTALLED = "installed Python distributions"


class Kind(NamedTuple):
    name: str
    distributions: tuple[str, ...]
    """Each brings the runtime."""
    extra: str | None = None
    """The edgeopt extra that brings it."""
    question: str | None = None
    """The function of `runtime_facts` that asks the runtime what it can run on."""


class _Replies(NamedTuple):
    """Answers, their sources and the reasons of those missing, each by question."""

    answers: probe_cache.Answers
    sources: dict[str, str]
    failures: dict[str, str]
    cache_problem: str | None


KINDS = (
    Kind(
        "onnxruntime",
        (
            "onnxruntime",
            "onnxruntime-gpu",
            "onnxruntime-directml",
            "onnxruntime-openvino",
            "onnxruntime-rocm",
            "onnxruntime-migraphx",
        ),
        "cpu",
        "onnxruntime_providers",
    ),
    Kind(QNN.distribution, (QNN.distribution,), None, "onnxruntime_qnn_devices"),
    Kind(OPENVINO.distribution, (OPENVINO.distribution,), None, "onnxruntime_openvino_devices"),
    Kind("openvino", ("openvino",), "openvino", "openvino_devices"),
    Kind("tensorrt", ("tensorrt", "tensorrt-cu13", "tensorrt-cu12", "tensorrt-cu11", "tensorrt-lean")),
    Kind("coreml", ("coremltools",)),
    Kind("hailo", ("hailort",)),
    Kind("rockchip", ("rknn-toolkit-lite2", "rknn-toolkit2")),
    Kind("edgetpu", ("pycoral",)),
    Kind("litert", ("ai-edge-litert", "tflite-runtime")),
    Kind("onnx", ("onnx",), "optimize"),
    Kind("onnxscript", ("onnxscript",), "optimize"),
)


def installed_versions(host: Host) -> tuple[tuple[str, str], ...]:
    """The installed distributions that bring a runtime, each with its version."""
    return tuple((name, version) for _, name, version in _installed(host))


def probe(host: Host) -> Facts:
    installed = _installed(host)
    here = {kind.name for kind, _, _ in installed}
    unavailable = {
        kind.name: _not_here(host, kind.extra) for kind in KINDS if kind.extra and kind.name not in here
    }
    questions = tuple(dict.fromkeys(kind.question for kind, _, _ in installed if kind.question))
    replies = _ask(host, questions, tuple((name, version) for _, name, version in installed))
    sources: dict[str, str] = {}
    runtimes = []
    for kind, name, version in installed:
        answer = replies.answers.get(kind.question or "", Answer())
        runtimes.append(Runtime(name, version, answer.providers, answer.devices, answer.capabilities))
        sources[f"runtimes.{name}"] = _INSTALLED
        if kind.question in replies.answers:
            for part in ("providers", "devices", "capabilities"):
                if getattr(answer, part):
                    sources[f"runtimes.{name}.{part}"] = replies.sources[kind.question]
        elif kind.question:
            unavailable[f"{name}.providers"] = replies.failures[kind.question]
    if replies.cache_problem:
        unavailable["runtimes.cache"] = replies.cache_problem
    library = None if "tensorrt" in here else tensorrt_library(host)
    if library:
        runtimes.append(Runtime("tensorrt", library.version))
        sources["runtimes.tensorrt"] = library.path
    unavailable |= absences(host, tuple(runtimes))
    return Facts(tuple(runtimes), sources, unavailable)


def _not_here(host: Host, extra: str) -> str:
    if host.call("platform", "python_version") is None:
        return "this recording does not list the Python packages"
    return f"not installed; {pip_install(extra)}"


def _installed(host: Host) -> tuple[tuple[Kind, str, str], ...]:
    return tuple(
        (kind, name, version) for kind in KINDS for name in kind.distributions if (version := host.version(name))
    )


def _ask(host: Host, questions: tuple[str, ...], versions: tuple[tuple[str, str], ...]) -> _Replies:
    path = probe_cache.answers_path(host.cache_folder, _circumstances(host, versions)) if questions else None
    answers = {q: a for q, a in probe_cache.load_answers(path).items() if q in questions}
    sources = dict.fromkeys(answers, f"cached answer of {FACTS_MODULE}")
    failures: dict[str, str] = {}
    unknown = tuple(question for question in questions if question not in answers)
    for question, answer in _answers(host, unknown):
        if isinstance(answer, Answer):
            answers[question] = answer
            sources[question] = f"{FACTS_MODULE}.{question}()"
        else:
            failures[question] = answer
    fresh = any(not source.startswith("cached") for source in sources.values())
    problem = probe_cache.store_answers(path, answers) if path and fresh else None
    return _Replies(answers, sources, failures, problem)


def _answers(host: Host, questions: tuple[str, ...]) -> list[tuple[str, Answer | str]]:
    """Each runtime's answer or why there is none; all at once, as each takes its time to load."""
    if len(questions) < 2:
        return [(question, _answer(host, question)) for question in questions]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(questions)) as pool:
        return list(zip(questions, pool.map(lambda question: _answer(host, question), questions), strict=True))


def _answer(host: Host, question: str) -> Answer | str:
    reply = host.call_in_child(FACTS_MODULE, question)
    if isinstance(reply, Unavailable):
        return reply.reason
    try:
        return msgspec.convert(reply if isinstance(reply, dict) else {"providers": reply}, thread_safe(Answer))
    except msgspec.ValidationError as error:
        return f"the runtime's answer cannot be read: {error}"


def _circumstances(host: Host, versions: tuple[tuple[str, str], ...]) -> list[object]:
    """Whatever changes what a runtime answers: its version, Python, kernel, CPU, drivers, device nodes."""
    cpuinfo = kernel_text.blocks(host.read("/proc/cpuinfo") or "")
    return [
        Answer.__struct_fields__,
        versions,
        host.call("sys", "executable"),
        host.read("/proc/sys/kernel/osrelease"),
        cpuinfo[0].get("model name") if cpuinfo else None,
        host.read("/proc/driver/nvidia/version"),
        *(host.list(folder) for folder in ("/sys/class/drm", "/dev/dri", "/dev/accel")),
    ]


_LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib")
_TENSORRT_VERSIONS = ("10", "11", "9", "8")
_NVIDIA_MARKS = ("/proc/driver/nvidia/version", "/etc/nv_tegra_release")
_QUALCOMM = "qcom,"


class Library(NamedTuple):
    version: str
    path: str


def tensorrt_library(host: Host) -> Library | None:
    """TensorRT as NVIDIA's own packages install it; looked for only where there is an NVIDIA driver."""
    if not _nvidia(host):
        return None
    found = (Library(v, f"{folder}/libnvinfer.so.{v}") for folder in _LIBRARY_FOLDERS for v in _TENSORRT_VERSIONS)
    return next((library for library in found if host.call("os.path", "exists", library.path) is True), None)


def absences(host: Host, runtimes: tuple[Runtime, ...]) -> dict[str, str]:
    """Returns the reason for each of TensorRT, CoreML, DirectML and QNN that is absent."""
    providers = {provider for runtime in runtimes for provider in runtime.providers}
    names = {runtime.name for runtime in runtimes}
    system = host.call("platform", "system")
    found: dict[str, str] = {}
    if not any(name.startswith("tensorrt") for name in names):
        found["tensorrt"] = (
            "not installed: no Python package and no libnvinfer.so"
            if _nvidia(host) or system == "Windows"
            else "no NVIDIA driver"
        )
    if "CoreMLExecutionProvider" not in providers and "coremltools" not in names:
        found["coreml"] = (
            f"not installed; {pip_install('cpu')}" if system == "Darwin" else "available only on Apple systems"
        )
    if "DmlExecutionProvider" not in providers:
        found["directml"] = (
            f"not installed; {pip_install('directml')}" if system == "Windows" else "available only on Windows"
        )
    if "QNNExecutionProvider" not in providers:
        found["qnn"] = (
            "not installed; pip install onnxruntime-qnn brings it" if _qualcomm(host) else "no Qualcomm chip"
        )
    return found


def _nvidia(host: Host) -> bool:
    return any(host.read(path) is not None for path in _NVIDIA_MARKS)


def _qualcomm(host: Host) -> bool:
    if _QUALCOMM in (host.read("/proc/device-tree/compatible") or ""):
        return True
    return any(name.startswith(("adsprpc", "fastrpc")) for name in host.list("/dev"))
