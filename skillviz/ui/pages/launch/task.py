"""Which task: of the demo world, known by name, a file, or uploaded; and how class scores are read off the models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.errors import SkillvizError
from skillviz.models.heads import READOUTS
from skillviz.models.tokenizer import words_problem
from skillviz.runs import quota
from skillviz.show import text
from skillviz.show.entries import READOUT_TITLES
from skillviz.show.glossary import about
from skillviz.tasks import registry, uploaded
from skillviz.tasks.task import GENERATION, Hub, Task
from skillviz.tasks.template import parse, places, rendered
from skillviz.tasks.uploaded import ASIDE, Draft, Upload, are_indices, classes_of, guessed, save
from skillviz.tasks.user_file import FORMATS
from skillviz.ui import address, cache, controls, form, sign_in, visitor
from skillviz.ui.action import action
from skillviz.ui.pages.launch.models import Choices

TASKS = "tasks"  # a folder of the user's store
SOURCES = {"demo": "demo world", "known": "known task", "file": "task file", "upload": "upload data"}
SAVED, PROBLEM = "upload.saved", "upload.problem"
SPLITS = {
    "train": ("Training data", "Required. The search uses these."),
    "test": ("Test data", f"Without it one row in {ASIDE} of the training data is set aside."),
    "validation": ("Validation data", "Without it, a tenth of the training data is used."),
}
MASKED, CAUSAL = "{text} It was <mask>.", "{text} It was"
MASKED_PAIR, CAUSAL_PAIR = "{a} ? <mask>, {b}", "{a} {b} This is"
SHOWN = 5  # rows of the preview


def task(choices: Choices) -> None:
    """The task, and how class scores are read off the models."""
    with st.container(border=True):
        st.markdown("## 2 · Task", help="The examples that show the skill, and how the model reads them.")
        sources = [name for name in SOURCES if name != "demo" or choices.world is not None]
        first = "demo" if choices.demo else "known"
        if sentence := st.session_state.pop(SAVED, ""):
            st.success(text.plain(sentence), icon=":material/task_alt:")
        source = controls.segments(
            "new.source", "Task from", sources, first, shown=SOURCES.__getitem__,
            help="The demo world's tasks and the paper's (known), a task file of your own, or CSV or JSONL files that "
            "you upload here.",
        )  # fmt: skip
        name = _TASK_FIELDS[source](choices)
        choices.values["task"] = name or "-"
        if not name:
            choices.still("Choose a task." if source != "upload" else "Upload data and save them as a task.")
            return
        try:
            choices.task = visitor.task(name)
        except SkillvizError as error:
            choices.refuse(sign_in.sentence_of(error))
            return
        _readout(choices, choices.task)
        _show_task(choices.task, choices.readout)


def _demo_task(choices: Choices) -> str:
    assert choices.world is not None
    by_name = {entry.name: entry for entry in choices.world.tasks}
    first = choices.demo.task if choices.demo else next(iter(by_name))
    name = controls.select(
        "new.demo-task", "Task", list(by_name), first, shown=lambda n: f"{by_name[n].title or n}",
        help="The pair's own task, or another one. A pair with a classification head needs a task with the same "
            "labels.",
    )  # fmt: skip
    return by_name[name].file


def _known_task(choices: Choices) -> str:
    titles = {name: task.title or name for name, task in registry.TASKS.items()}
    name = controls.select(
        "new.known", "Task", list(titles), choices.known or "sst2", shown=titles.__getitem__,
        help="The tasks of the paper. Their data come from the Hugging Face hub, or from its local cache.",
    )  # fmt: skip
    data = registry.TASKS[name].data
    if isinstance(data, Hub):
        st.caption(f"Data: {text.plain(data.title)} on the hub; the job downloads what is not in the local cache.")
    return name


def _task_file(choices: Choices) -> str:
    files = [str(path) for path in uploaded.saved(cache.user_store().root / TASKS)]
    chosen = form.box(
        "new.file", "Task file", files, files[0] if files else "",
        shown=lambda path: path if path not in files else text.last_part(path.removesuffix(f"/{uploaded.FILE}")),
        help="A YAML file beside your data (docs/add-a-task.md): one of those you uploaded, or type its path.",
        names_files=True,
    )  # fmt: skip
    _show_problem()
    if chosen in files and action("Delete this task", key="task.delete", icon=":material/delete:", type="tertiary"):
        _confirm_delete(chosen)
    return chosen


@st.dialog("Delete for good?")
def _confirm_delete(file: str) -> None:
    """Asks before an uploaded task is deleted; there is no way back."""
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
    new_task(cache.user_store().root / TASKS)
    return ""


_TASK_FIELDS = {"demo": _demo_task, "known": _known_task, "file": _task_file, "upload": _upload}


def _readout(choices: Choices, task: Task) -> None:
    """The readout, among those that the pair allows, and what it or the task's labels do not fit."""
    headers = choices.preflight
    if headers is None or not headers.fits:
        return
    pair = (choices.values["base"], choices.values["finetuned"])
    why = {name: next(iter(cache.preflight(*pair, readout=name).problems), "") for name in READOUTS}
    allowed = ["auto", *(name for name in READOUTS if not why[name])]
    chosen = controls.segments(
        "new.readout", "How class scores are read", allowed, "auto", help=about("readout"),
        shown={"auto": f"automatic: {READOUT_TITLES[headers.readout]}", **READOUT_TITLES}.__getitem__,
    )  # fmt: skip
    choices.values["readout"] = None if chosen == "auto" else chosen
    choices.readout = headers.readout if chosen == "auto" else chosen
    fits = cache.preflight(*pair, task=choices.values["task"], readout=choices.values["readout"])
    for problem in (*fits.problems, words_problem(task, choices.readout, headers.tokenizer_folder)):
        if problem:
            choices.refuse(problem)
    refused = {READOUT_TITLES[name]: text.plain(reason) for name, reason in why.items() if reason}
    if refused:
        reasons = "\n\n".join(f"**{title}**: {reason}" for title, reason in refused.items())
        st.caption(f"Unavailable for this pair: {formats.listed(list(refused), 3)}.", help=reasons)


