"""Tests of the surgery page: a hand-made region is counted without models, kept in the address, undone; then grafted
and saved with a real worker and a real job on a tiny pair."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from skillviz import jobs
from skillviz.core.region_expression import region_of
from skillviz.plots.region import cells
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.show import measures
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.surgery import surgery_page
from skillviz.ui.pages.surgery.region_form import HandRegion, table_of
from tests.fake_run import fake_run
from tests.jobs.conftest import ended
from tests.live.conftest import lived, own_workers
from tests.pages.scored_world import pressed

__all__ = ["lived", "own_workers"]


def opened(**query: str) -> AppTest:
    """Return the page after its first script run, with these parameters in the address."""
    test = AppTest.from_file(str(PAGES["surgery"].path), default_timeout=300)
    for key, value in query.items():
        test.query_params[key] = value
    return test.run()


def field(test: AppTest, kind: str, name: str):
    """Return a field of the form."""
    return getattr(test, kind)(key=f"surgery.field.{name}")


def button(test: AppTest, label: str):
    return next(b for b in test.button if b.label == label)


def joined(test: AppTest, how: str) -> None:
    """Combine the stored regions in another way."""
    next(group for group in test.button_group if group.key == "surgery.field.join").set_value(how).run()


def expression(test: AppTest) -> object:
    """Return the region in the address, or the run's own if the address has none."""
    text = test.query_params.get("expression")
    return {"run": test.query_params["run"]} if text is None else json.loads(text)


def words_of(test: AppTest) -> str:
    return "\n".join(str(p.value) for p in (*test.markdown, *test.caption, *test.info, *test.warning, *test.success))


def metric(test: AppTest, label: str) -> str:
    return next(m.value for m in test.metric if m.label == label)


def test_it_begins_with_the_runs_own_region(ids: dict[str, str]) -> None:
    test = opened(run=ids["movement"])
    assert expression(test) == {"run": ids["movement"]}
    assert "**65 entries**" in words_of(test)
    assert "Held of this run's region" not in [m.label for m in test.metric], "all of it: nothing to compare"
    assert button(test, "Undo").disabled and button(test, "Save as a run").disabled
    assert button(test, "Reset to this run's region").disabled


def test_modules_are_counted_as_on_the_map_of_the_page_region() -> None:
    rows = [("a", 0, "value", False, 24, 100), ("b", 0, "value", True, 6, 10), ("c", 0, "key", False, 70, 100)]
    layers = pd.DataFrame(rows, columns=["parameter", "layer", "kind", "is_bias", "selected", "total"])
    region = HandRegion({}, layers, 100, 210, 100, 0, (0.0, 0.0, 0.0))
    assert (
        surgery_page._composition(region) == "By module, without biases: key (70.0%) and value (24.0%). Biases: 6.0%."
    )
    by_kind = measures.by_kind(cells(layers)).set_index("kind")["selected"]
    assert by_kind.to_dict() == {"bias": 6, "key": 70, "value": 24}
    only = HandRegion({}, layers[layers["is_bias"]], 6, 210, 100, 0, (0.0, 0.0, 0.0))
    assert surgery_page._composition(only) == "Biases: 100.0%."


def test_parts_are_counted_at_once_and_stand_in_the_address(ids: dict[str, str], made: tuple[Path, dict]) -> None:
    test = opened(run=ids["movement"])
    field(test, "selectbox", "how").select("parts").run()
    assert expression(test) == {}
    field(test, "multiselect", "layers").select(1).run()
    field(test, "multiselect", "kinds").select("value").run()
    field(test, "text_input", "rows").input("0-3, 8").run()
    field(test, "selectbox", "biases").select("without").run()
    assert expression(test) == {"biases": False, "kinds": ["value"], "layers": [1], "rows": [[0, 3], [8, 8]]}
    run = Store(made[0]).open(ids["movement"])
    region = region_of(expression(test), table_of(run))  # type: ignore[arg-type]
    assert region.size == 80 and metric(test, "Entries") == "80"
    assert metric(test, "Held of this run's region").startswith(f"{100 * run.region().overlap(region) * 80 / 65:.1f}")
    assert not test.exception and not button(test, "Save as a run").disabled
    again = opened(run=ids["movement"], expression=test.query_params["expression"])
    assert field(again, "selectbox", "how").value == "parts"
    assert field(again, "text_input", "rows").value == "0-3, 8" and metric(again, "Entries") == "80"


