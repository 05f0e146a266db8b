#!/usr/bin/env python3
"""Prints the tables of a file of results in Markdown: medians, [least-most], ratios.

  report.py FILE
"""

import json
import statistics
import sys
from collections import defaultdict

COMPARED = {
    "submit": "Single strict submissions, 8 in flight",
    "keyed": "The same, each with a key of its own",
    "near": "The same, 1,500 deep with marks 2000/1000",
    "snoozed": "With 100,000 that start tomorrow",
    "lives": "Whole lives",
}
results, failures = [], []
with open(sys.argv[1]) as file:
    for result in map(json.loads, file):
        (failures if "error" in result else results).append(result)
BY = defaultdict(list)
for result in results:
    if result["suite"] == "latency" and result.get("gap", 0) >= 400 and result["peer"] == "river":
        result["row"] += f", gaps to {result['gap']} ms"
    extra = result.get("procs") or (result.get("c") if result["suite"] == "insert1" else None)
    if result["suite"] in COMPARED:
        extra = None
    BY[result["suite"], result["row"], extra].append(result)


def values(key, field="rate"):
    return [result[field] for result in BY.get(key, []) if result.get(field) is not None]


def median(key, field="rate"):
    found = values(key, field)
    return statistics.median(found) if found else None


def number(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def spread(key, field="rate"):
    found = values(key, field)
    if not found:
        return "-"
    text = number(statistics.median(found))
    if len(found) > 1:
        text += f" [{number(min(found))}-{number(max(found))}]"
    if any(result.get("timeout") for result in BY[key]):
        text += " (T)"
    return text


def ratio(value, base):
    return "-" if not value or not base else f"{value / base:.2f}"


def rows(suite):
    return list(dict.fromkeys(result["row"] for result in results if result["suite"] == suite))


def of(suite, row, base):
    """The median of the ratios of each round."""
    rates = {result["round"]: result["rate"] for result in BY[suite, base, None]}
    ratios = [result["rate"] / rates[result["round"]]
              for result in BY[suite, row, None] if rates.get(result["round"])]
    return f"{statistics.median(ratios):.2f}" if ratios else "-"


def table(title, head, lines):
    lines = list(lines)
    if lines:
        print(f"### {title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
        for line in lines:
            print(f"| {' | '.join(map(str, line))} |")
        print()


def compared():
    for suite, title in COMPARED.items():
        lines = []
        for row in rows(suite):
            key = suite, row, None
            first = BY[key][0]
            lines.append([
                row, spread(key), of(suite, row, first["raw"]) if first["raw"] else "",
                of(suite, row, first["beside"]) if first["beside"] else "", number(median(key, "pgcpu10k")),
                number(median(key, "wal")) if median(key, "wal") else "",
                f"{sum(values(key, 'refused')):,}" if any(values(key, "refused")) else "",
            ])
        table(f"{title} (`{suite}`)",
              ["what", "per second", "of raw", "of its own without", "PG CPU s / 10k", "WAL B / job", "refused"], lines)


def classic():
    raw = {name: median(("pgbench", f"raw {name}", None))
           for name in ("insert 1", "insert 100", "claim 1 + delete", "claim 100 + delete")}
    table("Raw limits (pgbench, 8 clients, prepared)", ["script", "jobs/s", "runs", "PG CPU s / 10k jobs"], (
        [row, spread(("pgbench", row, None)), len(BY["pgbench", row, None]), number(median(("pgbench", row, None), "pgcpu10k"))]
        for row in rows("pgbench")))
    table("Insert (jobs/s)",
          ["peer", "single, 1 in flight", "single, 8 in flight", "/ raw insert 1", "bulk", "/ raw insert 100",
           "PG CPU s/10k single, bulk"], (
        [row, spread(("insert1", row, 1)), spread(("insert1", row, 8)), ratio(median(("insert1", row, 8)), raw["insert 1"]),
         spread(("bulk", row, None)), ratio(median(("bulk", row, None)), raw["insert 100"]),
         f"{number(median(('insert1', row, 8), 'pgcpu10k'))}, {number(median(('bulk', row, None), 'pgcpu10k'))}"]
        for row in dict.fromkeys(rows("insert1") + rows("bulk"))))
    processes = sorted({key[2] for key in BY if key[0] == "drain"})
    table("Drain, no-op handler (jobs/s)",
          ["peer", "jobs", *(f"{count} process{'es' if count > 1 else ''}" for count in processes), "first / raw claim 1",
           "first / raw claim 100", "PG CPU s/10k", "client CPU s/10k", "WAL B / job", "handled beyond n"], (
        [row, f"{BY['drain', row, processes[0]][0]['n']:,}", *(spread(("drain", row, count)) for count in processes),
         ratio(median(("drain", row, processes[0])), raw["claim 1 + delete"]),
         ratio(median(("drain", row, processes[0])), raw["claim 100 + delete"]),
         number(median(("drain", row, processes[0]), "pgcpu10k")), number(median(("drain", row, processes[0]), "clicpu10k")),
         number(median(("drain", row, processes[0]), "wal")),
         sum(max(0, result["handled"] - result["n"]) for count in processes for result in BY["drain", row, count])]
        for row in rows("drain") if BY["drain", row, processes[0]]))
    table("Pickup latency, idle queue, one job at a time (ms, add call start to handler start)",
          ["peer", "samples", "p50", "p95", "p99", "add call p50"], (
        [row, " + ".join(str(result["n"]) for result in BY["latency", row, None]),
         *(number(median(("latency", row, None), field)) for field in ("p50", "p95", "p99", "ins50"))]
        for row in rows("latency")))
    table("1M finished rows present (1 process, jobs/s)", ["peer", "empty history", "1M history", "ratio", "PG CPU s/10k"], (
        [row, number(median(("drain", row, 1))), spread(("archive", row, 1)),
         ratio(median(("archive", row, 1)), median(("drain", row, 1))), number(median(("archive", row, 1), "pgcpu10k"))]
        for row in rows("archive")))
    table("Open REPEATABLE READ snapshot while draining (1 process, jobs/s)",
          ["peer", "jobs", "without", "with", "ratio", "first 20 % -> last 20 % with", "PG CPU s/10k without, with"], (
        [row, f"{BY['horizon', row, 1][0]['n']:,}", spread(("control", row, 1)), spread(("horizon", row, 1)),
         ratio(median(("horizon", row, 1)), median(("control", row, 1))),
         f"{number(median(('horizon', row, 1), 'first20'))} -> {number(median(('horizon', row, 1), 'last20'))}",
         f"{number(median(('control', row, 1), 'pgcpu10k'))}, {number(median(('horizon', row, 1), 'pgcpu10k'))}"]
        for row in rows("horizon")))


def ratios():
    measures = [("insert1", 1, "insert, 1 in flight"), ("insert1", 8, "insert, 8 in flight"), ("bulk", None, "bulk insert"),
                ("drain", 1, "drain, 1 process"), ("drain", 4, "drain, 4 processes"), ("control", 1, "drain 50k"),
                ("horizon", 1, "drain 50k, held snapshot")]
    bases = {"insert1": "raw1", "bulk": "raw1"}
    lines = []
    for suite, extra, label in measures:
        for row in rows(suite):
            key, base = (suite, row, extra), bases.get(suite, "raw100")
            best = "gwrs" if suite in bases else "gwrs-tuned"
            if row not in (base, best) and key in BY:
                lines.append([row, label, number(median(key)), ratio(median(key), median((suite, base, extra))),
                              ratio(median(key), median((suite, best, extra)))])
    table("Ratios (median / median): inserts to raw1 and gwrs, drains to raw100 and gwrs-tuned",
          ["peer", "measure", "value", "/ raw", "/ graphile_worker for Rust"], lines)


compared()
classic()
ratios()
if failures:
    print("Failed runs:\n")
    for failure in failures:
        print("-", failure["suite"], failure["row"], " ".join(failure["error"].split())[:300])
