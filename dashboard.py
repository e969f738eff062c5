"""The dashboard: `streamlit run dashboard.py`. Shows the page table and runs the chosen page; nothing else."""

from skillviz.ui import page_table

page_table.navigation().run()
