"""Tests of one tensor's view: positions counted by hand, fused tensors split, heads in their place; and of sentences
on a region's parts: the strongest first, verdicts from the intervals alone."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.core.parameters import graftable
from skillviz.core.region import Region
from skillviz.core.region_expression import checked_expression, region_of
from skillviz.core.region_parts import ALONE, CELLS, HEADS, WITHOUT
from skillviz.plots.region import cells
from skillviz.runs.record import Architecture, RunRecord
from skillviz.runs.run import Run, parameter_table
from skillviz.runs.spec import RunSpec
from skillviz.show import region as tensors
from skillviz.show.part_effects import finding, part_map, part_name, strongest, strongest_parts
from tests.tables import equal, says


def record(model_type: str, heads: int | None) -> RunRecord:
    shape = Architecture(model_type=model_type, known=True, d=1, layers=1, heads=heads)
    spec = RunSpec(base="a", finetuned="b", task="c")
    return RunRecord(run_id="x", spec=spec, key="k", status="finished", created="", architecture=shape)


QUERY, OUT = (f"bert.encoder.layer.0.attention.{x}.weight" for x in ("self.query", "output.dense"))
BIAS = QUERY.replace("weight", "bias")
FUSED, FUSED_BIAS = "transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_attn.bias"
OF_LLAMA = {f"model.layers.0.self_attn.{x}_proj.weight": s for x, s in (("q", (8, 8)), ("k", (4, 8)))}
Q, K = OF_LLAMA
STRANGE = "encoder.blocks.0.thing.weight"
# 2 x 6: columns 0-1 are query, 2-3 key, 4-5 value; one entry of each, and a second key.
IN_TURN = Region({FUSED: np.array([1, 2, 9, 4])}, {FUSED: (2, 6)})
# 2 x 12: columns 0-3 are query, 4-7 key, 8-11 value; the first two of each are head 0.
OF_HEADS = Region({FUSED: np.array([0, 3, 5, 15 + 4, 11])}, {FUSED: (2, 12)})
AT_OUT, AT_K = Region({OUT: np.array([1])}, {QUERY: (4, 4), OUT: (4, 4)}), Region({K: np.array([0])}, OF_LLAMA)


def part(region: Region, family: str, heads: int | None, name: str, kind: str) -> list[Any]:
    """Return the places of the entries of a tensor's part, its rows, columns and heads."""
    found = tensors.part(region, record(family, heads), name, kind)
    places = list(zip(found.entries["row"].tolist(), found.entries["col"].tolist(), strict=True))
    return [places, found.rows, found.cols, found.heads]


def heads(region: Region, family: str, config: dict[str, int], kind: str) -> list[list[int]]:
    return tensors.head_table(region, graftable(family, region.shapes, config), kind).values.tolist()


def one(name: str, shape: tuple[int, ...], *at: int) -> Region:
    return Region({name: np.array(at)}, {name: shape})


