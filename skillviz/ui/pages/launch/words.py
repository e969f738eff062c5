"""What the form of a new localization says: sentences computed from the choices. No widgets here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from skillviz.core import formats
from skillviz.core.localizers.table import LOCALIZERS, Localizer, Value
from skillviz.errors import BadInput
from skillviz.models.local_models import LocalModel
from skillviz.plots.theme import localizer_style
from skillviz.runs.estimate import Estimate
from skillviz.runs.spec import RunSpec
from skillviz.show import text

LEAST = {"max_train": 128, "max_validation": 100, "max_test": 100}  # examples with which a trial still says something
SPLIT = {"max_train": "train", "max_validation": "validation", "max_test": "test"}
MOST_SEEDS = 20
PAPER_SHARE = 1e-4
PAPER_STEPS, PAPER_BATCH, PAPER_SHOTS = 100, 1024, (64, 4096)
OPENING = (
    "A localization finds the small region of parameters that carries what fine-tuning taught. Choose two models, a "
    "task and a way to search; what does not fit is said beside it. The job goes on without this page."
)
READOUTS = {
    "prompt": "label words at the mask",
    "head": "classification head",
    "causal": "likelihood of the answers",
}


def read_seeds(typed: str) -> tuple[int, ...]:
    """The seeds of `0`, `0, 1, 5` or `0-4`, each once; raises BadInput."""
    seeds: list[int] = []
    for word in re.split(r"[,;\s]+", typed.strip()):
        ends = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", word)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if not first <= last < first + MOST_SEEDS:
            raise BadInput(f"'{word}' is no seed; give whole numbers from 0, such as 0, or 0, 1, 2, or 0-4.")
        seeds += range(first, last + 1)
    if len(set(seeds)) > MOST_SEEDS:
        raise BadInput(f"these are {len(set(seeds))} seeds, a job each; at most {MOST_SEEDS} at a time.")
    return tuple(dict.fromkeys(seeds))


def trial_caps(counts: Mapping[str, int]) -> dict[str, int]:
    """A hundredth of each split, but as many examples as a trial needs to say anything."""
    return {cap: max(least, counts.get(SPLIT[cap], 0) // 100) for cap, least in LEAST.items()}


def trial(counts: Mapping[str, int], caps: Mapping[str, int]) -> str:
    """What the trial uses of what there is."""
    if not counts:
        words = [f"{most:,} {SPLIT[cap]}" for cap, most in caps.items()]
        return f"Uses at most {formats.listed(words, 3)} examples: the data are not here yet, so they are not counted."
    words = [
        f"{min(most, counts[SPLIT[cap]]):,} of {counts[SPLIT[cap]]:,} {SPLIT[cap]}"
        for cap, most in caps.items()
        if SPLIT[cap] in counts
    ]
    return f"Uses {formats.listed(words, 3)} examples: too few for a claim, enough to see that everything works."


def model(local: LocalModel) -> str:
    """A model of this machine in a box: `minilm-l6 (bert, 87 MiB)`."""
    kind = "adapter" if local.is_adapter else local.model_type or "unknown family"
    return f"{local.name} ({kind}, {formats.byte_size(local.bytes)})"


def summary(spec: RunSpec, task: str, sizes: Sequence[int], d: int | None, jobs: int) -> str:
    """What pressing the button does, in one sentence."""
    row = LOCALIZERS[spec.localizer]
    name = localizer_style(spec.localizer).title
    shares = [f"{size:,} ({formats.share(size / d)})" for size in sizes] if d and sizes else list(spec.sizes)
    what = f"a region of **{formats.listed(shares, 4)}**" if row.budgeted else "a region whose size is an outcome"
    of = f" of {d:,} graftable parameters" if d else ""
    runs = "" if jobs == 1 else f", {jobs} times with different seeds"
    pair = f"{text.last_part(spec.base)} → {text.last_part(spec.finetuned)}"
    return f"**{name}** will look for {what}{of} in *{text.plain(pair)}*, task *{text.plain(task)}*{runs}."


def expected(duration: Estimate, jobs: int, free: int, queued: int) -> str:
    """Time and memory, as far as they can be told before."""
    each = " each" if jobs > 1 else ""
    whole = f", {formats.rough_seconds(duration.seconds * jobs)} in all, one after the other" if jobs > 1 else ""
    how = (
        f"as {formats.counted(duration.runs, 'finished run')} took"
        if duration.runs
        else "rough: nothing was measured here yet"
    )
    waits = f" {formats.counted(queued, 'job')} will be done before." if queued else ""
    return (
        f"About **{formats.rough_seconds(duration.seconds)}**{each}{whole}, and "
        f"**{formats.byte_size(duration.bytes)}** of memory of {formats.byte_size(free)} that are free ({how}).{waits}"
    )


def paper(spec: RunSpec, shares: Sequence[float], readout: str, counts: Mapping[str, int]) -> list[str]:
    """Where these choices differ from the paper's, a sentence each."""
    row = LOCALIZERS[spec.localizer]
    return [*_method(spec, row, shares), *_data(spec, counts), *_asked(readout)]


def _method(spec: RunSpec, row: Localizer, shares: Sequence[float]) -> list[str]:
    name = localizer_style(spec.localizer).title
    if spec.localizer == "learned":
        given = {**spec.options, "steps": spec.steps, "batch_size": spec.batch_size}
        return [_option(o.title, v, o.paper) for o in row.shown_options if (v := _value(given, o)) != o.paper]
    role = "is a comparison there" if row.is_from_paper else "is skillviz's own"
    keeps = "keeps to the size" if row.budgeted else "has a size of its own"
    sentences = [f"Localizer: the paper learns a mask whose size is an outcome; {name} {role} and {keeps}."]
    if row.rest == "zero":
        sentences.append(
            "This is a control: outside the region the model is zero, so it is no graft and cannot be exported."
        )
    steps, batch = row.option("steps"), row.option("batch_size")
    if steps and batch:
        here = f"{spec.steps or steps.default} steps of {spec.batch_size or batch.default} examples"
        sentences.append(f"Search: {here} here, {PAPER_STEPS} steps of {PAPER_BATCH:,} in the paper.")
    if shares and not PAPER_SHARE / 2 <= shares[0] <= PAPER_SHARE * 2:
        sentences.append(
            f"Size: {formats.share(shares[0])} here, about {formats.share(PAPER_SHARE)} of RoBERTa-base in the "
            f"paper; a "
            "smaller model needs a larger share."
        )
    return sentences


def _value(given: Mapping[str, Any], option: Any) -> Value:
    value = given.get(option.name)
    return option.default if value is None else value


def _option(title: str, here: Value, there: Value | None) -> str:
    words = [f"{value:,}" if isinstance(value, int) else f"{value}" for value in (here, there)]
    return f"{title}: {words[0]} here, {words[1]} in the paper."


def _data(spec: RunSpec, counts: Mapping[str, int]) -> list[str]:
    if spec.k_shot in PAPER_SHOTS:
        return []
    here = f"{spec.k_shot:,} a class" if spec.k_shot else f"all {counts['train']:,}" if counts else "all there are"
    shots = " or ".join(f"{shots:,}" for shots in PAPER_SHOTS)
    return [f"Training examples: {here} here, {shots} a class in the paper, over five drawn sets."]


def _asked(readout: str) -> list[str]:
    if readout != "head":
        return []
    return ["Readout: a classification head here; the paper mostly reads label words off the language model's own."]
