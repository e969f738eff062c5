"""Tests of the surgery page: a hand-made region is counted without models, kept in the address, undone; then grafted,
and saved with a real worker and a real job on a tiny pair; and of the region page's parts, scored on a click."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from skillviz import jobs
from skillviz.core.region_expression import region_of
from skillviz.plots.region import cells
from skillviz.runs.part_scores import CONTROL, DISJOINT, MINIMAL, REGIONS, SEARCHED, region_rows, store_parts
from skillviz.runs.run import Run
from skillviz.runs.store import PARTS, Store
from skillviz.runs.tables import score_matrix
from skillviz.show import measures
from skillviz.ui.pages.surgery import surgery_page
from skillviz.ui.pages.surgery.region_form import HandRegion, table_of
from tests.analysis.test_subskills import DRAWS
from tests.analysis.test_subskills import predictions as stored_predictions
from tests.fake_run import fake_run
from tests.jobs.conftest import ended
from tests.ui.driven import button, charts, fields, filled, labels, lacks, link, links, opened, pressed, said


def field(test: AppTest, name: str) -> Any:
    return next(field for field in fields(test) if field.key == f"surgery.field.{name}")


def given(test: AppTest, **values: object) -> AppTest:
    """Return the page after these fields of the form were filled, one after another."""
    for name, value in values.items():
        field(test, name).set_value(value).run()
    return test


def expression(test: AppTest) -> Any:
    """Return the region in the address, or the run's own if the address has none."""
    text = test.query_params.get("expression")
    return {"run": test.query_params["run"]} if text is None else json.loads(text)


def metrics(test: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in test.metric}


HELD, ENTRIES = "Held of this run's region", "Entries"
RESET, SAVE = "Reset to this run's region", "Save as a run"


def test_modules_are_counted_as_on_the_map_of_the_page_region() -> None:
    rows = [("a", 0, "value", False, 24, 100), ("b", 0, "value", True, 6, 10), ("c", 0, "key", False, 70, 100)]
    layers = pd.DataFrame(rows, columns=["parameter", "layer", "kind", "is_bias", "selected", "total"])
    assert [
        surgery_page._composition(HandRegion({}, part, size, 210, 100, 0, (0.0, 0.0, 0.0)))
        for part, size in ((layers, 100), (layers[layers["is_bias"]], 6))
    ] == ["By module, without biases: key (70.0%) and value (24.0%). Biases: 6.0%.", "Biases: 100.0%."]
    by_kind = measures.by_kind(cells(layers)).set_index("kind")["selected"]
    assert by_kind.to_dict() == {"bias": 6, "key": 70, "value": 24}


def test_parts_are_counted_at_once_and_stand_in_the_address(ids: dict[str, str], made: tuple[Path, dict]) -> None:
    test = given(opened("surgery", run=ids["movement"]), how="parts")
    assert expression(test) == {}
    given(test, layers=[1], kinds=["value"], rows="0-3, 8", biases="without")
    assert expression(test) == {"biases": False, "kinds": ["value"], "layers": [1], "rows": [[0, 3], [8, 8]]}
    run = Store(made[0]).open(ids["movement"])
    region = region_of(expression(test), table_of(run))
    assert region.size == 80 and metrics(test)[ENTRIES] == "80" and not button(test, SAVE).disabled
    assert metrics(test)[HELD].startswith(f"{100 * run.region().overlap(region) * 80 / 65:.1f}")
    again = opened("surgery", **link(test))
    assert (field(again, "how").value, field(again, "rows").value, metrics(again)[ENTRIES]) == ("parts", "0-3, 8", "80")


@pytest.mark.nightly
def test_undo_goes_back_step_by_step_and_reset_to_the_runs_own_region(ids: dict[str, str]) -> None:
    test = opened("surgery", run=ids["movement"])
    own = expression(test)
    given(test, how="without", layers=[0])
    cut = {"difference": [own, {"layers": [0]}]}
    assert expression(test) == cut
    assert expression(pressed(given(test, rows="5"), "Undo")) == cut and field(test, "rows").value == ""
    pressed(pressed(test, "Undo"), "Undo")
    assert expression(test) == own and not button(test, "Undo").disabled, "the keyboard is on it"
    assert expression(pressed(test, "Undo")) == own and button(test.run(), "Undo").disabled
    assert expression(pressed(given(test, how="parts"), RESET)) == own and field(test, "how").value == "stored"
    assert expression(pressed(test, "Undo")) == {} and not test.exception


