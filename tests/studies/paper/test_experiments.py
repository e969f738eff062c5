"""Tests of experiments as study files, planned at every scale, and from plan to report on tiny models."""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.tables import TABLES, check
from skillviz.core.localizers.table import LOCALIZERS, STARTS
from skillviz.errors import BadInput
from skillviz.models.finetune.recipes import RECIPES
from skillviz.runs.spec import RunSpec
from skillviz.studies.paper import experiments
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.experiments import EXPERIMENTS, experiment, figure4, sensitivity, table8
from skillviz.studies.paper.published_values import NAMES, beside, published
from skillviz.studies.paper.request import requested_tasks, study_of, write_study
from skillviz.studies.paper.scales import SCALES, Scale, scale
from skillviz.studies.plan import StudyPlan, study_plan
from skillviz.studies.spec import ExperimentRequest, StudySpec, read_study
from skillviz.studies.store import StudyFolder, open_study
from tests.refused import refused
from tests.studies.fake_tables import FAKE_TABLES
from tests.studies.tiny_study import Store, run_study, tiny_scale
from tests.tiers import first, in_the_night

SEVERAL = ("table4", "figure8", *(f"figure{number}" for number in range(11, 15)))


@cache
def planned(name: str, at: str = "small") -> StudyPlan:
    return planned_with(name, scale(at))


def planned_with(name: str, at: Scale) -> StudyPlan:
    """Return the plan of an experiment at a changed scale."""
    return study_plan(StudySpec(**EXPERIMENTS[name].build(at)))


def keys(found: StudyPlan) -> set[str]:
    return {step.key for step in found.steps if step.key != "table"}


def test_every_file_of_the_folder_is_an_experiment_and_imports_no_other() -> None:
    for file in Path(experiments.__file__).parent.glob("[!_]*.py"):
        rows = [
            value
            for value in vars(import_module(f"{experiments.__name__}.{file.stem}")).values()
            if isinstance(value, Experiment)
        ]
        assert (
            rows[0].name,
            [EXPERIMENTS[row.name] for row in rows],
            [
                node.module
                for node in ast.walk(ast.parse(file.read_text()))
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith(experiments.__name__)
            ],
        ) == (file.stem, rows, [])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_row_says_what_it_makes_of_which_published_values(name: str) -> None:
    row = EXPERIMENTS[name]
    assert set(row.makes) <= set(TABLES)
    assert set(row.published) <= set(NAMES)
    assert row.question.endswith("?")
    assert row.finding.endswith(".")


