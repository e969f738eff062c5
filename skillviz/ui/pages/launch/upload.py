"""Data of one's own in the form: files, which column is what, a look at the rows, and the task file that is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import streamlit as st

from skillviz.errors import SkillvizError
from skillviz.show import text
from skillviz.tasks.template import parse, places, rendered
from skillviz.tasks.uploaded import ASIDE, Draft, Upload, are_indices, classes_of, guessed, save
from skillviz.tasks.user_file import FORMATS
from skillviz.ui import address, cache, controls
from skillviz.ui import form as fields

SAID, PROBLEM = "upload.said", "upload.problem"
SPLITS = {
    "train": ("Training data", "Needed. The region is searched on these."),
    "test": ("Test data", f"Without it one row in {ASIDE} of the training data is set aside."),
    "validation": ("Validation data", "Without it a tenth of the training data serves."),
}
MASKED, CAUSAL = "{text} It was <mask>.", "{text} It was"
MASKED_PAIR, CAUSAL_PAIR = "{a} ? <mask>, {b}", "{a} {b} This is"
SHOWN = 5  # rows of the preview


def form(root: Path) -> None:
    """Draws the upload, from the files to the button that writes the task under `root`."""
    limit = st.get_option("server.maxUploadSize")
    st.caption(
        f"CSV, TSV, JSON, JSONL or Parquet, at most {limit} MB a file. The files stay on this machine: they go to "
        f"`{root}`, with a task file beside them."
    )
    files = {split: found for split in SPLITS if (found := _file(split, limit))}
    if "train" not in files:
        return
    try:
        rows = cache.rows(*_upload(files["train"]))
        draft = _mapped(rows, {split: _upload(found)[1] for split, found in files.items()})
    except SkillvizError as error:
        st.error(text.plain(str(error.args[0])), icon=":material/error:")
        return
    _preview(rows, draft)
    if problem := st.session_state.pop(PROBLEM, ""):
        st.error(text.plain(problem), icon=":material/error:")
    st.button("Check and keep as a task", on_click=_save, args=(draft, root), icon=":material/task_alt:")


def said() -> None:
    """Says once what was written."""
    if sentence := st.session_state.pop(SAID, ""):
        st.success(text.plain(sentence), icon=":material/task_alt:")


def _file(split: str, limit: int) -> object:
    title, help = SPLITS[split]
    kinds = [kind.removeprefix(".") for kind in FORMATS]
    return st.file_uploader(title, kinds, key=f"upload.{split}", help=help, max_upload_size=limit)


def _upload(found: object) -> tuple[str, Upload]:
    """What Streamlit holds, as what the task's code takes, and a name for its content."""
    return str(found.file_id), Upload(str(found.name), found.getvalue())  # type: ignore[attr-defined]


def _mapped(rows: pd.DataFrame, files: Mapping[str, Upload]) -> Draft:
    """The fields that say which column is what; raises BadData where the label column cannot hold classes."""
    columns = [str(name) for name in rows]
    texts, label = guessed(rows)
    name = st.text_input(
        "Name of the task", _name(files["train"].name), key=_key("name", files), max_chars=60,
        help="Under this name it is offered as a task file from now on: letters, digits, dashes and dots.",
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
        "Leave out rows labelled", values, key=_key(f"drop.{column}", files), help="Labels that are no class."
    )
    kept = [value for value in values if value not in drop]
    labels, words = _classes(kept, column, files)
    masked, causal = _templates(len(chosen) == 2, files)
    metric, positive = _metric(labels, files)
    return Draft(
        name.strip(), files, tuple(chosen), column, labels, tuple(drop), masked, causal, words, metric, positive
    )


def _classes(values: list[str], column: str, files: Mapping[str, Upload]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the classes, and the word that answers for each."""
    st.caption(
        "Classes, in their order, each with a word that a language model may answer with; a model with a "
        "classification head needs no words."
    )
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
            "Without words only a pair with a classification head can be asked: a pair that answers at a mask, as "
            "those of the demo world do, or in words, needs one for each class. A kept task is never overwritten.",
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
    st.caption(f"The first {min(SHOWN, len(rows))} of {len(rows):,} rows.")
    if not draft.text:
        st.warning("Choose a text column: a task needs one, beside the label's.", icon=":material/error:")
        return
    for template in filter(None, (draft.masked, draft.causal)):
        try:
            parts = parse(template, draft.text)
            cells = [place.filled(str(rows[draft.text[place.field]].iloc[0])) for place in places(parts)]
        except SkillvizError as error:
            st.warning(text.plain(str(error.args[0])))
            continue
        st.caption(f"The first row, as it is asked: {text.plain(rendered(parts, cells, '<mask>')[:300])}")


def _save(draft: Draft, root: Path) -> None:
    """Writes the task, and chooses it; nothing that was typed is lost where that cannot be done."""
    try:
        path, splits = save(draft, root)
    except SkillvizError as error:
        st.session_state[PROBLEM] = str(error.args[0])
        return
    counts = f"{len(splits.train):,} train, {len(splits.validation):,} validation and {len(splits.test):,} test"
    st.session_state[SAID] = f"The task '{draft.name}' is kept in {path}: {counts} examples."
    fields.assign("new.file", str(path))
    controls.assign("new.source", "file")
    address.keep("new.source", "file")


def _key(name: str, files: Mapping[str, Upload]) -> str:
    """A field's key; another file begins with other fields."""
    return f"upload.{name}.{files['train'].name}.{len(files['train'].content)}"


def _name(file: str) -> str:
    """A name for a task after its file: letters, digits and dashes."""
    stem = Path(file).stem.lower()
    return "".join(sign if sign.isalnum() else "-" for sign in stem).strip("-")[:60] or "mine"