test_a_part_has_its_entries_at_their_row_and_column = equal({
    "a matrix": (
        lambda: part(one(QUERY, (4, 4), 0, 5, 15), "bert", 2, QUERY, "query"), [[(0, 0), (1, 1), (3, 3)], 4, 4, 2],
    ),
    "a bias is one row without heads": (
        lambda: part(one(BIAS, (4,), 3), "bert", 2, BIAS, "query"), [[(0, 3)], 1, 4, 0],
    ),
    "the attention output": (lambda: part(AT_OUT, "bert", 2, OUT, "attention output"), [[(0, 1)], 4, 4, 2]),
    # gpt2 holds three kinds in one transposed tensor.
    "a fused query": (lambda: part(IN_TURN, "gpt2", 2, FUSED, "query"), [[(0, 1)], 2, 2, 2]),
    "a fused key": (lambda: part(IN_TURN, "gpt2", 2, FUSED, "key"), [[(0, 0), (1, 1)], 2, 2, 2]),
    "a fused value": (lambda: part(IN_TURN, "gpt2", 2, FUSED, "value"), [[(0, 0)], 2, 2, 2]),
    "a fused bias, key": (lambda: part(one(FUSED_BIAS, (6,), 0, 3), "gpt2", 1, FUSED_BIAS, "key")[0], [(0, 1)]),
    "a fused bias, value": (lambda: part(one(FUSED_BIAS, (6,), 0, 3), "gpt2", 1, FUSED_BIAS, "value")[0], []),
    "grouped queries: query": (lambda: part(AT_K, "llama", 4, Q, "query")[3], 4),
    "grouped queries: key": (lambda: part(AT_K, "llama", 4, K, "key")[3], 2),
    "an unknown family": (
        lambda: part(one(STRANGE, (2, 2), 1), "strange", None, STRANGE, "other"), [[(0, 1)], 2, 2, 0],
    ),
})  # fmt: skip
test_heads_are_counted = equal({
    # Heads of the attention output lie along its columns: column 1 is of the first head, whatever its row.
    "the attention output": (
        lambda: heads(AT_OUT, "bert", {"num_attention_heads": 2}, "attention output"), [[0, 0, 1], [0, 1, 0]],
    ),
    "fewer of the key": (
        lambda: heads(AT_K, "llama", {"num_attention_heads": 4}, "key"), [[0, 0, 1], [0, 1, 0]],
    ),
    "than of the query": (
        lambda: [row[2] for row in heads(AT_K, "llama", {"num_attention_heads": 4}, "query")], [0, 0, 0, 0],
    ),
    **{f"three kinds in one tensor: {kind}": (
        lambda kind=kind: [row[2] for row in heads(OF_HEADS, "gpt2", {"n_head": 2}, kind)], counts,
    ) for kind, counts in (("query", [1, 1]), ("key", [1, 1]), ("value", [0, 1]))},
})  # fmt: skip
PART = tensors.Part("p", "query", pd.DataFrame({"row": [0, 0, 3], "col": [1, 2, 2]}), 4, 4, heads=2)
test_counts_by_line_and_addresses_of_cells = equal({
    "rows": (lambda: tensors.line_counts(PART, "row").values.tolist(), [[0, 2], [3, 1]]),
    "columns": (lambda: tensors.line_counts(PART, "column").values.tolist(), [[2, 2], [1, 1]]),
    "a cell": (lambda: tensors.Cell(3, "value").key, "3 · value"),
    "a cell outside the layers": (lambda: tensors.Cell(None, "other").key, "-1 · other"),
})  # fmt: skip


def test_every_cell_of_a_run_has_its_tensors_and_their_counts_agree(run: Run) -> None:
    layers, region = run.layers(), run.region()
    table = cells(layers)
    titles, chosen = tensors.cell_titles(table), tensors.fullest_cells(table)
    assert set(titles) == set(chosen) and len({cell.key for cell in chosen}) == len(chosen) == len(table)
    for cell, title in titles.items():  # the same title as for the cell alone
        place, _, words = tensors.cell_title(cell, table).partition(": ")
        assert title == f"{place} ({words.split(', ')[1].removesuffix(' the average density')})"
    seen = 0
    for cell in chosen:
        rows = tensors.cell_tensors(layers, cell)
        assert len(tensors.tensor_names(rows)) == len(rows) > 0
        for parameter, kind, selected in zip(rows["parameter"], rows["kind"], rows["selected"], strict=True):
            assert len(tensors.part(region, run.record, parameter, kind).entries) == selected
            seen += selected
    assert seen == run.record.size


def test_the_table_of_tensors_adds_up_and_each_row_is_a_region(run: Run) -> None:
    region, table = run.region(), tensors.tensor_table(run.layers())
    assert (table["selected"].sum(), table["share"].sum()) == (region.size, pytest.approx(1))
    assert table["selected"].is_monotonic_decreasing and table["movement_share"].dropna().between(0, 1).all()
    parameters = parameter_table(run.record, region)
    for _, row in table.iterrows():
        expression = checked_expression(tensors.tensor_expression(run.id, row))
        cut = region_of(expression, parameters, lambda run_id, size: region)
        assert cut.size == row["selected"] and set(cut.indices) <= {row["parameter"]}


