"""Check inputs from untrusted visitors: typed paths, names with markup or formulas, and a public demo."""

import csv
import io
import os
from collections.abc import Iterator
from contextlib import chdir
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd

from skillviz.analysis.tables import csv_text
from skillviz.errors import BadInput, ReadOnly, SkillvizError
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.serving import visitor
from skillviz.serving.settings import READONLY_VARIABLE, ROOTS_VARIABLE
from skillviz.show import notebook
from skillviz.show.report import page
from skillviz.tasks.project import located
from tests.fake_run import fake_run
from tests.reliability.engine import SMALL
from tests.serving.test_read_only import DOORS, contents
from tests.show.reading import read

SECRET, SECRET_VALUE = "SECRET_OF_THE_MACHINE", "s3cret"
UNDER = ("", "sub", "sub/deeper")
REPORTED = 25  # one try in this number makes a whole report, the others the summary card of a notebook


def visitor_paths(number: int, work: Path) -> Iterator[str]:
    """Yield the losses of random paths through folders, links and variables.

    An accepted path that leads out of the only root is a loss.
    """
    root, outside, draw = work / "root", work / "outside", np.random.default_rng(31)
    for folder in (root, outside):
        (folder / "sub" / "deeper").mkdir(parents=True)
        for below in UNDER:
            (folder / below / "there.yaml").write_text("a: 1")
    for below in UNDER:
        (root / below / "out").symlink_to(outside)
        (root / below / "far").symlink_to(os.path.relpath(outside / "sub", root / below))
        (root / below / "file.yaml").symlink_to(outside / "there.yaml")
        (root / below / "in").symlink_to(root / "sub")
        (root / below / "circle").symlink_to("circle")
        (root / below / "endless.yaml").symlink_to("/dev/zero")
    (outside / "back").symlink_to(root)
    environment = {ROOTS_VARIABLE: str(root), SECRET: SECRET_VALUE, "HOME": str(outside)}
    local = mock.patch.object(visitor, "is_local", lambda: False)
    with chdir(root), mock.patch.dict(os.environ, environment), local:
        for _ in range(number):
            yield _lost_path(_path(root, outside, draw), root)


def _path(root: Path, outside: Path, draw: np.random.Generator) -> str:
    """Return a path that a visitor may type: a start, up to six steps, and a file."""
    starts = ("", f"{root}/", f"{outside}/", "~/", "~root/", "/", f"${SECRET}/", f"${{{SECRET}}}/", "$HOME/", "./")
    steps = (
        "..",
        ".",
        "sub",
        "deeper",
        "out",
        "far",
        "in",
        "back",
        root.name,
        outside.name,
        "",
        "absent",
        f"${SECRET}",
    )
    files = ("there.yaml", "file.yaml", "absent.yaml", "endless.yaml", "passwd", "x\0y", "x" * 300, f"${SECRET}.yaml")
    walk = [str(draw.choice(steps)) for _ in range(draw.integers(0, 7))]
    return str(draw.choice(starts)) + "/".join([*walk, str(draw.choice(files))])


def _lost_path(text: str, root: Path) -> str:
    """Return the loss of the answer to this path; the path is resolved here independently."""
    try:
        passed = visitor.checked_text(text)
    except BadInput as error:
        said = str(error)
        return f"{text!r} is refused with what {SECRET} holds" if SECRET_VALUE in said or "\n" in said else ""
    except Exception as error:
        return f"{text!r}: {type(error).__name__}: {error}"
    if SECRET in passed:
        return f"{text!r} passes, and {SECRET} will be filled in"
    if "\0" in passed:  # no file can have that name
        return ""
    real = os.path.realpath(located(passed))
    is_out = os.path.lexists(real) and os.path.commonpath([real, os.path.realpath(root)]) != os.path.realpath(root)
    return f"{text!r} passes and leads to {real}" if is_out and real != os.path.realpath(os.devnull) else ""


