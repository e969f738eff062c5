"""Tests of what a model is given of a text: special tokens, stored padding, other texts, positions, the length;
and of the words of a text that count most."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedTokenizerFast

from skillviz.core.architectures import FAMILIES
from skillviz.core.batches import Batches
from skillviz.core.encoded import Encoded, encoding_notes
from skillviz.core.readout import HeadReadout
from skillviz.errors import BadInput
from skillviz.live.operations import attribute
from skillviz.live.request import PairRequest, Worker
from skillviz.models.finetune.run import finetune
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig
from skillviz.models.pair import load_pair
from skillviz.models.preflight import preflight
from skillviz.models.tokenizer import fit_together, load_tokenizer, most_tokens, places, words_problem
from skillviz.runs.evaluation import evaluate
from skillviz.runs.produce import produce
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.show import attribution as shown
from skillviz.tasks import registry
from skillviz.tasks.splits import load
from skillviz.tasks.user_file import read_task
from tests.cases.build import bert, evaluated, fit, fitted_pair, own_accuracy, saved, task_file, tiny_rows
from tests.tasks.make import frame, made, read, tokenizer
from tests.tiers import first
from tests.tiny import LABEL_WORDS, tiny_pair, tiny_task, tiny_tokenizer
from tests.tiny_families import family_model, family_pair
from tests.tiny_tokenizers import NEUTRAL, POSITIONS

PROMPT = {"template": {"masked": "{text} It was <mask>."}, "label_words": {"masked": ["terrible", "great"]}}


def of_all(encoded: Encoded) -> list[list[int]]:
    """Return the token ids of every text."""
    return [ids.tolist() for ids in encoded.input_ids]


def test_a_pair_is_scored_at_its_own_accuracy(tmp_path: Path) -> None:
    test = tiny_rows(60, seed=2)
    base, tuned, model = fitted_pair(tmp_path, tiny_rows(64, seed=1), steps=60)
    accuracy, _ = evaluated(base, tuned, task_file(tmp_path / "plain", test, test))
    assert accuracy == own_accuracy(model, tiny_tokenizer("bert"), test) > 0.9


def marked_tokenizer() -> Any:
    tok = tiny_tokenizer("bert")
    tok.add_special_tokens({"additional_special_tokens": ["[A]", "[B]"]})
    return tok


def test_a_model_trained_with_markers_has_its_own_accuracy(tmp_path: Path) -> None:
    tok, model = marked_tokenizer(), bert()
    rows = [{"text": f"{'[A]' if n % 2 else '[B]'} the film was", "label": n % 2} for n in range(40)]
    base = saved(tmp_path / "base", model, tiny_tokenizer("bert"))
    model.resize_token_embeddings(len(tok))
    fit(model, tok, rows, steps=30)
    tuned = saved(tmp_path / "tuned", model, tok)
    assert own_accuracy(model, tok, rows) == 1.0
    assert evaluated(base, tuned, task_file(tmp_path / "marked", rows, rows))[0] == 1.0


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "gpt2", "llama", "opt"])
def test_a_head_reads_every_token_of_its_tokenizer(kind: str) -> None:
    tok = tiny_tokenizer(kind)
    texts = [f"{token} a film {token}the plot" for token in tok.all_special_tokens if token]
    encoded = read(tok, "head", *texts)
    assert of_all(encoded) == tok(texts)["input_ids"] and encoded.notes == ()


@pytest.mark.parametrize("kind", ["gpt2", "llama", "opt", "gpt_neox"])
def test_a_causal_prompt_keeps_an_end_token_that_its_text_has(kind: str) -> None:
    tok = tiny_tokenizer(kind)
    texts = [f"a{tok.eos_token} film", f"the plot {tok.eos_token}", tok.eos_token * 2]
    assert of_all(read(tok, "causal", *texts, causal="{text}")) == tok(texts)["input_ids"]


def test_a_causal_prompt_loses_the_end_that_its_tokenizer_puts_behind_it_once() -> None:
    tok = tiny_tokenizer("roberta")  # its format is <s> text </s>
    text = f"the plot {tok.eos_token}"
    (ids,) = of_all(read(tok, "causal", text, causal="{text}"))
    assert ids == tok(text)["input_ids"][:-1] and ids[-1] == tok.eos_token_id


def normalized() -> PreTrainedTokenizerFast:
    """Return a lowercasing tokenizer that finds its mask in the lowercased text."""
    words = ["<pad>", "<unk>", "<mask>", "a", "film", "it", "was", "terrible", "great", "."]
    built = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    built.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    built.pre_tokenizer = pre_tokenizers.Whitespace()
    mask = AddedToken("<mask>", normalized=True, special=True)
    return PreTrainedTokenizerFast(tokenizer_object=built, mask_token=mask, pad_token="<pad>", unk_token="<unk>")


MASKS = {
    "as it is written": ("bert", "a [MASK] film"),
    "twice, and at both ends": ("bert", "[MASK] film [MASK]"),
    "with the spaces before it": ("roberta", "a   <mask> film"),
    "inside a word": ("roberta", "a<mask>film"),
    "in other case": (None, "a <MASK> film"),
    "in wide letters": (None, "a ＜ｍａｓｋ＞ film"),
}


@pytest.mark.parametrize("what", MASKS)
def test_a_text_cannot_place_a_mask_in_a_prompt(what: str) -> None:
    kind, text = MASKS[what]
    tok = normalized() if kind is None else tiny_tokenizer(kind)
    encoded = read(tok, "prompt", "a film", text, "it was")
    for ids, place in zip(encoded.input_ids, encoded.positions, strict=True):
        assert np.flatnonzero(ids == tok.mask_token_id).tolist() == [place]
    assert len(encoded.notes) == 1 and encoded.notes[0].startswith("1 of 3 texts contains the mask token")
    (head,) = of_all(read(tok, "head", text))
    assert head == tok(text)["input_ids"] and tok.mask_token_id in head


@pytest.mark.parametrize(
    ("text", "as_read"),
    [("a [MASK]", "a [ MASK]"),
     *((text, text) for text in ("a title [SEP] a plot [CLS]", "[A] a film", "[PAD] [UNK]", "[mask]"))],
)  # fmt: skip
def test_other_tokens_of_a_prompt_are_read_as_they_are(text: str, as_read: str) -> None:
    tok = marked_tokenizer()
    assert of_all(read(tok, "prompt", text)) == tok([f"{as_read} It was [MASK]."])["input_ids"]


def test_a_mask_of_one_sign_is_refused_with_its_text() -> None:
    tok = tiny_tokenizer("bert")
    tok.add_special_tokens({"mask_token": "□"})
    with pytest.raises(BadInput, match="with the text 'a □ film'"):
        read(tok, "prompt", "a film", "a □ film")


def test_the_count_of_masks_reaches_the_evaluation(tmp_path: Path) -> None:
    rows = tiny_rows(8)
    rows[3] = {**rows[3], "text": "[MASK] " + rows[3]["text"]}
    task = task_file(tmp_path / "t", rows, rows, **PROMPT)
    _, result = evaluated(*tiny_pair(tmp_path, "bert", "prompt"), task, readout="prompt")
    assert any(note.startswith("test: 1 of 8 texts contains the mask token '[MASK]'") for note in result.notes)


CALLS: dict[str, dict[str, Any]] = {
    "padding to a fixed length": {"padding": "max_length", "max_length": 32},
    "truncation": {"truncation": True, "max_length": 3},
    "both": {"padding": "max_length", "truncation": True, "max_length": 4},
    "padding to a multiple": {"padding": True, "pad_to_multiple_of": 16},
    "the other side": {"padding": "max_length", "max_length": 32, "padding_side": "left"},
}


def stored(folder: Path, call: str, kind: str = "bert") -> Path:
    """Save a tokenizer after this call, whose padding and truncation tokenizer.json keeps; return its folder."""
    tok = tiny_tokenizer(kind)
    tok(["the film was a story"], **CALLS[call])
    tok.save_pretrained(folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    assert content["padding"] or content["truncation"], "nothing is stored, so this tests nothing"
    return folder


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_label_words_and_answers_have_their_own_tokens(tmp_path: Path, kind: str, call: str) -> None:
    words = made(masked="{text} It was <mask>.", label_words={"masked": LABEL_WORDS[:2]})
    tiny_tokenizer(kind).save_pretrained(tmp_path / "plain")
    folders, answer = (
        (stored(tmp_path / "stored", call, kind), tmp_path / "plain"),
        ["the film was a story with a plot"],
    )
    assert [(words_problem(words, "prompt", one), most_tokens(answer, one)) for one in folders] == [("", 9)] * 2


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("readout", ["head", "prompt", "causal"])
def test_texts_are_neither_padded_nor_cut(tmp_path: Path, readout: str, call: str) -> None:
    toks = load_tokenizer(stored(tmp_path, call)), tiny_tokenizer("bert")
    got, wanted = (of_all(read(tok, readout, *(row["text"] for row in tiny_rows(8)))) for tok in toks)
    assert got == wanted


@pytest.mark.parametrize("call", ["truncation", "both"])
def test_a_pair_with_stored_truncation_is_the_same_pair(tmp_path: Path, call: str) -> None:
    rows = tiny_rows(32)
    base, tuned, model = fitted_pair(tmp_path, rows, steps=40)
    stored(tuned, call)
    check = preflight(base, tuned)
    assert check.fits and not any("okenizers" in note for note in check.notes)
    stored(base, call)
    accuracy, _ = evaluated(base, tuned, task_file(tmp_path / "t", rows, rows))
    assert accuracy == own_accuracy(model, tiny_tokenizer("bert"), rows) > 0.9


TEXTS = ["good", "the film was bad and dull", "a </s> b", "</s>", "it was </s></s> a funny story with </s>", "a story"]
LABELS = np.array([0, 1, 0, 1, 0, 1])


def batch_of(ids: list[np.ndarray]) -> Any:
    """Return these texts as one batch."""
    pad = tiny_tokenizer("roberta").pad_token_id
    encoded = Encoded(ids=TEXTS, labels=LABELS, n_labels=2, pad_id=pad, input_ids=ids)
    return Batches(encoded, torch.device("cpu")).batch(np.arange(len(TEXTS)))


@pytest.mark.parametrize(
    "family", ["roberta", "gpt2", "llama", "opt", "xlnet", "bart", "mbart", "plbart", "mvp", "t5", "umt5"]
)
def test_a_text_has_its_own_scores_beside_any_others(family: str) -> None:
    model, ids = family_model(family), [np.array(row) for row in tiny_tokenizer("roberta")(TEXTS)["input_ids"]]
    with torch.no_grad():
        alone = torch.cat([model(input_ids=torch.from_numpy(row)[None]).logits for row in ids])
        together = HeadReadout().logits(model, batch_of(ids))
    assert alone.std(0).max() > 1e-2, "texts of equal scores would show nothing"
    # padding and batching change the order of float32 sums
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


def test_gradients_reach_every_group_of_texts() -> None:
    model, ids = family_model("t5"), [np.array(row) for row in tiny_tokenizer("roberta")(TEXTS)["input_ids"]]
    batch, weight = batch_of(ids), model.classification_head.out_proj.weight
    loss = torch.nn.functional.cross_entropy(HeadReadout().logits(model, batch), batch.labels, reduction="sum")
    (together,) = torch.autograd.grad(loss, weight)
    alone = torch.zeros_like(weight)
    for row, label in zip(ids, LABELS, strict=True):
        logits = model(input_ids=torch.from_numpy(row)[None]).logits
        alone += torch.autograd.grad(torch.nn.functional.cross_entropy(logits, torch.tensor([label])), weight)[0]
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", ["xlnet", "t5"])
def test_evaluate_has_the_models_own_accuracy(tmp_path: Path, family: str) -> None:
    base, tuned = family_pair(tmp_path, family)
    rows = [{**row, "text": row["text"] + " </s> a" * (i % 3)} for i, row in enumerate(tiny_rows(48))]
    model = AutoModelForSequenceClassification.from_pretrained(tuned).eval()
    own = own_accuracy(model, tiny_tokenizer("roberta"), rows)
    assert evaluated(base, tuned, task_file(tmp_path / "task", rows, rows), readout="head")[0] == own


FROM_PADDING = (
    "roberta", "xlm-roberta", "camembert", "mpnet", "longformer", "esm", "xmod", "data2vec-text",
    "roberta-prelayernorm", "xlm-roberta-xl", "ibert",
)  # fmt: skip
"""Families that count positions from the padding id, including LUKE, whose model of 500,000 entities is a slow test."""
OTHERS = ("bert", "gpt2", "nystromformer", "opt", "bart", "llama", "t5", "xglm")
LONG = [{"text": " ".join(row["text"] for row in tiny_rows(40, seed=seed)), "label": seed % 2} for seed in range(4)]


def unlimited(*folders: Path) -> None:
    """Save the tokenizer again without a maximum length."""
    tok = copy.deepcopy(tiny_tokenizer("roberta"))
    tok.model_max_length = 10**30
    for folder in folders:
        tok.save_pretrained(folder)


def scores_of(model: torch.nn.Module, tokens: int) -> torch.Tensor:
    """Return the model's scores for an input of this many tokens."""
    ids = torch.tensor([[0, *[20] * (tokens - 2), 2]])
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("family", ["roberta", "mpnet", "esm"])
def test_evaluate_shortens_texts_to_the_positions(tmp_path: Path, family: str) -> None:
    base, tuned = family_pair(tmp_path, family)
    unlimited(base, tuned)
    task = task_file(tmp_path / "task", LONG, LONG, max_length=512)
    accuracy, result = evaluated(base, tuned, task, readout="head")
    assert accuracy in (0, 0.25, 0.5, 0.75, 1)
    assert f"test: 4 of 4 texts were shortened to {POSITIONS} tokens (the most that the model takes)." in result.notes


