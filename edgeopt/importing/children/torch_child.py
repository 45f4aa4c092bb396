"""Exporter of PyTorch modules, exported programs and TorchScript, with torch.onnx."""

from __future__ import annotations

import ast
import copy
import importlib
import importlib.util
import inspect
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from edgeopt.importing.children.child import Feeds, Input, Job

NEEDS = (("torch", "torch"), ("onnx", "onnx"), ("onnxscript", "onnxscript"))
LAYER_BYTES = 256 << 20
"""Limit in bytes of the layers' outputs that are kept for the comparison."""
COPIED_BYTES = 1 << 30
AGAIN = "Save it again with torch.export.save or torch.jit.save."


def _beside(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - it is beside this one
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


torch_facts = _beside("torch_facts")


class Original:
    """Module, the inputs of its call, and its exported program if it came as one."""

    def __init__(self, module: Any, example: Any = None, program: Any = None) -> None:
        self.module, self.example, self.program = module, example, program
        self.fresh: Any = None
        """Copy that was never called, to run other samples first; None if it cannot be copied."""


def version() -> str:
    import torch

    return f"torch {torch.__version__}"


def check(job: Job) -> None:
    """Refuses code that no torch can open: missing or misspelt parts of it are reported before it runs."""
    if job.kind != "torch":
        return
    if not job.place.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        if importlib.util.find_spec(job.place.partition(".")[0]) is None:
            _no_module(job)
        return
    text, file = Path(job.place).read_bytes(), Path(job.place).name
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
        job.refuse("bad-input", f"'{file}' has an error{line}: {job.reason(error)}.", "Correct the file.")
    name = job.name.partition(".")[0].encode()
    if not any(word in text for word in (name, b"import *", b"globals(", b"exec(")):
        _no_name(job, file, [each.name for each in tree.body if isinstance(each, ast.ClassDef | ast.FunctionDef)])


def _no_module(job: Job) -> NoReturn:
    job.refuse("bad-input", f"There is no module '{job.place}'.", "Check the name and PYTHONPATH.")


def _no_name(job: Job, file: str, there: Iterable[str]) -> NoReturn:
    job.refuse("bad-input", f"'{file}' has no '{job.name}'.", f"It has: {', '.join(there) or 'no module'}.")


def load(job: Job) -> Original:
    import torch

    set_up(job)
    if job.kind == "torch":
        return _from_code(job)
    try:
        if job.kind == "torch-program":
            program = torch.export.load(job.place)
            return Original(program.module(), program.example_inputs, program)
        module = torch.jit.load(job.place, map_location="cpu")
    except Exception as error:
        hint = "A state dict or a pickled module needs the module's class: give file.py:NAME."
        job.refuse("bad-model", f"torch cannot load it: {job.reason(error)}.", f"{AGAIN} {hint}")
    return Original(_evaluating(module, job))


def set_up(job: Job) -> None:
    import torch

    torch.manual_seed(0)
    if job.threads:
        torch.set_num_threads(job.threads)


def compile_module(original: Original, job: Job) -> None:
    import torch

    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(job.folder / "inductor"))  # of all processes of a side
    original.module = torch.compile(original.module)


def mode(original: Original, job: Job) -> str:
    import torch

    scripted = isinstance(original.module, torch.jit.ScriptModule)
    return "torch.compile" if job.compiles else "TorchScript" if scripted else "eager"


