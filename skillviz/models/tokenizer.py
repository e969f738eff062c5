"""The tokenizer of a model's folder: what its files tell without loading it, whether it takes a task, loading it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from skillviz import json_text
from skillviz.core.encoded import Encoded
from skillviz.core.formats import counted
from skillviz.errors import BadInput, BadModel, CorruptFile, ModelNotFound, PairMismatch
from skillviz.models.checkpoint import ModelInfo
from skillviz.regular_file import LONGEST_JSON, read_text
from skillviz.tasks.encode import encode
from skillviz.tasks.task import USUAL_LENGTH, Task
from skillviz.tasks.template import parse
from skillviz.tasks.tokenizer_errors import refused
from skillviz.tasks.verbalizer import word_ids

TOKENIZER_FILE = "tokenizer.json"
# Any one of these sets of files makes a tokenizer.
FILES = (
    (TOKENIZER_FILE,),
    ("vocab.txt",),
    ("vocab.json", "merges.txt"),
    ("tokenizer.model",),
    ("spiece.model",),
    ("sentencepiece.bpe.model",),
)
BESIDE = CONFIG, SPECIAL_MAP, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
"""Files beside the vocabulary: settings, and where older versions of transformers name special and added tokens."""

OVERRULED = (
    ("normalizer", "lowercase", "do_lower_case"),
    ("normalizer", "strip_accents", "strip_accents"),
    ("normalizer", "handle_chinese_chars", "tokenize_chinese_chars"),
    ("pre_tokenizer", "add_prefix_space", "add_prefix_space"),
)
"""Part and key of a tokenizer.json, and the name of the same setting in tokenizer_config.json."""
SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len")
MOST_GROWTH = 1_000
"""How many times as long a normalizer may make a text; those of known models replace a letter by one."""
TRIAL = "A trial: é ☃ 😀 123."
"""What a loaded tokenizer is tried on: letters that vocabularies have and have not."""
WITHOUT_END = ("t5", "mt5", "umt5", "xlnet", "funnel")
"""Families that know distances, not places, so that a number of positions in their files bounds nothing."""
MAX_LENGTH = "skillviz_max_length"
"""Where a config.json says what longest input a model was fine-tuned, or a graft made, with, in tokens."""
POSITION_TABLE = re.compile(
    r"(^|(?<!entity_embeddings)\.)(\w*position_embeddings|embed_positions|positions_embed|wpe)$"
)
"""Modules that hold a vector for each place in a text."""


def has_tokenizer(folder: Path) -> bool:
    """Whether the folder holds the files of a tokenizer."""
    return any(all((folder / name).is_file() for name in names) for names in FILES)


def vocabulary(folder: Path) -> dict[str, int] | None:
    """Token -> id of the folder's tokenizer, added tokens too, as transformers numbers them.

    None where its files do not tell. An added token that only a file beside tokenizer.json names gets the next free id,
    even if that file gives another.
    """
    if (path := folder / TOKENIZER_FILE).is_file():
        state = path.stat()
        ids = dict(_ids(path, state.st_mtime_ns, state.st_size))
    elif (path := folder / "vocab.txt").is_file():
        # a line ends at a line feed alone: in a vocabulary of a web page's texts U+2028 or U+0085 is a token
        with _named_tokens(path):
            lines = read_text(path, LONGEST_JSON).removesuffix("\n").split("\n")
        ids = {token.rstrip(): number for number, token in enumerate(lines)}
    elif (path := folder / "vocab.json").is_file():
        ids = _checked(read_json(path), path)
    else:
        return None
    for token in _named_beside(folder):
        if token not in ids:
            ids[token] = 1 + max(ids.values(), default=-1)
    return ids


@lru_cache(maxsize=4)  # one preflight asks several times, and some files are of tens of megabytes
def _ids(path: Path, changed: int, size: int) -> dict[str, int]:
    """Token -> id of a tokenizer.json."""
    content = read_json(path)
    with _named_tokens(path):
        pieces = (content.get("model") or {}).get("vocab") or {}
        # unigram models list [piece, score]; the others map piece to id
        ids = {one[0]: k for k, one in enumerate(pieces)} if isinstance(pieces, list) else dict(pieces)
        added = {token["content"]: token["id"] for token in content.get("added_tokens") or []}
        return _checked(ids | added, path)


def _named_beside(folder: Path) -> list[str]:
    """The tokens that the files beside the vocabulary name, in the order in which transformers adds them."""
    config, special, added = (
        read_json(path) if (path := folder / name).is_file() else {} for name in (CONFIG, SPECIAL_MAP, ADDED)
    )
    with _named_tokens(folder / CONFIG):
        decoder = config.get("added_tokens_decoder") or {}
        if decoder:  # then transformers reads neither of the older files
            special, numbers = {}, {_content(token): int(number) for number, token in decoder.items()}
        else:
            numbers = {str(token): int(number) for token, number in added.items()}
        tokens = sorted(numbers, key=lambda token: numbers[token])
        for named in (config, special):
            tokens += [_content(named[role]) for role in SPECIAL if named.get(role)]
            for key in ("additional_special_tokens", "extra_special_tokens"):
                more = named.get(key) or []
                tokens += [_content(token) for token in (more.values() if isinstance(more, dict) else more)]
        return tokens


def _content(token: Any) -> str:
    """The text of a token, which files have alone or with its flags."""
    return str(token["content"] if isinstance(token, dict) else token)


def _checked(ids: Mapping[str, Any], path: Path) -> dict[str, int]:
    with _named_tokens(path):
        return {str(token): int(number) for token, number in ids.items()}


@contextmanager
def _named_tokens(path: Path) -> Iterator[None]:
    """Turns every Python error that a strange vocabulary causes into CorruptFile."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise CorruptFile(f"{path} has a vocabulary that is none of tokens and ids; fetch or save it again.") from error


