"""The root of the `godwit` command.

Each command has a module, and this one registers them by name. Those modules import large libraries (NumPy, Numba, the
parser) inside their functions, so that `godwit --help` answers at once.
"""

import os
import sys

from godwit.cli.statuses import STATUS_ERROR, STATUS_INTERRUPTED

try:
    from typing import Any

    import click

    from godwit import __version__
    from godwit.cli import (
        adhoc_command,
        administration_command,
        bench_command,
        compare_command,
        declare_command,
        demo_command,
        explain_command,
        filter_command,
        inspect_command,
        journal_command,
        match_command,
        pipeline,
        plan_command,
        pub_command,
        reproduce_command,
        serve_command,
        simulate_command,
        sub_command,
        team,
        tour_command,
        user_command,
    )
    from godwit.cli.signatures import Exit, Group, echo
    from godwit.errors import GodwitError
except KeyboardInterrupt:  # it takes some tenths of a second, which a mistyped command need not wait for
    sys.stderr.write("stopped\n")
    sys.exit(STATUS_INTERRUPTED)

__all__ = ["app"]

EXTRA_OF = {
    "cryptography": "server",
    "dd": "bdd",
    "h3": "pipeline",
    "icalendar": "teamwork",
    "lxml": "languages",
    "matplotlib": "plots",
    "numba": "fast",
    "pandas": "pipeline",
    "pyarrow": "traces",
    "pypdf": "teamwork",
    "pyspark": "pipeline",
    "re2": "languages",
    "uvloop": "fast",
}  # the extra to install for each optional library

HELP = """\
Publish/subscribe for things that move.

A filter selects the events that a subscriber wants:

    price < 10 AND sym IN ('A', 'B') AND tags LIKE 'new/%'

Compare two filters, or match a file of events with a file of filters:

    godwit filter covers "price < 10" "price < 5"

    godwit match --subscriptions filters.jsonl --events events.jsonl

Run a broker on this machine, and connect to it:

    godwit serve

    godwit sub "price < 10" --name ann

    godwit pub price=4 sym=A

Simulate a network of brokers and clients, and check every delivery:

    godwit simulate city --seed 1

Run the experiments of a paper, and see which of its claims hold:

    godwit reproduce pubmob --quick

A dash stands for standard input. Answers are tables on a terminal, and one JSON document a line on a pipe.
Exit status: 0 for yes or done, 1 for no, 2 for an error.
"""


class Commands(Group):
    """The root group: an error that Godwit raises on purpose becomes one message and an exit status."""

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        """Run the command line."""
        try:
            return super().__call__(*arguments, **more)
        except KeyboardInterrupt:
            sys.exit(_stopped().exit_code)

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Parse the command line."""
        try:
            return super().make_context(*arguments, **more)
        except KeyboardInterrupt:
            raise _stopped() from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command by its name. Click does not suggest `sub` for `subscribe`."""
        name = args[0]
        if name not in self.commands and len(name) > 1:
            meant = [repr(each) for each in self.commands if name.startswith(each) or each.startswith(name)]
            if meant:
                ctx.fail(f"No such command {name!r}. Did you mean {', '.join(meant)}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except GodwitError as error:
            echo(f"error: {error}", err=True)
            raise Exit(STATUS_ERROR) from None
        except ModuleNotFoundError as error:
            library = (error.name or "").partition(".")[0]
            if library not in EXTRA_OF:
                raise
            echo(
                f"error: this needs {library}, which is not installed: pip install 'godwit[{EXTRA_OF[library]}]'",
                err=True,
            )
            raise Exit(STATUS_ERROR) from None
        except KeyboardInterrupt:  # where the command does not handle it
            raise _stopped() from None
        except BrokenPipeError:  # the reader of the pipe has closed it, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
            raise Exit from None


def _stopped() -> Exit:
    echo("stopped", err=True)
    return Exit(STATUS_INTERRUPTED)


def _show_version(ctx: click.Context, option: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        echo(f"godwit {__version__}")
        raise Exit


VERSION = click.Option(
    ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Print the version."
)

app = Commands("godwit", help=HELP, params=[VERSION], context_settings={"help_option_names": ["-h", "--help"]})

app.add("demo")(demo_command.demo)
app.add("tour")(tour_command.tour)
app.add("match")(match_command.match)
app.add("serve")(serve_command.serve)
app.add("check-config")(serve_command.check_config)
app.add("pub")(pub_command.pub)
app.add("sub")(sub_command.sub)
app.add("adhoc")(adhoc_command.adhoc)
app.add("adv")(declare_command.adv)
app.add("ctx")(declare_command.ctx)
app.add("sessions")(inspect_command.sessions)
app.add("routes")(inspect_command.routes)
app.add("trace")(inspect_command.trace)
app.add("explain")(explain_command.explain)
app.add("reload")(administration_command.reload)
app.add("backup")(journal_command.backup)
app.add("restore")(journal_command.restore)
app.add("bench")(bench_command.bench)
app.add("simulate")(simulate_command.simulate)
app.add("compare")(compare_command.compare)
app.add("plan")(plan_command.plan)
app.add("reproduce")(reproduce_command.reproduce)
app.add_command(filter_command.app, name="filter")
app.add_command(pipeline.app, name="pipeline")
app.add_command(team.app, name="team")
app.add_command(user_command.app, name="user")
app.add_command(administration_command.app, name="admin")
app.add_command(journal_command.app, name="journal")
