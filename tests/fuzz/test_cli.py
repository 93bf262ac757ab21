"""The command line, given anything: an exit code that means something, and an error in one line; never a traceback."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from dynadurable.cli.root import FAILED, NOT_FOUND, OK, STOPPED, root
from tests.fuzz import shop

SEEDS = int(os.environ.get("DYNADURABLE_FUZZ", "5"))
USAGE = 2
CODES = {OK, FAILED, USAGE, NOT_FOUND, STOPPED}
FOR_EVER = {"worker", "local", "demo"}
"""Commands that run until they are stopped, or start servers."""
WORDS = [
    *[
        "",
        " ",
        "-",
        "--",
        "-1",
        "0",
        "1",
        "99999999999999999999999",
        "1e400",
        "nan",
        "NaN",
        "inf",
        "true",
        "null",
        "[]",
    ],
    *["{", "}", '{"a":', '{"$bytes": 5}', '{"$datetime": "x"}', "[1, 2", '"\\ud800"', '{"a": ' * 3_000],
    *["é" * 300, "\udcff", "\x00", "\x1b[31m", "a\nb", "../..", "#", "%", "~", "default~0~zzz~x", "x" * 5_000],
    *["30s", "5m", "-5m", "1h30m", "9" * 30 + "d", "2027-01-15T12:00:00Z", "2027-01-15", "10000-01-01T00:00:00Z"],
    *['{"a": ' * levels + "1" + "}" * levels for levels in (90, 400, 900)],
    *["default", "mail", "plain", "nightly", "refresher", "said", "* * * * *", "61 * * * *", "@daily", "Europe/Berlin"],
    *["tests.fuzz.shop:app", "no.such.module:app", "os:path", "tests.fuzz.shop:nothing", ":", "a:b:c", *shop.RUNS],
]


def commands(
    group: click.Command = root, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command there is, by the words that lead to it."""
    if not isinstance(group, click.Group):
        yield path, group
        return
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        found = group.get_command(ctx, name)
        assert found is not None
        if name not in FOR_EVER:
            yield from commands(found, (*path, name))


COMMANDS = dict(commands())


def vector(dice: random.Random, path: tuple[str, ...], command: click.Command) -> list[str]:
    """The command with some of its options, often with values that do not belong there."""
    words = list(path)
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            words += [dice.choice(WORDS) for _ in range(dice.choice([0, 1, 1, 1, 2]))]
        elif (
            isinstance(parameter, click.Option)
            and dice.random() < 0.4
            and parameter.name not in ("table_name", "app_name")
        ):
            words.append(dice.choice(parameter.opts))
            if not parameter.is_flag:
                words.append(dice.choice(WORDS))
    if any(parameter.name == "app_name" for parameter in command.params) and dice.random() < 0.8:
        words += ["--app", "tests.fuzz.shop:app"]
    if dice.random() < 0.2:
        words.insert(dice.randrange(len(words) + 1), dice.choice(WORDS))
    return words


def run(words: list[str]) -> Result:
    environ: dict[str, Any] = {"DYNADURABLE_APP": None, "DYNADURABLE_TABLE": None, "COLUMNS": "200"}
    return CliRunner(env=environ).invoke(root, words, prog_name="dynadurable")


def assert_in_words(words: list[str], done: Result) -> None:
    shown = ascii(words)  # pytest-xdist cannot carry lone surrogates
    assert done.exception is None or isinstance(done.exception, SystemExit), (shown, ascii(done.exc_info))
    assert done.exit_code in CODES, (shown, done.exit_code)
    assert "Traceback" not in done.stderr, shown
    if done.exit_code == USAGE and words:
        assert "Error: " in done.stderr or "Usage: " in done.stderr, shown
    if done.exit_code == FAILED and done.stderr.startswith("Error: "):
        assert len(done.stderr.strip().splitlines()) == 1, (shown, ascii(done.stderr))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_command_given_anything_answers_in_words(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(SEEDS):
        monkeypatch.setattr(shop, "app", shop.fresh().app)
        words = vector(random.Random(f"{path} {seed}"), path, COMMANDS[path])
        assert_in_words(words, run(words))


def test_words_without_a_command_are_answered_too() -> None:
    dice = random.Random(7)
    for _ in range(SEEDS * 4):
        words = [
            dice.choice([*WORDS, "dead", "runs", "list", "show", "--json", "--help"]) for _ in range(dice.randrange(5))
        ]
        assert_in_words(words, run(words))
