"""The task of a new run (an example, known, a file, or uploaded), and the readout of class scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.core.metrics import OF_TEXT, has_predictions, metric_heading
from skillviz.errors import BadInput, SkillvizError
from skillviz.models.heads import READOUTS
from skillviz.models.tokenizer import most_tokens, words_problem
from skillviz.serving import quota, sign_in, uploads, visitor
from skillviz.show import text
from skillviz.show.briefs import READOUT_TITLES
from skillviz.show.glossary import about
from skillviz.tasks import registry, uploaded
from skillviz.tasks.reading import FORMATS
from skillviz.tasks.task import CHOICE, CLASSIFICATION, GENERATION, USUAL_LENGTH, Hub, Task
from skillviz.tasks.template import parse, places, rendered
from skillviz.tasks.uploaded import ASIDE, Columns, Draft, Upload, UploadedRows
from skillviz.ui import address, cache, controls, form
from skillviz.ui.controls import action
from skillviz.ui.other_tasks import reference
from skillviz.ui.pages.launch.models import Choices

TASKS = "tasks"  # a folder in the user's store
SOURCES = {"example": "example task", "known": "known task", "file": "task file", "upload": "upload data"}
SAVED, PROBLEM = "upload.saved", "upload.problem"
SPLITS = {
    "train": ("Training data", "Required. The search uses these."),
    "test": ("Test data", f"Without it one row in {ASIDE} of the training data is set aside."),
    "validation": ("Validation data", "Without it, a tenth of the training data is used."),
}
KINDS = {CLASSIFICATION: "a class", CHOICE: "options", GENERATION: "an answer to write"}
TEMPLATES = {"masked": ("{text} It was <mask>.", "{a} ? <mask>, {b}"), "causal": ("{text} It was", "{a} {b} This is")}
UNCUED = ("{text}", "{a} {b}")  # causal templates without a cue, for answers that are not label words
GIVEN = {"label": "its letter, or its number from 0", "answer": "its text"}
HOW, MOST_NEW = "How an answer ends and is compared", "Most new tokens"
STOPS = {"end_of_text": "the end-of-text token", "newline": "a line break"}
SHOWN = 5  # rows of the preview
READ = 300  # characters of the rendered row in the preview


def task(choices: Choices) -> None:
    """Draws the choice of the task and of the readout."""
    with st.container(border=True):
        st.markdown("## 2 · Task", help="The examples that show the skill, and how the model reads them.")
        sources = [name for name in SOURCES if name != "example" or cache.example_tasks()]
        first = "example" if choices.example else "known" if choices.known else "file"
        if sentence := st.session_state.pop(SAVED, ""):
            st.success(text.plain(sentence), icon=":material/task_alt:")
        source = controls.segments(
            "new.source", "Task from", sources, first, shown=SOURCES.__getitem__, follows=True,
            help="The examples' tasks, the paper's (known), a task file of your own, or CSV or JSONL files that "
            "you upload here.",
        )  # fmt: skip
        name = _TASK_FIELDS[source](choices)
        choices.values["task"] = name or "-"
        if not name:
            choices.still("Choose a task." if source != "upload" else "Upload data and save them as a task.")
            return
        try:
            choices.task = visitor.task(name)
            choices.task.refuse_without_training()
        except SkillvizError as error:
            choices.refuse(sign_in.sentence_of(error))
            return
        _readout(choices, choices.task)
        _show_task(choices.task, choices.readout)


def _example_task(choices: Choices) -> str:
    titles = {reference(task): task.title for task in cache.example_tasks() if task.has_training}
    return _own_or_none(
        "new.example-task", titles, choices.example.task if choices.example else "",
        help="The pair's own task, or another one. A pair with a classification head needs a task with the same "
            "labels.",
    )  # fmt: skip


def _known_task(choices: Choices) -> str:
    titles = {name: task.title or name for name, task in registry.TASKS.items()}
    name = _own_or_none(
        "new.known", titles, choices.known,
        help="The tasks of the paper. Their data come from the Hugging Face hub, or from its local cache.",
    )  # fmt: skip
    if not name:
        return ""
    data = registry.TASKS[name].data
    if isinstance(data, Hub):
        st.caption(f"Data: {text.plain(data.title)} on the hub; the job downloads what is not in the local cache.")
    return name


def _own_or_none(name: str, titles: Mapping[str, str], own: str, help: str) -> str:
    """The chosen task, by default the pair's `own`; empty if the pair has none and the user has chosen none."""
    offered = list(titles) if own else [form.NONE, *titles]
    first = own or form.NONE
    chosen = controls.select(
        name, "Task", offered, first, shown=lambda n: titles.get(n, "choose a task"), help=help, follows=True
    )
    return "" if chosen == form.NONE else chosen


