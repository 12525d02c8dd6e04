"""The image that deploy/Containerfile makes on a base of Debian's packages, and its root file system."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes.programs import leave_out, need
from tests.support.published.pages import ROOT

BASE = "localhost/mirrormesh-base"
NAME = "localhost/mirrormesh"
ENVIRONMENT = "opt/mirrormesh"
"""Where the image has its Python environment."""


@dataclass(frozen=True)
class Image:
    """An image, unpacked. `config`: what it says of itself, in OCI's words. `layers`: the bytes of each."""

    root: Path
    config: dict[str, object]
    layers: tuple[int, ...]

    @property
    def environment(self):
        """The variables that its processes have."""
        return dict(one.split("=", 1) for one in self.config["Env"])

    @property
    def packages(self):
        """The folder of its Python packages."""
        (found,) = (self.root / ENVIRONMENT / "lib").glob("python3.*/site-packages")
        return found


def built(folder):
    """Build base and image in `folder`, which takes all that is stored; return the image."""
    if os.geteuid() != 0:
        leave_out("of the image: only root may build it and change the root of a process")
    for program in ("buildah", "mmdebstrap"):
        need(program)
    settings = folder / "storage.conf"
    settings.write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/stored"\nrunroot = "{folder}/run"\n'
    )
    environment = os.environ | {
        "CONTAINERS_STORAGE_CONF": str(settings),
        "ENGINE": "buildah",
        "BASE": BASE,
        "IMAGE_OPTIONS": "--isolation chroot",
    }

    def said(*words):
        done = subprocess.run(
            words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=900
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout.strip()

    said("deploy/image/base.sh")
    said("deploy/image/build.sh", NAME)
    about = json.loads(said("buildah", "inspect", "--type", "image", NAME))
    root = Path(said("buildah", "mount", said("buildah", "from", "--pull-never", NAME)))
    layers = tuple(layer["size"] for layer in json.loads(about["Manifest"])["layers"])
    return Image(root, about["OCIv1"]["config"], layers)