@pytest.mark.nightly
def test_undo_goes_back_step_by_step_and_reset_to_the_runs_own_region(ids: dict[str, str]) -> None:
    test = opened(run=ids["movement"])
    own = expression(test)
    field(test, "selectbox", "how").select("without").run()
    field(test, "multiselect", "layers").select(0).run()
    cut = {"difference": [own, {"layers": [0]}]}
    assert expression(test) == cut
    field(test, "text_input", "rows").input("5").run()
    button(test, "Undo").click().run()
    assert expression(test) == cut and field(test, "text_input", "rows").value == ""
    button(test, "Undo").click().run()
    button(test, "Undo").click().run()
    assert expression(test) == own and not button(test, "Undo").disabled, "the keyboard is on it"
    button(test, "Undo").click().run()
    assert expression(test) == own and button(test.run(), "Undo").disabled
    field(test, "selectbox", "how").select("parts").run()
    button(test, "Reset to this run's region").click().run()
    assert expression(test) == own and field(test, "selectbox", "how").value == "stored"
    button(test, "Undo").click().run()
    assert expression(test) == {} and not test.exception


def test_stored_regions_are_cut_and_put_together(ids: dict[str, str], made: tuple[Path, dict]) -> None:
    test = opened(run=ids["stagewise0"])
    field(test, "select_slider", "size").set_value(200).run()
    assert expression(test) == {"run": ids["stagewise0"], "size": 200} and metric(test, "Entries") == "200"
    field(test, "select_slider", "size").set_value(65).run()
    assert expression(test) == {"run": ids["stagewise0"]}
    field(test, "multiselect", "runs").select(ids["random"]).run()
    both = [{"run": ids["stagewise0"]}, {"run": ids["random"]}]
    assert sorted(part["run"] for part in expression(test)["union"]) == sorted(part["run"] for part in both)
    one, other = (Store(made[0]).open(ids[name]).region() for name in ("stagewise0", "random"))
    assert metric(test, "Entries") == str((one | other).size)
    joined(test, "intersection")
    assert "intersection" in expression(test) and metric(test, "Entries") == str((one & other).size)
    assert not test.exception


def test_one_stored_region_without_another(ids: dict[str, str], made: tuple[Path, dict]) -> None:
    test = opened(run=ids["stagewise0"])
    field(test, "multiselect", "runs").set_value([ids["stagewise1"], ids["stagewise0"]]).run()
    joined(test, "difference")
    assert expression(test) == {"difference": [{"run": ids["stagewise1"]}, {"run": ids["stagewise0"]}]}
    one, other = (Store(made[0]).open(ids[name]).region() for name in ("stagewise0", "stagewise1"))
    assert metric(test, "Entries") == str((other - one).size) and 0 < (other - one).size <= 65
    assert metric(test, "Held of this run's region") == "0.0%"
    again = opened(run=ids["stagewise0"], expression=test.query_params["expression"])
    assert expression(again) == expression(test) and field(again, "selectbox", "how").value == "stored"
    assert not test.exception and not again.exception


def test_rows_that_cannot_be_read_are_explained_and_nothing_is_lost(ids: dict[str, str]) -> None:
    test = opened(run=ids["movement"], expression='{"layers":[1]}')
    field(test, "text_input", "rows").input("7-3").run()
    assert not test.exception and "'7-3' names no rows" in test.warning[0].value
    assert expression(test) == {"layers": [1]}
    field(test, "text_input", "rows").input("3-7").run()
    assert not test.warning or "rows" not in test.warning[0].value
    assert expression(test) == {"layers": [1], "rows": [[3, 7]]}


def test_an_empty_selection_is_a_state_of_its_own(ids: dict[str, str]) -> None:
    test = opened(run=ids["movement"], expression='{"layers":[0],"rows":[9999]}')
    assert not test.exception and metric(test, "Entries") == "0"
    assert button(test, "Save as a run").disabled


@pytest.mark.parametrize(
    ("linked", "words"),
    [
        ("{", "not JSON"),
        ("[" * 3000, "not JSON"),
        ('{"layer":[0]}', "'layer' is not a part"),
        ('{"rows":"1"}', "takes a list"),
    ],
)
def test_an_unreadable_expression_of_the_address_is_explained(ids: dict[str, str], linked: str, words: str) -> None:
    test = opened(run=ids["movement"], expression=linked)
    assert not test.exception and words in test.error[0].value.replace("\\", "")
    assert expression(test) == {"run": ids["movement"]}


