"""A real OpenSSH server on loopback, with keys and configuration of its own, and a client that trusts it."""

import contextlib
import getpass
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from tests.ports import free_port
from tests.processes import wait_listening

PATH = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"  # not on the PATH of every user
BINARY = shutil.which("sshd") or shutil.which("sshd", path=PATH)
DEADLINE_S = 30.0


class SshServer:
    def __init__(self, folder, *before, lock=None):
        """`before`: a program that starts it, such as taskset, with its arguments; `lock`: that of the machine."""
        self.port = free_port()
        self.folder = folder
        self.far_folder = folder / "far"
        for name in ("host_key", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        shutil.copy(folder / "key.pub", folder / "authorized_keys")
        host_key = (folder / "host_key.pub").read_text()
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {host_key}")
        (folder / "empty").write_text("")
        if os.geteuid() == 0:
            # Where it confines itself, and only the system's own script makes it.
            Path("/run/sshd").mkdir(parents=True, exist_ok=True)
        (folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nPidFile {folder}/pid\n"
            f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nUsePAM no\nPermitRootLogin yes\n"
            f"SetEnv EDGEOPT_LOCK={lock or folder / 'lock'}\n"  # other tests measure on this machine too
        )
        self._log = folder / "log"
        self._command = [*before, BINARY, "-D", "-e", "-f", folder / "sshd_config"]
        self.start()

    def start(self):
        """Starts the server; once more after `vanish`, as a device that is switched on again."""
        with self._log.open("w") as log:
            self._process = subprocess.Popen(self._command, stderr=log, start_new_session=True)
        wait_listening(self._process, self.port, self._log, DEADLINE_S)

    @property
    def address(self):
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}?python={sys.executable}&folder={self.far_folder}"

    def client(self, key="key", known_hosts="known_hosts"):
        """The client program, as EDGEOPT_SSH names it."""
        return (
            f"ssh -F none -i {self.folder / key} -o IdentitiesOnly=yes -o IdentityAgent=none "
            f"-o UserKnownHostsFile={self.folder / known_hosts} -o GlobalKnownHostsFile=none"
        )

    def processes(self):
        """What runs in the server, itself left out."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).children(recursive=True)
        return []

    def far_processes(self):
        """What runs on the device for edgeopt, wherever it belongs by now."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if str(self.far_folder) in " ".join([*process.environ().values(), *process.cmdline()]):
                    found.append(process)
        return found

    def vanish(self):
        """Kills the server with all its connections, as a device that is switched off would end them."""
        servers = [psutil.Process(self._process.pid), *self.processes()]
        for each in servers:
            with contextlib.suppress(psutil.NoSuchProcess):
                if "sshd" in each.name():
                    each.send_signal(signal.SIGKILL)
        self._process.wait(DEADLINE_S)

    def stop(self):
        for each in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                each.terminate()
        self._process.terminate()
        self._process.wait(DEADLINE_S)
