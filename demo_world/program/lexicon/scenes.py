"""Scenes: who does what, where; with the more general word for each, and what excludes what."""

from __future__ import annotations

from dataclasses import dataclass

from demo_world.program.lexicon.common import words


@dataclass(frozen=True)
class Activity:
    """An activity, what it is in general, and words of the same meaning; those of other groups exclude it."""

    text: str
    general: str
    group: str
    same: str = ""


@dataclass(frozen=True)
class SceneWords:
    """A domain of scenes. `agents` are (word, general word); `places` are (phrase, general phrase)."""

    name: str
    agents: tuple[tuple[str, str], ...]
    activities: tuple[Activity, ...]
    places: tuple[tuple[str, str], ...]
    traits: tuple[tuple[str, str], ...]
    extras: tuple[str, ...]


def _agents(text: str, general: str) -> tuple[tuple[str, str], ...]:
    return tuple((word, general) for word in words(text))


def _doing(group: str, general: str, *texts: str) -> tuple[Activity, ...]:
    """Activities of a group; `a = b` gives words of the same meaning."""
    split = [text.split(" = ") for text in texts]
    return tuple(Activity(parts[0], general, group, parts[1] if len(parts) > 1 else "") for parts in split)


def _places(general: str, *texts: str) -> tuple[tuple[str, str], ...]:
    return tuple((text, general) for text in texts)


STREET = SceneWords(
    "scenes",
    _agents("man woman boy girl", "person") + _agents("nurse farmer soldier singer student tourist", "person"),
    _doing("music", "making music", "playing the guitar", "playing the piano", "singing a song", "playing the drums")
    + _doing("ride", "riding something", "riding a bicycle = riding a bike", "riding a horse", "riding a motorcycle")
    + _doing("food", "eating something", "eating an apple", "eating bread", "having a sandwich = eating a sandwich")
    + _doing("rest", "resting", "sleeping = napping", "lying on a blanket", "sitting on a bench")
    + _doing("read", "reading something", "reading a book", "reading a letter", "reading a newspaper = reading a paper")
    + _doing("run", "moving fast", "running = jogging", "chasing a dog", "racing a friend"),
    _places("outdoors", "in the park", "on the beach", "in the garden", "in the street", "by the river")
    + _places("indoors", "in the kitchen", "in the library", "in the hall", "in the bedroom", "in the office"),
    (("young", "old"), ("tall", "short"), ("thin", "fat"), ("blond", "dark")),
    ("waiting for a friend", "on the way to work", "feeling happy", "tired from the journey", "thinking about the exam",
     "visiting an uncle", "new in town", "earning money", "celebrating a birthday"),
)  # fmt: skip
TABLE = SceneWords(
    "restaurants",
    _agents("waiter cook guest baker owner visitor", "person") + _agents("man woman", "person"),
    _doing("serve", "serving something", "serving soup", "bringing the wine = bringing wine", "serving the dessert")
    + _doing("wash", "cleaning something", "washing the plates", "wiping the table = cleaning the table",
             "washing the glasses")
    + _doing("food", "eating something", "eating pasta", "eating a salad", "having a steak = eating a steak")
    + _doing("cut", "preparing food", "cutting onions = chopping onions", "baking bread", "boiling the fish")
    + _doing("talk", "talking", "telling a joke", "arguing about the bill", "ordering coffee"),
    _places("indoors", "in the kitchen", "at the bar", "in the dining room", "at the counter")
    + _places("outdoors", "on the terrace", "in the garden", "in the yard", "in the street"),
    (("young", "old"), ("tall", "short")),
    ("hoping for a tip", "new in the job", "waiting for a friend", "feeling happy", "thinking about the holidays",
     "celebrating a birthday", "earning money"),
)  # fmt: skip
SCENES = {domain.name: domain for domain in (STREET, TABLE)}
GARMENTS = words("coat hat shirt dress jacket scarf")
