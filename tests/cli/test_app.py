"""`outtrees app`: strangers are refused, a browser goes all the way, nothing is left behind."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import pytest
from selenium.common.exceptions import (
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from cli.outbreak import write_outbreak
from outtrees.cli.app import MOST_FILES, USES, Server, Session
from outtrees.cli.errors import OPTIONS, CommandError
from views.report_page import find_browser, open_browser

# What a control raises that is not drawn yet, or is drawn anew.
NOT_YET = [ElementNotInteractableException, StaleElementReferenceException]

HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture
def server(tmp_path):
    """The server without a page, taking 20,000 bytes of files."""
    session = Session(tmp_path / "app", 20_000)
    session.folder.mkdir()
    made = Server(session, 0)
    made.start()
    yield made
    made.close()
    session.close()


def ask(server, method, path, body=None, headers=None, token=None):
    port = server.server_address[1]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(
            method,
            f"/{token or server.token}/{path}",
            body,
            {"Connection": "close"} | (headers or {}),
        )
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def test_the_server_is_an_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(CommandError, match=r"pip install 'outtrees\[app\]'"):
        Server(Session(tmp_path, 10), 0)


def test_strangers_are_refused(server, capfd):
    assert ask(server, "GET", "state")[0] == 200
    for token in ("x", "", server.token[:-1], server.token + "a"):
        status, content, _ = ask(server, "GET", "state", token=token or " ".strip() or "-")
        assert (status, content) == (404, b"")
    # Another name for this machine, as an attacker's page would use.
    assert ask(server, "GET", "state", headers={"Host": "evil.example"})[0] == 421
    assert ask(server, "POST", "stop", b"{}", {"Origin": "https://evil.example"})[0] == 403
    assert ask(server, "POST", "stop", b"{}", {"Origin": "null"})[0] == 403
    assert not server.session.stopped.is_set()
    own = {"Origin": f"http://{server.host}"}
    assert ask(server, "POST", "cancel", b"{}", own)[0] == 200
    assert capfd.readouterr() == ("", "")  # addresses hold the token


def test_only_the_loopback_address_listens(server):
    assert server.server_address[0] == "127.0.0.1"
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in others - {"127.0.0.1"}:
        with socket.socket() as probe:
            probe.settimeout(2)
            if address.startswith("127."):
                continue
            assert probe.connect_ex((address, server.server_address[1])) != 0


def test_the_page_runs_nothing_but_its_own(server):
    status, content, headers = ask(server, "GET", "")
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert b"http://" not in content
    assert server.token.encode() not in content


def test_uploads_are_bounded(server):
    assert ask(server, "PUT", "files/a.csv", b"x" * 30_000)[0] == 413
    assert ask(server, "PUT", "files/a.csv", b"a,b\n1,2\n")[0] == 200
    status, content, _ = ask(server, "PUT", "files/b.csv", b"x" * 19_999)
    assert status == 400
    assert b"all files together must be at most 20,000 bytes" in content
    # Without a length, or with a body that never ends, nothing is read.
    with socket.create_connection(server.server_address) as wire:
        head = f"PUT /{server.token}/files/c HTTP/1.1\r\nHost: {server.host}\r\n"
        wire.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        assert b" 411 " in wire.recv(200)
    with socket.create_connection(server.server_address) as wire:
        wire.sendall(f"{head}Content-Length: 900\r\n\r\nshort".encode())
        wire.shutdown(socket.SHUT_WR)
        assert b" 200 " not in wire.recv(2000)
    for number in range(MOST_FILES - 1):
        assert ask(server, "PUT", f"files/{number}.csv", b"x")[0] == 200
    status, content, _ = ask(server, "PUT", "files/more.csv", b"x")
    assert (status, b"at most 20 files" in content) == (400, True)
    kept = sorted(p.name for p in server.session.folder.iterdir())
    assert kept == sorted(server.session.files)  # and no part of what was refused


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\data\\cases.csv", "cases.csv"),
        ("--out=x.csv", "out_x.csv"),
        (".hidden", "hidden"),
        ("results", "results-2"),
        (HOSTILE, "script_img_src_x_onerror_alert_1_"),
        ("", "file"),
        ("ключ.csv", "_.csv"),
    ],
)
def test_names_of_files_are_made_plain(server, said, kept):
    found = server.session.new_name(said)
    assert found == kept
    assert (server.session.folder / found).parent == server.session.folder


def test_what_is_asked_for_wrongly_is_refused_in_words(server):
    status, content, _ = ask(server, "POST", "look", b"{}")
    assert (status, b"drop a table first" in content) == (400, True)
    for path, body in [
        ("look", b"[1]"),
        ("look", b"not json"),
        ("use", b'{"name": "x", "use": "table"}'),
        ("run", b"{}"),
    ]:
        assert ask(server, "POST", path, body)[0] == 400
    ask(server, "PUT", "files/t.csv", b"id,d\na,2020-01-01\nb,2020-01-02\n")
    status, content, _ = ask(server, "POST", "look", b'{"kinds": {"d": "nonsense"}}')
    assert (status, b"a kind must be one of" in content) == (400, True)
    status, content, _ = ask(server, "POST", "look", b'{"id": "nobody"}')
    assert status == 400
    for path in ("results/../t.csv", "results/%2e%2e/t.csv", "results/x", "results.zip", "nothing"):
        assert ask(server, "GET", path)[0] == 404
    assert ask(server, "DELETE", "files/..%2fx")[0] == 400
    assert ask(server, "DELETE", "files/t.csv")[0] == 200
    assert server.session.files == {}


def test_kinds_and_uses_are_guessed(server):
    ask(server, "PUT", "files/dna.fasta", b">a\nACGT\n>b\nACGA\n")
    ask(server, "PUT", "files/cases.csv", b"id,onset\na,2020-01-01\nb,2020-01-02\n")
    ask(server, "PUT", "files/met.csv", b"from,to\na,b\n")
    assert server.session.files == {
        "dna.fasta": "sequences", "cases.csv": "table", "met.csv": "contacts",
    }  # fmt: skip
    ask(server, "PUT", "files/calls.vcf", b"##fileformat=VCFv4.2\n#CHROM\tPOS\n")
    assert server.session.files["calls.vcf"] == "variants"
    ask(server, "DELETE", "files/calls.vcf")
    found = json.loads(ask(server, "POST", "look", b"{}")[1])
    kinds = {column["name"]: column["kind"] for column in found["columns"]}
    assert kinds == {"id": "id", "onset": "date", "sequence": "sequence"}
    found = json.loads(ask(server, "POST", "look", b'{"kinds": {"onset": "ignore"}}')[1])
    kinds = {column["name"]: column["kind"] for column in found["columns"]}
    assert kinds["onset"] == "ignore"


def test_places_and_sequences_can_be_given_another_kind(server):
    """A place is made of columns, and sequences of a file: neither is a column of the table."""
    ask(
        server,
        "PUT",
        "files/cases.csv",
        b"id,lat,lon,n\na,50.1,8.1,3\nb,50.2,8.2,4\nc,50.3,8.3,9\n",
    )
    ask(server, "PUT", "files/dna.fasta", b">a\nACGT\n>b\nACGA\n>c\nACGA\n")

    def look(**asked):
        status, content, _ = ask(server, "POST", "look", json.dumps(asked).encode())
        assert status == 200, content
        return {column["name"]: column for column in json.loads(content)["columns"]}

    place = look()["place"]
    assert (place["kind"], place["parts"]) == ("place", ["lat", "lon"])
    kinds = dict.fromkeys(place["parts"], "ignore")
    assert look(kinds=kinds)["lat"]["kind"] == "ignore"
    back = look(kinds=dict.fromkeys(place["parts"], "place"))["place"]
    assert (back["kind"], back["parts"]) == ("place", ["lat", "lon"])
    odd = look(kinds={"lat": "place", "n": "place"})["place"]
    assert odd["parts"] == ["lat", "n"]
    # What was chosen for sequences that were taken away is forgotten.
    assert "sequence" not in look(kinds={"sequence": "ignore"})
    assert ask(server, "DELETE", "files/dna.fasta")[0] == 200
    assert set(look(kinds={"sequence": "ignore"})) == {"id", "place", "n"}


def test_of_two_dates_the_page_says_which_one_counts(server):
    table = "Pat-Nr,admitted,first positive\n" + "".join(
        f"{7000 + 13 * day},2024-03-{day:02},2024-03-{day + 3:02}\n" for day in range(1, 9)
    )
    ask(server, "PUT", "files/cases.csv", table.encode())

    def look(**asked):
        found = json.loads(ask(server, "POST", "look", json.dumps(asked).encode())[1])
        return {c["name"]: (c["kind"], c["why"]) for c in found["columns"]}

    found = look()
    assert [found[name][0] for name in ("Pat-Nr", "first positive")] == ["id", "date"]
    assert found["admitted"][0] == "ignore"
    assert "another date; 'first positive' is used" in found["admitted"][1]
    found = look(kinds={"admitted": "date"})
    assert [found[name][0] for name in ("admitted", "first positive")] == ["date", "ignore"]


def test_more_options_are_those_of_the_command(server):
    known = {o["name"]: o for o in json.loads(ask(server, "GET", "options")[1])}
    assert known["keep"]["again"]
    assert known["roots"]["choices"] == ["auto", "single", "any"]
    assert known["no-strict-dates"]["flag"]
    assert not {"out", "id", "kind", "sequences", "checkpoint", "debug"} & set(known)
    # Every remedy that a message of the library names is there to be chosen.
    places = {*known, "kind", "id", "disease", "waiting-mean", "waiting-sd", "ignore"}
    places |= {"introduction-column", "max-bytes", *(use.replace(" ", "-") for use in USES)}
    of_other_commands = {
        *("by", "mutation", "scheduler", "sharpness", "stickiness", "method", "n-draws"),
        *("missing", "background", "distances", "unsequenced", "extra-sequences", "checkpoint"),
    }
    named = set(OPTIONS.values()) - places - of_other_commands
    assert {f"no-{name}" for name in named} <= set(known)
    ask(server, "PUT", "files/t.csv", "id,name\na,M\xfcller\nb,M\xfcller\n".encode("latin-1"))
    status, content, _ = ask(server, "POST", "look", b"{}")
    assert (status, "“encoding latin-1” (More options, step 3)" in content.decode()) == (400, True)
    chosen = b'{"options": [["encoding", "latin-1"]], "kinds": {"name": "categorical"}}'
    assert "Müller" in ask(server, "POST", "look", chosen)[1].decode("unicode_escape")
    for options in ('[["out", "x"]]', '[["keep", ""]]', '[["ties", "yes"]]', '["keep"]'):
        body = f'{{"options": {options}}}'.encode()
        assert ask(server, "POST", "run", body)[0] == 400


# The command, and a browser ----------------------------------------------------------------------


@pytest.fixture
def app(tmp_path):
    """The command in a process of its own, with its temporary files below tmp_path."""
    (tmp_path / "temporary").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "outtrees", "app", "--no-browser"],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary"), "PYTHONUNBUFFERED": "1"},
        text=True,
        start_new_session=True,
        # Tests that a shell runs in the background ignore Ctrl-C, and so would what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    line = process.stdout.readline()
    process.address = re.search(r"http://\S+", line)[0]
    process.temporary = tmp_path / "temporary"
    yield process
    if process.poll() is None:
        process.kill()
    process.stdout.close()
    process.wait()


def running_below(folder):
    """The processes that work in this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if str(folder) in os.readlink(entry):
                found.append(entry.parts[2])
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="looks at processes in /proc")
@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_and_leaves_nothing(app, signal_sent):
    parts = urlsplit(app.address)
    base = app.address
    table = "id,d\n" + "".join(f"r{i},{i // 3}\n" for i in range(600))
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    connection.request("PUT", f"{parts.path}files/t.csv", table.encode())
    assert connection.getresponse().status == 200
    connection.close()
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    connection.request("POST", f"{parts.path}run", b'{"kinds": {"d": "date"}}')
    assert connection.getresponse().status == 200
    connection.close()
    assert json.load(urlopen(f"{base}state"))["running"]
    assert running_below(app.temporary)
    app.send_signal(signal_sent)
    assert app.wait(30) == (0 if signal_sent == signal.SIGINT else 143)
    assert list(app.temporary.iterdir()) == []
    deadline = time.monotonic() + 10  # for the system to tidy up after the processes
    while running_below(app.temporary) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running_below(app.temporary) == []


