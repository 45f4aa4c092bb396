"""What a model is made of, what it costs to run, and what could be done about it; nothing here runs it."""

from edgeopt.graph.analysis.categories import OperatorType, operator_type
from edgeopt.graph.analysis.given import Given
from edgeopt.graph.analysis.records import (
    LARGEST,
    Analysis,
    CategoryRow,
    Cost,
    CoverageRow,
    DeploymentRow,
    Dimension,
    FileRow,
    NodeRow,
    OperatorRow,
    Opportunity,
    OpTimeRow,
    OpTimes,
    ProvedOutput,
    Tensor,
    WeightRow,
    WeightsSummary,
    Work,
)
from edgeopt.graph.analysis.sums import category_rows, operator_rows

__all__ = [
    "LARGEST",
    "Analysis",
    "CategoryRow",
    "Cost",
    "CoverageRow",
    "DeploymentRow",
    "Dimension",
    "FileRow",
    "Given",
    "NodeRow",
    "OpTimeRow",
    "OpTimes",
    "OperatorRow",
    "OperatorType",
    "Opportunity",
    "ProvedOutput",
    "Tensor",
    "WeightRow",
    "WeightsSummary",
    "Work",
    "category_rows",
    "operator_rows",
    "operator_type",
]
