"""Makes of a summary what a card and a page of a site are made of: a run's row, CPUs and pairs."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fleet.analysis.exchange.imports import PREFIX, half_widths, published_cpus
from fleet.analysis.views.text import is_none
from fleet.store import schema
from fleet.text import one_line


def as_run(rows: pd.DataFrame) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame, str]:
    """Its row of `runs`, decoded, with what else is known; rows of `cpus` and `pairs`; a card's foot.

    rows: of one summary. No interval is made up: `spread` is NaN where the summary has none.
    """
    first = {name: None if is_none(value) else value for name, value in rows.iloc[0].items()}
    spread = half_widths(rows)
    pairs = rows.assign(variant=rows["variant"].fillna(""), median_ns=rows["latency_ns"], spread=spread)
    pairs = pairs.reindex(columns=[column.name for column in schema.TABLES["pairs"]])
    numbers = dict.fromkeys(("bursts", "flagged_bursts", "p99_ns"), float("nan"))
    pairs = pairs.assign(run_id=f"{PREFIX}{first['summary']}", flags="", **numbers)
    kept = ("cpu_model", "os", "conditions", "source")
    kinds: Sequence[str] = (pairs["benchmark"] + "/" + pairs["variant"]).unique().tolist()
    interval = "no interval" if spread.isna().all() else "with intervals"
    number = f"{first['tool']}'s {first['estimator'] or 'number'} of each pair"
    run = dict.fromkeys(column.name.removesuffix("_json") for column in schema.TABLES["runs"])
    run |= {name: first[name] for name in kept} | {
        "run_id": f"{PREFIX}{first['summary']}",
        "host_name": first["summary"],
        "number": number,
        "interval": interval,
        "cpus_measured": len({*rows["ping_cpu"], *rows["pong_cpu"]}),
        "benchmarks": kinds,
        "hello": {},
    }
    foot = one_line(" · ".join(filter(None, (number, interval, first["conditions"], first["source"]))))
    return run, published_cpus(rows), pairs, foot
