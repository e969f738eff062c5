"""The page "Which examples change?": all examples as table and scatter, one in detail, then slices and classes."""

from skillviz.ui import page
from skillviz.ui.pages import examples as examples_page

run = page.begin("examples")
without = examples_page.run_examples(run)

examples_page.finding(run, without)
places = examples_page.places()
with places.table:
    examples = examples_page.with_texts(run, without)
with places.filters:
    wanted = examples_page.filters(run, examples)
closer = places.closer(examples)
chosen = examples_page.linked(run, examples, wanted, places)
examples_page.by_slice(run, examples)
examples_page.by_class(run, examples)
with closer:  # drawn last, because it may wait for the models
    examples_page.look_closer(run, examples, chosen)
