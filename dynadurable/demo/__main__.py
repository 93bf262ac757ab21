"""``python -m dynadurable.demo``: the same as ``dynadurable demo``."""

import sys

from ..cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "demo")
    main()
