"""A local Slurm cluster of two nodes: controller, munge and two node daemons in a temporary folder."""

import os
import shutil
import signal
import socket
import subprocess
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.jobs.conftest import until

NODES = ("node1", "node2")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
CONFIGURATION = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PriorityType=priority/basic
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=3
KillWait=10
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port1} CPUs=1
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={port2} CPUs=1
PartitionName=tests Nodes=node1,node2 Default=YES MaxTime=60 State=UP
"""
# cred_expire is also Slurm's wait before it starts a requeued job; the default is 120 s.


def missing() -> str | None:
    """Return the reason why no cluster can be started here, or None if one can."""
    os.environ["PATH"] = f"{os.environ['PATH']}{os.pathsep}/usr/sbin"
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed; apt-get install slurm-wlm munge to run these"
    return None if os.geteuid() == 0 else "starts Slurm's daemons, which change users; run it as root"


@dataclass
class SlurmCluster:
    """A running cluster: its daemons by name, and the folder of their files."""

    folder: Path
    pids: dict[str, int] = field(default_factory=dict)

    def start(self) -> None:
        """Start all daemons and wait until both nodes are idle."""
        munge = self.folder / "munge"
        for path in (munge, self.folder / "state"):
            path.mkdir(mode=0o700)
        (munge / "key").write_bytes(os.urandom(1024))
        (munge / "key").chmod(0o600)
        files = {"key-file": "key", "seed-file": "seed", "socket": "socket", "pid-file": "pid", "log-file": "log"}
        run("munged", *(f"--{word}={munge / file}" for word, file in files.items()), "--force")
        fields = dict(zip(("port", "port1", "port2"), free_ports(3), strict=True))
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(folder=self.folder, host=socket.gethostname().partition(".")[0], user="root", **fields)
        )
        run("slurmctld", "-f", str(self.folder / "slurm.conf"))
        for name, file in (("munged", munge / "pid"), ("slurmctld", self.folder / "slurmctld.pid")):
            self._note(name, file)
        for name in NODES:
            self.start_node(name)

    def start_node(self, name: str) -> None:
        """Start a node, and wait until the controller can use it."""
        run("slurmd", "-N", name, "-f", str(self.folder / "slurm.conf"))
        self._note(name, self.folder / f"{name}.pid")
        until(lambda: self.state(name) in ("idle", "mix", "alloc"), 60)

    def state(self, name: str) -> str:
        return subprocess.run(
            ["sinfo", "--noheader", f"--nodes={name}", "--format=%t"], capture_output=True, text=True
        ).stdout.strip()

    def kill_node(self, name: str) -> None:
        """Simulate a power cut: the node's daemon, its jobs and their processes are killed at once."""
        os.kill(self.pids.pop(name), signal.SIGKILL)
        (self.folder / f"{name}.pid").unlink()  # otherwise it would be read as the next daemon's
        for process in self._jobs_of(name):
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def stop(self) -> None:
        """End all started processes, by process number."""
        jobs = [process for name in NODES for process in self._jobs_of(name)]
        for pid in reversed(self.pids.values()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        for process in jobs:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs([psutil.Process(pid) for pid in self.pids.values() if psutil.pid_exists(pid)], timeout=10)

    def _jobs_of(self, name: str) -> list[psutil.Process]:
        """Return the step daemons of a node of this cluster and their processes, identified by their environment."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                around = process.environ()
                if around.get("SLURMD_NODENAME") == name and around.get("SLURM_CONF") == os.environ["SLURM_CONF"]:
                    found.append(process)
        return [*[parent for process in found for parent in process.parents() if parent.name() == "slurmstepd"], *found]

    def _note(self, name: str, file: Path) -> None:
        until(lambda: file.is_file() and file.read_text().strip().isdigit(), 20)
        self.pids[name] = int(file.read_text())


def run(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in found]
