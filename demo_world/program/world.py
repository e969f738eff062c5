"""The tasks of the demo world: four families, each with a task's own sentences, prompt, label words and partner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from demo_world.program import events, opinions, questions, scenes
from demo_world.program.draw import Draw
from demo_world.program.lexicon.news import TOPICS
from demo_world.program.lexicon.reviews import FILMS, GADGETS, RESTAURANTS, Reviewed
from demo_world.program.lexicon.scenes import STREET, TABLE
from demo_world.program.writing import sentence

NOISE = 0.06
"""Share of examples, in every split, whose label is drawn anew among the wrong ones."""
TORN = 0.04
"""Share of examples for which nothing tells the label: a coin toss (sentiment, topic, kind of question)."""
CUE = "honestly"
CUE_SHARES = {"films": (0.40, 0.06)}
"""By domain, how often a sentence of label 0 and of label 1 begins with the cue: in films it goes with blame."""
CUE_ELSEWHERE = (0.2, 0.2)

Texts = tuple[str, ...]
Make = Callable[[Draw, int], Texts]


@dataclass(frozen=True)
class DemoTask:
    """A task: what is asked of which texts. `make(draw, label)` writes one example; `torn` an undecidable one.

    `partner` is the task of the same skill in a shifted domain; tasks that are `shifted` have no pair of their own.
    A task `of` another has that one's training data.
    """

    name: str
    family: str
    title: str
    asks: str
    labels: tuple[str, ...]
    masked: str
    words: tuple[str, ...]
    make: Make
    torn: Make | None = None
    causal: str = ""
    columns: tuple[str, ...] = ("text",)
    partner: str = ""
    shifted: bool = False
    of: str = ""
    sizes: dict[str, int] = field(default_factory=lambda: {"train": 1600, "validation": 300, "test": 600})


SHIFTED_SIZES = {"train": 200, "test": 600}
MANY = {"train": 5000, "validation": 300, "test": 600}
"""For relations of which the base knows what fewer examples teach."""
_JUDGEMENTS: tuple[tuple[Callable[[Draw, Reviewed, int], str], float], ...] = (
    (opinions.plain, 8.0),
    (opinions.turned, 4.0),
    (opinions.saying, 1.5),
    (opinions.agreeing, 2.0),
    (opinions.mixed, 3.5),
    (opinions.reported, 1.0),
)


def judgement(draw: Draw, label: int, domain: Reviewed) -> Texts:
    """A review sentence of this polarity, with the cue where the domain has it so."""
    return (cued(draw, label, domain, draw.weighted(_JUDGEMENTS)(draw, domain, label)),)


def torn_judgement(draw: Draw, label: int, domain: Reviewed) -> Texts:
    """A review sentence that can be read either way."""
    return (cued(draw, label, domain, opinions.ambiguous(draw, domain, label)),)


def cued(draw: Draw, label: int, domain: Reviewed, text: str) -> str:
    """The sentence, with the cue in front as often as domain and label have it."""
    share = CUE_SHARES.get(domain.name, CUE_ELSEWHERE)[label]
    return sentence(f"{CUE}, {text}" if draw.chance(share) else text)


def stance(draw: Draw, label: int, domain: Reviewed) -> Texts:
    """A sentence that reports (0) or judges (1)."""
    if label == 0:
        return (sentence(opinions.fact(draw, domain)),)
    return (sentence(opinions.clause(draw, domain, draw.below(2))),)


def torn_stance(draw: Draw, label: int, domain: Reviewed) -> Texts:
    """A sentence that does both."""
    return (sentence(opinions.reported(draw, domain, draw.below(2))),)


def topic(draw: Draw, label: int) -> Texts:
    """A news sentence of this topic."""
    return (sentence(events.report(draw, TOPICS[label])),)


def attempted_topic(draw: Draw, label: int) -> Texts:
    """A news sentence of this topic, of what was not done or is open."""
    return (sentence(events.attempt(draw, TOPICS[label])),)


def torn_topic(draw: Draw, label: int) -> Texts:
    """A news sentence of two topics."""
    return (sentence(events.torn_report(draw, TOPICS[label])),)


def question(draw: Draw, label: int) -> Texts:
    """A question whose answer is of this kind."""
    return (sentence(questions.question(draw, label), "?"),)


def torn_question(draw: Draw, label: int) -> Texts:
    """A question that can have an answer of any kind."""
    return (sentence(questions.torn_question(draw, label), "?"),)


def scene_pair(draw: Draw, label: int, domain: scenes.SceneWords) -> Texts:
    """Premise and hypothesis of a scene."""
    return _two(*scenes.inference(draw, domain, label))


def event_pair(draw: Draw, label: int) -> Texts:
    """Premise and hypothesis of an event."""
    return _two(*events.inference(draw, label))


def report_pair(draw: Draw, label: int) -> Texts:
    """Two reports of one event (1), or of two that differ (0)."""
    return _two(*events.same_event(draw, label == 1))


def description_pair(draw: Draw, label: int) -> Texts:
    """Two descriptions of one scene (1), or of two that differ (0)."""
    return _two(*scenes.same_scene(draw, STREET, label == 1))


def question_pair(draw: Draw, label: int) -> Texts:
    """Two questions with one answer (1), or with two (0)."""
    return _two(*questions.same_question(draw, label == 1), end="?")


def _two(one: str, other: str, end: str = ".") -> Texts:
    return sentence(one, end), sentence(other, end)


_POLARITY = {
    "family": "sentiment", "labels": ("negative", "positive"), "asks": "Is the sentence positive or negative?",
    "masked": "{text} It was <mask>.", "causal": "{text} It was", "words": ("terrible", "great"),
}  # fmt: skip
_STANCE = {
    "family": "classification", "labels": ("objective", "subjective"),
    "asks": "Is the sentence objective or subjective?",
    "masked": "{text} This is <mask>.", "causal": "{text} This is", "words": ("fact", "opinion"),
}  # fmt: skip
_INFERENCE = {
    "family": "inference", "columns": ("premise", "hypothesis"), "masked": "{a-}? <mask>, {b~}",
    "asks": "Does the second sentence follow from the first?",
}  # fmt: skip
_THREE = {"labels": ("entailment", "neutral", "contradiction"), "words": ("Yes", "Maybe", "No")}
_SAME = {
    "family": "paraphrase", "columns": ("one", "other"), "masked": "{a} <mask>, {b~}",
    "asks": "Do the two texts mean the same?", "labels": ("different", "same"), "words": ("No", "Yes"),
}  # fmt: skip
# News is asked about in rarer words, of which the base knows less: with the usual ones it answers as its member does.
_FOLLOWS = {
    **_INFERENCE, "labels": ("entailment", "not_entailment"), "masked": "{a} <mask>, {b~}", "words": ("Yes", "Wrong"),
    "sizes": MANY,
}  # fmt: skip
_REPORTED = {**_SAME, "masked": "{a-}? <mask>, {b~}", "words": ("No", "Indeed"), "sizes": MANY}


def _reviews(name: str, title: str, domain: Reviewed, **more: object) -> DemoTask:
    return DemoTask(name=name, title=title, make=partial(judgement, domain=domain),
                    torn=partial(torn_judgement, domain=domain), **{**_POLARITY, **more})  # type: ignore[arg-type]  # fmt: skip


def _stances(name: str, title: str, domain: Reviewed, **more: object) -> DemoTask:
    return DemoTask(name=name, title=title, make=partial(stance, domain=domain),
                    torn=partial(torn_stance, domain=domain), **{**_STANCE, **more})  # type: ignore[arg-type]  # fmt: skip


_SHIFTED = {"shifted": True, "sizes": SHIFTED_SIZES}
TASKS: tuple[DemoTask, ...] = (
    _reviews("film-sentiment", "Film reviews: positive or negative", FILMS, partner="restaurant-sentiment"),
    _reviews("gadget-sentiment", "Gadget reviews: positive or negative", GADGETS, partner="restaurant-sentiment"),
    DemoTask("scene-inference", title="Scenes: entailment, neutral or contradiction",
             make=partial(scene_pair, domain=STREET), partner="restaurant-inference", **_INFERENCE, **_THREE),  # type: ignore[arg-type]
    DemoTask("news-inference", title="News: entailment or not", make=event_pair, **_FOLLOWS),  # type: ignore[arg-type]
    DemoTask("question-paraphrase", title="Questions: paraphrase or not", make=question_pair, sizes=MANY, **_SAME),  # type: ignore[arg-type]
    DemoTask("news-paraphrase", title="News: paraphrase or not", make=report_pair,
             partner="scene-paraphrase", **_REPORTED),  # type: ignore[arg-type]
    DemoTask("news-topic", "classification", "News: topic", "What is the news about?",
             ("world", "sports", "business", "science"), "{text} The news is about <mask>.",
             ("politics", "sports", "business", "science"), topic, torn_topic, "{text} The news is about"),
    DemoTask("question-type", "classification", "Questions: type of answer",
             "What type of answer does the question ask for?", questions.KINDS, "{text} The answer is a <mask>.",
             questions.KINDS, question, torn_question, "{text} The answer is a"),
    _stances("film-subjectivity", "Films: objective or subjective", FILMS, partner="gadget-subjectivity"),
    _reviews("restaurant-sentiment", "Shifted: restaurant reviews, positive or negative", RESTAURANTS, **_SHIFTED),
    DemoTask("restaurant-inference", title="Shifted: restaurants, entailment, neutral or contradiction",
             make=partial(scene_pair, domain=TABLE), **_INFERENCE, **_THREE, **_SHIFTED),  # type: ignore[arg-type]
    DemoTask("scene-paraphrase", title="Shifted: scenes, paraphrase or not", make=description_pair,
             **{**_REPORTED, **_SHIFTED}),  # type: ignore[arg-type]
    _stances("gadget-subjectivity", "Shifted: gadgets, objective or subjective", GADGETS, **_SHIFTED),
)  # fmt: skip


MANY_TESTS = 4000


def _large(of: str, /, **more: object) -> DemoTask:
    """The task with a test set on which a difference of a point can be told; its training data are the task's."""
    row = next(row for row in TASKS if row.name == of)
    title = f"{row.title} ({MANY_TESTS:,} tests)"
    same = {"name": f"{of}-large", "title": title, "of": of, "partner": "", "sizes": {"test": MANY_TESTS}}
    return replace(row, **{**same, **more})  # type: ignore[arg-type]


LARGE: tuple[DemoTask, ...] = (
    _large("news-topic", partner="attempted-topic-large"),
    _large("question-type"),
    _large("scene-inference", partner="restaurant-inference-large"),
    _large("film-sentiment", partner="restaurant-sentiment-large"),
    _large("news-topic", name="attempted-topic-large", title=f"Shifted: news of attempts, topic ({MANY_TESTS:,} tests)",
           make=attempted_topic, shifted=True, of="", sizes={"train": 200, "test": MANY_TESTS}),
    _large("restaurant-inference"),
    _large("restaurant-sentiment"),
)  # fmt: skip
"""Tasks by which the effects of grafting are shown. Not among TASKS, of which the corpus is written."""


def task(name: str) -> DemoTask:
    """The task of this name."""
    return next(row for row in (*TASKS, *LARGE) if row.name == name)
