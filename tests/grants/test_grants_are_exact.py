"""Each role's grant suffices for what the role is for, and nothing in it is never used."""

from __future__ import annotations

import pytest

from dynadurable.storage.permissions import ALLOWANCES, Role
from tests.grants.scenes import AFTER_CRASHES, SCENES
from tests.grants.site import Client, HidingClient, LosingClient, Site
from tests.watch import Sent, Watch


def granted(role: Role) -> set[Sent]:
    allowance = ALLOWANCES[role]
    on_items = {Sent(action, kind) for kind, actions in allowance.items.items() for action in actions}
    return {Sent(action, None) for action in allowance.table} | on_items


def told(sent: set[Sent]) -> list[str]:
    return sorted(f"{one.kind or 'table'}: {one.action}" for one in sent)


@pytest.mark.parametrize("role", list(Role))
def test_a_grant_is_what_its_role_needs_and_nothing_else(role: Role, watch: Watch) -> None:
    """Also where replies are lost, or the store does not show what stood in the way: then more is read."""
    sent: set[Sent] = set()
    for make_client in (Client, HidingClient, LosingClient):
        for play in SCENES[role]:
            play(Site(watch=watch, sent=sent, make_client=make_client))
    for play in AFTER_CRASHES[role]:
        play(Site(watch=watch, sent=sent))
    watch.refused.clear()
    assert {"missing": told(sent - granted(role)), "never used": told(granted(role) - sent)} == {
        "missing": [],
        "never used": [],
    }
