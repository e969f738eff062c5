"""Questions: of fact, by the kind of their answer, and of how to do something, said in two ways."""

from __future__ import annotations

from demo_world.program.draw import Draw
from demo_world.program.lexicon import questions as q
from demo_world.program.lexicon.common import CITIES, NAMES

KINDS = ("person", "place", "time", "number", "reason")


def question(draw: Draw, kind: int, simple: bool = False) -> str:
    """A question whose answer is of this kind, without its mark; `simple` ones begin with their own word."""
    person, place, time, thing = draw.one(q.PERSONS), draw.one(q.PLACES), draw.one(q.TIMES), draw.one(q.THINGS)
    done, most, city, reason = draw.one(q.DONE), draw.one(q.ADJECTIVES), draw.one(CITIES), draw.one(q.REASONS)
    name, counted = draw.one(NAMES), draw.one(q.COUNTED)
    plain = (
        f"who {done} the {most} {thing}", f"where is the {most} {thing}", f"when was the {thing} {done}",
        f"how many {counted} are there in {city}", f"why is it that {reason}",
    )  # fmt: skip
    if simple:
        return plain[kind]
    inside = draw.one((f"that was {done} in {city}", f"where {name} was born", f"that {name} {done}",
                       f"whose {person} lived in {city}"))  # fmt: skip
    harder = (
        (f"what is the name of the {person} who {done} the {thing} {inside}",
         f"which {person} {done} the {thing} in {city}",
         f"what {person} lived in the {place} {inside}", f"tell me which {person} {done} the {most} {thing}"),
        (f"what is the name of the {place} where the {person} {done} the {thing}",
         f"which {place} has the {most} {thing}",
         f"in what {place} did the {person} who {done} the {thing} live",
         f"what {place} is known for the {thing} {inside}"),
        (f"in which {time} was the {thing} {inside} {done}", f"what {time} was it when the {person} left {city}",
         f"what was the {time} when the {most} {thing} was {done}", f"which {time} is known for the {thing} {inside}"),
        (f"what is the number of {counted} in the {place} {inside}", f"what share of the {counted} in {city} are lost",
         f"to how many {counted} did the {person} of the {thing} speak", f"what is the price of the {most} {thing}"),
        (f"what is the reason that {reason}", f"what made the {person} leave the {place} {inside}",
         f"for what reason was the {thing} in {city} {done}", f"what explains that {reason}"),
    )  # fmt: skip
    return draw.one((plain[kind], *harder[kind]))


def torn_question(draw: Draw, kind: int) -> str:
    """A question with nothing in it that tells the kind of its answer."""
    thing, person = draw.one(q.THINGS), draw.one(q.PERSONS)
    return draw.one((f"what do you know of the {thing} of the {person}",
                     f"what about the {draw.one(q.ADJECTIVES)} {thing}",
                     f"what is there to say of the {person} in {draw.one(CITIES)}"))  # fmt: skip


def same_question(draw: Draw, same: bool, simple: bool = False) -> tuple[str, str]:
    """A question asked in two ways, or two questions that share most of their words.

    Most often it is another thing that is asked about the same deed; `simple` ones differ in nothing else.
    """
    verbs, thing = draw.one(q.TO_DO), draw.one(q.TO_THINGS)
    how = "" if simple or draw.chance(0.5) else " " + draw.one(q.WITHOUT)
    one, other = draw.some(verbs, 2)
    usual = draw.one(q.ASKING)
    frames, second = draw.some(usual, 2), (other, thing, how)
    if not same and (simple or draw.chance(0.7)):
        frames[1] = draw.one(draw.other(q.ASKING, usual))
    elif not same:
        second = _other_deed(draw, other, thing, how, draw.one(draw.other(q.TO_DO, verbs)))
    both = [(one, thing, how), second]
    texts = [frame.format(do=f"{verb} a {what}{way}") for frame, (verb, what, way) in zip(frames, both, strict=True)]
    return texts[0], texts[1]


def _other_deed(draw: Draw, verb: str, thing: str, how: str, strange: str) -> tuple[str, str, str]:
    """Another deed: done to another thing, in another way, or not at all."""
    options = [
        (strange, thing, how),
        (verb, draw.other(q.TO_THINGS, thing), how),
        (f"avoid having to {verb}", thing, how),
    ]
    if how:
        options.append((verb, thing, " " + draw.other(q.WITHOUT, how[1:])))
    return draw.one(options)
