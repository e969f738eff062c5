"""The form of the surgery page for a region built by hand, and the conversion to and from its expression."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import quote_plus

import numpy as np
import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.core.composition import composition_of_parts
from skillviz.core.overlap import Chance, overlap_by_chance
from skillviz.core.parameters import KINDS, Parameter, ParameterTable
from skillviz.core.region import Region
from skillviz.core.region_expression import ALGEBRA, CONDITIONS, canonical, checked_expression, parsed, parts
from skillviz.errors import BadInput
from skillviz.plots.theme import localizer_style
from skillviz.runs.run import RANKING, Run, parameter_table
from skillviz.serving import sign_in
from skillviz.show import measures, text
from skillviz.show.briefs import RunBrief
from skillviz.show.glossary import about
from skillviz.ui import address, cache

HOW = {
    "stored": "a stored region",
    "parts": "parts of the model",
    "union": "a stored region plus parts",
    "intersection": "a stored region, inside parts only",
    "without": "a stored region minus parts",
    "rest": "parts minus a stored region",
    "typed": "JSON",
}
JOINS = {
    "union": "all together",
    "intersection": "what all share",
    "difference": "first without the others",
}
BIASES: dict[str, bool | None] = {"all": None, "without": False, "only": True}
ROW = re.compile(r"(\d{1,9})(?:\s*[-\N{EN DASH}]\s*(\d{1,9}))?", re.ASCII)
BIAS_WORDS = {"all": "weights and biases", "without": "weights, no biases", "only": "biases only"}
ROWS_HELP = (
    "Which rows of each matrix, counted from 0: numbers and ranges, such as `0-7, 12`. A row of a weight is an output "
    "of its module (an input in GPT-2); a bias or a norm is one row, number 0. Empty: all rows."
)
JSON_HELP = 'Conditions, `{"run": id, "size": n}`, and lists in `union`, `intersection` and `difference`.'
IN_ADDRESS = "expression"  # the name of the expression in the address
LINKED = 7000  # characters of a URL-encoded expression that are still written to the address; servers accept 8 KB
CURRENT, PAST, OF_RUN, UNDONE = "surgery.now", "surgery.past", "surgery.of", "surgery.undone"
MOST = 50
FLAT = ("LayerNorm", "other")  # kinds with weights that are not matrices
NAMED = 4  # the most names that are listed; further ones are counted


@dataclass(frozen=True)
class RegionChoices:
    """The values of the form. `how` is a key of HOW; empty layers, kinds, tensors or rows mean any.

    `join` combines several stored regions, in their order; `size` cuts a single one from its ranking.
    """

    how: str = "stored"
    runs: tuple[str, ...] = ()
    join: str = "union"
    size: int | None = None
    layers: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    rows: str = ""
    biases: str = "all"
    typed: str = ""

    @property
    def has_stored(self) -> bool:
        """True if it uses stored regions."""
        return self.how not in ("parts", "typed")

    @property
    def has_parts(self) -> bool:
        """True if it uses layers, kinds and rows."""
        return self.how not in ("stored", "typed")


def expression_of(choices: RegionChoices) -> dict[str, Any]:
    """The expression in its canonical form; raises BadInput if the rows or the typed expression cannot be read."""
    if choices.how == "typed":
        return parsed(choices.typed)
    if choices.has_stored and not choices.runs:
        raise BadInput("choose a stored region, or build the region from parts alone.")
    if not choices.has_parts:
        return checked_expression(_stored_expression(choices))
    if not choices.has_stored:
        return checked_expression(_parts_expression(choices))
    pair = [_stored_expression(choices), _parts_expression(choices)]
    algebra = {"without": "difference", "rest": "difference"}.get(choices.how, choices.how)
    return checked_expression({algebra: pair[::-1] if choices.how == "rest" else pair})


def choices_of(expression: Mapping[str, Any]) -> RegionChoices:
    """The form's values for an expression; an expression that the fields cannot hold is shown as JSON."""
    whole = checked_expression(expression)
    if (stored := _stored_fields(whole)) is not None:
        return RegionChoices(how="stored", **stored)
    if (parts := _part_fields(whole)) is not None:
        return RegionChoices(how="parts", **parts)
    if (both := _fields_of_both(whole)) is not None:
        return RegionChoices(**both)
    return RegionChoices(how="typed", typed=canonical(whole))


