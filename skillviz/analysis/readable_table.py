"""A tidy table for reading: columns with titles and units, each estimate and its 95% interval in one cell.

`readable` makes it from a stored table, `as_stored` from any frame whose numbers are not converted; the functions below
write it as Markdown, HTML, LaTeX or tab-separated text. The terminal and the pages draw it themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, NamedTuple

import pandas as pd

from skillviz.analysis.tables import without_tuples
from skillviz.core import formats
from skillviz.core.formats import markdown_table
from skillviz.core.metrics import METRICS, metric_row

Kind = Literal["", "metric", "share", "points", "entries", "examples", "seconds"]
"""The unit of a column: the row's metric (a share if there is none), a share, a difference of shares, ..."""


class Words(NamedTuple):
    """A column's title, and the unit of its numbers."""

    title: str
    kind: Kind = ""


COLUMNS = {
    "id_task": Words("trained on"),
    "setting": Words("training data"),
    "readout": Words("readout"),
    "recipe": Words("fine-tuned by"),
    "variant": Words("variant of the model"),
    "recipe_b": Words("B fine-tuned by"),
    "variant_b": Words("variant of B's model"),
    "search_variant": Words("variant of the search"),
    "base": Words("base model"),
    "share": Words("region size", "share"),
    "size": Words("region size", "entries"),
    "touched": Words("parameters touched", "entries"),
    "selected": Words("selected", "entries"),
    "total": Words("all", "entries"),
    "mean": Words("mean", "metric"),
    "sd": Words("sd over seeds", "metric"),
    "value": Words("value", "metric"),
    "low": Words("low", "metric"),
    "high": Words("high", "metric"),
    "debiased": Words("debiased", "metric"),
    "published": Words("published", "metric"),
    "std": Words("sd", "metric"),
    "change": Words("change since learned", "metric"),
    "value_ft": Words("fine-tuned", "metric"),
    "a": Words("method A"),
    "b": Words("method B"),
    "over": Words("interval over"),
    "holds": Words("holds at FDR 5%"),
    "excess_holds": Words("excess holds at FDR 5%"),
    "gain_share": Words("gain wanted", "share"),
    "reached_on": Words("reached on"),
    "gain": Words("gain recovered", "share"),
    "accuracy": Words("accuracy", "share"),
    "agreement": Words("agreement", "share"),
    "ece": Words("ECE", "share"),
    "ece_ft": Words("ECE, fine-tuned", "share"),
    "ece_ft_scaled": Words("ECE, temperature-scaled", "share"),
    "ece_less_ft": Words("ECE less fine-tuned", "points"),
    "ece_less_scaled": Words("ECE less temperature-scaled", "points"),
    "row_task": Words("row: region of"),
    "row_localizer": Words("row: found by"),
    "column_task": Words("column: region of"),
    "column_localizer": Words("column: found by"),
    "region_tasks": Words("regions of"),
    "chance": Words("by chance", "share"),
    "iou": Words("IoU", "share"),
    "stage_task": Words("trained last"),
    "is_bias": Words("bias"),
    "density_ratio": Words("× the average density"),
    "movement_share": Words("share of movement", "share"),
    "share_if_even": Words("share if spread evenly", "share"),
    "low_edge": Words("from", "share"),
    "high_edge": Words("to", "share"),
    "count": Words("examples in the bin", "examples"),
    "correct": Words("of them right", "examples"),
    "n": Words("examples", "examples"),
    "gained": Words("gained", "examples"),
    "lost": Words("lost", "examples"),
    "change_gained": Words("gained since learned", "examples"),
    "change_lost": Words("lost since learned", "examples"),
    "alpha": Words("α"),
    "source": Words("what differs"),
    "lr": Words("learning rate"),
    "bias": Words("bias of the mask"),
    "batch_size": Words("examples a step"),
    "seconds": Words("seconds", "seconds"),
}
"""The title of a column whose name is not readable, and its kind if its numbers have a unit."""
OF_TABLE = {
    ("differences", "value"): "A less B",
    ("overlap", "seeds"): "mask seeds",
    ("composition", "share"): "share of region",
    ("composition", "seed"): "mask seed",
    ("composition", "variant"): "variant of the run",
    ("sensitivity", "seed"): "mask seed",
    ("histogram", "n"): "examples in all",
    ("recovered", "value"): "graft",
}
"""The title of a column that has another meaning in one table."""
ENDS, CENTRES = ("_low", "_high"), ("mean", "value", "iou")
"""The suffixes of an interval's ends, and the columns whose interval is named just `low` and `high`."""
HIDDEN = ("sd", "touched")
"""Columns less useful than the space they take: only in pipes and files."""
GROUPS, FEW = ("setting", "readout", "recipe", "variant", "id_task", "task", "split"), 3
"""Columns by which rows are grouped if there is little room and a group has a few rows on average."""


