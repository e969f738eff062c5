"""The dashboard, `streamlit run dashboard.py`: the server if imported, the requested page if run as a script."""

import streamlit as st

if __name__ == "__main__":
    from skillviz.serving import sign_in
    from skillviz.ui import address, embed, page_table

    page_table.navigation().run()
    if sign_in.is_open():  # otherwise the link is kept until the user has signed in
        embed.end()
        address.tidy(page_table.PRESENT, page_table.FIGURE)
else:
    from skillviz.ui import server

    app = st.App(__file__, lifespan=server.getting_ready, middleware=server.middleware(), routes=server.routes())
