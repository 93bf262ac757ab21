"""Those who ask for runs, send events, cancel, put off and bring back, all through the rapids."""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from dynadurable import App
from dynadurable.clock import to_datetime
from dynadurable.errors import DynadurableError, EnqueueIncompleteError
from tests.chaos.book import Book, Promise
from tests.chaos.jobs import Site
from tests.chaos.watcher import Problems

KINDS = (
    ("plain", 6),
    ("many", 1),
    ("transacted", 2),
    ("counting", 2),
    ("counting_async", 2),
    ("deliver", 1),
    ("sure", 4),
    ("flaky", 2),
    ("poison", 2),
    ("weak", 1),
    ("order", 2),
    ("order_async", 1),
    ("guard", 1),
)
COUNT = 5
KEYS_AT_ONCE = 4
RECEIPT = "receipt@"
"""The user's own items, put in one transaction with a mark, have keys that begin so."""


class Callers:
    """Threads that act until they are stopped; each throws dice of its own."""

    def __init__(self, app: App, jobs: dict[str, Any], site: Site, book: Book, problems: Problems) -> None:
        self.app, self.jobs, self.site, self.book, self.problems = app, jobs, site, book, problems
        self._log = site.log()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, seed: int, *, callers: int, pause_seconds: float) -> None:
        for place in range(callers):
            self._act(random.Random(f"{seed} caller {place}"), self._ask, pause_seconds)
        self._act(random.Random(f"{seed} events"), self._tell, 0.3)
        for place in range(2):
            self._act(random.Random(f"{seed} operator {place}"), self._operate, 0.2)

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def tell_the_rest(self) -> None:
        """Every workflow is told what it waits for; one that has ended meanwhile is not."""
        for promise in self._waiting():
            self._send_event(promise)

    def _act(self, dice: random.Random, deed: Callable[[random.Random], None], pause_seconds: float) -> None:
        def go_on() -> None:
            while not self._over.wait(dice.uniform(0, 2 * pause_seconds)):
                try:
                    deed(dice)
                except DynadurableError as error:
                    self._log.note("refused", deed=deed.__name__, error=repr(error)[:300])
                except Exception:  # noqa: BLE001 - whatever it is, nobody promised it
                    self.problems.add(None, f"an error that is none of ours: {traceback.format_exc()}")

        thread = threading.Thread(target=go_on, daemon=True)
        self._threads.append(thread)
        thread.start()

    # --- asking for runs --------------------------------------------------------------------------

    def _ask(self, dice: random.Random) -> None:
        kind = dice.choices([kind for kind, _ in KINDS], [weight for _, weight in KINDS])[0]
        delay = timedelta(seconds=dice.choice((0, 0, 0, 0.5, 2)))
        if kind == "many":
            self._ask_for_many()
        elif kind == "transacted":
            self._ask_in_a_transaction()
        elif kind == "sure":
            self._ask_by_key(dice, delay)
        else:
            number = self.book.next_number()
            counting = {"count": COUNT} if kind.startswith("counting") else {}
            promise = Promise(kind=kind, number=number)
            self.book.add(promise)
            run = self.app.enqueue(self.jobs[kind].using(delay=delay), number=number, **counting)
            promise.run_id = run.id

    def _ask_by_key(self, dice: random.Random, delay: timedelta) -> None:
        era = self.book.next_number() // 60
        number = era * KEYS_AT_ONCE + dice.randrange(KEYS_AT_ONCE)
        unique = number % 2 == 0
        promise = Promise(kind="sure", number=number, key=f"key {number}", unique=unique)
        self.book.add(promise)
        unique_for = timedelta(hours=1) if unique else None
        job = self.jobs["sure"].using(key=promise.key, unique_for=unique_for, delay=delay)
        promise.run_id = self.app.enqueue(job, number=number).id

    def _ask_for_many(self) -> None:
        promises = [Promise(kind="plain", number=self.book.next_number()) for _ in range(8)]
        for promise in promises:
            self.book.add(promise)
        try:
            runs = self.app.enqueue_many(self.jobs["plain"].call(number=promise.number) for promise in promises)
        except EnqueueIncompleteError as error:
            for run_id in error.stored:  # whose numbers they have is not told, but they must happen
                self.book.add(Promise(kind="plain", number=0, run_id=run_id))
            return
        for promise, run in zip(promises, runs, strict=True):
            promise.run_id = run.id

    def _ask_in_a_transaction(self) -> None:
        """By the user's own client, which tries once: the receipt tells whether it was done."""
        promise = Promise(kind="transacted", number=self.book.next_number())
        self.book.add(promise)
        elements = self.app.transact_items(self.jobs["plain"], number=promise.number)
        receipt = {"pk": {"S": f"{RECEIPT}{promise.number}"}, "sk": {"S": "receipt"}, "run": {"S": elements.run_id}}
        put = {"Put": {"TableName": self.site.table, "Item": receipt}}
        try:
            self.app._clients.get().transact_write_items(TransactItems=[put, *elements])
        except (ClientError, BotoCoreError):
            return
        promise.run_id = elements.run_id

    # --- events -----------------------------------------------------------------------------------

    def _waiting(self) -> list[Promise]:
        return [one for one in self.book.accepted() if one.kind.startswith("order") and not one.event_told]

    def _tell(self, dice: random.Random) -> None:
        waiting = self._waiting()
        if waiting:
            self._send_event(dice.choice(waiting))

    def _send_event(self, promise: Promise) -> None:
        assert promise.run_id is not None
        self.app.run(promise.run_id).send_event("go", promise.number)
        promise.event_told = True

    # --- operating --------------------------------------------------------------------------------

    def _operate(self, dice: random.Random) -> None:
        recent = self.book.accepted()[-40:]
        if not recent:
            return
        deed = dice.choice((self._cancel, self._replay, self._replay, self._move, self._look_at))
        deed(dice, dice.choice(recent))

    def _cancel(self, dice: random.Random, promise: Promise) -> None:
        assert promise.run_id is not None
        promise.cancels.append("?")
        promise.cancels[-1] = self.app.run(promise.run_id).cancel()
        self._log.note("operator", run=promise.run_id, deed="cancel", told=promise.cancels[-1])

    def _replay(self, dice: random.Random, _: Promise) -> None:
        letters = self.app.dead.list(limit=20)
        self._log.note("operator", deed="list", letters=len(letters))
        if not letters:
            return
        run_id = dice.choice(letters).run_id
        for promise in self.book.of(run_id):
            if promise.kind == "poison" and dice.random() < 0.5:
                self.site.cure(promise.number).touch()
            promise.replays.append("?")
            promise.replays[-1] = str(self.app.dead.replay(run_id).done)
            self._log.note("operator", run=run_id, deed="replay", told=promise.replays[-1])

    def _move(self, dice: random.Random, promise: Promise) -> None:
        assert promise.run_id is not None
        run = self.app.run(promise.run_id)
        self._log.note("operator", run=promise.run_id, deed="move")
        if dice.random() < 0.5:
            run.run_now()
        else:
            run.delay_until(to_datetime(self.app.clock.now_ms() + dice.randrange(4_000)))

    def _look_at(self, dice: random.Random, promise: Promise) -> None:
        assert promise.run_id is not None
        assert str(self.app.run(promise.run_id).explain())
        self.app.queues.get("chaos")
