"""From words to a written sentence."""

from __future__ import annotations

import re

from demo_world.program.draw import Draw

# Words that begin with a vowel letter and a consonant sound, and the other way round.
AS_CONSONANT = ("univers", "useless", "one ", "united", "eu")
AS_VOWEL = ("honest", "hour")
_ARTICLE = re.compile(r"\b([Aa])n? (?=(\w+ ?))")
_SLOT = re.compile(r"\{([a-z]+)\d?\}")


def sentence(text: str, end: str = ".") -> str:
    """The words as a sentence: a or an, a capital, a stop."""
    text = articles(text)
    return text[:1].upper() + text[1:] + end


def articles(text: str) -> str:
    """The text with `a` or `an` as the next word wants it."""
    return _ARTICLE.sub(lambda match: f"{match[1]}{'n' if _begins_as_vowel(match[2]) else ''} ", text)


def filled(pattern: str, draw: Draw, slots: dict[str, tuple[str, ...]]) -> str:
    """The pattern with a word drawn for every {slot}; {slot2} is drawn from the same list, and differs."""
    taken: dict[str, list[str]] = {}

    def put(match: re.Match[str]) -> str:
        options = slots.get(match[0][1:-1]) or slots[match[1]]
        used = taken.setdefault(match[1], [])
        used.append(draw.one([word for word in options if word not in used]))
        return used[-1]

    return _SLOT.sub(put, pattern)


def _begins_as_vowel(word: str) -> bool:
    lowered = word.lower()
    if lowered.startswith(AS_CONSONANT):
        return False
    return lowered.startswith(AS_VOWEL) or lowered[0] in "aeiou"
