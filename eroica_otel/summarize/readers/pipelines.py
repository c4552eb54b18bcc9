"""Sends and receives in a trace -> which stage of a pipeline the worker is. Pure.

NCCL's kernel for point-to-point has one name whoever sends what to whom, so functions do not tell stages apart. What
launched it does: torch writes the peer of each send and receive, and the ranks of their process group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eroica_otel.summarize.readers.arguments import RECEIVES, SENDS, Arguments

_NEIGHBOURS = 2
"""In a pipeline a worker talks with the stage before and the one after it."""


def stage_of(
    told: Iterable[Arguments], groups: Mapping[str, tuple[int, ...]], rank: int | None, world: int | None
) -> str:
    """Return "stage 3 of 4", where nobody tells so much "first stage", "middle stage" or "last stage"; "" where the
    worker is in no pipeline.

    A training's pipeline goes both ways between two stages: activations there, gradients back. A ring does not, but one
    of two workers, whose halves then count as two stages.

    Args:
        told: Arguments of collectives and of what launched them.
        groups: Process group -> ranks.
        rank: The worker's, None where the trace does not tell.
        world: Workers of the job, None where the trace does not tell.
    """
    found = [one for one in told if one.collective in (SENDS, RECEIVES)]
    sent = {one.peer() for one in found if one.collective == SENDS}
    received = {one.peer() for one in found if one.collective == RECEIVES}
    peers = {peer for peer in sent | received if peer is not None}
    if rank is None or not peers or sent != received or None in sent or rank in peers or len(peers) > _NEIGHBOURS:
        return ""
    used = {groups.get(one.group or "") or one.members() for one in found}
    ranks = used.pop() if len(used) == 1 else ()
    if rank in ranks and len(ranks) < (world or 0) and all(_beside(ranks, rank, peer) for peer in peers):
        return f"stage {ranks.index(rank) + 1} of {len(ranks)}"
    if min(peers) > rank:
        return "first stage"
    return "last stage" if max(peers) < rank else "middle stage"


def _beside(ranks: tuple[int, ...], rank: int, peer: int) -> bool:
    """Whether the peer is the next or the previous one in the group; of interleaved stages the last calls the first."""
    return peer in ranks and (ranks.index(peer) - ranks.index(rank)) % len(ranks) in (1, len(ranks) - 1)
