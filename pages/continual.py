"""Does a new skill cost the old ones?"""

from skillviz.ui import page
from skillviz.ui.glossary import about

study = page.begin_studies("continual", ("table4",))
about("graft")
