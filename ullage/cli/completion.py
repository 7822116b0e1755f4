"""`ullage completion`: scripts for bash, zsh and fish."""

import click

EXAMPLES = """\b
Examples:
  source <(ullage completion bash)                                    # this shell
  ullage completion bash > ~/.local/share/bash-completion/completions/ullage
  ullage completion zsh > "${fpath[1]}/_ullage"
  ullage completion fish > ~/.config/fish/completions/ullage.fish
"""


@click.command("completion", epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def command(shell: str) -> None:
    """Print a script that completes verbs, options and their values in this shell."""
    from click.shell_completion import get_completion_class

    from ullage.cli.main import ullage

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"there is no completion for {shell}")
    click.echo(found(ullage, {}, "ullage", "_ULLAGE_COMPLETE").source())