def title(column: str, table: str = "") -> str:
    """A column's title without its unit; `table` is the name of a study's table."""
    stem, end = _stem(column)
    known = OF_TABLE.get((table, column)) or (COLUMNS[column].title if column in COLUMNS else "")
    if known or not end:
        return known or column.replace("_", " ")
    return f"{title(stem, table)}, {end}"


def kind(column: str) -> Kind:
    """The unit of a column's numbers."""
    words = COLUMNS.get(column) or COLUMNS.get(_stem(column)[0])
    return words.kind if words else ""


def heading(column: str, table: str = "", *, of_metric: str = "%", is_difference: bool = False) -> str:
    """A column's title with its unit; numbers of the row's metric are in `of_metric`, which may be empty."""
    is_points = is_difference or kind(column) == "points" or _stem(column)[0] == "change"
    unit = of_metric if kind(column) == "metric" else "%" if kind(column) in ("share", "points") else kind(column)
    unit = "points" if unit == "%" and is_points else "" if unit == "examples" else unit
    words = title(column, table)
    return words if not unit or words.endswith(unit) else f"{words}, {unit}"


def stored_heading(column: str, table: str = "") -> str:
    """A column's title with the unit of its stored numbers, in which shares are not percentages."""
    words, unit = title(column, table), kind(column)
    return f"{words}, {unit}" if unit in ("share", "entries", "seconds") and unit not in words else words


def scales(column: str, frame: pd.DataFrame) -> pd.Series:
    """The factor of each row from the stored number to the displayed one."""
    if kind(column) == "metric" and "metric" in frame:
        return frame["metric"].map(lambda name: metric_row(name).scale).astype("float64")
    return pd.Series(100.0 if kind(column) in ("metric", "share", "points") else 1.0, index=frame.index)


def _stem(column: str) -> tuple[str, str]:
    """`value_ft`, `low` for `value_ft_low`; a column that is not an end of an interval has no second part."""
    end = next((end for end in ENDS if column.endswith(end)), "")
    return (column.removesuffix(end), end[1:]) if end else (column, "")


@dataclass(frozen=True)
class ReadableTable:
    """The facts that all rows share, the headings, a flag for each column of numbers, and the cells."""

    shared: str
    names: tuple[str, ...]
    headings: tuple[str, ...]
    is_number: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """The length of each column's longest cell."""
        columns = zip(self.headings, *self.rows, strict=True)
        return tuple(max(map(len, cells)) for cells in columns)

    def parts(self, width: int) -> list[tuple[str, ReadableTable]]:
        """The whole table if it fits into a width; otherwise its rows by task and split, each part under its title."""
        apart = [i for i, name in enumerate(self.names) if name in GROUPS]
        groups = dict.fromkeys(tuple(row[i] for i in apart) for row in self.rows)
        if sum(self.widths) + 2 * len(self.widths) <= width or len(groups) * FEW > len(self.rows):
            return [("", self)]
        return [(", ".join(dict.fromkeys(group)), self._part(apart, group)) for group in groups]

    def _part(self, apart: list[int], group: tuple[str, ...]) -> ReadableTable:
        """The rows of one group, without the columns that define it."""
        columns = [i for i in range(len(self.names)) if i not in apart]
        rows = [row for row in self.rows if tuple(row[i] for i in apart) == group]
        return ReadableTable(
            "",
            tuple(self.names[i] for i in columns),
            tuple(self.headings[i] for i in columns),
            tuple(self.is_number[i] for i in columns),
            tuple(tuple(row[i] for i in columns) for row in rows),
        )