def _task_file(choices: Choices) -> str:
    files = [str(path) for path in uploaded.saved(cache.user_store().root / TASKS)]
    chosen = form.box(
        "new.file", "Task file", files, "",
        shown=lambda path: path if path not in files else text.last_part(path.removesuffix(f"/{uploaded.FILE}")),
        help="A YAML file beside your data (docs/add-a-task.md): one of those you uploaded, or type its path.",
        names_files=True,
    )  # fmt: skip
    show_problem()
    if chosen in files and action("Delete this task", key="task.delete", icon=":material/delete:", type="tertiary"):
        _confirm_delete(chosen)
    return chosen


@st.dialog("Delete for good?")
def _confirm_delete(file: str) -> None:
    """Asks for confirmation before an uploaded task is deleted for good."""
    name = text.plain(text.last_part(file.removesuffix(f"/{uploaded.FILE}")))
    st.markdown(
        f"This removes the task **{name}** and the data that you uploaded for it. Runs on it stay, without their texts."
    )
    with st.container(horizontal=True):
        gone = action("Delete for good", type="primary", on_click=_delete, args=(file,))
        if st.button("Keep") or gone:
            st.rerun()


def _delete(file: str) -> None:
    try:
        uploaded.delete(Path(file), cache.user_store().root / TASKS)
    except SkillvizError as error:
        st.session_state[PROBLEM] = sign_in.sentence_of(error)
    form.assign("new.file", "")


def _upload(choices: Choices) -> str:
    pair = choices.preflight
    new_task(cache.user_store().root / TASKS, pair.tokenizer_folder if pair is not None and pair.fits else None)
    return ""


_TASK_FIELDS = {"example": _example_task, "known": _known_task, "file": _task_file, "upload": _upload}


def _readout(choices: Choices, task: Task) -> None:
    """Draws the choice of a readout that the pair allows, and shows why it does not fit the pair or the task."""
    headers = choices.preflight
    if headers is None or not headers.fits:
        return
    pair = (choices.values["base"], choices.values["finetuned"])
    why = {name: next(iter(cache.preflight(*pair, readout=name).problems), "") for name in READOUTS}
    allowed = ["auto", *(name for name in READOUTS if not why[name])]
    if task.has_classes:
        chosen = controls.segments(
            "new.readout", "How class scores are read", allowed, "auto", help=about("readout"),
            shown={"auto": f"automatic: {READOUT_TITLES[headers.readout]}", **READOUT_TITLES}.__getitem__,
        )  # fmt: skip
    else:  # no choice: only the causal readout can score it
        chosen = "causal" if headers.readout != "causal" and "causal" in allowed else "auto"
    choices.values["readout"] = None if chosen == "auto" else chosen
    choices.readout = headers.readout if chosen == "auto" else chosen
    fits = cache.preflight(*pair, task=choices.values["task"], readout=choices.values["readout"])
    for problem in (*fits.problems, words_problem(task, choices.readout, headers.tokenizer_folder)):
        if problem:
            choices.refuse(problem)
    refused = {READOUT_TITLES[name]: text.plain(reason) for name, reason in why.items() if reason}
    if refused and task.has_classes:
        reasons = "\n\n".join(f"**{title}**: {reason}" for title, reason in refused.items())
        st.caption(f"Unavailable for this pair: {formats.listed(list(refused), 3)}.", help=reasons)