def test_stored_regions_are_cut_and_put_together(ids: dict[str, str], made: tuple[Path, dict]) -> None:
    own, rival, seed = (ids[name] for name in ("stagewise0", "random", "stagewise1"))
    mine, theirs, other = (Store(made[0]).open(run).region() for run in (own, rival, seed))
    test = opened("surgery", run=own)
    steps = [
        ({"size": 200}, {"run": own, "size": 200}, 200),
        ({"size": 65}, {"run": own}, mine.size),
        ({"runs": [own, rival]}, {"union": [{"run": run} for run in sorted((own, rival))]}, (mine | theirs).size),
        ({"join": "intersection"}, {"intersection": [{"run": run} for run in sorted((own, rival))]},
         (mine & theirs).size),
        ({"runs": [seed, own], "join": "difference"}, {"difference": [{"run": seed}, {"run": own}]},
         (other - mine).size),
    ]  # fmt: skip
    for values, wanted, size in steps:
        ordered = {how: parts if how == "difference" or how in ("run", "size") else sorted(parts, key=str)
                   for how, parts in expression(given(test, **values)).items()}  # fmt: skip
        assert (ordered, metrics(test)[ENTRIES]) == (wanted, str(size)), values
    assert metrics(test)[HELD] == "0.0%" and 0 < (other - mine).size <= 65
    again = opened("surgery", **link(test))
    assert (expression(again), field(again, "how").value) == (expression(test), "stored") and not again.exception


def test_rows_that_cannot_be_read_are_explained_and_nothing_is_lost(ids: dict[str, str]) -> None:
    test = given(opened("surgery", run=ids["movement"], expression='{"layers":[1]}'), rows="7-3")
    assert "'7-3' names no rows" in said(test, "warning") and expression(test) == {"layers": [1]}
    assert "rows" not in said(given(test, rows="3-7"), "warning").split("\n")[0]
    assert expression(test) == {"layers": [1], "rows": [[3, 7]]}


@pytest.mark.parametrize(
    ("linked", "why", "is_reset"),
    [
        ("{", "not JSON", True), ("[" * 3000, "not JSON", True), ('{"layer":[0]}', "'layer' is not a part", True),
        ('{"rows":"1"}', "takes a list", True), ('{"layers":[7]}', "no layer '7'", False),
        ('{"run":"no-such-run"}', "no run 'no-such-run'", False),
    ],
)  # fmt: skip
def test_what_is_no_region_of_this_model_is_explained_and_can_be_taken_back(
    ids: dict[str, str], linked: str, why: str, is_reset: bool
) -> None:
    test = opened("surgery", run=ids["movement"], expression=linked)
    assert why in said(test, "error") and (expression(test) == {"run": ids["movement"]}) == is_reset
    if not is_reset:
        assert not said(pressed(test, RESET), "error") and expression(test) == {"run": ids["movement"]}


def test_an_expression_that_the_form_has_no_fields_for_stands_there_as_json(ids: dict[str, str]) -> None:
    test = opened("surgery", run=ids["movement"], expression='{"union":[{"layers":[0]},{"biases":true}]}')
    assert field(test, "how").value == "typed" and json.loads(field(test, "typed").value) == expression(test)
    assert "not JSON" in said(given(test, typed='{"layers": [1]'), "warning")
    assert expression(given(test, typed='{"layers": [1]}')) == {"layers": [1]}


@pytest.mark.nightly
def test_an_expression_of_many_parts_stands_in_the_address_and_a_longer_one_says_that_links_leave_it_out(
    ids: dict[str, str],
) -> None:
    def rows(count: int) -> str:
        return json.dumps({"union": [{"rows": [row]} for row in range(count)]})

    test, left_out = opened("surgery", run=ids["movement"], expression=rows(150)), "links leave it out"
    assert len(expression(test)["union"]) == 150 and len(test.query_params["expression"]) > 2500
    assert left_out not in said(test) and left_out in said(given(test, typed=rows(400)))
    assert "expression" not in test.query_params
    assert left_out not in said(given(test, typed=rows(2))) and len(expression(test)["union"]) == 2


def test_another_run_brings_its_own_region(ids: dict[str, str]) -> None:
    test = filled(opened("surgery", run=ids["movement"], expression='{"layers":[1]}'), "Localizer", "random")
    assert test.query_params["run"] == ids["random"] and expression(test) == {"run": ids["random"]}


