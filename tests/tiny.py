"""Tiny models and tasks, built in code and saved as ordinary folders; never downloaded."""

import json
import random
from pathlib import Path
from typing import Any

import torch
import yaml
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedModel,
)

from tests.tiny_tokenizers import LABEL_WORDS, NEUTRAL, POSITIONS, SIGNAL, tiny_tokenizer, words

# Re-exported, so that a test imports all tiny objects from one place.
__all__ = ["LABEL_WORDS", "NEUTRAL", "POSITIONS", "SIGNAL", "tiny_tokenizer", "words"]

FAMILIES = ("bert", "roberta", "distilbert", "gpt2", "opt", "gpt_neox", "llama")
MASKED = ("bert", "roberta", "distilbert")
AUTO = {
    "head": AutoModelForSequenceClassification,
    "prompt": AutoModelForMaskedLM,
    "causal": AutoModelForCausalLM,
    "bare": AutoModel,
}


def tiny_config(family: str, vocabulary: int, labels: int = 2, **changes: Any) -> Any:
    """Return a configuration of two blocks, width 16, two heads, no dropout."""
    sizes: dict[str, dict[str, Any]] = {
        "distilbert": {"dim": 16, "hidden_dim": 32, "n_layers": 2, "n_heads": 2, "sinusoidal_pos_embds": False},
        "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": POSITIONS, "n_inner": 32},
        "opt": {"ffn_dim": 32, "word_embed_proj_dim": 16},
        "llama": {"num_key_value_heads": 1, "tie_word_embeddings": True},
    }
    special = {
        "gpt2": {"bos_token_id": 0, "eos_token_id": 0},
        "gpt_neox": {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 1},
        "llama": {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None},
        "opt": {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2},
        "roberta": {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "type_vocab_size": 1},
    }
    plain = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    own = plain if family not in ("distilbert", "gpt2") else {}
    dropout = {name: 0.0 for name in _DROPOUT.get(family, ())}
    places = {} if family == "gpt2" else {"max_position_embeddings": POSITIONS + 2 * (family == "roberta")}
    # Wide initial weights make the classes of a random model differ.
    scale = {"init_std": 0.2} if family == "opt" else {"initializer_range": 0.2}
    merged = {**own, **places, **dropout, **scale, **special.get(family, {}), **sizes.get(family, {})}
    return AutoConfig.for_model(family, vocab_size=vocabulary, num_labels=labels, **{**merged, **changes})


