"""The page "Is the model's confidence justified?": confidence, reliability and risk of each model."""

import streamlit as st

from skillviz.show import calibration as exhibits
from skillviz.ui import page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.calibration import calibration_controls

run = page.begin("calibration")
calibration_controls.refuse_references(run)
finding, settings = st.columns([6, 1], vertical_alignment="center")
with settings.popover("Settings", width="stretch"):
    choice = calibration_controls.controls_of(run)
logits, labels = page.state_logits(run, choice.split, choice.states)
bins, equal_width = calibration_controls.reliability_bins(run, choice, logits, labels)

with finding:
    calibration_controls.verdicts(run, choice, logits, labels)
show(exhibits.confidence(equal_width, theme()), run.id)
calibration_controls.reliability(run, choice, logits, labels, bins)
calibration_controls.risk(run, choice, logits, labels)
calibration_controls.out_of_scope(run)