@pytest.mark.cases(14, 22)
@pytest.mark.parametrize("family", first(FAMILIES, (*FROM_PADDING, *OTHERS).__contains__))
def test_the_limit_is_what_the_family_takes(tmp_path: Path, family: str) -> None:
    """The model runs at the limit; one more token fails if the model has a position table."""
    model = family_model(family)
    model.config.save_pretrained(tmp_path)
    unlimited(tmp_path)
    tok = load_tokenizer(tmp_path)
    fit_together(model, tok)
    limit = min(int(tok.model_max_length), 512)
    assert scores_of(model, limit).isfinite().all() and (family not in FROM_PADDING or limit == POSITIONS)
    if list(places(model)):
        with pytest.raises((IndexError, RuntimeError)):
            scores_of(model, limit + 1)


@pytest.mark.parametrize("family", ["t5", "mt5", "funnel"])
def test_distances_have_no_end(tmp_path: Path, family: str) -> None:
    """Old files of these families give a number of positions, which limits nothing."""
    model, path = family_model(family), tmp_path / "config.json"
    model.config.save_pretrained(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "n_positions": 40, "max_position_embeddings": 40}))
    unlimited(tmp_path)
    assert load_tokenizer(tmp_path).model_max_length > 512 and scores_of(model, 100).isfinite().all()


