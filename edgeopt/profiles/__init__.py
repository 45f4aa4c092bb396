"""Profiles: TOML files that say how to optimize for one class of devices; strict, and extendable."""

from edgeopt.profiles.load import (
    Resolved,
    load_profile,
    profiles_folder,
    resolve,
    shipped_path,
    shipped_profiles,
    shipped_uses,
)
from edgeopt.profiles.schema import (
    AUTO,
    PLANNED_BACKENDS,
    VARIANTS,
    Data,
    Match,
    Quantization,
    Search,
    TargetProfile,
    Value,
)

__all__ = [
    "AUTO",
    "PLANNED_BACKENDS",
    "VARIANTS",
    "Data",
    "Match",
    "Quantization",
    "Resolved",
    "Search",
    "TargetProfile",
    "Value",
    "load_profile",
    "profiles_folder",
    "resolve",
    "shipped_path",
    "shipped_profiles",
    "shipped_uses",
]
