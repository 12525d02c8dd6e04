"""The code that runs on a broker is the code that is simulated: histories run every function of the runtime.

`sys.settrace` calls back once for each function here, as no line is traced. `sys.monitoring` needs Python
3.12; `sys.setprofile` calls back at each return too, and for each function in C.
"""

import ast
import sys
from pathlib import Path

from streams import runtime
from streams.mesh.file import load
from streams.simulation.collaboration import CollaborationStage
from streams.simulation.search import MeshStage, run
from tests.support.collaborations.folders import written

MESH = Path(__file__).parent / "mesh.yaml"
ROOM = Path(runtime.__file__).parent
HISTORIES = 100
"""Of a mesh, and as many of a collaboration."""
REAL = {
    "kafka.": "opens sockets, and ends with signals",
    "process.retry_until_reachable": "a broker's socket is away, and a signal ends the wait",
    "process.end_hung": "a signal ends a process that hangs",
    "process.Pulse.": "what systemd's watchdog and probes are told of",
    "process.Liveness.": "what systemd's watchdog and probes are told of",
    "process.StartWatch.": "a thread that ends a start that hangs, by a signal",
    "process.Asked.": "set by a signal",
    "process.Stop.": "handles signals",
    "process.Interruptible.": "a signal ends a read from a pipe",
    "process.ServiceManager.": "speaks with systemd",
    "process.turned": "speaks with systemd",
    "actions.Loop.": "the loop of threads that sockets wake; histories have virtual time",
    "actions._nothing": "wakes that loop",
    "actions._ended": "the thread of a socket's reader is ended",
    "runner.Host.run": "runs that loop until a signal stops it",
    "runner.Host.is_reading": "looks at the thread of a socket's reader, for systemd",
}
"""Functions of real processes alone, or the beginning of their names, and why."""


def functions(path):
    """Yield the functions of a file and the line where each begins, but for those without a body to run."""
    for outer in ast.walk(ast.parse(path.read_text())):
        is_class = isinstance(outer, ast.ClassDef)
        if is_class and any(ast.unparse(base) == "Protocol" for base in outer.bases):
            continue
        for node in ast.iter_child_nodes(outer):
            if isinstance(node, ast.FunctionDef):
                decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
                if "abstractmethod" not in decorators:
                    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                    yield f"{path.stem}.{outer.name + '.' if is_class else ''}{node.name}", first


def test_histories_run_every_function_of_the_runtime_that_is_not_of_real_processes_alone(tmp_path):
    codes = set()
    mesh, collaboration = MeshStage(load(MESH)), CollaborationStage(written(tmp_path))
    before = sys.gettrace()
    sys.settrace(lambda frame, *_: codes.add(frame.f_code))
    try:
        for seed in range(HISTORIES):
            for stage in (mesh, collaboration):
                assert run(stage, seed).violation is None
    finally:
        sys.settrace(before)
    lines = {(code.co_filename, code.co_firstlineno) for code in codes}
    run_by = {
        name: (str(path), line) in lines
        for path in sorted(ROOM.glob("*.py"))
        for name, line in functions(path)
    }
    real = {name for name in run_by if name.startswith(tuple(REAL))}
    assert [name for name, has_run in run_by.items() if not has_run and name not in real] == []
    stale = [begin for begin in REAL if not any(name.startswith(begin) for name in run_by)]
    assert stale == []
