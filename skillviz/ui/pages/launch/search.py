"""The second half of the form: the search for the region, its data and its device."""

from __future__ import annotations

import re
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.core import formats
from skillviz.core.localizers.table import DEFAULT_LOCALIZER, EXPRESSION, LOCALIZERS, Localizer, Option, makes_graft
from skillviz.core.nulls import SHUFFLED
from skillviz.core.size import parse_size
from skillviz.errors import BadInput, SkillvizError
from skillviz.jobs.devices import chosen as device_for
from skillviz.plots.theme import localizer_style
from skillviz.runs.plan import refused_generation, refused_graphs, refused_lean
from skillviz.runs.spec import ALL_NULLS, FIT, KINDS, MOST_DRAWS, NO_NULLS
from skillviz.runs.transfer import refuse_unfit
from skillviz.serving import sign_in, visitor
from skillviz.show import text
from skillviz.show.glossary import about
from skillviz.tasks.task import GENERATION
from skillviz.ui import address, cache, controls, form
from skillviz.ui.other_tasks import reference
from skillviz.ui.pages.launch.models import Choices

FIRST = (DEFAULT_LOCALIZER, "movement", "learned")
"""The localizers that are offered without the switch for all of them."""
SIZES = ("0.01%", "0.1%", "1%", "3%", "10%")
USUAL = "0.1%"
MOST_SEEDS = 20
SCORES_PATHS = True  # the page Interpolation is empty without these scores
DTYPES = {"float32": "float32", "bfloat16": "bfloat16", "own": "as in the files"}
COMMON = ("steps", "batch_size")  # fields of a spec that many localizers use


def search(choices: Choices) -> None:
    """Draws the localizer with its options, the sizes and the seeds."""
    with st.container(border=True):
        st.markdown("## 3 · Search", help=about("localizer", "region", "size"))
        names = [name for name in LOCALIZERS if name != EXPRESSION]  # built on the page Surgery
        place_of_box = st.container()
        every = "Other searches, scores without a search, and controls, which are what a region is compared with."
        if not controls.switch("new.every", f"All {len(names)} localizers", False, help=every):
            names = [name for name in names if name in (*FIRST, address.current("new.method"))]
        with place_of_box:
            name = form.one_of(
                "new.method", "Localizer", names, DEFAULT_LOCALIZER, shown=lambda n: localizer_style(n).title,
                help="The method that chooses the region. `stagewise` is the most exact for its time, `top movement` "
                "needs no search, `learned` is the paper's; the others are what these are compared with.",
            )  # fmt: skip
        row = LOCALIZERS[name]
        choices.values["localizer"] = name
        st.caption(row.sentence)
        if choices.task is not None and (error := refused_generation(row, choices.task)) is not None:
            choices.refuse(sign_in.sentence_of(error))
        _sizes(choices, row)
        _seeds(choices, row)
        if row.shown_options:
            place_ = st.container()
            with st.expander("Options of this localizer"):
                _options(choices, row, place_)


def _sizes(choices: Choices, row: Localizer) -> None:
    sizes = form.any_of(
        "new.size", "Region sizes", SIZES, (USUAL,),
        help="A percentage of the graftable parameters (0.1%), a count (10646) or a share (0.001). The first is the "
        "run's region; the others go to its curve.",
    )  # fmt: skip
    choices.values["sizes"] = sizes or (USUAL,)
    if not sizes:
        choices.refuse("Give at least one size.")
    d = choices.preflight.d if choices.preflight else None
    if not d:
        return
    counts = []
    for size in sizes:
        try:
            counts.append(f"{size} is {formats.counted(parse_size(size, d), 'entry')}")
        except SkillvizError as error:
            choices.refuse(sign_in.sentence_of(error))
    outcome = "" if row.budgeted else " This localizer's size is an outcome; the size here is only its start."
    each = " Each size needs its own search." if row.budgeted and not row.nested and sizes[1:] else ""
    st.caption(f"{'; '.join(counts)}.{each}{outcome}" if counts else outcome)


def _seeds(choices: Choices, row: Localizer) -> None:
    typed = form.words(
        "new.seeds", "Seeds", "0", placeholder="0, or 0-4",
        help="A seed fixes the search's random choices. Several (0, 1, 2 or 0-4) start one job each and show "
        "how much depends on luck.",
    )  # fmt: skip
    try:
        choices.seeds = read_seeds(typed)
    except SkillvizError as error:
        choices.refuse(sign_in.sentence_of(error))
        return
    if len(choices.seeds) > 1 and not row.seeded:
        st.caption("This localizer makes no random choices: all seeds give the same region.")


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


