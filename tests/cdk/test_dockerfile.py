"""The Dockerfile, as far as it can be checked without Docker."""

from __future__ import annotations

import json
from pathlib import Path

DOCKERFILE = Path(__file__).resolve().parents[2] / "cdk" / "Dockerfile"


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage, without comments; continued lines joined."""
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    instructions = [(word.upper(), rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]
    found: list[list[tuple[str, str]]] = []
    for instruction in instructions:
        if instruction[0] == "FROM":
            found.append([])
        if found:
            found[-1].append(instruction)
    return found


def last_of(word: str) -> str:
    return [rest for name, rest in stages()[-1] if name == word][-1]


def test_what_builds_is_not_what_runs() -> None:
    assert len(stages()) == 2
    assert "--from=build" in next(rest for name, rest in stages()[-1] if name == "COPY")


def test_the_base_image_is_small() -> None:
    assert all("-slim" in stage[0][1] for stage in stages())


def test_it_does_not_run_as_root() -> None:
    assert int(last_of("USER")) > 0
    assert [name for name, _ in stages()[-1]].index("USER") < [name for name, _ in stages()[-1]].index("ENTRYPOINT")


def test_the_command_is_in_exec_form() -> None:
    """A shell as process 1 would not pass SIGTERM on, and every stop would be a kill."""
    assert json.loads(last_of("ENTRYPOINT")) == ["dynadurable"]
    assert isinstance(json.loads(last_of("CMD")), list)
    assert last_of("STOPSIGNAL") == "SIGTERM"


def test_output_is_not_held_back() -> None:
    """A killed container would take its last lines with it."""
    assert "PYTHONUNBUFFERED=1" in last_of("ENV")


def test_python_is_where_the_health_check_looks_for_it() -> None:
    assert 'PATH="/venv/bin:' in last_of("ENV")
