"""The main job: run."""

from functools import partial
from typing import Annotated

import typer

from fleet.cli.app import (
    INVENTORY,
    RESULTS,
    ConnectTimeout,
    InventoryPath,
    Json,
    Lock,
    Parallel,
    Quiet,
    Reconnect,
    ResultsPath,
    Select,
    app,
    stop_on_signals,
)


@app.command(short_help="Measure every CPU pair of the hosts; store the raw samples.")
def run(
    select: Select = None,
    inventory: InventoryPath = INVENTORY,
    results: ResultsPath = RESULTS,
    benchmark: Annotated[
        str | None, typer.Option("--benchmark", "-b", help="cas, readwrite, clock or all, comma-separated.")
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            help="Instructions: auto (the best the CPU has), all, a name, or cas=lse,readwrite=ldar."
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="Sample and estimate as core_latency, core-to-core-latency or c2clat does."),
    ] = None,
    samples: Annotated[
        int | None, typer.Option("--samples", "-s", min=1, max=10_000, help="Samples in a burst.")
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations", "-i", min=1, max=100_000_000, help="Round trips a sample; default: per pair."
        ),
    ] = None,
    warmup: Annotated[int | None, typer.Option(min=0, max=1_000, help="Warm-up samples a burst.")] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1, max=100_000, help="Visits to every pair; default: 10 over 5 s, then --precision."
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(help="Add rounds until each pair is known so well, as 1%, or off; default: 1%."),
    ] = None,
    time_budget: Annotated[
        str | None, typer.Option(help="Seconds after which no round is added; default: generous.")
    ] = None,
    spread: Annotated[
        str | None, typer.Option(help="Seconds the first rounds take at least; default: 5.")
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(help="half, ordered (both ways), a list as 0-1,0-4, or per-relation:K; default: half."),
    ] = None,
    ordered: Annotated[bool, typer.Option("--ordered", help="The same as --pairs ordered.")] = False,
    cpus: Annotated[str | None, typer.Option("--cpus", "-c", help="Only these CPUs, as 0-3,8.")] = None,
    order: Annotated[
        str | None, typer.Option(help="Of the pairs in a round: shuffled (default) or sequential.")
    ] = None,
    line: Annotated[
        str | None, typer.Option(help="A fresh cache line for every burst (default), or a fixed one.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option(help="Who touches the lines first: ping (default) or pong.")
    ] = None,
    node: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Put the lines on this NUMA node.")
    ] = None,
    sep: Annotated[
        int | None, typer.Option(min=4, max=1 << 20, help="Bytes between the two lines of readwrite.")
    ] = None,
    huge_page: Annotated[bool, typer.Option("--huge-page", help="Put the lines in a huge page.")] = False,
    governor: Annotated[
        str | None, typer.Option(help="Set this frequency governor for the run, then restore the old one.")
    ] = None,
    boost: Annotated[
        str | None, typer.Option(help="Set frequency boost on or off for the run, then restore it.")
    ] = None,
    priority: Annotated[
        int | None, typer.Option(min=1, max=98, help="Realtime priority to ask for; a refusal is noted.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Of the shuffled order.")] = None,
    deadline: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000_000, help="Seconds after which an agent ends itself; default: generous."
        ),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", "-l", help="key=value stored with every run; repeatable.")
    ] = None,
    parallel: Parallel = 32,
    connect_timeout: ConnectTimeout = 15.0,
    lock: Lock = None,
    reconnect: Reconnect = 60.0,
    shard: Annotated[
        str | None, typer.Option(help="Only part i of n of the hosts, as 2/4; n controllers do all of them.")
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(help="Let the workers of a Dask scheduler measure: tcp://host:8786, or local:N."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would be done; connect to nothing.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure every CPU pair of the chosen hosts and store the raw samples.

    Example: fleet run servers -b cas,readwrite --rounds 20 -l kernel=6.12
    """
    from fleet.console import summary
    from fleet.console.progress import progress
    from fleet.errors import UsageError
    from fleet.inventory.select import load
    from fleet.model import RequestedOptions
    from fleet.plan import options
    from fleet.remote.connect import connect
    from fleet.session import log, outcome, runner, shards
    from fleet.session.context import SessionContext
    from fleet.store import Store, new_session_id

    chosen = load(inventory).select(select or [])
    if shard is not None:
        part, total = shards.parse(shard), len(chosen)
        chosen = shards.take(chosen, part)
        typer.echo(f"shard {part}: {len(chosen)} of {total} hosts", err=True)
    if ordered and pairs not in (None, "ordered"):
        raise UsageError(f"--ordered and --pairs {pairs} exclude one another; keep one of them.")
    requested = RequestedOptions(
        benchmarks=options.benchmarks(benchmark) if benchmark is not None else None,
        samples=samples,
        iterations=iterations,
        warmup=warmup,
        rounds=rounds,
        cpus=options.cpus(cpus) if cpus is not None else None,
        node=node,
        separation_bytes=sep,
        huge_page=huge_page or None,
        seed=seed,
        priority=priority,
        deadline_s=deadline,
        **options.plan(
            variant=variant,
            preset=preset,
            precision=precision,
            time_budget_s=time_budget,
            spread_s=spread,
            pairs=pairs or ("ordered" if ordered else None),
            order=order,
            line=line,
            owner=owner,
            governor=governor,
            boost=boost,
        ),
    )
    labels = options.labels(label or [])
    if not chosen:
        typer.echo(summary.outcomes_json([]) if json else "Nothing to measure in this shard.")
        return
    if dry_run:
        typer.echo(summary.plans_json(chosen, requested) if json else summary.plans_text(chosen, requested))
        return
    store = Store(results)
    store.make_ready()
    with progress(chosen, quiet=quiet) as show, stop_on_signals():
        session_id = new_session_id()
        session_log = log.SessionLog(store.state_dir / "_logs" / session_id, show)
        context = SessionContext(
            session_id=session_id,
            store=store,
            emit=session_log,
            requested=requested,
            labels=labels,
            parallel=parallel,
            lock=lock,
            reconnect_s=reconnect,
            connect=partial(connect, timeout_s=connect_timeout),
        )
        if dask is None:
            ended = runner.run(chosen, context)
        else:
            from fleet.session import dask_cluster

            ended = dask_cluster.run(dask, chosen, context, connect_timeout)
    logs = str(session_log.folder)
    typer.echo(summary.outcomes_json(ended) if json else summary.outcomes_text(ended, logs))
    raise typer.Exit(outcome.exit_code(ended))
