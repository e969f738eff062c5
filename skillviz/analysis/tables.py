"""The tidy tables of a study: every column with its dtype, unit and meaning, declared once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from skillviz.core.metrics import OWN
from skillviz.runs.tables import Column, Table, typed

OVER = ("examples and seeds", "examples and seeds, unpaired", "")
"""The kinds of interval of a difference: paired, over examples and seeds; joined from the unpaired intervals of both
sides, which is wider (sizes without predictions); empty if there is no interval."""

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""The characters that begin a formula in a spreadsheet."""

TASKS = "tasks"
"""The dtype of a column of several task names: tuples of text, lists in Parquet."""
ID_TASK = Column("id_task", "str", "", "the task the model was fine-tuned on")
TASK = Column("task", "str", "", "the task it is scored on")
SETTING = Column("setting", "str", "", "the training data: all, or <k>-shot")
READOUT = Column("readout", "str", "", "how answers are read, where models of one base are in several ways; else empty")
RECIPE = Column("recipe", "str", "", "how the model was fine-tuned; 'given' for a stored pair")
VARIANT = Column(
    "variant", "str", "", "what distinguishes the model from others of its recipe; empty where nothing does"
)
LOCALIZER = Column("localizer", "str", "", "the localizer of the graft, empty where the method has no region")
SEARCH_VARIANT = Column(
    "search_variant", "str", "", "what distinguishes the search from others of its localizer; empty where nothing does"
)
SIZE = Column("size", "float64", "entries", "entries of the region, the mean over seeds where it is an outcome", True)
SHARE = Column("share", "float64", "of d", "size / graftable entries", True)
METRIC = Column("metric", "str", "", "a row of the table of metrics: accuracy, ece, ...")
SEEDS = Column("seeds", "int64", "", "seeds that the interval is over: fine-tuning seeds where there are several")
N = Column("n", "int64", "examples", "examples scored")
DEBIASED = Column(
    "debiased", "float64", "the metric's", "of a calibration error the estimate that low and high are about", True
)
ESTIMATE = (
    Column("value", "float64", "the metric's", "the estimate", True),
    Column("low", "float64", "the metric's", "lower end of its 95% interval", True),
    Column("high", "float64", "the metric's", "upper end of its 95% interval", True),
)
SCORED = (ESTIMATE[0], DEBIASED, *ESTIMATE[1:])
"""The estimate of a metric that may be a calibration error: `value` is then the plug-in."""
DISCORDANT = (
    Column("gained", "Int64", "examples", "that only a gets right, where a and b are one model each", True),
    Column("lost", "Int64", "examples", "that only b gets right, likewise", True),
)
OVER_SEEDS = (
    DEBIASED,
    Column("low", "float64", "the metric's", "lower end of the 95% interval over examples and seeds", True),
    Column("high", "float64", "the metric's", "its upper end", True),
)
CHANCE = (
    Column("chance", "float64", "", "what random regions with as many entries in each tensor would give", True),
    Column("chance_low", "float64", "", "lower end of the range that 95% of such random regions give", True),
    Column("chance_high", "float64", "", "its upper end", True),
)
ISOLATION = (
    Column("kind", "str", "", "overlap or iou"),
    Column("relation", "str", "", "same, related, unrelated, or related - unrelated"),
    *ESTIMATE, *CHANCE, Column("pairs", "int64", "", "ordered pairs of tasks"),
    Column("seeds", "int64", "", "mask seeds that the interval is over (jackknife); the tasks are held fixed"),
)  # fmt: skip


def _with_ends(name: str, meaning: str) -> tuple[Column, ...]:
    """The columns name, name_low, name_high, and name_debiased for a calibration error; ends over examples and
    seeds."""
    ends = {"": "", "_debiased": ": debiased", "_low": ": lower end", "_high": ": upper end"}
    kinds = [end for end in ends if end != "_debiased" or name.startswith("ece")]
    return tuple(Column(name + end, "float64", "", meaning + ends[end], True) for end in kinds)


