"""The processes of exported manifests as a cluster runs them: files, variables, ports, arguments."""

import yaml

ANY = "0.0.0.0"  # noqa: S104 # what pods listen on


def objects(files):
    """The objects in the files of an export, by kind and name."""
    texts = [text for name, text in files.items() if name != "kustomization.yaml"]
    found = [one for text in texts for one in yaml.safe_load_all(text)]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


class Pod:
    """The one pod of a StatefulSet or a Deployment, below `root` in place of `/`.

    `secret`: what its Secret holds. `ports`: free ports of this machine in place of its own, one for each.
    `name`: which of several.
    """

    def __init__(self, files, root, secret, ports, name=None):
        self._files, self._root, self._secret = objects(files), root, secret
        (self._run,) = (
            one
            for (kind, called), one in self._files.items()
            if kind in {"StatefulSet", "Deployment"} and name in {None, called}
        )
        self._spec = self._run["spec"]["template"]["spec"]
        (self._container,) = self._spec["containers"]
        named = self._container["ports"]
        self.ports = {port["name"]: free for port, free in zip(named, ports, strict=True)}
        self._replaced = {
            f"{ANY}:{port['containerPort']}": f"127.0.0.1:{self.ports[port['name']]}" for port in named
        }

    @property
    def label(self):
        """Its name."""
        return self._run["metadata"]["name"]

    @property
    def environment(self):
        """Its variables, out of its Secret."""
        found = {one["name"]: one["valueFrom"]["secretKeyRef"]["key"] for one in self._container["env"]}
        return {name: self._secret[key] for name, key in found.items()}

    def mount(self):
        """Write the files of its volumes where the container has them; return the words of its process.

        Without `--stay`, as no manager starts a process of a test again, and a test waits for its end.
        """
        volumes = {volume["name"]: volume for volume in self._spec["volumes"]}
        paths = []
        for mount in self._container["volumeMounts"]:
            paths.append(mount["mountPath"])
            folder = self._root / mount["mountPath"].strip("/")
            folder.mkdir(parents=True)
            for name, text in self._held(volumes.get(mount["name"], {})):
                (folder / name).write_text(self._here(text, paths))
        return [self._here(word, paths) for word in self._container["args"] if word != "--stay"]

    def _held(self, volume):
        if "configMap" in volume:
            yield from self._files["ConfigMap", volume["configMap"]["name"]]["data"].items()
        for item in volume.get("secret", {}).get("items", ()):
            yield item["path"], self._secret[item["key"]]

    def _here(self, text, paths):
        for path in ("/etc/mirrormesh", *(path for path in paths if path.startswith("/var/"))):
            text = text.replace(path, f"{self._root}{path}")
        for address, here in self._replaced.items():
            text = text.replace(address, here)
        return text
