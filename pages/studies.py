"""Which experiments have been made, and how to make one."""

from skillviz.ui import page
from skillviz.ui.glossary import about

page.begin_without_run("studies")
about("graft")
