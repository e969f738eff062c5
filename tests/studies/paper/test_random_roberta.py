"""Tests of the paper's experiments at the paper's scale, from start to end on random models with RoBERTa's shapes."""

from pathlib import Path

import pytest
import torch
import yaml
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from skillviz.models.preflight import preflight
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.tasks import registry
from tests.cli.calls import PROJECT, call
from tests.random_roberta import BASE, VOCABULARY, random_roberta, roberta_tokenizer

TASK = "examples/tasks/{}.yaml"
WORDS = ("terrible", "great")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a random RoBERTa of two layers, width 64, with the examples' words."""
    return random_roberta(
        tmp_path_factory.mktemp("base"),
        WORDS,
        {**BASE, "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 512},
    )


@pytest.fixture(scope="module")
def whole_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a random model with roberta-base's shapes: 12 layers of width 768, 50,265 tokens, 125 M parameters."""
    return random_roberta(tmp_path_factory.mktemp("whole"), WORDS, BASE, VOCABULARY)


SEVERAL = ("table4", "figure8", *(f"figure{number}" for number in range(11, 15)))


def asked(name: str, base: Path, stored: Path) -> list[object]:
    """Return the command of an experiment at the paper's scale, reduced to a few examples and steps."""
    tasks = [TASK.format(task) for task in (("mr", "cr") if name in SEVERAL else ("mr",))]
    also = ["--also", TASK.format("uci_yelp")] if EXPERIMENTS[name].on_other_data else []
    return [
        "reproduce", name, "--scale", "paper", "--base", base, "--tasks", ",".join(tasks), *also,
        "--k-shot", 4, "--train-steps", 1, "--steps", 2, "--max-test", 16,
        "--runs-dir", stored / "runs", "--workers", 1, "--json",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def public(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a classifier of two labels with the base's body, like a public fine-tuned model."""
    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.01 * torch.randn_like(parameter)
    folder = tmp_path_factory.mktemp("public")
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    return folder


WAYS = {
    "base": EXPERIMENTS, "whole_base": EXPERIMENTS,
    # the others fine-tune models of several tasks, or have checkpoints
    "public": [name for name in EXPERIMENTS if name not in (*SEVERAL, "figure15")],
}  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize(("way", "name"), [(way, name) for way, names in WAYS.items() for name in names])
def test_an_experiment_of_the_paper_from_end_to_end(
    way: str, name: str, stored: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a small base, on one of roberta-base's shape, and with a public fine-tuned model, nothing is left to do."""
    folder, model = stored if way == "base" else tmp_path, request.getfixturevalue(way)
    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(folder / "finetuned-models"))
    base, more = (request.getfixturevalue("base"), ["--finetuned", model]) if way == "public" else (model, [])
    words = [*asked(name, base, folder), *more]
    wanted, said, after = call(*words, "--dry-run").json, call(*words), call(*words, "--dry-run").json
    assert said.code == 0, said.err
    left, still = (sum(one[noun] for noun in ("models", "runs", "scores")) for one in (wanted, after))
    assert (still, said.json["finished"]) == (0, left + 1), "and the tables"
    assert not said.json["failed"] and set(EXPERIMENTS[name].makes) <= set(said.json["rows"])


def test_the_random_model_has_the_rules_of_roberta(base: Path) -> None:
    pair = preflight(base, base, registry.task(TASK.format("mr")), "prompt")
    config = pair.base.config
    assert config["model_type"] == "roberta", "the output matrix is the embedding"
    assert config["max_position_embeddings"] == 514, "the output matrix is the embedding"
    assert config["pad_token_id"] == 1, "the output matrix is the embedding"
    assert "lm_head.decoder.weight" not in pair.base.tensors, "the output matrix is the embedding"
    tokenizer = roberta_tokenizer(WORDS)
    pieces = [piece.strip() for piece in tokenizer.tokenize("It was <mask>.")]
    assert pieces[-2:] == ["<mask>", "."] and "Ġ" not in pieces, "the mask includes the space before it"
    assert tokenizer("a")["input_ids"][0::2] == [0, 2] and {len(tokenizer.tokenize(f" {w}")) for w in WORDS} == {1}


@pytest.mark.slow
def test_label_words_of_several_tokens_are_refused_in_a_sentence(base: Path, tmp_path: Path) -> None:
    content = yaml.safe_load((PROJECT / TASK.format("mr")).read_text())
    content["data"] = {name: str(PROJECT / "examples/tasks" / path) for name, path in content["data"].items()}
    content["label_words"]["masked"] = ["abysmal-ish", "great"]
    (tmp_path / "task.yaml").write_text(yaml.safe_dump({**content, "name": "mine"}))
    words = asked("figure6", base, tmp_path)
    words[words.index("--tasks") + 1] = tmp_path / "task.yaml"
    said = call(*words)
    assert said.code == 2 and "abysmal-ish" in said.err and "Traceback" not in said.err


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_plan_at_the_papers_scale_is_told_without_its_data(name: str, base: Path, tmp_path: Path) -> None:
    """No data of the registry's tasks are fetched."""
    said = call("reproduce", name, "--scale", "paper", "--base", base, "--dry-run", "--runs-dir", tmp_path, "--json")
    assert said.code == 0, said.err
    assert said.json["runs"] > 0 and not list(tmp_path.iterdir())