@pytest.mark.cases(17, 8)
@pytest.mark.parametrize("at", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_can_be_planned(name: str, at: str) -> None:
    found = planned_with(name, scale(at))
    assert found.steps[-1].key == "table"
    assert found.study.experiment == name
    assert found.study.scale == at
    assert planned_with(name, scale(at)).key == found.key
    assert len(found.steps) > 1


@pytest.mark.parametrize("at", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_search_has_three_mask_seeds(name: str, at: str) -> None:
    """Every plan has real runs, without which the test would pass trivially."""
    specs = [
        step.spec
        for step in planned(name, at).of("localize", role="run")
        if step.spec.localizer in ("stagewise", "learned", "learned-ranked", "fisher", "random", "lottery")
    ]
    seeds: dict[tuple[str, str], set[int]] = {}
    assert {type(run) for run in planned(name, at).runs} == {RunSpec}
    for spec in specs:
        seeds.setdefault((spec.localizer, spec.model_copy(update={"seed": 0}).key()), set()).add(spec.seed)
    assert seeds == dict.fromkeys(
        seeds, {0} if (name == "localizers" or (name, at) == ("sensitivity", "small")) else {0, 1, 2}
    )


def test_experiments_share_what_they_have_in_common() -> None:
    table1, shared = planned("table1"), keys(planned("table1")) & keys(planned("table3"))
    assert (
        keys(planned("figure6")) <= keys(planned("figure2"))
        and {step.key for step in table1.of("localize")} <= keys(planned("table2"))
        and {step.kind for step in table1.steps if step.key in shared} == {"finetune", "localize", "score"}
    )


@pytest.mark.parametrize("at", SCALES)
def test_a_region_is_retrained_once_a_mask_seed(at: str) -> None:
    found = planned("table1", at)
    known = {spec.key() for spec in found.runs}
    assert [
        [region.key() in known for region in model.regions]
        for model in found.finetuned
        if model.recipe == "graft-retrain"
    ] == [[True]] * 3 * len(scale(at).some("updates"))
    own = set() if scale(at).pair("mr") else {"sgd"}
    assert {spec.recipe for spec in found.finetuned} == {"bitfit", "lora", "graft-retrain"} | own


@pytest.mark.parametrize("at", SCALES)
def test_tables_6_and_7_have_every_size_and_share_the_default_ranks(at: str) -> None:
    for name, role, tasks in (("table6", "updates", 1), ("table7", "large_shift", 1)):
        found, tasks = planned(name, at), len(scale(at).some(role))
        sizes = Counter((m.recipe, m.rank or m.width) for m in found.finetuned if RECIPES[m.recipe].adds_parameters)
        widths = product(("adapter-houlsby", "adapter-pfeiffer"), (1, 2, 16, None))  # the default width is 64
        assert sizes == dict.fromkeys([("lora", 1), ("lora", 2), ("lora", None), *widths], 3 * tasks)
    assert keys(planned("table1", at)) <= keys(planned("table6", at))
    assert {step.key for step in planned("table7", at).of("localize", role="run")} & keys(planned("figure7", at))


def test_the_small_scale_takes_a_stored_pair_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "clinc-domains-sgd").mkdir()
    found = planned_with("table2", replace(scale("small"), stored=str(tmp_path)))
    assert (len(found.finetuned), [s.finetuned for s in found.runs if "clinc" in s.task]) == (
        3,
        4 * [str(tmp_path / "clinc-domains-sgd")],
    )


@pytest.mark.parametrize("name", ["table8", "figure2", "figure6"])
def test_every_search_is_on_every_fine_tuning_seed(name: str) -> None:
    runs = {(r.task, r.localizer, r.finetuned) for r in planned_with(name, scale("small").with_choices(seeds=3)).runs}
    assert (
        set(Counter(run[:2] for run in runs).values()),
        planned_with(name, scale("small").with_choices(seeds=1)).study.runs,
    ) == ({3}, planned(name).study.runs)


def test_the_device_is_in_no_key() -> None:
    own = scale("small").with_choices(base="org/other")
    here, there = (
        [step.key for step in plan.of("finetune") if not step.needs]
        for plan in (planned_with("table1", one) for one in (own, replace(own, device="cpu")))
    )
    assert here == there != []


@pytest.mark.parametrize(
    ("name", "chosen", "read", "wanted"),
    [
        ("table2", {}, lambda plan: {(m.head, m.readout, m.recipe) for m in plan.finetuned},
         {("linear", "head", "sgd")}),
        ("table2", {"tasks": requested_tasks(scale("small"), ["all"]), "seeds": 3},
         lambda plan: Counter(model.seed for model in plan.finetuned), {0: 5, 1: 5, 2: 5}),
        ("table2", {"base": "org/other", "tasks": ("mr",)},
         lambda plan: ({run.base for run in plan.runs}, len(plan.finetuned)), ({"org/other"}, 1)),
        ("table2", {"finetuned": "mine", "tasks": ("mr",)}, lambda plan: {run.finetuned for run in plan.runs},
         {"mine"}),
        ("figure3", {"readout": "prompt"}, lambda plan: {run.readout for run in plan.runs}, {"prompt", "head"}),
    ],
    ids=["a head of its own", "seeds and tasks of the user", "another base", "a model of the user", "both readouts"],
)  # fmt: skip
def test_what_is_chosen_is_planned(
    name: str, chosen: dict[str, Any], read: Callable[[StudyPlan], Any], wanted: Any
) -> None:
    assert read(planned_with(name, scale("small").with_choices(**chosen))) == wanted


test_wrong_names_are_refused_with_those_that_are_allowed = refused(
    BadInput,
    ("'tabel2' is not an experiment; known: table1", experiment, "tabel2"),
    ("'large' is not a scale; known: small, paper.", scale, "large"),
    ("'sst3' is not a task of the scale small; known: mr, cr, subj", requested_tasks, scale("small"), ["sst3"]),
    ("fine-tuning seeds is 0", lambda: scale("small").with_choices(seeds=0)),
    ("belongs to one task", lambda: scale("small").with_choices(finetuned="m")),
    ("--finetuned or --seeds, not", lambda: scale("small").with_choices(finetuned="m", tasks=("cr",), seeds=2)),
)


def test_the_study_file_reads_as_the_same_study(tmp_path: Path) -> None:
    """A study with fewer tasks gets another name, and what is written once is not written again."""
    _, _, study = study_of(ExperimentRequest("table1", tasks=("subj",)), Store(tmp_path))
    path = write_study(study, Store(tmp_path))
    assert read_study(path) == study
    assert path.parent.parent == tmp_path / "studies"
    assert study.request.command() == "python -m skillviz reproduce table1 --scale small --tasks subj"
    assert study.request is not None
    assert study.name != "table1-small"
    written = path.stat().st_mtime_ns
    assert write_study(study, Store(tmp_path)).stat().st_mtime_ns == written


def measured(*names: str) -> pd.DataFrame:
    """Return the scores of an invented study of these tasks."""
    return check(FAKE_TABLES["scores"](names, np.random.default_rng(0)), "scores")


def test_ours_stand_beside_the_published_value_of_the_same_method() -> None:
    """SST-2 has 92.3% with 4096 shots, and 90.5% with 64; table 2 prints no random region."""
    values, ours = EXPERIMENTS["table2"].published, measured("sst2_sentences", "ag_news")
    frame = beside(values, {"scores": ours})
    assert frame.query("id_task == 'sst2_sentences' and task == id_task and method == 'ft' and metric == 'accuracy'")[
        "published"
    ].tolist() == [pytest.approx(0.923)]
    assert (
        frame.query("method == 'graft_random'")["published"].isna().all()
        and len(frame) == len(ours.query("split == 'test' and metric in ('accuracy', 'ece', 'agreement')"))
        and beside(values, {}).empty
    )


def test_lora_stands_beside_the_published_value_of_its_rank() -> None:
    frame = beside(
        EXPERIMENTS["table1"].published,
        {"scores": measured("sst2_sentences").query("task == id_task and method == 'ft'").assign(method="lora")},
    ).query("metric == 'accuracy'")
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


@pytest.fixture
def small(world: Path, stored: Path, monkeypatch: pytest.MonkeyPatch) -> Scale:
    """Return the tiny scale, with shorter lists of constants, and models kept in `stored`."""
    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(stored / "finetuned-models"))
    for constant, values in {"RATES": (1e7,), "STEPS": (2, 3), "BATCHES": (8,)}.items():
        monkeypatch.setattr(sensitivity, constant, values)
    monkeypatch.setattr(figure4, "LOTTERY", (0.2, 0.9))
    return tiny_scale(world)


