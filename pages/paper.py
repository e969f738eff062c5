"""The published tables beside our own."""

from skillviz.ui import page
from skillviz.ui.glossary import about

page.begin_without_run("paper")
about("graft")