def load_tokenizer(folder: Path) -> Any:
    """The folder's tokenizer, with a padding token (the end-of-text one where it has none of its own).

    Its `model_max_length` is never above the number of positions that the folder's config.json states.
    """
    if not has_tokenizer(folder):
        raise ModelNotFound(f"'{folder}' has no tokenizer (tokenizer.json or vocab.txt); copy its model's files there.")
    _refuse_growth(folder)
    from transformers import AutoTokenizer  # seconds to import; reading the files needs none of it

    with refused(folder):
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        if (rows := positions(folder)) is not None:
            tokenizer.model_max_length = min(tokenizer.model_max_length, rows)
        tokenizer(TRIAL)
    return tokenizer


def saved_length(folder: Path) -> int | None:
    """The tokens to which the folder's tokenizer.json says that texts are shortened; None where it does not.

    The last call before saving set it: perhaps the fine-tuning's length. transformers does not follow it.
    """
    cut = read_json(folder / TOKENIZER_FILE).get("truncation") if (folder / TOKENIZER_FILE).is_file() else None
    length = cut.get("max_length") if isinstance(cut, dict) else None
    return length if isinstance(length, int) else None


def _refuse_growth(folder: Path) -> None:
    """Raises BadModel where the steps before the tokenizer's own would make a text many times as long."""
    if not (folder / TOKENIZER_FILE).is_file():
        return
    steps, longer = [read_json(folder / TOKENIZER_FILE).get("normalizer")], 1
    while steps:
        step = steps.pop()
        if isinstance(step, dict):
            nested = step.get("normalizers")
            steps += nested if isinstance(nested, list) else []
            texts = [step[key] for key in ("content", "prepend") if isinstance(step.get(key), str)]
            longer *= max([1, *map(len, texts)])
    if longer > MOST_GROWTH:
        raise BadModel(
            f"the normalizer in the tokenizer.json of '{folder}' can make a text {longer:,} times as long; at most "
            f"{MOST_GROWTH:,} times is allowed: use the tokenizer of the model's base."
        )


def with_added_tokens(tokenizer: Any, tokens: Sequence[Mapping[str, Any]], roles: Mapping[str, str]) -> Any:
    """The tokenizer with these tokens, as `added_tokens` gives them; raises PairMismatch where one gets another id."""
    from tokenizers import AddedToken  # heavy, as above

    for token in tokens:
        fields = {name: value for name, value in token.items() if name != "id"}
        tokenizer.add_tokens([AddedToken(**fields)], special_tokens=bool(fields.get("special")))
        if tokenizer.convert_tokens_to_ids(token["content"]) != token["id"]:
            raise PairMismatch(
                f"the added token '{token['content']}' would not have the id {token['id']:,} in this base's tokenizer; "
                "use the base that the graft was made for."
            )
    for role in SPECIAL:
        if role in roles:
            setattr(tokenizer, role, roles[role])
    return tokenizer


def fit_together(model: Any, tokenizer: Any) -> None:
    """Give both one padding id, and tell the tokenizer how many tokens the model's positions take.

    The padding id is the model's own where its configuration has one, else the tokenizer's: Llama's and GPT-2's heads
    look for the last token that is not padding, so with another id a text that ends with the tokenizer's would be read
    elsewhere.
    """
    own = model.config.pad_token_id
    if isinstance(own, int) and 0 <= own < len(tokenizer) and (token := tokenizer.convert_ids_to_tokens(own)):
        tokenizer.pad_token = token
    model.config.pad_token_id = tokenizer.pad_token_id
    tokenizer.model_max_length = min([tokenizer.model_max_length, *places(model)])


def places(model: Any) -> Iterator[int]:
    """The tokens that fit into each of the model's learned position tables.

    RoBERTa's relatives count positions from their padding id on, and tell their table of it; BART's count from an
    offset. So the table has more rows than a text may have tokens.
    """
    for name, module in model.named_modules():
        if POSITION_TABLE.search(name) and getattr(module, "weight", None) is not None:
            padding = getattr(module, "padding_idx", None)
            first = getattr(module, "offset", 0) if padding is None else padding + 1
            yield len(module.weight) - first


