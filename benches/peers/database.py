"""The cluster that the peers share, as the benchmark sees it: through psql, so that it needs no package."""

import os
import subprocess
from pathlib import Path
from urllib.parse import quote

SOCKET = os.environ["TIDEGATE_BENCH_CLUSTER"]
PROGRAMS = Path(os.environ["TIDEGATE_BENCH_PROGRAMS"])
PORT = 54329
TICKS = os.sysconf("SC_CLK_TCK")


def url(database):
    # A host that is a directory: every driver goes through the socket, whatever its library resolves `localhost` to.
    return f"postgres://postgres@{quote(SOCKET, safe='')}:{PORT}/{database}"


def program(name, *arguments):
    return [str(PROGRAMS / name), "-h", SOCKET, "-p", str(PORT), "-U", "postgres", *arguments]


class Session:
    """A psql process for several statements."""

    END = "end-of-answer"

    def __init__(self, database="postgres"):
        command = program("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", database)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def ask(self, sql):
        """The lines of the answer."""
        self.process.stdin.write(f"{sql.rstrip().rstrip(';')};\nselect '{self.END}';\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.rstrip("\n") == self.END:
                return lines
            lines.append(line.rstrip("\n"))
        raise RuntimeError("\n".join(lines[-5:]))

    def number(self, sql):
        return float(self.ask(sql)[0])

    def is_true(self, sql):
        return self.ask(sql)[0] == "t"

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def make(database):
    with Session() as session:
        session.ask(f'drop database if exists "{database}" with (force)')
        session.ask(f'create database "{database}"')


def drop(database):
    with Session() as session:
        session.ask(f'drop database if exists "{database}" with (force)')


def tidy(database):
    """Leaves no work of earlier runs to the next one."""
    with Session(database) as session:
        session.ask("vacuum (analyze)")
        session.ask("checkpoint")


def processor_ticks(pid):
    """Of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])


def processor_seconds(pid):
    try:
        return processor_ticks(pid)[0] / TICKS
    except OSError:
        return float("nan")


def server_seconds():
    """Processor time of the server and all its processes; not a number where the system does not provide it."""
    try:
        server = int((Path(SOCKET) / "data/postmaster.pid").read_text().split()[0])
        ticks = sum(processor_ticks(server))
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    except OSError:
        return float("nan")
    for child in children:
        try:
            ticks += sum(processor_ticks(child))
        except OSError:
            pass
    return ticks / TICKS
