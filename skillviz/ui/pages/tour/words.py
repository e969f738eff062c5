"""What the tour says: at most four short sentences a step, and what its small world does not show."""

from __future__ import annotations

from skillviz.core import formats
from skillviz.show import small_world, text
from skillviz.ui.pages.tour.lesson import Lesson


def two_models(lesson: Lesson) -> str:
    """Step 1."""
    entry = lesson.entry(lesson.task.name)
    task = f"*{text.plain(entry.asks)}*" if entry else lesson.title(lesson.task.name)
    return (
        "The **pre-trained** model has read many sentences and learned to guess missing words. **Fine-tuning** showed "
        f"a copy of it {lesson.task.counts.get('train', 0):,} sentences with their answers, for one task: {task} "
        "The two models differ in nothing but the values of their parameters. Change the sentence and see what each "
        "says."
    )


def the_way(lesson: Lesson) -> str:
    """Step 2."""
    return (
        f"Fine-tuning moved the parameters, by {lesson.moved:.2g} on average. The slider walks that way: at 0 % "
        "all of them have their pre-trained values, at 100 % their fine-tuned ones. Every point between is a "
        "model too, made without any training (**WiSE-FT**). Look for where the skill appears."
    )


def region(lesson: Lesson) -> str:
    """Step 3."""
    return (
        "Now we copy the fine-tuned values of *some* parameters into the pre-trained model and leave all others alone. "
        "That model is a **graft**, the copied entries are its **region**, and nothing is trained. "
        "The slider sets how many entries are copied, chosen by a search. How few are enough?"
    )


def place(lesson: Lesson) -> str:
    """Step 4."""
    return (
        f"The map shows where the region's {formats.count(lesson.record.size)} entries lie. "
        "Keep only those in one part of the model, and graft nothing else. The numbers show what that part can do. "
        "Does one part carry the skill alone?"
    )


def sureness(lesson: Lesson) -> str:
    """Step 5."""
    return (
        "A model also says how sure it is. It is **calibrated** when, of all answers that it is 90 % sure of, 90 % are "
        "right. The slider keeps only the answers that are at least so sure. Compare how sure they claim to be with "
        "how often they are right."
    )


def elsewhere(lesson: Lesson) -> str:
    """Step 6."""
    if lesson.other is None:
        return "This run was scored on its own task alone, so there is nothing to show of another domain."
    return (
        f"The models learned from *{lesson.title(lesson.task.name)}*. Now they read "
        f"*{lesson.title(lesson.other.name)}*, on which they were never trained. The slider goes from the "
        "pre-trained model to the graft: only the region's entries move (**WiSE-Graft**). "
        "Does what helps at home help abroad?"
    )


def yourself(lesson: Lesson) -> str:
    """Step 7."""
    return (
        "Choose one of the small pairs and let a search find the region of its skill, on this machine. "
        "It is a job of its own: you may close this tab, and it goes on. Make your guess while it runs."
    )


def toy(lesson: Lesson) -> str:
    """What the demo world is, and what its numbers do not say."""
    world, size = lesson.world, ""
    if world is not None and world.vocabulary and "base" in world.parameters:
        size = f"{world.parameters['base'] / 1e6:.1f} million parameters, {formats.count(world.vocabulary)} words, "
    return (
        f"A toy: {size}sentences written by a grammar, some labelled wrongly on purpose. It shows how grafting works, "
        "not how good a language model is."
    )


def larger_share(lesson: Lesson) -> str:
    """Why its region sizes say nothing about large models."""
    return (
        f"Not to be carried over: this small model has {formats.count(lesson.record.d)} graftable entries and needs a "
        f"larger share of them. {small_world.papers()}"
    )


def unknown(words: list[str]) -> str:
    """Which typed words the small world has not; empty where it knows all."""
    if not words:
        return ""
    told = formats.listed([f"“{text.plain(word)}”" for word in words], 5)
    return f"The small world does not know {told}: the models read {'it' if len(words) == 1 else 'them'} as a blank."


def small_shift(lesson: Lesson) -> str:
    """What the other domain of the demo world is, and is not."""
    return (
        "Both domains come from one grammar, with other words and without one misleading cue: a mild shift. Real ones "
        "may behave differently."
    )
