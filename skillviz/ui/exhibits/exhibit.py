"""A figure with everything that belongs to it: title, how to read it, words for the blind, table, words explained.

Exhibits are made from tables alone, without Streamlit: a page draws them as cards, a report writes them as HTML.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go


@dataclass(frozen=True)
class Exhibit:
    """`name` is part of file names and keys; `reads` says how to read it, `alt` what it shows to somebody who cannot
    see it; `words` are the glossary's entries that help with it."""

    name: str
    title: str
    figure: go.Figure
    reads: str
    alt: str
    table: pd.DataFrame
    words: tuple[str, ...] = ()
