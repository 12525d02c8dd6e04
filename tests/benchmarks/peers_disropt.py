"""DISROPT's side of `make bench-peers`: runs in DISROPT's own environment, not in this project's.

`mpirun -n N python peers_disropt.py FOLDER OBJECTIVE` is one agent a process; `python peers_disropt.py FOLDER
OBJECTIVE` all of them in this one, which hand each other their iterates in memory: DISROPT has no such
communicator, so it is ours, and spares it MPI and pickling. FOLDER/problem.npz is the problem; each agent's
iterates of the first rounds go to FOLDER/iterates-I.npy, and the seconds of the fastest of later runs to
standard output.
"""

import sys
import time
from pathlib import Path

import numpy as np
from disropt.agents import Agent
from disropt.algorithms import SubgradientMethod
from disropt.communicators import Communicator, MPICommunicator
from disropt.functions import AbstractFunction, SquaredNorm, Variable
from disropt.problems import Problem
from mpi4py import MPI


class ByHand(AbstractFunction):
    """1/2 (<a, x> - b)^2 with its gradient in two numpy calls: no autograd, no checks of the input."""

    def __init__(self, a, b):
        self.a, self.transposed, self.b = a, a.T.copy(), b
        self.input_shape, self.output_shape = a.shape, (1, 1)

    def subgradient(self, x):
        return (self.transposed @ x - self.b) * self.a


class InMemory(Communicator):
    """What every agent has last put on one board."""

    def __init__(self, rank, board):
        self.rank, self.size, self.board = rank, len(board), board

    def neighbors_exchange(self, send_obj, in_neighbors, out_neighbors, dict_neigh, stop_event=None):
        return {neighbor: self.board[neighbor] for neighbor in in_neighbors}


def subgradient_method(given, objective, communicator, *, log):
    """Return agent `communicator.rank`'s method, at 0; constraints would cost it a solver each round."""
    own = communicator.rank
    weights = given["weights"][own]
    neighbors = [int(j) for j in np.flatnonzero(weights) if j != own]
    agent = Agent(neighbors, neighbors, communicator, {j: float(weights[j]) for j in [own, *neighbors]})
    a, b = given["features"][own][:, None], float(given["labels"][own])
    if objective == "hand":
        function = ByHand(a, b)
    else:  # of its own forms of this function the one with the fastest gradient
        root = np.sqrt(0.5)
        function = SquaredNorm((root * a) @ Variable(len(a)) - np.array([[root * b]]))
    agent.set_problem(Problem(function, force_general_problem=True))
    return SubgradientMethod(agent, np.zeros(a.shape), enable_log=log)


def by_mpi(given, objective, folder):
    """Check, then measure: one agent."""
    communicator = MPICommunicator()
    step_size, checked = given["steps"].tolist().__getitem__, int(given["checked"])
    sequence = subgradient_method(given, objective, communicator, log=True).run(checked, step_size)
    np.save(folder / f"iterates-{communicator.rank}.npy", sequence[..., 0])
    seconds = []
    for _ in range(int(given["turns"])):
        method = subgradient_method(given, objective, communicator, log=False)
        communicator.comm.Barrier()
        started = time.perf_counter()
        method.run(len(given["steps"]), step_size)
        communicator.comm.Barrier()
        seconds.append(time.perf_counter() - started)
    if communicator.rank == 0:
        print(min(seconds))


def in_one_process(given, objective, folder):
    """Check, then measure: all agents in turn."""
    steps, checked = given["steps"].tolist(), int(given["checked"])
    board = [None] * len(given["features"])

    def run(keep, wanted):
        methods = [
            subgradient_method(given, objective, InMemory(rank, board), log=False)
            for rank in range(len(board))
        ]
        started = time.perf_counter()
        for step in wanted:
            board[:] = [method.x for method in methods]
            for method in methods:
                method.iterate_run(stepsize=step)
            if keep is not None:
                keep.append([method.x[:, 0] for method in methods])
        return time.perf_counter() - started

    iterates = []
    run(iterates, steps[:checked])
    for rank, of_one in enumerate(np.swapaxes(iterates, 0, 1)):
        np.save(folder / f"iterates-{rank}.npy", of_one)
    print(min(run(None, steps) for _ in range(int(given["turns"]))))


if __name__ == "__main__":
    where, kind = Path(sys.argv[1]), sys.argv[2]
    with np.load(where / "problem.npz") as file:
        problem = dict(file)
    run = by_mpi if MPI.COMM_WORLD.size > 1 else in_one_process
    run(problem, kind, where)
