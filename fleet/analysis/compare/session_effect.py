"""Changes beside what all hosts of a session have in common.

A disturbance of the network, the room or the hour moves all hosts of a session alike. It is part of what is
unknown of each change; but a change of few hosts stands out from those of the others (`evidence`).
"""

import numpy as np

from fleet.analysis.arrays import Floats
from fleet.analysis.compare.inference import added, beyond_p

_MUCH = 0.25  # of the variance of a change
_CHANCE = 0.01  # p of the median change, at least


def beside_session(
    changes: Floats, parts: Floats, freedom: Floats, scale: Floats, unlike: Floats, hosts: int
) -> Floats:
    """The changes, and beside the common one those that it hides; rows: change, error, freedom, p, common.

    parts, freedom: of the variance between runs, what all have in common first. scale: the variance of each
    change as a multiple of it. unlike: what sessions add to a change that lacks some of their runs. hosts:
    how many. Where much of the variance is common, there are two tests, each at half the level: of the
    change as it is, and beside the median of all. The second only where that median may be chance; else most
    have changed, and an unlike one may be the one that has not.
    """
    if np.median(parts[0] / parts.sum(axis=0)) <= _MUCH:
        return changes
    own, left = added(parts[1:], freedom[1:])
    errors, common, none = np.sqrt(own * scale), np.median(changes[0] - unlike), np.zeros(len(scale))
    of_median = np.sqrt(np.pi / 2 / hosts) / np.mean(1 / errors)
    of_common = np.hypot(np.sqrt(parts[0] * scale), of_median)
    apart, wider = changes[0] - unlike - common, np.hypot(errors, of_median)
    beside = np.array([apart, wider, left, beyond_p(apart, wider, left, none), none + common + unlike])
    may_be_chance = np.median(beyond_p(none + common, of_common, freedom[0], none)) >= _CHANCE
    found = np.where(may_be_chance & (beside[3] < changes[3]), beside, changes)
    found[3] = np.minimum(2 * found[3], 1.0)
    return found