def test_without_weights_it_counts_and_refuses_to_save(ids: dict[str, str], made: tuple[Path, dict]) -> None:
    test, before = opened("surgery", run=ids["movement"], expression='{"kinds":["value"]}'), sorted(made[0].iterdir())
    assert "needs the weights of both models" in said(test, "warning") and metrics(test)[ENTRIES] == "544"
    assert "on the whole test set" in said(test), "a stored number says what it is of"
    assert not lacks(test.code[1].value, "--method expression", '"kinds": ["value"]')
    assert len(charts(test)) == 1 and not test.table
    assert "demo/tiny-base" in said(pressed(test, SAVE), "error")
    assert "job" not in test.query_params and sorted(made[0].iterdir()) == before


@pytest.mark.slow
def test_an_unknown_architecture_is_built_from_tensor_names(empty: Path) -> None:
    run = fake_run(Store(empty), layers=2, width=8, sizes=("5%",), steps=2, n={"validation": 20, "test": 30})
    path, name = run.path / "run.json", "bert.encoder.layer.1.attention.self.query.weight"
    record = json.loads(path.read_text())
    record["architecture"] |= {"model_type": "strange", "known": False}
    path.write_text(json.dumps(record))
    test = given(opened("surgery", run=run.id), how="parts")
    assert "Module kinds" not in labels(test, "multiselect")
    given(test, tensors=[name])
    assert expression(test) == {"parameters": [name]} and metrics(test)[ENTRIES] == "64" and not test.exception


def accuracy(run: Run, state: str) -> str:
    _, labels, logits = run.logits(state, "test")
    return f"{100 * float(np.mean(logits.argmax(1) == labels)):.1f}%"


def scores(test: AppTest) -> dict[str, str]:
    """Return the accuracy of each model from the table, without its interval."""
    board = test.table[0].value
    return {model: value.split(" (")[0] for model, value in zip(board["model"], board["Accuracy"], strict=True)}


def counted(test: AppTest) -> set[str]:
    return {*test.table[0].value["examples"]}


def predictions(test: AppTest) -> str:
    return next(m.value for m in test.markdown if str(m.value).startswith("Pre-trained **"))


@pytest.mark.nightly
def test_the_graft_is_scored_live_beside_a_random_region_and_the_runs_own(alive: Run) -> None:
    test = opened("surgery", run=alive.id, sentence="a great film")
    n = len(alive.logits("grafted", "test")[1])
    assert f"2 random regions of its size on all {n} test examples" in said(test)
    assert not test.table and not test.warning, "nothing is scored on opening"
    shown = scores(pressed(test, "Score this graft"))
    own = {"Your region": "grafted", "Fine-tuned without your region": "complement"}
    assert shown.items() >= {model: accuracy(alive, state) for model, state in own.items()}.items()
    assert "This run's region" not in shown and "Random region, same size" in shown and counted(test) == {f"{n} of {n}"}
    assert not lacks(said(test), "a random region of the same size: accuracy", f"all {n} test examples")
    before = predictions(test)
    assert len(charts(test)) == 3 and not lacks(before, "your region", "fine-tuned", "complement")
    assert not given(test, how="parts").table, "another region, all parts, is another question"
    shown = scores(pressed(test, "Score this graft"))
    own = {"Your region": "finetuned", "This run's region": "grafted", "Fine-tuned without your region": "pretrained"}
    assert shown.items() >= {model: accuracy(alive, state) for model, state in own.items()}.items()
    assert "Random region, same size" not in shown and "everything that can be grafted" in said(test, "info")
    assert predictions(test) != before, "the typed sentence follows the region"
    assert test.query_params["sentence"] == "a great film"


@pytest.mark.nightly
def test_a_sample_says_its_size_and_all_examples_are_one_click_away(
    alive: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surgery_page, "SAMPLES", (10,))
    n = len(alive.logits("grafted", "test")[1])
    test = pressed(opened("surgery", run=alive.id, sample="10"), "Score this graft")
    assert counted(test) == {f"10 of {n}"} and f"10 of {n} test examples" in said(test)
    assert counted(pressed(test, f"Score all {n}")) == {f"{n} of {n}"} and "sample" not in test.query_params
    assert f"Score all {n}" not in labels(test)


