"""Check that sentences of the docs with a number or a verdict agree with the tables on the same page."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NO_DIFFERENCE, NOT_MEASURED
from skillviz.errors import BadInput
from skillviz.studies.paper.experiments import EXPERIMENTS
from tests.scripts import script

DOCS = Path(__file__).resolve().parents[2] / "docs"
OUTCOMES = (CONFIRMED, INCONCLUSIVE, CONTRADICTED, NOT_MEASURED)
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")


def flat(text: str) -> str:
    """Return the text on one line."""
    return " ".join(text.split())


def test_the_default_localizer_has_the_counts_of_its_table() -> None:
    """Regression: the sentence said 7 comparisons and the table 4, at a false discovery rate of 5%."""
    text = page("localizers.md")
    said = re.search(
        r"than the learned mask in (\d+) of (\d+) comparisons and worse in (\d+).*?(\d+) of these differences hold",
        flat(text),
    )
    counted = re.search(r"- stagewise − learned: Of (\d+) comparisons, (\d+) exclude zero;.*? (\d+) holds? at a", text)
    assert said and counted
    better, n, worse, held = map(int, said.groups())
    assert (n, better + worse, held) == tuple(map(int, counted.groups()))
    rows = re.findall(r"^\| stagewise − learned \| \S+ \| (\d+) \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    columns = [sum(map(int, column)) for column in zip(*rows, strict=True)]
    assert [better, worse, n] == [*columns[:2], sum(columns)]


@pytest.mark.parametrize("planted", ["Both are confirmed.", "So it is not Confirmed here.", "Accuracy agrees.",
                                     "Calibration is inconclusive.", "All four claims are open."])  # fmt: skip
def test_no_verdict_is_typed(tmp_path: Path, planted: str) -> None:
    """Regression: Figure 4b was confirmed in the table, and `not confirmed` in the text below it."""
    results, path = script("docs/results.py"), tmp_path / "words.yaml"
    path.write_text(f"studies: {{figure4-small: '{planted}'}}\n")
    with pytest.raises(BadInput, match=r"studies\.figure4-small: .* is a verdict"):
        results.read_words(path)
    assert results.read_words()  # the page's own text contains no verdicts


def sections() -> dict[str, str]:
    """Return the section of each experiment on the page of results, by title."""
    parts = re.split(r"^## (.+)$", page("results.md"), flags=re.MULTILINE)
    titles = {row.title for row in EXPERIMENTS.values()}
    return {title: body for title, body in zip(parts[1::2], parts[2::2], strict=True) if title in titles}


def test_the_overview_has_the_verdicts_of_every_section() -> None:
    table = re.findall(r"^\| ((?:Table|Figure) \d+: .+?) \| ([^|]+?) \|$", page("results.md"), re.MULTILINE)
    assert len(table) > 10
    for title, cell in table:
        said = {
            outcome: sum(map(int, re.findall(rf"(\d+) {'of [0-9]+ ' * (outcome == CONFIRMED)}{outcome}", cell)))
            for outcome in OUTCOMES
        }
        counted = Counter(re.findall(rf"^- \*\*({'|'.join(OUTCOMES)})\*\*: ", sections()[title], re.MULTILINE))
        assert said == {outcome: counted[outcome] for outcome in OUTCOMES}, title


def test_no_difference_without_an_interval_is_called_unclear() -> None:
    text = page("results.md")
    bare = re.findall(r"\| (−?\d+\.\d), ([a-z ]+) (?=\|)", text)
    assert len(bare) > 10 and {verdict for _, verdict in bare} == {NOT_MEASURED}
    known = re.findall(rf"\), plug-in −?[\d.]+, ({NO_DIFFERENCE}|better|worse|{NOT_MEASURED}) \|", text)
    assert known and NOT_MEASURED not in known
    assert not re.search(r"\*\*(?:inconclusive|confirmed|contradicted)\*\*: [^\n]*None of", text)


def test_a_claim_counts_the_tasks_whose_rows_say_something() -> None:
    """Regression: "6 of 13" counted a task on which fine-tuning gains nothing."""
    checked = 0
    for part in re.split(r"^\*\*", sections()[EXPERIMENTS["table2"].title], flags=re.MULTILINE):
        rows = re.findall(r"^\| ([\w-]+) \| .* \| (no gain|none|[\d.]+%[^|]*) \|.*$", part, re.MULTILINE)
        claims = re.findall(r"\*\*: The graft (?:keeps|is better)[^\n]*? of (\d+) comparisons", part)
        if rows and claims:
            wanted = sum(size != "no gain" for _, size in rows)
            assert {int(n) for n in claims} == {wanted}, part[:80]
            checked += 1
    assert checked


def test_baselines_on_minilm_say_what_their_verdicts_say() -> None:
    text = page("research/baselines.md")
    lines = re.findall(r"^- (?:mrpc|sst2_sentences|trec), ([\d,]+) entries: (.*)$", text, re.MULTILINE)
    better, worse, open_ = (
        [line.partition(word)[2].partition(";")[0] for _, line in lines]
        for word in ("better than", "worse than", f"{NO_DIFFERENCE} from")
    )
    said, ahead = flat(text), sum("`movement`" in line for line in better)
    assert len(lines) == 9
    assert f"and of top movement in {WORDS[ahead]} of {WORDS[len(lines)]} comparisons" in said
    assert (
        "`localize-and-stitch` at any size" in said and "ahead of random draws and of the largest weights every" in said
    )
    assert [line for line in open_ if "`localize-and-stitch`" not in line] == []
    others = ("`random`", "`random-matched`", "`magnitude`")
    assert [line for line in better if not {*others} <= {*re.findall("`.*?`", line)}] == []
    sizes = [size for (size, _), line in zip(lines, worse, strict=True) if "LoRA" in line]
    assert Counter(sizes) == {"9,216": 3, "768": 1} and "on all three tasks at 0.1%" in said


def test_minilm_says_what_its_table_says() -> None:
    text = page("research/minilm.md").partition("<!-- others")[0]
    cell = r"([\d.]+) \(([\d.]+)–([\d.]+)\), plug-in [\d.]+"
    tuned = re.search(rf"^\| \*fine-tuned\* .*?\| {cell} \|", text, re.MULTILINE)
    found = re.findall(rf"^\| \*\*stagewise\*\* \| [\d,]+ \(([\d.]+%)\) .*?\| {cell} \|", text, re.MULTILINE)
    grafts = {share: tuple(map(float, ends)) for share, *ends in found}
    assert tuned and set(grafts) == {"0.01%", "0.032%", "0.1%", "1%"}
    value, low, _ = map(float, tuned.groups())
    assert "At 0.1% and 1% the calibration error of `stagewise` grafts is far below" in flat(text)
    assert all(grafts[share][2] < low for share in ("0.1%", "1%"))  # the intervals do not overlap
    assert "At 0.01% it is above it" in flat(text) and grafts["0.01%"][0] > value and grafts["0.032%"][0] < value


def test_parts_say_what_their_table_says() -> None:
    text = page("research/parts-and-slices.md")
    ((alone, left_out),) = re.findall(r"^\| \d+ cells \| .*?(\d+) hold\) .*; (\d+) hold \|$", text, re.MULTILINE)
    assert "Parts that help alone need not be necessary" in flat(text)
    assert int(left_out) < int(alone)
