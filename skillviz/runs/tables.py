"""The tables of a run folder: every column with its dtype, unit and meaning, declared once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.generation import (
    LOG_LIKELIHOOD,
    MINUS_TOKENS,
    REFERENCE,
    generated_scores,
    has_matches,
    is_generated,
)
from skillviz.core.metrics import SCORED
from skillviz.core.nulls import NULLS as NULL_KINDS

LOGIT = "logit_"


@dataclass(frozen=True)
class Column:
    """One column. `dtype` is pandas' name for it; `nullable` columns may hold missing values."""

    name: str
    dtype: str
    unit: str
    meaning: str
    nullable: bool = False


@dataclass(frozen=True)
class Table:
    """One table; with `logits`, columns `logit_<class>` (float32) follow, or `GENERATED` for references."""

    name: str
    columns: tuple[Column, ...]
    logits: bool = False

    @property
    def file(self) -> str:
        """The table's file in the run folder."""
        return f"{self.name}.parquet"


LOCALIZER = Column("localizer", "str", "", "the localizer's name")
DATASET = Column("dataset", "str", "", "the data set the values were taken on")
SPLIT = Column("split", "str", "", "validation or test")
METRIC = Column("metric", "str", "", f"{', '.join(SCORED)}, agreement or recovered")
ESTIMATE = (
    Column("value", "float64", "the metric's", "the estimate", nullable=True),
    Column(
        "debiased", "float64", "the metric's", "a calibration error without its bias, within the ends", nullable=True
    ),
    Column("low", "float64", "the metric's", "lower end of its 95% interval", nullable=True),
    Column("high", "float64", "the metric's", "upper end of its 95% interval", nullable=True),
)

