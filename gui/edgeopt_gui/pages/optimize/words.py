"""Names and times as this page shortens them."""

import re


def seconds_left(value: float | None) -> str:
    if value is None or value < 1:
        return ""
    minutes, seconds = divmod(round(value), 60)
    return f"at most {minutes} min {seconds:02} s left" if minutes else f"at most {seconds} s left"


def short_title(title: str) -> str:
    """The first words of a long one."""
    return re.split("[:;,]", title, maxsplit=1)[0]


def short_name(candidate: str) -> str:
    """A candidate's name without the longest of the options' names."""
    return candidate.replace("dynamic_quantization_group_size", "group")
