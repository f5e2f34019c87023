"""A Jupyter server of the tests' own: JupyterLab and Notebook 7 from one process; no file of the user's."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil

# no announcements, no news, no look at PyPI, no terminals
_SERVER = {
    "ServerApp": {
        "allow_root": True,
        "ip": "127.0.0.1",
        "port": 0,
        "open_browser": False,
        "terminals_enabled": False,
        "jpserver_extensions": {"jupyterlab": True, "notebook": True},
        # should the process of the tests be killed, then this one ends too
        "shutdown_no_activity_timeout": 900,
    },
    "MappingKernelManager": {"cull_idle_timeout": 900},
    # a kernel that has had a duet asks for all the time that there is: gRPC waits two seconds at its exit
    "KernelManager": {"shutdown_wait_time": 1.0},
    "LabApp": {
        "expose_app_in_browser": True,
        "extension_manager": "readonly",
        "news_url": None,
        "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
    },
    "JupyterNotebookApp": {"expose_app_in_browser": True},
}
_PAGE = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
_SETTINGS = {
    # on a busy machine a kernel may answer later than Lab's 3 s, and is then taken for one without subshells
    "@jupyterlab/apputils-extension:kernels-settings": {"kernelInfoTimeout": 60_000},
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
}
# it is this machine's own server, whatever proxy the environment names
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class JupyterServer:
    """Serves the notebooks in `root` at `url` until `close`; all that it writes is in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "notebooks"
        self.token = secrets.token_hex(16)
        self.url = ""
        self._log = directory / "server.log"
        self._runtime = directory / "runtime"
        self.root.mkdir(parents=True)
        environment = own_environment(directory) | {"JUPYTER_TOKEN": self.token}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={self.root}"],
                env=environment,
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # an interrupt in the terminal is for the tests, which then close it
            )
        try:
            self._wait_answers(60)
        except BaseException:
            self.close()
            raise

    def write_notebook(self, name: str, cells: list[str] | None = None) -> str:
        """Make a notebook of code cells; returns its path as the server knows it."""
        # named, for a notebook without a kernel opens a dialog
        kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
        written: list[dict[str, Any]] = [
            {"cell_type": "code", "id": f"cell-{number}", "metadata": {}, "source": source}
            | {"execution_count": None, "outputs": []}
            for number, source in enumerate(cells or [])
        ]
        path = f"{name}.ipynb"
        _write(
            self.root / path,
            {"cells": written, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5},
        )
        return path

    def end_kernels(self, path: str) -> None:
        """End what runs for the notebook at this path."""
        for session in json.loads(self._ask("/api/sessions")):
            if session["path"] == path:
                self._ask(f"/api/sessions/{session['id']}", "DELETE")

    def log_tail(self, lines: int = 30) -> str:
        """What the server and its kernels have written last."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        """End the server and its kernels."""
        # kernels have process groups of their own
        family = []
        if self._process.poll() is None:
            server = psutil.Process(self._process.pid)
            family = [server, *server.children(recursive=True)]
            self._process.terminate()
        _, alive = psutil.wait_procs(family, timeout=20)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(20)

    def _wait_answers(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        information = self._runtime / f"jpserver-{self._process.pid}.json"  # written when it has its port
        while time.monotonic() < deadline_s and self._process.poll() is None:
            try:
                self.url = json.loads(information.read_text())["url"].removesuffix("/")
                self._ask("/api/status")
                return
            except (OSError, ValueError):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(0.05)
        raise AssertionError(f"the Jupyter server does not answer:\n{self.log_tail()}")

    def _ask(self, path: str, method: str = "GET") -> bytes:
        headers = {"Authorization": f"token {self.token}"}
        request = urllib.request.Request(self.url + path, headers=headers, method=method)
        with _OPENER.open(request, timeout=30) as answer:
            return bytes(answer.read())


def own_environment(directory: Path) -> dict[str, str]:
    """Make the configuration in `directory`; returns the variables of a server that keeps to it."""
    config = directory / "config"
    for made in (directory / "runtime", directory / "home"):
        made.mkdir(parents=True)
    _write(config / "jupyter_server_config.json", _SERVER)
    _write(config / "labconfig" / "page_config.json", _PAGE)
    _write(config / "labconfig" / "default_setting_overrides.json", _SETTINGS)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DUETLINK_", "JUPYTER", "IPYTHON", "XDG_"))
    }
    return environment | {
        "HOME": str(directory / "home"),
        "JUPYTER_CONFIG_DIR": str(config),
        "JUPYTER_DATA_DIR": str(directory / "data"),
        "JUPYTER_RUNTIME_DIR": str(directory / "runtime"),
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