def _show_task(task: Task, readout: str) -> None:
    """Draws the task's classes and its prompt with the answers; or a note that examples have their own options."""
    kind = {"prompt": "masked", "causal": "causal"}.get(readout, "")
    template, words = (getattr(part, kind, None) for part in (task.template, task.label_words))
    classes = formats.listed([text.plain(name) for name in task.labels], 14)
    prompt = f" Prompt: “{text.plain(template)}”" if template else ""
    answers = ", ".join(f"{a} for {b}" for a, b in zip(words or (), task.labels, strict=False))
    if task.kind == GENERATION:
        generated = f"The answer is generated, up to {task.max_new_tokens} tokens, and compared with a reference."
        scored = "Nothing is generated: the task is scored by the perplexity of its references."
        st.caption(f"{generated if task.generates else scored}{prompt}")
        return
    if not task.has_classes:
        st.caption(f"Each example has its own options, up to {len(task.labels)}.{prompt}")
        return
    st.caption(f"Classes: {classes}.{prompt}{f', answers: {text.plain(answers)}.' if prompt and answers else ''}")


def new_task(root: Path, tokenizer: Path | None = None) -> None:
    """Draws the upload, from the files to the button that writes the task under `root`.

    `tokenizer` is the folder of the chosen pair's tokenizer, if a pair is chosen; it counts the tokens of answers.
    """
    limit = st.get_option("server.maxUploadSize")
    st.caption(
        f"CSV, TSV, JSON, JSONL or Parquet, at most {limit} MB a file. The rows stay on this machine: they go to "
        f"`{root}`, with a task file beside them."
    )
    kinds = [kind.removeprefix(".") for kind in FORMATS]
    files, owner = {}, sign_in.owner()
    for split, (title, help) in SPLITS.items():
        if file := uploads.uploader(title, kinds, key=f"upload.{split}", megabytes=limit, owner=owner, help=help):
            files[split] = file
    if "train" not in files:
        return
    try:
        read = cache.rows(*_read_upload(files["train"]))
        draft = _draft(read.frame, {split: _read_upload(file)[1] for split, file in files.items()})
    except SkillvizError as error:
        st.error(text.plain(sign_in.sentence_of(error)), icon=":material/error:")
        return
    _preview(read, draft)
    if "max_new_tokens" in draft.values:
        _warn_of_long([cache.rows(*_read_upload(file)).frame for file in files.values()], draft, tokenizer)
    show_problem()
    st.button("Check and save as a task", on_click=_save, args=(draft, root), icon=":material/task_alt:")


def show_problem() -> None:
    """Shows once why the last task was not saved or deleted."""
    if problem := st.session_state.pop(PROBLEM, ""):
        st.error(text.plain(problem), icon=":material/error:")


def _read_upload(values: object) -> tuple[str, Upload]:
    """Streamlit's uploaded file as an Upload, with an id of its content."""
    return str(values.file_id), Upload(str(values.name), values.getvalue())  # type: ignore[attr-defined]


def _draft(rows: pd.DataFrame, files: Mapping[str, Upload]) -> Draft:
    """Draws the fields that assign columns to roles; raises BadData if the label column cannot hold classes."""
    name = st.text_input(
        "Name of the task", _name(files["train"].name), key=_key("name", files), max_chars=60,
        help="*Task file* lists it under this name. Allowed: letters, digits, dashes, underscores and dots.",
    )  # fmt: skip
    kind = st.segmented_control(
        "Each row has", list(KINDS), default=uploaded.guessed_kind(rows), required=True, key=_key("kind", files),
        format_func=KINDS.__getitem__,
        help="**A class**: a label that rows share. **Options**: each row brings its own, and one is right. **An "
        "answer to write**: the model generates a text, or is asked how likely yours is. The last two need a model "
        "that generates text.",
    )  # fmt: skip
    found = uploaded.guessed(rows, kind)
    texts = st.multiselect(
        "Text columns", [str(name) for name in rows], list(found.text), key=_key(f"text.{kind}", files),
        max_selections=2, select_all=False,
        help="One column, or two for pairs of sentences: the first is {a} in a template, the second {b}.",
    )  # fmt: skip
    return Draft(name.strip(), files, {"text": tuple(texts), **_FIELDS[kind](rows, found, len(texts) == 2, files)})


