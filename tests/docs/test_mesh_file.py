"""The reference of the mesh file says of every key what it takes, what it is by default, and what it does."""

from docs.regions import mesh_file
from streams.mesh.settings.base import Choice, Settings
from streams.mesh.settings.files import FilePath

ROWS = list(mesh_file.rows())


def test_every_key_has_a_value_a_default_and_a_meaning():
    lacking = [
        f"{kind.__name__}.{row.key}: write below it what it does"
        for kind, row in ROWS
        if not (row.value and row.meaning.endswith(".") and (row.default or issubclass(kind, Choice)))
    ]
    assert lacking == []


def test_every_key_of_every_kind_of_settings_stands_there():
    shown = {(kind.__name__, row.key) for kind, row in ROWS}
    read_apart = {"WarmStart", "FrameSettings"}  # x_1 says what it takes; no mesh file has a frame
    every = {
        (kind.__name__, field.alias or name)
        for kind in mesh_file._kinds(Settings)
        if kind.__module__.startswith(("streams.mesh.settings", "streams.collaboration.settings"))
        and not kind.__name__.startswith("_")
        and kind.__name__ not in {"Choice", *read_apart}
        for name, field in kind.model_fields.items()
    }
    assert every == shown
    assert {
        ("SchemaSettings", "timestamp"),
        ("ColumnSettings", "hour"),
        ("FileSettings", "max_record_bytes"),
    } <= shown


def test_what_is_not_given_is_explained_where_nothing_stands_for_it():
    unsaid = [
        f"{kind.__name__}.{row.key}"
        for kind, row in ROWS
        if row.default == "not given" and "ot given" not in row.meaning
    ]
    assert unsaid == []


def test_a_key_without_a_meaning_is_noticed():
    class Undescribed(Settings):
        """Settings of a test."""

        path: FilePath = None
        size: int = 3
        """Its size."""

    found = {row.key: row for row in mesh_file._keys({}, Undescribed, Undescribed.model_json_schema())}
    assert (found["path"].meaning, found["size"].meaning) == ("", "Its size.")
    assert found["size"].default == "`3`"
