"""The worker processes of a round, and what is done to them: killed, frozen and woken, told to stop, replaced."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from dynadurable.local import tied_to_this_process
from tests.chaos.jobs import Site
from tests.chaos.log import Log
from tests.chaos.watcher import Problems
from tests.process.workshop import LIMIT_SECONDS, REPOSITORY, is_up

DEEDS = (("kill", 3), ("freeze", 4), ("terminate", 3))
UNREADY_SHARE = 0.05
GOOD_ENDS = (0, 2)  # 2: bodies that would not end were handed back
SHOWN_BYTES = 3_000


@dataclass
class Member:
    """A worker process."""

    process: subprocess.Popen[bytes]
    mode: str
    output: Path
    thaws_at: float | None = None
    signalled: bool = False

    @property
    def is_frozen(self) -> bool:
        return self.thaws_at is not None


@dataclass(kw_only=True)
class Crew:
    """So many workers at a time; whoever is gone is replaced."""

    site: Site
    size: int
    seed: int
    log: Log
    problems: Problems
    environment: dict[str, str]
    members: list[Member] = field(default_factory=list)
    leaving: list[Member] = field(default_factory=list)
    deeds: dict[str, int] = field(default_factory=dict)
    _hired: int = 0

    def __post_init__(self) -> None:
        self._dice = random.Random(f"{self.seed} crew")

    def hire(self) -> None:
        """Start workers until there are enough; now and then one that only drains."""
        while len(self.members) < self.size:
            self._hired += 1
            mode = "drain" if self._dice.random() < 0.25 else "work"
            output = Path(self.site.folder) / f"worker-{self._hired}"
            with output.open("wb") as stream:
                process = subprocess.Popen(
                    tied_to_this_process([sys.executable, "-m", "tests.chaos.worker", self.site.to_text(), mode]),
                    env=self.environment,
                    cwd=REPOSITORY,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                )
            self.members.append(Member(process=process, mode=mode, output=output))

    def act(self) -> None:
        """One deed, at random; then the crew is made complete."""
        self.look_after()
        able = [member for member in self.members if not member.is_frozen and self._may_act_on(member)]
        if able:
            member = self._dice.choice(able)
            deed = self._dice.choices([name for name, _ in DEEDS], [weight for _, weight in DEEDS])[0]
            self.deeds[deed] = self.deeds.get(deed, 0) + 1
            self.log.note("deed", deed=deed, whom=member.process.pid, mode=member.mode)
            getattr(self, f"_{deed}")(member)
        self.hire()

    def _may_act_on(self, member: Member) -> bool:
        """Mostly those that work: where starting takes long, all would be killed before they have done anything."""
        return self.site.sign_of_life(member.process.pid).exists() or self._dice.random() < UNREADY_SHARE

    def look_after(self) -> None:
        """Wake those whose time has come; see who has ended."""
        for member in [*self.members, *self.leaving]:
            if member.thaws_at is not None and time.monotonic() >= member.thaws_at:
                self._thaw(member)
        for member in [one for one in self.members if one.process.poll() is not None]:
            self.members.remove(member)
            self._check_end(member)
        for member in [one for one in self.leaving if one.process.poll() is not None]:
            self.leaving.remove(member)
            self._check_end(member)

    def thaw_all(self) -> None:
        for member in [*self.members, *self.leaving]:
            if member.is_frozen:
                self._thaw(member)

    def dismiss(self) -> None:
        """Everybody stops gracefully; each must end well."""
        self.thaw_all()
        for member in self.members:
            self._terminate(member, remove=False)
        for member in [*self.members, *self.leaving]:
            try:
                member.process.wait(LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                self.problems.add(None, f"a worker did not stop within {LIMIT_SECONDS} s:\n{_shown(member)}")
        self.look_after()

    def close(self) -> None:
        """Nobody is left behind."""
        for member in [*self.members, *self.leaving]:
            if member.process.poll() is None:
                member.process.kill()
                member.process.wait()

    # --- deeds ------------------------------------------------------------------------------------

    def _kill(self, member: Member) -> None:
        member.process.kill()
        member.process.wait()
        self.members.remove(member)

    def _freeze(self, member: Member) -> None:
        os.kill(member.process.pid, signal.SIGSTOP)
        member.thaws_at = time.monotonic() + self._dice.uniform(0.2, 6.0)

    def _thaw(self, member: Member) -> None:
        member.thaws_at = None
        os.kill(member.process.pid, signal.SIGCONT)
        self.log.note("deed", deed="thaw", whom=member.process.pid)

    def _terminate(self, member: Member, *, remove: bool = True) -> None:
        """SIGTERM, once it has its handler; before that the signal ends the interpreter, as it should."""
        member.signalled = is_up(member.process.pid)
        member.process.terminate()
        if remove:
            self.members.remove(member)
            if member.signalled:
                self.leaving.append(member)
            else:
                member.process.wait()

    def _check_end(self, member: Member) -> None:
        code, output = member.process.returncode, member.output.read_text(errors="replace")
        asked = member.mode == "drain" or member.signalled
        if code == -signal.SIGTERM and not member.signalled:
            return
        if not asked or code not in GOOD_ENDS or "Exception in thread" in output:
            self.problems.add(None, f"a worker ({member.mode}) ended with {code}:\n{_shown(member)}")


def _shown(member: Member) -> str:
    return member.output.read_text(errors="replace")[-SHOWN_BYTES:]
