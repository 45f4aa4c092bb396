"""What libraries return, as data that JSON can hold."""


def plain(value: object) -> object:
    """The value as JSON could hold it, or None where it cannot."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "_asdict"):
        return {str(k): plain(v) for k, v in value._asdict().items()}
    if isinstance(value, set | frozenset):
        return [plain(v) for v in sorted(value)]
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return None
