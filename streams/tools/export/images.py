"""The image that an export's processes run in."""

import re

from streams.mesh.errors import UsageError

_IMAGE = re.compile(
    r"[a-z0-9][\w.\-]*(:\d+)?(/[a-z0-9][\w.\-]*)*(:\w[\w.\-]*)?(@sha256:[0-9a-f]{64})?", re.ASCII
)


def check_image(image: str) -> str | None:
    """Return a warning if the image has no digest. Raises UsageError if it is no image's name."""
    if _IMAGE.fullmatch(image) is None:
        raise UsageError(
            f"--image {image}: must be an image's name, as registry.example/mirrormesh@sha256:..."
        )
    if "@" in image:
        return None
    return f"--image {image} has no digest: what runs may change without you; name it with @sha256:..."
