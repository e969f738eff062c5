"""Figure 10: the same regions as figure 9, told by module kind."""

from skillviz.studies.paper.experiments.figure9 import build, tables

__all__ = ["build", "tables"]
