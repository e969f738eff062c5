"""The world's tokenizer: one token a word, in lower case, with the special tokens of RoBERTa."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from skillviz.errors import BadInput

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
MOST = 2000
"""Words that the vocabulary may have."""
POSITIONS = 64


def vocabulary(texts: Iterable[str]) -> list[str]:
    """The special tokens, then every word of the texts in alphabetical order; raises BadInput above MOST."""
    splitter = _splitter()
    known = {word for text in texts for word, _ in splitter.pre_tokenize_str(text.lower())}
    if len(known) > MOST:
        raise BadInput(f"the demo world has {len(known):,} words; its vocabulary may have {MOST:,}.")
    return [*SPECIAL, *sorted(known)]


def tokenizer(words: list[str]) -> Any:
    """The tokenizer of a vocabulary, as transformers knows it."""
    ids = {word: number for number, word in enumerate(words)}
    backend = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = _splitter()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=POSITIONS, model_input_names=["input_ids", "attention_mask"],
        bos_token="<s>", cls_token="<s>", pad_token="<pad>", eos_token="</s>", sep_token="</s>", unk_token="<unk>",
        mask_token=AddedToken("<mask>", lstrip=True, special=True),
    )  # fmt: skip


def _splitter() -> Any:
    return pre_tokenizers.BertPreTokenizer()
