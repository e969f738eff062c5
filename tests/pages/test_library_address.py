"""The library's filters and the chosen run stand in the address, and a copied link opens the same list."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.pages.test_pages import opened

CHOICES = ("search", "localizers", "from", "chosen")


def listed(test: AppTest) -> list[str]:
    return [] if not test.dataframe else test.dataframe[0].value["run"].tolist()


def test_a_copied_link_shows_the_same_runs(ids: dict[str, str]) -> None:
    test = opened("runs")
    assert not set(CHOICES) & set(test.query_params), "defaults are left out"
    next(box for box in test.text_input if box.label == "Search").input("tiny sst2").run()
    next(box for box in test.multiselect if box.label == "Localizers").set_value(["movement", "stagewise"]).run()
    next(box for box in test.segmented_control if box.label == "From").set_value("you").run()
    next(box for box in test.selectbox if box.label == "Chosen run").select(ids["movement"]).run()
    link = {name: test.query_params[name] for name in CHOICES}
    assert link == {"search": "tiny sst2", "localizers": "movement,stagewise", "from": "you", "chosen": ids["movement"]}
    again = opened("runs", **link)
    assert not again.exception
    assert listed(again) == listed(test) and set(listed(again)) == {
        ids[n] for n in ("movement", "stagewise0", "stagewise1")
    }
    assert next(box for box in again.selectbox if box.label == "Chosen run").value == ids["movement"]
    assert {name: again.query_params[name] for name in CHOICES} == link


def test_what_is_gone_is_passed_over(ids: dict[str, str]) -> None:
    test = opened("runs", localizers="magic", chosen="gone", **{"from": "mars"})
    assert not test.exception and len(listed(test)) == len(ids)
    assert not set(CHOICES) & set(test.query_params)
