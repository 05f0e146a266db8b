"""Clusters of PostgreSQL, each in a folder of its own. PostgreSQL refuses to run as root, so another user runs it then."""

import glob
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

PATIENCE = 300
HOST = "127.0.0.1"
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
track_functions = pl
archive_timeout = 5
"""


def account():
    """What makes a process one of the user that runs PostgreSQL."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    sys.exit("PostgreSQL does not run as root, and there is no user postgres or nobody")


def own(folder):
    """Makes a folder for the user that runs PostgreSQL, and returns it."""
    folder.mkdir()
    user = account()
    if user:
        os.chown(folder, user["user"], user["group"])
    return folder


def version(programs):
    """The major version of the PostgreSQL in a folder of programs."""
    said = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"\d+", said)[0])


def installed(before):
    """The programs of the newest PostgreSQL of the system before a version."""
    folders = [os.environ.get("TIDEGATE_POSTGRES_BIN"), *glob.glob("/usr/lib/postgresql/*/bin"), *glob.glob("/usr/pgsql-*/bin")]
    found = shutil.which("postgres")
    folders.append(found and os.path.dirname(os.path.realpath(found)))
    programs = [pathlib.Path(folder) for folder in folders if folder and os.access(f"{folder}/pg_dump", os.X_OK)]
    programs = [folder for folder in programs if 14 <= version(folder) < before]
    if not programs:
        sys.exit(f"PostgreSQL 14 to {before - 1} is needed, with pg_dump; TIDEGATE_POSTGRES_BIN may name its programs")
    return max(programs, key=version)


def free_port():
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return listener.getsockname()[1]


class Cluster:
    """A cluster in a folder that `initialise`, a copy or pg_upgrade makes."""

    def __init__(self, programs, folder):
        self.programs = programs
        self.folder = folder
        self.port = free_port()
        self.server = None

    def url(self, database="tidegate"):
        return f"postgres://postgres@{HOST}:{self.port}/{database}"

    def run(self, program, *arguments, succeeds=True, folder=None):
        """Runs one of PostgreSQL's programs, or another one by its path, as its user."""
        done = subprocess.run(
            [self.programs / program, *arguments], cwd=folder or self.folder.parent, capture_output=True, text=True,
            timeout=PATIENCE, env={**os.environ, "PGOPTIONS": "", "TZ": "UTC"}, **account(),
        )
        if succeeds and done.returncode != 0:
            sys.exit(f"{program} {' '.join(map(str, arguments))}: {done.stdout}{done.stderr}")
        return done

    def initialise(self):
        # Small files of WAL, so that one is full, and so archived, every few seconds.
        self.run(
            "initdb", "-D", self.folder, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale", "C",
            "--data-checksums", "--wal-segsize", "1",
        )

    def configure(self, settings=SETTINGS):
        with open(self.folder / "postgresql.auto.conf", "a") as file:
            file.write(f"{settings}\n")

    def start(self):
        """Starts the server, and returns once it takes writes."""
        with open(self.folder.parent / f"{self.folder.name}.log", "a") as log:
            self.server = subprocess.Popen(
                [self.programs / "postgres", "-D", self.folder, "-p", str(self.port)],
                cwd=self.folder, stdout=log, stderr=log, **account(),
            )
        ready = ["psql", "-XAtqc", "select pg_is_in_recovery()", self.url("postgres")]
        deadline = time.monotonic() + PATIENCE
        while self.run(*ready, succeeds=False).stdout != "f\n":
            if self.server.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"PostgreSQL has not started: {self.folder}.log")
            time.sleep(0.1)

    def stop(self):
        """Stops the server, as for maintenance."""
        if self.server and self.server.poll() is None:
            self.server.send_signal(signal.SIGINT)
            self.server.wait(PATIENCE)

    def kill(self):
        """Kills the server; its processes end when they notice that it is gone."""
        self.server.kill()
        self.server.wait()

    def execute(self, statements, database="tidegate"):
        """Runs statements in one transaction, and returns what they have printed."""
        return self.run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statements, self.url(database)).stdout.strip()

    def rows(self, query, database="tidegate"):
        """The rows of a query, each as a dict."""
        return json.loads(self.execute(f"select coalesce(json_agg(row_of), '[]') from ({query}) as row_of", database))

    def value(self, query, database="tidegate"):
        [row] = self.rows(query, database)
        [value] = row.values()
        return value
