# bench/peers/server.py - one driver under measurement: started once, asked for points, asleep in between.
#
# All drivers of a section live at the same time, so that a point can be measured with each of them within a second: the
# machine then is the same for all. The line protocol is that of bench/engine/session.h.
#
# SPDX-License-Identifier: BSD-3-Clause
import contextlib
import json
import os
import signal
import socket
import subprocess
import time

START_SECONDS = 60  # for as many ranks as cores; more ranks get as much more
ANSWER_SECONDS = 120  # where the asker gives no limit


class ServerError(Exception):
    """The driver cannot be started, died, or did not answer."""


class NoAnswer(ServerError):
    """The driver did not answer in time."""


def descendants(process):
    """Children of a process, and theirs."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
            children.setdefault(int(file.read().rsplit(")", 1)[1].split()[1]), []).append(int(name))
    found = list(children.get(process, ()))
    for one in found:  # grows while it is gone through
        found += children.get(one, ())
    return found


class Server:
    """command: argv without --serve SOCKET, which is appended. folder: for the socket and what the driver prints. ranks: for
    how long starting may take."""

    def __init__(self, name, command, folder, env=None, ranks=1):
        self.name = name
        self.command = command
        self.folder = folder
        self.env = env or {}
        self.start_seconds = START_SECONDS * max(1, ranks / (os.cpu_count() or 1))
        self.process = None
        self.line = self.connection = None
        self.variants = []

    def start(self):
        path = os.path.join(self.folder, f"{self.name}.sock")
        self.log_path = os.path.join(self.folder, f"{self.name}.log")
        if os.path.exists(path):
            os.unlink(path)
        with socket.socket(socket.AF_UNIX) as listener, open(self.log_path, "wb") as log:
            listener.bind(path)
            listener.listen(1)
            listener.settimeout(0.2)
            try:
                self.process = subprocess.Popen(self.command + ["--serve", path], stdin=subprocess.DEVNULL, stdout=log,
                                                stderr=log, env={**os.environ, **self.env}, start_new_session=True)
            except OSError as error:
                raise ServerError(f"{self.name}: {error}") from error
            connection = self._accept(listener)
        self.line = connection.makefile("rw", encoding="utf-8", newline="\n")
        self.connection = connection
        greeting = self._read(ANSWER_SECONDS)
        self.variants = greeting["variants"]
        self.ranks = greeting["ranks"]

    def _accept(self, listener):
        deadline = time.monotonic() + self.start_seconds
        while time.monotonic() < deadline:
            try:
                return listener.accept()[0]
            except socket.timeout:
                if self.process.poll() is not None:
                    break
        self.kill()
        raise ServerError(f"{self.name}: did not start: {self.last_words()}")

    def last_words(self):
        """The end of what the driver printed, on one line."""
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
        return " | ".join(lines[-4:])[-400:] or "it printed nothing"

    def _read(self, seconds):
        self.connection.settimeout(seconds)
        try:
            text = self.line.readline()
        except socket.timeout as error:
            self.kill()
            raise NoAnswer(f"{self.name}: no answer in {seconds:.0f} s: {self.last_words()}") from error
        except OSError as error:
            self.kill()
            raise ServerError(f"{self.name}: {error}: {self.last_words()}") from error
        if not text:
            self.kill()
            raise ServerError(f"{self.name}: died: {self.last_words()}")
        return json.loads(text)

    def ask(self, question, seconds=None):
        """The row, or None when this driver does not have the point. NoAnswer after so many seconds."""
        try:
            self.line.write(json.dumps(question) + "\n")
            self.line.flush()
        except OSError as error:
            self.kill()
            raise ServerError(f"{self.name}: died: {self.last_words()}") from error
        answer = self._read(seconds or ANSWER_SECONDS)
        return None if "error" in answer else answer

    def stop(self):
        """Ends the driver in order."""
        if self.process is None:
            return
        self._hang_up()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.kill()

    def _hang_up(self):
        for end in (self.line, self.connection):
            try:
                if end is not None:
                    end.close()
            except OSError:  # the other end is gone, with what was to be said
                pass
        self.line = self.connection = None

    def kill(self):
        """With all that it started: launchers put ranks into groups of their own, and one that spins would go on spinning."""
        self._hang_up()
        if self.process is not None and self.process.poll() is None:
            ranks = descendants(self.process.pid)
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            for process in ranks:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
