"""What a round costs more as each record is scored before it is learnt from.

Each mesh runs in one process with and without the scores, in turns. Compared are the processor
times of both, the least of several runs. The verdict at the end, which no round waits for, is timed apart.
"""

import time
from dataclasses import replace
from pathlib import Path

from streams.local.run import LocalRun, mesh_parts
from streams.mesh.file import load

MESHES = Path("deploy/meshes")
PAIRS = 6


def seconds(name: str, *, scored: bool) -> tuple[float, float, int]:
    """Return the processor time of a run's rounds, of its verdicts, and the number of nodes' rounds."""
    parts = mesh_parts(load(MESHES / f"{name}.yaml"))
    if not scored:
        nodes = {node: replace(own, score=lambda: None) for node, own in parts.nodes.items()}
        parts = replace(parts, nodes=nodes)
    local = LocalRun(parts)
    began = time.process_time()
    while local.to_round(local.recorder.common_rounds + 1):
        pass
    local.finish()
    ended = time.process_time()
    for node, history in local.recorder.nodes.items():
        local.recorder.verdict(node, history.decisions[-1])
    return (
        ended - began,
        time.process_time() - ended,
        sum(len(n.rounds) for n in local.recorder.nodes.values()),
    )


def main() -> None:
    """Print a line for each mesh."""
    for name in ("income", "emergency-visits", "forest-cover", "tracking"):
        turns = {True: list[tuple[float, float, int]](), False: list[tuple[float, float, int]]()}
        for pair in range(PAIRS):  # a process's first run costs more, so neither form is always the first
            for scored in (pair % 2 == 0, pair % 2 == 1):
                turns[scored].append(seconds(name, scored=scored))
        with_scores, without = (min(run[0] for run in turns[scored]) for scored in (True, False))
        verdict, rounds = min(run[1] for run in turns[True]), turns[True][0][2]
        share = 100 * (with_scores - without) / without
        print(
            f"{name}: {1e3 * without / rounds:.3f} ms a round and node, {share:+.1f} % with scores; "
            f"verdicts of all nodes {verdict:.2f} s"
        )


if __name__ == "__main__":
    main()