def _from_code(job: Job) -> Original:
    import torch

    path = Path(job.place)
    if job.place.endswith(".py"):
        sys.path.insert(0, str(path.resolve().parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - it ends in .py
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    else:
        try:
            module = importlib.import_module(job.place)
        except ModuleNotFoundError as error:
            if not f"{job.place}.".startswith(f"{error.name}."):
                raise
            _no_module(job)
    found: Any = module
    for name in job.name.split("."):
        if not hasattr(found, name):
            _no_name(job, path.name, [n for n, v in vars(found).items() if _is_ours(v, module)])
        found = getattr(found, name)
    example = None
    if not isinstance(found, torch.nn.Module) and callable(found):
        needed = [
            p.name for p in inspect.signature(found).parameters.values() if p.default is p.empty and p.kind < 2
        ]
        if needed:
            job.refuse(
                "bad-input",
                f"'{job.name}' needs arguments: {', '.join(needed)}.",
                "Write a function without arguments that returns the module, and name that.",
            )
        found = found()
    if isinstance(found, tuple) and len(found) == 2:
        found, example = found
    if not isinstance(found, torch.nn.Module):
        job.refuse(
            "bad-input",
            f"'{job.name}' is of type {type(found).__name__}, not a torch.nn.Module.",
            "Name a module, its class, or a function that returns it (or it and example inputs).",
        )
    original = Original(_evaluating(found, job), _named(found, example, job))
    if job.exports and sum(each.nbytes for each in found.parameters()) <= COPIED_BYTES:
        with suppress(Exception):  # some cannot be copied
            original.fresh = copy.deepcopy(found)
    return original


def _is_ours(value: Any, module: Any) -> bool:
    import torch

    return isinstance(value, torch.nn.Module) or getattr(value, "__module__", "") == module.__name__


def _evaluating(module: Any, job: Job) -> Any:
    """Puts the module in eval mode and notes what that changes; returns the module."""
    training = [name or type(module).__name__ for name, part in module.named_modules() if part.training]
    differing = ("Dropout", "BatchNorm", "InstanceNorm")
    kinds = {name: getattr(part, "original_name", type(part).__name__) for name, part in module.named_modules()}
    changed = [f"{name} ({kinds[name]})" for name in training if kinds.get(name, "").startswith(differing)]
    module.eval()
    if job.exports:
        _leave_fast_path(module, job)
    if changed:
        more = f" and {len(changed) - 4} more" if len(changed) > 4 else ""
        names = ", ".join(changed[:4]) + more
        job.notes.append(f"The module was in train mode. It is {job.done} in eval mode, which changes {names}.")
    return module


def _leave_fast_path(module: Any, job: Job) -> None:
    """Disables the fast path that answers 0 at padding: encoders with nested tensors run as they are exported."""
    import torch

    nested = [name for name, part in module.named_modules() if getattr(part, "use_nested_tensor", False)]
    switch = getattr(getattr(torch.backends, "mha", None), "set_fastpath_enabled", None)
    if nested and switch is not None:
        switch(False)
        job.notes.append(
            f"'{nested[0] or type(module).__name__}' (TransformerEncoder) ran without its fast path, "
            "which answers 0 at padded positions; the ONNX model does not."
        )


def _parameters(module: Any) -> dict[str, bool]:
    """Returns the names of the parameters of `forward`, and whether each is required."""
    schema = getattr(module.forward, "schema", None)
    if schema is not None:
        return {each.name: not each.has_default_value() for each in schema.arguments if each.name != "self"}
    parameters = inspect.signature(module.forward).parameters.values()
    return {
        each.name: each.default is each.empty
        for each in parameters
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    }


def _named(module: Any, example: Any, job: Job) -> dict[str, Any] | None:
    """Returns the example inputs by name, whether they came as a tensor, a tuple or a dict."""
    example = getattr(module, "example_input_array", None) if example is None else example
    if example is None:
        return None
    if not isinstance(example, Mapping):
        values = example if isinstance(example, (tuple, list)) else (example,)
        example = dict(zip(_parameters(module), values))
    if not all(hasattr(value, "detach") for value in example.values()):
        job.refuse("bad-input", "The example inputs are not all tensors.", "Give one tensor for each input.")
    return dict(example)


def inputs(original: Original, job: Job) -> list[Input]:
    if original.program is not None:
        return _of_program(original, job)
    example = {name: _array(value) for name, value in (original.example or {}).items()}
    data = job.data or {}
    known = _parameters(original.module)
    names = [name for name, required in known.items() if required or name in {**example, **data, **job.shapes}]
    found = []
    for name in names:
        shape = job.shapes.get(name)
        only = len(data) == len(names) == 1
        sample = data.get(name, next(iter(data.values())) if only else None)
        if name in example:
            array = example[name]
            if shape is not None and list(shape) != list(array.shape):
                found.append(job.Input(name, str(array.dtype), shape))
            else:
                found.append(job.Input(name, str(array.dtype), example=array))
        elif sample is not None:
            dtype = _float_type(original.module) if sample.dtype.kind == "f" else str(sample.dtype)
            found.append(job.Input(name, dtype, shape))
        elif shape is not None or data:
            found.append(job.Input(name, _float_type(original.module), shape))
        else:
            job.refuse(
                "usage",
                f"The shape of the input '{name}' is not known.",
                f"Pass --data, --shape {name}=1x3x224x224, or name a function that returns (module, inputs).",
            )
    return found


def _of_program(original: Original, job: Job) -> list[Input]:
    """Returns the inputs of an exported program, with the dimensions that it leaves open."""
    args, kwargs = original.example or ((), {})
    names = list(original.program.graph_signature.user_inputs)
    values = {node.name: node.meta["val"] for node in original.program.graph.nodes if node.op == "placeholder"}
    ranges = {str(symbol): each for symbol, each in original.program.range_constraints.items()}
    if job.axes:
        job.refuse("usage", "An exported program has its open dimensions already.", "Leave out --dynamic.")
    for name in names:
        for axis, size in enumerate(values[name].shape):
            if not isinstance(size, int):
                job.dims.setdefault(name, {})[axis] = str(size)
                if str(size) in ranges:
                    low, high = ranges[str(size)].lower, ranges[str(size)].upper
                    job.ranges[str(size)] = (max(1, int(low)), int(high) if high < 2**31 else sys.maxsize)
    example = dict(zip(names, (*args, *kwargs.values())))
    original.example = list(kwargs)
    return [job.Input(name, str(_array(value).dtype), example=_array(value)) for name, value in example.items()]


def _float_type(module: Any) -> str:
    kind = next((str(p.dtype) for p in module.parameters() if p.is_floating_point()), "torch.float32")
    return kind.replace("torch.", "").replace("bfloat16", "float32")


def _array(value: Any) -> Any:
    import torch

    value = value.detach().cpu()
    return (value.float() if value.dtype is torch.bfloat16 else value).numpy()


def _call(original: Original, feeds: Feeds) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a call: by name for a module, otherwise in the order of the program or script."""
    import torch

    tensors = {name: torch.from_numpy(np.array(array)) for name, array in feeds.items()}
    if original.program is not None:
        count = len(tensors) - len(original.example)
        values = list(tensors.values())
        return tuple(values[:count]), dict(zip(original.example, values[count:]))
    if isinstance(original.module, torch.jit.ScriptModule):
        return tuple(tensors.values()), {}
    return (), tensors


def run(original: Original, feeds: Feeds, job: Job) -> Feeds:
    return {name: _array(value) for name, value in _flat(caller(original, feeds, job)())}


def caller(original: Original, feeds: Feeds, job: Job) -> Callable[[], Any]:
    """Returns a call of the module with tensors."""
    import torch

    args, kwargs = _call(original, feeds)
    mode = torch.no_grad if job.exports else torch.inference_mode

    def call() -> Any:
        with mode():
            return original.module(*args, **kwargs)

    return call


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the tensors of an answer in order, with a name for each: its key, or its place."""
    if hasattr(value, "detach"):
        yield name or "output", value
        return
    pairs: Any = ()
    if isinstance(value, Mapping):
        pairs = value.items()
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        pairs = zip(value._fields, value)
    elif isinstance(value, (tuple, list)):
        pairs = ((f"output_{k}" if not name else str(k), each) for k, each in enumerate(value))
    for key, each in pairs:
        yield from _flat(each, f"{name}_{key}" if name else str(key))


def unsteady(original: Original, feeds: Feeds, job: Job) -> tuple[str, str]:
    """Returns the cause of unsteady outputs and a hint: the buffer that changes, or random numbers."""
    before = {name: _array(each).copy() for name, each in original.module.named_buffers()}
    run(original, feeds, job)
    for name, each in original.module.named_buffers():
        if not np.array_equal(before[name], _array(each)):
            return f"each call changes the state '{name}' in place", "Make the state an input and an output."
    return (
        "dropout or another random operation is active in it",
        "Pass training=self.training to functional dropout, and call .eval() before saving or exporting.",
    )


def impure(original: Original, samples: list[Feeds], job: Job) -> tuple[str, str] | None:
    """Returns why an answer depends on more than the inputs of its call, and what to do about it."""
    import torch

    (args, kwargs), before = _call(original, samples[0]), torch_facts.state(original.module)
    with torch.no_grad():
        original.module(*args, **kwargs)
    after = torch_facts.state(original.module)
    for name, value, fed in zip(samples[0], (*args, *kwargs.values()), samples[0].values()):
        if not np.array_equal(_array(value), fed, equal_nan=value.is_floating_point()):
            job.notes.append(
                f"The original overwrites its input '{name}'; the ONNX model leaves inputs as they are."
            )
    expected, clock = run(original, samples[0], job), time.time
    for name in before.keys() | after.keys():
        if before.get(name) != after.get(name):
            return f"each call changes the state '{name}' in place", "Make the state an input and an output."
    time.time = lambda: clock() + 3600
    try:
        found = run(original, samples[0], job)
    finally:
        time.time = clock
    for name, array in expected.items():
        if not torch_facts.agrees(array, found[name]):
            return f"its output '{name}' depends on the time of day", "Make the time an input."
    if original.fresh is None:
        return None
    for sample in samples[1:2] + samples[-1:]:
        expected = run(original, sample, job)
        found = run(Original(copy.deepcopy(original.fresh)), sample, job)
        for name, array in expected.items():
            if not torch_facts.agrees(array, found[name]):
                return (
                    f"its output '{name}' depends on the inputs of the first call",
                    "Do not keep what is computed from the inputs of a call.",
                )
    return None


def export(original: Original, example: Feeds, outputs: list[str], job: Job) -> str:
    """Exports by torch.export; by the older exporter for TorchScript, and where the newer one fails."""
    import torch

    path = str(job.folder / "exported.onnx")
    args, kwargs = _call(original, example)
    if not isinstance(original.module, torch.jit.ScriptModule):
        dims = {name: dict(job.dims.get(name, {})) for name in example}
        try:
            with quiet(), torch_facts.decisions() as decisions:
                exported = (
                    torch.onnx.export(original.program, output_names=outputs, opset_version=job.opset, dynamo=True)
                    if original.program is not None
                    else torch.onnx.export(
                        original.module, (), kwargs=kwargs, input_names=list(example), output_names=outputs,
                        opset_version=job.opset, dynamo=True, dynamic_shapes=dims if job.dims else None,
                    )
                )  # fmt: skip
                exported.save(path)
        except Exception as error:
            exporter_error = job.reason(error)
            # The older exporter keeps the branch that the example takes.
            if exporter_error.startswith("GuardOnDataDependent") or original.program is not None:
                job.refuse(
                    "bad-model",
                    f"torch.export cannot export it: {exporter_error}.",
                    "Replace branches on values by torch.where or torch.cond.",
                )
            job.notes.append(f"The older exporter wrote the model, because torch.export failed: {exporter_error}.")
        else:
            torch_facts.constrain(exported, list(example), decisions, job)
            return f"torch.onnx {torch.__version__} (dynamo)"
    _export_traced(original, args or tuple(kwargs.values()), list(example), outputs, path, job)
    return f"torch.onnx {torch.__version__} (TorchScript)"


def _export_traced(
    original: Original, args: tuple[Any, ...], names: list[str], outputs: list[str], path: str, job: Job
) -> None:
    import torch

    with warnings.catch_warnings(record=True) as caught, quiet():
        warnings.simplefilter("always")
        torch.onnx.export(
            original.module, args, path, input_names=names, output_names=outputs, opset_version=job.opset,
            dynamic_axes=job.dims or None, dynamo=False,
        )  # fmt: skip
    traced = next((str(each.message) for each in caught if "TracerWarning" in each.category.__name__), "")
    if traced:
        job.refuse(
            "bad-model",
            f"The module cannot be exported for all inputs: {traced.splitlines()[0][:200]}",
            "Replace branches on values by torch.where or torch.cond.",
        )


@contextmanager
def quiet() -> Iterator[None]:
    import logging

    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def layers(original: Original, feeds: Feeds, job: Job) -> dict[str, tuple[str, Any]]:
    """Returns the output of each innermost module, in call order, without those that are called twice."""
    import torch

    found: dict[str, tuple[str, Any]] = {}
    twice, left, hooks = set(), [LAYER_BYTES], []

    def watch(name: str, kind: str) -> Any:
        def keep(_module: Any, _inputs: Any, output: Any) -> None:
            if name in found:
                twice.add(name)
                return
            with suppress(Exception):  # sparse and nested tensors; a name is not worth a failure
                if isinstance(output, torch.Tensor) and output.nbytes <= left[0]:
                    left[0] -= output.nbytes
                    found[name] = (kind, _array(output).copy())

        return keep

    if isinstance(original.module, torch.jit.ScriptModule) or original.program is not None:
        return {}  # neither calls hooks
    for name, part in original.module.named_modules():
        if name and not any(True for _ in part.children()):
            hooks.append(part.register_forward_hook(watch(name, type(part).__name__)))
    try:
        run(original, feeds, job)
    except Exception:
        return {}  # some modules take another path when they are watched
    finally:
        for hook in hooks:
            hook.remove()
    return {name: each for name, each in found.items() if name not in twice}
