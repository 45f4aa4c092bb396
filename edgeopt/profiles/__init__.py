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
    SCHEMA,
    AcceleratorNeed,
    BackendOrder,
    Data,
    Graph,
    Match,
    Precision,
    Quantization,
    Search,
    TargetProfile,
    Value,
)
from edgeopt.profiles.words import (
    ARCHITECTURES,
    AUTO,
    INTEGER_TYPES,
    PLANNED_BACKENDS,
    VARIANTS,
)

__all__ = [
    "ARCHITECTURES",
    "AUTO",
    "INTEGER_TYPES",
    "PLANNED_BACKENDS",
    "SCHEMA",
    "VARIANTS",
    "AcceleratorNeed",
    "BackendOrder",
    "Data",
    "Graph",
    "Match",
    "Precision",
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
