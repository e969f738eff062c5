"""Scenes and what follows from them: pairs that entail, leave open, or contradict; and the same scene said twice."""

from __future__ import annotations

from dataclasses import dataclass, replace

from demo_world.program.draw import Draw
from demo_world.program.lexicon.common import COLOURS
from demo_world.program.lexicon.scenes import GARMENTS, Activity, SceneWords

ENTAIL, NEUTRAL, CONTRADICT = 0, 1, 2
# Words that say whether a scene is going on, for two ways of saying it.
GOING_ON = ("is", "is still", "can be seen", "is busy")
NOT_GOING_ON = ("is not", "is no longer", "was never", "was not")
OPEN = ("may be", "wanted to be", "planned to be", "hoped to be")


@dataclass(frozen=True)
class Scene:
    """Someone doing something somewhere; '' where nothing is said."""

    agent: tuple[str, str]
    activity: Activity
    place: tuple[str, str]
    trait: str = ""
    opposite: str = ""
    colour: str = ""
    garment: str = ""

    def who(self, general: bool = False, bare: bool = False) -> str:
        """The agent with what is said of looks."""
        trait = f"{self.trait} " if self.trait and not bare else ""
        dressed = f" in a {self.colour} {self.garment}" if self.garment and not bare else ""
        return f"{trait}{self.agent[1 if general else 0]}{dressed}"

    @property
    def text(self) -> str:
        """All that is known of the scene, as one clause."""
        return f"a {self.who()} is {self.activity.text} {self.place[0]}".strip()


def scene(draw: Draw, domain: SceneWords) -> Scene:
    """A scene, with a trait in half of the draws and a garment in a third."""
    drawn = Scene(draw.one(domain.agents), draw.one(domain.activities), draw.one(domain.places))
    if draw.chance(0.5):
        trait, opposite = draw.shuffled(draw.one(domain.traits))
        drawn = replace(drawn, trait=trait, opposite=opposite)
    if draw.chance(0.35):
        drawn = replace(drawn, colour=draw.one(COLOURS), garment=draw.one(GARMENTS))
    return drawn


def elsewhere(draw: Draw, domain: SceneWords, of: Scene) -> tuple[str, str]:
    """A place that excludes the scene's: indoors where it is outdoors."""
    return draw.one([place for place in domain.places if place[1] != of.place[1]])


def otherwise(draw: Draw, domain: SceneWords, of: Scene) -> Activity:
    """An activity that excludes the scene's."""
    return draw.one([activity for activity in domain.activities if activity.group != of.activity.group])


def inference(draw: Draw, domain: SceneWords, label: int, simple: bool = False) -> tuple[str, str]:
    """Premise and hypothesis of this label; `simple` leaves out traits, negation and what is entailed by negation."""
    premise = scene(draw, domain)
    if simple:
        premise = replace(premise, trait="", opposite="", garment="", colour="")
    make = (_entailed, _open, _contradicted)[label]
    return make(draw, domain, premise, simple)


def same_scene(draw: Draw, domain: SceneWords, same: bool, simple: bool = False) -> tuple[str, str]:
    """A scene said in two ways, or two scenes that share their words.

    Most often they differ in whether something is done, not done, or left open; `simple` ones differ in nothing else.
    """
    one, mood = scene(draw, domain), draw.below(3)
    other, second = one, mood
    if not same and (simple or draw.chance(0.7)):
        second = draw.other(range(3), mood)
    elif not same:
        other = _different(draw, domain, one)
    return tuple(draw.shuffled((_with_mood(draw, one, mood), _with_mood(draw, other, second))))  # type: ignore[return-value]


def _with_mood(draw: Draw, of: Scene, mood: int) -> str:
    """The scene as going on (0), not going on (1) or open (2)."""
    be, act = draw.one((GOING_ON, NOT_GOING_ON, OPEN)[mood]), of.activity.same or of.activity.text
    who, place = of.who(), of.place[0]
    return draw.one((f"a {who} {be} {act} {place}", f"{place} a {who} {be} {act}", f"now a {who} {be} {act} {place}"))


