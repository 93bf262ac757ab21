"""``dynadurable completion``: the script that lets a shell complete commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from .root import root

EXAMPLES = """\b
dynadurable completion bash >> ~/.bashrc
dynadurable completion zsh >> ~/.zshrc
dynadurable completion fish > ~/.config/fish/completions/dynadurable.fish"""
SHELLS = ("bash", "zsh", "fish")


@click.command(epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script for a shell."""
    kind = get_completion_class(shell)
    assert kind is not None, "click knows all of SHELLS"
    click.echo(kind(root, {}, "dynadurable", "_DYNADURABLE_COMPLETE").source())
