"""Do the skills of several tasks share parameters?"""

from skillviz.ui import page
from skillviz.ui.glossary import about

study = page.begin_studies("tasks", ("figure8",))
about("graft")