def _show_task(task: Task, readout: str) -> None:
    """The task in a line: its classes, and the prompt with its answers; or that examples have their own options."""
    kind = {"prompt": "masked", "causal": "causal"}.get(readout, "")
    template, words = (getattr(part, kind, None) for part in (task.template, task.label_words))
    classes = formats.listed([text.plain(name) for name in task.labels], 14)
    prompt = f" Prompt: “{text.plain(template)}”" if template else ""
    answers = ", ".join(f"{a} for {b}" for a, b in zip(words or (), task.labels, strict=False))
    if task.kind == GENERATION:
        st.caption(
            f"The answer is generated, up to {task.max_new_tokens} tokens, and compared with a reference.{prompt}"
        )
        return
    if not task.has_classes:
        st.caption(f"Each example has its own options, up to {len(task.labels)}.{prompt}")
        return
    st.caption(f"Classes: {classes}.{prompt}{f', answers: {text.plain(answers)}.' if prompt and answers else ''}")


def new_task(root: Path) -> None:
    """Draws the upload, from the files to the button that writes the task under `root`."""
    limit = st.get_option("server.maxUploadSize")
    st.caption(
        f"CSV, TSV, JSON, JSONL or Parquet, at most {limit} MB a file. The files stay on this machine: they go to "
        f"`{root}`, with a task file beside them."
    )
    kinds = [kind.removeprefix(".") for kind in FORMATS]
    files = {}
    for split, (title, help) in SPLITS.items():
        if file := st.file_uploader(title, kinds, key=f"upload.{split}", help=help, max_upload_size=limit):
            files[split] = file
    if "train" not in files:
        return
    try:
        rows = cache.rows(*_read_upload(files["train"]))
        draft = _draft(rows, {split: _read_upload(file)[1] for split, file in files.items()})
    except SkillvizError as error:
        st.error(text.plain(sign_in.sentence_of(error)), icon=":material/error:")
        return
    _preview(rows, draft)
    _show_problem()
    st.button("Check and save as a task", on_click=_save, args=(draft, root), icon=":material/task_alt:")


def _show_problem() -> None:
    """Says once why the last task was not saved or deleted."""
    if problem := st.session_state.pop(PROBLEM, ""):
        st.error(text.plain(problem), icon=":material/error:")


def _read_upload(values: object) -> tuple[str, Upload]:
    """What Streamlit holds, as what the task's code takes, and a name for its content."""
    return str(values.file_id), Upload(str(values.name), values.getvalue())  # type: ignore[attr-defined]


def _draft(rows: pd.DataFrame, files: Mapping[str, Upload]) -> Draft:
    """The fields that say which column is what; raises BadData where the label column cannot hold classes."""
    columns = [str(name) for name in rows]
    texts, label = guessed(rows)
    name = st.text_input(
        "Name of the task", _name(files["train"].name), key=_key("name", files), max_chars=60,
        help="*Task file* lists it under this name. Allowed: letters, digits, dashes, underscores and dots.",
    )  # fmt: skip
    chosen = st.multiselect(
        "Text columns", columns, list(texts), key=_key("text", files), max_selections=2,
        help="One column, or two for pairs of sentences: the first is {a} in a template, the second {b}.",
    )  # fmt: skip
    column = st.selectbox(
        "Label column", columns, columns.index(label), key=_key("label", files), help="The column with the class."
    )
    values = classes_of(rows, column)
    drop = st.multiselect(
        "Leave out rows labeled", values, key=_key(f"drop.{column}", files), help="Labels that are not a class."
    )
    values_left = [value for value in values if value not in drop]
    labels, words = _classes(values_left, column, files)
    masked, causal = _templates(len(chosen) == 2, files)
    metric, positive = _metric(labels, files)
    return Draft(
        name.strip(), files, tuple(chosen), column, labels, tuple(drop), masked, causal, words, metric, positive
    )


