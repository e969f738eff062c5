"""Sentences that judge, and sentences that only report, about films, gadgets and restaurants.

What a sentence says on the whole follows from how it is put together, not from its words: a negation turns its
word, of two opposed clauses the one that carries the weight counts, and what others say counts only if they are
said to be right. The reverse forms use the same words, so that counting words goes only so far.
"""

from __future__ import annotations

from collections.abc import Callable

from demo_world.program.draw import Draw
from demo_world.program.lexicon import common
from demo_world.program.lexicon.reviews import Reviewed
from demo_world.program.writing import filled

BAD, GOOD = 0, 1
JUDGEMENT_WORDS = ((common.BAD, common.LOATHED, common.LOATHE), (common.GOOD, common.LIKED, common.LIKE))


def adjective(draw: Draw, domain: Reviewed, polarity: int) -> str:
    """A word of judgement: the domain's own in three of ten draws."""
    special = domain.good if polarity else domain.bad
    return draw.common(special if draw.chance(0.3) else JUDGEMENT_WORDS[polarity][0])


def plain(draw: Draw, domain: Reviewed, polarity: int) -> str:
    """A clause whose words say what it says."""
    part, thing, word = draw.one(domain.parts), draw.one(domain.things), adjective(draw, domain, polarity)
    be, very = draw.one(("was", "is")), draw.one(common.VERY) + " " if draw.chance(0.35) else ""
    return draw.one(
        (
            f"the {part} {be} {very}{word}",
            f"the {thing} {be} {very}{word}",
            f"it {be} a {very}{word} {thing}",
            f"{draw.one(common.SPEAKERS)} {draw.common(JUDGEMENT_WORDS[polarity][1])} the {part}",
            f"this {thing} has a {word} {part}",
        )
    )


def turned(draw: Draw, domain: Reviewed, polarity: int) -> str:
    """A clause whose words say the opposite of what it says."""
    return draw.one(_TURNS[polarity])(draw, domain, polarity)


def saying(draw: Draw, domain: Reviewed, polarity: int) -> str:
    """A clause that judges without a word of judgement."""
    return draw.one(domain.sayings_good if polarity else domain.sayings_bad)


def clause(draw: Draw, domain: Reviewed, polarity: int) -> str:
    """A clause of any of the three kinds."""
    return draw.weighted(((plain, 6.0), (turned, 3.0), (saying, 1.0)))(draw, domain, polarity)


def agreeing(draw: Draw, domain: Reviewed, polarity: int) -> str:
    """Two clauses of one mind."""
    return f"{clause(draw, domain, polarity)} and {clause(draw, domain, polarity)}"


def mixed(draw: Draw, domain: Reviewed, polarity: int) -> str:
    """Two clauses of different minds, of which the one that carries the weight has `polarity`."""
    heavy, light = clause(draw, domain, polarity), clause(draw, domain, 1 - polarity)
    word, part = adjective(draw, domain, 1 - polarity), draw.one(domain.parts)
    return draw.one(
        (
            f"{light}, but {heavy}",
            f"although {light}, {heavy}",
            f"{heavy}, even though {light}",
            f"despite the {word} {part}, {heavy}",
        )
    )


def ambiguous(draw: Draw, domain: Reviewed, polarity: int) -> str:
    """Two clauses of different minds and nothing that tells which counts: `polarity` is a coin toss."""
    first = draw.below(2)
    return f"{clause(draw, domain, first)} and {clause(draw, domain, 1 - first)}"


def reported(draw: Draw, domain: Reviewed, polarity: int) -> str:
    """A report, and a clause that judges."""
    return f"{fact(draw, domain)}, and {clause(draw, domain, polarity)}"


def fact(draw: Draw, domain: Reviewed) -> str:
    """A clause that reports. Judging words in it are another's, or about what is told."""
    shared = {
        "thing": domain.things, "part": domain.parts, "number": common.NUMBERS, "colour": common.COLOURS,
        "country": common.COUNTRIES, "month": common.MONTHS, "day": common.DAYS, "critics": common.CRITICS,
        "judged": (*common.GOOD, *common.BAD, *domain.good, *domain.bad),
    }  # fmt: skip
    return filled(draw.one(domain.facts), draw, {**shared, **domain.slots})


def _negated(draw: Draw, domain: Reviewed, polarity: int) -> str:
    word, be = adjective(draw, domain, 1 - polarity), draw.one(("was", "is"))
    return f"the {draw.one(domain.parts)} {be} {draw.one(common.NEVER)} {word}"


def _far_from(draw: Draw, domain: Reviewed, polarity: int) -> str:
    word, what = adjective(draw, domain, 1 - polarity), draw.one((*domain.parts, *domain.things))
    return f"the {what} was {draw.one(common.FAR)} {word}"


def _not_felt(draw: Draw, domain: Reviewed, polarity: int) -> str:
    who, verb = draw.one(common.SPEAKERS), draw.one(JUDGEMENT_WORDS[1 - polarity][2])
    return f"{who} {draw.one(('did not', 'could not', 'would never'))} {verb} the {draw.one(domain.parts)}"


def _contradicted(draw: Draw, domain: Reviewed, polarity: int) -> str:
    who, word = draw.one(common.CRITICS), adjective(draw, domain, 1 - polarity)
    return f"{who} called the {draw.one(domain.parts)} {word}, and they were wrong"


def _expected(draw: Draw, domain: Reviewed, polarity: int) -> str:
    feared, actual = adjective(draw, domain, 1 - polarity), adjective(draw, domain, polarity)
    return f"I expected a {feared} {draw.one(domain.parts)} and got a {actual} one"


def _too(draw: Draw, domain: Reviewed, polarity: int) -> str:
    much = "not too" if polarity else draw.one(("too", "much too", "far too"))
    return f"the {draw.one(domain.parts)} was {much} {draw.one(domain.too)}"


def _wished(draw: Draw, domain: Reviewed, polarity: int) -> str:
    part, word = draw.one(domain.parts), adjective(draw, domain, GOOD)
    return draw.one((f"I wish the {part} were {word}", f"the {part} could have been {word}",
                     f"a {word} {part} would have helped"))  # fmt: skip


def _would_not_call(draw: Draw, domain: Reviewed, polarity: int) -> str:
    return f"I would not call the {draw.one(domain.parts)} {adjective(draw, domain, 1 - polarity)}"


Clause = Callable[[Draw, Reviewed, int], str]
_EITHER: tuple[Clause, ...] = (
    _negated,
    _negated,
    _far_from,
    _not_felt,
    _contradicted,
    _expected,
    _too,
    _would_not_call,
)
_TURNS: tuple[tuple[Clause, ...], ...] = ((*_EITHER, _wished), _EITHER)
