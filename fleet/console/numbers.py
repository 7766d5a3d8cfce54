"""The numbers at the end of a session: the medians of what it has stored, as `fleet show` has them."""

from collections.abc import Sequence

from fleet.console.summary import MANY
from fleet.errors import StoreError
from fleet.session.outcome import Outcome
from fleet.store import Listing, Store

# Reducing more would delay the end of a session; `fleet show` does it.
MOST_BURSTS, MOST_HOSTS = 400_000, 50
MOST_LIKE = 20  # runs of a host, to say how far they differ


def medians_text(
    store: Store, outcomes: Sequence[Outcome], width: int | None, *, colour: bool, as_map: bool = False
) -> str:
    """Medians by relation and benchmark: by host, over many, of very many none. as_map: with heat maps."""
    stored = {outcome.run_id for outcome in outcomes if outcome.is_stored}
    bursts = sum(outcome.bursts for outcome in outcomes)
    if not stored or bursts > MOST_BURSTS or len(stored) > MOST_HOSTS:
        return ""
    from fleet.analysis.base.selection import by_host, comparable  # noqa: PLC0415  numpy takes a while
    from fleet.analysis.views.heatmap import Canvas  # noqa: PLC0415
    from fleet.analysis.views.show import render_maps, render_overview  # noqa: PLC0415

    try:
        root, canvas = Listing(store.place), Canvas(width, colour)
        runs = [run for run in root.runs if run.run_id in stored]
        many, hosts = len(stored) > MANY, {run.host_id for run in runs}
        others = [run for run in root.runs if run.host_id in hosts and not many]
        earlier = [run for of_host in by_host(others).values() for run in comparable(of_host)[-MOST_LIKE:]]
        earlier = [run for run in earlier if run.run_id not in stored]
        parts = [render_overview(root, runs, canvas, earlier, ends=many)]
        if as_map and len(runs) <= MANY:
            parts += [render_maps(root, run.run_id, canvas) for run in runs]
    except StoreError as err:
        return f"The runs are stored, but cannot be summarized: {err}"
    return "\n\n".join(part for part in parts if part)
