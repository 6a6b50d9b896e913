"""A real Ray cluster of two nodes on this machine, for tests and benchmarks. One node can be killed and replaced."""

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STORE = 200_000_000  # bytes of the object store of a node; Ray spills what does not fit to disk


class TwoNodes:
    """The second node is the one to kill. The first runs the driver."""

    def __init__(self, cluster: Any, **node: Any) -> None:  # noqa: ANN401
        self._cluster, self._node = cluster, node
        self.second = cluster.add_node(**node)

    def kill_second(self) -> None:
        """Kill every process of the second node at once, as a machine that loses power."""
        for infos in self.second.all_processes.values():
            for info in infos:
                os.kill(info.process.pid, signal.SIGKILL)
        self._cluster.remove_node(self.second, allow_graceful=False)

    def add_second(self) -> None:
        """Start a new node in place of the killed one."""
        self.second = self._cluster.add_node(**self._node)


@contextmanager
def two_nodes() -> Iterator[TwoNodes]:
    """Start two nodes of one CPU each, connect to them, and stop all at the end."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    tests = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), tests])
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder:  # short: paths of sockets are
        os.environ["RAY_TMPDIR"] = folder
        Path(folder, "ray").mkdir()
        head = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            nodes = TwoNodes(cluster, num_cpus=1, object_store_memory=STORE, resources={"second": 1})
            ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
            cluster.wait_for_nodes()
            yield nodes
        finally:
            ray.shutdown()
            cluster.shutdown()
            del os.environ["RAY_TMPDIR"]
