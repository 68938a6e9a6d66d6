"""The result of a storm, for a terminal and for docs/reliability.md."""

from __future__ import annotations

from tests.chaos.storm import Result

_MEANINGS = {
    "kill": "kill -9 under load",
    "kill at once": "kill -9 under load, and again as soon as it was ready",
    "kill in recovery": "kill -9 under load, and three times more while it starts",
    "terminate": "SIGTERM under load, exit status 0",
    "freeze": "SIGSTOP, some time, SIGCONT",
}


def table(result: Result, seed: int) -> str:
    rows = [(_MEANINGS[death], str(count)) for death, count in sorted(result.deaths.items())]
    rows += [
        ("audits of everything, one after each death", str(result.audits)),
        ("records acknowledged, not deleted by clients", f"{result.acknowledged:,}"),
        ("offset commits answered, one per message", f"{result.commits:,}"),
        ("topics created and deleted again", str(result.topics_deleted)),
        ("slowest start, recovery included", f"{result.slowest_start_seconds:.2f} s"),
        ("promises broken", str(len(result.wrong))),
        ("seed, duration", f"{seed}, {result.seconds:.0f} s"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"| {name:<{width}} | {value:>10} |" for name, value in rows)


def report(result: Result, seed: int) -> str:
    header = "| what | how often |\n| --- | ---: |\n"
    return _TEXT.format(table=header + table(result, seed))


_TEXT = """\
# What holds when things break

`python -m tests.chaos --deaths 40 --report docs/reliability.md` wrote this page's table: real clients (idempotent and
plain producers, a group that commits every message, topics that come and go, DeleteRecords, retention with small
segments) work all the time while the broker dies. Journal files, checkpoints, the hot tail and the number of open files
are set so small that every mechanism runs many times in each life. After each restart everything is read back:

- every acknowledged record is at its offset; those of idempotent producers are there once and in order;
- offsets have no gaps; what DeleteRecords removed does not come back;
- committed offsets never go back, and no message comes again below one;
- created topics are there, deleted ones are not, and after a clean stop no directory of theirs is left.

{table}
"""
