"""Avro messages behind a registry's frame, as a producer writes them."""

import json
from io import BytesIO

from tests.support.processes.programs import leave_out

try:
    import fastavro
except ImportError:
    fastavro = None


def need_fastavro():
    """Go on where what reads Avro is installed; else leave the test out, or fail it if CI is set."""
    if fastavro is None:
        leave_out("with fastavro: it is missing: pip install 'mirrormesh[registry]'")


def record(name="R", /, **fields):
    """The schema of a record of these fields, by their types."""
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def message(number, schema, value):
    """A value behind the frame of a schema's id."""
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return b"\0" + number.to_bytes(4, "big") + stream.getvalue()