@pytest.mark.slow  # its clicks come too early now and then on a busy machine
def test_choices_stay_are_advised_and_end_with_the_program(app, tmp_path):
    find_browser()
    rng = np.random.default_rng(1)
    lines = [f"r{i:02},{i // 2},{rng.choice(['N', 'S'])},{i % 7}" for i in range(24)]
    (tmp_path / "cases.csv").write_text("\n".join(["name,when,ward,noise", *lines]))
    (tmp_path / "met.csv").write_text("from,to\nr01,r02\n")
    browser = open_browser()
    try:
        browser.get(app.address)
        page = lambda name: browser.find_element(By.ID, name)  # noqa: E731
        wait = WebDriverWait(browser, 120, 0.1, NOT_YET)
        until = lambda what: wait.until(lambda _: what())  # noqa: E731

        def kinds():
            return browser.execute_script(
                "return Object.fromEntries([...document.querySelectorAll('#columns tr')].map((row) "
                "=> [row.querySelector('th').textContent, row.querySelector('select').value]))"
            )

        def choose(column, kind):
            found = f"//*[@id='columns']//select[@aria-label='Kind of {column}']"
            # Again if the columns were drawn anew meanwhile.
            until(
                lambda: (
                    Select(browser.find_element(By.XPATH, found)).select_by_value(kind)
                    or kinds().get(column) == kind
                )
            )

        page("choose").send_keys(str(tmp_path / "cases.csv"))
        until(lambda: kinds().get("noise") == "count")
        choose("when", "date")
        choose("noise", "categorical")
        # Another file does not undo what was chosen.
        page("choose").send_keys(str(tmp_path / "met.csv"))
        until(lambda: len(page("files").find_elements(By.TAG_NAME, "li")) == 2)
        time.sleep(0.5)  # for the columns to be looked at again
        assert kinds() == {"name": "id", "when": "date", "ward": "categorical",
                           "noise": "categorical"}  # fmt: skip

        def add(name, value=None, choice=None):
            until(page("option-name").is_displayed)  # not at once on a busy machine
            Select(page("option-name")).select_by_value(name)
            if value is not None:
                until(page("option-value").is_displayed)
                page("option-value").send_keys(value)
            if choice is not None:
                until(page("option-choice").is_displayed)
                Select(page("option-choice")).select_by_value(choice)
            until(page("option-add").is_displayed)
            page("option-add").click()

        def options():
            return [
                li.text.split("\n")[0] for li in page("options").find_elements(By.TAG_NAME, "li")
            ]

        page("more-options").find_element(By.TAG_NAME, "summary").click()
        add("parameters", choice="integrated")
        add("parameters", choice="fitted")  # replaces it
        add("no-ties")
        until(lambda: options() == ["parameters fitted", "no-ties"])
        page("options").find_elements(By.TAG_NAME, "button")[1].click()
        until(lambda: options() == ["parameters fitted"])
        add("keep", "ward")
        until(lambda: options() == ["parameters fitted", "keep ward"])
        page("waiting-mean").send_keys("3")
        page("run").click()
        until(lambda: page("progress").text.startswith(("done", "failed")))
        browser.switch_to.frame(page("report"))
        until(lambda: browser.execute_script("return window.outtrees && window.outtrees.ready"))
        said = browser.find_element(By.ID, "warnings").text
        # What to choose on the page; and what was chosen is kept, as the command says too.
        assert "“keep noise” (More options, step 3) keeps it" in said
        assert "keep ward" not in said
        assert "--" not in said
        source = browser.page_source
        assert "--parameters=fitted --keep=ward" in source
        browser.switch_to.default_content()
        # The program ends; the page says so by itself, and offers nothing that would fail.
        app.send_signal(signal.SIGINT)
        until(lambda: "The program has ended" in page("message").text)
        assert "downloaded any more" in page("message").text
        assert not page("run").is_enabled()
        for link in (page("everything"), *page("results").find_elements(By.TAG_NAME, "a")):
            assert link.get_attribute("href") is None
        browser.switch_to.frame(page("report"))
        assert "Ancestry of 24 records" in browser.find_element(By.TAG_NAME, "h1").text
    finally:
        browser.quit()


