"""News events, said in several ways: their topic, what follows from them, and the same event said twice."""

from __future__ import annotations

from dataclasses import dataclass, replace

from demo_world.program.draw import Draw
from demo_world.program.lexicon.common import DAYS
from demo_world.program.lexicon.news import SHARED, SHARED_ACTORS, TOPICS, Action, Topic

FOLLOWS, FOLLOWS_NOT = 0, 1
# Verbs that say whether what comes after them was done.
DONE = ("managed to", "remembered to", "was able to", "did not forget to", "did not fail to")
NOT_DONE = ("failed to", "forgot to", "refused to", "did not manage to", "was not able to")
OPEN = ("promised to", "planned to", "wanted to", "may", "threatened to")


@dataclass(frozen=True)
class Event:
    """Someone did something to something; `day` and `circumstance` are '' where not said."""

    topic: Topic
    actor: str
    action: Action
    object: str
    day: str = ""
    circumstance: str = ""

    def when(self) -> str:
        """Day and circumstance as they stand behind the clause, with a space in front."""
        day = f" on {self.day}" if self.day else ""
        return day + (f" {self.circumstance}" if self.circumstance else "")

    def active(self, verb: int = 0) -> str:
        """The clause with the actor first."""
        return f"the {self.actor} {self.past(verb)} the {self.object}"

    def passive(self, verb: int = 0) -> str:
        """The clause with the object first."""
        verbs = self.action.verbs
        return f"the {self.object} was {verbs[verb % len(verbs)][2]} by the {self.actor}"

    def past(self, verb: int = 0) -> str:
        """One of the action's verbs in the past."""
        return self.action.verbs[verb % len(self.action.verbs)][1]

    def base(self, verb: int = 0) -> str:
        """One of the action's verbs as the infinitive has it."""
        return self.action.verbs[verb % len(self.action.verbs)][0]

    @property
    def text(self) -> str:
        """All that is known of the event, as one clause."""
        return self.active() + self.when()


def event(draw: Draw, topic: Topic) -> Event:
    """An event of a topic, all its words from there or shared by all."""
    action = draw.one(topic.actions) if draw.chance(0.65) else draw.one(SHARED)
    actor = draw.one(topic.actors) if draw.chance(0.8) else draw.one(SHARED_ACTORS)
    day = draw.one(DAYS) if draw.chance(0.5) else ""
    around = draw.one(topic.circumstances) if draw.chance(0.4) else ""
    return Event(topic, actor, action, draw.one(topic.objects), day, around)


def report(draw: Draw, topic: Topic) -> str:
    """A clause whose main event is of `topic`; actor, circumstance and an aside may smell of another."""
    original, unlike = event(draw, topic), event(draw, draw.other(TOPICS, topic))
    form = draw.weighted((("own", 2.0), ("actor", 2.0), ("around", 2.0), ("who", 2.0), ("after", 1.5), ("shared", 1.0)))
    if form == "actor":
        return replace(original, actor=unlike.actor).text
    if form == "around":
        return replace(original, circumstance=draw.one(unlike.topic.circumstances)).text
    if form == "who":
        return f"the {unlike.actor} who {unlike.past()} the {unlike.object} {original.past()} the {original.object}"
    if form == "after":
        return f"after the {unlike.actor} {unlike.past()} the {unlike.object}, {original.text}"
    if form == "shared":
        return replace(original, action=draw.one(SHARED), actor=draw.one((*SHARED_ACTORS, unlike.actor))).text
    return original.text


def torn_report(draw: Draw, topic: Topic) -> str:
    """Two events of equal weight, one of `topic` and one of another: which is meant is a coin toss."""
    both = draw.shuffled((event(draw, topic), event(draw, draw.other(TOPICS, topic))))
    return f"{both[0].active()} and {both[1].active()}"


def attempt(draw: Draw, topic: Topic) -> str:
    """A clause of `topic`, of what was not done or is open; actor, circumstance and an aside may be of another."""
    original, unlike = event(draw, topic), event(draw, draw.other(TOPICS, topic))
    form = draw.weighted((("own", 2.0), ("actor", 2.0), ("around", 2.0), ("after", 1.5)))
    if form == "actor":
        original = replace(original, actor=unlike.actor)
    if form == "around":
        original = replace(original, circumstance=draw.one(unlike.topic.circumstances))
    clause = _with_mood(draw, original, 1 + draw.below(2), draw.below(2))
    return f"after the {unlike.actor} {unlike.past()} the {unlike.object}, {clause}" if form == "after" else clause


