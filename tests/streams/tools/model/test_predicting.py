"""Predictions, faults and scores of whole blocks of records are those of each record alone."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.losses.evaluation import predicted
from streams.local.scoring import score
from streams.mesh.errors import MeshFileError
from streams.mesh.model_file import Model
from streams.mesh.settings.algorithm import LossSettings
from streams.mesh.settings.node import NodeSettings
from streams.records.faults import EMPTY, MISSING, FaultCounts
from streams.records.lines import numbered_lines
from streams.records.schema_files import file_decoder
from streams.tools.model.predicting import ModelFile, ShownColumns, predictions

SCHEMA = {
    "features": {"x": "number", "word": {"categories": ["a", "b", "7"]}},
    "label": {"column": "label", "positive": ["yes"], "negative": ["no"]},
    "intercept": True,
    "norm": 3,
}
DIMENSION = 5
ORDINARY = {"x": "1.5", "word": "a", "label": "yes", "id": "p-1"}
ODD = {
    "x": ["", "NaN", "1e999", "0x1", " 2 ", "-0"],
    "word": ["", "7", "7.0", '"a'],
    "label": ["", "maybe", "NA", '"yes"'],
    "id": ["", "7", '"p,2"'],
}
CHANGES = st.sampled_from([(name, text) for name, texts in ODD.items() for text in texts])
WHOLE = st.sampled_from(["", "{", "1,2", "\x00", "a,b,c,d,e", '{"x": 1, "x": 2}', '{"x": [1]}'])


def as_csv(fields):
    return ",".join(fields.values())


def as_json(fields):
    """Some texts are no JSON: then the line is none."""
    texts = {
        name: text if name == "x" or text.startswith('"') or text == "7" else json.dumps(text)
        for name, text in fields.items()
    }
    return "{" + ", ".join(f'"{name}": {text}' for name, text in texts.items()) + "}"


@st.composite
def files(draw):
    """A few hundred records, of which some are odd; in some files all are."""
    kind = draw(st.sampled_from(["csv", "json-lines"]))
    size = draw(st.integers(1, 700))
    usual = ORDINARY | draw(st.sampled_from([{}, {}, {"label": ""}, {"label": "maybe"}, {"x": ""}]))
    line = as_csv if kind == "csv" else as_json
    chance = np.random.Generator(np.random.Philox(draw(st.integers(0, 99))))
    lines = [
        line(usual | ({} if not usual["x"] else {"x": repr(number)}))
        for number in chance.normal(size=size).tolist()
    ]
    for place, (name, text) in draw(st.dictionaries(st.integers(0, size - 1), CHANGES, max_size=8)).items():
        lines[place] = line(ORDINARY | {name: text})
    for place, text in draw(st.dictionaries(st.integers(0, size - 1), WHOLE, max_size=3)).items():
        lines[place] = text
    header = [",".join(ORDINARY)] if kind == "csv" else []
    return kind, "\n".join([*header, *lines]) + "\n"


def one_by_one(path, file, loss, vector, settings):
    """What predictions hold, of each record alone."""
    decoder = file_decoder(file, settings, ())
    lines = list(numbered_lines(str(path)))[1 if settings.kind == "csv" else 0 :]
    counts, labels_of, unlabelled = FaultCounts(), FaultCounts(), 0
    rows, labels, ids, numbers = [], [], [], []
    for number, line in lines:
        features, label = decoder.parts(line)
        counts.add(decoder.fault(line) if features is None else None)
        ids.append(decoder.text(line, "id"))
        numbers.append((number, features is not None))
        if features is not None:
            rows.append(features)
            labels.append(label)
            unlabelled += label is None
            fault = None if label is not None or unlabelled > 100 else decoder.fault(line)
            if fault is not None and fault.kind not in {EMPTY, MISSING}:
                labels_of.add(fault)
    following = iter(predicted(loss, vector, np.array(rows)).tolist() if rows else [])
    records = [(number, next(following) if readable else None) for number, readable in numbers]
    known = [k for k, label in enumerate(labels) if label is not None]
    scored = None
    if known:
        scored = score(loss, vector, np.array(rows)[known], np.array([labels[k] for k in known]))
    left_out = counts.records, list(counts.faults.items()), unlabelled, list(labels_of.faults.items())
    return records, ids, left_out, scored


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("predicted")


@given(files())
def test_blocks_of_records_are_predicted_as_each_alone(folder, drawn):
    kind, text = drawn
    path = folder / "records"
    path.write_text(text)
    source = {"kind": kind, "schema": SCHEMA, "path": str(path)}
    settings = NodeSettings.model_validate({"source": source}).source
    vector = tuple(np.random.Generator(np.random.Philox(7)).normal(size=DIMENSION).tolist())
    about = dict.fromkeys(("mesh", "run", "averaged", "algorithm"), "x")
    numbers = dict.fromkeys(("round", "nodes", "rounds"), 1)
    loss = LossSettings.model_validate("logistic")
    model = Model.model_construct(
        **about, **numbers, loss=loss, dimension=DIMENSION, newest=vector, average=vector, source=None
    )
    file = ModelFile(folder / "m.json", model)
    wanted = one_by_one(path, file, file.loss(None), np.array(vector), settings)
    if all(prediction is None for _, prediction in wanted[0]):
        with pytest.raises(MeshFileError, match="no record that can be read"):
            predictions(file, "newest", settings, file, ("source",))
        return
    seen = predictions(file, "newest", settings, file, ("source",), wanted=ShownColumns("id"))
    faults, labels = seen.left_out.records, seen.left_out.labels
    left_out = faults.records, list(faults.faults.items()), seen.left_out.unlabelled
    left_out += (list(labels.faults.items()),)
    assert repr((seen.records, seen.ids, left_out, seen.score)) == repr(wanted)
