"""Medians, and the intervals that order statistics give them. Nothing is assumed of a distribution."""

from math import comb


def median(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


def ranks(count, coverage=0.95):
    """Ranks, from 1, of the narrowest pair of order statistics that holds the median so often; None for
    too few samples: five cannot."""
    tail = (1 - coverage) / 2
    below, rank = 0, 0
    while rank < count:
        below += comb(count, rank)
        # P(fewer than rank + 1 samples lie below the median): the lower end of rank + 1 misses so often.
        if below > tail * 2**count:
            break
        rank += 1
    return (rank, count + 1 - rank) if rank else None


def interval(values):
    """(median, low, high); the ends are None for too few samples."""
    pair = ranks(len(values))
    if pair is None:
        return median(values), None, None
    ordered = sorted(values)
    return median(values), ordered[pair[0] - 1], ordered[pair[1] - 1]


def ratio(theirs, ours):
    """Interval of their time over ours, paired by round: above 1 we are faster."""
    if len(theirs) != len(ours):
        raise ValueError(f"{len(theirs)} samples of theirs, {len(ours)} of ours")
    return interval([their / our for their, our in zip(theirs, ours)])


def moved(clocks):
    """By which part of the lowest the clocks of one round differ."""
    return max(clocks) / min(clocks) - 1


# Most that a clock may move within a round, and a ceiling within a call.
MAX_CLOCK_MOVE = 0.03
MAX_CEILING_DRIFT = 0.02


def is_steady(clocks):
    """Whether a round counts. A clock that could not be read is 0 and says nothing."""
    known = [clock for clock in clocks if clock]
    return not known or moved(known) <= MAX_CLOCK_MOVE


def kept(rounds, drop):
    """Rounds that count: (rounds after the first ones with steady clocks, how many were dropped for clocks).

    A round is a list of (seconds, clock), an entry for each contender.
    """
    counted = rounds[drop:]
    steady = [entries for entries in counted if is_steady([clock for _, clock in entries])]
    return steady, len(counted) - len(steady)


def per_graph(seconds, num_sets, least_seconds=2e-3):
    """How many executes a graph holds: whole rotations over the sets, and 2 ms at least."""
    rotations = max(1, -int(-least_seconds // (seconds * num_sets)))
    return num_sets * rotations


def num_sets(set_bytes, least_bytes=180_000_000):
    """Sets of inputs and outputs in rotation, so that each is out of the second-level cache when its turn
    comes: three times the largest."""
    return max(1, -(-least_bytes // set_bytes))
