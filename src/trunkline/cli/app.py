"""All commands in one typer application. Plain help (no rich markup): it starts faster and reads well in a pipe."""

from __future__ import annotations

from typing import Annotated

import typer

from trunkline import __version__
from trunkline.cli import consume, doctor, group, produce, tail, topic

app = typer.Typer(
    name="trunkline",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trunkline {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """One durable log for Kafka, AMQP 0-9-1 and Redis Streams clients.

    \b
    Examples:
      trunkline serve                               start a broker on the default ports
      trunkline topic create orders --partitions 3
      echo 'hello' | trunkline produce orders
      trunkline consume orders --follow
      trunkline tail orders payments                the newest of both, by time, and on
      trunkline group describe billing              members, offsets and lag
      trunkline doctor                              is this machine good for a broker?

    All commands but serve and doctor talk to a broker over the Kafka protocol, so they work with Apache Kafka too.
    """


@app.command("serve", add_help_option=False, context_settings={"ignore_unknown_options": True})
def _serve(arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
    """Start a broker (`trunkline serve --help` for its flags)."""
    from trunkline.cli.serve import serve

    raise typer.Exit(serve(arguments or []))


app.add_typer(topic.app, name="topic")
app.add_typer(group.app, name="group")
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.command("tail")(tail.tail)
app.command("doctor")(doctor.doctor)