def _class_fields(rows: pd.DataFrame, found: Columns, is_pair: bool, files: Mapping[str, Upload]) -> dict[str, Any]:
    column = _column("Label column", rows, found.right, files, "The column with the class.")
    values = uploaded.classes_of(rows, column)
    drop = st.multiselect(
        "Leave out rows labeled", values, key=_key(f"drop.{column}", files), help="Labels that are not a class.",
        select_all=False,
    )  # fmt: skip
    labels, words = _classes([value for value in values if value not in drop], column, files)
    templates = {
        "masked": _template(
            "Template for masked models", TEMPLATES["masked"][is_pair], files,
            "How the text is asked about; <mask> is where the word is read. Empty: not for such models.",
        ),
        "causal": _template(
            "Template for causal models", TEMPLATES["causal"][is_pair], files,
            "It ends where the answer begins. Empty: not for such models.",
        ),
    }  # fmt: skip
    return {
        "label": column, "labels": labels, "drop": tuple(drop), "label_words": words, **_metric(labels, files),
        "template": {kind: template for kind, template in templates.items() if template},
    }  # fmt: skip


def _option_fields(rows: pd.DataFrame, found: Columns, is_pair: bool, files: Mapping[str, Upload]) -> dict[str, Any]:
    options = st.multiselect(
        "Option columns", [str(name) for name in rows], list(found.options), key=_key("options", files),
        help="One column of lists (JSONL or Parquet), or a column for each option, in their order.", select_all=False,
    )  # fmt: skip
    column = _column("Right option", rows, found.right, files, "The column that says which option is right.")
    key = st.segmented_control(
        "The right option is given as", list(GIVEN), required=True, format_func=GIVEN.__getitem__,
        default="answer" if uploaded.is_written_out(rows, options, column) else "label",
        key=_key(f"given.{column}.{options}", files), help="How that column names the right option.",
    )  # fmt: skip
    template = _prompt(is_pair, files)
    if not options:
        raise BadInput("a task with options needs the columns that hold them; choose one of lists, or two and more.")
    return {"options": tuple(options), key: column, "template": template}


def _reference_fields(rows: pd.DataFrame, found: Columns, is_pair: bool, files: Mapping[str, Upload]) -> dict[str, Any]:
    column = _column("Reference column", rows, found.right, files, "The answer that the model should write.")
    template, room = _prompt(is_pair, files), uploaded.room_for(rows, column)
    metric = st.segmented_control(
        "Scored by", list(OF_TEXT), default="exact_match", required=True, key=_key("scored", files),
        format_func=metric_heading,
        help="**Exact match**: the model writes an answer, which is compared with yours; perplexity stands beside it. "
        "**Perplexity**: nothing is written; how likely the model finds your answer is the score, and lower is better.",
    )  # fmt: skip
    generates = has_predictions(metric)
    with st.expander(HOW if generates else "How an answer ends"):
        stop = st.segmented_control(
            "An answer ends at", list(STOPS), default="end_of_text", required=True, format_func=STOPS.__getitem__,
            key=_key("stop", files), help="What your model writes after an answer, as it was fine-tuned.",
        )  # fmt: skip
        compared = _compared(column, room, files) if generates else {}
    more = compared.get("max_new_tokens", room) - int(Task.model_fields["max_new_tokens"].default)
    return {
        "reference": column, "template": template, "stop": stop, "metric": metric, **compared,
        **({"max_length": USUAL_LENGTH + more} if more > 0 else {}),  # a longer answer leaves the prompt its length
    }  # fmt: skip


