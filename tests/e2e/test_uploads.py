"""Files go through the browser and the guard to the page that asked for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import settle

pytestmark = pytest.mark.e2e
INPUT = "input[type=file]"


def test_three_files_are_taken_replaced_and_taken_again(
    address: str, visit: Callable[..., Any], tmp_path: Path
) -> None:
    """More often than one visitor may have files: each one that is replaced, or went with its form, makes room."""
    file = tmp_path / "mine.csv"
    file.write_text("text,label\n" + "".join(f"a long enough sentence {n},{n % 2}\n" for n in range(60)))
    page = visit(f"{address}/launch?new.source=upload")
    answers: list[int] = []
    page.on("response", lambda answer: answers.append(answer.status) if answer.request.method == "PUT" else None)
    for _ in range(2):
        for _ in range(3):
            for number in range(3):
                page.locator(INPUT).nth(number).set_input_files(file)
                settle(page)
        page.get_by_role("button", name="Check and save as a task").wait_for()
        page.get_by_role("radio", name="known task").click()
        page.locator(INPUT).first.wait_for(state="detached")
        page.get_by_role("radio", name="upload data").click()
        page.locator(INPUT).nth(2).wait_for(state="attached")
        settle(page)
    assert answers == [204] * 18


def test_a_file_of_nobody_is_refused(address: str, visit: Callable[..., Any]) -> None:
    page = visit(f"{address}/runs")
    put = """async () => (await fetch("/_stcore/upload_file/x/y", {method: "PUT", body: "a"})).status"""
    assert page.evaluate(put) == 403
