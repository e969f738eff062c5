"""Random models with RoBERTa's shapes: 514 positions, padding 1, a tied language-model head, a byte-level BPE.

They have the form of `roberta-base`: a RobertaForMaskedLM folder with its tokenizer. Nothing is downloaded.
"""

import json
from pathlib import Path

import torch
from tokenizers import AddedToken, ByteLevelBPETokenizer
from tokenizers.processors import RobertaProcessing
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
DATA = Path(__file__).parents[1] / "examples" / "data"
BASE = {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
SMALL = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
VOCABULARY = 50_265


def roberta_tokenizer(words: tuple[str, ...], vocabulary: int = 2_000) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE of the examples' texts with RoBERTa's special tokens; each of `words` is one token."""
    lines = [line for file in sorted(DATA.rglob("train.jsonl")) for line in file.read_text().splitlines()[:300]]
    texts = [str(value) for line in lines for value in json.loads(line).values() if isinstance(value, str)]
    byte_level = ByteLevelBPETokenizer(add_prefix_space=False)
    often = [f" {word}" for word in words] * 2_000
    byte_level.train_from_iterator([*texts, *often], vocab_size=vocabulary, special_tokens=SPECIAL, show_progress=False)
    tokenizer = byte_level._tokenizer
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])  # it includes the space before it, like RoBERTa's
    tokenizer.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>",
        pad_token="<pad>", unk_token="<unk>", mask_token="<mask>", model_max_length=512,
    )  # fmt: skip


def random_roberta(
    folder: Path, words: tuple[str, ...], shape: dict[str, int] = SMALL, vocabulary: int | None = None
) -> Path:
    """Save a random RobertaForMaskedLM of these sizes; the default vocabulary is the tokenizer's. Return its folder."""
    tokenizer = roberta_tokenizer(words)
    config = RobertaConfig(
        vocab_size=vocabulary or len(tokenizer), max_position_embeddings=514, type_vocab_size=1, pad_token_id=1,
        bos_token_id=0, eos_token_id=2, layer_norm_eps=1e-5, tie_word_embeddings=True, **shape,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = RobertaForMaskedLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