def made(name: str, small: Scale, stored: Path) -> StudyFolder:
    """Run an experiment's study, check that every step is done, and return it."""
    outcome = run_study(StudySpec(**EXPERIMENTS[name].build(small)), Store(stored / "runs"))
    assert [failure.message for _, failure in outcome.failed] == [] and outcome.is_whole
    return open_study(outcome.path)


def of_own_task(folder: StudyFolder) -> pd.DataFrame:
    """Return the test scores on the model's own task."""
    frame = folder.table("scores")
    return frame[(frame["split"] == "test") & (frame["id_task"] == frame["task"])]


@pytest.mark.cases(0, 1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    first([one for one in EXPERIMENTS if one not in SEVERAL], ("table1",).__contains__, in_the_night),
)
def test_an_experiment_from_end_to_end(name: str, small: Scale, stored: Path) -> None:
    folder = made(name, small, stored)
    assert set(EXPERIMENTS[name].makes) <= set(folder.tables()) and len(folder.table("note"))
    if "scores" not in folder.tables():
        return
    scores, planned = of_own_task(folder), study_plan(folder.study)
    methods = {LOCALIZERS[run.localizer].method for run in planned.runs}
    methods |= {RECIPES[model.recipe].method for model in planned.finetuned}
    assert (
        methods | set(EXPERIMENTS[name].methods) <= set(scores["method"])
        and scores[scores["metric"].isin(["accuracy", "ece", "agreement"])]["mean"].between(0, 1).all()
    )
    if "differences" in folder.tables():
        rows = folder.table("differences")
        assert len(rows) and (rows["value"] >= rows["low"] - 1e-9)[rows["low"].notna()].all()


