"""A matrix as a linear operator in its best format, and the advice that chooses the format."""

from __future__ import annotations

from spmvbench.operators.format_choice import Choice
from spmvbench.operators.linear_operator import Operator, operator
from spmvbench.operators.recommendation import Recommendation, advise

__all__ = ["Choice", "Operator", "Recommendation", "advise", "operator"]
