"""One tokenizer of every kind, built in code: WordPiece, byte-level BPE, Unigram (as SentencePiece), Llama's BPE."""

from __future__ import annotations

from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from tests.tiny import tiny_tokenizer, words

MASKED = ("wordpiece", "bytes", "unigram")
CAUSAL = ("gpt2", "llama", "opt")


@cache
def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """The tokenizer of a kind; only `unigram` is not one of tests/tiny.py."""
    if kind == "unigram":
        return _unigram()
    return tiny_tokenizer({"wordpiece": "bert", "bytes": "roberta"}.get(kind, kind))


def _unigram() -> PreTrainedTokenizerFast:
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    letters = [chr(c) for c in range(33, 127)]
    pieces = [(piece, 0.0) for piece in special] + [("▁", -4.0)] + [(c, -9.0) for c in letters]
    pieces += [("▁" + word, -3.0) for word in words()]
    built = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    built.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    built.decoder = decoders.Metaspace()
    built.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = ("bos_token", "pad_token", "eos_token", "unk_token")
    tokens = dict(zip(names, special, strict=False)) | {"cls_token": "<s>", "sep_token": "</s>"}
    mask = AddedToken("<mask>", lstrip=True, special=True)
    inputs = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=built, mask_token=mask, model_max_length=64, model_input_names=inputs, **tokens
    )