def _compared(column: str, room: int, files: Mapping[str, Upload]) -> dict[str, Any]:
    """Draws the settings for generated answers: their length, and the differences that are ignored."""
    most = st.number_input(
        MOST_NEW, 1, None, room, key=_key(f"most.{column}", files),
        help="The model stops after this many. The longest reference must fit. The proposal is generous.",
    )  # fmt: skip
    case = st.toggle("Ignore case", key=_key("case", files), help="*Paris* then equals *paris*.")
    signs = st.toggle("Ignore punctuation", key=_key("signs", files), help="*Paris.* then equals *Paris*.")
    return {"max_new_tokens": int(most), "ignore_case": case, "ignore_punctuation": signs}


def _warn_of_long(splits: Sequence[pd.DataFrame], draft: Draft, tokenizer: Path | None) -> None:
    """Shows a warning if the longest reference does not fit, counted in tokens of the chosen pair or else in words."""
    most, references = draft.values["max_new_tokens"], uploaded.longest(splits, draft.values["reference"])
    counted = most_tokens(references, tokenizer) if tokenizer is not None else None
    words = max(len(reference.split()) for reference in references)
    least = counted or words + 1  # few tokenizers encode two words as one token
    if least > most:
        tokens = f"{formats.counted(least, 'token')} with the one that ends it"
        length = (
            f"{tokens} for the chosen models" if counted else f"{formats.counted(words, 'word')}, at least {tokens}"
        )
        st.warning(
            f"The longest reference has {length}. *{MOST_NEW}* is {most}, so no run could start on this task. Raise it "
            f"under *{HOW}*.",
            icon=":material/width:",
        )


_FIELDS: dict[str, Callable[[pd.DataFrame, Columns, bool, Mapping[str, Upload]], dict[str, Any]]] = {
    CLASSIFICATION: _class_fields, CHOICE: _option_fields, GENERATION: _reference_fields,
}  # fmt: skip


def _column(label: str, rows: pd.DataFrame, found: str, files: Mapping[str, Upload], help: str) -> str:
    columns = [str(name) for name in rows]
    return st.selectbox(label, columns, columns.index(found), key=_key(label, files), help=help)


def _template(label: str, first: str, files: Mapping[str, Upload], help: str) -> str:
    return st.text_input(label, first, key=_key(f"{label}.{first}", files), help=help).strip()


def _prompt(is_pair: bool, files: Mapping[str, Upload]) -> dict[str, str]:
    """Draws the template of a task without classes, which only causal models can answer."""
    help = "What the model reads before the answer, as it was fine-tuned. It ends where the answer begins."
    return {"causal": _template("Prompt", UNCUED[is_pair], files, help)}


