"""First token, decoding speed, memory and fidelity of a bundle of a decoder beside other runtimes.

    python benchmarks/language_models.py BUNDLE --folder HF_FOLDER --onnx MODEL.onnx --peers PYTHON
        [--gguf FILE] [--genai FOLDER ...] [--prompt-tokens 64 512] [--new-tokens 64] [--rounds 5]

PYTHON has torch, transformers, openvino and what else is to be measured: onnxruntime-genai for the folders that
its builder wrote, xllamacpp for a GGUF file. MODEL.onnx is the decoder with a cache that the bundle was made of:
OpenVINO runs it with its states kept inside, in float32, bfloat16 and with weights in eight bits. Every contender
runs in a process of its own on two threads: it loads, generates once, then twice more. One round runs each of
them once. Figures are medians of the rounds, and the ratio of decoding speeds is taken within rounds.

The divergence (mean Kullback-Leibler, in nats) and the share of equal first choices compare the logits at each
position of --text with those of transformers in float32; a runtime that gives no logits has none.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

TEXT = Path(__file__).parents[1] / "docs" / "tutorial.md"
COMMON = """
import json, re, sys, time
from pathlib import Path
import numpy as np
path, ids, new, logits_to = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
def peak_mib():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
def measure(generate):
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        stamps = [time.perf_counter() - begin for _ in generate()]
        times.append((stamps[0], (len(stamps) - 1) / (stamps[-1] - stamps[0])))
    print(json.dumps([min(t[0] for t in times[1:]) * 1e3, max(t[1] for t in times[1:]), peak_mib()]))
"""
EDGEOPT = """
import edgeopt
session = edgeopt.load(path)
if logits_to:
    from edgeopt.bundle.cache import found_cache
    from edgeopt.bundle.runtime.generation import DecoderPorts
    declared = session.deployment.cache if session.deployment is not None else None
    cache = declared or found_cache(session.inputs, session.outputs)
    ports = DecoderPorts(cache, session.inputs, session.outputs)
    np.save(logits_to, session.stream(cache.pairs).step(ports.feeds(np.array(ids), 0))[ports.logits][0])
else:
    measure(lambda: session.generate(ids, max_tokens=new))
"""
TRANSFORMERS = """
import torch
from transformers import AutoModelForCausalLM
torch.set_num_threads(2)
model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
def generate():
    given, cache = torch.tensor([ids]), None
    for _ in range(new):
        out = model(given, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache, given = out.past_key_values, out.logits[:, -1:].argmax(-1)
        yield int(given)
with torch.inference_mode():
    if logits_to:
        np.save(logits_to, model(torch.tensor([ids])).logits[0].numpy())
    else:
        measure(generate)
"""
GENAI = """
import onnxruntime_genai as og
settings = og.Config(path)
model = og.Model(settings)
def begin():
    search = og.GeneratorParams(model)
    search.set_search_options(max_length=len(ids) + new, min_length=len(ids) + new, do_sample=False)
    made = og.Generator(model, search)
    made.append_tokens(ids)
    return made
def generate():
    made = begin()
    for _ in range(new):
        made.generate_next_token()
        yield int(made.get_next_tokens()[0])
if logits_to:
    search = og.GeneratorParams(model)
    search.set_search_options(max_length=len(ids) + 1, do_sample=False)
    made, found = og.Generator(model, search), []
    for each in ids:
        made.append_tokens([each])
        found.append(np.array(made.get_logits())[0, -1])
    np.save(logits_to, np.stack(found))
else:
    measure(generate)
"""
OPENVINO = """
import openvino as ov
from openvino._offline_transformations import apply_make_stateful_transformation
core = ov.Core()
model = core.read_model(path)
past = [port.any_name for port in model.inputs if "past_key_values" in port.any_name]
pairs = {name: name.replace("past_key_values", "present") for name in past}
if MODE == "int8":
    import nncf
    model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
apply_make_stateful_transformation(model, pairs)
hint = "f32" if MODE == "f32" else "bf16"
made = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 2, "INFERENCE_PRECISION_HINT": hint})
names = {p.any_name for p in made.inputs}
request = made.create_infer_request()
def step(given, cached):
    length = cached + len(given)
    feeds = {"input_ids": np.array([given]), "attention_mask": np.ones((1, length), np.int64),
             "position_ids": np.arange(cached, length)[None]}
    return request.infer({k: v for k, v in feeds.items() if k in names})[made.output("logits")]
def reset():
    request.reset_state()
    for state in request.query_state():
        shape = list(state.state.shape)
        state.state = ov.Tensor(np.zeros([1, shape[1], 0, shape[3]], np.float32))
def generate():
    reset()
    given, cached = ids, 0
    for _ in range(new):
        out = step(given, cached)
        cached, given = cached + len(given), [int(out[0, -1].argmax())]
        yield given[0]
if logits_to:
    reset()
    np.save(logits_to, step(ids, 0)[0])
else:
    measure(generate)
"""
LLAMA = """
import xllamacpp
options = xllamacpp.CommonParams()
options.model.path = path
options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 2
options.n_ctx = len(ids) + new + 8
options.n_parallel = 1
options.warmup = False
server = xllamacpp.Server(options)
def generate_once():
    out = []
    server.handle_completions({"prompt": ids, "max_tokens": new, "ignore_eos": True, "cache_prompt": False,
                               "temperature": 0.0}, lambda answer: out.append(answer))
    return out[-1]["timings"]