def _entailed(draw: Draw, domain: SceneWords, of: Scene, simple: bool) -> tuple[str, str]:
    who, act, (place, around) = of.agent[0], of.activity, of.place
    options = [
        f"a {who} is {act.text}", f"a {of.agent[1]} is {act.text} {place}", f"a {who} is {act.general}",
        f"someone is {around}", f"there is a {who} {place}", f"a {of.agent[1]} is {act.general} {around}",
    ]  # fmt: skip
    if act.same:
        options += [f"a {who} is {act.same} {place}", f"a {of.agent[1]} is {act.same}"]
    if not simple:
        other = otherwise(draw, domain, of)
        options += [f"the {who} is not {other.text}", f"the {who} is not {elsewhere(draw, domain, of)[0]}",
                    f"nobody is {other.text} {place}", f"the {who} is not {other.general}"]  # fmt: skip
    if of.trait:
        options += [f"a {of.trait} {who} is {around}", f"the {who} is not {of.opposite}"]
    if of.garment:
        options += [f"the {who} wears a {of.garment}", f"a {who} in a {of.colour} {of.garment} is {around}"]
    return of.text, draw.one(options)


def _open(draw: Draw, domain: SceneWords, of: Scene, simple: bool) -> tuple[str, str]:
    who, (place, around) = of.agent[0], of.place
    extra, trait = draw.one(domain.extras), draw.one(draw.one(domain.traits))
    dressed = f"in a {draw.one(COLOURS)} {draw.one(GARMENTS)}"
    options: list[tuple[str, str]] = [
        (of.text, f"the {who} is {extra}"),
        (of.text, f"a {of.agent[1]} {place} is {extra}"),
    ]
    if not of.trait:
        options += [(of.text, f"a {trait} {who} is {of.activity.text}"), (of.text, f"the {who} is {trait}")]
    if not of.garment:
        options += [(of.text, f"a {who} {dressed} is {around}")]
    if not simple:
        vague = f"a {of.who(general=True)} is {of.activity.general} {place}"
        options += [(vague, f"a {who} is {of.activity.text} {place}"), (vague, f"the person is a {who}"),
                    (of.text, f"the {who} is not {extra}")]  # fmt: skip
    return draw.one(options)


def _contradicted(draw: Draw, domain: SceneWords, of: Scene, simple: bool) -> tuple[str, str]:
    who, act, (place, around) = of.agent[0], of.activity, of.place
    other, away = otherwise(draw, domain, of), elsewhere(draw, domain, of)
    options = [
        f"the {who} is {other.text}", f"the {who} is {other.general} {place}", f"the {who} is {away[0]}",
        f"the {who} is {act.text} {away[0]}", f"the {who} is {away[1]}",
    ]  # fmt: skip
    if not simple:
        options += [f"the {who} is not {act.text}", f"nobody is {act.text} {place}", f"the {who} is not {around}",
                    f"there is no {who} {place}"]  # fmt: skip
    if of.trait:
        options += [f"the {who} is {of.opposite}", f"the {who} {place} is {of.opposite}"]
    if of.garment:
        options += [f"the {who} wears a {draw.other(COLOURS, of.colour)} {of.garment}"]
    return of.text, draw.one(options)


def _different(draw: Draw, domain: SceneWords, of: Scene) -> Scene:
    """The scene with one thing different, or two."""
    other = _changed(draw, domain, of)
    return _changed(draw, domain, other) if draw.chance(0.6) else other


def _changed(draw: Draw, domain: SceneWords, of: Scene) -> Scene:
    """The scene with one thing different."""
    options = [
        replace(of, place=draw.other(domain.places, of.place)),
        replace(of, activity=otherwise(draw, domain, of)),
        replace(of, agent=draw.other(domain.agents, of.agent)),
    ]
    if of.trait:
        options.append(replace(of, trait=of.opposite, opposite=of.trait))
    if of.garment:
        options.append(replace(of, colour=draw.other(COLOURS, of.colour)))
    return draw.one(options)
