"""The home page: four numbers of one real run, its curve and its map, and three links."""

from skillviz.ui import page
from skillviz.ui.pages import home

top, briefs = page.begin_home("home")
home.draw(top, briefs)
