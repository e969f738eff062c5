"""Questions of fact by the kind of answer, and questions of how to do something for paraphrases."""

from __future__ import annotations

from demo_world.program.lexicon.common import words

PERSONS = words("inventor author painter founder composer explorer owner designer conductor builder winner sculptor")
PLACES = words("city country village island river valley street harbour region mountain")
TIMES = words("year month day century season decade")
THINGS = words(
    "telephone radio bridge cathedral novel symphony railway compass castle opera statue engine museum theatre"
)
DONE = words("invented built painted designed founded opened finished bought destroyed discovered")
ADJECTIVES = words("oldest largest famous first last tallest greatest smallest")
REASONS = ("the bridge fell", "the king left", "the museum closed", "the river froze", "the train stopped",
           "the opera failed", "the harbour was moved", "the statue was broken", "bread became expensive")  # fmt: skip
COUNTED = words("people bridges islands students soldiers windows letters horses towers planets")

# How to do something: verbs of one meaning, and things that they are done to.
TO_DO = tuple(
    words(text)
    for text in (
        "repair fix mend", "clean wash", "buy purchase", "sell trade_in", "move transport", "hide conceal",
        "choose pick select", "cook prepare", "protect shield", "find locate", "break smash", "paint decorate",
        "store keep", "borrow rent",
    )
)  # fmt: skip
TO_THINGS = words(
    "bicycle guitar piano sofa carpet window door lamp clock garden roof boat kettle mirror jacket suitcase oven "
    "ladder tent kitchen desk"
)
ASKING = (
    ("how do I {do}", "how can I {do}", "what is the best way to {do}", "can you tell me how to {do}",
     "is there an easy way to {do}"),
    ("why should I {do}", "what is the reason to {do}", "is it any use to {do}", "for what reason do people {do}"),
    ("when should I {do}", "what is the best time to {do}", "on which day do I {do}", "is it too early to {do}"),
    ("how much does it cost to {do}", "what is the price to {do}", "is it expensive to {do}",
     "do I have to pay to {do}"),
    ("who can {do} for me", "do you know somebody to {do}", "which person shall I ask to {do}",
     "is there anybody to {do}"),
)  # fmt: skip
"""Ways to ask, by what is asked: how, why, when, for how much, and by whom."""
WITHOUT = words("quickly cheaply at_home without_help before_winter in_one_day")
