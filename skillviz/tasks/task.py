"""A task: the source of its examples, the meaning of their columns, and the prompts and answers for a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from skillviz.core.generation import LABELS
from skillviz.core.metrics import OF_TEXT, Metric, has_predictions, metric_row
from skillviz.errors import BadData, BadInput, refuse
from skillviz.tasks.template import check_template

SPLITS = ("train", "validation", "test")
READOUTS = ("masked", "causal")
CLASSIFICATION: Final = "classification"
CHOICE: Final = "choice"
GENERATION: Final = "generation"
PIPELINES = {CLASSIFICATION: "text-classification", CHOICE: "multiple-choice", GENERATION: "text-generation"}
"""The hub's name of the models for each kind of task."""
OF_GENERATING = ("max_new_tokens", "ignore_case", "ignore_punctuation")
"""Fields on how a text is generated and compared with the reference."""
USUAL_LENGTH = 512
"""Longest input in tokens if neither the task nor the fine-tuned model states one; never more than the model takes."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Default names of the options of a multiple-choice task."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Files(_Frozen):
    """Data in the user's own files, as written in the task file: relative to it, `${VAR}` not yet expanded.

    A task without `train` can only be scored, in addition to another one. Several files of a split are read one after
    the other.
    """

    train: str | tuple[str, ...] | None = Field(default=None, min_length=1)
    validation: str | tuple[str, ...] | None = None
    test: str | tuple[str, ...] = Field(min_length=1)

    @property
    def is_merged(self) -> bool:
        """True if a split has several files, whose sources may repeat each other's texts."""
        return any(isinstance(files, tuple) for files in (self.train, self.validation, self.test))


class Hub(_Frozen):
    """Data on the Hugging Face hub; `train`, `validation` and `test` are the source's own split names."""

    id: str
    config: str | None = None
    revision: str | None = None
    train: str = "train"
    validation: str | None = None
    test: str = "test"

    @property
    def title(self) -> str:
        """The readable id with its configuration."""
        return f"{self.id} ({self.config})" if self.config else self.id


class Template(_Frozen):
    """The prompts: `masked` has one mask, `causal` ends where the answer begins."""

    masked: str | None = None
    causal: str | None = None


class LabelWords(_Frozen):
    """One word (masked) or answer (causal) per label, in the order of the labels."""

    masked: tuple[str, ...] | None = None
    causal: tuple[str, ...] | None = None


