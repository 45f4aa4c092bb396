"""Names and times as this page shortens them."""

import re


def short_title(title: str) -> str:
    """Returns the part of a title before the first punctuation mark."""
    return re.split("[:;,]", title, maxsplit=1)[0]


def short_name(candidate: str) -> str:
    """Returns a candidate's name with the longest name of an option shortened."""
    return candidate.replace("dynamic_quantization_group_size", "group")
