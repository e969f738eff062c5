"""The home page: four numbers of one real run, its curve and its map, and three links."""

from skillviz.ui import page
from skillviz.ui.pages.home import home_page

top, entries = page.begin_home("home")
home_page.draw(top, entries)
