"""``python -m dynadurable``: the same as the ``dynadurable`` command."""

from .cli import main

if __name__ == "__main__":
    main()