EFFECTS = pd.DataFrame(
    [
        (0, "value", None, 5, ALONE, 0.02, 0.01, 0.03, 0.0),
        (1, "bias", None, 7, ALONE, 0.05, -0.01, 0.09, 0.01),
        (2, "key", None, 7, ALONE, -0.01, -0.02, -0.005, None),
        (0, "value", None, 5, WITHOUT, -0.08, -0.1, -0.05, -0.01),
    ],
    columns=["layer", "kind", "head", "size", "condition", "value", "low", "high", "control"],
).assign(
    excess=lambda f: f["value"] - f["control"].astype(float), n=200, draws=3,
    excess_low=lambda f: f["excess"] - 0.01, excess_high=lambda f: f["excess"] + 0.01,
).astype({"layer": "Int64", "head": "Int64", "control": "float64"})  # fmt: skip
test_names_and_order = equal({
    "a cell": (lambda: part_name(3, "value", None), "layer 3, value"),
    "a head": (lambda: part_name(3, "", 5), "layer 3, head 5"),
    "an expert": (lambda: part_name(3, "expert", 5), "layer 3, expert 5"),
    "a row": (lambda: part_name(3, "value", 5), "layer 3, value row 5"),
    "outside": (lambda: part_name(None, "bias", None), "outside the blocks, biases"),
    "the strongest first, whichever way": (
        lambda: strongest(EFFECTS, ALONE, "accuracy")["name"].tolist(),
        ["layer 1, biases", "layer 0, value", "layer 2, key"],
    ),
    "without": (lambda: strongest(EFFECTS, WITHOUT, "accuracy")["name"].tolist(), ["layer 0, value"]),
})  # fmt: skip


def test_what_holds_is_decided_among_the_parts_of_one_condition() -> None:
    assert strongest(EFFECTS, ALONE, "nll")["holds"].tolist() == [False, True, True]
    many = pd.concat([EFFECTS.iloc[[0]].assign(layer=0, low=0.0005)] + [EFFECTS.iloc[[1]]] * 9).reset_index(drop=True)
    (first,) = strongest(many, ALONE, "nll").query("kind == 'value'")["holds"]
    shown = part_map(many, ALONE, "nll", CELLS, "light")
    assert not first and not shown.table["holds"].any(), "one bare verdict among ten comparisons"
    assert [text for text in shown.figure.data[1].text if "<b>" in text] == []


test_what_is_read_out_of_a_part_and_verdicts_need_an_interval_without_zero = says({
    **{
        f"the fullest of the rows {rows}": (
            lambda rows=rows: tensors.lines(
                tensors.Part("a.weight", "value", pd.DataFrame({"row": rows, "col": range(len(rows))}, dtype="int64"),
                             3, 4),
                "row", "light",
            ).alt,
            (f"^Fullest rows of the tensor{words}$",),
        )
        for rows, words in (([2, 0, 2], "; the fullest is row 2 with 2 entries."), ([], ": no selected entries."))
    },
    "grafted alone": (
        lambda: finding(EFFECTS, ALONE, "accuracy", CELLS),
        ("**layer 1, biases**", "+5.0 points", "Better: 1 of 3 cells; worse: 1."),
    ),
    "by a loss": (
        lambda: finding(EFFECTS, ALONE, "nll", CELLS),
        ("Better: 1 of 3 cells; worse: 1.",),
    ),
    "left out": (lambda: finding(EFFECTS, WITHOUT, "accuracy", CELLS), ("Without **layer 0, value**,",)),
    "heads": (lambda: finding(EFFECTS, WITHOUT, "accuracy", HEADS), ("of 1 head; worse:",)),
})  # fmt: skip


def test_exhibits_have_their_tables_and_words() -> None:
    shown = part_map(EFFECTS, ALONE, "accuracy", CELLS, "light")
    rival = strongest_parts(EFFECTS, ALONE, "accuracy", CELLS, "dark")
    assert len(shown.table) == 3 and "layer 1, biases +5.0 points" in shown.alt
    assert (
        rival.finding == "2 of 2 parts with a control differ from it."
        and "3 draws" in rival.reads
        and rival.table["excess_holds"].sum() == 2
    )