EXACT_MATCH, LIKELIHOOD, TOKENS, TEXT = "exact_match", "log_likelihood", "tokens", "generated"
GENERATED = (
    Column(EXACT_MATCH, "bool", "", "whether the generated text equals the reference, compared as the task says"),
    Column(LIKELIHOOD, "float32", "nats", "of the whole reference after the prompt"),
    Column(TOKENS, "int64", "tokens", "of the reference, the one that ends it included"),
    Column(TEXT, "str", "", "the text that the model generated greedily, without the space around it"),
)
"""The columns for references.

`exact_match` and `generated` are missing if nothing is generated; `generated` is also missing for the parts of a
region.
"""
EXAMPLE = Column("example_id", "str", "", "<split>-<row in the source file>")
LABEL = Column("label", "int64", "class number", "the true class, counted from 0")
PREDICTIONS = Table(
    "predictions",
    (EXAMPLE, DATASET, SPLIT, Column("state", "str", "", "pretrained, finetuned, grafted or complement"), LABEL),
    logits=True,
)
ENDS = replace(PREDICTIONS, name="ends")
"""The same columns for the states pretrained and finetuned. Runs of one pair on the same examples have equal files."""
SIZES = Table(
    "sizes",
    (EXAMPLE, DATASET, SPLIT, Column("size", "int64", "entries", "entries of the region, not the main size"), LABEL),
    logits=True,
)
"""Predictions of the grafts at the other sizes of the run; those at its main size are in `predictions`."""
NULLS = Table(
    "nulls",
    (
        EXAMPLE,
        DATASET,
        SPLIT,
        Column("null", "str", "", f"the kind of null movement that was searched: {', '.join(NULL_KINDS)}"),
        Column("draw", "int64", "", "its draw, counted from 0"),
        LABEL,
    ),
    logits=True,
)
"""Predictions of the grafts of null searches at the main size."""
OUT_OF_SCOPE = Table(
    "out_of_scope",
    (EXAMPLE, Column("state", "str", "", "pretrained, finetuned or grafted")),
    logits=True,
)
"""Predictions for texts that fit no class, if the task names a file of such texts."""
CURVE = Table(
    "curve",
    (
        LOCALIZER,
        Column("seed", "int64", "", "the localizer's seed"),
        Column("size", "int64", "entries", "entries of the region"),
        Column("share", "float64", "of d", "size / d"),
        Column(
            "gain", "float64", "", "the region's values are base + gain x movement; missing for a gain by kind", True
        ),
        DATASET,
        SPLIT,
        METRIC,
        *ESTIMATE,
    ),
)
COMPLEMENT = replace(CURVE, name="complement")
"""The same columns for the fine-tuned model with the region at the base; `recovered` is the share of the gain left."""
HISTORY = Table(
    "history",
    (
        LOCALIZER,
        Column("target", "int64", "entries", "the requested size of this search"),
        Column("step", "int64", "", "step of the search, counted from 1"),
        Column("loss", "float64", "nats", "training loss at the step's graft", nullable=True),
        Column("size", "int64", "entries", "entries of the region after the step"),
        Column("added", "int64", "entries", "entries switched on in the step"),
        Column("removed", "int64", "entries", "entries switched off in the step"),
        Column("seconds", "float64", "s", "wall time since the search began"),
    ),
)
LAYERS = Table(
    "layers",
    (
        Column("parameter", "str", "", "the parameter's name"),
        Column("layer", "Int64", "", "block, counted from 0; missing outside the blocks", nullable=True),
        Column("kind", "str", "", "module kind; the parts of a fused tensor have a row each"),
        Column("is_bias", "bool", "", "whether it is a bias"),
        Column("rows", "int64", "", "rows of the part (a vector is one row)"),
        Column("cols", "int64", "", "columns of the part"),
        Column("selected", "int64", "entries", "entries in the region"),
        Column("total", "int64", "entries", "entries of the part"),
        Column("movement_l2", "float64", "weight", "norm of fine-tuned - base"),
        Column("movement_max", "float64", "weight", "largest |fine-tuned - base|"),
        Column("movement_mean", "float64", "weight", "mean |fine-tuned - base|"),
        Column("movement_l2_selected", "float64", "weight", "norm of fine-tuned - base over the region's entries"),
    ),
)
POINT = (
    Column("path", "str", "", "wise-ft or wise-graft"),
    Column("size", "Int64", "entries", "first entries of the ranking that move; missing for wise-ft", nullable=True),
    Column("alpha", "float64", "", "0 is the base, 1 the fine-tuned model or the graft"),
    DATASET,
)
INTERPOLATION = Table(
    "interpolation",
    (
        *POINT,
        Column("metric", "str", "", "as elsewhere; <metric>_difference is paired: the point - the fine-tuned model"),
        *ESTIMATE,
    ),
)
INTERPOLATION_BINS = Table(
    "interpolation_bins",
    (
        *POINT,
        Column("bin", "int64", "", "confidence bin 0..14, 15 of equal width, (lower, upper]"),
        Column("count", "int64", "examples", "examples in the bin"),
        Column("correct", "int64", "examples", "of these, rightly predicted"),
        Column("confidence", "float64", "", "their mean confidence; missing in an empty bin", nullable=True),
    ),
)
PARTS = Table(
    "parts",
    (
        Column("layer", "Int64", "", "block of the part, counted from 0; missing outside the blocks", nullable=True),
        Column("kind", "str", "", "module kind, bias, expert; empty for a head; how another region was found"),
        Column("head", "Int64", "", "head or expert, from 0; missing for a cell; of a region, from 1", nullable=True),
        Column("size", "int64", "entries", "entries of the part; those of what is grafted, for pretrained and grafted"),
        Column("condition", "str", "", "alone, without; pretrained, grafted (whole); region, control (of another)"),
        Column("draw", "int64", "", "0 for the part itself, from 1 on a random control in its place"),
        EXAMPLE,
        LABEL,
    ),
    logits=True,
)
"""The results of each part of a region, stored beside the runs of a store, not in a run's folder (runs.part_scores)."""
TABLES = {
    t.name: t
    for t in (
        PREDICTIONS, ENDS, SIZES, NULLS, OUT_OF_SCOPE, CURVE, COMPLEMENT, HISTORY, LAYERS, INTERPOLATION,
        INTERPOLATION_BINS, PARTS,
    )
}  # fmt: skip


