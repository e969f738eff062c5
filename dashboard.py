"""The dashboard: `streamlit run dashboard.py`. Shows the page table and runs the chosen page; nothing else."""

from skillviz.ui import pages

pages.navigation().run()
