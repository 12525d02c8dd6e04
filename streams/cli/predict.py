"""`mirrormesh predict`: predicts the labels of records with a model."""

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streams.local.results import write_csv
from streams.mesh.errors import writable_folder
from streams.mesh.file import load
from streams.mesh.model_file import VectorName
from streams.terminal.report import say, scored
from streams.terminal.wording import counted, listed
from streams.tools.model.predicting import Predictions
from streams.tools.model.predicting import predict as predictions_of


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model, JSON or npz.", show_default=False)],
    records: Annotated[
        str, typer.Argument(metavar="FILE", help="The records; -: standard input.", show_default=False)
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="CSV", help="Write the predictions there. [default: print]"),
    ] = None,
    vector: Annotated[
        VectorName, typer.Option("--vector", help="The newest decision, or the average over the rounds.")
    ] = "average",
    mesh: Annotated[
        tuple[Path, str] | None,
        typer.Option(
            "--mesh", metavar="MESH NODE", help="Read records like that node, not as the model says."
        ),
    ] = None,
) -> None:
    """Predict the labels of a file's records, as CSV.

    The records must look like those of the mesh. Each output line has a record's line number and its
    prediction: a score (its sign is the class) for losses of two classes and of numbers, a distance for
    range, the class's index and name for softmax, or an own loss's prediction. If the file has labels, the
    model's accuracy is shown. A record that cannot be read has no prediction; only its line number is listed.

    \b
    Examples:
      mirrormesh predict results/model.json new.csv
      mirrormesh predict fraud.npz new.jsonl --vector newest --output predictions.csv
    """  # noqa: D301 # \b is click's mark: no new line breaks
    if output is not None:
        writable_folder(output.parent, [output.name])
    trusted = None if mesh is None else (load(mesh[0]), mesh[1])
    made = predictions_of(model, records, vector, trusted)
    header, rows = _table(made)
    if output is None:
        csv.writer(sys.stdout, lineterminator="\n").writerows([header, *rows])
    else:
        write_csv(output, header, rows)
    _say(Console(highlight=False, stderr=output is None), records, made)


def _table(predictions: Predictions) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Return headings and rows; a class has its index and its name."""
    if not predictions.classes:
        return ("line", "prediction"), [
            (k, "" if found is None else found) for k, found in predictions.records
        ]
    rows: list[tuple[object, ...]] = [
        (k, "", "") if found is None else (k, int(found), predictions.classes[int(found)])
        for k, found in predictions.records
    ]
    return ("line", "prediction", "class"), rows


def _say(console: Console, records: str, predictions: Predictions) -> None:
    unread = [f"{number:,}" for number, found in predictions.records if found is None]
    if unread:
        say(console, f"{records}: {counted(len(unread), 'record')} cannot be read: line {listed(unread)}.")
    if predictions.score is not None:
        say(
            console,
            f"{counted(predictions.score.records, 'labelled record')}: {scored(predictions.score)}.",
            "bold",
        )