def _classes(values: list[str], column: str, files: Mapping[str, Upload]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the classes, and the word that answers for each."""
    st.caption("Classes in their order, each with the word that a language model answers with.")
    names, words = [], []
    for place, value in enumerate(values):
        left, right = st.columns(2)
        key = f"{column}.{place}.{value}"
        if are_indices(values):
            help = "The name of this number; where a head has the same names in another order, they are matched."
            names.append(left.text_input(f"Class {value}", value, key=_key(f"name.{key}", files), help=help).strip())
        else:
            left.text_input(f"Class {place}", value, disabled=True, key=_key(f"name.{key}", files))
            names.append(value)
        words.append(right.text_input(f"Word for {value}", key=_key(f"word.{key}", files), max_chars=60).strip())
    if not any(words):
        st.info(
            "Leave the words empty if your model has a classification head. Any other model, such as those of the demo "
            "world, needs one word per class. A saved task cannot be changed.",
            icon=":material/spellcheck:",
        )
    return tuple(names), tuple(words) if any(words) else ()


def _templates(is_pair: bool, files: Mapping[str, Upload]) -> tuple[str, str]:
    masked, causal = (MASKED_PAIR, CAUSAL_PAIR) if is_pair else (MASKED, CAUSAL)
    kind = "pair" if is_pair else "one"
    return (
        st.text_input(
            "Template for masked models", masked, key=_key(f"masked.{kind}", files),
            help="How the text is asked about; <mask> is where the word is read. Empty: not for such models.",
        ).strip(),
        st.text_input(
            "Template for causal models", causal, key=_key(f"causal.{kind}", files),
            help="It ends where the answer begins. Empty: not for such models.",
        ).strip(),
    )  # fmt: skip


def _metric(labels: tuple[str, ...], files: Mapping[str, Upload]) -> tuple[str, str]:
    metrics = ["accuracy", "f1"] if len(labels) == 2 else ["accuracy"]
    metric = st.selectbox("Metric", metrics, key=_key("metric", files), help="F1 is of one class, with two classes.")
    if metric != "f1":
        return "accuracy", ""
    return "f1", st.selectbox("F1 of the class", labels, index=len(labels) - 1, key=_key("positive", files))


def _preview(rows: pd.DataFrame, draft: Draft) -> None:
    """The first rows as they are, and the first one as a model reads it."""
    shown = [name for name in (*draft.text, draft.label) if name in rows]
    st.dataframe(rows[shown].head(SHOWN), hide_index=True, alt=f"The first {SHOWN} rows of the training data")
    by = uploaded.separated_by(draft.files["train"])
    columns = f", with columns separated by {by}" if by else ""
    st.caption(f"The first {min(SHOWN, len(rows))} of {len(rows):,} rows{columns}.")
    if not draft.text:
        st.warning("Choose a text column: a task needs one, beside the label's.", icon=":material/error:")
        return
    for template in filter(None, (draft.masked, draft.causal)):
        try:
            parts = parse(template, draft.text)
            cells = [place.filled(str(rows[draft.text[place.field]].iloc[0])) for place in places(parts)]
        except SkillvizError as error:
            st.warning(text.plain(sign_in.sentence_of(error)))
            continue
        st.caption(f"The first row as the model reads it: {text.plain(rendered(parts, cells, '<mask>')[:300])}")


def _save(draft: Draft, root: Path) -> None:
    """Writes the task, and chooses it; nothing that was typed is lost where that cannot be done."""
    try:
        quota.refuse(cache.user_store().root)
        path, splits = save(draft, root)
    except SkillvizError as error:
        st.session_state[PROBLEM] = sign_in.sentence_of(error)
        return
    counts = f"{len(splits.train):,} train, {len(splits.validation):,} validation and {len(splits.test):,} test"
    st.session_state[SAVED] = f"The task '{draft.name}' is saved in {path}: {counts} examples."
    form.assign("new.file", str(path))
    controls.assign("new.source", "file")
    address.keep("new.source", "file")


def _key(name: str, files: Mapping[str, Upload]) -> str:
    """A field's key; another file begins with other fields."""
    return f"upload.{name}.{files['train'].name}.{len(files['train'].content)}"


def _name(file: str) -> str:
    """A name for a task after its file: letters, digits and dashes."""
    stem = Path(file).stem.lower()
    return "".join(sign if sign.isalnum() else "-" for sign in stem).strip("-")[:60] or "mine"
