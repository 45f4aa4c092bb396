"""Which runtimes are installed, and what they can run on; none of them is imported into this process."""

from typing import NamedTuple

from edgeopt.hw import kernel_text, runtime_cache
from edgeopt.hw.device import Runtime, Unavailable
from edgeopt.hw.facts import Facts
from edgeopt.hw.host import Host

FACTS_MODULE = "edgeopt.hw.runtime_facts"


class _Kind(NamedTuple):
    name: str
    distributions: tuple[str, ...]
    """Each brings the runtime; they exclude each other."""
    extra: str
    question: str | None = None
    """The function of `runtime_facts` that asks the runtime what it can run on."""


class _Asked(NamedTuple):
    """Answers, their sources and the reasons of those missing, each by question."""

    answers: runtime_cache.Answers
    sources: dict[str, str]
    failures: dict[str, str]
    cache_problem: str | None


KINDS = (
    _Kind(
        "onnxruntime",
        ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino"),
        "cpu",
        "onnxruntime_providers",
    ),
    _Kind("openvino", ("openvino",), "openvino", "openvino_devices"),
    _Kind("nncf", ("nncf",), "optimize"),
    _Kind("onnx", ("onnx",), "optimize"),
    _Kind("onnxscript", ("onnxscript",), "optimize"),
)


def installed_versions(host: Host) -> tuple[tuple[str, str], ...]:
    """The installed distributions that bring a runtime, each with its version."""
    return tuple((name, version) for _, name, version in _installed(host))


def probe(host: Host) -> Facts:
    installed = _installed(host)
    here = {kind.name for kind, _, _ in installed}
    unavailable = {
        kind.name: f"not installed; pip install 'edgeopt[{kind.extra}]' brings it"
        for kind in KINDS
        if kind.name not in here
    }
    questions = tuple(dict.fromkeys(kind.question for kind, _, _ in installed if kind.question))
    asked = _ask(host, questions, tuple((name, version) for _, name, version in installed))
    sources: dict[str, str] = {}
    runtimes = []
    for kind, name, version in installed:
        runtimes.append(Runtime(name, version, asked.answers.get(kind.question or "", ())))
        sources[f"runtimes.{name}"] = "installed Python distributions"
        if kind.question in asked.answers:
            sources[f"runtimes.{name}.providers"] = asked.sources[kind.question]
        elif kind.question:
            unavailable[f"{name}.providers"] = asked.failures[kind.question]
    if asked.cache_problem:
        unavailable["runtimes.cache"] = asked.cache_problem
    return Facts(tuple(runtimes), sources, unavailable)


def _installed(host: Host) -> tuple[tuple[_Kind, str, str], ...]:
    return tuple(
        (kind, name, version) for kind in KINDS for name in kind.distributions if (version := host.version(name))
    )


def _ask(host: Host, questions: tuple[str, ...], versions: tuple[tuple[str, str], ...]) -> _Asked:
    path = runtime_cache.path(host.cache_folder, _circumstances(host, versions)) if questions else None
    answers = {q: a for q, a in runtime_cache.load(path).items() if q in questions}
    sources = dict.fromkeys(answers, f"cached answer of {FACTS_MODULE}")
    failures: dict[str, str] = {}
    for question in questions:
        if question in answers:
            continue
        answer = host.call_in_child(FACTS_MODULE, question)
        if isinstance(answer, list) and all(isinstance(item, str) for item in answer):
            answers[question] = tuple(answer)
            sources[question] = f"{FACTS_MODULE}.{question}()"
        else:
            failures[question] = answer.reason if isinstance(answer, Unavailable) else "the answer is no list"
    fresh = any(not source.startswith("cached") for source in sources.values())
    problem = runtime_cache.store(path, answers) if path and fresh else None
    return _Asked(answers, sources, failures, problem)


def _circumstances(host: Host, versions: tuple[tuple[str, str], ...]) -> list[object]:
    """Whatever changes what a runtime answers: its version, Python, kernel, CPU, drivers, device nodes."""
    cpuinfo = kernel_text.blocks(host.read("/proc/cpuinfo") or "")
    return [
        versions,
        host.call("sys", "executable"),
        host.read("/proc/sys/kernel/osrelease"),
        cpuinfo[0].get("model name") if cpuinfo else None,
        host.read("/proc/driver/nvidia/version"),
        *(host.list(folder) for folder in ("/sys/class/drm", "/dev/dri", "/dev/accel")),
    ]
