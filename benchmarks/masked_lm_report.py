"""Write the tables of docs/research/masked-lm.md from the stored rows: texts, curve, zero-shot, prompt against head."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import masked_lm_compare as compare
from benchmarks.frame import ROOT, fill
from skillviz.analysis.answers import Answers
from skillviz.analysis.seeds import Scored, difference_over_seeds, mean_over_seeds, scored_on
from skillviz.core import formats
from skillviz.core.intervals import wilson
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import NOT_MEASURED

PAGE, COMMAND = ROOT / "docs" / "research" / "masked-lm.md", "python -m benchmarks masked-lm report"
METRIC, UNIGRAM, MODEL = "accuracy", "unigram", "masked-lm"
SHIP, KEEP = "ship", "keep the numbers, ship no model"
TRAIN_HOURS, COMPARE_HOURS = 10, 5
"""Core-hours of the two commands; the second is an estimate."""


def missing(command: str, hours: float) -> list[str]:
    """Return the text of a table that has no numbers yet."""
    return [f"Not measured. Run `python -m benchmarks masked-lm {command}` (about {hours} core-hours)."]


def texts(counts: pd.DataFrame) -> list[str]:
    """Return Markdown: a row for each train file, with the numbers of removed texts, and whether its texts ship."""
    head = ("train file of", "texts", "in a held-out file", "overlap with one", "duplicates", "kept", "ships")
    numbers = ["texts", "in_held_out_file", "overlap_in_part", "duplicates", "kept"]
    whole = {"task": "all", **counts[numbers].sum().to_dict()}
    rows = [
        [row["task"], *(formats.count(row[name]) for name in numbers),
         {"True": "yes", "False": "no"}.get(str(row.get("ships")), "")]
        for row in [*counts.to_dict("records"), whole]
    ]  # fmt: skip
    return formats.markdown_table(head, rows)


def card(counts: pd.DataFrame) -> str:
    """Return the README.md of the trained model: its description, and the counts of its training texts."""
    return "\n".join([
        "# A masked language model on the layers of MiniLM", "",
        "BertForMaskedLM: the encoder `minilm-l6` with its embeddings unchanged, its six layers trained further, and a "
        "new head. It was made with `python -m benchmarks masked-lm train` from the texts below. Where *ships* says "
        "no, the texts do not come with skillviz. No text of a test, validation, out-of-scope or k-shot development "
        "file is among them.", "", *texts(counts), "",
    ])  # fmt: skip


def curve(rows: pd.DataFrame) -> list[str]:
    """Return Markdown: accuracy and perplexity on held-out texts, beside a model that uses only word frequencies."""
    head = ("core-hours", "steps", "texts", "tokens", "masked words right", "perplexity")
    own, reference = rows[rows["model"] == MODEL], rows[rows["model"] == UNIGRAM].iloc[0]
    shown = own.iloc[np.unique(np.linspace(0, len(own) - 1, 12).round().astype(int))]
    lines = [
        [f"{row['core_seconds'] / 3600:.2f}", *(formats.count(int(row[name])) for name in ("step", "texts", "tokens")),
         *_scores(row)]
        for row in shown.to_dict("records")
    ]  # fmt: skip
    n = formats.count(int(reference["masked_words"]))
    table = formats.markdown_table(head, [["unigram model", "", "", "", *_scores(reference)], *lines])
    return [*table, "", f"{n} masked words of held-out texts, each replaced by the mask token."]


def _scores(row: Mapping[Any, Any] | pd.Series) -> list[str]:
    n = int(row["masked_words"])
    low, high = wilson(round(row["accuracy"] * n), n)
    return [f"{formats.percent_estimate(row['accuracy'], low, high)}", f"{row['perplexity']:,.0f}"]


def zero_shot(rows: pd.DataFrame) -> list[str]:
    """Return Markdown: the accuracy without training, with one label word per class and with ten."""
    lines = [
        [f"`{row['task']}`", row["readout"], formats.count(row["n"]),
         formats.percent_estimate(row["accuracy"], *wilson(round(row["accuracy"] * row["n"]), row["n"]))]
        for row in rows[rows["part"] == compare.ZERO_SHOT].to_dict("records")
    ]  # fmt: skip
    return formats.markdown_table(("task", "label words a class", "test examples", "accuracy, %"), lines)


def sides(rows: pd.DataFrame) -> dict[str, dict[int, list[Scored]]]:
    """The accuracy of each fine-tuned model by readout and data seed, on shared resamples of the test examples."""
    answers = []
    for row in rows.to_dict("records"):
        predicted, labels = (np.frombuffer(row[name], np.uint8) for name in ("predicted", "labels"))
        answers.append(Answers(np.arange(len(labels)), labels.astype(int), np.eye(2)[predicted]))
    by_readout: dict[str, dict[int, list[Scored]]] = {name: {} for name in compare.RATES}
    for name, seed, one in zip(rows["readout"], rows["seed"], scored_on(answers, METRIC), strict=True):
        by_readout[name][int(seed)] = [one]
    return by_readout


def differences(rows: pd.DataFrame) -> pd.DataFrame:
    """Return prompt minus head for each task and number of examples per class that has every seed of both."""
    lines = []
    for task, k in product(compare.TASKS, compare.SHOTS):
        of = rows[(rows["part"] == compare.TEST) & (rows["task"] == task) & (rows["k"] == k)]
        if len(of) < len(compare.SEEDS) * len(compare.RATES):
            continue
        by = sides(of)
        difference = difference_over_seeds(by["prompt"], by["head"], METRIC)
        means = {name: mean_over_seeds(side, METRIC) for name, side in by.items()}
        lines.append(
            {"task": task, "k": k, **means, "value": difference.value, "low": difference.low, "high": difference.high}
        )
    return pd.DataFrame(lines, columns=["task", "k", *compare.RATES, "value", "low", "high"])


def verdict(compared: pd.DataFrame) -> str:
    """Return SHIP if prompts are better at least once and never worse, else KEEP; not measured until all are there."""
    words = [metric_row(METRIC).verdict(low, high) for low, high in zip(compared["low"], compared["high"], strict=True)]
    if len(words) < len(compare.TASKS) * len(compare.SHOTS) or NOT_MEASURED in words:
        return NOT_MEASURED
    return SHIP if "better" in words and "worse" not in words else KEEP


def prompts(rows: pd.DataFrame, compared: pd.DataFrame) -> list[str]:
    """Markdown: accuracy by prompt and by head, their difference with its verdict, and the rates of the trial."""
    words = metric_row(METRIC)
    lines = [
        [f"`{row['task']}`", str(row["k"]),
         *(formats.percent_estimate(row[name].value, row[name].low, row[name].high) for name in compare.RATES),
         f"{words.change(row['value'])} ({words.ends(row['low'], row['high'])})",
         words.verdict(row["low"], row["high"])]
        for row in compared.to_dict("records")
    ]  # fmt: skip
    head = ("task", "examples a class", "prompt, %", "head, %", "prompt − head", "prompt is")
    trial = rows[rows["part"] == compare.TRIAL].groupby(["readout", "rate"])["accuracy"].mean().reset_index()
    rates = [
        [row["readout"], f"{row['rate']:g}", formats.percent(row["accuracy"])] for row in trial.to_dict("records")
    ]  # fmt: skip
    return [
        *formats.markdown_table(head, lines), "", *formats.markdown_table(("readout", "rate", "trial accuracy"), rates),
    ]  # fmt: skip


def tables(results: Path) -> dict[str, list[str]]:
    """Return the lines between each pair of marks."""
    of_training, files = results / "masked_lm.csv", results / "masked_lm_texts.csv"
    rows = pd.DataFrame(compare.rows_in(results).rows)
    is_trained, is_compared = of_training.is_file() and files.is_file(), not rows.empty
    compared = differences(rows) if is_compared else pd.DataFrame(columns=["low", "high"])
    untrained, uncompared = missing("train", TRAIN_HOURS), missing("compare", COMPARE_HOURS)
    return {
        "masked-lm verdict": [f"**{formats.capital(verdict(compared))}.**"],
        "masked-lm curve": curve(pd.read_csv(of_training)) if is_trained else untrained,
        "masked-lm zero-shot": zero_shot(rows) if is_compared else uncompared,
        "masked-lm prompts": prompts(rows, compared) if len(compared) else uncompared,
        "masked-lm texts": texts(pd.read_csv(files)) if is_trained else untrained,
    }


def write(results: Path, page: Path = PAGE) -> str:
    """Fill the page, and return the verdict in words."""
    by_mark = tables(results)
    fill(page, by_mark, COMMAND)
    return by_mark["masked-lm verdict"][0].strip("*.")
