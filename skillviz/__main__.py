"""`python -m skillviz`: the command line."""

import sys

if __name__ == "__main__":
    try:
        from skillviz.cli import main

        main()
    except KeyboardInterrupt:  # Ctrl-C before the command has begun; commands handle their own
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)