def _classes(values: list[str], column: str, files: Mapping[str, Upload]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Draws fields for the classes; returns their names, and the answer word of each."""
    st.caption("Classes in their order, each with the word that a language model answers with.")
    names, words = [], []
    for place, value in enumerate(values):
        left, right = st.columns(2)
        key = f"{column}.{place}.{value}"
        if uploaded.are_indices(values):
            help = "The name of this number; where a head has the same names in another order, they are matched."
            names.append(left.text_input(f"Class {value}", value, key=_key(f"name.{key}", files), help=help).strip())
        else:
            left.text_input(f"Class {place}", value, disabled=True, key=_key(f"name.{key}", files))
            names.append(value)
        words.append(right.text_input(f"Word for {value}", key=_key(f"word.{key}", files), max_chars=60).strip())
    if not any(words):
        st.info(
            "Leave the words empty if your model has a classification head. Any other model needs "
            "one word per class. A saved task cannot be changed.",
            icon=":material/spellcheck:",
        )
    return tuple(names), tuple(words) if any(words) else ()


def _metric(labels: tuple[str, ...], files: Mapping[str, Upload]) -> dict[str, str]:
    metrics = ["accuracy", "f1"] if len(labels) == 2 else ["accuracy"]
    metric = st.selectbox("Metric", metrics, key=_key("metric", files), help="F1 is of one class, with two classes.")
    if metric != "f1":
        return {"metric": metric}
    positive = st.selectbox("F1 of the class", labels, index=len(labels) - 1, key=_key("positive", files))
    return {"metric": metric, "positive": positive}


def _preview(read: UploadedRows, draft: Draft) -> None:
    """Draws the first rows as stored, and the first one as a model reads it, with the right answer."""
    rows = read.frame
    shown = [name for name in draft.columns if name in rows]
    st.dataframe(rows[shown].head(SHOWN), hide_index=True, alt=f"The first {SHOWN} rows of the training data")
    columns = f", with columns separated by {read.separated_by}" if read.separated_by else ""
    notes = "".join(f" {formats.capital(note)}." for note in read.notes)
    st.caption(text.plain(f"The first {min(SHOWN, len(rows))} of {len(rows):,} rows{columns}.{notes}"))
    if read.left_out:
        reasons = formats.listed([f"{name} {reason}" for name, reason in read.left_out.items()], SHOWN)
        st.caption(text.plain(f"Columns that a task cannot use: {reasons}."))
    texts = draft.values["text"]
    if not texts:
        st.warning("Choose a text column: a task needs at least one.", icon=":material/error:")
        return
    templates = draft.values["template"]
    for kind, template in templates.items():
        reader = f"a {kind} model" if len(templates) > 1 else "the model"
        try:
            parts = parse(template, texts)
            cells = [place.filled(str(rows[texts[place.field]].iloc[0])) for place in places(parts)]
        except SkillvizError as error:
            st.warning(text.plain(sign_in.sentence_of(error)))
            continue
        st.caption(f"The first row as {reader} reads it: {text.plain(rendered(parts, cells, '<mask>')[:READ])}")
    if "reference" in draft.values:
        st.caption(f"Its reference: {text.plain(_first(rows, draft.values['reference']))}")
    elif options := draft.values.get("options"):
        offered = formats.listed([text.plain(_first(rows, name)) for name in options], SHOWN)
        right = draft.values.get("answer") or draft.values["label"]
        st.caption(f"Its options: {offered}. Right: {text.plain(_first(rows, right))}.")


def _first(rows: pd.DataFrame, column: str) -> str:
    """The first cell of a column, shortened if it is long; a list is joined by commas."""
    cell = rows[column].iloc[0]
    return ", ".join(map(str, cell))[:READ] if isinstance(cell, list) else str(cell).strip()[:READ]


def _save(draft: Draft, root: Path) -> None:
    """Writes the task and selects it; if that fails, the user's entries are kept."""
    try:
        store, size = cache.user_store().root, sum(len(file.content) for file in draft.files.values())
        with quota.room_for(store, size):
            path, splits = uploaded.save(draft, root)
    except SkillvizError as error:
        st.session_state[PROBLEM] = sign_in.sentence_of(error)
        return
    counts = f"{len(splits.train):,} train, {len(splits.validation):,} validation and {len(splits.test):,} test"
    st.session_state[SAVED] = f"The task '{draft.name}' is saved in {path}: {counts} examples."
    form.assign("new.file", str(path))
    controls.assign("new.source", "file")
    address.keep("new.source", "file")


def _key(name: str, files: Mapping[str, Upload]) -> str:
    """A field's key; it depends on the file, so that a new file starts with fresh fields."""
    return f"upload.{name}.{files['train'].name}.{len(files['train'].content)}"


def _name(file: str) -> str:
    """A name for a task, from its file's name: letters, digits and dashes."""
    stem = min((file.lower().removesuffix(ending) for ending in FORMATS), key=len)
    return "".join(sign if sign.isalnum() else "-" for sign in stem).strip("-")[:60] or "mine"
