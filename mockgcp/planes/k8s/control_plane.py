"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler, on free ports of loopback."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

from mockgcp.planes.k8s.addresses import free_ports
from mockgcp.planes.k8s.api import Api
from mockgcp.planes.k8s.pki import Authority
from mockgcp.planes.k8s.programs import Programs
from mockgcp.planes.processes import ProcessLedger

_SERVICES = "10.96.0.0/16"
_READY_S = 90.0


class ControlPlane:
    """One cluster's control plane. `token` is its administrator's, `port` the API server's."""

    def __init__(self, programs: Programs, folder: Path, processes: ProcessLedger, token: str) -> None:
        self._programs, self._folder, self._processes = programs, folder, processes
        self.token = token
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.port = 0

    @property
    def ca(self) -> Path:
        return self._folder / "pki" / "ca.crt"

    def api(self, token: str = "") -> Api:
        """A client; the administrator's unless a token is given."""
        return Api(self.port, self.ca, token or self.token)

    def start(self) -> None:
        """Starts all of it and waits until the API server answers.

        Raises:
            RuntimeError: a program ended, or does not answer; with the end of what it wrote.
        """
        pki = Authority(self._folder / "pki")
        hosts = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "10.96.0.1")
        pki.sign("apiserver", "kube-apiserver", hosts=hosts)
        pki.sign("front-proxy", "front-proxy-client")
        pki.sign("controller-manager", "system:kube-controller-manager")
        pki.sign("scheduler", "system:kube-scheduler")
        pki.sign("kubelet", "system:node:kubelet", "system:nodes", hosts=("127.0.0.1",))
        pki.key_pair("service-accounts")
        tokens = self._folder / "pki" / "tokens.csv"
        tokens.touch(0o600)
        tokens.write_text(f'{self.token},admin,admin,"system:masters"\n')
        etcd, peer, self.port = free_ports(3)
        at = f"http://127.0.0.1:{etcd}"
        self.spawn("etcd", self._etcd(at, f"http://127.0.0.1:{peer}"))
        self.spawn("kube-apiserver", self._apiserver(at, tokens))
        api = self.api()
        self.wait("kube-apiserver", lambda: api.raw("GET", "/readyz")[0] == 200)
        shared = ["--leader-elect=false", "--secure-port=0"]
        manager = self.kubeconfig("controller-manager", certificate="controller-manager")
        self.spawn(
            "kube-controller-manager",
            [
                *shared,
                f"--kubeconfig={manager}",
                "--use-service-account-credentials=true",
                f"--service-account-private-key-file={self.pki('service-accounts.key')}",
                f"--root-ca-file={self.ca}",
                # A new node stays tainted until this has looked at it: 5 s by default.
                "--node-monitor-period=1s",
            ],
        )
        scheduler = self.kubeconfig("scheduler", certificate="scheduler")
        self.spawn("kube-scheduler", [*shared, f"--kubeconfig={scheduler}"])
        api.close()

    def wait_for_controllers(self) -> None:
        """Waits until pods can be made. The controllers start while others go on. Raises RuntimeError."""
        api = self.api()
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.wait("kube-controller-manager", lambda: api.get(account) is not None)
        api.close()

    def spawn(
        self, name: str, flags: Sequence[str], *, program: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Starts a program under a name of its own; what it writes goes to log/NAME.log."""
        self.log(name).parent.mkdir(parents=True, exist_ok=True)
        with self.log(name).open("ab") as log:
            process = self._processes.spawn(
                [str(program or self._programs.program(name)), *flags],
                env={"PATH": os.defpath, "HOME": str(self._folder), **(env or {})},
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._running[name] = process
        return process

    def wait(self, name: str, answers: Callable[[], bool], timeout_s: float = _READY_S) -> None:
        """Waits until `answers` is true; RuntimeError with the end of the program's log if it stays false, or ends."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self._running[name].poll() is None:
            try:
                if answers():
                    return
            except (OSError, RuntimeError):
                pass
            time.sleep(0.1)
        said = "\n".join(self.log(name).read_text(errors="replace").splitlines()[-8:])
        ended = self._running[name].poll()
        what = f"did not answer within {timeout_s:g} s" if ended is None else f"ended with {ended}"
        raise RuntimeError(f"{name} {what}; the end of {self.log(name)}:\n{said}")

    def answers(self, port: int, path: str) -> bool:
        """Whether a program says on loopback that all is well. Raises OSError."""
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as response:
            return bool(response.status == 200)

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Ends a process at once, with what it has started."""
        self._processes.end_tree(process)
        process.wait()
        self._running = {name: each for name, each in self._running.items() if each is not process}

    def stop(self) -> None:
        """Ends all that was started, last first."""
        for process in reversed(list(self._running.values())):
            self.end(process)

    def kubeconfig(self, file: str, *, certificate: str = "", token: str = "", namespace: str = "default") -> Path:
        """A kubeconfig for a certificate of `pki`, or for a token."""
        if certificate:
            names = {"client-certificate": f"{certificate}.crt", "client-key": f"{certificate}.key"}
            user = {key: str(self.pki(name)) for key, name in names.items()}
        else:
            user = {"token": token}
        cluster = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority": str(self.ca)}
        context = {"cluster": "cluster", "user": "user", "namespace": namespace}
        path = self._folder / f"{file}.kubeconfig"
        path.touch(0o600)
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "context", "context": context}],
            "current-context": "context",
        }
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        return path

    def pki(self, name: str) -> Path:
        """A file of the cluster's keys and certificates."""
        return self._folder / "pki" / name

    def log(self, name: str) -> Path:
        """What the program of that name has written."""
        return self._folder / "log" / f"{name}.log"

    def _etcd(self, at: str, peer: str) -> list[str]:
        flags = [f"--listen-client-urls={at}", f"--advertise-client-urls={at}", f"--listen-peer-urls={peer}"]
        flags += [f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"]
        # What is lost with the machine would be lost anyway: not waiting for the disk makes everything faster.
        return [*flags, f"--data-dir={self._folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn"]

    def _apiserver(self, etcd: str, tokens: Path) -> list[str]:
        return [
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # it would publish a loopback address, which endpoints refuse
            "--enable-aggregator-routing=true",  # webhooks and aggregated APIs by their pods' addresses: no kube-proxy
            f"--service-cluster-ip-range={_SERVICES}",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            "--profiling=false",
            f"--token-auth-file={tokens}",
            f"--client-ca-file={self.ca}",
            f"--tls-cert-file={self.pki('apiserver.crt')}",
            f"--tls-private-key-file={self.pki('apiserver.key')}",
            f"--requestheader-client-ca-file={self.ca}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            # To and from the kubelets' stand-in, for pods' logs.
            f"--kubelet-certificate-authority={self.ca}",
            f"--kubelet-client-certificate={self.pki('apiserver.crt')}",
            f"--kubelet-client-key={self.pki('apiserver.key')}",
            f"--proxy-client-cert-file={self.pki('front-proxy.crt')}",
            f"--proxy-client-key-file={self.pki('front-proxy.key')}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.pki('service-accounts.pub')}",
            f"--service-account-signing-key-file={self.pki('service-accounts.key')}",
        ]