slow, nightly = (partial(pytest.param, marks=mark) for mark in (pytest.mark.slow, pytest.mark.nightly))
RIVALS = "task == id_task and localizer == 'stagewise' and a == 'graft' and b == 'graft_movement'"
TOLD = {
    "all models": slow(
        "table2", lambda of: {"pretrained", "ft_scaled", "complement"} - {*of_own_task(of)["method"]}, set()
    ),
    "what recovers the gain": slow(
        "table2", lambda of: {*of.table("recovered")["localizer"]} - {"stagewise", "movement", "learned"}, set()
    ),
    "where regions lie": slow(
        "table2", lambda of: sums(of.table("composition").query("localizer == 'stagewise'"), "seed", "share"),
        {0: pytest.approx(1), 1: pytest.approx(1)},
    ),
    "other data": nightly(
        "table3", lambda of: {"graft", "graft_retrain", "bitfit", "lora"}
        - {*of.table("scores").query("task == 'other'")["method"]}, set(),
    ),
    "regions at every size": slow(
        "table8", lambda of: of.table("overlap").query("column_localizer == 'fisher'").eval(
            "0 <= value <= 1 and chance > 0"
        ).tolist(), [True] * 3,
    ),
    "one pair of two seeds": slow(
        "table8", lambda of: of.table("overlap").query("row_localizer == column_localizer")["seeds"].tolist(), [2] * 3
    ),
    "pairs at every size of the curve": slow(
        "figure2", lambda of: of.table("differences").query(f"{RIVALS} and metric == 'accuracy'")["over"].tolist(),
        ["examples and seeds"] * 3,
    ),
    "both readouts": slow("figure3", lambda of: {*of_own_task(of)["readout"]}, {"prompt", "head"}),
    "every test example": slow(
        "figure6", lambda of: sorted(sums(of.table("histogram").fillna(0), ["state", "share"], "count").values()),
        [16] * 3,
    ),
    "two states, the graft at two sizes": slow(
        "figure6", lambda of: of.table("histogram").groupby("state")["share"].nunique().to_dict(),
        {"finetuned": 0, "grafted": 2},
    ),
    "every setting": nightly(
        "sensitivity", lambda of: of.table("sensitivity").query("metric == 'accuracy' and localizer == 'learned'")[
            ["bias", "steps"]
        ].value_counts().to_dict(), dict.fromkeys(product((5.0, 10.0), (2, 3)), 2),
    ),
    "every search": nightly(
        "sensitivity", lambda of: {*of.table("sensitivity").query("metric == 'accuracy'")["localizer"]},
        {"learned", "learned-ranked", "stagewise"},
    ),
}  # fmt: skip


def sums(frame: pd.DataFrame, by: str | list[str], column: str) -> dict[Any, float]:
    return frame.groupby(by)[column].sum().to_dict()


@pytest.mark.parametrize(("name", "read", "wanted"), TOLD.values(), ids=TOLD)
def test_an_experiment_tells(
    name: str, read: Callable[[StudyFolder], Any], wanted: Any, small: Scale, stored: Path
) -> None:
    assert read(made(name, small, stored)) == wanted


@pytest.mark.slow
def test_table1_touches_what_each_method_trains(small: Scale, stored: Path) -> None:
    folder = made("table1", small, stored)
    scores = of_own_task(folder).query("metric == 'accuracy'")
    touched, main = scores.groupby("method")["touched"].mean(), scores.query("method == 'graft'")["size"].min()
    assert (
        0 == touched["pretrained"] < touched["graft_retrain"] <= main * 6
        and max(touched["bitfit"], touched["graft_retrain"]) < touched["ft"]
    )
    assert (scores.set_index("method")["seeds"][["graft_retrain", "bitfit", "lora"]].to_dict(), {"ft", "graft"}) == (
        {"graft_retrain": 2, "bitfit": 3, "lora": 3},
        set(folder.table("differences").query("a == 'lora' and metric == 'accuracy'")["b"]),
    ) and folder.table("note")["text"].str.startswith("LoRA: ").any()


@pytest.mark.slow
def test_table6_counts_what_each_size_trains_and_compares_it_with_the_nearest_graft(small: Scale, stored: Path) -> None:
    """The tiny model has two layers of width 16; its grafts have 1%, 5% and 20% of its parameters."""
    folder = made("table6", small, stored)
    scores = of_own_task(folder).query("metric == 'accuracy'")
    touched = scores.set_index(["method", "variant"])["touched"].to_dict()
    one = {width: 2 * 16 * width + width + 16 for width in (1, 2, 16, 64)}
    wanted = {("adapter_houlsby", f"width {width}"): 4 * count for width, count in one.items()}
    wanted |= {("adapter_pfeiffer", f"width {width}"): 2 * count for width, count in one.items()}
    wanted |= {("lora", f"rank {rank}"): 2 * 2 * rank * 32 for rank in (1, 2, 8)}
    assert {name: touched[name] for name in wanted} == wanted
    calibrated, accurate = EXPERIMENTS["table6"].verdicts(
        {name: folder.table(name) for name in ("scores", "differences")}, "small"
    )
    named = [one.where.partition(":")[0] for one in accurate.comparisons]
    assert "LoRA rank 1" in named and "Houlsby width 64" not in named  # larger than the model
    assert len(named) == len(set(named)) == len(calibrated.comparisons) == calibrated.measured