TABLES = {
    table.name: table
    for table in (
        Table("scores", (
            Column("base", "str", "", "the base model as it was named"), RECIPE, VARIANT,
            SETTING, READOUT, ID_TASK, TASK,
            Column("split", "str", "", "validation or test"),
            Column("method", "str", "", "a row of the table of methods"), LOCALIZER, SEARCH_VARIANT, SIZE, SHARE,
            Column("touched", "float64", "entries", "entries unlike the base's, or trained beside them", True), METRIC,
            Column("mean", "float64", "the metric's", "mean over seeds; shares 0 to 1, nll in nats", True), *OVER_SEEDS,
            Column("sd", "float64", "the metric's", "standard deviation over seeds (n - 1)", True), SEEDS, N,
        )),
        Table("differences", (
            ID_TASK, TASK, SETTING, READOUT, RECIPE, VARIANT,
            Column("recipe_b", "str", "", "how b was fine-tuned, where a is compared with several models; else empty"),
            Column("variant_b", "str", "", "what distinguishes b's model from others of its recipe, where "
                "recipe_b is given"),
            LOCALIZER, SEARCH_VARIANT, SIZE, SHARE,
            Column("a", "str", "", "a row of the table of methods"),
            Column("b", "str", "", "a row of the table of methods"), METRIC,
            Column("value", "float64", "the metric's", "mean of a minus mean of b", True), *OVER_SEEDS,
            Column("over", "str", "", "what the interval is over: one of OVER"), N, SEEDS, *DISCORDANT,
        )),
        Table("recovered", (
            ID_TASK, SETTING, READOUT, RECIPE, VARIANT, LOCALIZER, SEARCH_VARIANT,
            Column("gain_share", "float64", "", "the share of the fine-tuning gain that was to be recovered"), SIZE,
            SHARE, Column("reached", "bool", "", "whether any size reached it; else the largest stands here"),
            Column("reached_on", "str", "", "the split whose gain it reaches; empty for none"), METRIC,
            *_with_ends("value", "test metric of the graft at this size"),
            *_with_ends("value_ft", "test metric of the fine-tuned model"),
            *_with_ends("gain", "share of the gain recovered on test"),
            *_with_ends("accuracy", "test accuracy of the graft"), *_with_ends("ece", "test ECE of the graft"),
            *_with_ends("ece_ft", "test ECE of the fine-tuned model"),
            *_with_ends("ece_ft_scaled", "test ECE of the fine-tuned model, temperature fitted on validation"),
            *_with_ends("ece_less_ft", "ECE of the graft minus that of the fine-tuned model"),
            *_with_ends("ece_less_scaled", "ECE of the graft minus that of the temperature-scaled model"),
            *_with_ends("agreement", "share of test examples both models answer alike"),
            Column("over", "str", "", "what the ends of the two differences are over: one of OVER"), SEEDS, N,
        )),
        Table("overlap", (
            Column("row_task", "str", "", "the task of the row's region"),
            Column("row_localizer", "str", "", "its localizer, where localizers are compared; else empty"),
            Column("column_task", "str", "", "the task of the column's region"),
            Column("column_localizer", "str", "", "its localizer, where localizers are compared; else empty"),
            Column("size", "float64", "entries", "entries of both, where regions of several sizes are compared", True),
            Column("share", "float64", "of d", "the same as a share of the graftable entries", True),
            Column("kind", "str", "", "overlap: |row and column| / |column|; iou: |row and column| / |row or column|"),
            *ESTIMATE, *CHANCE, Column("seeds", "int64", "", "mask seeds, of the task with fewer"),
            Column("relation", "str", "", "same, related or unrelated tasks"),
        )),
        Table("isolation", ISOLATION),
        Table("variants", (
            Column("variant", "str", "", "the start of the mask, or the optimizer of the model of several tasks"),
            *ISOLATION,
        )),
        Table("gain", (
            Column("region", "str", "", "what the region is called"),
            Column("region_tasks", TASKS, "", "the tasks whose regions are united; of a single task it alone"), TASK,
            Column("purified", "bool", "", "after a few mask steps on the joint loss"), *ESTIMATE, N, SEEDS,
        )),
        Table("subsets", (
            Column("region_tasks", TASKS, "", "the tasks of the subset"), TASK,
            Column("what", "str", "", "union: the union of the subset's regions; exclusive: without the entries that "
                   "regions of other tasks also hold; thinned: without as many entries drawn at random; random: random "
                   "entries, as many in each tensor as the union; trained: a model fine-tuned on the subset alone"),
            SIZE, *ESTIMATE, N, SEEDS,
        )),
        Table("stages", (
            Column("mode", "str", "", "naive, grafting or independent"),
            Column("stage", "int64", "", "tasks trained so far, from 1"),
            Column("stage_task", "str", "", "the task trained last"), TASK, METRIC, *SCORED,
            Column("change", "float64", "the metric's", "value minus the value right after the task's own stage", True),
            Column("change_debiased", "float64", "the metric's", "of a calibration error: debiased", True),
            Column("change_low", "float64", "the metric's", "lower end, paired by example", True),
            Column("change_high", "float64", "the metric's", "upper end", True), N,
            Column("change_gained", "Int64", "examples", "right now and not after the task's own stage", True),
            Column("change_lost", "Int64", "examples", "right after the task's own stage and not now", True),
        )),
        Table("composition", (
            Column("task", "str", "", "the task"), LOCALIZER,
            Column("variant", "str", "", "what distinguishes the run from others of its task and localizer, "
                "besides its size"),
            Column("seed", "int64", "", "the localizer's seed"),
            Column("layer", "Int64", "", "block, counted from 0; missing outside the blocks", True),
            Column("kind", "str", "", "module kind"), Column("is_bias", "bool", "", "whether it is a bias"),
            Column("selected", "int64", "entries", "entries in the region"),
            Column("total", "int64", "entries", "entries of the part"),
            Column("share", "float64", "", "selected / the region's size"),
            Column("density_ratio", "float64", "", "density of the part / density of the whole region", True),
        )),
        Table("histogram", (
            Column("task", "str", "", "the task"),
            Column("state", "str", "", "finetuned or grafted"), SIZE, SHARE,
            Column("low_edge", "float64", "", "exclusive, but for the first"),
            Column("high_edge", "float64", "", "inclusive"),
            Column("count", "float64", "examples", "examples with this top probability, mean over seeds"),
            Column("correct", "float64", "examples", "of these, rightly predicted"), N,
        )),
        Table("paths", (
            Column("path", "str", "", "wise-ft or wise-graft"),
            Column("alpha", "float64", "", "0 is the base, 1 the fine-tuned model or the graft"),
            ID_TASK, TASK, METRIC, *SCORED,
        )),
        Table("stability", (
            Column("base", "str", "", "the base model as it was named"), RECIPE, Column("task", "str", "", "the task"),
            Column("source", "str", "", "what differs: mask seeds, data seeds or bootstrap"), LOCALIZER, SIZE, SHARE,
            Column("iou", "float64", "", "mean intersection over union of two regions", True), *ESTIMATE[1:], *CHANCE,
            Column("pairs", "int64", "", "pairs of regions"),
        )),
        Table("sensitivity", (
            Column("task", "str", "", "the task"), LOCALIZER,
            Column("lr", "float64", "", "learning rate of the mask; missing where it is no option", True),
            Column("steps", "float64", "", "steps of the search", True),
            Column("bias", "float64", "", "bias of the mask's sigmoid; missing where it is no option", True),
            Column("batch_size", "float64", "examples", "examples a step", True),
            Column("seed", "int64", "", "the localizer's seed"), SIZE, SHARE, METRIC, *SCORED,
        )),
        Table("checkpoints", (
            ID_TASK, Column("step", "int64", "steps", "fine-tuning steps so far; of these the best check is kept"),
            Column("what", "str", "", "pretrained, finetuned or grafted: its score; needed: share of the parameters "
                   "that recovers the gain; lead: graft minus that of top movement; gap: graft minus the "
                   "fine-tuned model; gap_change: that less the gap of the first checkpoint; shared: of the last "
                   "region; alike: of top movement's region; held: of the squared movement"),
            LOCALIZER, SIZE, SHARE, METRIC, *SCORED, *CHANCE,
            Column("seeds", "int64", "", "mask seeds"), N,
        )),
        Table("federated", (
            Column("tasks", TASKS, "", "the clients' tasks; of a single task, the clients share its training rows"),
            Column("setting", "str", "", "fields in which the study's federations differ; empty if in none"),
            Column("clients", "int64", "", "clients of a round"),
            Column("send", "str", "", "full: all values; region: those that the client's first round moved most; "
                   "random: as many random ones"), SIZE, SHARE,
            Column("round", "int64", "", "rounds so far; 0 is the base"), TASK,
            Column("what", "str", "", "score: the task's metric of the server's model on test; bytes: sent by all "
                   "clients of the task in the round; membership: AUC of a client's training rows against test "
                   "rows, by the loss of the server's model with what the client sent"), *ESTIMATE, N, SEEDS,
        )),
        Table("note", (Column("text", "str", "", "what the study must say about itself"),)),
    )
}  # fmt: skip