PIECES = (
    "<script>window.caught=1</script>", '"><img src=x onerror="window.caught=1">', "' onload='window.caught=1",
    "<iframe src=//host.invalid>", "</script><script>window.caught=1//", "</style><b>", "<!--", "]]>", "&#60;b&#62;",
    "[a](javascript:window.caught=1)", "![x](http://host.invalid/x.png)", "<http://host.invalid>", "`", "**", "$x$",
    "=1+1", "@SUM(A1)", "+1", "-1", "\t=1", "\r=1", "name", "\u202e", "\\", "{}", "|",
)  # fmt: skip
"""Pieces of names: markup, links, formulas, and pieces that close a surrounding element."""


def markup(number: int, work: Path) -> Iterator[str]:
    """Yield the losses of a run named with random markup.

    Other elements in its report or card, or a formula in its CSV, are losses.
    """
    draw = np.random.default_rng(32)
    of_plain = cache(lambda make: _structure(make(fake_run(Store(work / "plain"), **SMALL))))
    for index in range(number):
        words = ["".join(draw.choice(PIECES, draw.integers(1, 5))) for _ in range(6)]
        make = _card if (index + 1) % REPORTED else page.report
        run = fake_run(
            Store(work / f"runs-{index}"), task=f"t{words[0]}", base=f"me/b{words[1]}", finetuned=f"me/f{words[2]}",
            labels=(f"1{words[3]}", f"2{words[4]}"), localizer=f"m{words[5]}", **SMALL,
        )  # fmt: skip
        try:
            other = _structure(make(run)) != of_plain(make)
        except (SkillvizError, AssertionError) as error:
            yield f"{words}: {type(error).__name__}: {error}"
            continue
        yield f"{words}: its {make.__name__.strip('_')} has other elements" if other else _lost_cell(words)


def _card(run: Run) -> bytes:
    return notebook.Run.of(run)._repr_html_().encode()


def _structure(html: bytes) -> list[tuple[str, tuple[str, ...]]]:
    """Return every element with the names of its attributes, without plain elements of tables and text.

    The number of a table's rows depends on the run's scores.
    """
    found = read(html).elements
    inside = {"tr", "td", "th", "li", "ul", "p", "strong", "em", "code", "option", "div", "a", "figure", "figcaption"}
    rare = [(tag, attrs) for tag, attrs in found if tag not in inside]
    odd = [(tag, attrs) for tag, attrs in found if tag in inside and not set(attrs) <= _KNOWN]
    led = [(tag, attrs) for tag, attrs in found if not (attrs.get("href") or "#").startswith("#")]
    return [(tag, tuple(sorted(attrs))) for tag, attrs in (*rare, *odd, *led)]


_KNOWN = {"class", "scope", "id", "href", "role", "aria-label", "tabindex", "data-figure", "style"}


def _lost_cell(words: list[str]) -> str:
    """Return the loss in the CSV of a table with these words as cells and as headings."""
    table = pd.DataFrame({"text": words, words[0]: words, "number": np.arange(len(words)) / 3 - 1})
    heads, *rows = csv.reader(io.StringIO(csv_text(table)))
    formulas = [cell for cell in (*heads, *(cell for row in rows for cell in row[:2])) if _is_formula(cell)]
    numbers = [float(row[2]) for row in rows] if len(rows) == len(words) else []
    if formulas:
        return f"{formulas[0]!r} is a formula"
    return "" if numbers == table["number"].tolist() else "numbers of the CSV are others"


def _is_formula(cell: str) -> bool:
    """True if a spreadsheet would compute this cell; a number with a sign is not a formula."""
    try:
        float(cell)
    except ValueError:
        return cell[:1] in ("=", "+", "-", "@", "\t", "\r")
    return False


def public_demo(number: int, work: Path) -> Iterator[str]:
    """Yield the losses of actions in a read-only dashboard.

    Each action must be refused in one sentence, without changing the store.
    """
    store = Store(work / "runs")
    fake_run(store, **SMALL)
    doors, before = list(DOORS.items()), contents(work)
    with mock.patch.dict(os.environ, {READONLY_VARIABLE: "1"}):
        for index in range(number):
            name, act = doors[index % len(doors)]
            try:
                act(store, work)
                lost = "was not refused"
            except ReadOnly as error:
                lost = "" if "\n" not in str(error) else "was refused in several lines"
            except Exception as error:
                lost = f"{type(error).__name__}: {error}"
            lost = lost or ("changed the store" if contents(work) != before else "")
            yield f"{name}: {lost}" if lost else ""
