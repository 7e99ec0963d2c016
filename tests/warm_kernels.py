"""Kernels of Jupyter that begin with torch imported: copies of one process that has imported it.

A kernel that imports torch, IPython and matplotlib spends three to four seconds of processor time
on that; dozens of kernels start in `make long`. `folder()` gives a folder for JUPYTER_PATH whose
kernel ``python3`` is forked from a process that has imported these libraries, and nothing of
fltoolkit: the package itself is imported by each kernel. Linux only; elsewhere kernels start as
always. Three processes take part:

    the server   imports the libraries, then forks itself for each kernel: ``--serve ADDRESS``
    the starter  what Jupyter starts; lives as long as its kernel: ``ADDRESS -f CONNECTION_FILE``
    the kernel   a fork of the server, with the environment, folder and outputs of its starter
"""

import json
import os
import signal
import socket
import sys
from functools import cache
from itertools import count

IMPORTED = (
    *("ipykernel.kernelapp", "ipywidgets", "matplotlib.figure", "matplotlib.font_manager"),
    *("torch", "torch._dynamo"),  # torch imports the second one when an optimizer is made
)


def folder() -> str:
    """The folder for JUPYTER_PATH, or "" where processes cannot be forked; starts the server."""
    global _running
    if sys.platform == "linux" and _running is None:
        import subprocess
        import tempfile

        home = tempfile.TemporaryDirectory(prefix="fltoolkit-kernels-")
        address = os.path.join(home.name, "socket")
        command = [sys.executable, __file__, "--serve", address]
        server = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=home.name,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # a library's threads end in a fork
        )
        assert server.stdout is not None
        if server.stdout.readline() != b"ready\n":
            raise RuntimeError(f"no server of kernels: {' '.join(command)}")
        os.makedirs(spec := os.path.join(home.name, "kernels/python3"))
        argv = [sys.executable, "-S", __file__, address, "-f", "{connection_file}"]
        kernel = {"argv": argv, "display_name": "Python 3", "language": "python"}
        with open(os.path.join(spec, "kernel.json"), "w", encoding="utf-8") as file:
            json.dump({**kernel, "interrupt_mode": "message"}, file)
        _running = home, server
    return _running[0].name if _running else ""


_running = None


@cache
def listen_at_files() -> None:
    """Let nbval's kernels listen at files: of five ports looked for, one may be taken meanwhile."""
    if place := folder():
        import nbval.kernel

        manager, number = nbval.kernel.KernelManager, count()
        nbval.kernel.KernelManager = lambda **how: manager(
            transport="ipc", ip=os.path.join(place, f"kernel-{next(number)}"), **how
        )


def end() -> None:
    """End the server; it ends what is left of its kernels."""
    global _running
    if _running is not None:
        home, server = _running
        server.communicate()  # closes its input
        home.cleanup()
        _running = None


def start(address: str, *words: str) -> None:
    """Let the server fork a kernel with these words as its command line, and wait for its end."""
    told = {"words": words, "env": dict(os.environ), "cwd": os.getcwd()}
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)
        socket.send_fds(line, [b"."], [0, 1, 2])
        line.sendall(json.dumps(told).encode() + b"\n")
        line.recv(1)  # nothing comes: it ends when the kernel has ended


def serve(address: str) -> None:
    """Fork a kernel for each starter, until the input ends."""
    import gc
    import importlib
    import select

    del sys.path[0]  # the folder of the tests: no notebook finds it
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as a kernel sets it
    for name in IMPORTED:
        importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a fork has one thread"
    gc.freeze()  # else each kernel's search for garbage would copy all of it
    kernels: list[int] = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(16)
        print("ready", flush=True)
        while listening in select.select([listening, sys.stdin], [], [])[0]:
            line, _ = listening.accept()
            kernel = os.fork()
            if kernel == 0:
                listening.close()
                break
            line.close()
            kernels.append(kernel)
            kernels = [each for each in kernels if os.waitpid(each, os.WNOHANG)[0] == 0]
        else:
            for kernel in kernels:
                os.kill(kernel, signal.SIGKILL)
                os.waitpid(kernel, 0)
            return
    run(line)


def run(line: socket.socket) -> None:
    """Be the kernel of the starter at the other end of the line, and end when it ends."""
    import atexit
    import threading

    _, files, _, _ = socket.recv_fds(line, 1, 3)
    told = json.loads(line.makefile().readline())
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(told["env"], JPY_PARENT_PID=str(os.getppid()))  # a kernel ends with this one
    os.chdir(told["cwd"])
    threading.Thread(target=lambda: line.recv(1) or os._exit(1), daemon=True).start()

    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance(argv=told["words"])
    atexit._run_exitfuncs()
    os._exit(0)  # to take all libraries apart would cost more than to start did


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    else:
        start(*sys.argv[1:])
