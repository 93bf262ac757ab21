"""The checkout example, crashed everywhere: sound with its idempotency key, and found out without it."""

from __future__ import annotations

import io
import json
import urllib.request

import pytest

from dynadurable.demo import place
from dynadurable.testing.crash import CrashReport, crash_points
from dynadurable.testing.crash.client import LOSSES
from dynadurable.testing.kit import Kit
from tests.kit.page import assert_shown, blocks

pytest.importorskip("networkx")  # of the demo, which has the example in it
place.put_on_path()


class Payments:
    """A payment service: the same key again is answered with the first charge. Each charge is a noted effect."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._known: dict[str, str] = {}

    def __call__(self, request: urllib.request.Request, timeout: float) -> io.BytesIO:
        key = request.get_header("Idempotency-key") or ""
        charge = self._known.get(key) or self._charge(key)
        return io.BytesIO(json.dumps({"charge": charge}).encode())

    def _charge(self, key: str) -> str:
        self._kit.effect("charge")
        charge = f"ch_{self._kit.effects['charge']}"
        if key:
            self._known[key] = charge
        return charge


def reports() -> list[str]:
    """As docs/testing.md shows them: with the key, and without."""
    return [block for block in blocks("") if "with another end" in block]


def crashed(monkeypatch: pytest.MonkeyPatch, *, without_key: bool) -> CrashReport:
    from checkout import app as shop

    def place_an_order(kit: Kit) -> None:
        monkeypatch.setattr(urllib.request, "urlopen", Payments(kit))
        shop.app.enqueue(shop.checkout, shop.Order(id="o-17", lines=("hat", "coat"), amount=42))
        kit.run_until_idle(skip_time=True)

    monkeypatch.setenv("CHECKOUT_PAYMENTS", "http://payments.example")
    monkeypatch.setenv("CHECKOUT_WITHOUT_KEY", "1" if without_key else "0")
    return crash_points(place_an_order, shop.app)


def test_with_the_key_every_crash_ends_the_same_and_charges_once(monkeypatch: pytest.MonkeyPatch) -> None:
    report = crashed(monkeypatch, without_key=False)
    report.assert_same_end()
    report.assert_no_effect_twice()
    assert len(report) == len(report.writes) * len(LOSSES) > 100
    called_again = {body for crash in report for body in crash.repeated}
    assert {"step charge_card", "step pack", "step notify", "checkout", "invoice"} <= called_again
    assert report.undisturbed.bodies["step charge_card"] == 1
    assert_shown(str(report), reports()[0])


def test_without_the_key_the_report_names_the_write_the_step_and_the_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    report = crashed(monkeypatch, without_key=True)
    (crash,) = report.seen_twice
    assert str(crash.write) == "write 4 (UpdateItem of a run, at step charge_card)"
    assert crash.effects == ("charge",)
    assert "step charge_card" in crash.repeated
    with pytest.raises(AssertionError, match="1 of 156 crashes made a side effect happen twice"):
        report.assert_no_effect_twice()
    assert report.different == [crash]
    assert_shown(str(report), reports()[1])