def readable(frame: pd.DataFrame, keep: Sequence[str] = (), table: str = "") -> ReadableTable:
    """The table for reading; `keep` names columns that are shown even if all rows agree.

    Columns without any value are left out; so are HIDDEN, which `shared` lists.
    """
    frame = without_tuples(frame)
    names = _shown(frame)
    same = [n for n in names if n not in keep and _interval(n, frame) is None and kind(n) != "metric"]
    same = [n for n in same if len(frame) > 1 and frame[n].nunique(dropna=False) == 1]
    columns = [n for n in names if n not in same] or same[:1]
    above = [n for n in same if n not in columns]
    cells = {name: _cells(name, frame) for name in {*columns, *above}}
    words = [", ".join(_fact(n, cells[n][0], table) for n in above)] if above else []
    hidden = [title(n, table) for n in HIDDEN if n in frame and frame[n].notna().any()]
    words += [f"not shown: {', '.join(hidden)}"] if hidden else []
    return ReadableTable(
        f"All rows: {'; '.join(words)}." if above else f"{words[0].capitalize()}." if words else "",
        tuple(columns),
        tuple(_heading(name, frame, table) for name in columns),
        tuple(frame[name].dtype.kind in "fiu" for name in columns),
        tuple(zip(*(cells[name] for name in columns), strict=True)),
    )


def as_stored(frame: pd.DataFrame) -> ReadableTable:
    """The frame with its own column names and numbers: thousands separated, four figures, `n/a` for missing values."""
    names = tuple(str(name) for name in frame.columns)
    numbers = tuple(frame.iloc[:, i].dtype.kind in "fiu" for i in range(len(names)))
    rows = tuple(tuple(_four_figures(value) for value in row) for row in frame.itertuples(index=False))
    return ReadableTable("", names, names, numbers, rows)


def _shown(frame: pd.DataFrame) -> list[str]:
    """The columns with values; an estimate's column also includes the ends of its interval."""
    names = [str(name) for name in frame.columns]
    ends = {f"{prefix}{end}" for prefix in names for end in (*ENDS, "_debiased")}
    ends |= {"low", "high", "debiased"} if any(name in frame for name in CENTRES) else set()
    shown = [n for n in names if n not in ends and n not in HIDDEN and not (frame[n].isna() | (frame[n] == "")).all()]
    is_twice = {"id_task", "task"} <= set(shown) and list(frame["id_task"]) == list(frame["task"])
    return [name for name in shown if not (name == "id_task" and is_twice)]


def _interval(name: str, frame: pd.DataFrame) -> tuple[pd.Series, pd.Series] | None:
    """The ends of a column's interval."""
    ends = [f"{name}{end}" for end in ENDS]
    if set(ends) <= set(frame.columns):
        return frame[ends[0]], frame[ends[1]]
    if name not in CENTRES or not {"low", "high"} <= set(frame.columns):
        return None
    return frame["low"], frame["high"]


def _is_of_metric(name: str, frame: pd.DataFrame) -> bool:
    return kind(name) == "metric" and "metric" in frame


def _heading(name: str, frame: pd.DataFrame, table: str) -> str:
    """The heading with the unit, unless each row's metric names it; with `(95%)` if the cells hold intervals."""
    is_estimate = _interval(name, frame) is not None
    words = heading(name, table, of_metric="" if "metric" in frame or not is_estimate else "%")
    return f"{words} (95%)" if is_estimate else words


def _fact(name: str, cell: str, table: str) -> str:
    """A fact that all rows share, such as `region size 0.1%`."""
    unit = heading(name, table).removeprefix(title(name, table)).removeprefix(", ") if kind(name) != "metric" else ""
    return f"{title(name, table)} {cell} {unit}".rstrip()


