"""A small collaboration of three owners, with its files in a folder."""

import numpy as np

from streams.mesh.file import load_any

SIZES = {"a": 6, "b": 4, "c": 5}


def text(noise="{simulated: 3}", run="first", sharing=1, more="") -> str:
    """The mesh file."""
    owners = "\n".join(
        f"  {name}: {{source: {{kind: csv, path: {name}.csv, schema: schema.yaml}}}}" for name in SIZES
    )
    return f"""\
mesh:
  kind: collaboration
  name: small
  run: {run}
  learner: l
  owners:
    a: {{records: 6, epsilon: 8}}
    b: {{records: 4, epsilon: 9, mechanism: gaussian, delta: 1.0e-6}}
    c: {{records: 5, epsilon: 7}}
  dimension: 3
  loss: squared
  regulariser: 0.1
  constraint: {{l2-ball: 5}}
  algorithm: {{name: averaged, step: 0.5}}
  queries: 5
  gradient_bound: 1
  sharing: {sharing}
  noise: {noise}
owners:
{owners}
{more}"""


def write(folder, canary=0.5, **changes):
    """Write the mesh file, the schema and the owners' records; return the path of the first."""
    (folder / "schema.yaml").write_text(
        "features: {x: number, y: number}\nlabel: {column: z}\nintercept: true\n"
    )
    random = np.random.default_rng(4)
    for name, count in SIZES.items():
        rows = [",".join(f"{value:.3f}" for value in random.normal(size=3)) for _ in range(count - 1)]
        (folder / f"{name}.csv").write_text("\n".join(["x,y,z", f"{canary},0.25,-0.125", *rows]) + "\n")
    path = folder / "small.yaml"
    path.write_text(text(**changes))
    return path


def written(folder, **changes):
    """The loaded mesh file."""
    return load_any(write(folder, **changes))
