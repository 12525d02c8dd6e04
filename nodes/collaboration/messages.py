"""What learner and owners send one another, and the records of both journals: all public values.

Theta_k is made of responses, a response of a sum with noise: nothing here shows a record.
"""

from typing import NamedTuple

from nodes.values import FloatArray


class Query(NamedTuple):
    """The learner asks every owner for the private mean gradient at theta_k, k = `number`.

    `final`: nothing is asked any more; `parameters` (d,) are the run's last, and `number` is T + 1, or, where
    the run ends before query T is over, that of the last query.
    """

    run: str
    learner: str
    instance: str
    number: int
    parameters: FloatArray
    final: bool = False


class Response(NamedTuple):
    """The owner's Q_l(k), shape (d,), k = `query`. `simulated`: seeded noise, so nothing is protected."""

    run: str
    owner: str
    instance: str
    query: int
    simulated: bool
    response: FloatArray


class Answer(NamedTuple):
    """A response that made a step: whose it is, its weight n_l/n in the sum, and its bytes, shape (d,)."""

    owner: str
    instance: str
    weight: float
    response: FloatArray


class QueryRecord(NamedTuple):
    """The learner's state, durable before query `number` is sent: everything that a restart needs.

    Attributes
    ----------
    number : int
        k of the query that follows; T + 1 after the last.
    parameters : array (d,)
        theta_k.
    average : array (d,)
        The model so far: of Algorithm 2 the average, of Algorithm 1 theta_k.
    answers : tuple of Answer
        What query `number` - 1 was answered, which made theta_k; in the order of the owners.
    missing : tuple of str
        The owners left out of query `number` - 1.
    """

    number: int
    parameters: FloatArray
    average: FloatArray
    answers: tuple[Answer, ...] = ()
    missing: tuple[str, ...] = ()


class RecordSet(NamedTuple):
    """What fixes an owner's set of records: nothing of what they hold, and no hash of it.

    Attributes
    ----------
    source : str
        The settings that make gradients of the source's bytes, as canonical JSON.
    extent : tuple of (name, number)
        Where the source ends: the size of a file, the end offset of each partition.
    records : int
        n_l.
    """

    source: str
    extent: tuple[tuple[str, int], ...]
    records: int


class ResponseRecord(NamedTuple):
    """What an owner has answered, durable before anybody sees it.

    Attributes
    ----------
    query : int
        k.
    asked : bytes
        The digest of theta_k (`nodes.collaboration.owner.digest`).
    response : array (d,)
        Q_l(k), as sent.
    charged : int
        How many queries were charged so far, this one included.
    epsilon_spent : float
        What they have spent of the owner's epsilon, rounded up.
    set : RecordSet
        The set that was read; the same in all records of a journal.
    """

    query: int
    asked: bytes
    response: FloatArray
    charged: int
    epsilon_spent: float
    set: RecordSet
