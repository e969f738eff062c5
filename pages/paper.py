"""The page "Paper vs skillviz": a scoreboard of the paper's claims; a click opens an experiment's figure and table."""

from skillviz.ui import page, show_code
from skillviz.ui.pages import paper

page.begin_without_run("paper")
if (item := paper.claims()) is not None:
    paper.question(item)
    paper.values(item)
    paper.further(item)
show_code.show_list("paper")