def _cells(name: str, frame: pd.DataFrame) -> list[str]:
    """The texts of a column."""
    if name == "metric":
        is_difference = {"a", "b"} <= set(frame.columns)
        rows = [metric_row(str(metric)) for metric in frame["metric"]]
        return [r.difference_axis(r.title) if is_difference else r.axis for r in rows]
    interval = _interval(name, frame)
    if interval is None and not _is_of_metric(name, frame):
        return [_cell(value, kind(name)) for value in frame[name]]
    metrics = frame["metric"] if _is_of_metric(name, frame) else ["accuracy"] * len(frame)
    nothing = pd.Series([math.nan] * len(frame))
    low, high = interval or (nothing, nothing)
    debiased = "debiased" if name in CENTRES else f"{name}_debiased"
    estimates = zip(frame[name], low, high, frame.get(debiased, nothing), metrics, strict=True)
    return ["" if pd.isna(value) else metric_row(metric).cell(value, *ends) for value, *ends, metric in estimates]


def _cell(value: Any, unit: Kind) -> str:
    """A number with few digits, whole ones with thousands separated; empty if missing."""
    if pd.isna(value):
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if unit == "share":
        return formats.share(value).removesuffix("%")
    if unit == "seconds":
        return formats.number(value, 0 if value >= 100 else 1)
    return formats.number(value, 0) if unit in ("entries", "examples") or isinstance(value, int) else f"{value:.3g}"


def _four_figures(value: Any) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return formats.MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return formats.count(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def markdown(table: ReadableTable) -> str:
    """A Markdown table, after the facts that all its rows share."""
    return "\n".join([*([table.shared, ""] if table.shared else []), *markdown_table(table.headings, table.rows), ""])


def html(table: ReadableTable, caption: str) -> str:
    """An escaped HTML table with this caption; the first column names the rows."""
    heads = "".join(f'<th scope="col">{escape(words)}</th>' for words in table.headings)
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in table.rows
    )
    body = f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>"
    return f"<table><caption>{escape(caption)}</caption>{body}</table>"


TEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}", "…": r"\ldots{}"}
    | {"[": "{[}", "*": "{*}"}  # after the \\ of the previous row they would be read as its arguments
    | {"×": r"$\times$", "·": r"$\cdot$", "±": r"$\pm$", "≠": r"$\neq$", "→": r"$\rightarrow$", "α": r"$\alpha$"}
    | {formats.MINUS: "$-$", formats.TO: "--", formats.SPACE: "~"}
)


def latex(table: ReadableTable, caption: str) -> str:
    """A LaTeX table for the packages booktabs and fontenc (T1); facts that all its rows share are part of the
    caption."""
    caption = f"{caption}. {table.shared}" if table.shared else caption
    lines = [" & ".join(map(_tex, row)) + r" \\" for row in (table.headings, *table.rows)]
    columns = "".join("r" if is_number else "l" for is_number in table.is_number)
    return "\n".join([
        r"% needs \usepackage{booktabs} and \usepackage[T1]{fontenc}",
        r"\begin{table}", r"\centering", rf"\caption{{{_tex(caption)}}}", rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}", r"\end{table}", "",
    ])  # fmt: skip


def _tex(text: str) -> str:
    """The text on one line, with LaTeX's special characters escaped."""
    return formats.one_line(text).translate(TEX)


def tab_separated(frame: pd.DataFrame) -> list[str]:
    """The heading and every row, all columns in their stored units; numbers with six digits."""
    rows = [[_for_programs(value) for value in row] for row in without_tuples(frame).itertuples(index=False)]
    return ["\t".join(row) for row in [[str(name) for name in frame.columns], *rows]]


def _for_programs(value: Any) -> str:
    """A value for programs: thousands not separated, empty if missing, no tab or line break."""
    if pd.isna(value):
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    return " ".join(str(value).split())


def not_in_percent(frame: pd.DataFrame) -> str:
    """The sentence on numbers of a table that are not in percent, contrary to its headings; empty if all are."""
    others = [metric_row(name) for name in sorted(set(frame["metric"]))] if "metric" in frame else []
    units = [
        f"{row.title} is in {row.unit}" if row.unit else f"{row.title} has no unit" for row in others if row.unit != "%"
    ]
    return f" Not in percent: {formats.listed(units, len(METRICS))}." if units else ""