def _options(choices: Choices, row: Localizer, place_: DeltaGenerator) -> None:
    """Draws one field per option; an empty field means the default and adds nothing to the spec.

    Values from the address that the fields cannot hold are reported in `place_`, which is not folded.
    """
    chosen: dict[str, Any] = {}
    for option in row.shown_options:
        name, help = f"new.{row.name}.{option.name}", option.sentence
        if option.names_files:
            continue
        if option.choices:
            offered, default = list(option.choices), str(option.default)
            value: Any = form.one_of(name, option.title, offered, default, help=help, place=place_)
            chosen |= {option.name: value} if value != option.default else {}
            continue
        if option.parse is not None:
            chosen |= _typed_option(choices, name, option)
            continue
        is_whole = isinstance(option.default, int)
        value = form.number(
            name, option.title, None, low=1 if is_whole else 0, high=option.high, is_whole=is_whole, help=help,
            placeholder=f"{option.default:,}" if is_whole else f"{option.default:g}",
        )  # fmt: skip
        chosen |= {option.name: value} if value is not None else {}
    for name in COMMON:
        choices.values[name] = chosen.pop(name, None)
    choices.values["options"] = chosen


def _typed_option(choices: Choices, name: str, option: Option) -> dict[str, Any]:
    """An option typed as text, if it is not the default; a problem is shown if it cannot be read."""
    typed = form.words(name, option.title, "", help=option.sentence, placeholder=str(option.default))
    try:
        value: Any = option.read(typed or option.default)
    except BadInput:
        choices.refuse(f"{option.title}: '{text.plain(typed)}' cannot be read. {option.sentence}")
        return {}
    return {option.name: value} if value != option.default else {}


def data(choices: Choices) -> None:
    """Draws the numbers of examples and the further scores; folded."""
    with st.expander("Examples and scores"):
        choices.is_trial = controls.switch(
            "new.trial", "Quick try (1% of the data)", False,
            help="Checks that everything works. The numbers are too rough for a claim.",
        )  # fmt: skip
        choices.trial_note = st.empty()
        _nulls(choices)
        _gain(choices)
        choices.values["interpolation"] = controls.switch(
            "new.interpolation", "Score the paths between the models (WiSE)", SCORES_PATHS,
            help="Eleven points each on the paths from the base to the fine-tuned model and to the graft. The page "
            "Interpolation shows them. Takes about as long as scoring twenty regions.",
        )  # fmt: skip
        has_classes = choices.task is None or choices.task.has_classes
        if has_classes:  # other tasks are scored by class
            _other_tasks(choices)
        help = (
            "Draws this many per class for training, and as many for validation. The paper uses 64 or 4,096 per class."
            if has_classes
            else "Draws this many examples for training and as many for validation. This task has no classes, so they "
            "are not drawn per class."
        )
        label = f"Training examples{' per class' if has_classes else ''}"
        shots = form.number("new.k-shot", label, None, help=help)
        draw = form.number(
            "new.data-seed", "Seed of the draw", 0, low=0, help="Which examples are drawn.", placeholder="0"
        )
        choices.values |= {"k_shot": shots, "data_seed": int(draw or 0)}
        for split in ("train", "validation", "test"):
            help = f"Draws at most this many {split} examples."
            choices.values[f"max_{split}"] = form.number(f"new.max-{split}", f"Most {split} examples", None, help=help)


def _nulls(choices: Choices) -> None:
    """Draws the choice of null movements to search too; none for a localizer without a null or a quick try."""
    if choices.is_trial or not LOCALIZERS[choices.values["localizer"]].has_null:
        choices.values["nulls"] = NO_NULLS
        return
    choices.values["nulls"] = controls.segments(
        "new.nulls", "Nulls", (NO_NULLS, SHUFFLED, ALL_NULLS), SHUFFLED,
        help="The same search on movements that lost their places, or also their signs: how much of the score does "
        "the search itself bring? Each null takes as long as the search at the main size.",
    )  # fmt: skip
    if choices.values["nulls"] != NO_NULLS:
        draws = form.number(
            "new.null-draws", "Draws of each null", 1, high=MOST_DRAWS, placeholder="1",
            help="How often each null is drawn and searched. Several show how much depends on the draw.",
        )  # fmt: skip
        choices.values["null_draws"] = int(draws or 1)


