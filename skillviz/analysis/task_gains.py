"""Rows of the table `gain`: the gain of each task from the regions of some tasks."""

from __future__ import annotations

import pandas as pd


def of_its_own_task(gain: pd.DataFrame) -> pd.Series:
    """True for each row whose region is its task's alone, bool."""
    pairs = zip(gain["region_tasks"], gain["task"], strict=True)
    return pd.Series([tasks == (task,) for tasks, task in pairs], index=gain.index, dtype=bool)


def is_inside(gain: pd.DataFrame) -> pd.Series:
    """True for each row whose region includes its task's, alone or with others, bool."""
    pairs = zip(gain["region_tasks"], gain["task"], strict=True)
    return pd.Series([task in tasks for tasks, task in pairs], index=gain.index, dtype=bool)
