"""Tests of experiments as study files: each can be planned at every scale, and has the runs its question needs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from skillviz.analysis.tables import TABLES
from skillviz.errors import BadInput
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, shipped_root
from skillviz.studies.finetuned_model import FineTunedSpec
from skillviz.studies.paper import experiments
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.experiments import EXPERIMENTS, experiment
from skillviz.studies.paper.published_values import NAMES, beside, published
from skillviz.studies.paper.request import requested_tasks, study_of, write_study
from skillviz.studies.paper.scales import SCALES, scale
from skillviz.studies.plan import StudyPlan, study_plan
from skillviz.studies.spec import ExperimentRequest, StudySpec, read_study
from skillviz.studies.store import StudyFolder, list_studies
from tests.studies.fake_tables import FAKE_TABLES

SEARCHED = ("stagewise", "learned", "learned-ranked", "fisher", "random", "lottery")


@cache
def planned(name: str, at: str = "small") -> StudyPlan:
    return study_plan(StudySpec(**EXPERIMENTS[name].build(scale(at))))


def keys(found: StudyPlan) -> set[str]:
    return {step.key for step in found.steps if step.key != "table"}


def test_every_file_of_the_folder_is_an_experiment_and_imports_no_other() -> None:
    files = [path for path in Path(experiments.__file__).parent.glob("*.py") if path.name != "__init__.py"]
    for file in files:
        module = import_module(f"{experiments.__name__}.{file.stem}")
        rows = [value for value in vars(module).values() if isinstance(value, Experiment)]
        assert rows and rows[0].name == file.stem and all(EXPERIMENTS[row.name] is row for row in rows)
        imported = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
        assert not [node.module for node in imported if (node.module or "").startswith(experiments.__name__)]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_row_says_what_it_makes_of_which_published_values(name: str) -> None:
    row = EXPERIMENTS[name]
    assert set(row.makes) <= set(TABLES) and set(row.published) <= set(NAMES)
    assert row.question.endswith("?") and row.finding.endswith(".")
    for own in SCALES.values():
        differences = row.differences(own)
        assert (differences[0].aspect == "Model") == (own.name != "paper"), "its model is the paper's"
        assert all(one.here and one.paper != one.here for one in differences)


@pytest.mark.cases(17, 8)
@pytest.mark.parametrize("at", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_can_be_planned(name: str, at: str) -> None:
    study = StudySpec(**EXPERIMENTS[name].build(scale(at)))
    found = study_plan(study)
    assert found.steps[-1].key == "table" and len(found.steps) > 1
    assert (study.experiment, study.scale) == (name, at)
    assert study_plan(StudySpec(**EXPERIMENTS[name].build(scale(at)))).key == found.key


@pytest.mark.parametrize("at", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_search_has_three_mask_seeds(name: str, at: str) -> None:
    seeds: dict[tuple[object, ...], set[int]] = {}
    for step in planned(name, at).of("localize", role="run"):
        if step.spec.localizer in SEARCHED:
            search = step.spec.model_copy(update={"seed": 0}).key()
            seeds.setdefault((step.spec.localizer, search), set()).add(step.spec.seed)
    one = name == "localizers" or (name, at) == ("sensitivity", "small")
    assert all(of_search == ({0} if one else {0, 1, 2}) for of_search in seeds.values())


def test_experiments_share_what_they_have_in_common() -> None:
    assert keys(planned("figure6")) <= keys(planned("figure2"))
    regions = {step.key for step in planned("table1").of("localize")}
    assert regions <= keys(planned("table2"))
    table1, table3 = planned("table1"), planned("table3")
    shared = keys(table1) & keys(table3)
    assert {step.kind for step in table1.steps if step.key in shared} == {"finetune", "localize", "score"}


@pytest.mark.parametrize("at", SCALES)
def test_a_region_is_retrained_once_a_mask_seed(at: str) -> None:
    found = planned("table1", at)
    retrained = [m for m in found.finetuned if m.recipe == "graft-retrain"]
    assert len(retrained) == 3 * len(scale(at).some("updates"))
    known = {spec.key() for spec in found.runs}
    for model in retrained:
        assert [region.key() in known for region in model.regions] == [True]
    own = set() if scale(at).pair("mr") else {"sgd"}
    assert {spec.recipe for spec in found.finetuned} == {"bitfit", "lora", "graft-retrain"} | own


def test_the_small_scale_takes_a_stored_pair_where_there_is_one(tmp_path: Path) -> None:
    models = planned("table2").finetuned
    assert {(m.head, m.readout, m.recipe) for m in models} == {("linear", "head", "sgd")}
    (tmp_path / "clinc-domains-sgd").mkdir()
    own = replace(scale("small"), stored=str(tmp_path))
    found = study_plan(StudySpec(**EXPERIMENTS["table2"].build(own)))
    assert len(found.finetuned) == 3
    assert [s.finetuned for s in found.runs if "clinc" in s.task] == 4 * [str(tmp_path / "clinc-domains-sgd")]


def test_seeds_and_tasks_of_the_user_take_the_place_of_the_scale_s() -> None:
    own = scale("small").with_choices(tasks=requested_tasks(scale("small"), ["all"]), seeds=3)
    models = [step.spec for step in study_plan(StudySpec(**EXPERIMENTS["table2"].build(own))).of("finetune")]
    assert len(models) == 15
    assert {m.seed for m in models if isinstance(m, FineTunedSpec)} == {0, 1, 2}


@pytest.mark.parametrize("name", ["table8", "figure2", "figure6"])
def test_every_search_is_on_every_fine_tuning_seed(name: str) -> None:
    found = study_plan(StudySpec(**EXPERIMENTS[name].build(scale("small").with_choices(seeds=3))))
    by_localizer: dict[tuple[str, str], set[str]] = {}
    for spec in found.runs:
        by_localizer.setdefault((spec.task, spec.localizer), set()).add(spec.finetuned)
    assert all(len(models) == 3 for models in by_localizer.values())
    one = StudySpec(**EXPERIMENTS[name].build(scale("small").with_choices(seeds=1)))
    assert one.runs == StudySpec(**EXPERIMENTS[name].build(scale("small"))).runs


def test_the_device_is_in_no_key() -> None:
    own = scale("small").with_choices(base="org/other")
    keys_of = [
        [
            step.key
            for step in study_plan(StudySpec(**EXPERIMENTS["table1"].build(one))).of("finetune")
            if not step.needs
        ]
        for one in (own, replace(own, device="cpu"))
    ]
    assert keys_of[0] == keys_of[1] and keys_of[0]


def test_figure3_asks_both_readouts() -> None:
    found = study_plan(StudySpec(**EXPERIMENTS["figure3"].build(scale("small").with_choices(readout="prompt"))))
    assert {spec.readout for spec in found.runs} == {"prompt", "head"}


def test_another_base_has_models_of_its_own() -> None:
    own = scale("small").with_choices(base="org/other", tasks=("mr",))
    found = study_plan(StudySpec(**EXPERIMENTS["table2"].build(own)))
    assert {spec.base for spec in found.runs} == {"org/other"} and len(found.finetuned) == 1
    assert EXPERIMENTS["table2"].differences(own)[0].here == "org/other"
    pair = scale("small").with_choices(finetuned="mine", tasks=("mr",))
    assert {spec.finetuned for spec in study_plan(StudySpec(**EXPERIMENTS["table2"].build(pair))).runs} == {"mine"}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: experiment("tabel2"), "'tabel2' is not an experiment; known: table1"),
        (lambda: scale("large"), "'large' is not a scale; known: small, paper."),
        (
            lambda: requested_tasks(scale("small"), ["sst3"]),
            "'sst3' is not a task of the scale small; known: mr, cr, subj",
        ),
        (lambda: scale("small").with_choices(seeds=0), "fine-tuning seeds is 0"),
        (lambda: scale("small").with_choices(finetuned="m"), "belongs to one task"),
        (lambda: scale("small").with_choices(finetuned="m", tasks=("cr",), seeds=2), "--finetuned or --seeds, not"),
    ],
)
def test_wrong_names_end_in_one_sentence(wrong: object, sentence: str) -> None:
    with pytest.raises(BadInput) as error:
        wrong()  # type: ignore[operator]
    assert sentence in error.value.args[0]


def test_the_study_file_reads_as_the_same_study(tmp_path: Path) -> None:
    store = Store(tmp_path)
    _, _, study = study_of(ExperimentRequest("table1", tasks=("subj",)), store)
    path = write_study(study, store)
    assert read_study(path) == study and path.parent.parent == tmp_path / "studies"
    assert study.name != "table1-small"  # a study with fewer tasks gets another name
    assert study.request is not None
    assert study.request.command() == "python -m skillviz reproduce table1 --scale small --tasks subj"
    written = path.stat().st_mtime_ns
    assert write_study(study, store).stat().st_mtime_ns == written


def test_ours_stand_beside_the_published_value_of_the_same_method() -> None:
    import numpy as np

    from skillviz.analysis.tables import check

    ours = check(FAKE_TABLES["scores"](("sst2_sentences", "ag_news"), np.random.default_rng(0)), "scores")
    frame = beside(EXPERIMENTS["table2"].published, {"scores": ours})
    tuned = frame.query("id_task == 'sst2_sentences' and task == id_task and method == 'ft' and metric == 'accuracy'")
    assert tuned["published"].tolist() == [pytest.approx(0.923)]  # SST-2, 4096-shot; not the 64-shot 90.5
    assert frame.query("method == 'graft_random'")["published"].isna().all()  # table 2 prints none
    assert len(frame) == len(ours.query("split == 'test' and metric in ('accuracy', 'ece', 'agreement')"))
    assert beside(EXPERIMENTS["table2"].published, {}).empty


def test_lora_stands_beside_the_published_value_of_its_rank() -> None:
    import numpy as np

    from skillviz.analysis.tables import check

    ours = check(FAKE_TABLES["scores"](("sst2_sentences",), np.random.default_rng(0)), "scores").query(
        "task == id_task"
    )
    lora = ours.query("method == 'ft'").assign(method="lora")
    frame = beside(EXPERIMENTS["table1"].published, {"scores": lora}).query("metric == 'accuracy'")
    known = published("table6").query("method == 'lora' and id_task == 'sst2' and metric == 'accuracy'")
    assert set(frame["published"]) == set(known[known["config"] == "rank=8"]["value"]) and len(known) == 3


@pytest.mark.nightly
def test_experiments_are_planned_without_torch() -> None:
    code = (
        "import sys; from skillviz.studies.paper.experiments import EXPERIMENTS; "
        "from skillviz.studies.paper.scales import scale; "
        "from skillviz.studies.spec import StudySpec; from skillviz.studies.plan import study_plan; "
        "[study_plan(StudySpec(**EXPERIMENTS[n].build(scale('small')))) for n in EXPERIMENTS]; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])


def test_specs_are_runs() -> None:
    """Guard against plans without real runs, for which the tests above would pass trivially."""
    assert all(isinstance(spec, RunSpec) for name in EXPERIMENTS for spec in planned(name).runs)
