"""Named sets of test examples: the box that chooses one, and the popover that saves, renames and deletes them."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.analysis.answers import Answers
from skillviz.core import formats
from skillviz.errors import SkillvizError
from skillviz.runs.example_sets import ExampleSet, change_set, example_sets
from skillviz.runs.run import Run
from skillviz.serving import quota, sign_in
from skillviz.show import slices, text
from skillviz.ui import address, cache, controls, page

SET, EVERY = "set", ""
LONGEST = 60  # characters of a name
_NAME, _PROBLEM = "sets.name", "sets.problem"  # session keys


def sets_of(run: Run) -> dict[str, ExampleSet]:
    """The user's sets of the run's task by name; shows an explanation and stops if they cannot be read."""
    with page.explained():
        return example_sets(cache.user_store(), _task(run))


def pair_answers(run: Run, split: str) -> tuple[Answers, Answers]:
    """The answers of graft and fine-tuned model on all examples of a split."""
    predictions = page.stored_table(run, "predictions")
    return cache.computed(("pair answers", split), [run], lambda: slices.pair_answers(predictions, run.record, split))


def chosen_set(run: Run, split: str, place: DeltaGenerator) -> ExampleSet | None:
    """Draws the box of the sets; returns the chosen one, which `place` names, or None if it is not of this split."""
    sets, wanted = sets_of(run), (address.current(SET) or EVERY)[:LONGEST]
    if not sets and not wanted:
        return None
    options = tuple(dict.fromkeys((EVERY, *sets, wanted)))
    name = controls.select(SET, "Named set", options, EVERY, shown=lambda name: name or "every example")
    found = sets.get(name)
    if found is not None and found.examples == pair_answers(run, split)[0].examples:
        why = "The models' answers chose it, so differences between models on it show that choice."
        count = formats.counted(len(found.ids), "example")
        place.caption(f"Set {text.plain(name)}: {count}. {why if found.by_answers else ''}")
        return found
    if name:
        why = "not among your sets of" if found is None else "a set of other examples than these of"
        place.caption(text.plain(f"'{name}' is {why} {_task(run)}, so every example is shown."))
    return None


def saving(run: Run, new: ExampleSet, chosen: ExampleSet | None) -> None:
    """Draws the popover that saves a new set under the typed name, and renames or deletes the chosen one."""
    with st.popover("Save set", icon=":material/bookmark:"):
        st.text_input("Name", key=_NAME, max_chars=LONGEST, placeholder="hard-negatives")
        controls.action(
            f"Save {formats.counted(len(new.ids), 'example')}", on_click=_change, args=(run, EVERY, new),
            disabled=not new.ids, type="primary",
        )  # fmt: skip
        if chosen is not None:
            controls.action(f"Rename {chosen.name}", on_click=_change, args=(run, chosen.name, chosen))
            controls.action(f"Delete {chosen.name}", on_click=_change, args=(run, chosen.name, None))
        st.caption("A set is yours and has these examples in every run with the same test data.")
        if problem := st.session_state.pop(_PROBLEM, ""):
            st.error(text.plain(problem))


def _change(run: Run, name: str, new: ExampleSet | None) -> None:
    """Stores a set under the typed name, or deletes one, and chooses it; the reason is shown if that is refused."""
    typed = st.session_state.get(_NAME, "").strip()
    try:
        if new is not None:
            quota.refuse(cache.user_store().root)
        change_set(cache.user_store(), _task(run), name, new and new.model_copy(update={"name": typed}))
    except SkillvizError as error:
        st.session_state[_PROBLEM] = sign_in.sentence_of(error)
    else:
        st.session_state[_NAME] = ""
        controls.assign(SET, typed if new else EVERY)
        controls.forget("slices")  # by default, they have every set


def _task(run: Run) -> str:
    return run.record.task.name if run.record.task else run.spec.task