@pytest.mark.nightly
def test_table8_compares_regions_of_one_model_where_several_were_fine_tuned(small: Scale, stored: Path) -> None:
    """Both studies are in the same folder."""
    one = made("table8", small, stored)
    overlap, said = one.table("overlap"), set(one.table("note")["text"])
    two = made("table8", replace(small, seeds=2), stored)
    assert two.table("overlap").equals(overlap)
    assert of_own_task(two).query("method == 'ft' and metric == 'accuracy'")["seeds"].tolist() == [2]
    assert table8.FIRST not in said
    assert table8.FIRST in set(two.table("note")["text"])


def test_other_starts_and_optimizers_of_the_model_of_several_tasks_reach_every_run() -> None:
    """Figures 11 and 12 share Figure 8's model; all regions of a figure have one size, and each start three seeds."""
    for name, starts in (("figure11", (*STARTS,)), ("figure12", ("movement", "empty"))):
        found, share = planned(name), {"figure11": 1e-5, "figure12": 1e-4}[name]
        assert [model.key() for model in found.finetuned] == [model.key() for model in planned("figure8").finetuned]
        given = Counter((run.options["base"], run.options.get("base_share"), run.sizes) for run in found.runs)
        assert given == {(one, None if one == "empty" else share, ("0.1%",)): 4 * 3 for one in starts}
        assert {run.localizer for run in found.runs} == {"learned-ranked"}
    paper = {run.sizes for run in planned("figure12", "paper").runs}
    assert paper == {("0.1%",)}, "at the paper's scale a region is ten times its start"
    one, two = ({model.optimizer: model for model in planned(name).finetuned} for name in ("figure13", "figure14"))
    assert (set(one), set(two)) == ({"adamw"}, {"adamw", "adamw-l1"}) and one["adamw"].key() == two["adamw"].key()
    assert {model.steps for model in two.values()} == {4 * 3000}


def test_large_data_and_a_causal_model_are_those_of_the_scale() -> None:
    large, causal = planned("table5"), planned("table9")
    assert {(run.steps, run.sizes, run.max_train, run.k_shot) for run in large.runs} == {
        (100, (f"{size}%",), None, None) for size in ("0.3", "0.6", "1.2")
    }
    assert [model.tasks for model in large.finetuned] == [("examples/tasks/sentiment.yaml",)]
    assert {model.k_shot for model in planned("table5", "paper").finetuned} == {50000}
    assert {(run.base, run.readout) for run in causal.runs} == {("examples/models/stories260k", "causal")}
    assert {(model.data_seed, model.k_shot) for model in causal.finetuned} == {(seed, 1024) for seed in range(5)}
    changed = EXPERIMENTS["table9"].at(scale("small")).with_choices(samples=1, sizes=("2%",), train_steps=9)
    found = planned_with("table9", changed)
    assert {(model.data_seed, model.steps) for model in found.finetuned} == {(0, 9)} and len(found.finetuned) == 2
    assert {run.sizes for run in found.runs} == {("2%",)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variants"), [("figure11", {*STARTS.values()}), ("figure14", {"AdamW", RECIPES["adamw-l1"].title})]
)
def test_a_model_of_several_tasks_compares_its_variants(
    name: str, variants: set[str], small: Scale, stored: Path
) -> None:
    several = replace(small, roles={**small.roles, "multi": small.roles["all"]})
    folder = made(name, several, stored)
    rows = folder.table("variants")
    assert set(rows["variant"]) == variants and rows.groupby("variant").size().nunique() == 1
    assert set(folder.table("gain")["region_tasks"].map(len)) == {1}, "no unions"
    assert (
        rows[rows["variant"] == rows["variant"].iloc[0]]["value"].tolist()
        == folder.table("isolation")["value"].tolist()
    )