def rows_of(text: str) -> list[list[int]]:
    """`0-7, 12` as [[0, 7], [12, 12]], ends included; raises BadInput."""
    rows = []
    for word in filter(None, re.split(r"[,;]", text.strip())):
        match = ROW.fullmatch(word.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise BadInput(f"'{word.strip()}' names no rows; write numbers and ranges, as in 0-7, 12.")
        rows.append([first, last])
    return rows


def rows_text(rows: Sequence[Sequence[int]]) -> str:
    """The inverse of `rows_of`."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in rows)


def sizes_offered(sizes: Sequence[int]) -> list[int]:
    """The positions in a run's ranking for a slider: 1, 2, 5, 10, ... up to its largest size, and its own sizes."""
    most = max(sizes, default=0)
    steps = {digit * 10**power for power in range(len(str(most))) for digit in (1, 2, 5)}
    return sorted({step for step in steps if step < most} | {size for size in sizes if size})


def _stored_expression(choices: RegionChoices) -> dict[str, Any]:
    if len(choices.runs) > 1:
        return {choices.join: [{"run": run} for run in choices.runs]}
    return {"run": choices.runs[0]} if choices.size is None else {"run": choices.runs[0], "size": choices.size}


def _parts_expression(choices: RegionChoices) -> dict[str, Any]:
    conditions = {
        "layers": list(choices.layers), "kinds": list(choices.kinds), "parameters": list(choices.tensors),
        "rows": rows_of(choices.rows),
    }  # fmt: skip
    biases = BIASES[choices.biases]
    return {name: value for name, value in conditions.items() if value} | ({} if biases is None else {"biases": biases})


def _fields_of_both(expression: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields for an expression of stored regions and parts; None if it is not one."""
    algebra = next((name for name in ALGEBRA if name in expression), "")
    two = expression.get(algebra, [])
    if len(two) != 2:
        return None
    for how, (first, second) in (("stored", two), ("parts", two[::-1])):
        stored, parts = _stored_fields(first), _part_fields(second)
        if stored is not None and parts is not None:
            difference = "without" if how == "stored" else "rest"
            return {"how": difference if algebra == "difference" else algebra, **stored, **parts}
    return None


def _stored_fields(expression: Mapping[str, Any]) -> dict[str, Any] | None:
    if "run" in expression:
        return {"runs": (expression["run"],), "size": expression.get("size")}
    for join in JOINS:
        parts = expression.get(join, [])
        runs = tuple(part["run"] for part in parts if part.keys() == {"run"})
        if len(runs) == len(parts) > 1 and len(set(runs)) == len(runs):
            return {"runs": runs, "join": join}
    return None


def _part_fields(expression: Mapping[str, Any]) -> dict[str, Any] | None:
    if not expression.keys() <= set(CONDITIONS) or any(value == [] for value in expression.values()):
        return None
    return {
        "layers": tuple(expression.get("layers", ())),
        "kinds": tuple(expression.get("kinds", ())),
        "tensors": tuple(expression.get("parameters", ())),
        "rows": rows_text(expression.get("rows", ())),
        "biases": next(name for name, value in BIASES.items() if value is expression.get("biases")),
    }


def chosen(run: Run, table: ParameterTable, names: Mapping[str, str]) -> dict[str, Any]:
    """Draws the form and returns its expression; explains and stops if it cannot be read. `names`: the pair's runs."""
    choices = current(run)
    with st.container(border=True):
        head = st.container()
        with head:
            st.markdown("## Build a region", help=about("region", "graftable"))
        choices = _form(choices, run, table, names)
        try:
            expression = expression_of(choices)
        except BadInput as error:
            st.warning(text.plain(sign_in.sentence_of(error)), icon=":material/edit:")
            with head:
                _buttons(run, choices, None)
            st.stop()
        with head:
            _buttons(run, choices, canonical(expression))
    written = canonical(expression)
    remember(choices, written)
    if not is_linked(written):
        st.caption(
            f"This region takes more than {LINKED:,} characters, so links leave it out and open the run's own region. "
            "Save it as a run to link it."
        )
    return expression


def _form(choices: RegionChoices, run: Run, table: ParameterTable, names: Mapping[str, str]) -> RegionChoices:
    """Draws the fields and returns their values."""
    how: str = st.selectbox("The region is", tuple(HOW), key=seeded("how", choices.how), format_func=HOW.__getitem__)
    if how == "typed" and choices.how != "typed":
        forget("typed")
        choices = replace(choices, typed=canonical(expression_of(choices)))
    choices = replace(choices, how=how, runs=choices.runs or (run.id,))
    if how == "typed":
        value = st.text_area("Region (JSON)", key=seeded("typed", choices.typed), help=JSON_HELP, height=100)
        return replace(choices, typed=value)
    if choices.has_stored:
        choices = _stored(choices, names)
    if choices.has_parts:
        choices = _parts(choices, table)
    return choices


def _stored(choices: RegionChoices, names: Mapping[str, str]) -> RegionChoices:
    """Draws the choice of stored regions, and how several are combined or at which size a single one is cut."""
    runs = _choice_list("runs", "Stored regions of this pair", choices.runs, list(names), names, "choose a run")
    join, size = choices.join, choices.size if len(runs) == 1 else None
    if len(runs) > 1:
        key = seeded("join", choices.join)
        chosen_join: str | None = st.segmented_control(
            "Combine them", tuple(JOINS), key=key, format_func=JOINS.__getitem__, required=True
        )
        join = chosen_join or choices.join
        if join != "difference":  # their order has no effect there, and equal regions should have equal expressions
            runs = tuple(sorted(runs, key=[*names, *runs].index))
    elif runs and runs[0] in names:  # a missing run, or one of another pair, is reported with the expression
        size = _size(cache.run(runs[0]), choices.size if runs == choices.runs else None)
    return replace(choices, runs=runs, join=join, size=size)


def _size(run: Run, size: int | None) -> int | None:
    """The chosen position in the run's ranking; None for the run's own size."""
    sizes = sizes_offered([s for s in run.record.sizes if s] if RANKING in run.files else [])
    main, d = run.record.size or 0, run.record.d or 1
    if len(sizes) < 2:
        return None
    places = sorted({*sizes, main, *([size] if size else [])})
    value = st.select_slider(
        "Size", places, key=seeded("size", size or main, places),
        format_func=lambda s: f"{formats.count(s)} ({formats.share(s / d)})",
        help="How many entries are taken from the top of the run's ranking, on a log scale. " + about("size"),
    )  # fmt: skip
    return None if value == main else value


def _parts(choices: RegionChoices, table: ParameterTable) -> RegionChoices:
    layers = sorted({p.layer for p in table.parameters if p.layer is not None})
    names = {layer: f"layer {layer}" for layer in layers}
    names |= {n: f"layer {n} ({stack.name})" for stack in table.stacks for n in range(stack.first, stack.last + 1)}
    left, right = st.columns(2)
    with left:
        chosen_layers = _choice_list("layers", "Layers", choices.layers, layers, names, "all layers")
    with right:
        if table.known:
            known = {kind for p in table.parameters for kind in p.kinds}
            kinds = [kind for kind in KINDS if kind in known]
            choices = replace(
                choices, kinds=_choice_list("kinds", "Module kinds", choices.kinds, kinds, {}, "all kinds")
            )
    left, right = st.columns(2)
    with left:
        rows = st.text_input(
            "Rows", key=seeded("rows", choices.rows), placeholder="all rows, or 0-7, 12", help=ROWS_HELP, max_chars=300
        )
    with right:
        biases: str = st.selectbox(
            "Weights or biases",
            tuple(BIASES),
            key=seeded("biases", choices.biases),
            format_func=BIAS_WORDS.__getitem__,
        )
    tensors = choices.tensors
    if not table.known or choices.tensors:
        tensors = _choice_list("tensors", "Tensors by name", choices.tensors, list(table.names), {}, "all tensors")
    return replace(choices, layers=chosen_layers, rows=rows, biases=biases, tensors=tensors)


def _choice_list(
    field: str, label: str, value: Sequence[Any], options: Sequence[Any], shown: Mapping[Any, str], empty: str
) -> tuple[Any, ...]:
    """The options chosen in a list, runs in the order of choice.

    A value that is not among the options, for example from the address, is offered too."""
    offered = [*options, *(one for one in value if one not in options)]
    key = seeded(field, list(value))
    selected = st.multiselect(
        label, offered, key=key, format_func=lambda one: shown.get(one, str(one)), placeholder=empty,
        select_all=False,
    )  # fmt: skip
    return tuple(selected) if field == "runs" else tuple(sorted(selected, key=offered.index))


def _buttons(run: Run, choices: RegionChoices, written: str | None) -> None:
    earlier = before(written)
    with st.container(horizontal=True):
        is_pressed = st.session_state.pop(UNDONE, False)  # a disabled button would lose the focus
        st.button(
            "Undo", icon=":material/undo:", disabled=not earlier and not is_pressed, on_click=undo, args=(earlier,)
        )
        st.button(
            "Reset to this run's region", icon=":material/restart_alt:", disabled=choices == choices_of_run(run),
            on_click=fill, args=(choices_of_run(run),),
        )  # fmt: skip


def choices_of_run(run: Run) -> RegionChoices:
    """The form's values for the run's own region."""
    return RegionChoices(runs=(run.id,))


def current(run: Run) -> RegionChoices:
    """The choices in the address, else the ones made for this run in this session, else the run's own region."""
    linked = address.linked(IN_ADDRESS)
    if not address.is_asked(IN_ADDRESS) and st.session_state.get(OF_RUN) == run.id:
        return st.session_state[CURRENT]
    if st.session_state.get(OF_RUN) != run.id:
        st.session_state[OF_RUN], st.session_state[PAST] = run.id, []
    choices = choices_of_run(run)
    if linked is not None:
        try:
            choices = choices_of(parsed(linked))
        except BadInput as error:
            reason = text.plain(sign_in.sentence_of(error))
            st.error(f"The address asks for a region that cannot be read: {reason} The run's own region is shown.")
    fill(choices)
    return choices


def remember(choices: RegionChoices, written: str) -> None:
    """Stores the form's values in the session, and its expression, `written` as canonical JSON, in the address."""
    st.session_state[CURRENT] = choices
    past = st.session_state[PAST]
    if not past or past[-1] != written:
        st.session_state[PAST] = [*past, written][-MOST:]
    if is_linked(written):
        of_run = canonical(expression_of(RegionChoices(runs=(st.session_state[OF_RUN],))))
        address.keep(IN_ADDRESS, written, is_default=written == of_run)
    else:
        address.remember(IN_ADDRESS, written)


def is_linked(written: str) -> bool:
    """True if a region expression is short enough for the address."""
    return len(quote_plus(written)) <= LINKED


def before(written: str | None) -> list[str]:
    """The expressions before the current one; `written` is None if the form has no valid expression."""
    past = st.session_state[PAST]
    return past[:-1] if past and past[-1] == written else past


def undo(earlier: Sequence[str]) -> None:
    """Restores the last of these expressions, if there is one; for a callback."""
    st.session_state[UNDONE] = True
    if earlier:
        fill(choices_of(parsed(earlier[-1])))
        st.session_state[PAST] = list(earlier)


def fill(choices: RegionChoices) -> None:
    """Redraws every field with these values."""
    st.session_state[CURRENT] = choices
    for field in fields(choices):
        forget(field.name)


def forget(field: str) -> None:
    """Redraws one field with a new value."""
    st.session_state.pop(_key(field), None)


def seeded(field: str, value: Any, options: Sequence[Any] | None = None) -> str:
    """The key of a field's widget, after its value is set if the widget has no valid one."""
    key = _key(field)
    if key not in st.session_state or (options is not None and st.session_state[key] not in options):
        st.session_state[key] = value
    return key


def _key(field: str) -> str:
    return f"surgery.field.{field}"


def meaning(expression: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The expression in words, in Markdown; `names` maps run ids to names."""
    if "run" in expression:
        name = names.get(expression["run"], f"run `{expression['run']}`")
        if "size" not in expression:
            return f"the region of {name}"
        return f"the first {formats.counted(expression['size'], 'entry')} of the ranking of {name}"
    algebra = next((name for name in ALGEBRA if name in expression), None)
    if algebra is None:
        return _parts_words(expression)
    phrases = [_bracketed(part, names) for part in expression[algebra]]
    if len(phrases) == 1:
        return phrases[0]
    if algebra == "union":
        return " together with ".join(phrases)
    if algebra == "difference":
        return f"{phrases[0]} without {formats.listed(phrases[1:], NAMED)}"
    return f"what {formats.listed(phrases, NAMED)} share"


def sentence(expression: Mapping[str, Any], names: Mapping[str, str], size: int, d: int) -> str:
    """The meaning as a sentence with its size."""
    words = meaning(expression, names)
    return (
        f"{formats.capital(words)}: **{formats.counted(size, 'entry')}**, **{formats.share(size / d)}** of "
        f"{formats.count(d)}."
    )


def _bracketed(expression: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The meaning of a part; in parentheses if it combines several parts."""
    words = meaning(expression, names)
    return f"({words})" if any(len(expression.get(algebra, ())) > 1 for algebra in ALGEBRA) else words


def _parts_words(expression: Mapping[str, Any]) -> str:
    """The conditions in words: rows, kinds, weights or biases, tensors, layers."""
    if not expression:
        return "everything that can be grafted"
    if any(value == [] for value in expression.values()):
        return "nothing at all"
    places = []
    if "layers" in expression:
        places.append(_spans("layer", _stretches(expression["layers"])))
    if tensors := expression.get("parameters"):
        places.append(f"the tensor `{tensors[0]}`" if len(tensors) == 1 else f"{len(tensors)} tensors chosen by name")
    rows = f"{_spans('row', expression['rows'])} of " if "rows" in expression else ""
    kinds = list(expression.get("kinds", ()))
    noun = "weights" if not kinds or set(kinds) & set(FLAT) else "matrices"
    what = {None: f"{noun} and biases", False: noun, True: "biases"}[expression.get("biases")]
    things = f"the {formats.listed(kinds, len(kinds))} {what}" if kinds else f"the {what}"
    return f"{rows}{things}{' of ' if places else ''}{' in '.join(places)}"


def _stretches(layers: Sequence[int]) -> list[list[int]]:
    """The first and last number of each consecutive range, for ascending numbers."""
    spans: list[list[int]] = []
    for layer in layers:
        if spans and layer == spans[-1][1] + 1:
            spans[-1][1] = layer
        else:
            spans.append([layer, layer])
    return spans


def _spans(noun: str, spans: Sequence[Sequence[int]]) -> str:
    """`layer 3`, `layers 2 to 4 and 7`."""
    phrases = [str(first) if first == last else f"{first} to {last}" for first, last in spans]
    is_plural = len(spans) > 1 or spans[0][0] != spans[0][1]
    return f"{noun}{'s' if is_plural else ''} {formats.listed(phrases, NAMED + 2)}"


@dataclass(frozen=True)
class HandRegion:
    """The region of an expression, with its counts.

    `layers` has the columns of layers.parquet. `shared` is the number of the run's own `run_size` entries that it
    contains. `chance` is the `overlap` of a random region with as many entries in each tensor."""

    expression: Mapping[str, Any]
    layers: pd.DataFrame
    size: int
    d: int
    run_size: int
    shared: int
    chance: Chance

    @property
    def share(self) -> float:
        """The region's fraction of all entries, size / d."""
        return self.size / self.d

    @property
    def is_run_region(self) -> bool:
        """True if it equals the run's own region, entry by entry."""
        return self.size == self.run_size == self.shared

    @property
    def overlap(self) -> float:
        """The share of the run's region that it contains."""
        return self.shared / self.run_size if self.run_size else float("nan")


def table_of(run: Run) -> ParameterTable:
    """The graftable parameters of a run's pair, reconstructed from its region."""
    return parameter_table(run.record, cache.region(run))


def hand_region_of(run: Run, expression: Mapping[str, Any], table: ParameterTable) -> HandRegion:
    """The expression's region among the parameters of the run; raises BadInput or a StoreError."""
    run_region, counts = cache.region(run), list[tuple[int, int, int]]()

    def counted() -> Iterator[tuple[Parameter, np.ndarray]]:
        for parameter, entries in parts(expression, table, stored):
            counts.append((len(entries), len(run_region.indices.get(parameter.name, ())), parameter.size))
            yield parameter, entries

    layers = composition_of_parts(counted())
    both = {"intersection": [expression, {"run": run.id}]}
    shared = sum(len(entries) for _, entries in parts(both, table, stored))
    chance = overlap_by_chance(np.array(counts, dtype=np.int64), run_region.size)
    return HandRegion(expression, layers, int(layers["selected"].sum()), table.d, run_region.size, shared, chance)


def stored(run_id: str, size: int | None) -> Region:
    """A stored region: the main one, or the first `size` entries of its ranking."""
    run = cache.run(run_id)
    return cache.region(run) if size is None else run.cut(size)


def names(briefs: Sequence[RunBrief]) -> dict[str, str]:
    """A short name of each run by its id, such as `stagewise, 0.1%, seed 0`, with settings that are not the default.

    Equal names are numbered."""
    by_id: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for brief, settings in zip(briefs, measures.nondefault_settings(briefs), strict=True):
        parts = [localizer_style(brief.localizer).title, formats.share(brief.share), f"seed {brief.seed}", settings]
        name = ", ".join(part for part in parts if part)
        seen[name] += 1
        by_id[brief.id] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return by_id