class Task(_Frozen):
    """A task whose examples have classes, their own options, or a reference to generate.

    It is defined in the registry or in a YAML file.

    `classes` maps the source's own names or numbers to `labels` (empty: names or indices as they are); rows whose
    source label is in `drop` are left out. `positive` is the index of the class used for F1. `max_length` counts
    tokens, special ones included; None leaves it to the pair (`ModelPair.limit`). `max_length_causal` replaces it for
    the causal readout, where `length_normalised` divides an answer's log-likelihood by its tokens. `source` gives the
    origin of the definition and lists facts that have not been verified.

    With `options` each example has its own answers: one column for each, or one column of lists. `labels` then name
    their places, A, B, C and so on by default, and an example may have fewer options than there are labels. The right
    one is given in the column `label`, as a place, or written out in the column `answer`. By default an option's score
    is its whole log-likelihood, so that the softmax is the model's own distribution over the options;
    `length_normalised` compares them per token instead (Brown et al. 2020, section 2.4).

    `out_of_scope` is a file of texts that fit no class, given in the same way as the files of `data`.

    With `reference`, the column of the text to be generated, there are neither labels nor options. The text is
    generated greedily, with at most `max_new_tokens` tokens, up to the end-of-text token or, depending on `stop`, a
    line break. An exact match is a text equal to the reference except for white space, and for case and punctuation
    with `ignore_case` and `ignore_punctuation`. `length_normalised` makes its loss the mean over tokens, not the sum.
    With the metric perplexity nothing is generated: the references are scored by their likelihood alone.
    """

    name: str = Field(min_length=1)
    title: str = ""
    data: Files | Hub
    text: tuple[str, ...] = Field(min_length=1, max_length=2)
    label: str = Field(default="label", min_length=1)
    labels: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    answer: str | None = Field(default=None, min_length=1)
    reference: str | None = Field(default=None, min_length=1)
    max_new_tokens: int = Field(default=32, ge=1)
    stop: Literal["end_of_text", "newline"] = "end_of_text"
    ignore_case: bool = False
    ignore_punctuation: bool = False
    classes: dict[str, str] = Field(default_factory=dict)
    drop: tuple[str, ...] = ()
    template: Template = Template()
    label_words: LabelWords = LabelWords()
    metric: Literal["accuracy", "f1", "exact_match", "perplexity"] = "accuracy"
    positive: int = 1
    max_length: int | None = Field(default=None, ge=4)
    max_length_causal: int | None = Field(default=None, ge=4)
    lmbff_exact: bool = False
    length_normalised: bool = False
    out_of_scope: str | None = Field(default=None, min_length=1)
    source: str = ""
    path: Path | None = None

    @property
    def kind(self) -> Literal["classification", "choice", "generation"]:
        """`classification`; `choice` if every example has its own options, `generation` if it has a reference."""
        return GENERATION if self.reference else CHOICE if self.options else CLASSIFICATION

    @property
    def generates(self) -> bool:
        """True if a text is generated and compared with the reference."""
        return self.kind == GENERATION and has_predictions(self.metric)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that the task uses: texts, options, and the column of the right answer."""
        return (*self.text, *self.options, self.reference or self.answer or self.label)

    @property
    def has_training(self) -> bool:
        """True if the task has training examples; without any it can only be scored in addition to another task."""
        return self.data.train is not None

    def refuse_without_training(self) -> None:
        """Raises BadData if there are no training examples."""
        if not self.has_training:
            raise BadData(
                f"task '{self.name}' has test examples only, so there is nothing to search or train on; score it "
                "beside another task (--also), or add data.train to its file."
            )

    @property
    def has_classes(self) -> bool:
        """True if a label means the same in every example."""
        return self.kind == CLASSIFICATION

    @property
    def f1_class(self) -> int | None:
        """The index of the class used for F1; None if the task is not scored by F1."""
        return self.positive if self.metric == "f1" else None

    @model_validator(mode="before")
    @classmethod
    def _positive_by_name(cls, values: Any) -> Any:
        """Accepts the positive class by its name; the default is the second label."""
        if isinstance(values, dict) and isinstance(values.get("positive"), str):
            labels = [str(label) for label in values.get("labels") or ()]
            if values["positive"] not in labels:
                raise BadInput(f"positive is '{values['positive']}', which is not one of the labels {_listed(labels)}.")
            values = {**values, "positive": labels.index(values["positive"])}
        return values

    @model_validator(mode="before")
    @classmethod
    def _options_by_letter(cls, values: Any) -> Any:
        """Names options in columns of their own A, B, C and so on unless they have names."""
        if isinstance(values, dict) and not values.get("labels") and 1 < len(values.get("options") or ()) <= 26:
            values = {**values, "labels": tuple(LETTERS[: len(values["options"])])}
        return values

    @model_validator(mode="before")
    @classmethod
    def _generated(cls, values: Any) -> Any:
        """Sets the defaults of a task with a reference: two labels (the reference, another text), scored by exact
        match."""
        if isinstance(values, dict) and values.get("reference"):
            values = {"metric": "exact_match", "labels": LABELS, **values}
        return values

    @model_validator(mode="after")
    def _fits_together(self) -> Task:
        """Raises BadInput if labels, words, template and metric contradict one another."""
        where = f"task '{self.name}'"
        has_label = self.kind != GENERATION and not self.answer
        refuse(
            (
                re.search(r"[\s/\\]", self.name),
                f"{where}: a name has no spaces and no slashes; write it with '-' or '_'.",
            ),
            (
                len(self.labels) < 2 or len(set(self.labels)) != len(self.labels) or "" in self.labels,
                f"{where}: labels must be two or more different names, not {_listed(self.labels)}.",
            ),
            (
                len(set(self.text)) != len(self.text) or (has_label and self.label in self.text),
                f"{where}: the text columns and the label column must be different columns.",
            ),
        )
        if self.kind == GENERATION:
            self._check_reference(where)
        elif self.kind == CHOICE or self.answer:
            self._check_options(where)
        elif self.metric in OF_TEXT:
            raise BadInput(f"{where}: {self.metric} is of texts with a reference; name its column as 'reference'.")
        refuse(
            (
                set(self.classes.values()) - set(self.labels),
                f"{where}: classes may only map to the labels {_listed(self.labels)}.",
            ),
            (
                self.metric == "f1" and len(self.labels) != 2,
                f"{where}: the metric f1 needs two labels, and there are {len(self.labels)}; use accuracy.",
            ),
            (
                not 0 <= self.positive < len(self.labels),
                f"{where}: positive must be one of the labels {_listed(self.labels)}.",
            ),
            (
                self.out_of_scope and not self.has_classes,
                f"{where}: 'out_of_scope' names texts that fit no class; without classes leave it out.",
            ),
        )
        for kind in READOUTS:
            self._check_readout(kind, where)
        return self

    def _check_options(self, where: str) -> None:
        """Raises BadInput if options contradict one another, or are combined with fields for tasks with classes."""
        refuse(
            (
                not self.options,
                f"{where}: 'answer' names the right one of an example's 'options', which are not given.",
            ),
            (
                len(set(self.columns)) != len(self.columns),
                f"{where}: texts, options and the right answer must be in different columns.",
            ),
            (
                len(self.options) not in (1, len(self.labels)),
                f"{where}: there are {len(self.options)} columns of options and {len(self.labels)} labels; name each "
                "column's place once, or leave labels out.",
            ),
            (
                self.answer and (self.classes or self.drop),
                f"{where}: 'classes' and 'drop' belong to a label column; with 'answer' leave them out.",
            ),
            (
                self.metric != "accuracy",
                f"{where}: {self.metric} is of a class, and options are no classes; use accuracy.",
            ),
            (
                self.template.masked or self.label_words != LabelWords(),
                f"{where}: options are scored as whole answers by the causal readout; leave label_words and the "
                "masked template out.",
            ),
        )

    def _check_reference(self, where: str) -> None:
        """Raises BadInput if a text to be generated is combined with fields for classes or options."""
        changed = [name for name in OF_GENERATING if getattr(self, name) != type(self).model_fields[name].default]
        refuse(
            (
                self.options or self.answer,
                f"{where}: a 'reference' is generated, and 'options' are chosen from; give one of the two.",
            ),
            (
                self.labels != LABELS or self.classes or self.drop or self.label_words != LabelWords(),
                f"{where}: a text that is generated has no classes; leave labels, classes, drop and label_words out.",
            ),
            (
                self.reference in self.text,
                f"{where}: the text columns and the reference column must be different columns.",
            ),
            (
                self.metric not in OF_TEXT,
                f"{where}: {self.metric} is of classes or options; a reference is scored by {' or '.join(OF_TEXT)}.",
            ),
            (
                changed and not self.generates,
                f"{where}: with the metric perplexity nothing is generated; leave {', '.join(changed)} out, or use "
                "exact_match.",
            ),
            (
                self.template.masked,
                f"{where}: a text is generated by the causal readout; leave the masked template out.",
            ),
        )

    def _check_readout(self, kind: str, where: str) -> None:
        template, words = getattr(self.template, kind), getattr(self.label_words, kind)
        if template is not None:
            check_template(template, kind, self.text, where)
        if words is None:
            return
        if len(words) != len(self.labels):
            raise BadInput(
                f"{where}: there are {len(words)} {kind} label words for {len(self.labels)} labels; "
                f"give one for each of {_listed(self.labels)}."
            )
        if "" in words or len(set(words)) != len(words):
            raise BadInput(f"{where}: the {kind} label words {_listed(words)} must be different and not empty.")

    @property
    def pair(self) -> bool:
        """True if an example has two texts."""
        return len(self.text) == 2

    def limit(self, readout: str) -> int | None:
        """Longest input in tokens for a readout, None if the task does not state it."""
        return self.max_length_causal or self.max_length if readout == "causal" else self.max_length

    def refuse_readout(self, readout: str) -> None:
        """Raises BadInput for a readout that cannot score the task with any template."""
        if self.kind == GENERATION and readout != "causal":
            raise BadInput(
                f"task '{self.name}' has its answer generated, which the {readout} readout cannot do; use the causal "
                "readout (--readout causal) and a model that generates text."
                if self.generates
                else f"task '{self.name}' takes the likelihood of references, which the {readout} readout cannot; use "
                "the causal readout (--readout causal) and a model that generates text."
            )
        if self.kind == CHOICE and readout != "causal":
            raise BadInput(
                f"task '{self.name}' has options of its own for each example, and the {readout} readout knows fixed "
                "classes only; use the causal readout (--readout causal) and a model that generates text."
            )

    def wording(self, readout: str) -> tuple[str, tuple[str, ...]]:
        """Template and label words of the `prompt` or `causal` readout; raises BadInput if absent.

        There are no words if each example has its own options or a reference.
        """
        self.refuse_readout(readout)
        kind = "masked" if readout == "prompt" else "causal"
        template, words = getattr(self.template, kind), getattr(self.label_words, kind)
        if not self.has_classes:
            words = ()
        missing = "template" if template is None else "label_words" if words is None else None
        if missing:
            raise BadInput(
                f"task '{self.name}' has no {kind} {missing}, which the {readout} readout needs; "
                f"add '{missing}: {{{kind}: ...}}' to its file, or use another readout."
            )
        return template, words


def _listed(names: Any) -> str:
    return ", ".join(f"'{n}'" for n in names) or "(none)"


def common_metric(tasks: Sequence[Task]) -> Metric:
    """The metric that sets the scale for all the tasks, the first task's; raises BadInput if their scales differ."""
    rows = [metric_row(task.metric) for task in tasks]
    if len({(row.unit, row.better, row.in_logs) for row in rows}) > 1:
        each = ", ".join(f"{task.name}: {row.title}" for task, row in zip(tasks, rows, strict=True))
        raise BadInput(
            f"the tasks' metrics have different scales ({each}), so no mean of them can choose the best step; name "
            "tasks of one scale, or train them one after the other (recipe continual)."
        )
    return rows[0]