def usual_length(finetuned: ModelInfo) -> int:
    """The longest input in tokens for a task that states none: the fine-tuning's, where the model's folder says it,
    else the tokenizer's, and at most USUAL_LENGTH."""
    if (known := finetuned.config.get(MAX_LENGTH)) is not None:
        return int(known)
    path = finetuned.folder / "tokenizer_config.json"
    most = read_json(path).get("model_max_length") if path.is_file() else None
    return int(min(most, USUAL_LENGTH)) if isinstance(most, int | float) and most >= 4 else USUAL_LENGTH


def encoded_for(finetuned: ModelInfo, task: Task, frame: pd.DataFrame, tokenizer: Any, readout: str) -> Encoded:
    """A task's examples for the tokenizer of a pair, none longer than the task, the fine-tuning or the model allows.

    With a note where the task states no length, and the fine-tuned tokenizer was saved with a shorter one.
    """
    stated = task.limit(readout)
    encoded = encode(task, frame, tokenizer, readout, stated or usual_length(finetuned))
    saved = None if stated else saved_length(finetuned.folder)
    long = int((encoded.lengths > saved).sum()) if saved else 0
    if not long:
        return encoded
    note = (
        f"{long:,} of {counted(len(encoded), 'text')} {'has' if long == 1 else 'have'} more than {saved:,} tokens, "
        "the length with which the fine-tuned model's tokenizer was saved. If it was fine-tuned with that length, "
        f"write 'max_length: {saved}' into the task file."
    )
    return replace(encoded, notes=(*encoded.notes, note))


def words_problem(task: Task, readout: str, folder: Path) -> str:
    """Why the readout cannot ask this task with this tokenizer, as a sentence; empty where nothing speaks against it.

    A tokenizer without tokenizer.json, or with other settings beside it, is taken at its word: loading it tells.
    """
    try:
        if readout == "head":
            return ""
        template, words = task.wording(readout)
        if readout == "prompt" and (folder / TOKENIZER_FILE).is_file() and not _is_overruled(folder):
            word_ids(task, parse(template, task.text), words, _light_of(folder))
    except (BadInput, BadModel) as error:
        return str(error.args[0])
    return ""


def most_tokens(answers: Sequence[str], folder: Path) -> int | None:
    """Tokens of the longest of these answers after a prompt, with the one that ends it; None without tokenizer.json."""
    if not (folder / TOKENIZER_FILE).is_file():
        return None
    tokenizer = _light_of(folder)
    return max(len(tokenizer(f" {answer}")["input_ids"]) for answer in answers) + 1


def _is_overruled(folder: Path) -> bool:
    """True if a setting of the folder differs from its tokenizer.json: most classes then take the setting."""
    config = read_json(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    content = read_json(folder / TOKENIZER_FILE)
    for part, key, setting in OVERRULED:
        stated = (content.get(part) or {}).get(key)
        if None not in (stated, config.get(setting)) and stated != config[setting]:
            return True
    return False


def _light_of(folder: Path) -> _LightTokenizer:
    return _light(folder, (folder / TOKENIZER_FILE).stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _light(folder: Path, changed: int) -> _LightTokenizer:
    """The tokenizer of a file that was last changed then."""
    return _LightTokenizer(folder)


def of_file(folder: Path) -> Any:
    """The tokenizer of the folder's tokenizer.json alone, without padding and truncation; raises BadModel.

    The file keeps both from the last call before it was saved, and transformers ignores them too.
    """
    _refuse_growth(folder)
    from tokenizers import Tokenizer  # heavy

    with refused(folder):
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        tokenizer.no_padding()
        tokenizer.no_truncation()
    return tokenizer


class _LightTokenizer:
    """The few things of a tokenizer that `word_ids` asks for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tokenizer = folder, of_file(folder)
        with refused(folder):
            unknown = getattr(self.tokenizer.model, "unk_token", None)
            self.unk_token_id = self.tokenizer.token_to_id(unknown) if unknown else None

    def __call__(self, text: str, **ignored: Any) -> dict[str, list[int]]:
        with refused(self.folder):
            return {"input_ids": self.tokenizer.encode(text, add_special_tokens=False).ids}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [str(self.tokenizer.id_to_token(number)) for number in ids]


def positions(folder: Path) -> int | None:
    """Rows of the position table of the folder's model, None where its configuration does not say."""
    config = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    if config.get("model_type") in WITHOUT_END:
        return None
    return next((int(config[key]) for key in POSITIONS if isinstance(config.get(key), int)), None)


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json_text.loads(read_text(path, LONGEST_JSON))
    except ValueError as error:
        raise CorruptFile(f"{path} is not readable as JSON; fetch or save it again.") from error
    if not isinstance(content, dict):
        raise CorruptFile(f"{path} is not a JSON object; fetch or save it again.")
    return content
