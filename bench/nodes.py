"""The nodes of a Dask cluster on one machine: network namespaces, joined by a bridge.  bench/cluster.py --nodes uses them.

enter() runs the program again in network, process and mount namespaces of its own, so nothing of the machine's network is
changed, and the kernel removes all of it (processes, namespaces, and the files, which lie in a tmpfs at /run) when the program
ends, however it ends.  Root is not needed where users may make namespaces.  Nodes then makes a namespace for each node:

    10.0.0.254  the bridge and the program, which is Dask's client
    10.0.0.1    Dask's scheduler, and a worker
    10.0.0.2 .. a worker each

A node that is killed is cut from the bridge first.  So it closes no connection, as a machine that lost its power, and Dask notices
after TIMEOUT.  All nodes see the same files.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

REFUSED = 77  # the exit status where namespaces cannot be made
TIMEOUT = "12s"  # Dask wants more than 10
FOLDER = "/run"
INSIDE = "CLUSTER_NODES_INSIDE"
MOST = 253  # nodes
NETWORK, PORT = "10.0.0.", 8786


def enter():
    """Returns in the namespaces; outside of them the program ends with the status that it has inside.  Control-C is for the
    program outside, whose end is the end of all."""
    if os.environ.pop(INSIDE, None):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return
    missing = [name for name in ("ip", "mount", "setpriv", "unshare") if shutil.which(name) is None]
    if missing:
        refuse(f"{', '.join(missing)} not found (Debian: iproute2, mount, util-linux)")
    apart = ["setpriv", "--pdeathsig", "KILL", "unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]),
             "--net", "--pid", "--mount-proc", "--fork", "--kill-child"]
    probe = subprocess.run([*apart, "sh", "-ec", f"mount -t tmpfs tmpfs {FOLDER}; ip link add bridge type bridge; "
                            "ip netns add node; ip link add port type veth peer name eth0 netns node"],
                           capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        refuse(f"{(probe.stderr.strip().splitlines() or ['no reason given'])[-1]}" + (" (try it as root)" if os.geteuid() else ""))
    try:
        sys.exit(subprocess.call([*apart, sys.executable, *sys.argv], env={**os.environ, INSIDE: "1"}))
    except KeyboardInterrupt:
        sys.exit(130)


def refuse(reason):
    print(f"--nodes: network namespaces cannot be made here: {reason}", file=sys.stderr)
    sys.exit(REFUSED)


def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


class Nodes:
    """A cluster of `count` workers of that many threads; memory: bytes that Dask lets each use, 0: any number."""

    def __init__(self, count, threads, memory):
        self.workers = dict.fromkeys(range(1, count + 1))
        self.scheduler_address = f"tcp://{NETWORK}1:{PORT}"
        self.options = ["--no-nanny", "--no-dashboard", "--nthreads", str(threads), "--memory-limit", str(memory),
                        "--local-directory", f"{FOLDER}/workers"]

    def __enter__(self):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", FOLDER], check=True)
        ip("link", "set", "lo", "up")
        ip("link", "add", "bridge", "type", "bridge")
        ip("link", "set", "bridge", "up")
        ip("addr", "add", f"{NETWORK}254/24", "dev", "bridge")
        for k in self.workers:
            ip("netns", "add", f"node{k}")
            ip("link", "add", f"port{k}", "type", "veth", "peer", "name", "eth0", "netns", f"node{k}")
            ip("link", "set", f"port{k}", "master", "bridge")
            ip("-n", f"node{k}", "addr", "add", f"{NETWORK}{k}/24", "dev", "eth0")
            ip("-n", f"node{k}", "link", "set", "lo", "up")
            ip("-n", f"node{k}", "link", "set", "eth0", "up")
        self.scheduler = self.start(1, "scheduler", "--host", f"{NETWORK}1", "--port", str(PORT), "--no-dashboard")
        self.fill()
        return self

    def start(self, k, what, *words):
        with open(f"{FOLDER}/{what}{k}.log", "ab") as log:
            return subprocess.Popen(["ip", "netns", "exec", f"node{k}", sys.executable, "-m", f"distributed.cli.dask_{what}", *words],
                                    env={**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": TIMEOUT}, stdout=log, stderr=log,
                                    start_new_session=True)

    def fill(self):
        """A worker on each node that has none."""
        for k, worker in self.workers.items():
            if worker is None or worker.poll() is not None:
                ip("link", "set", f"port{k}", "up")
                self.workers[k] = self.start(k, "worker", self.scheduler_address, "--host", f"{NETWORK}{k}", *self.options)

    def kill(self):
        """The last node: no packet leaves it any more, then its processes end.  Its address."""
        k = max(self.workers)
        ip("link", "set", f"port{k}", "down")
        for pid in ip("netns", "pids", f"node{k}").split():
            os.kill(int(pid), signal.SIGKILL)
        self.workers[k].wait()
        return f"{NETWORK}{k}"

    def logs(self):
        return "".join(path.read_text()[-1000:] for path in sorted(pathlib.Path(FOLDER).glob("*.log")))

    def __exit__(self, error, *_):
        if error and issubclass(error, OSError):  # also that workers were not there in time
            print(self.logs(), file=sys.stderr)
        start = time.perf_counter()
        for k in self.workers:
            for pid in ip("netns", "pids", f"node{k}").split():
                os.kill(int(pid), signal.SIGKILL)
            ip("netns", "del", f"node{k}")
        print(f"# {len(self.workers)} nodes removed in {time.perf_counter() - start:.2f} s", flush=True)
