"""Test that files go through the browser and the guard to the page that requested them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillviz.serving import uploads

pytestmark = pytest.mark.e2e
INPUT = "input[type=file]"


@pytest.mark.nightly
def test_files_are_taken_again_and_again(address: str, visit: Callable[..., Any], tmp_path: Path) -> None:
    """Upload more often than the visitor's limit of files: files of an abandoned form are removed first."""
    file = tmp_path / "mine.csv"
    file.write_text("text,label\n" + "".join(f"a long enough sentence {n},{n % 2}\n" for n in range(60)))
    page = visit(f"{address}/launch?new.source=upload")
    answers: list[int] = []
    page.on("response", lambda answer: answers.append(answer.status) if answer.request.method == "PUT" else None)
    for number in range(uploads.MOST_FILES + 1):
        page.locator(INPUT).first.set_input_files(file)
        page.get_by_role("button", name="Check and save as a task").wait_for()
        assert answers == [204] * (number + 1)
        page.get_by_role("radio", name="known task").click()
        page.locator(INPUT).first.wait_for(state="detached")
        page.get_by_role("radio", name="upload data").click()
        page.locator(INPUT).first.wait_for(state="attached")


def test_a_file_of_nobody_is_refused(address: str, visit: Callable[..., Any]) -> None:
    page = visit(f"{address}/runs")
    put = """async () => (await fetch("/_stcore/upload_file/x/y", {method: "PUT", body: "a"})).status"""
    assert page.evaluate(put) == 403