def _gain(choices: Choices) -> None:
    """Draws the choice of the grafts' gain; it is 1 for a control, a task with reference texts, or a quick try."""
    has_references = choices.task is not None and choices.task.kind == GENERATION
    if choices.is_trial or has_references or not makes_graft(choices.values["localizer"]):
        choices.values["gain"] = 1.0
        return
    titles = {"1": "1: the fine-tuned values", FIT: "fit: on validation examples", KINDS: "kinds: one a module kind"}
    choices.values["gain"] = form.box(
        "new.gain", "Gain", list(titles), "1", shown=lambda gain: titles.get(gain, gain),
        help=f"{about('scale')} A number can be typed. A fit takes about as long as scoring ten regions, and by module "
        "kind about twenty times as long.",
    ) or "1"  # fmt: skip


def _other_tasks(choices: Choices) -> None:
    """Draws the choice of further test sets with the same labels; for an example task, by default another one."""
    by_file, nearest, chosen = dict[str, str](), list[str](), choices.task
    if chosen is not None:
        alike = [task for task in cache.example_tasks() if (task.labels, task.pair) == (chosen.labels, chosen.pair)]
        by_file = {reference(task): task.title for task in alike if task != chosen}
        nearest = list(by_file)[:1] if chosen in alike else []
    choices.values["others"] = form.any_of(
        "new.also", "Score on other tasks too", list(by_file), nearest, shown=lambda file: by_file.get(file, file),
        takes_typed=True, names_files=True, follows=True,
        help="Scores the models on these tasks' test sets, without training: how well the skill transfers. The "
        "tasks need the same labels.",
    )  # fmt: skip
    try:
        others = {name: visitor.task(name) for name in choices.values["others"]}
        if choices.task is not None:
            refuse_unfit(choices.task, others)
    except SkillvizError as error:
        choices.refuse(sign_in.sentence_of(error))


def place(choices: Choices) -> None:
    """Draws the choice of device and dtype; folded."""
    with st.expander("Device and precision"):
        devices = cache.devices()
        titles = {device.name: f"{device.title}, {formats.byte_size(device.free)} free" for device in devices}
        auto = device_for("auto", devices)
        titles = {"auto": titles[auto.name] if auto else "", **titles}
        choices.values["device"] = form.one_of(
            "new.device", "Device", list(titles), "auto", shown=lambda n: f"{n}: {titles[n]}",
            help="The device and its free memory; auto uses a GPU if there is one. Jobs on one device run one after "
            "the other.",
        )  # fmt: skip
        lean = [row.title for row in LOCALIZERS.values() if row.lean]
        is_lean = controls.switch(
            "new.lean", "Lean mode", False,
            help="For a model that fills the memory: one model is held instead of two, and the search considers 1% of "
            f"the parameters. It takes longer. For {formats.listed(lean, len(lean))}.",
        )  # fmt: skip
        choices.values["lean"] = is_lean
        row = LOCALIZERS[choices.values["localizer"]]
        if is_lean and (error := refused_lean(row, choices.preflight)) is not None:
            choices.refuse(sign_in.sentence_of(error))
        choices.values["dtype"] = controls.segments(
            "new.dtype", "Weights held as", tuple(DTYPES), "own" if is_lean else "float32", shown=DTYPES.get,
            follows=True,
            help="float32 is exact; bfloat16 needs half the memory and rounds.",
        )  # fmt: skip
        autocast = controls.select(
            "new.autocast", "Activations while searching", ("as the weights", "bfloat16", "float16"),
            "as the weights", help="A narrower type is faster on a GPU and slightly less exact.",
        )  # fmt: skip
        choices.values["autocast"] = None if autocast == "as the weights" else autocast
        if any(device.name.startswith("cuda") for device in devices):
            choices.values["cuda_graphs"] = graphs = controls.switch(
                "new.cuda-graphs", "CUDA graphs", False,
                help="Records each pass of the search as a CUDA graph. Faster for small models; not in lean mode.",
            )  # fmt: skip
            error = refused_graphs(row, choices.values["device"], is_lean, choices.preflight)
            if graphs and error is not None:
                choices.refuse(sign_in.sentence_of(error))
    choices.cluster = form.cluster("new.cluster")
    if choices.cluster is not None and (why := form.cluster_refusal()):
        choices.refuse(why)