@pytest.mark.parametrize(
    ("linked", "words"),
    [('{"layers":[7]}', "no layer '7'"), ('{"run":"no-such-run"}', "no run 'no-such-run'")],
)
def test_what_this_model_does_not_have_is_explained_and_can_be_taken_back(
    ids: dict[str, str], linked: str, words: str
) -> None:
    test = opened(run=ids["movement"], expression=linked)
    assert not test.exception and words in test.error[0].value.replace("\\", "")
    button(test, "Reset to this run's region").click().run()
    assert not test.error and expression(test) == {"run": ids["movement"]}


def test_an_expression_that_the_form_has_no_fields_for_stands_there_as_json(ids: dict[str, str]) -> None:
    test = opened(run=ids["movement"], expression='{"union":[{"layers":[0]},{"biases":true}]}')
    assert field(test, "selectbox", "how").value == "typed"
    assert json.loads(field(test, "text_area", "typed").value) == expression(test)
    field(test, "text_area", "typed").input('{"layers": [1]').run()
    assert "not JSON" in test.warning[0].value and not test.exception
    field(test, "text_area", "typed").input('{"layers": [1]}').run()
    assert expression(test) == {"layers": [1]}


@pytest.mark.nightly
def test_an_expression_of_many_parts_stands_in_the_address_and_a_longer_one_says_that_links_leave_it_out(
    ids: dict[str, str],
) -> None:
    def rows(count: int) -> str:
        return json.dumps({"union": [{"rows": [row]} for row in range(count)]})

    test = opened(run=ids["movement"], expression=rows(150))
    assert len(expression(test)["union"]) == 150 and len(test.query_params["expression"]) > 2500
    assert "links leave it out" not in words_of(test)
    field(test, "text_area", "typed").input(rows(400)).run()
    assert not test.exception and "expression" not in test.query_params and "links leave it out" in words_of(test)
    field(test, "text_area", "typed").input(rows(2)).run()
    assert len(expression(test)["union"]) == 2 and "links leave it out" not in words_of(test)


def test_another_run_brings_its_own_region(ids: dict[str, str]) -> None:
    test = opened(run=ids["movement"], expression='{"layers":[1]}')
    next(box for box in test.selectbox if box.label == "Localizer").select("random").run()
    assert test.query_params["run"] == ids["random"] and expression(test) == {"run": ids["random"]}


def test_without_weights_it_counts_and_says_what_is_missing(ids: dict[str, str]) -> None:
    test = opened(run=ids["movement"], expression='{"kinds":["value"]}')
    assert "needs the weights of both models" in test.warning[0].value
    assert len(test.get("plotly_chart")) == 1 and metric(test, "Entries") == "544" and not test.table
    assert "on the whole test set" in words_of(test), "a stored number says what it is of"
    assert "--method expression" in test.code[0].value and '"kinds": ["value"]' in test.code[0].value


def test_saving_without_weights_is_refused_in_a_sentence(ids: dict[str, str], made: tuple[Path, dict]) -> None:
    test = opened(run=ids["movement"], expression='{"kinds":["value"]}')
    before = sorted(made[0].iterdir())
    button(test, "Save as a run").click().run()
    assert not test.exception and "demo/tiny-base" in test.error[0].value
    assert "job" not in test.query_params and sorted(made[0].iterdir()) == before


@pytest.mark.slow
def test_an_unknown_architecture_is_built_from_tensor_names(user_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: user_runs)
    run = fake_run(Store(user_runs), layers=2, width=8, sizes=("5%",), steps=2, n={"validation": 20, "test": 30})
    path = run.path / "run.json"
    record = json.loads(path.read_text())
    record["architecture"] |= {"model_type": "strange", "known": False}
    path.write_text(json.dumps(record))
    test = opened(run=run.id)
    field(test, "selectbox", "how").select("parts").run()
    assert not [box for box in test.multiselect if box.label == "Module kinds"]
    name = "bert.encoder.layer.1.attention.self.query.weight"
    field(test, "multiselect", "tensors").select(name).run()
    assert expression(test) == {"parameters": [name]} and metric(test, "Entries") == "64"
    assert not test.exception


