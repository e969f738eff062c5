"""The page "Which examples change?": all examples as table and scatter, one in detail, then slices and classes."""

from skillviz.ui import page
from skillviz.ui.pages.examples import detail, view

run = page.begin("examples")
without = view.run_examples(run)

view.finding(run, without)
places = view.places()
with places.table:
    examples = view.with_texts(run, without)
with places.filters:
    wanted = view.filters(run, examples)
closer = places.closer(examples)
chosen = view.linked(run, examples, wanted, places)
view.by_slice(run, examples)
view.by_class(run, examples)
with closer:  # drawn last, because it may wait for the models
    detail.look_closer(run, examples, chosen)
