"""Single examples as a table: each model's answer to each example, the filters, and the order.

One filter is an area that the reader selects in the scatter of examples; the URL stores it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.core.encoded import NO_OPTION
from skillviz.core.generation import LOG_LIKELIHOOD, token_probability
from skillviz.core.scores import correct, predictions, probabilities
from skillviz.plots.examples import CASES, FACTORS
from skillviz.plots.theme import state_style
from skillviz.runs.record import RunRecord
from skillviz.runs.tables import TEXT
from skillviz.show import measures
from skillviz.tasks.source import REFERENCE

AREA = "area"
Span = tuple[float, float]
STATES = ("pretrained", "grafted", "finetuned")
SCORED = (*STATES, "complement")
SAME_PLACE = "Examples at nearly the same place share a mark."
CASE_TITLES = {
    "all": "all",
    "differ": "graft and fine-tuned disagree",
    "finetuned": "only fine-tuned right",
    "grafted": "only graft right",
    "neither": "both wrong",
    "moved": "largest change in confidence (10%)",
}
SORTS = {
    "moved": "largest change in confidence",
    "file": "order in the file",
    "gained": "graft more confident",
    "lost": "graft less confident",
    "grafted": "confidence of the graft",
    "finetuned": "confidence of fine-tuned",
    "length": "shortest text",
}


@dataclass(frozen=True)
class Area:
    """An area from low to high, both inclusive, in the fine-tuned model's and the graft's score of the right answer.

    In the units of the table: a confidence of 0..1, or a margin in nats.
    """

    measure: str
    finetuned: Span
    grafted: Span

    def inside(self, table: pd.DataFrame) -> pd.Series:
        """True for the examples in the area; `table` comes from `examples.scored`."""
        across, up = (table[f"{state}_{self.measure}"] for state in ("finetuned", "grafted"))
        return across.between(*self.finetuned) & up.between(*self.grafted)

    def written(self) -> str:
        """Its form in the URL: `confidence_0.5_1_0_0.5`."""
        return "_".join([self.measure, *(f"{end:.4g}" for end in (*self.finetuned, *self.grafted))])

    def words(self, answers: AnswerWords) -> str:
        """`confidence in the true class, fine-tuned 50.0–100.0%, grafted 0.0–50.0%`."""
        if self.measure != "margin":
            across, up = (f"{formats.percent_interval(*span)}%" for span in (self.finetuned, self.grafted))
        else:
            across, up = (f"{formats.interval(*span, 2)} nats" for span in (self.finetuned, self.grafted))
        return f"{answers.measures[self.measure].title}, fine-tuned {across}, grafted {up}"


def read_area(written: str | None) -> Area | None:
    """The area in a URL; None if it is not valid."""
    measure, *ends = (written or "").rsplit("_", 4)
    try:
        low, high, bottom, top = (float(end) for end in ends)
    except ValueError:
        return None
    if measure not in FACTORS or not all(map(math.isfinite, (low, high, bottom, top))) or low > high or bottom > top:
        return None
    return Area(measure, (low, high), (bottom, top))


def area_of_box(box: Mapping[str, Sequence[float]], measure: str) -> Area | None:
    """The area that was drawn in the figure, with the box in the figure's units."""
    factor = FACTORS[measure]
    (low, high), (bottom, top) = (sorted(end / factor for end in box[axis]) for axis in ("x", "y"))
    return read_area(Area(measure, (low, high), (bottom, top)).written())


@dataclass(frozen=True)
class Filters:
    """The reader's filters; `label` None is every class, `length` counts words, both ends inclusive.

    `area` is an area of the scatter, `ids` are the examples of a named set.
    """

    case: str = "all"
    label: str | None = None
    length: tuple[int, int] | None = None
    words: str = ""
    sort: str = "file"
    area: Area | None = None
    ids: frozenset[str] | None = None


