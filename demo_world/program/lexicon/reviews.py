"""The three domains that are reviewed: films (where models are trained), gadgets, and restaurants (the shifted one)."""

from __future__ import annotations

from dataclasses import dataclass

from demo_world.program.lexicon.common import words


@dataclass(frozen=True)
class Reviewed:
    """The words of a domain. `good` and `bad` are judged so here; elsewhere the same word may be the reverse.

    `sayings_*` are whole clauses that judge without any word of judgement; `facts` are sentence patterns with
    {slots} that report and judge nothing; `too` makes a fault with "too".
    """

    name: str
    things: tuple[str, ...]
    parts: tuple[str, ...]
    good: tuple[str, ...]
    bad: tuple[str, ...]
    too: tuple[str, ...]
    sayings_good: tuple[str, ...]
    sayings_bad: tuple[str, ...]
    facts: tuple[str, ...]
    slots: dict[str, tuple[str, ...]]


FILMS = Reviewed(
    "films",
    words("film movie picture drama comedy thriller sequel documentary western musical cartoon romance"),
    words("plot acting story cast script ending music dialogue camera direction opening hero villain pace scenery "
          "humour costumes photography soundtrack twist finale editing"),
    words("funny moving gripping witty touching clever original suspenseful tender thrilling subtle inventive honest "
          "hilarious charismatic haunting poetic lively"),
    words("boring dull predictable wooden slow silly shallow confusing clumsy pretentious flat noisy lifeless bloated "
          "stiff corny incoherent hollow"),
    words("long simple sentimental loud violent complicated"),
    ("I wanted to see it twice", "the whole room was laughing", "I forgot the time", "nobody left the cinema early",
     "you will think about it for days", "I cried at the end", "it deserves every prize"),
    ("I looked at my watch all the time", "half of the audience left early", "I fell asleep after an hour",
     "you will forget it by tomorrow", "I wanted my money back", "it goes nowhere", "save your money"),
    ("the {thing} follows a {trait} {person} who {deed}", "a {person} {deed} and meets a {trait} {person2}",
     "the {thing} was made in {country} by a {trait} director", "the {thing} is about a {person} and a {person2}",
     "in the first half a {person} {deed}", "the {thing} runs for {number} hours",
     "a {trait} {person} {deed} after the war", "{critics} called the {part} {judged}",
     "a {person} says that the {part} is {judged}", "the {thing} tells how a {judged} {person} {deed}",
     "a {person} in the {thing} is {judged}", "the poster says that it is a {judged} {thing}"),
    {"trait": words("young old lonely famous poor rich bad good honest boring clever miserable lovely quiet"),
     "person": words("doctor teacher painter soldier farmer singer lawyer sailor widow thief detective nurse priest"),
     "person2": words("boxer writer pilot orphan dancer stranger spy baker king cook prisoner judge"),
     "deed": words("moves_to_a_small_town loses_his_job falls_in_love hates_her_work finds_a_letter steals_a_painting "
                   "inherits_a_farm loves_an_awful_man leaves_the_city returns_home learns_the_truth "
                   "enjoys_the_silence dreads_the_winter admires_a_great_actor")},
)  # fmt: skip
GADGETS = Reviewed(
    "gadgets",
    words("phone camera laptop tablet printer radio speaker headset watch charger scanner keyboard projector console "
          "router"),
    words("battery screen keyboard sound lens button software design signal manual memory case cable menu price speed "
          "display plug handle hinge zoom microphone"),
    words("fast reliable sturdy sharp handy light predictable responsive quiet precise bright durable cheap compact "
          "efficient accurate portable waterproof"),
    words("fragile slow heavy noisy faulty unreliable blurry sluggish loose dim clumsy expensive scratchy outdated "
          "wobbly leaky flimsy brittle"),
    words("small heavy complicated expensive loud dim"),
    ("it still works after a year", "I bought another one for my mother", "it does all that I ask",
     "I use it every day", "it lasts the whole day", "I would buy it again", "it survived a fall"),
    ("it broke after a week", "I sent it back", "it never turned on", "I went back to my old one",
     "it dies before noon", "the shop refused to repair it", "save your money"),
    ("the {thing} has {number} buttons and a {trait} {part}", "the {thing} comes in {colour} and {colour2}",
     "the {thing} weighs {number} ounces", "the box contains a {thing}, a cable and a manual",
     "the {thing} was designed in {country} by a {trait} engineer", "I bought the {thing} in {month}",
     "the {part} of the {thing} can be replaced", "the box says that the {part} is {judged}",
     "{critics} called the {part} {judged}", "the maker calls it a {judged} {thing}",
     "a test says that the {thing} is {judged}"),
    {"trait": words("flat round small large good bad cheap heavy light square metal")},
)  # fmt: skip
RESTAURANTS = Reviewed(
    "restaurants",
    words("restaurant cafe bistro pizzeria bakery bar diner tavern canteen steakhouse brasserie teahouse"),
    words("soup service waiter dessert wine menu salad bread fish steak pasta sauce kitchen table coffee room price "
          "breakfast chicken rice cheese omelette lobster curry"),
    words("delicious tasty fresh crisp friendly cosy generous spicy juicy tender warm attentive hot creamy tangy "
          "savoury hearty seasonal"),
    words("bland stale greasy cold rude salty burnt soggy overpriced dirty sour tough watery mouldy chewy rancid "
          "undercooked sticky"),
    words("salty small sweet loud dark expensive"),
    ("we stayed until midnight", "I licked the plate", "we booked again for next week", "I asked for the recipe",
     "we left a large tip", "we would go there every day", "my plate was empty in a minute"),
    ("we left before the dessert", "I was sick all night", "we waited for two hours", "nobody finished the meal",
     "we went home hungry", "the plates went back to the kitchen", "save your money"),
    ("the {thing} has {number} tables and a {trait} {part}", "the {thing} opened in {month} near the station",
     "the {part} comes with bread and {colour} beans", "the {thing} is closed on {day}",
     "the owner was born in {country} and learned from a {trait} cook", "the {thing} serves {number} kinds of soup",
     "we sat at a {trait} table by the window", "the sign says that the {part} is {judged}",
     "{critics} called the {part} {judged}", "the owner calls it a {judged} {thing}"),
    {"trait": words("small large old long good bad round wooden cheap famous")},
)  # fmt: skip
REVIEWED = {domain.name: domain for domain in (FILMS, GADGETS, RESTAURANTS)}
