"""`ullage config`: what settings there are, whether a file is right, and what differs between two."""

import click

EXAMPLES = """\b
Examples:
  ullage config show > policy.yaml
  ullage config check policy.yaml
  ullage config diff policy.yaml other.yaml
"""


@click.group("config", epilog=EXAMPLES)
def command() -> None:
    """The settings file: one for the live programs and for `ullage simulate`, so that what was tried is what runs."""


@command.command("show", epilog="\b\nExample:\n  ullage config show policy.yaml")
@click.argument("file", required=False, metavar="[FILE]")
@click.option("--output", "-o", type=click.Choice(("yaml", "json")), default="yaml", show_default=True, help="Form.")
def show(file: str | None, output: str) -> None:
    """Print every setting with its meaning: the defaults, or as a FILE has them."""
    import json

    from ullage.config.docs import as_plain, as_yaml
    from ullage.config.loading import load_settings
    from ullage.config.settings import Settings

    settings = Settings() if file is None else load_settings(file)
    text = as_yaml(settings) if output == "yaml" else json.dumps(as_plain(settings), indent=2) + "\n"
    click.echo(text, nl=False)


@command.command("check", epilog="\b\nExample:\n  ullage config check policy.yaml")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def check(files: tuple[str, ...]) -> None:
    """Read settings files and say all that is wrong: file, line, setting, and what is allowed. Exit code 1 then."""
    from ullage.config.loading import load_settings
    from ullage.config.reload import changes
    from ullage.config.settings import Settings
    from ullage.config.yaml_document import SettingsError

    problems = 0
    for file in files:
        try:
            settings = load_settings(file)
        except SettingsError as error:
            problems += len(error.problems)
            click.echo(str(error), err=True)
        else:
            differing = len(changes(Settings(), settings))
            click.echo(f"{file}: good ({differing} not as by default)")
    if problems:
        raise click.exceptions.Exit(1)


@command.command("diff", epilog="\b\nExample:\n  ullage config diff policy.yaml other.yaml")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
def diff(old: str, new: str) -> None:
    """Print what differs between two settings files, and what a running program takes only after a restart."""
    from ullage.config.loading import load_settings
    from ullage.config.reload import changes

    for change in changes(load_settings(old), load_settings(new)):
        click.echo(str(change))