@pytest.mark.nightly
def test_a_region_is_saved_as_a_run_by_a_job(alive: Run, user_runs: Path) -> None:
    store, difference = Store(user_runs), {"difference": [{"run": alive.id}, {"layers": [0]}]}
    test = opened("surgery", run=alive.id, expression=json.dumps(difference))
    assert not said(pressed(test.text_input(key="surgery.note").input("without the first layer").run(), SAVE), "error")
    name = test.query_params["job"]
    assert store.note(name) == "without the first layer" and f"`{name}`" in said(test)
    assert ended(store, name).status == "finished", jobs.log_tail(store, name)
    run = store.open(name)
    assert (run.spec.localizer, run.spec.options) == ("expression", {"expression": difference})
    assert run.region() == region_of(difference, table_of(alive), lambda run_id, size: alive.region())
    assert [check for check in run.record.checks if not check.passed] == []
    assert {"Open the run", "Open it"} <= {*links(test.run())} and button(test, SAVE).disabled
    again, gone = opened("surgery", run=alive.id, job=name), opened("surgery", run=alive.id, job="no-such-run")
    assert f"`{name}`" in said(again), "the job is followed by its address, in another session too"
    assert "job" not in gone.query_params and not gone.exception


SCORE = "Score the parts"


@pytest.mark.nightly
def test_parts_are_scored_on_request_and_kept(alive: Run, user_runs: Path) -> None:
    test = opened("region", run=alive.id)
    assert "forward passes over" in said(test) and "Not scored yet" in said(
        opened("region", run=alive.id, view="effect")
    )
    before = len(charts(test))
    assert "Alone, **layer" in said(pressed(test, SCORE)) and (user_runs / PARTS / alive.id / "cells").is_dir()
    assert len(charts(test)) == before + 3 and SCORE not in labels(test), "parts, and two of their sub-skills"
    assert not lacks(
        said(opened("region", run=alive.id, condition="without", effect="accuracy")), "Without **layer", "accuracy"
    )
    assert len(charts(opened("region", run=alive.id, view="effect"))) == before + 3
    assert SCORE in labels(opened("region", run=alive.id, parts="heads")) and Store(user_runs).verify(alive.id) == []


@pytest.mark.slow
def test_without_the_models_it_says_what_is_missing(alive: Run, user_runs: Path, lived: Path) -> None:
    record = user_runs / alive.id / "run.json"
    record.write_text(record.read_text().replace(str(lived / "base"), "/nowhere/base"))
    assert "/nowhere/base" in said(pressed(opened("region", run=alive.id), SCORE)) and not (user_runs / PARTS).exists()


@pytest.mark.slow
def test_subskills_are_shown_with_the_link_that_grafts_one_alone(alive: Run, user_runs: Path) -> None:
    assert "Sub-skills" not in said(opened("region", run=alive.id))
    store_parts(
        Store(user_runs), alive, stored_predictions(names=alive.labels), grouping="cells", split="test", draws=DRAWS,
        seed=0, seconds=1.0,
    )  # fmt: skip
    test = opened("region", run=alive.id, subskill="2")
    assert not lacks(said(test), "**2 sub-skills** beyond a random region's", "are falls and left out")
    (query,) = [query for label, query in links(test).items() if "sub-skill" in label]
    assert not lacks(query, f"run={alive.id}", "intersection") and len(test.table) >= 2


@pytest.mark.slow
def test_other_regions_are_shown_once_they_are_stored_and_the_command_before(alive: Run, user_runs: Path) -> None:
    assert f"python -m skillviz regions {alive.id} --find minimal" in said(opened("region", run=alive.id), "code")
    flat, ids = alive.region().flat(), alive.predictions().query("state == 'grafted' and split == 'test'")
    logits = np.stack([score_matrix(ids, alive.labels)] * 2)
    rows = [
        region_rows(kind, 1, len(entries), [(SEARCHED, 0), (CONTROL, 1)], logits, ids["example_id"].tolist(),
                    ids["label"].to_numpy(), alive.labels)
        for kind, entries in ((MINIMAL, flat[:5]), (DISJOINT, flat))
    ]  # fmt: skip
    store_parts(
        Store(user_runs), alive, pd.concat(rows), grouping=REGIONS, split="test", draws=1, seed=0, seconds=1.0,
        entries={"minimal 1": flat[:5], "disjoint 1": flat},
        facts={"minimal 1": {"loss": 0.5, "loss_kept": 0.4}, "disjoint 1": {"seconds": 1.0}},
    )  # fmt: skip
    for view in ("density", MINIMAL, "roles"):
        shown = opened("region", run=alive.id, view=view)
        assert "of the region suffices" in said(shown), view
    assert said(shown, "code") == f"python -m skillviz regions {alive.id} --find adversarial" and len(shown.table) >= 2
