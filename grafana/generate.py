"""Writes the dashboards as JSON beside this file: `python -m grafana.generate`."""

from pathlib import Path
from types import ModuleType

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana import learning, mesh, overview, privacy
from grafana.build import built

FOLDER = Path(__file__).with_name("dashboards")
DASHBOARDS = {"overview": overview, "mesh": mesh, "privacy": privacy, "learning": learning}


def generated() -> dict[Path, str]:
    """Return the text of each dashboard's file."""
    return {
        FOLDER / f"{name}.json": _text(f"mirrormesh-{name}", module) for name, module in DASHBOARDS.items()
    }


def _text(uid: str, module: ModuleType) -> str:
    made = built(uid, module.TITLE, module.DESCRIPTION, module.ROWS).build()
    return JSONEncoder(sort_keys=True, indent=2).encode(made) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in generated().items():
        path.write_text(text)
