"""Both libraries are typed and packaged, and the quickstarts of docs/workers.md run as they are written."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

from fleet import PROGRAMS, ROOT, Server

DOCUMENT = (ROOT / "docs" / "workers.md").read_text()


def test_python_is_typed_strictly() -> None:
    # `prepare` compiles the TypeScript, with `strict`.
    for paths in (["workers/python/tidegate_worker", "workers/python/example.py"], ["tests/foreign_workers"]):
        checked = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, *paths],
            cwd=ROOT, env={**os.environ, "MYPYPATH": str(ROOT / "workers" / "python")}, capture_output=True, text=True,
        )  # fmt: skip
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_quickstart_runs(server: Server, tmp_path: pathlib.Path) -> None:
    database, *quickstarts = re.findall(r"^```sh\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert len(quickstarts) == 2
    built = shutil.ignore_patterns("node_modules", "dist", "build", "*.egg-info", "__pycache__")
    for name in ("python", "typescript"):
        shutil.copytree(ROOT / "workers" / name, tmp_path / "workers" / name, ignore=built)
    for quickstart in quickstarts:
        script = f"set -euo pipefail\ntrap 'kill $(jobs -p)' EXIT\n{database}\n{quickstart}"
        path = f"{PROGRAMS}:{os.environ['PATH']}"
        environment = {**server.environment, "PATH": path, "TIDEGATE_LISTEN": "127.0.0.1:0"}
        ran = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "direct is completed" in ran.stdout, ran.stdout
        assert "has stopped" in ran.stdout + ran.stderr
