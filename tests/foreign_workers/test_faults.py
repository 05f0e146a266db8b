"""Workers of both languages beside those in Rust, in a short run of the fault suite (docs/reliability.md)."""

from __future__ import annotations

import os
import re
import subprocess

from fleet import PROGRAMS


def run(*options: str, **environment: str) -> str:
    """The output of a run."""
    short = ("--foreign", "--per-second=60", "--measured=0", "--response-timeout=30s", *options)
    ran = subprocess.run(
        [PROGRAMS / "tidegate-faults", "run", *short],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return ran.stdout + ran.stderr


def test_every_promise_holds_with_workers_of_all_languages() -> None:
    found = run("--time=20s", "--pause=700ms", "--only=worker_killed", "--only=worker_frozen", "--only=worker_stopped",
                "--only=network_cut", "--only=network_mute", "--only=database_read_only")  # fmt: skip
    assert "Every promise held." in found, found
    settled = dict(re.findall(r"(\S+) (\d+)", found.split("by worker: ")[1].split("\n")[0]))
    assert {"python", "typescript", "worker-1"} <= set(settled), settled


def test_a_worker_that_ignores_its_lease_is_found() -> None:
    found = run("--time=15s", "--only=nonsense", IGNORE_LEASE="1")
    [broken] = re.findall(r"each send was claimed before it left .* (\d+) violations", found)
    assert int(broken) > 0, found
