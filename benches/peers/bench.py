#!/usr/bin/env python3
"""Runs suites and appends a line of JSON for each run; `run` calls it. See README.md.

  bench.py [--suites a,b] [--peers a,b] [--rounds 3] [--seconds 10] --out FILE
"""

import argparse
import json
import sys
import time

import measure
from peers import PEERS
from suites import ROUNDS_AT_MOST, SUITES, Options


def names(text, known, what):
    wanted = [name for name in text.replace(" ", ",").split(",") if name]
    for name in wanted:
        if name not in known:
            sys.exit(f"there is no {what} {name}; there are: {' '.join(known)}")
    return wanted


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--suites", default="", help="which; all, unless said otherwise: " + " ".join(SUITES))
    parser.add_argument("--peers", default="", help="of the suites' peers only these")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=measure.USUAL_SECONDS, help="of a timed run; few shorten all others")
    parser.add_argument("--processes", default="1,4", help="of drains")
    parser.add_argument("--jobs", type=int, default=0, help="of drains, instead of each peer's own number")
    parser.add_argument("--limit", type=int, default=60, help="seconds of a drain, at most")
    parser.add_argument("--gap", type=int, default=0, help="milliseconds between the jobs of latency, at most")
    parser.add_argument("--groups", action="store_true", help="only say what `install` is to install")
    parser.add_argument("--out", default="/dev/null")
    return parser.parse_args()


def shown(result):
    return "  ".join(
        f"{key} {value:,.2f}" if isinstance(value, float) else f"{key} {value}"
        for key, value in result.items() if value is not None
    )


def main():
    wanted = arguments()
    suites = names(wanted.suites, SUITES, "suite") or list(SUITES)
    peers = names(wanted.peers, PEERS, "peer")
    options = Options(
        measure.Length(wanted.seconds), processes=tuple(map(int, wanted.processes.split(","))), jobs=wanted.jobs,
        limit=wanted.limit, gap=wanted.gap,
    )
    rows = {suite: [row for row in SUITES[suite](options) if not peers or row.peer in peers] for suite in suites}
    used = {row.peer: PEERS[row.peer] for some in rows.values() for row in some}
    if wanted.groups:
        print(*dict.fromkeys(peer.group for peer in used.values()))
        return 0
    missing = {name: peer.missing() for name, peer in used.items() if peer.missing()}
    for name, why in missing.items():
        print(f"{name} is skipped: {why}", flush=True)
    failed = 0
    with open(wanted.out, "a") as out:
        for suite in suites:
            there = [row for row in rows[suite] if row.peer not in missing]
            for number in range(min(wanted.rounds, ROUNDS_AT_MOST.get(suite, wanted.rounds))):
                for row in there:
                    begun = time.time()
                    try:
                        result = row.run()
                    except Exception as error:  # the others go on
                        result = dict(error=str(error)[:1200])
                        failed += 1
                    print(f"{suite} {number + 1}: {row.name}:  {shown(result)}", flush=True)
                    line = dict(suite=row.suite or suite, round=number, row=row.name, peer=row.peer, raw=row.raw,
                                beside=row.beside, **result, t=round(begun), took=round(time.time() - begun, 1))
                    out.write(json.dumps(line) + "\n")
                    out.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