def empty(name: str, labels: Sequence[str] = ()) -> pd.DataFrame:
    """Return a frame without rows that has the table's columns and dtypes."""
    columns = {c.name: pd.Series(dtype=c.dtype) for c in _columns(TABLES[name], labels)}
    return pd.DataFrame(columns)


def check(frame: pd.DataFrame, name: str, labels: Sequence[str] = ()) -> pd.DataFrame:
    """Return a new frame with the table's columns in their order and dtypes.

    Raises ValueError if a column is missing or unknown, or holds values that do not fit its dtype.
    """
    table = TABLES[name]
    if table.logits and LIKELIHOOD in frame.columns:
        optional = {EXACT_MATCH, TEXT} if EXACT_MATCH not in frame.columns else {TEXT} if table is PARTS else set()
        columns = [column for column in GENERATED if column.name not in optional]
        table = replace(table, columns=(*table.columns, *columns), logits=False)
    stored = [str(n).removeprefix(LOGIT) for n in frame.columns if str(n).startswith(LOGIT)]
    wanted = _columns(table, labels or stored)
    names = [c.name for c in wanted]
    missing = [n for n in names if n not in frame.columns]
    unknown = [str(n) for n in frame.columns if n not in names]
    if missing or unknown:
        raise ValueError(f"{table.file}: missing columns {missing}, unknown columns {unknown}.")
    return pd.DataFrame({c.name: typed(frame[c.name], c, table.file) for c in wanted})


def score_matrix(rows: pd.DataFrame, labels: Sequence[str]) -> np.ndarray:
    """Return the logits [n, label] of rows of predictions; for references, their scores [n, 4] (core.generation)."""
    if LIKELIHOOD in rows.columns:
        exact_match = rows[EXACT_MATCH].to_numpy() if EXACT_MATCH in rows.columns else None
        return np.asarray(generated_scores(exact_match, rows[LIKELIHOOD].to_numpy(), rows[TOKENS].to_numpy()))
    return rows[logit_columns(labels)].to_numpy()


def score_columns(values: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """Return the columns for these logits or scores, including the generated texts if the scores have them."""
    if not is_generated(values, labels):
        return dict(zip(logit_columns(labels), values.T, strict=True))
    z, texts = np.asarray(values), list(getattr(values, "texts", ()))
    columns: dict[str, Any] = {EXACT_MATCH: z[:, REFERENCE] == 1} if has_matches(z) else {}
    columns |= {LIKELIHOOD: z[:, LOG_LIKELIHOOD], TOKENS: (-z[:, MINUS_TOKENS]).astype(np.int64)}
    return columns | ({TEXT: texts} if EXACT_MATCH in columns and len(texts) == len(z) else {})


def logit_columns(labels: Sequence[str]) -> list[str]:
    """Return the names of the logit columns, in the order of the labels."""
    return [LOGIT + label for label in labels]


def encoding(frame: pd.DataFrame) -> dict[str, Any]:
    """Return Parquet options for the frame: compressed, with bytes of floats by position, which saves a third."""
    split = [str(name) for name in frame.columns if frame[name].dtype.kind == "f"]
    words = [str(name) for name in frame.columns if name not in split]
    return {"compression": "zstd", "compression_level": 19, "use_dictionary": words, "use_byte_stream_split": split}


def _columns(table: Table, labels: Sequence[str]) -> tuple[Column, ...]:
    if not table.logits:
        return table.columns
    logits = (Column(n, "float32", "nats", "the class's score") for n in logit_columns(labels))
    return (*table.columns, *logits)


def typed(values: pd.Series, column: Column, table: str) -> pd.Series:
    """Return the values in the column's dtype; raises ValueError, with the table's name, if they do not fit it."""
    if not column.nullable and values.isna().any():
        raise ValueError(f"{table}: column '{column.name}' has missing values.")
    try:
        converted = values.astype(pd.api.types.pandas_dtype(column.dtype))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{table}: column '{column.name}' is not {column.dtype} ({error}).") from error
    if column.dtype == "int64" and values.dtype.kind == "f" and not np.array_equal(converted, values):
        raise ValueError(f"{table}: column '{column.name}' has fractions.")
    return converted.reset_index(drop=True)
