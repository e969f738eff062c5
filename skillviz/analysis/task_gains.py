"""Rows of the table `gain`: what the regions of some tasks give to each task."""

from __future__ import annotations

import pandas as pd


def of_its_own_task(gain: pd.DataFrame) -> pd.Series:
    """Whether each row is of the region of its task alone, bool."""
    pairs = zip(gain["region_tasks"], gain["task"], strict=True)
    return pd.Series([tasks == (task,) for tasks, task in pairs], index=gain.index, dtype=bool)


def is_inside(gain: pd.DataFrame) -> pd.Series:
    """Whether each row's region is of its task, alone or with others, bool."""
    pairs = zip(gain["region_tasks"], gain["task"], strict=True)
    return pd.Series([task in tasks for tasks, task in pairs], index=gain.index, dtype=bool)
