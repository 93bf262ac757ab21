"""The process that does Krabber's background work: ``python -m krabber.worker``.

``dynadurable worker krabber.app:app`` is the same without a file of its own.
"""

from __future__ import annotations

import logging
import sys
from datetime import timedelta

from .app import app


def main() -> int:
    """Work until SIGTERM. ``--lease 3``: how many seconds after a crash another worker takes over."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    arguments = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    lease = timedelta(seconds=float(arguments.pop("--lease", "30")))
    if arguments:
        sys.exit(f"unknown: {', '.join(arguments)}")
    return app.worker(lease=lease).run()


if __name__ == "__main__":
    sys.exit(main())