def scored(stored: pd.DataFrame, record: RunRecord, split: str) -> pd.DataFrame:
    """One row per example of the split, in the order of the file.

    Columns: example_id, label (number), true (name), case (both, finetuned, grafted, neither: the models that are
    right; likelier_finetuned, likelier_grafted or equal for references without generation), moved (graft - fine-tuned,
    in the true class's probability); and for each available state of SCORED, prefixed with its name: _says (class
    name), _says_confidence (of that class), _confidence (of the true class), _margin (true class - best other, nats).

    If there is a reference, _confidence (and _per_token) are its probability per token and _margin its log-likelihood.
    If a text is generated, _says is that text and has no confidence; otherwise there is no _says.
    """
    names = np.array(record.task.labels if record.task else (), dtype=object)
    logits, labels = measures.state_logits(stored, record, split, [s for s in SCORED if (stored["state"] == s).any()])
    ids = stored.loc[stored["split"] == split, "example_id"].unique()  # the order of the logits
    table = pd.DataFrame({"example_id": ids, "label": labels, "true": names[labels]})
    for state, z in logits.items():
        if record.has_reference:
            share = token_probability(z)
            if record.generates:
                rows = stored[(stored["state"] == state) & (stored["split"] == split)].set_index("example_id")
                table[f"{state}_says"] = rows[TEXT].loc[list(ids)].to_numpy(dtype=object)
                table[f"{state}_right"] = correct(z, labels)
            table[f"{state}_confidence"], table[f"{state}_margin"] = share, z[:, LOG_LIKELIHOOD].astype(np.float64)
            table[f"{state}_per_token"] = share
            continue
        shares, said = probabilities(z), predictions(z)
        share = shares[np.arange(len(z)), labels]
        table[f"{state}_says"], table[f"{state}_says_confidence"] = names[said], shares[np.arange(len(z)), said]
        table[f"{state}_confidence"], table[f"{state}_margin"] = share, margins(z, labels)
    graft, tuned = (correct(logits[state], labels) for state in ("grafted", "finetuned"))
    table["case"] = np.select([graft & tuned, tuned, graft], ["both", "finetuned", "grafted"], "neither")
    moved = table["moved"] = table["grafted_confidence"] - table["finetuned_confidence"]
    if record.has_reference and not record.generates:
        table["case"] = np.select([moved > 0, moved < 0], ["likelier_grafted", "likelier_finetuned"], "equal")
    place = table["example_id"].str.extract(r"(\d+)$", expand=False).astype("Int64")
    return table.iloc[np.argsort(place.fillna(-1).to_numpy(np.int64), kind="stable")].reset_index(drop=True)


def has_references(table: pd.DataFrame) -> bool:
    """True if the examples' answers are references."""
    return "grafted_per_token" in table


def generates(table: pd.DataFrame) -> bool:
    """True if texts were generated in addition to the references."""
    return has_references(table) and "grafted_says" in table


