"""News: four topics, each with who acts, what is done to what, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass

from demo_world.program.lexicon.common import words


@dataclass(frozen=True)
class Action:
    """What is done: verbs of one meaning, each as (base, past, participle)."""

    verbs: tuple[tuple[str, str, str], ...]


def _actions(*texts: str) -> tuple[Action, ...]:
    return tuple(Action(tuple(_forms(entry) for entry in text.split())) for text in texts)


def _forms(entry: str) -> tuple[str, str, str]:
    """`buy:bought`, `write:wrote:written`, or a regular verb with its past (`close:closed`)."""
    base, past, *rest = entry.replace("_", " ").split(":")
    return base, past, rest[0] if rest else past


@dataclass(frozen=True)
class Topic:
    """One topic: its actors, its actions, what they act on, and circumstances that smell of it."""

    name: str
    actors: tuple[str, ...]
    actions: tuple[Action, ...]
    objects: tuple[str, ...]
    circumstances: tuple[str, ...]


SHARED = _actions(
        "announce:announced reveal:revealed", "delay:delayed postpone:postponed",
        "criticise:criticised attack:attacked", "praise:praised applaud:applauded",
        "examine:examined inspect:inspected", "support:supported back:backed", "reject:rejected refuse:refused",
        "cancel:cancelled call_off:called_off"
    )  # fmt: skip
WORLD = Topic(
    "world",
    words("president minister government army mayor parliament ambassador senator rebels police governor king"),
    _actions(
        "sign:signed ratify:ratified", "ban:banned outlaw:outlawed", "guard:guarded protect:protected",
        "open:opened reopen:reopened", "end:ended stop:stopped"
    ),
    words("treaty ceasefire border election embassy law protest vote summit embargo bridge prison rebellion"),
    ("after the election", "near the border", "during the protest", "before the summit", "outside the embassy"),
)  # fmt: skip
SPORTS = Topic(
    "sports",
    words("striker goalkeeper coach champion captain referee team runner swimmer club skier cyclist"),
    _actions(
        "win:won take:took:taken", "lose:lost give_away:gave_away:given_away", "miss:missed skip:skipped",
        "celebrate:celebrated cheer:cheered", "lead:led dominate:dominated"
    ),
    words("final match race cup tournament penalty medal league title goal derby relay"),
    ("after the final", "near the stadium", "during the tournament", "before the race", "in front of the fans"),
)  # fmt: skip
BUSINESS = Topic(
    "business",
    words("company bank retailer manufacturer investor airline supplier rival owner chairman broker insurer"),
    _actions(
        "buy:bought purchase:purchased acquire:acquired", "sell:sold offload:offloaded", "close:closed shut:shut",
        "expand:expanded enlarge:enlarged", "finance:financed fund:funded"
    ),
    words("factory takeover brand warehouse loan merger profit contract store budget debt branch"),
    ("after the merger", "near the factory", "during the strike", "before the sale", "despite the debt"),
)  # fmt: skip
SCIENCE = Topic(
    "science",
    words("researcher astronomer biologist laboratory chemist university engineer physicist geologist institute "
          "botanist expedition"),
    _actions(
        "discover:discovered find:found", "measure:measured gauge:gauged", "test:tested try:tried",
        "explain:explained describe:described", "observe:observed watch:watched"
    ),
    words("planet virus comet protein telescope fossil vaccine glacier molecule satellite star experiment"),
    ("after the experiment", "near the telescope", "during the eclipse", "before the launch", "inside the laboratory"),
)  # fmt: skip
TOPICS = (WORLD, SPORTS, BUSINESS, SCIENCE)
SHARED_ACTORS = words("group spokesman official delegation family crowd")