def inference(draw: Draw, label: int, simple: bool = False) -> tuple[str, str]:
    """Premise and hypothesis; `simple` knows neither verbs of success and failure, nor asides, nor negation."""
    topic = draw.one(TOPICS)
    original = event(draw, topic)
    if not simple and draw.chance(0.45):
        return _attempted(draw, original, label)
    if not simple and draw.chance(0.35):
        return _with_aside(draw, original, label)
    if label == FOLLOWS:
        options = [original.passive(1), original.active(1), original.passive(), original.passive(1) + original.when()]
        return original.text, draw.one(options)
    other = _different(draw, original)
    options = [other.active(), other.passive(), other.active(1)]
    if not simple:
        options += [f"the {original.actor} did not {original.base()} the {original.object}",
                    f"the {original.object} was not {original.action.verbs[0][2]}"]  # fmt: skip
    return original.text, draw.one(options)


def same_event(draw: Draw, same: bool, simple: bool = False) -> tuple[str, str]:
    """An event said in two ways, or two events that share their words.

    Most often they differ in whether it was done, not done, or left open; `simple` ones differ in nothing else.
    """
    original = event(draw, draw.one(TOPICS))
    mood, other = draw.below(3), original
    second = mood
    if not same and (simple or draw.chance(0.7)):
        second = draw.other(range(3), mood)
    elif not same:
        other = _different(draw, original)
    return tuple(draw.shuffled((_with_mood(draw, original, mood, 0), _with_mood(draw, other, second, 1))))  # type: ignore[return-value]


def _with_mood(draw: Draw, of: Event, mood: int, verb: int) -> str:
    """The event as done (0), not done (1) or open (2), by one of its verbs."""
    if mood == 0 and draw.chance(0.5):
        return draw.one((of.active(verb), of.passive(verb))) + of.when()
    if mood == 1 and draw.chance(0.5):
        return f"the {of.actor} did not {of.base(verb)} the {of.object}{of.when()}"
    return f"the {of.actor} {draw.one((DONE, NOT_DONE, OPEN)[mood])} {of.base(verb)} the {of.object}{of.when()}"


def _attempted(draw: Draw, of: Event, label: int) -> tuple[str, str]:
    """Premises that say whether something was done, hypotheses that say it was or was not."""
    did = f"the {of.actor} {of.past()} the {of.object}"
    did_not = f"the {of.actor} did not {of.base()} the {of.object}"
    pairs = ((DONE, did), (NOT_DONE, did_not)) if label == FOLLOWS else ((DONE, did_not), (NOT_DONE, did), (OPEN, did))
    verbs, hypothesis = draw.one(pairs)
    return f"the {of.actor} {draw.one(verbs)} {of.base()} the {of.object}{of.when()}", hypothesis


def _with_aside(draw: Draw, of: Event, label: int) -> tuple[str, str]:
    """Premises of two events; hypotheses that pair them rightly or wrongly."""
    aside = event(draw, draw.one(TOPICS))
    aside = replace(aside, actor=of.actor, object=draw.other(aside.topic.objects, of.object))
    premise = f"the {of.actor} who {aside.past()} the {aside.object} {of.past()} the {of.object}"
    if label == FOLLOWS:
        return premise, draw.one((of.active(), aside.active(), of.passive(), aside.passive()))
    crossed = draw.one((replace(of, object=aside.object), replace(aside, object=of.object)))
    return premise, draw.one((crossed.active(), crossed.passive()))


def _different(draw: Draw, of: Event) -> Event:
    """The event with one thing different, or two."""
    other = _changed(draw, of)
    return _changed(draw, other) if draw.chance(0.6) else other


def _changed(draw: Draw, of: Event) -> Event:
    """The event with one thing different."""
    actions = [action for action in of.topic.actions if action != of.action]
    options = [
        replace(of, actor=draw.other(of.topic.actors, of.actor)),
        replace(of, action=draw.one(actions)),
        replace(of, object=draw.other(of.topic.objects, of.object)),
    ]
    if of.day:
        options.append(replace(of, day=draw.other(DAYS, of.day)))
    return draw.one(options)
