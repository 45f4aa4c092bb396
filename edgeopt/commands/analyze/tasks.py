"""The tasks of the workers of `edgeopt analyze`; see `messages`."""

from pathlib import Path

from edgeopt.commands.analyze.messages import Cover, Covered, RealShapes, Rewrites, Rewritten, Seen


def find_rewrites(request: Rewrites) -> Rewritten:
    from edgeopt.commands.analyze.dry_run import dry_run

    return dry_run(Path(request.model_path), request.limit_s)


def find_real_shapes(request: RealShapes) -> Seen:
    from edgeopt.backends.onnxruntime.profile import real_shapes
    from edgeopt.commands.analyze.inputs import feeds_for

    path = Path(request.model_path)
    data = Path(request.data_path) if request.data_path else None
    feeds = feeds_for(path, data, request.shapes, pictures=request.pictures)
    shapes = real_shapes(path, feeds)
    # What was made up for an input is no more real than what the analysis assumes.
    return Seen({name: shape for name, shape in shapes.items() if data is not None or name not in feeds})


def cover(request: Cover) -> Covered:
    from edgeopt.backends import backend_named
    from edgeopt.backends.base import Available

    backend, path = backend_named(request.backend), Path(request.model_path)
    state = backend.available()
    if not isinstance(state, Available):
        return Covered("", 0, 0, unavailable=state.reason)
    found = backend.supports(path)
    return Covered(
        state.version, found.supported, found.total, found.unsupported, _boundaries(path, found.unsupported)
    )


def _boundaries(path: Path, unsupported: tuple[str, ...]) -> int | None:
    """Counts how often data goes to a node that runs elsewhere and back; None if the file does not tell."""
    if not unsupported:
        return 0
    if path.suffix != ".onnx":
        return None
    from edgeopt.backends.onnxruntime.session import boundaries, file_nodes

    elsewhere = set(unsupported)
    nodes = file_nodes(path)
    if not any(f"{node.operator}: {node.name}" in elsewhere for node in nodes):
        return None  # they are named as the runtime's own conversion calls them
    sides = [
        ("elsewhere" if f"{node.operator}: {node.name}" in elsewhere else "here", node.name, node.operator)
        for node in nodes
    ]
    return boundaries(nodes, sides)