found = [generate_once() for _ in range(3)][1:]
print(json.dumps([min(f["prompt_ms"] for f in found), max(f["predicted_per_second"] for f in found), peak_mib()]))
"""


class Contender(NamedTuple):
    name: str
    python: str
    program: str
    path: str


class Figures(NamedTuple):
    first_token_ms: float
    tokens_per_s: float
    peak_mib: float


def main() -> None:
    """Prints one Markdown table for each length of the prompt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path, nargs="+")
    parser.add_argument("--folder", type=Path, required=True, help="the model as transformers saves it")
    parser.add_argument("--onnx", type=Path, help="the imported decoder, for OpenVINO")
    parser.add_argument("--peers", required=True, help="Python with the peers")
    parser.add_argument("--genai", type=Path, nargs="*", default=[], help="folders of onnxruntime-genai")
    parser.add_argument("--gguf", type=Path, help="file for llama.cpp")
    parser.add_argument("--prompt-tokens", type=int, nargs="*", default=[64, 512])
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--text", type=Path, default=TEXT)
    chosen = parser.parse_args()
    contenders = list(_contenders(chosen))
    ids = _ids(chosen)
    fidelity = dict(_fidelity(contenders, ids[: max(chosen.prompt_tokens)]))
    for length in chosen.prompt_tokens:
        print(f"\nPrompt of {length} tokens, {chosen.new_tokens} new ones, {chosen.rounds} rounds\n")
        print("| | first token | tokens/s | of transformers | peak | KL | top-1 |\n|---|---|---|---|---|---|---|")
        rounds: dict[str, list[Figures | None]] = {each.name: [] for each in contenders}
        for number in range(chosen.rounds):
            for each in contenders if number % 2 else contenders[::-1]:
                rounds[each.name].append(_run(each, ids[:length], chosen.new_tokens))
        for each in contenders:
            print(_row(each.name, rounds, contenders[0].name, fidelity), flush=True)


def _contenders(chosen: argparse.Namespace) -> Iterator[Contender]:
    yield Contender("transformers f32", chosen.peers, TRANSFORMERS, str(chosen.folder))
    for each in chosen.genai:
        yield Contender(f"onnxruntime-genai {each.name}", chosen.peers, GENAI, str(each))
    for mode in ("f32", "bf16", "int8") if chosen.onnx else ():
        program = f"MODE = {mode!r}\n{OPENVINO}"
        yield Contender(f"OpenVINO stateful {mode}", chosen.peers, program, str(chosen.onnx))
    if chosen.gguf:
        yield Contender(f"llama.cpp {chosen.gguf.stem}", chosen.peers, LLAMA, str(chosen.gguf))
    for each in chosen.bundle:
        yield Contender(f"edgeopt {each.stem}", sys.executable, EDGEOPT, str(each))


def _ids(chosen: argparse.Namespace) -> list[int]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(chosen.folder / "tokenizer.json"))
    found: list[int] = tokenizer.encode(chosen.text.read_text()).ids
    if len(found) < max(chosen.prompt_tokens):
        raise SystemExit(f"{chosen.text} has {len(found)} tokens; give a longer text.")
    return found


def _run(contender: Contender, ids: list[int], new: int, logits_to: str = "") -> Figures | None:
    arguments = (contender.path, json.dumps(ids), str(new), logits_to)
    command = [contender.python, "-c", COMMON + contender.program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{contender.name}: {(done.stderr.strip().splitlines() or ['?'])[-1][:200]}", file=sys.stderr)
        return None
    return None if logits_to else Figures(*json.loads(done.stdout.strip().splitlines()[-1]))


def _fidelity(contenders: list[Contender], ids: list[int]) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yields the divergence from the first contender, and the share of positions with the same first choice."""
    reference = None
    with tempfile.TemporaryDirectory(prefix="edgeopt-lm-") as folder:
        for number, each in enumerate(contenders):
            file = Path(folder) / f"{number}.npy"
            if each.program == LLAMA:
                continue
            _run(each, ids, 1, str(file))
            if not file.exists():
                continue
            logs = _log_softmax(np.load(file).astype(np.float64))
            reference = logs if reference is None else reference
            divergence = float((np.exp(reference) * (reference - logs)).sum(-1).mean())
            yield each.name, (divergence, float((reference.argmax(-1) == logs.argmax(-1)).mean()))


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def _row(
    name: str, rounds: dict[str, list[Figures | None]], first: str, fidelity: dict[str, tuple[float, float]]
) -> str:
    known = [each for each in rounds[name] if each is not None]
    if not known:
        return f"| {name} | fails | | | | | |"
    pairs = zip(rounds[name], rounds[first], strict=True)
    ratios = [mine.tokens_per_s / other.tokens_per_s for mine, other in pairs if mine and other]
    figures = Figures(*(statistics.median(column) for column in zip(*known, strict=True)))
    shown = "{:.4f} | {:.3f}".format(*fidelity[name]) if name in fidelity else "- | -"
    spread = f"{statistics.median(ratios):.2f}x [{min(ratios):.2f} {max(ratios):.2f}]" if ratios else "-"
    return (
        f"| {name} | {figures.first_token_ms:.0f} ms | {figures.tokens_per_s:.1f} | {spread} "
        f"| {figures.peak_mib:.0f} MiB | {shown} |"
    )


if __name__ == "__main__":
    main()
