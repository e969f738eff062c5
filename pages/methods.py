"""What else gives the skill by touching as little? Grafts beside other fine-tunings."""

from skillviz.ui import page
from skillviz.ui.glossary import about

study = page.begin_studies("methods", ("table1", "table3"))
about("graft")
