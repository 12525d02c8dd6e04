"""Writes the files of a run: each whole under another name first, then renamed.

Regret and counts have no noise, so only the owner may read their files (mode 0600), even over older ones.
"""

import csv
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from pathlib import Path

from nodes.values import FloatArray
from streams.local.recorder import Recorder
from streams.local.summary import Summary, spent

ROUNDS, SUMMARY, MODEL = "rounds.csv", "summary.json", "model"


def write_results(folder: Path, recorder: Recorder, summary: Summary) -> tuple[Path, Path]:
    """Write the rounds and `summary.json` into the folder; return their paths. Raises OSError.

    The rounds of a continued run go into a file beside the earlier ones: `rounds-from-501.csv`.
    """
    rounds = ROUNDS if summary.first_round == 1 else f"rounds-from-{summary.first_round}.csv"
    write_rounds(folder / rounds, recorder, len(summary.decision))
    text = json.dumps(summary.as_json(), indent=2, allow_nan=False)
    write_whole(folder / SUMMARY, f"{text}\n".encode(), private=True)
    return folder / rounds, folder / SUMMARY


def write_rounds(path: Path, recorder: Recorder, dimension: int) -> None:
    """Write one row per round and node, over the rounds that every node has stepped. Raises OSError.

    `regret` is local R_T, `gap` max_j ||q_j - q_i|| over what the node heard, `epsilon_spent` stream-level.
    """
    common = recorder.common_rounds
    spends = {name: spent(node, common) for name, node in recorder.nodes.items()}
    coordinates = [f"decision_{k + 1}" for k in range(dimension)]
    rows = (
        [
            node.rounds[t],
            name,
            *node.decisions[t].tolist(),
            node.regrets[t],
            node.gaps[t],
            spends[name][t],
        ]
        for t in range(common)
        for name, node in recorder.nodes.items()
    )
    write_csv(path, ["round", "node", *coordinates, "regret", "gap", "epsilon_spent"], rows, private=True)


def write_columns(path: Path, columns: dict[str, FloatArray]) -> None:
    """Write arrays of shape (T,) as columns. Raises OSError."""
    write_csv(path, list(columns), zip(*(values.tolist() for values in columns.values()), strict=True))


def write_csv(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[object]], *, private: bool = False
) -> None:
    """Write a table, floats with all their digits. Raises OSError."""
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode(), private=private)


def write_whole(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write the file, or leave the old one unchanged; `private`: mode 0600. Raises OSError."""
    save_whole(path, lambda unfinished: unfinished.write_bytes(content), private=private)


def save_whole(path: Path, save: Callable[[Path], object], *, private: bool = False) -> None:
    """Call `save` with another name, then rename the file. Raises OSError, and what `save` raises.

    `private`: its mode is 0600; otherwise the process's mask sets it. An OSError names `path`.
    """
    try:
        _save_beside(path, save, private=private)
    except OSError as error:  # of a full disk it names no file, or the unfinished one
        error.filename = str(path)
        raise


def _save_beside(path: Path, save: Callable[[Path], object], *, private: bool) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(descriptor)
    unfinished = Path(name)
    try:
        save(unfinished)
        unfinished.chmod(0o600 if private else 0o666 & ~_umask())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
