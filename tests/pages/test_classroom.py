"""Tests of the pages of a hosted tour: the teacher's with link, counts and bars, and the students' that follow it."""

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.runs.run import Run
from skillviz.serving.classroom import Classrooms
from skillviz.show.classroom import shares, table
from skillviz.ui.pages.tour import classroom
from skillviz.ui.pages.tour.tour_page import STEPS
from tests.tour_runs import skilled, skilled_runs
from tests.ui.driven import button, charts, labels, lacks, link, opened, pressed, said

FIXTURES = (skilled, skilled_runs)


class Room:
    """A server's classes, and pages of browsers that are told apart by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.who, self.rooms = "teacher", Classrooms()
        monkeypatch.setattr(classroom, "CLASSROOMS", self.rooms)
        monkeypatch.setattr(classroom, "browser", lambda: self.who)

    def page(self, who: str, **query: str) -> AppTest:
        self.who = who
        return opened("tour", **query)

    def again(self, who: str, page: AppTest) -> AppTest:
        self.who = who
        return page.run()


@pytest.fixture
def of(skilled: Run, monkeypatch: pytest.MonkeyPatch) -> Room:
    return Room(monkeypatch)


def test_the_teacher_hosts_and_the_class_answers(of: Room) -> None:
    teacher = pressed(of.page("teacher"), "Host this tour")
    code = link(teacher)["host"]
    assert f"?join={code}" in teacher.code[0].value and not lacks(
        said(teacher), "Join this class", "this machine alone"
    )
    ada = of.page("ada", join=code.lower())
    assert "You have joined" in said(ada) and not ada.radio
    of.who = "teacher"
    teacher = pressed(teacher, "Start")
    assert f"## {STEPS[0].title}" in said(teacher) and "0 of 1 student answered" in said(teacher) and not teacher.radio
    ada = of.again("ada", ada)
    assert f"## {STEPS[0].title}" in said(ada) and not charts(ada) and not {"Reveal", "Next"} & {*labels(ada)}
    assert "Your answer counts" in said(ada.radio[0].set_value("pretrained").run())
    assert "Your answer counts" in said(ada.radio[0].set_value("finetuned").run())
    bo = of.page("bo", join=code)
    assert "Choose one." in said(bo), "a late student"
    teacher = of.again("teacher", teacher)
    assert "1 of 2 students answered" in said(teacher) and "The answer:" not in said(teacher)
    teacher = pressed(teacher, "Reveal")
    (chart,) = [chart for chart in charts(teacher) if "of the class" in chart.proto.alt]
    assert "The answer:" in said(teacher) and "the fine-tuned one 100% (1, right)" in chart.proto.alt
    assert "**Right.**" in said(of.again("ada", ada)) and ada.radio[0].disabled
    assert "**Right.**" in said(of.page("ada", join=code)), "after a reload"
    assert "The answer:" in said(of.again("bo", bo)) and "(1, right)" in said(bo)
    again = of.page("teacher", host=code)
    assert "The answer:" in said(again) and "Host this tour" not in labels(again), "the teacher reloads"
    of.who = "teacher"
    pressed(again, "Next")
    assert f"## {STEPS[1].title}" in said(of.again("bo", bo))
    of.who = "teacher"
    assert "host" not in link(pressed(again, "End the class")) and button(again, "Host this tour")
    of.again("ada", ada)
    ended = of.again("ada", ada)
    assert code in said(ended, "warning") and len(pressed(ended, "Open the tour").radio) == 1


@pytest.mark.parametrize("name", ["join", "host"])
def test_an_unknown_code_is_explained(name: str, of: Room) -> None:
    page = of.page("ada", **{name: "NOBODY"})
    assert "NOBODY" in said(page, "warning") and link(page) == {"join": "NOBODY"}


def test_who_opens_the_teachers_address_is_a_student_and_may_not_reveal(of: Room) -> None:
    code = link(pressed(of.page("teacher"), "Host this tour"))["host"]
    page = of.page("ada", host=code)
    assert link(page) == {"join": code} and "You have joined" in said(page)


def test_a_server_with_all_its_classes_says_so(of: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillviz.serving.classroom.MOST_CLASSES", 0)
    page = pressed(of.page("teacher"), "Host this tour")
    assert "0 classes" in said(page, "warning") and "host" not in link(page)


def test_the_table_has_counts_and_no_names_and_the_shares_add_up() -> None:
    choices, counts = {"a": "one", "b": "two"}, {"a": 3, "b": 1}
    found = table([(4, r"Everything *but* \(it\)?", choices, counts)])
    assert found.to_csv(index=False).splitlines() == [
        "step,question,answer,count", "4,Everything but (it)?,one,3", "4,Everything but (it)?,two,1",
    ]  # fmt: skip
    assert shares(choices, counts, "b").values.tolist() == [["one", 3, 0.75, False], ["two", 1, 0.25, True]]
    assert shares(choices, {"a": 0, "b": 0}, None)["share"].tolist() == [0, 0]