@pytest.fixture
def alive(lived: Path, user_runs: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a copy of the run of a real tiny pair, whose models are available."""
    shutil.copytree(lived / "runs", user_runs)
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: user_runs / "none")
    return Store(user_runs).list()[0]


def accuracy(run: Run, state: str) -> str:
    _, labels, logits = run.logits(state, "test")
    return f"{100 * float(np.mean(logits.argmax(1) == labels)):.1f}%"


def scores(test: AppTest) -> dict[str, str]:
    """Return the accuracy of each model from the table, without its interval."""
    board = test.table[0].value
    return {model: value.split(" (")[0] for model, value in zip(board["model"], board["Accuracy"], strict=True)}


@pytest.mark.nightly
def test_the_graft_is_scored_live_beside_a_random_region_and_the_runs_own(alive: Run) -> None:
    test = opened(run=alive.id, sentence="a great film")
    assert not test.exception and not test.warning and not test.table, "nothing is scored on opening"
    n = len(alive.logits("grafted", "test")[1])
    assert f"2 random regions of its size on all {n} test examples" in words_of(test)
    pressed(test, "Score this graft")
    shown = scores(test)
    assert shown["Your region"] == accuracy(alive, "grafted")
    assert shown["Fine-tuned without your region"] == accuracy(alive, "complement")
    assert "This run's region" not in shown and "Random region, same size" in shown
    assert set(test.table[0].value["examples"]) == {f"{n} of {n}"}
    assert "a random region of the same size: accuracy" in words_of(test) and f"all {n} test examples" in words_of(test)
    assert len(test.get("plotly_chart")) == 3
    before = next(m.value for m in test.markdown if str(m.value).startswith("Pre-trained **"))
    assert all(word in before for word in ("your region", "fine-tuned", "complement"))
    field(test, "selectbox", "how").select("parts").run()  # all parts: the fine-tuned model, and the base
    assert not test.table, "another region is another question"
    pressed(test, "Score this graft")
    shown = scores(test)
    assert shown["Your region"] == accuracy(alive, "finetuned")
    assert shown["This run's region"] == accuracy(alive, "grafted")
    assert shown["Fine-tuned without your region"] == accuracy(alive, "pretrained")
    assert "Random region, same size" not in shown and "everything that can be grafted" in test.info[0].value
    after = next(m.value for m in test.markdown if str(m.value).startswith("Pre-trained **"))
    assert after != before, "the typed sentence follows the region"
    assert test.query_params["sentence"] == "a great film"


@pytest.mark.nightly
def test_a_sample_says_its_size_and_all_examples_are_one_click_away(
    alive: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillviz.ui.pages.surgery.surgery_page.SAMPLES", (10,))
    n = len(alive.logits("grafted", "test")[1])
    test = pressed(opened(run=alive.id, sample="10"), "Score this graft")
    assert set(test.table[0].value["examples"]) == {f"10 of {n}"} and f"10 of {n} test examples" in words_of(test)
    button(test, f"Score all {n}").click().run()
    assert set(test.table[0].value["examples"]) == {f"{n} of {n}"} and "sample" not in test.query_params
    assert f"Score all {n}" not in [one.label for one in test.button]


@pytest.mark.nightly
def test_a_region_is_saved_as_a_run_by_a_job(alive: Run, user_runs: Path) -> None:
    store = Store(user_runs)
    difference = {"difference": [{"run": alive.id}, {"layers": [0]}]}
    test = opened(run=alive.id, expression=json.dumps(difference))
    test.text_input(key="surgery.note").input("without the first layer").run()
    button(test, "Save as a run").click().run()
    assert not test.exception and not test.error
    name = test.query_params["job"]
    assert store.note(name) == "without the first layer" and f"`{name}`" in words_of(test)
    assert ended(store, name).status == "finished", jobs.log_tail(store, name)
    run = store.open(name)
    assert run.spec.localizer == "expression" and run.spec.options == {"expression": difference}
    assert run.region() == region_of(difference, table_of(alive), lambda run_id, size: alive.region())
    assert all(check.passed for check in run.record.checks)
    test.run()
    assert {"Open the run", "Open it"} <= {link.proto.label for link in test.get("page_link")}
    assert button(test, "Save as a run").disabled
    again = opened(run=alive.id, job=name)
    assert f"`{name}`" in words_of(again), "the job is followed by its address, in another session too"
    gone = opened(run=alive.id, job="no-such-run")
    assert not gone.exception and "job" not in gone.query_params
