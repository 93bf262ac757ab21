"""The register of the stories: by the clause, or rule, that is missed in each."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation import test_findings as findings

Told = Callable[[], None]
STORIES: dict[str, Told] = {
    "leases.renew: dd_lease <= :value": findings.test_a_late_copy_of_a_renewal_shortens_no_named_lease,
    "marks._renewal: dd_lease <= :value": findings.test_a_late_copy_of_a_renewal_shortens_no_lease,
    "marks._checkpoint: attribute_not_exists (dd_cursor)": findings.test_a_late_copy_of_a_checkpoint_takes_nothing_back,
    "runs.update_held: attribute_not_exists (dd_tail)": findings.test_a_late_copy_of_a_record_takes_no_later_one_back,
    "signals._moved: dd_v <= :value": findings.test_a_run_that_a_newer_version_has_taken_over_is_not_woken,
}
"""By the clause that is missed."""
OTHER = {"S": "another"}


def story(*names: str) -> Callable[[Told], Told]:
    def told(function: Told) -> Told:
        STORIES.update(dict.fromkeys(names, function))
        return function

    return told