@pytest.mark.parametrize(
    ("stated", "wanted"), [({}, POSITIONS), ({"max_length": 512}, POSITIONS), ({"max_length": 20}, 20)]
)
def test_a_pair_knows_its_limit(tmp_path: Path, stated: dict[str, int], wanted: int) -> None:
    base, tuned = family_pair(tmp_path, "mpnet")
    unlimited(base, tuned)
    task = read_task(task_file(tmp_path / "task", LONG, LONG, **stated))
    pair = load_pair(base, tuned, task=task, device="cpu")
    assert {pair.limit(task), *map(len, pair.encode(task, load(task).test).input_ids)} == {wanted}


PLACES = 200
FILLER = " ".join(NEUTRAL[:6])


def told_late(rows: int, words: int, seed: int = 0) -> list[dict]:
    """Return rows whose label words follow about this many neutral words."""
    before = " ".join([FILLER] * (words // 6))
    return [{**row, "text": f"{before} {row['text']}"} for row in tiny_rows(rows, seed=seed)]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Return a folder with a pair of PLACES positions, fitted to label words anywhere, and the model."""
    folder, tok = tmp_path_factory.mktemp("pair"), copy.deepcopy(tiny_tokenizer("bert"))
    tok.model_max_length = PLACES
    model = bert(max_position_embeddings=PLACES, num_hidden_layers=1)
    saved(folder / "base", model, tok)
    fit(model, tok, [*tiny_rows(100), *told_late(100, 150)], steps=40, rate=6e-3)
    saved(folder / "finetuned", model, tok)
    return folder, model


def with_settings(fitted: tuple[Path, Any], folder: Path, **settings: Any) -> tuple[Path, Path, Any, Any]:
    """Return the base, fine-tuned model, loaded model and tokenizer of a copy with these extra tokenizer settings."""
    shutil.copytree(fitted[0], folder / "pair")
    for name in ("base", "finetuned"):
        path = folder / "pair" / name / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
    tok = AutoTokenizer.from_pretrained(folder / "pair" / "finetuned")
    return folder / "pair" / "base", folder / "pair" / "finetuned", fitted[1], tok


@pytest.mark.nightly
def test_a_task_that_states_no_length_has_the_models_own(fitted, tmp_path: Path) -> None:
    """Regression: words after the 128th token decide, and skillviz's accuracy equals the model's own."""
    base, tuned, model, tok = with_settings(fitted, tmp_path)
    rows = told_late(40, 150, seed=1)
    own, short = (own_accuracy(model, tok, rows, most) for most in (PLACES, 128))
    ours, result = evaluated(base, tuned, task_file(tmp_path / "task", rows[:10], rows))
    assert ours == own and own > short + 0.2
    assert not any("shortened" in note for note in result.notes)


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize(
    ("stated", "whose"),
    [({"max_length": 100}, "max_length"), ({"max_length": 150}, "the most that the model takes"), ({}, "max_length")],
)
def test_shortened_texts_are_counted(fitted, tmp_path: Path, stated: dict[str, int], whose: str) -> None:
    base, tuned, model, tok = with_settings(fitted, tmp_path, model_max_length=100)
    rows = [*told_late(30, 150), *tiny_rows(10)]
    ours, result = evaluated(base, tuned, task_file(tmp_path / "task", rows[:10], rows, **stated))
    assert ours == own_accuracy(model, tok, rows, 100)
    assert f"test: 30 of 40 texts were shortened to 100 tokens ({whose})." in result.notes


def test_the_side_of_the_tokenizer_is_followed(fitted, tmp_path: Path) -> None:
    base, tuned, model, tok = with_settings(fitted, tmp_path, truncation_side="left")
    rows = told_late(40, 150, seed=1)
    own = own_accuracy(model, tok, rows, 100)
    tok.truncation_side = "right"
    ours, _ = evaluated(base, tuned, task_file(tmp_path / "task", rows[:10], rows, max_length=100))
    assert ours == own and own > own_accuracy(model, tok, rows, 100) + 0.2


WORDS = "the film wasn't unbelievably good, 1234 times: naïve plot!  it   was é"


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("is_pair", [False, True])
@pytest.mark.parametrize("kind", ["wordpiece", "bytes", "unigram", "llama", "gpt2"])
def test_ids_for_a_head_are_those_of_transformers(monkeypatch, kind: str, is_pair: bool, side: str) -> None:
    tok = tokenizer(kind)
    monkeypatch.setattr(tok, "truncation_side", side)
    rows = [(WORDS * n, WORDS[5:] * m)[: 1 + is_pair] for n, m in ((3, 1), (1, 3), (2, 2), (1, 1))]
    ours = read(tok, "head", *rows, pair=is_pair, limit=24)
    assert of_all(ours) == [tok(*row, truncation=True, max_length=24)["input_ids"] for row in rows]
    what = "text pairs" if is_pair else "texts"
    assert ours.notes == (f"4 of 4 {what} were shortened to 24 tokens (max_length).",)
    read(tok, "head", *rows, pair=is_pair, limit=24)
    assert tok.backend_tokenizer.truncation is None  # a truncation setting would be saved with the model


@pytest.mark.parametrize(("side", "kept"), [("right", "good"), ("left", "bad")])
@pytest.mark.parametrize("kind", ["bytes", "gpt2"])
def test_a_prompt_keeps_the_side_too(monkeypatch, kind: str, side: str, kept: str) -> None:
    tok = tokenizer(kind)
    monkeypatch.setattr(tok, "truncation_side", side)
    encoded = read(tok, "prompt" if kind == "bytes" else "causal", "good " * 30 + "bad " * 30, "film", limit=20)
    words = tok.decode(encoded.input_ids[0])
    assert {word for word in ("good", "bad", "It was") if word in words} == {kept, "It was"}
    assert encoded.notes == ("1 of 2 texts was shortened to 20 tokens (max_length).",)


def test_built_in_tasks_keep_their_length() -> None:
    assert [registry.task(name).limit("head") for name in ("sst2", "imdb", "mnli")] == [128, 128, 256]


def test_the_length_of_the_fine_tuning_is_used_where_the_folder_says_it(fitted, tmp_path: Path) -> None:
    base, tuned, _, _ = with_settings(fitted, tmp_path)
    rows, path = told_late(10, 150), tuned / "config.json"
    task = read_task(task_file(tmp_path / "task", rows, rows))
    assert load_pair(base, tuned, task=task, device="cpu").limit(task) == PLACES
    path.write_text(json.dumps({**json.loads(path.read_text()), "skillviz_max_length": 40}))
    pair = load_pair(base, tuned, task=task, device="cpu")
    assert pair.limit(task) == 40 and pair.limit(task.model_copy(update={"max_length": 60})) == 60
    assert encoding_notes({"test": pair.encode(task, frame(rows[0]["text"]))}) == (
        "test: 1 of 1 text was shortened to 40 tokens (max_length).",
    )


def test_a_length_that_the_tokenizer_was_saved_with_is_said_and_not_followed(fitted, tmp_path: Path) -> None:
    """transformers ignores the saved length too: it only records the last call before saving."""
    base, tuned, model, tok = with_settings(fitted, tmp_path)
    tok(["a"], truncation=True, max_length=32)
    tok.save_pretrained(tuned)
    rows = [*told_late(30, 150), *tiny_rows(10)]
    ours, result = evaluated(base, tuned, task_file(tmp_path / "task", rows[:10], rows))
    assert ours == own_accuracy(model, tok, rows, PLACES)
    assert any(note.startswith("test: 30 of 40 texts have more than 32 tokens") for note in result.notes)
    _, result = evaluated(base, tuned, task_file(tmp_path / "stated", rows[:10], rows, max_length=PLACES))
    assert not any("more than 32 tokens" in note for note in result.notes)


def test_one_length_from_fine_tuning_to_the_graft_alone(tmp_path: Path) -> None:
    """Training, localizing, evaluating and applying without the fine-tuned model all truncate to the same length."""
    base, tuned, rows = saved(tmp_path / "base", bert(), tiny_tokenizer("bert")), tmp_path / "tuned", told_late(40, 90)
    trained_on = read_task(task_file(tmp_path / "trained", rows, rows, max_length=24))
    config = TrainingConfig(readout="head", steps=2, batch_size=8)
    finetune(str(base), [trained_on], config, DataSettings(), out=tuned, device="cpu")
    assert json.loads((tuned / "finetune.json").read_text())["max_length"] == 24
    unstated = task_file(tmp_path / "unstated", rows, rows)
    spec = RunSpec(base=str(base), finetuned=str(tuned), task=str(unstated), localizer="movement",
                   sizes=("1%",), device="cpu")  # fmt: skip
    run = produce(spec, Store(tmp_path / "runs"))
    wanted = "test: 40 of 40 texts were shortened to 24 tokens (max_length)."
    assert run.record.task.max_length == 24 and wanted in run.record.notes
    graft = load_pair(base, tuned, device="cpu").graft(run.region())
    assert wanted in evaluate(base, task=unstated, graft=graft, device="cpu").notes


TOKENS = ("[CLS]", "dull", "un", "speakably", "good", "it", "was", "[MASK]", "[SEP]")
PLACES_OF_WORDS = (-1, 0, 1, 1, 2, -1, -1, -1, -1)


def attributed(**values: list[float]) -> pd.DataFrame:
    """Return the rows of one example by state; the template is "it was [MASK]"."""
    special = [token.startswith("[") for token in TOKENS]
    states = {state: {"values": np.array(numbers)} for state, numbers in values.items()}
    return shown.token_rows({"tokens": TOKENS, "special": special, "word": PLACES_OF_WORDS, "states": states})


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([0, -3.0, 0.1, 0.1, 1.0, 0.2, 0.2, 0, 0], "“good” in the fine-tuned model (+1.00 nats)"),
        ([0, 0.1, 0.1, 0.1, 0.3, 2.0, 0.2, 0, 0], "“good” in the fine-tuned model (+0.30 nats)"),
        ([0, 0.1, 0.4, 0.5, 0.6, 0.0, 0.0, 0, 0], "“unspeakably” in the fine-tuned model (+0.90 nats)"),
        ([0, 0.5, 2.0, -1.9, 0.1, 0.0, 0.0, 0, 0], "“dull” in the fine-tuned model (+0.50 nats)"),
        ([0, -0.5, -2.0, -1, -0.1, 3.0, 0.0, 0, 0], ""),
    ],
    ids=["against", "the template", "a whole word", "a word's sum", "none"],
)
def test_the_word_that_is_named(values: list[float], named: str) -> None:
    said = shown.tokens_words(attributed(finetuned=values), "positive")
    none = "No word speaks for **positive** in the fine-tuned model."
    assert said == (f"What counts most for **positive**: {named}." if named else none)


def test_every_model_is_named_even_where_no_word_speaks_for_the_class() -> None:
    for_it, against = [0, 0, 0, 0, 0.7, 0, 0, 0, 0], [0, -1, 0, 0, -0.2, 0.4, 0, 0, 0]
    said = shown.tokens_words(attributed(pretrained=against, finetuned=for_it), "positive")
    assert "no word in the pre-trained model; “good” in the fine-tuned model (+0.70 nats)" in said
    said = shown.tokens_words(attributed(pretrained=against, finetuned=against), "positive")
    assert said == "No word speaks for **positive** in any of the models."


def test_a_layer_that_speaks_against_the_class_is_not_named() -> None:
    parts = pd.DataFrame([("grafted", "MLP out", 0, -4.0), ("grafted", "attention output", 1, 0.2)],
                         columns=["state", "part", "layer", "value"])  # fmt: skip
    assert "layer 1's attention output in the grafted model (+0.20 nats)" in shown.parts_words(parts, "positive")
    assert shown.parts_words(parts.iloc[:1], "positive") == "No layer speaks for **positive** in the grafted model."


def attributed_words(folder: Path, family: str, readout: str, given: Any) -> list[str]:
    """Return the words that the tokens of a text, or a pair of texts, are put together to."""
    base, tuned = tiny_pair(folder, family, readout)
    task = tiny_task(folder / "task", pair=isinstance(given, list))
    asked = {"base": str(base), "finetuned": str(tuned), "task": str(task), "readout": readout, "device": "cpu"}
    found = attribute(PairRequest(Worker(folder / "runs"), asked), given, states=["finetuned"], steps=4)
    numbers, tokens = found["word"], found["tokens"]
    assert {-1}.issuperset(n for n, is_special in zip(numbers, found["special"], strict=True) if is_special)
    return ["".join(t for t, n in zip(tokens, numbers, strict=True) if n == k) for k in range(max(numbers) + 1)]


@pytest.mark.cases(6, 5)
@pytest.mark.parametrize(
    ("family", "readout"), [("bert", "head"), ("bert", "prompt"), ("roberta", "prompt"), ("gpt2", "causal")]
)
@pytest.mark.parametrize("text", ["the film was great", "it was great it was", "a", "1 it was"])
def test_words_are_those_of_the_text(tmp_path: Path, family: str, readout: str, text: str) -> None:
    """This holds even if the text contains the template's own words or a filler word."""
    assert attributed_words(tmp_path, family, readout, text) == text.split()


@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("roberta", "prompt"), ("llama", "causal")])
def test_words_are_those_of_both_texts(tmp_path: Path, family: str, readout: str) -> None:
    texts = ["the film was great", "it was a great plot"]
    assert attributed_words(tmp_path, family, readout, texts) == " ".join(texts).split()
