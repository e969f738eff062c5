"""What pages tell of a study by its file: of one that was wrongly edited nothing, and no page breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillviz.runs.store import Store
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.scales import scale
from skillviz.studies.spec import StudySpec
from skillviz.studies.store import FILE, StudyFolder, list_studies
from skillviz.ui import cache
from tests.studies.fake_study import fake_study


def stored(root: Path, changed: tuple[str, str] = ("", "")) -> StudyFolder:
    """A stored study of re-training whose file has this text in place of that."""
    study = StudySpec(**EXPERIMENTS["table1"].build(scale("demo")))
    text = study.yaml_text()
    assert changed[0] in text
    (fake_study(root, "table1") / FILE).write_text(text.replace(*changed))
    (found,) = list_studies(Store(root))
    return found


def test_a_study_is_told_by_its_file(tmp_path: Path) -> None:
    found = stored(tmp_path)
    assert cache.is_demo_world(found) and cache.setting_differences(found)[0].aspect == "Model"


@pytest.mark.parametrize(
    "changed", [("lr: 0.6", "lr: x"), ("  region:", "  mode: key:abc\n  region:"), ("- 0", "- few")]
)
def test_of_a_study_that_was_wrongly_edited_nothing_is_told(changed: tuple[str, str], tmp_path: Path) -> None:
    found = stored(tmp_path, changed)
    assert not cache.is_demo_world(found) and cache.setting_differences(found) == ()
