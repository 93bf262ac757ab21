"""A process that contends for a lease, or stands for leader, and notes in a log what it does.

Run as ``python -m tests.process.elector``; settings come from the environment, see ``workshop.py``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from datetime import timedelta

from botocore.exceptions import ClientError

from dynadurable import App
from dynadurable.errors import DynadurableError
from dynadurable.leader import Term
from dynadurable.lease import Lease

NAME = "timeline"
app = App(os.environ["SHOP_TABLE"], endpoint_url=os.environ["SHOP_ENDPOINT"], region="us-east-1")
_log = os.open(os.environ["SHOP_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
_stopping = threading.Event()


def note(event: str, **facts: object) -> None:
    line = {"event": event, "pid": os.getpid(), "at": time.monotonic(), **facts}
    os.write(_log, (json.dumps(line) + "\n").encode())


def put_guarded(lease: Lease) -> bool:
    """The user's own write, which keeps the order of all that landed; only who still holds the lease may do it."""
    update = {
        "TableName": app.schema.table,
        "Key": {"pk": {"S": NAME}, "sk": {"S": NAME}},
        "UpdateExpression": "SET history = list_append(if_not_exists(history, :none), :this)",
        "ExpressionAttributeValues": {":none": {"L": []}, ":this": {"L": [{"S": f"{lease.fence} {os.getpid()}"}]}},
    }
    client = app._clients.get()
    try:
        client.transact_write_items(TransactItems=[lease.condition_check(), {"Update": update}])
    except ClientError as error:
        note("refused", fence=lease.fence, code=error.response["Error"]["Code"], valid=lease.is_valid())
        return False
    note("wrote", fence=lease.fence, valid=lease.is_valid())
    return True


def contend(ttl: timedelta) -> None:
    """Acquire, write while it is held (and once after), give it up now and then, and begin again."""
    while not _stopping.is_set():
        lease = app.lease(NAME, ttl=ttl, wait=timedelta(seconds=1))
        try:
            with lease:
                note("acquired", fence=lease.fence)
                turns = 0
                while put_guarded(lease) and turns < 40 and not _stopping.is_set():
                    turns += 1
                    _stopping.wait(0.05)
            note("released", fence=lease.fence)
        except DynadurableError as error:
            note("without", error=type(error).__name__)


def lead(ttl: timedelta) -> None:
    """Stand for leader until SIGTERM."""

    def duty(term: Term) -> None:
        note("leads", fence=term.fence)
        while not term.wait(0.05):
            pass
        note("leads no more", fence=term.fence)

    sys.exit(app.leader(NAME, [duty], ttl=ttl).run())


def main() -> None:
    options = json.loads(sys.argv[1])
    ttl = timedelta(seconds=options["ttl"])
    if options["role"] == "lead":
        lead(ttl)
    signal.signal(signal.SIGTERM, lambda *_: _stopping.set())
    contend(ttl)


if __name__ == "__main__":
    main()
