"""A mesh of a thousand nodes has more topics than a controller makes in one request."""

from experiments.harness.meshes import settings
from streams.bus.provision import Admin
from streams.bus.topic_specs import mesh_specs
from streams.mesh.mesh import Mesh

MOST = 10_000
"""Records of metadata in one request: Kafka's MAX_RECORDS_PER_USER_OP."""
ALLOWED = "Unable to perform excessively large batch operation."


class Client:
    """A controller that counts the records of a request: a topic, a partition, a setting."""

    def __init__(self):
        self.made, self.changed = {}, {}

    def create_topics(self, requests, **_):
        few = sum(2 + len(request["configs"]) for request in requests.values()) <= MOST
        if few:
            self.made |= requests
        answer = {"error_code": 0} if few else {"error_code": 42, "error_message": ALLOWED}
        return {"topics": [{"name": name} | answer for name in requests]}

    def wait_for_topics(self, names, **_):
        assert set(names) == set(self.made)

    def alter_configs(self, resources):
        few = sum(len(resource.configs) for resource in resources) <= MOST
        if few:
            self.changed |= {resource.name: resource.configs for resource in resources}
        return {"topic": {resource.name: "OK" if few else ALLOWED for resource in resources}}


def test_they_are_made_and_bounded_in_several():
    mesh = Mesh(
        settings(
            4_000,
            2,
            algorithm={
                "name": "dpdo-nc",
                "constraint": {"l2-ball": 10},
                "step_size": {"rule": "constant", "a": 0.5},
            },
            loss="squared",
            privacy={"mechanism": "laplace", "epsilon": 1, "gradient_bound": 1},
            topology={"graph": "ring"},
            layout="outbox",
        )
    )
    specs = mesh_specs(mesh)
    assert len(specs) == 12_002
    admin = Admin.__new__(Admin)
    admin.servers, admin._client = "one:9092", Client()
    assert admin.create(specs) == list(specs)
    admin.fit({spec: spec.bounds for spec in specs})
    assert {name: request["configs"] for name, request in admin._client.made.items()} == {
        spec.name: spec.configs for spec in specs
    }
    assert admin._client.changed == {spec.name: spec.bounds for spec in specs}
