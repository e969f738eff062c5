"""`python -m skillviz`: the command line."""

from skillviz.cli import main

main()
