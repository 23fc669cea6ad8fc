"""`outtrees app`: a page on this machine for people who do not use shells.

The server is uvicorn, on the loopback address alone; files come as the bodies of requests, so
there are no forms to parse. What a stranger could send is refused before its body is read:

- every address begins with a token that only the one who started it knows;
- the request must name this host and, if it says where it comes from, this page, so that no other
  page in the browser can use it, by whatever name it reaches this machine;
- a body must say how long it is, and may not be too long.

The run is a process of its own, `outtrees ancestry`, in a temporary folder that goes with the app.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import webbrowser
import zipfile
from collections.abc import AsyncIterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import click

from outtrees.cli.errors import APP, CommandError, chosen, one_line
from outtrees.cli.options import common_options, max_bytes
from outtrees.cli.screen import running

MOST_FILES = 20
_MOST_TEXT = 2**20  # bytes of a request that is no file
_LINES = 400  # of the log that are kept
# What a file may be, and the option that takes it.
USES = {
    "table": None,
    "sequences": "--sequences",
    "contacts": "--contacts",
    "stays": "--stays",
    "variants": "--variants",
    "distances": "--distances",
    "log-weights": "--log-weights",
    "generation time": "--generation-time",
    "unused": None,
}
# Options of the command that the page has a place of its own for, or that are the app's business.
_ELSEWHERE = frozenset(
    {"id", "kinds", "ignore", "label", "parent_column", "introduction_column", "group", "disease"}
    | {"waiting_mean", "waiting_sd", "unsequenced", "extra_sequences", "max_bytes", "coordinates"}
    | {"out", "check", "quiet", "as_json", "debug", "generations", "date", "places"}
)
_SEQUENCES = (".fa", ".fas", ".fasta", ".fna", ".nex", ".nexus")
_TYPES = {".html": "text/html", ".csv": "text/csv", ".json": "application/json"}
# Of the report: the page may run its own script and save files, and is a stranger to the app.
_SANDBOX = "sandbox allow-scripts allow-downloads allow-modals"


@click.command("app")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port on the loopback address.  [default: a free one]",
)
@click.option(
    "--browser/--no-browser",
    default=True,
    show_default=True,
    help="Whether to open the page in a browser.",
)
@max_bytes("Refuse more than this, of all files together.", 2**28, "256M")
@common_options
def command(**options: Any) -> None:
    """Open a page on this machine: drop files, check their columns, run, read the report.

    Nothing leaves the machine and nobody else can reach the page. Stop it with Ctrl-C, or by the
    button on the page: all files that were dropped or made go with it, so save the results first.
    """
    with running("app", options, ends=False) as screen:
        folder = Path(tempfile.mkdtemp(prefix="outtrees-app-"))
        session = Session(folder, options["max_bytes"])
        try:
            server = Server(session, options["port"])
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise CommandError(
                f"--port {options['port']} cannot be used: {error.strerror}", 3
            ) from None
        try:
            server.start()
            screen.say(f"open {server.address} (Ctrl-C stops it)")
            if options["browser"]:
                webbrowser.open(server.address)
            # Not `wait`: a signal that comes inside it can leave its lock taken, for ever.
            while not session.stopped.is_set():
                time.sleep(0.1)
        except KeyboardInterrupt:
            pass  # the usual way to stop
        finally:
            server.close()
            session.close()
        screen.say("stopped; the temporary files are gone")
        screen.summary["address"] = server.address


class Session:
    """The files that were dropped, what they are, and the run."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder, self.max_bytes = folder, max_bytes
        self.stopped = threading.Event()
        self.files: dict[str, str] = {}  # name in the folder → use
        self._adding = asyncio.Lock()  # one file after the other, for the room they take
        self._run: subprocess.Popen[bytes] | None = None
        self._log: list[str] = []
        self._began = self._ended = 0.0
        self._cancelled = False

    def close(self) -> None:
        """End the run and remove everything."""
        self.cancel()
        shutil.rmtree(self.folder, ignore_errors=True)

    # Files -----------------------------------------------------------------------------------

    def room(self) -> int:
        """Return how many bytes may still be added."""
        return self.max_bytes - sum((self.folder / name).stat().st_size for name in self.files)

    def new_name(self, said: str) -> str:
        """Return a plain name for a file that somebody called so."""
        plain = re.sub(r"[^A-Za-z0-9._-]+", "_", Path(said.replace("\\", "/")).name).lstrip("-.")
        stem, dot, suffix = (plain or "file")[-80:].rpartition(".")
        stem, suffix = (stem, dot + suffix) if stem else (suffix or "file", "")
        name, number = f"{stem}{suffix}", 1
        while name in self.files or name == "results":
            number += 1
            name = f"{stem}-{number}{suffix}"
        return name

    async def add(self, said: str, pieces: AsyncIterator[bytes], length: int) -> None:
        """Keep a file of `length` bytes; raise ValueError in words if that cannot be."""
        async with self._adding:
            if len(self.files) >= MOST_FILES:
                raise ValueError(f"at most {MOST_FILES} files; remove one first")
            if length > self.room():
                raise ValueError(
                    f"all files together must be at most {self.max_bytes:,} bytes; this one has "
                    f"{length:,}. Start the app with a larger --max-bytes"
                )
            name = self.new_name(said)
            part = self.folder / f".{name}.part"
            try:
                with part.open("wb") as file:
                    async for piece in pieces:
                        file.write(piece)
                part.rename(self.folder / name)
            finally:
                part.unlink(missing_ok=True)
            self.files[name] = self._guess(name)

    def _guess(self, name: str) -> str:
        """Return what a file probably is."""
        has_table = "table" in self.files.values()
        start = (self.folder / name).open("rb")
        with start:
            first = start.read(4096)
        if Path(name).suffix.lower() in _SEQUENCES:
            # Sequences may come before the table they belong to, or stand alone.
            return "sequences" if has_table else "table"
        words = set(re.split(r"[^a-z]+", first.split(b"\n")[0].decode("utf-8", "replace").lower()))
        if {"from", "to"} <= words:
            return "contacts"
        if {"place", "from", "until"} <= words:
            return "stays"
        if first.startswith(b"##fileformat=VCF") or {"sample", "position", "frequency"} <= words:
            return "variants"
        if not has_table:
            return "table"
        tables = [other for other, use in self.files.items() if use == "table"]
        other = tables[0]
        if Path(other).suffix.lower() in _SEQUENCES:
            self.files[other] = "sequences"
            return "table"
        return "unused"

    def set_use(self, name: str, use: str) -> None:
        """Say what a file is."""
        if name not in self.files or use not in USES:
            raise ValueError("no such file, or no such use")
        for other in self.files if use != "unused" else ():
            if self.files[other] == use:
                self.files[other] = "unused"
        self.files[name] = use

    def remove(self, name: str) -> None:
        """Forget a file."""
        if name not in self.files:
            raise ValueError("no such file")
        del self.files[name]
        (self.folder / name).unlink(missing_ok=True)

    def _of(self, use: str) -> Path | None:
        found = next((name for name, own in self.files.items() if own == use), None)
        return None if found is None else self.folder / found

    # Columns ---------------------------------------------------------------------------------

    def look(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of the table with the kinds that are guessed or asked for."""
        from outtrees.records import read_records
        from outtrees.records.column import MISSING
        from outtrees.records.evidence import as_evidence
        from outtrees.records.places import find_places

        table = self._table()
        options = _options(asked)
        reading = _reading(options)
        names, kinds = self._names(table, reading), self._kinds(table, asked)
        records = read_records(
            table,
            id=_text(asked.get("id")),
            kinds=kinds,
            sequences=self._of("sequences"),
            unsequenced="missing",
            extra_sequences="ignore",
            tracks=("no-tracks", "") not in options,
            day_first=next((n == "day-first" for n, _ in options if n.endswith("-first")), None),
            missing=(*MISSING, *(value for name, value in options if name == "na")),
            max_bytes=self.max_bytes,
            **reading,
        )
        given = dict(options)
        records = as_evidence(records, (given.get("until"), given.get("censored")))
        # The kind of a place is chosen for the columns that it is made of.
        together = [name for name, kind in kinds.items() if kind == "place"]
        found = find_places(names)

        def parts(column: Any) -> list[str]:
            if column.kind != "place" or column.name in names:
                return []
            named = found.get(column.name, ())
            free = not set(named) & set(kinds) or set(named) <= set(together)
            return list(named) if named and free else together

        rows: list[dict[str, Any]] = [
            {
                "name": name,
                "kind": {"ignored": "ignore", "uncertainty": "ignore"}.get(role, role),
                "why": why,
                "values": "",
            }
            for name, role, why in records.roles
        ]
        rows += [
            {"name": c.name, "kind": c.kind, "why": c.reason, "values": c.summary,
             "missing": c.n_missing, "parts": parts(c)}
            for c in records.columns
        ]  # fmt: skip
        return {"records": len(records), "columns": rows, "notes": list(records.notes)}

    def _table(self) -> Path:
        table = self._of("table")
        if table is None:
            raise ValueError("drop a table first: CSV, TSV, Excel, FASTA or NEXUS")
        return table

    def _names(self, table: Path, reading: Mapping[str, Any]) -> list[str]:
        """Return the names of the columns as the file has them, none of a file of sequences."""
        from outtrees.errors import RecordsError
        from outtrees.records.reading import read_text

        try:
            return list(read_text(table, max_bytes=self.max_bytes, **reading).names)
        except RecordsError:
            return []  # whoever reads the records says why

    def _kinds(self, table: Path, asked: Mapping[str, Any]) -> dict[str, str]:
        """Return the kinds that were asked for, without those of a file that was taken away."""
        kinds = _kinds(asked)
        names = self._names(table, _reading(_options(asked)))
        if self._of("sequences") is not None or not names:
            return kinds
        return {name: kind for name, kind in kinds.items() if name in names}

    # The run ---------------------------------------------------------------------------------

    def start(self, asked: Mapping[str, Any]) -> None:
        """Begin `outtrees ancestry` with what was asked for."""
        if self.state()["running"]:
            raise ValueError("a run is under way; cancel it first")
        table = self._table()
        more = [f"--{name}={v}" if v else f"--{name}" for name, v in _options(asked)]
        shutil.rmtree(self.folder / "results", ignore_errors=True)
        arguments = ["ancestry", table.name, "--out=results", "--seed=0"]
        arguments += ["--unsequenced=missing", "--extra-sequences=ignore"]
        arguments += [
            f"{option}={path.name}"
            for use, option in USES.items()
            if option is not None and (path := self._of(use)) is not None
        ]
        if _text(asked.get("id")):
            arguments.append(f"--id={asked['id']}")
        kinds = self._kinds(table, asked)
        arguments += [f"--kind={name}={kind}" for name, kind in kinds.items()]
        for name in ("disease", "waiting_mean", "waiting_sd"):
            if _text(asked.get(name)):
                arguments.append(f"--{name.replace('_', '-')}={asked[name]}")
        arguments += more
        self._log, self._cancelled = [], False
        self._began, self._ended = time.monotonic(), 0.0
        self._run = subprocess.Popen(
            [sys.executable, "-m", "outtrees", *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "COLUMNS": "100",
                "NO_COLOR": "1",
                "PYTHONUNBUFFERED": "1",
                APP: "1",
            },
            start_new_session=True,  # Ctrl-C of the app is not the run's; `cancel` ends it
        )
        threading.Thread(target=self._listen, args=(self._run,), daemon=True).start()

    def _listen(self, run: subprocess.Popen[bytes]) -> None:
        assert run.stdout is not None
        with run.stdout:
            for line in run.stdout:
                self._log = [*self._log, line.decode("utf-8", "replace").rstrip()][-_LINES:]
        run.wait()
        self._ended = time.monotonic()

    def cancel(self) -> None:
        """End the run, if there is one."""
        run = self._run
        if run is None or run.poll() is not None:
            return
        self._cancelled = True
        try:
            if hasattr(os, "killpg"):
                os.killpg(run.pid, signal.SIGTERM)  # its own session: nobody else is in the group
            else:
                run.terminate()
            run.wait(5)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
        except ProcessLookupError:
            pass  # it has just ended

    def state(self) -> dict[str, Any]:
        """Return all that the page shows."""
        run = self._run
        is_running = run is not None and run.poll() is None
        until = time.monotonic() if is_running else self._ended or time.monotonic()
        results = self.folder / "results"
        names = sorted(p.name for p in results.iterdir()) if results.is_dir() else []
        return {
            "files": [
                {"name": name, "use": use, "bytes": (self.folder / name).stat().st_size}
                for name, use in self.files.items()
            ],
            "uses": list(USES),
            "running": is_running,
            "seconds": 0.0 if run is None else round(until - self._began, 1),
            "code": None if run is None or is_running else run.returncode,
            "cancelled": self._cancelled,
            "log": self._log,
            "results": names,
        }

    def zipped(self) -> bytes:
        """Return all results as one archive."""
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted((self.folder / "results").iterdir()):
                archive.write(path, f"results/{path.name}")
        return content.getvalue()


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, (str, int, float)) and str(value).strip() else None


def _kinds(asked: Mapping[str, Any]) -> dict[str, str]:
    from outtrees.records.column import KINDS, ROLES

    kinds = asked.get("kinds") or {}
    if not isinstance(kinds, dict) or not set(kinds.values()) <= {*KINDS, *ROLES}:
        raise ValueError(f"a kind must be one of {', '.join((*KINDS, *ROLES))}")
    return {str(name): str(kind) for name, kind in kinds.items() if kind != "id"}


def more_options() -> list[dict[str, Any]]:
    """Return the options of the command that the page lists under "More options".

    A flag has no value; each of its two forms is an option of its own.
    """
    from outtrees.cli.ancestry import command as ancestry

    found: list[dict[str, Any]] = []
    for option in ancestry.params:
        path = isinstance(option.type, click.Path)
        if not isinstance(option, click.Option) or option.name in _ELSEWHERE or path:
            continue
        choices = list(option.type.choices) if isinstance(option.type, click.Choice) else []
        for text in (*option.opts, *option.secondary_opts):
            found.append(
                {"name": text.removeprefix("--"), "says": option.help or "", "choices": choices,
                 "flag": option.is_flag, "again": option.multiple}
            )  # fmt: skip
    return sorted(found, key=lambda option: str(option["name"]))


def _reading(options: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return how files are read, as `read_records` calls it."""
    found: dict[str, Any] = {n: value for n, value in options if n in ("sheet", "encoding")}
    return {**found, "quotes": ("no-quotes", "") not in options}


def _options(asked: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the options that were chosen besides, each with its value, "" for a flag."""
    known = {option["name"]: option for option in more_options()}
    found: list[tuple[str, str]] = []
    for pair in asked.get("options") or []:
        if not (isinstance(pair, list) and len(pair) == 2 and pair[0] in known):
            raise ValueError("an option must be one of those that are listed, with its value")
        name, value = pair[0], _text(pair[1]) or ""
        if known[name]["flag"] != (value == ""):
            raise ValueError(f"{name} needs a value" if value == "" else f"{name} has no value")
        found.append((name, value))
    return found


# The server --------------------------------------------------------------------------------


class Server:
    """Answers the page's requests, on the loopback address alone."""

    def __init__(self, session: Session, port: int) -> None:
        try:
            import uvicorn
        except ImportError:
            raise CommandError("the app needs uvicorn; pip install 'outtrees[app]'", 3) from None
        self.session, self.token = session, secrets.token_urlsafe(24)
        self.page, self.policy = app_page()
        self._socket = socket.create_server(("127.0.0.1", port))
        self.server_address: tuple[str, int] = self._socket.getsockname()
        self.host = f"127.0.0.1:{self.server_address[1]}"
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._answer,
                interface="asgi3",
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                proxy_headers=False,
                server_header=False,
                access_log=False,  # addresses hold the token
                log_config=None,
                log_level="critical",
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def address(self) -> str:
        """Where the page is, with its token."""
        return f"http://{self.host}/{self.token}/"

    def start(self) -> None:
        """Answer requests from now on."""
        self._thread.start()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def close(self) -> None:
        """Answer no more."""
        self._server.should_exit = True
        self._thread.join(5)
        self._socket.close()

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request, as ASGI has it."""
        try:
            answer = await self._answer_to(Request(scope, receive))
        except Refused as refused:
            answer = Answer(b"", "text/plain", {}, refused.status)
        except ConnectionError:
            return
        except Exception as error:  # in one sentence, as on the command line
            text = one_line(error, chosen).encode("utf-8", "replace")
            answer = Answer(text, "text/plain", {}, HTTPStatus.BAD_REQUEST)
        headers = {
            "Content-Type": f"{answer.kind}; charset=utf-8",
            "Content-Length": str(len(answer.content)),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",  # the address holds the token
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            **answer.headers,
        }
        if answer.status != HTTPStatus.OK:
            headers["Connection"] = "close"  # what is left of the body is not read
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": pairs})
        await send({"type": "http.response.body", "body": answer.content})

    async def _answer_to(self, request: Request) -> Answer:
        path, session = self._path(request), self.session
        if request.method == "GET":
            return await self._get(path)
        if request.method == "PUT" and path.startswith("files/"):
            length = request.length(session.max_bytes)
            await session.add(unquote(path.removeprefix("files/")), request.body(), length)
            return _json(session.state())
        if request.method == "DELETE" and path.startswith("files/"):
            session.remove(unquote(path.removeprefix("files/")))
            return _json(session.state())
        if request.method == "POST":
            return await self._post(path, await request.asked())
        raise Refused(HTTPStatus.NOT_FOUND)

    def _path(self, request: Request) -> str:
        """Return the address behind the token, after refusing strangers."""
        hosts = self.host, f"localhost:{self.server_address[1]}"
        if request.headers.get("host") not in hosts:
            raise Refused(HTTPStatus.MISDIRECTED_REQUEST)
        origin = request.headers.get("origin")
        if origin is not None and origin not in [f"http://{host}" for host in hosts]:
            raise Refused(HTTPStatus.FORBIDDEN)
        _, token, *rest = request.path.split("/", 2)
        if not secrets.compare_digest(token.encode(), self.token.encode()) or not rest:
            raise Refused(HTTPStatus.NOT_FOUND)
        return rest[0]

    async def _get(self, path: str) -> Answer:
        """Return the page, the state, or a file of the results."""
        session = self.session
        if path == "":
            policy = {"Content-Security-Policy": self.policy}
            return Answer(self.page.encode(), "text/html", policy)
        if path == "state":
            return _json(session.state())
        if path == "diseases":
            from outtrees.datasets.diseases import DISEASES

            return _json([{"name": row.name, "says": row.sentence} for row in DISEASES])
        if path == "alive":
            return _json({})
        if path == "options":
            return _json(more_options())
        results = session.state()["results"]
        if path == "results.zip" and results:
            content = await asyncio.to_thread(session.zipped)
            return Answer(content, "application/zip", _saved_as("results.zip"))
        name = unquote(path.removeprefix("results/"))
        if not path.startswith("results/") or name not in results:
            raise Refused(HTTPStatus.NOT_FOUND)  # so there is never a way out of the folder
        content = (session.folder / "results" / name).read_bytes()
        headers = {"Content-Security-Policy": _SANDBOX}
        if name != "report.html":
            headers |= _saved_as(name)
        return Answer(content, _TYPES.get(Path(name).suffix, "application/octet-stream"), headers)

    async def _post(self, path: str, asked: Mapping[str, Any]) -> Answer:
        """Look at the columns, run, cancel, stop."""
        session = self.session
        if path == "look":
            return _json(await asyncio.to_thread(session.look, asked))
        if path == "use":
            session.set_use(str(asked.get("name")), str(asked.get("use")))
        elif path == "run":
            session.start(asked)
        elif path == "cancel":
            await asyncio.to_thread(session.cancel)
        elif path == "stop":
            session.stopped.set()
            return _json({})
        else:
            raise Refused(HTTPStatus.NOT_FOUND)
        return _json(session.state())


class Refused(Exception):
    """A request that is answered by its status alone."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class Answer(NamedTuple):
    """What is sent."""

    content: bytes
    kind: str
    headers: dict[str, str]
    status: HTTPStatus = HTTPStatus.OK


class Request:
    """What was asked, of which the body is read only if somebody wants it."""

    def __init__(self, scope: Mapping[str, Any], receive: Any) -> None:
        self.method: str = scope["method"]
        self._receive = receive
        self.path: str = scope["raw_path"].decode("ascii", "replace")
        self.headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in scope["headers"]}

    def length(self, most: int) -> int:
        """Return the length of the body; refuse if it is not stated, or too long."""
        text = self.headers.get("content-length", "")
        if "transfer-encoding" in self.headers or not re.fullmatch(r"\d{1,18}", text):
            raise Refused(HTTPStatus.LENGTH_REQUIRED)
        if int(text) > most:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return int(text)

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the body piece by piece."""
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ConnectionAbortedError
            yield message.get("body", b"")
            more = message.get("more_body", False)

    async def asked(self) -> dict[str, Any]:
        """Return the JSON object that is the body."""
        self.length(_MOST_TEXT)
        asked = json.loads(b"".join([piece async for piece in self.body()]) or b"{}")
        if not isinstance(asked, dict):
            raise ValueError("an object is expected")
        return asked


def _json(content: Any) -> Answer:
    return Answer(json.dumps(content).encode(), "application/json", {})


def _saved_as(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def app_page() -> tuple[str, str]:
    """Return the page and its content policy: nothing but its own script, style and server."""
    from outtrees.views.report import asset, source_hash

    style = asset("report.css") + asset("app.css")
    script = "\n'use strict';\n" + asset("dom.js") + asset("app.js")
    page = asset("app.html").replace("@@STYLE@@", style).replace("@@SCRIPT@@", script)
    policy = (
        f"default-src 'none'; script-src {source_hash(script)}; style-src {source_hash(style)}; "
        "connect-src 'self'; frame-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return page, policy
