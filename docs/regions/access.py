"""Which topics each process reads and writes, as rights for a broker with users."""

from streams.bus.rights import Access, feeder, node_on_data, node_on_mesh, scheduler, scorer
from streams.codec.topics import DataTopics, MeshTopics, ScoreTopics
from streams.collaboration.rights import learner, owner_feeder, owner_on_data, owner_on_mesh

_NAMES = {
    "zowner": "<owner>",
    "zlearner": "<learner>",
    "zmesh": "<mesh>",
    "zrun": "<run>",
    "znode": "<node>",
    "zsource": "<source>",
    "ztarget": "<target>",
    "zinput": "<input>",
    "zoutput": "<output>",
}
"""Ids that stand for any: what a reader sees in their place."""


def region() -> str:
    """Return a line for each process and broker."""
    topics, own, owned = (
        MeshTopics("zmesh", "zrun"),
        DataTopics("zmesh", "znode"),
        DataTopics("zmesh", "zowner"),
    )
    processes = (
        ("node", "mesh", node_on_mesh(topics, "znode", ["zsource"], ["ztarget"])),
        (
            "node, with outboxes",
            "mesh",
            node_on_mesh(MeshTopics("zmesh", "zrun", "outbox"), "znode", ["zsource"], ["ztarget"]),
        ),
        ("node", "data", node_on_data(own, "zrun")),
        ("feeder", "data", feeder(own)),
        ("score", "data", scorer(ScoreTopics("zmesh", "znode", "zinput", "zoutput"), own)),
        ("scheduler", "mesh", scheduler(topics, ["znode"])),
        ("learner", "mesh", learner(topics, "zlearner", ["zowner"])),
        ("owner", "mesh", owner_on_mesh(topics, "zowner")),
        ("owner of a topic", "data", owner_on_data(owned)),
        ("feeder of a topic", "data", owner_feeder(owned)),
    )
    rows = ["| process | broker | reads | writes | more |", "|---|---|---|---|---|"]
    rows += [_row(process, broker, access) for process, broker, access in processes]
    return placed("\n".join(rows))


def placed(text: str) -> str:
    """Return the text with the sample ids shown as places to fill in."""
    for name, shown in _NAMES.items():
        text = text.replace(name, shown)
    return text


def _row(process: str, broker: str, access: Access) -> str:
    more = [f"commits offsets as group `{group}`" for group in access.groups]
    more += [f"has transactional ids that begin with `{name}`" for name in access.transactions]
    more += [f"reads the settings of `{topic}`" for topic in access.configs]
    cells = (process, broker, _listed(access.reads), _listed(access.writes), "; ".join(more))
    return f"| {' | '.join(cells)} |"


def _listed(topics: tuple[str, ...]) -> str:
    return ", ".join(f"`{topic}`" for topic in topics)
