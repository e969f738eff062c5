"""The verdict of the region page: does it matter which parameters are in the region?"""

from __future__ import annotations

from skillviz.runs.run import Run
from skillviz.show.control import beside_control, beside_finetuned, control_of
from skillviz.show.entries import headline_split
from skillviz.ui import cache, page
from skillviz.ui.chip import judged_text


def verdict(run: Run) -> str:
    """The verdict on the graft against a control of its size, or if none is stored the fine-tuned model, in Markdown.

    Empty if there is no paired difference."""
    entries, split = cache.entries(), headline_split(run.record)
    control = control_of(entries, next(entry for entry in entries if entry.id == run.id))
    judged = None
    if control is not None:
        with page.explained():
            other = cache.run(control.id)
            tables = [cache.stored_table(one, "predictions") for one in (run, other)]
        judged = cache.computed(
            ("beside control", split), [run, other],
            lambda: beside_control(run.record, tables[0], control, tables[1], split),
        )  # fmt: skip
    scores = run.record.metrics.get(split)
    if judged is None and scores is not None:
        judged = beside_finetuned(run.record, scores)
    return judged_text(judged) if judged else ""
