"""The page "Is the model's confidence justified?": confidence, reliability and risk of each model."""

import streamlit as st

from skillviz.show import calibration as exhibits
from skillviz.ui import page, show_code
from skillviz.ui.chart import show, theme
from skillviz.ui.pages import calibration

run = page.begin("calibration")
calibration.refuse_references(run)
(finding, settings), told = st.columns([6, 1], vertical_alignment="center"), st.container()
with settings.popover("Settings", width="stretch"):
    choice = calibration.controls_of(run, told)
logits, labels = calibration.state_logits(run, choice)
bins, equal_width = calibration.reliability_bins(run, choice, logits, labels)

with finding:
    calibration.verdicts(run, choice, logits, labels)
show(exhibits.confidence(equal_width, theme()), run.id)
if choice.within is None:
    show_code.show("calibration", run=run.id, split=choice.split, states=choice.states, bins=choice.bins)
calibration.reliability(run, choice, logits, labels, bins)
calibration.risk(run, choice, logits, labels)
calibration.out_of_scope(run)
