"""Words that every domain shares: opinions, people, times, places, numbers."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """The words of a text, split at spaces; `_` stands for a space inside an entry."""
    return tuple(word.replace("_", " ") for word in text.split())


GOOD = words(
    "great good wonderful excellent superb brilliant amazing fantastic lovely perfect impressive delightful "
    "outstanding remarkable pleasant splendid charming beautiful satisfying enjoyable gorgeous refreshing"
)
BAD = words(
    "terrible bad awful horrible dreadful poor weak disappointing annoying unpleasant lousy ugly mediocre "
    "pathetic shoddy useless forgettable dismal careless sloppy"
)
VERY = words("very really truly quite absolutely simply utterly")
NEVER = words("not never hardly not_at_all scarcely not_even_remotely")
FAR = words("far_from anything_but nowhere_near by_no_means")

LIKED = words("loved liked enjoyed admired")
LOATHED = words("hated disliked loathed resented")
LIKE = words("love like enjoy admire")
LOATHE = words("hate dislike loathe resent")

SPEAKERS = words("I we my_brother my_sister my_wife my_husband our_neighbour my_friend")
CRITICS = words("critics people everyone my_colleagues the_guests my_parents the_papers some_visitors")

COLOURS = words("red blue green yellow black white brown grey orange purple pink")
NUMBERS = words("two three four five six seven eight nine ten twelve")
DAYS = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = words("January February March April May June July August September October November December")
CITIES = words(
    "Paris London Rome Berlin Madrid Vienna Oslo Dublin Lisbon Athens Cairo Tokyo Delhi Lima Boston Chicago "
    "Prague Warsaw Geneva Naples Seville Lyon Bergen Quito Bombay Kyoto"
)
COUNTRIES = words("France Italy Spain Germany Norway Ireland Greece Egypt Japan India Peru Brazil Canada Mexico China")
NAMES = words(
    "Anna Peter Maria David Laura Simon Clara Oscar Nina Victor Emma Hugo Alice Martin Rosa Felix "
    "Julia Paul Sofia Max Helen Leo Irene Tom Sarah Jack"
)
