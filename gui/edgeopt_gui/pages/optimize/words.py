"""Names and times as this page shortens them."""

import re


def short_title(title: str) -> str:
    """The first words of a long one."""
    return re.split("[:;,]", title, maxsplit=1)[0]


def short_name(candidate: str) -> str:
    """A candidate's name without the longest of the options' names."""
    return candidate.replace("dynamic_quantization_group_size", "group")