def tiny_model(family: str, readout: str, seed: int = 0, labels: int = 2, **changes: Any) -> PreTrainedModel:
    """Return a random model of the readout's class (or `bare`), float32, with every bias and norm off its default."""
    config = tiny_config(family, len(tiny_tokenizer(family)), labels, **changes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AUTO[readout].from_config(config, dtype=torch.float32)
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.data.add_(0.05 * torch.randn_like(parameter))
            elif _is_embedding(name) and "position" not in name and "wpe" not in name:
                parameter.data.mul_(5)
            elif name.startswith(("score.", "classifier.")):
                parameter.data.mul_(3)
    return model.eval()


def tiny_pair(
    folder: Path | str,
    family: str = "bert",
    readout: str = "head",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    labels: int = 2,
    *,
    base_dtype: torch.dtype | None = None,
    move_embeddings: bool = False,
    steps: int = 0,
) -> tuple[Path, Path]:
    """Save (base, fine-tuned) with `save_pretrained` and a tokenizer each; return their folders.

    For the head readout the base is the bare model, without a head and with other name prefixes, the usual form
    of a
    pre-trained model. The fine-tuned one is moved by a seeded perturbation of half of the entries of each block;
    with
    `steps` (40 give a skill) it is trained on rows like tiny_task's instead. `dtype` is the dtype of the files;
    `base_dtype` is set only if the base differs.
    """
    if readout == "prompt" and family not in MASKED or readout == "causal" and family in MASKED:
        raise ValueError(f"{family} has no {readout} readout")
    folder, tokenizer = Path(folder), tiny_tokenizer(family)
    tuned = tiny_model(family, readout, seed, labels)
    base = _bare_copy(tuned, family, labels) if readout == "head" else tiny_model(family, readout, seed, labels)
    _store(base, tokenizer, folder / "base", base_dtype or dtype)
    if steps:
        _train(tuned, tokenizer, readout, steps, labels, seed)
    else:
        _move(tuned, seed + 1, move_embeddings)
    _store(tuned, tokenizer, folder / "finetuned", dtype)
    return folder / "base", folder / "finetuned"


def tiny_rows(rows: int, labels: int = 2, pair: bool = False, seed: int = 0) -> list[dict[str, Any]]:
    """Return rows {text | premise, hypothesis; label}: one or two words of the label among neutral ones."""
    draw = random.Random(seed)
    found = []
    for number in range(rows):
        label = number % labels
        text = [*draw.sample(NEUTRAL, draw.randint(3, 8)), *draw.sample(SIGNAL[label], draw.randint(1, 2))]
        draw.shuffle(text)
        half = len(text) // 2
        texts = {"premise": " ".join(text[:half]), "hypothesis": " ".join(text[half:])}
        found.append({**(texts if pair else {"text": " ".join(text)}), "label": label})
    return found


def tiny_task(folder: Path | str, rows: int = 64, labels: int = 2, pair: bool = False) -> Path:
    """Write a YAML task with JSONL data (train: `rows`, validation and test: half of it each); return its path."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"train": rows, "validation": max(rows // 2, labels), "test": max(rows // 2, labels)}
    for seed, (split, count) in enumerate(sizes.items()):
        lines = [json.dumps(row) for row in tiny_rows(count, labels, pair, seed)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    text = ["premise", "hypothesis"] if pair else ["text"]
    shown = "{premise} {hypothesis}" if pair else "{text}"
    label_words = list(LABEL_WORDS[:labels])
    task = {
        "name": "tiny-pair" if pair else "tiny",
        "data": {split: f"{split}.jsonl" for split in sizes},
        "text": text,
        "label": "label",
        "labels": [f"class-{w}" for w in label_words],
        "template": {"masked": f"{shown} It was {{mask}} .", "causal": f"{shown} It was"},
        "label_words": {"masked": label_words, "causal": label_words},
        "metric": "accuracy",
        "max_length": 48,
    }
    path = folder / "task.yaml"
    path.write_text(yaml.safe_dump(task, sort_keys=False))
    return path


_DROPOUT = {
    "bert": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
    "roberta": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
    "distilbert": ("dropout", "attention_dropout", "seq_classif_dropout"),
    "gpt2": ("resid_pdrop", "embd_pdrop", "attn_pdrop"),
    "opt": ("dropout", "attention_dropout"),
    "gpt_neox": ("attention_dropout", "hidden_dropout", "classifier_dropout"),
    "llama": ("attention_dropout",),
}


def _bare_copy(model: PreTrainedModel, family: str, labels: int) -> PreTrainedModel:
    bare = tiny_model(family, "bare", 0, labels)
    bare.load_state_dict(model.base_model.state_dict(), strict=False)
    return bare


def _store(model: PreTrainedModel, tokenizer: Any, folder: Path, dtype: torch.dtype) -> None:
    model.to(dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _is_embedding(name: str) -> bool:
    return "emb" in name or name.endswith(("wte.weight", "wpe.weight"))


def _blocks(model: PreTrainedModel, embeddings: bool) -> list[torch.nn.Parameter]:
    named = model.named_parameters()
    return [p for n, p in named if any(part.isdigit() for part in n.split(".")) or (embeddings and _is_embedding(n))]


def _move(model: PreTrainedModel, seed: int, embeddings: bool) -> None:
    draw = torch.Generator().manual_seed(seed)
    for parameter in _blocks(model, embeddings):
        change = 0.1 * torch.randn(parameter.shape, generator=draw)
        parameter.data.add_(torch.where(torch.rand(parameter.shape, generator=draw) < 0.5, change, torch.zeros(())))


def _train(model: PreTrainedModel, tokenizer: Any, readout: str, steps: int, labels: int, seed: int) -> None:
    rows = tiny_rows(32 * steps, labels, seed=1000 + seed)
    ask = {"head": "", "prompt": f" It was {tokenizer.mask_token} .", "causal": " It was"}[readout]
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    model.config.pad_token_id = pad
    ids = [torch.tensor(tokenizer(row["text"] + ask)["input_ids"]) for row in rows]
    batch = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=pad)
    lengths = torch.tensor([len(row) for row in ids])
    seen = (torch.arange(batch.shape[1])[None] < lengths[:, None]).long()
    wanted = torch.tensor([row["label"] for row in rows])
    heads = [p for n, p in model.named_parameters() if n.startswith(("classifier.", "pre_classifier.", "score."))]
    trained = _blocks(model, embeddings=False) + heads
    optimizer = torch.optim.AdamW(trained, lr=(5e-3 if readout == "prompt" else 1e-2), weight_decay=0)
    answers = [tokenizer(" " + w, add_special_tokens=False)["input_ids"][-1] for w in LABEL_WORDS[:labels]]
    places = (batch == tokenizer.mask_token_id).int().argmax(1) if readout == "prompt" else lengths - 1
    for part in torch.arange(len(rows)).split(32):
        logits = model(input_ids=batch[part], attention_mask=seen[part]).logits
        if readout != "head":
            logits = logits[torch.arange(len(part)), places[part]][:, answers]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, wanted[part]).backward()
        optimizer.step()
