"""Tests of one tensor's view: positions counted by hand, fused tensors split, heads in their place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.core.parameters import graftable
from skillviz.core.region import Region
from skillviz.core.region_expression import checked_expression, region_of
from skillviz.plots.region import cells
from skillviz.runs.record import Architecture, RunRecord
from skillviz.runs.run import parameter_table
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import library
from skillviz.show import region as tensors


def record(model_type: str, heads: int | None) -> RunRecord:
    shape = Architecture(model_type=model_type, known=True, d=1, layers=1, heads=heads)
    spec = RunSpec(base="a", finetuned="b", task="c")
    return RunRecord(run_id="x", spec=spec, key="k", status="finished", created="", architecture=shape)


def places(part: tensors.Part) -> list[tuple[int, int]]:
    return list(zip(part.entries["row"].tolist(), part.entries["col"].tolist(), strict=True))


def test_entries_of_a_matrix_stand_at_their_row_and_column() -> None:
    name = "bert.encoder.layer.0.attention.self.query.weight"
    region = Region({name: np.array([0, 5, 15])}, {name: (4, 4)})
    part = tensors.part(region, record("bert", 2), name, "query")
    assert places(part) == [(0, 0), (1, 1), (3, 3)]
    assert (part.rows, part.cols, part.heads) == (4, 4, 2)


def test_a_bias_is_one_row_without_heads() -> None:
    name = "bert.encoder.layer.0.attention.self.query.bias"
    part = tensors.part(Region({name: np.array([3])}, {name: (4,)}), record("bert", 2), name, "query")
    assert places(part) == [(0, 3)] and (part.rows, part.cols, part.heads) == (1, 4, 0)


def test_heads_of_the_attention_output_lie_along_its_columns() -> None:
    query, out = (f"bert.encoder.layer.0.attention.{x}.weight" for x in ("self.query", "output.dense"))
    region = Region({out: np.array([1])}, {query: (4, 4), out: (4, 4)})
    part = tensors.part(region, record("bert", 2), out, "attention output")
    assert part.heads == 2
    heads = tensors.head_table(region, graftable("bert", region.shapes, {"num_attention_heads": 2}), "attention output")
    assert heads.values.tolist() == [[0, 0, 1], [0, 1, 0]], "column 1 is of the first head, whatever its row"


def test_gpt2_holds_three_kinds_in_one_transposed_tensor() -> None:
    name = "transformer.h.0.attn.c_attn.weight"
    # 2 x 6: columns 0-1 are query, 2-3 key, 4-5 value; one entry of each, and a second key.
    region = Region({name: np.array([1, 2, 9, 4])}, {name: (2, 6)})
    found = {kind: tensors.part(region, record("gpt2", 2), name, kind) for kind in ("query", "key", "value")}
    assert {kind: places(part) for kind, part in found.items()} == {
        "query": [(0, 1)], "key": [(0, 0), (1, 1)], "value": [(0, 0)],
    }  # fmt: skip
    assert all((p.rows, p.cols) == (2, 2) for p in found.values())


def test_a_fused_bias_is_taken_apart_too() -> None:
    name = "transformer.h.0.attn.c_attn.bias"
    region = Region({name: np.array([0, 3])}, {name: (6,)})
    assert places(tensors.part(region, record("gpt2", 1), name, "key")) == [(0, 1)]
    assert places(tensors.part(region, record("gpt2", 1), name, "value")) == []


def test_grouped_queries_give_key_and_value_fewer_heads() -> None:
    shapes = {f"model.layers.0.self_attn.{x}_proj.weight": s for x, s in (("q", (8, 8)), ("k", (4, 8)))}
    query, key = shapes
    region = Region({key: np.array([0])}, shapes)
    assert tensors.part(region, record("llama", 4), query, "query").heads == 4
    assert tensors.part(region, record("llama", 4), key, "key").heads == 2
    table = graftable("llama", shapes, {"num_attention_heads": 4})
    assert tensors.head_table(region, table, "key").values.tolist() == [[0, 0, 1], [0, 1, 0]]
    assert tensors.head_table(region, table, "query")["selected"].tolist() == [0, 0, 0, 0]


def test_unknown_families_have_no_heads() -> None:
    name = "encoder.blocks.0.thing.weight"
    part = tensors.part(Region({name: np.array([1])}, {name: (2, 2)}), record("strange", None), name, "other")
    assert part.heads == 0 and places(part) == [(0, 1)]


def test_heads_of_three_kinds_in_one_tensor_are_counted_apart() -> None:
    name = "transformer.h.0.attn.c_attn.weight"
    # 2 x 12: columns 0-3 are query, 4-7 key, 8-11 value; the first two of each are head 0.
    region = Region({name: np.array([0, 3, 5, 15 + 4, 11])}, {name: (2, 12)})
    table = graftable("gpt2", region.shapes, {"n_head": 2})
    counts = {kind: tensors.head_table(region, table, kind)["selected"].tolist() for kind in ("query", "key", "value")}
    assert counts == {"query": [1, 1], "key": [1, 1], "value": [0, 1]}


def test_line_counts() -> None:
    entries = pd.DataFrame({"row": [0, 0, 3], "col": [1, 2, 2]})
    part = tensors.Part("p", "query", entries, 4, 4, heads=2)
    assert tensors.line_counts(part, "row").values.tolist() == [[0, 2], [3, 1]]
    assert tensors.line_counts(part, "column").values.tolist() == [[2, 2], [1, 1]]


def test_every_cell_of_a_run_has_its_tensors_and_their_counts_agree(ids: dict[str, str]) -> None:
    run = library().open(ids["stagewise0"])
    layers, region = run.layers(), run.region()
    table = cells(layers)
    titles = tensors.cell_titles(table)
    assert set(titles) == set(tensors.fullest_cells(table))
    for cell, title in titles.items():  # the same title as for the cell alone
        place, _, words = tensors.cell_title(cell, table).partition(": ")
        assert title == f"{place} ({words.split(', ')[1].removesuffix(' the average density')})"
    chosen = tensors.fullest_cells(table)
    assert len({cell.key for cell in chosen}) == len(chosen) == len(table)
    seen = 0
    for cell in chosen:
        rows = tensors.cell_tensors(layers, cell)
        assert len(tensors.tensor_names(rows)) == len(rows) > 0
        for parameter, kind, selected in zip(rows["parameter"], rows["kind"], rows["selected"], strict=True):
            part = tensors.part(region, run.record, parameter, kind)
            assert len(part.entries) == selected
            seen += selected
    assert seen == run.record.size


def test_a_cell_in_the_address() -> None:
    assert tensors.Cell(3, "value").key == "3 · value" and tensors.Cell(None, "other").key == "-1 · other"


def test_the_table_of_tensors_adds_up_and_each_row_is_a_region(ids: dict[str, str]) -> None:
    run = library().open(ids["stagewise0"])
    region, table = run.region(), tensors.tensor_table(run.layers())
    assert table["selected"].sum() == region.size and table["share"].sum() == pytest.approx(1)
    assert table["selected"].is_monotonic_decreasing and table["movement_share"].dropna().between(0, 1).all()
    parameters = parameter_table(run.record, region)
    for _, row in table.iterrows():
        expression = checked_expression(tensors.tensor_expression(run.id, row))
        cut = region_of(expression, parameters, lambda run_id, size: region)
        assert cut.size == row["selected"] and set(cut.indices) <= {row["parameter"]}


@pytest.mark.parametrize(
    ("rows", "words"),
    [([2, 0, 2], "; the fullest is row 2 with 2 entries."), ([], ": no selected entries.")],
)
def test_the_fullest_row_is_read_out_with_its_count(rows: list[int], words: str) -> None:
    entries = pd.DataFrame({"row": rows, "col": range(len(rows))}, dtype="int64")
    shown = tensors.lines(tensors.Part("a.weight", "value", entries, 3, 4), "row", "light")
    assert shown.alt == f"Fullest rows of the tensor{words}"
