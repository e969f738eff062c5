"""Tests that the address holds the library's filters and the chosen run, and that a copied link opens the same list."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.pages.test_pages import opened

CHOICES = ("search", "localizers", "from", "chosen")


def listed(test: AppTest) -> list[str]:
    return [run_id for table in test.dataframe for run_id in table.value["run"]]


def chosen_box(test: AppTest):
    return next(box for box in test.multiselect if box.label == "Chosen runs")


def test_a_copied_link_shows_the_same_runs(ids: dict[str, str]) -> None:
    test = opened("runs")
    assert not set(CHOICES) & set(test.query_params), "defaults are left out"
    next(box for box in test.text_input if box.label == "Search").input("tiny sst2").run()
    next(box for box in test.multiselect if box.label == "Localizers").set_value(["movement", "stagewise"]).run()
    next(box for box in test.segmented_control if box.label == "From").set_value("you").run()
    chosen = [ids["movement"], ids["stagewise1"]]
    chosen_box(test).set_value(chosen).run()
    link = {name: test.query_params[name] for name in CHOICES}
    assert link == {
        "search": "tiny sst2", "localizers": "movement,stagewise", "from": "you", "chosen": ",".join(chosen),
    }  # fmt: skip
    again = opened("runs", **link)
    assert not again.exception
    assert listed(again) == listed(test) and set(listed(again)) == {
        ids[n] for n in ("movement", "stagewise0", "stagewise1")
    }
    assert chosen_box(again).value == chosen
    assert {name: again.query_params[name] for name in CHOICES} == link


def test_what_is_gone_is_passed_over(ids: dict[str, str]) -> None:
    test = opened("runs", localizers="magic", chosen="gone", **{"from": "mars"})
    assert not test.exception and len(listed(test)) == len(ids)
    assert not set(CHOICES) & set(test.query_params)
