"""What a delete of several names came to. Each name that stays gets its line, and the exit status is 1."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

from trunkline.cli import show
from trunkline.cli.client import result_of
from trunkline.cli.failure import Failure


def report_deleted(futures: Mapping[str, Future[None]], kind: str, as_json: bool) -> None:
    deleted, failures = [], []
    for name, future in futures.items():
        try:
            result_of(future, f"delete {kind} {name!r}")
            deleted.append(name)
        except Failure as failure:
            failures.append(str(failure))
    if as_json:
        show.document({"deleted": deleted})
    elif deleted:
        print(f"deleted {', '.join(deleted)}")
    if failures:
        raise Failure("\ntrunkline: ".join(failures))