def test_from_a_dropped_file_to_the_report(app, tmp_path):
    find_browser()
    files = write_outbreak(tmp_path)
    browser = open_browser()
    try:
        browser.get(app.address)
        page = lambda name: browser.find_element(By.ID, name)  # noqa: E731
        # The page may draw its lists anew while one looks at them.
        wait = WebDriverWait(browser, 120, 0.1, NOT_YET)
        until = lambda what: wait.until(lambda _: what())  # noqa: E731
        # Dropped, as far as a script can drop; and chosen.
        browser.execute_script(
            "const d = new DataTransfer(); d.items.add(new File([arguments[0]], 'cases.csv'));"
            "document.getElementById('drop').dispatchEvent("
            "new DragEvent('drop', {dataTransfer: d, bubbles: true, cancelable: true}))",
            Path(files.cases).read_text(),
        )
        until(lambda: page("columns").find_elements(By.TAG_NAME, "tr"))
        page("choose").send_keys(str(files.dna))
        until(lambda: len(page("files").find_elements(By.TAG_NAME, "li")) == 2)
        uses = [Select(s).first_selected_option.text for s in
                page("files").find_elements(By.TAG_NAME, "select")]  # fmt: skip
        assert uses == ["table", "sequences"]

        def kinds():
            rows = page("columns").find_elements(By.TAG_NAME, "tr")
            cells = [(r.find_element(By.TAG_NAME, "th").text, r.find_element(By.TAG_NAME, "select"))
                     for r in rows]  # fmt: skip
            return {name: Select(select) for name, select in cells}

        until(lambda: "sequence" in kinds())
        said = until(
            lambda: {n: select.first_selected_option.text for n, select in kinds().items()}
        )
        assert said["onset"] == "date"
        assert said["sequence"] == "sequence"
        kinds()["outcome"].select_by_visible_text("ignore")
        until(lambda: kinds()["outcome"].first_selected_option.text == "ignore")
        until(lambda: len(Select(page("disease")).options) > 5)
        Select(page("disease")).select_by_visible_text("measles")
        assert "measles" in page("disease-note").text
        page("run").click()
        until(lambda: page("cancel").is_displayed())
        page("cancel").click()
        until(lambda: page("progress").text == "cancelled")
        Select(page("disease")).select_by_index(0)
        page("waiting-mean").send_keys("5")
        page("waiting-sd").send_keys("2")
        page("run").click()
        until(lambda: page("progress").text.startswith(("running", "done")))
        until(lambda: page("progress").text.startswith("done") or page("message").is_displayed())
        assert not page("message").is_displayed(), page("message").text
        page("log-box").find_element(By.TAG_NAME, "summary").click()
        assert "a child comes 5 ± 2 days after its parent" in page("log").text
        assert page("open-report").get_attribute("href").endswith("results/report.html")
        assert page("everything").get_attribute("href").endswith("results.zip")
        browser.switch_to.frame(page("report"))
        until(lambda: browser.find_elements(By.ID, "canvas"))
        until(lambda: browser.execute_script("return window.outtrees && window.outtrees.ready"))
        assert "Ancestry of" in browser.find_element(By.TAG_NAME, "h1").text
        # The report is a stranger to the app that shows it.
        assert browser.execute_script("return window.origin") == "null"
        browser.switch_to.default_content()
        with urlopen(f"{app.address}results.zip") as answer:
            (tmp_path / "all.zip").write_bytes(answer.read())
        names = zipfile.ZipFile(tmp_path / "all.zip").namelist()
        assert {"results/parents.csv", "results/report.html", "results/tree.newick"} <= set(names)
        listed = [a.text for a in page("results").find_elements(By.TAG_NAME, "a")]
        assert sorted(f"results/{name}" for name in listed) == sorted(names)
        with urlopen(f"{app.address}results/report.html") as answer:
            report = answer.read().decode()
            assert answer.headers["Content-Security-Policy"].startswith("sandbox")
        assert str(app.temporary) not in report  # the command is told without this machine's paths
        # A table that cannot be read is told in one sentence.
        bad = tmp_path / f"{HOSTILE.replace('/', '')}.csv"
        bad.write_text(f"a,{HOSTILE}\n1\n1,2,3\n")
        page("choose").send_keys(str(bad))
        until(lambda: len(page("files").find_elements(By.TAG_NAME, "li")) == 3)
        Select(page("files").find_elements(By.TAG_NAME, "select")[2]).select_by_value("table")
        until(lambda: page("message").is_displayed())
        assert browser.find_elements(By.TAG_NAME, "img") == []
        page("files").find_elements(By.TAG_NAME, "button")[2].click()
        until(lambda: len(page("files").find_elements(By.TAG_NAME, "li")) == 2)
        size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        own = [
            e["message"]
            for e in browser.get_log("browser")
            if "400 (Bad Request)" not in e["message"]
        ]
        assert own == []
        page("stop").click()
        until(lambda: "has stopped" in browser.find_element(By.TAG_NAME, "body").text)
        assert app.wait(30) == 0
        assert list(app.temporary.iterdir()) == []
    finally:
        browser.quit()
