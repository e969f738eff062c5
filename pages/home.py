"""A tiny region carries the skill: one real run as four numbers, its curve and its map, and three ways on."""

from skillviz.ui import page
from skillviz.ui.pages.home import view

top, entries = page.begin_home("home")
view.draw(top, entries)