def margins(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Score of the true class minus the best other one's [n], in nats: above 0 if it is right."""
    rows = np.arange(len(labels))
    others = np.array(logits, dtype=np.float64)
    others[rows, labels] = -np.inf
    return np.asarray(logits, dtype=np.float64)[rows, labels] - others.max(axis=1)


def options_there(logits: np.ndarray) -> int:
    """The number of options of an example, from its scores [label]."""
    return int((logits > NO_OPTION).sum())


def with_texts(table: pd.DataFrame, texts: pd.DataFrame) -> pd.DataFrame:
    """The table with text_a, (text_b,) and length in words, matched by example_id."""
    joined = table.merge(texts, on="example_id", how="left", validate="one_to_one")
    columns = [name for name in ("text_a", "text_b") if name in joined]
    joined[columns] = joined[columns].fillna("")
    return joined.assign(length=[len(" ".join(row).split()) for row in joined[columns].to_numpy(str)])


def has_texts(table: pd.DataFrame) -> bool:
    """True if the examples' texts are in the table."""
    return "text_a" in table


def passing(table: pd.DataFrame, filters: Filters) -> pd.Series:
    """True for the examples that pass, in the order of the table."""
    passes = _of_case(table, filters.case)
    if filters.label is not None:
        passes &= table["true"] == filters.label
    if filters.area is not None:
        passes &= filters.area.inside(table)
    if filters.ids is not None:
        passes &= table["example_id"].isin(filters.ids)
    if not has_texts(table):
        return passes
    if filters.length is not None:
        passes &= table["length"].between(*filters.length)
    whole = whole_text(table).str.casefold()
    for word in filters.words.casefold().split():
        passes &= whole.str.contains(word, regex=False)
    return passes


def _of_case(table: pd.DataFrame, case: str) -> pd.Series:
    if case == "differ" and generates(table):  # as in the agreement: right in one, wrong in the other
        return table["case"].isin(("finetuned", "grafted"))
    if case == "differ":
        return table["grafted_says"] != table["finetuned_says"]
    if case == "moved":
        most = table["moved"].abs().rank(method="first", ascending=False)
        return most <= max(1, round(len(table) / 10))
    return table["case"] == case if case in CASES else pd.Series(True, index=table.index)


def ordered(table: pd.DataFrame, sort: str) -> pd.DataFrame:
    """The rows sorted by one of SORTS; equal ones in the order of the file."""
    by = {
        "moved": -table["moved"].abs(),
        "gained": -table["moved"],
        "lost": table["moved"],
        "grafted": table["grafted_confidence"],
        "finetuned": table["finetuned_confidence"],
        "length": table.get("length"),
    }.get(sort)
    return table if by is None else table.loc[by.sort_values(kind="stable").index]


def sorts(table: pd.DataFrame) -> list[str]:
    """The available orders; by length only if texts are available."""
    return [name for name in SORTS if name != "length" or has_texts(table)]


def whole_text(table: pd.DataFrame) -> pd.Series:
    """Both texts of a pair as one."""
    return table["text_a"] + " ‖ " + table["text_b"] if "text_b" in table else table["text_a"]


def brief(text: str, most: int = 70) -> str:
    """The beginning of a text, cut at a word."""
    if len(text) <= most:
        return text
    return text[:most].rsplit(" ", 1)[0] + " …"


def listing(table: pd.DataFrame, right: str) -> pd.DataFrame:
    """The columns of the table on the page, the most informative first; probabilities in percent, movement in points.

    `right` is the name of a label, from `answer_words`.
    """
    columns = {"text": whole_text(table)} if has_texts(table) else {"example": table["example_id"]}
    if has_references(table):
        columns |= {"reference": table[REFERENCE]} if REFERENCE in table else {}
        if generates(table):
            columns |= {f"{state_style(state).title} generates": table[f"{state}_says"] for state in STATES}
        columns |= {f"{state_style(state).title}: per token": 100 * table[f"{state}_per_token"] for state in STATES}
        columns |= {"graft − fine-tuned": 100 * table["moved"]}
        columns |= {"words": table["length"], "example": table["example_id"]} if has_texts(table) else {}
        return pd.DataFrame(columns)
    columns |= {right: table["true"]}
    columns |= {f"{state_style(state).title}: {right}": 100 * table[f"{state}_confidence"] for state in STATES}
    columns |= {"graft − fine-tuned": 100 * table["moved"]}
    columns |= {f"{state_style(state).title} says": table[f"{state}_says"] for state in STATES}
    if "complement_confidence" in table:
        columns |= {f"{state_style('complement').title}: {right}": 100 * table["complement_confidence"]}
    columns |= {"words": table["length"], "example": table["example_id"]} if has_texts(table) else {}
    return pd.DataFrame(columns)


def narrow_listing(table: pd.DataFrame, right: str) -> pd.DataFrame:
    """The table for a phone: the text or the example's number, the true class or the reference if available, and the
    answers of graft and fine-tuned model: a class or an option with the model's confidence in it, or the reference's
    probability per token.
    """
    columns = {"text": whole_text(table)} if has_texts(table) else {"example": table["example_id"]}
    if has_references(table):
        columns |= {right: table[REFERENCE]} if REFERENCE in table else {}
        says = {s: table[f"{s}_says"] if generates(table) else table[f"{s}_per_token"].map(formats.percent)
                for s in ("grafted", "finetuned")}  # fmt: skip
        return pd.DataFrame(columns | {state_style(s).title: said for s, said in says.items()})
    answers = {
        state_style(s).title: [
            f"{said} {formats.percent(confidence)}"
            for said, confidence in zip(table[f"{s}_says"], table[f"{s}_says_confidence"], strict=True)
        ]
        for s in ("grafted", "finetuned")
    }
    return pd.DataFrame({**columns, right: table["true"], **answers})


def points(table: pd.DataFrame, passes: pd.Series, measure: str, words: Sequence[str]) -> pd.DataFrame:
    """The table for the scatter: example_id, case, finetuned, grafted, shown, words (from `hovers`)."""
    return table[["example_id", "case"]].assign(
        finetuned=table[f"finetuned_{measure}"], grafted=table[f"grafted_{measure}"], shown=passes, words=words
    )


def hovers(table: pd.DataFrame, right: str) -> list[str]:
    """The hover text of each example besides its number and place: its text and class, and both answers if graft and
    fine-tuned model differ. It is short, because a page sends thousands."""
    return [_hover(row, right) for row in table.to_dict("records")]


def _hover(row: dict, right: str) -> str:
    lines = [_harmless(brief(row["text_a"], 60))] if "text_a" in row else []
    if "grafted_per_token" in row:
        lines += [f"reference: {_harmless(brief(row[REFERENCE], 60))}"] if REFERENCE in row else []
    else:
        lines.append(f"{right}: {_harmless(row['true'])}")
    if row.get("finetuned_says") != row.get("grafted_says"):
        lines += [
            f"{state_style(s).title} says {_harmless(brief(row[f'{s}_says'], 60))}" for s in ("finetuned", "grafted")
        ]
    return "<br>".join(lines)


def _harmless(words: str) -> str:
    """Text from the data, on one line, escaped so that a figure does not read it as markup."""
    return formats.one_line(words).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def label_names(table: pd.DataFrame, labels: Sequence[str]) -> list[str]:
    """The classes that occur among the examples, in the task's order."""
    present = set(table["true"])
    return [name for name in labels if name in present]


class Measure(NamedTuple):
    """The words for a model's score of the right answer: on a switch, in a sentence, on an axis, and below its
    figure."""

    brief: str
    title: str
    unit: str
    reads: str


@dataclass(frozen=True)
class AnswerWords:
    """`right` is the name of an example's label, `one` of any answer; the keys of `measures` are columns of the scored
    table.

    `says` describes each model's column in a narrow table, `stored` the examples' data in a run.
    """

    right: str
    one: str
    measures: Mapping[str, Measure]
    cases: Mapping[str, str]
    sorts: Mapping[str, str]
    says: str = "Each model's answer and its confidence."
    stored: str = "Runs store scores, not sentences."


def _chosen(right: str, one: str) -> AnswerWords:
    """The words for a model that chooses among answers."""
    confidence = Measure(
        "confidence", f"confidence in the {right}", f"{right}, %",
        f"confidence in the {right}, of the fine-tuned model (across) and the graft (up). On the dotted line both are "
        f"equally confident. {SAME_PLACE}",
    )  # fmt: skip
    margin = Measure(
        "margin", f"margin of the {right}", "margin, nats",
        f"the margin is the {right}'s score minus the best other one's: above zero the model is right. It separates "
        "examples whose confidence is near 100%.",
    )  # fmt: skip
    return AnswerWords(right, one, {"confidence": confidence, "margin": margin}, CASE_TITLES, SORTS)


CLASSES, OPTIONS = _chosen("true class", "class"), _chosen("right option", "option")
TEXTS = AnswerWords(
    "reference",
    "text",
    {
        "per_token": Measure(
            "per token", "probability per token of the reference", "reference, % per token",
            "the reference's probability per token (the geometric mean over its tokens), of the fine-tuned model "
            f"(across) and the graft (up). On the dotted line both are equal. {SAME_PLACE}",
        )
    },
    CASE_TITLES | {"moved": "largest change in probability per token (10%)"},
    SORTS
    | {
        "moved": "largest change in probability per token",
        "gained": "likelier by the graft",
        "lost": "less likely by the graft",
        "grafted": "probability per token by the graft",
        "finetuned": "probability per token by fine-tuned",
    },
    says="What each model generates.",
    stored="Runs store scores and what the models generate, not prompts and references.",
)  # fmt: skip
REFERENCES = replace(
    TEXTS,
    cases={
        "all": "all", "likelier_finetuned": "likelier by fine-tuned", "likelier_grafted": "likelier by the graft",
        "moved": TEXTS.cases["moved"],
    },
    says="The reference's probability per token by each model.",
    stored="Runs store scores, not prompts and references.",
)  # fmt: skip
"""The words if only references are scored and nothing is generated."""


def answer_words(record: RunRecord) -> AnswerWords:
    """The words for a run's task."""
    if record.has_reference:
        return TEXTS if record.generates else REFERENCES
    return CLASSES if record.has_classes else OPTIONS
