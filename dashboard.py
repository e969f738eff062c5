"""The dashboard: `streamlit run dashboard.py`. The server when imported; as a script, the page that is asked for."""

import streamlit as st

if __name__ == "__main__":
    from skillviz.ui import address, page_table, sign_in

    page_table.navigation().run()
    if sign_in.is_open():  # else the link waits for whoever signs in
        address.tidy(page_table.PRESENT)
else:
    from skillviz.ui import server

    app = st.App(__file__, lifespan=server.getting_ready, middleware=server.middleware())
