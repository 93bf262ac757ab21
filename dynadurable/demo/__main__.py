"""``python -m dynadurable.demo``: the same as ``dynadurable demo``."""

from ..cli.demo import demo

if __name__ == "__main__":
    demo()
