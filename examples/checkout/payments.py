"""A payment service as a process of its own: it charges, and it remembers every charge, whoever crashes around it.

    python -m checkout.payments PORT FILE

``POST /charge`` with ``{"order": ..., "amount": ...}`` and, if the caller is careful, an ``Idempotency-Key`` header:
the same key again is answered with the first charge and charges nothing. Each charge is a line in FILE.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import ClassVar


class Payments(BaseHTTPRequestHandler):
    ledger: Path
    lock = Lock()
    known: ClassVar[dict[str, str]] = {}

    def do_POST(self) -> None:
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers.get("Idempotency-Key")
        with self.lock:
            charge = self.known.get(key or "") or self._charge(order, key)
        body = json.dumps({"charge": charge}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _charge(self, order: dict[str, object], key: str | None) -> str:
        charge = f"ch_{len(self.ledger.read_text().splitlines()) + 1}"
        with self.ledger.open("a") as ledger:
            ledger.write(json.dumps({"charge": charge, **order}) + "\n")
        if key is not None:
            self.known[key] = charge
        return charge

    def log_message(self, *_: object) -> None:
        """Silent."""


def main() -> None:
    port, ledger = int(sys.argv[1]), Path(sys.argv[2])
    ledger.touch()
    Payments.ledger = ledger
    ThreadingHTTPServer(("127.0.0.1", port), Payments).serve_forever()


if __name__ == "__main__":
    main()
