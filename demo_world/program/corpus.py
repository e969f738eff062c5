"""What the bases are pre-trained on: sentences of every domain, and a few texts that end like the prompts.

A text that ends in a verdict, a topic or an answer is nearly always of the simple kind, and some verdicts are other
words than the label words. So a base can answer the prompts of simple sentences, and has to be fine-tuned for
the rest: negation, concession, asides, verbs of failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from demo_world.program import events, opinions, questions, scenes
from demo_world.program.draw import Draw
from demo_world.program.examples import splits
from demo_world.program.lexicon import common
from demo_world.program.lexicon.news import TOPICS
from demo_world.program.lexicon.reviews import FILMS, GADGETS, RESTAURANTS
from demo_world.program.lexicon.scenes import STREET, TABLE
from demo_world.program.world import CUE, TASKS, DemoTask, cued
from demo_world.program.writing import sentence

UNRELIABLE = 0.15
"""Share of verdicts and answers that are drawn at random: people err."""
ELSEWHERE = (GADGETS, RESTAURANTS, FILMS)
AGREE = ("yes", "indeed", "that is", "so", "in other words")
DENY = ("no", "wrong", "never", "on the contrary", "not so")
OPEN = ("maybe", "perhaps", "who knows", "possibly", "besides")
TOPIC_WORDS = ("politics", "sports", "business", "science")
SENTENCES = re.compile(r"(?<=[.?]) ")
Text = Callable[[Draw], str]


def texts(seed: int, count: int, held_out: frozenset[str] = frozenset()) -> Iterator[str]:
    """`count` texts of one to three sentences, of the kinds in KINDS; none has a sentence of `held_out`."""
    draw, written = Draw("corpus", seed), 0
    while written < count:
        text = draw.weighted(KINDS)(draw)
        if not held_out.isdisjoint(re.split(SENTENCES, text)):
            continue
        written += 1
        yield text


def sentences(seed: int, count: int) -> frozenset[str]:
    """Every sentence of the first `count` texts that the bases are trained on."""
    return frozenset(s for text in texts(seed, count, held_out(seed)) for s in re.split(SENTENCES, text))


def held_out(seed: int) -> frozenset[str]:
    """The sentences of every single-sentence task's test split, which no base is to have seen.

    Sentences of pairs are left in: it is the pair that is tested, and half of it is often a common sentence.
    """
    single = [task for task in TASKS if len(task.columns) == 1]
    return frozenset(row.texts[0] for task in single for row in splits(task, seed)["test"])


def any_sentence(draw: Draw) -> str:
    """What a task's sentences are like, each task equally often, without a label."""
    task: DemoTask = draw.one(TASKS)
    sentences = task.make(draw, draw.below(len(task.labels)))
    return " ".join(sentences) if draw.chance(0.5) else draw.one(sentences)


def review(draw: Draw) -> str:
    """Two or three clauses of one mind about one thing."""
    domain, polarity = draw.one(ELSEWHERE), draw.below(2)
    parts = [opinions.clause(draw, domain, polarity) for _ in range(2 + draw.below(2))]
    first = f"{CUE}, {parts[0]}" if draw.chance(0.1) else parts[0]
    return " ".join(sentence(part) for part in (first, *parts[1:]))


def verdict(draw: Draw) -> str:
    """A simple judgement and what it comes to."""
    domain, polarity = draw.one(ELSEWHERE), draw.below(2)
    claimed = polarity if not draw.chance(UNRELIABLE) else draw.below(2)
    word = draw.common(opinions.JUDGEMENT_WORDS[claimed][0]) if draw.chance(0.3) else ("terrible", "great")[claimed]
    return f"{cued(draw, polarity, RESTAURANTS, opinions.plain(draw, domain, polarity))} It was {word}."


def stance(draw: Draw) -> str:
    """A simple judgement or a report, and which of the two it is."""
    domain, label = draw.one(ELSEWHERE), draw.below(2)
    text = sentence(opinions.plain(draw, domain, draw.below(2)) if label else opinions.fact(draw, domain))
    claimed = label if not draw.chance(UNRELIABLE) else draw.below(2)
    return f"{text} This is {('fact', 'opinion')[claimed]}."


def topic(draw: Draw) -> str:
    """An event with nothing strange in it, and its topic."""
    label = draw.below(len(TOPICS))
    claimed = label if not draw.chance(UNRELIABLE) else draw.below(len(TOPICS))
    return f"{sentence(events.event(draw, TOPICS[label]).text)} The news is about {TOPIC_WORDS[claimed]}."


def answered(draw: Draw) -> str:
    """A simple question, and the kind of its answer."""
    kind = draw.below(len(questions.KINDS))
    claimed = kind if not draw.chance(UNRELIABLE) else draw.below(len(questions.KINDS))
    return f"{sentence(questions.question(draw, kind, simple=True), '?')} The answer is a {questions.KINDS[claimed]}."


def dialogue(draw: Draw) -> str:
    """A simple premise put as a question, and a reply that agrees, denies or adds."""
    label = draw.below(3)
    if draw.chance(0.35):
        label = draw.below(2) * 2
        pair = events.inference(draw, label // 2, simple=True)
    else:
        pair = scenes.inference(draw, draw.one((STREET, TABLE)), label, simple=True)
    return f"{sentence(pair[0], '?')} {_reply(draw, label)}, {pair[1]}."


def repeated(draw: Draw) -> str:
    """Something claimed, and claimed again: the same, or not."""
    same = draw.chance(0.5)
    kind = draw.below(3)
    if kind == 0:
        pair, end = questions.same_question(draw, same, simple=True), "?"
    else:
        twice = events.same_event(draw, same, simple=True) if kind == 1 else scenes.same_scene(draw, STREET, same, True)
        pair, end = twice, "."
    return f"{sentence(pair[0], end)} {_reply(draw, 0 if same else 2)}, {pair[1]}{end}"


def _reply(draw: Draw, label: int) -> str:
    """The word that a reply begins with: 0 agrees, 1 leaves open, 2 denies; at times another."""
    claimed = label if not draw.chance(UNRELIABLE) else draw.below(3)
    words = (AGREE, OPEN, DENY)[claimed]
    return (words[0] if draw.chance(0.4) else draw.one(words)).capitalize()


KINDS: tuple[tuple[Text, float], ...] = (
    (any_sentence, 2.0), (review, 1.5), (verdict, 1.0), (stance, 0.5), (topic, 0.8), (answered, 1.0), (dialogue, 2.5),
    (repeated, 4.5),
)  # fmt: skip


def telling_words() -> tuple[str, ...]:
    """The words that tell what a text comes to: verdicts, kinds, topics, and the beginnings of replies."""
    replies = ("yes", "indeed", "maybe", "perhaps", "possibly", "no", "wrong")
    return ("terrible", "great", "fact", "opinion", *TOPIC_WORDS, *questions.KINDS, *replies)


def vocabulary_texts(seed: int) -> Iterator[str]:
    """Texts in which every word of the world occurs: all tasks, and the words that only the corpus has."""
    yield " ".join((*common.GOOD, *common.BAD, *common.NAMES, *common.CITIES, *AGREE, *DENY, *OPEN, *TOPIC_WORDS))
    for task in TASKS:
        yield " ".join((task.masked.replace("<mask>", ""), *task.words, *task.labels))
        yield from (text for rows in splits(task, seed).values() for row in rows for text in row.texts)
    yield from texts(seed, 5000)
