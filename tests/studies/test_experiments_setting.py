"""What is said to differ from the paper: of a scale as it stands its own sentences, of a user's study what it asks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillviz.errors import BadInput
from skillviz.runs.store import Store
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.reproduce import Asked, study_of
from skillviz.studies.paper.scales import SCALES, scale
from skillviz.studies.paper.setting import is_demo_world, setting_differences
from skillviz.studies.paper.setting_words import SENTENCES
from skillviz.studies.spec import StudySpec, read_study
from tests.studies.tiny_studies import tiny_scale

STORED = sorted(Path("cached_runs/studies").glob("*/study.yaml"))
FALSE_ELSEWHERE = ("0.97 million", "wrong on purpose", "the stored pair", "Not k-shot", "hundred times")


def asked(name: str = "table2", at: str = "demo", **replaced: Any) -> StudySpec:
    """The study of an experiment where this is replaced."""
    own = scale(at).with_own(**replaced)
    return StudySpec(**EXPERIMENTS[name].build(own))


def told(study: StudySpec) -> dict[str, str]:
    """The sentences by their first word."""
    return {sentence.partition(":")[0]: sentence for sentence in setting_differences(study)}


@pytest.mark.parametrize("at", SCALES)
def test_a_scale_as_it_stands_is_told_in_its_own_sentences(at: str) -> None:
    assert setting_differences(asked("table2", at)) == tuple(SENTENCES[at].values())
    assert EXPERIMENTS["table2"].differences(scale(at)) == tuple(SENTENCES[at].values())


@pytest.mark.parametrize("at", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_nothing_of_an_experiment_is_left_out_while_nothing_is_replaced(name: str, at: str) -> None:
    found = setting_differences(asked(name, at))
    assert {said.sentence for said in EXPERIMENTS[name].differs.get(at, ())} <= set(found)
    assert all(sentence.endswith(".") for sentence in found) and found[0] == SENTENCES[at]["base"]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_nothing_of_the_demo_world_is_said_of_other_models_and_tasks(name: str, tmp_path: Path) -> None:
    files = tuple(str(tmp_path / task / "task.yaml") for task in ("cafe", "bakery"))
    for file in map(Path, files):  # models of several tasks are called by the names in their files
        file.parent.mkdir()
        file.write_text(f"name: {file.parent.name}\n")
    seeds = None if name in ("table4", "figure8", "sensitivity") else 2
    own = scale("demo").with_own(base="org/mine", tasks=files, readout="head", seeds=seeds)
    study = StudySpec(**EXPERIMENTS[name].build(replace(own, near={files[0]: (files[1],), files[1]: (files[0],)})))
    found = " ".join(setting_differences(study))
    assert "Model: org/mine instead of RoBERTa-base." in found and "Data: cafe and bakery" in found
    assert not [words for words in (*FALSE_ELSEWHERE, "film", "prompt, as in", "demo") if words in found]
    assert not is_demo_world(study)


def test_readout_seeds_and_shots_are_those_that_are_asked_for(tmp_path: Path) -> None:
    file = str(tmp_path / "mine.yaml")
    assert "two fine-tuning seeds" in told(asked(tasks=(file,), seeds=2))["Fine-tuning"]
    assert "one fine-tuning seed;" in told(asked(tasks=(file,), seeds=1))["Fine-tuning"]
    assert "five samples" in told(asked(finetuned="mine/tuned", tasks=(file,)))["Fine-tuning"]
    assert told(asked(finetuned="mine/tuned", tasks=(file,)))["Fine-tuning"].startswith("Fine-tuning: mine/tuned as")
    assert told(asked(base="b", readout="prompt"))["Readout"] == "Readout: prompt, as in the paper."
    assert "instead of a prompt" in told(asked(readout="head"))["Readout"]
    assert "Table 9" in told(asked(readout="causal"))["Readout"]
    assert told(asked(base="FacebookAI/roberta-base"))["Model"] == "Model: FacebookAI/roberta-base, as in the paper."
    content = asked("table2", "small").model_dump()
    few = StudySpec(**{**content, "runs": [{**run, "k_shot": 16} for run in content["runs"]]})
    assert told(few)["Data"].endswith("16 examples of each label.") and "k_shot" not in told(few)["Data"]


def test_seeds_and_sizes_that_were_changed_by_hand_are_told_as_they_are() -> None:
    content = asked("figure6").model_dump()
    changed = StudySpec(**{**content, "runs": [{**run, "seed": [0], "size": ["2%"]} for run in content["runs"]]})
    assert told(changed)["Localizer"].endswith("one mask seed.")
    assert told(changed)["Sizes"].startswith("Sizes: 2 % of the graftable entries;")


def with_runs(study: StudySpec, **changed: Any) -> StudySpec:
    """The study with these fields in every entry."""
    return StudySpec(**{**study.model_dump(), "runs": [{**run, **changed} for run in study.runs]})


@pytest.mark.parametrize(
    ("shots", "words"),
    [
        ([16, None], "16 examples of each label, and all training examples."),
        (["64", 16], "16 and 64 examples of each label."),
        ([None], "all training examples; not k-shot."),
    ],
)
def test_shots_and_all_examples_are_told_together(shots: list[Any], words: str) -> None:
    assert told(with_runs(asked("table2", "small"), k_shot=shots))["Data"].endswith(words)


def test_no_recipe_in_a_list_is_plain_fine_tuning() -> None:
    study = with_runs(asked("figure6", "small"), recipe=[None, "adamw"])
    assert "plain SGD and AdamW" in told(study)["Fine-tuning"]


@pytest.mark.parametrize(
    "wrong",
    [{"finetune": "fast"}, {"region": "key:abc"}, {"recipe": "bitfit", "finetune": {"lr": "x"}},
     {"k_shot": ["few"]}, {"max_train": "most"}, {"task": [{"a": 1}]}],
)  # fmt: skip
def test_a_study_that_was_wrongly_edited_is_refused_in_a_sentence(wrong: dict[str, Any]) -> None:
    study = with_runs(asked("figure6", "small"), **wrong)
    for ask in (setting_differences, is_demo_world):
        with pytest.raises(BadInput, match="entry 1 of runs"):
            ask(study)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (["0.001"], "0.1 % of the graftable entries"),
        (["1e-3", "1%"], "0.1 % to 1 % of the graftable entries"),
        (["500"], "500 graftable entries"),
        (["500", "0.02"], "500 graftable entries and 2 % of the graftable entries"),
        (["much%"], "much% graftable entries"),
    ],
)
def test_a_size_is_told_as_what_it_is(sizes: list[str], words: str) -> None:
    assert told(with_runs(asked("figure6"), size=sizes))["Sizes"] == f"Sizes: {words}; the paper's main size is 0.01 %."


def test_the_main_size_is_that_of_the_paper_s_model_of_the_readout() -> None:
    causal = asked("figure6", "small", readout="causal")
    assert told(causal)["Sizes"].endswith("the paper's main size is 0.05 %, of GPT-2.")
    mixed = [{**run, "readout": kind} for run in asked("figure6").runs for kind in ("prompt", "causal")]
    both = asked("figure6").model_copy(update={"runs": tuple(mixed)})
    assert told(both)["Sizes"].endswith("the paper's main size is 0.01 % (0.05 % of GPT-2).")


def test_lora_is_told_with_the_rank_that_is_asked_for() -> None:
    study = asked("table1", base="org/mine")
    assert "LoRA (rank 8) at 0.005" in told(study)["Rates"]
    ranked = [
        {**run, "finetune": {**run["finetune"], "rank": 1}} if run.get("recipe") == "lora" else run
        for run in study.runs
    ]
    assert "LoRA (rank 1) at 0.005" in told(study.model_copy(update={"runs": tuple(ranked)}))["Rates"]


def test_what_an_experiment_does_otherwise_than_its_scale_is_told() -> None:
    assert "on one task after the other" in told(asked("table4"))["Fine-tuning"]
    assert "prompt and a classification head" in told(asked("figure3"))["Readout"]
    some = told(asked("figure7", tasks=("film-sentiment",)))
    assert (
        some["Shifts"] == "Shifts: film-sentiment to restaurant-sentiment."
        and some["Data"] == SENTENCES["demo"]["data"]
    )
    assert told(asked("table8", tasks=("news-topic",)))["Tasks"] == "Tasks: news-topic."
    assert "BitFit at 0.6" in told(asked("table1", base="org/mine"))["Rates"]


def test_a_scale_of_ones_own_and_a_study_of_no_experiment(tmp_path: Path) -> None:
    study = StudySpec(**EXPERIMENTS["table3"].build(tiny_scale(tmp_path)))
    assert told(study)["Shifts"].endswith(" to other.") and told(study)["Model"].startswith("Model: ")
    assert setting_differences(study.model_copy(update={"experiment": None})) == ()


def test_the_demo_world_is_known_by_its_base_and_tasks(tmp_path: Path) -> None:
    assert is_demo_world(asked()) and is_demo_world(asked(seeds=2)) and not is_demo_world(asked(at="small"))
    assert is_demo_world(asked(tasks=("film-sentiment",), finetuned=str(tmp_path / "mine")))
    assert not is_demo_world(asked(base="org/mine")) and not is_demo_world(asked(tasks=(str(tmp_path / "a.yaml"),)))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_stored_studies_are_told_as_those_of_their_scale(path: Path, tmp_path: Path) -> None:
    study = read_study(path)
    assert is_demo_world(study) == (study.scale == "demo" or "base: demo_world/" in path.read_text())
    if study.experiment and study.scale:
        usual = SENTENCES[study.scale]
        found = setting_differences(study)
        assert {usual["base"], usual["data"], usual["sizes"]} <= set(found)
        _, _, again = study_of(Asked(study.experiment, study.scale), Store(tmp_path))
        assert setting_differences(again)[0] == found[0]


def test_there_are_stored_studies() -> None:
    assert len(STORED) > 20