def empty(name: str) -> pd.DataFrame:
    """A frame without rows that has the table's columns and dtypes."""
    dtypes = {column.name: object if column.dtype == TASKS else column.dtype for column in TABLES[name].columns}
    return pd.DataFrame({column: pd.Series(dtype=dtype) for column, dtype in dtypes.items()})


def check(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The frame with the table's columns in their order and dtypes; the argument is not changed.

    Raises ValueError if a column is missing or unknown, or holds values that do not fit its dtype.
    """
    if name not in TABLES:
        raise ValueError(f"'{name}' is not a table of a study; known: {', '.join(TABLES)}.")
    columns = TABLES[name].columns
    names = [column.name for column in columns]
    missing = [n for n in names if n not in frame.columns]
    unknown = [str(n) for n in frame.columns if n not in names]
    if frame.empty and not unknown:
        return empty(name)
    if missing or unknown:
        raise ValueError(f"{name}: missing columns {missing}, unknown columns {unknown}.")
    return pd.DataFrame({column.name: _typed(frame[column.name], column, name) for column in columns})


def _typed(values: pd.Series, column: Column, table: str) -> pd.Series:
    if column.dtype != TASKS:
        return typed(values, column, table)
    return pd.Series([tuple(map(str, tasks)) for tasks in values], dtype=object)


def label(*words: str) -> str:
    """A name with its distinguishing details, such as `lora, rank 8`; empty words are left out. For people to read."""
    return ", ".join(word for word in words if word)


def task_metric(metrics: Iterable[str]) -> str:
    """A task's own metric among the metrics in its rows: F1 or exact match if present, otherwise accuracy, and
    perplexity if it is the only one."""
    known = set(metrics)
    return next((row.name for row in OWN if row.name in known), "accuracy")


def without_variants(table: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """The rows in which `columns`, such as `variant` and `search_variant`, are empty: rows without a variant."""
    return table[(table[list(columns)] == "").all(axis=1)]


def without_tuples(table: pd.DataFrame) -> pd.DataFrame:
    """A copy with several tasks in one cell as `a + b`, for people and for CSV."""
    several = [n for n in table if table[n].dtype == object and table[n].map(lambda one: isinstance(one, tuple)).any()]
    return table.assign(**{str(name): table[name].map(" + ".join) for name in several})


def csv_text(table: pd.DataFrame) -> str:
    """The table as CSV at full precision; a text that a spreadsheet would run as a formula is quoted (`'=1+1`)."""
    plain = without_tuples(table)
    texts = {str(n): _no_formulas(plain[n]) for n in plain if not pd.api.types.is_numeric_dtype(plain[n])}
    return plain.assign(**texts).rename(columns=_no_formula).to_csv(index=False)


def _no_formulas(column: pd.Series) -> pd.Series:
    """Applies `_no_formula` to each text of a column; each distinct text once, because long columns have few."""
    if isinstance(column.dtype, pd.StringDtype):
        return column.map({cell: _no_formula(cell) for cell in column.unique()})
    return column.map(_no_formula)


def _no_formula(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    text = cell.replace("\r\n", "\n").replace("\r", "\n")  # pandas leaves \r unquoted: it would end the row
    if not cell.startswith(FORMULA):
        return text
    try:
        float(cell)
    except ValueError:
        return f"'{text}"
    return cell


def notes(*texts: str) -> pd.DataFrame:
    """The table `note` with these sentences, each once."""
    return check(pd.DataFrame({"text": list(dict.fromkeys(texts))}, dtype="str"), "note")


def of_its_own_task(gain: pd.DataFrame) -> pd.Series:
    """True for each row whose region is its task's alone, bool."""
    pairs = zip(gain["region_tasks"], gain["task"], strict=True)
    return pd.Series([tasks == (task,) for tasks, task in pairs], index=gain.index, dtype=bool)


def is_inside(gain: pd.DataFrame) -> pd.Series:
    """True for each row whose region includes its task's, alone or with others, bool."""
    pairs = zip(gain["region_tasks"], gain["task"], strict=True)
    return pd.Series([task in tasks for tasks, task in pairs], index=gain.index, dtype=bool)
