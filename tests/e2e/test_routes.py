"""From the localizer's page through a real Prometheus and Alertmanager to mail, chat and webhook: who is told what.

One stack for all routes. Prometheus scrapes each second and the rules have no patience, so that an end is seen too.
"""

from __future__ import annotations

import json
import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest

from alert_rules import ALERTS, generator, with_mail_and_chat
from eroica_otel.publish.series import JobStatus, LocalizerStatus, OpenFinding, job_points, localizer_points
from eroica_otel.publish.serve import MetricsServer, Publication
from eroica_otel.webserver import Address, BoundedServer, Handler
from factories_central import finding, identity, report
from jobs import wait_until
from servers import alertmanager, prometheus

RUNBOOK = "https://wiki.example/runbook"
AT = r"Since \d\d:\d\d UTC\."
OVER = r"from \d\d:\d\d to \d\d:\d\d UTC\."


class Inbox(BoundedServer):
    """Takes what an Alertmanager posts: (last part of the path, body)."""

    def __init__(self) -> None:
        super().__init__(Address("127.0.0.1", 0), _Post)
        self.taken: list[tuple[str, dict[str, Any]]] = []
        self.start("inbox")


class _Post(Handler):
    server: Inbox

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.taken.append((self.path.rpartition("/")[2], body))
        self.answer(200, b"ok")


class Mailbox(socketserver.ThreadingTCPServer):
    """Takes mail by SMTP, as much of it as an Alertmanager speaks: (subject, text)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Smtp)
        self.taken: list[tuple[str, str]] = []
        threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Smtp(socketserver.StreamRequestHandler):
    server: Mailbox

    def handle(self) -> None:
        self._say("220 mailbox")
        while line := self.rfile.readline():
            word = line.split()[0].upper() if line.split() else b""
            if word == b"DATA":
                self._say("354 go on")
                self._take()
            self._say("221 bye" if word == b"QUIT" else "250 ok")

    def _take(self) -> None:
        lines = iter(self.rfile.readline, b".\r\n")
        mail = message_from_bytes(b"".join(lines), policy=policy.default)
        body = mail.get_body(("plain",))
        self.server.taken.append((str(mail["Subject"]), str(body.get_content()) if body else ""))

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


def job(name: str, team: str, *findings: dict[str, Any]) -> JobStatus:
    opened = []
    for changes in findings:
        judged = finding(**changes)
        opened.append(OpenFinding(judged, 1, "degraded", tuple(identity(rank) for rank in judged.ranks), 3, "other"))
    return JobStatus(name, team, 4, tuple(opened), report())


HOT: dict[str, Any] = {
    "ranks": (1,), "function": "gemm", "cause": "gpu_throttled", "domain": "hardware", "impact_ratio": 0.3,
    "severity": "critical",
}  # fmt: skip
SLOW: dict[str, Any] = {
    "ranks": (3,), "function": "augment (train.py:41)", "cause": "python_overhead", "domain": "code",
    "impact_ratio": 0.1, "severity": "warning",
}  # fmt: skip
FETCH = SLOW | {"ranks": (2,), "function": "fetch (data.py:3)", "cause": "slow_input", "domain": "data"}
ALL = {
    "verdict": "job",
    "scope": "job",
    "ranks": (),
    "hosts": (),
    "cause": "unknown",
    "severity": "critical",
    "domain": "code",
}
FAULTS = (
    job("a", "nlp", HOT, SLOW),  # the warning of the same job is kept back by the critical one
    job("b", "research", FETCH),
    job("c", "vision", ALL),
    job("d", "nlp", SLOW),  # a job of the same team, with the fault that is kept back at job a
)
HEALTHY = tuple(job(each.training_job, each.team) for each in FAULTS)


def show(page: MetricsServer, jobs: tuple[JobStatus, ...], failures: int) -> None:
    points = localizer_points(LocalizerStatus("1", failures={"judge": failures}))
    # Nobody makes rounds here, which would be told as well.
    points = [one for one in points if "last_round" not in one.name]
    page.publish(Publication((*points, *(point for each in jobs for point in job_points(each)))))


class Stack:
    """The running servers and what was told."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.inbox, self.mailbox = Inbox(), Mailbox()
        stack.callback(self.inbox.stop)
        stack.callback(self.mailbox.close)
        self.page = MetricsServer(Address("127.0.0.1", 0))
        self.page.start("page")
        stack.callback(self.page.stop)
        self.alerts = stack.enter_context(alertmanager(folder / "alertmanager", self._routes()))
        self.rules = stack.enter_context(self._prometheus(folder))

    def _routes(self) -> str:
        config = with_mail_and_chat()
        (ours,) = config["route"]["routes"]
        ours |= {"group_wait": "2s", "group_interval": "3s"}
        text = json.dumps(config).replace("http://127.0.0.1:9099", self.inbox.url)
        return text.replace("127.0.0.1:9025", f"127.0.0.1:{self.mailbox.server_address[1]}")

    def _prometheus(self, folder: Path) -> Any:
        config = (ALERTS / "config.ini").read_text("utf-8").replace("= docs/runbook.md", f"= {RUNBOOK}")
        config = re.sub(r"^(slower|blocked|pipeline|unmatched|keep) = .*$", r"\1 = 1s", config, flags=re.MULTILINE)
        config = re.sub(r"^failures = .*$", "failures = 8s", config, flags=re.MULTILINE)
        for name, text in generator().files(config).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        more = (
            f"rule_files: [{json.dumps(str(folder / 'rules' / '*.yml'))}]\n"
            f'alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{self.alerts.port}"]}}]}}]}}'
        )
        return prometheus(folder / "prometheus", {"eroica": [f"127.0.0.1:{self.page.port}"]}, more=more)

    def told(self) -> dict[str, list[tuple[str, str]]]:
        """Return (title or alert name with status, text) of each notification, by receiver."""
        found: dict[str, list[tuple[str, str]]] = {"mail": list(self.mailbox.taken)}
        for receiver, body in list(self.inbox.taken):
            if receiver == "chat":
                (part,) = body["attachments"]
                found.setdefault(receiver, []).append((part["title"], part["text"]))
            elif receiver != "watchdog":
                said = " | ".join(alert["annotations"]["description"] for alert in body["alerts"])
                name = f"{body['status']} {body['commonLabels']['alertname']}"
                found.setdefault(receiver, []).append((name, said))
        return found


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with ExitStack() as opened:
        yield Stack(tmp_path, opened)


def test_each_fault_is_told_once_to_who_can_mend_it_and_its_end_follows(stack: Stack) -> None:
    show(stack.page, HEALTHY, 0)
    wait_until(lambda: bool(stack.rules.query('eroica_localizer_failures_total{stage="judge"}')), "a first scrape")
    show(stack.page, FAULTS, 1)
    routes = {"mail": 1, "research": 1, "chat": 2, "platform": 1}
    wait_until(lambda: counts(stack) == routes, f"one notification for each fault, had {counts(stack)}", 60)
    suppressed = [one["labels"] for one in stack.alerts.get("/api/v2/alerts") if one["status"]["state"] == "suppressed"]
    assert [(one["training_job"], one["rank"], one["domain"]) for one in suppressed] == [("a", "3", "code")]
    first = stack.told()
    show(stack.page, HEALTHY, 1)
    twice = {receiver: 2 * count for receiver, count in routes.items()}
    wait_until(lambda: counts(stack) == twice, f"the end of each fault, had {counts(stack)}", 60)
    told = stack.told()
    assert {receiver: said[: routes[receiver]] for receiver, said in told.items()} == first
    mails(told["mail"])
    chats(told["chat"])
    (name, text), (end, _) = told["research"]
    assert (name, end) == ("firing EroicaWorkerSlowsJob", "resolved EroicaWorkerSlowsJob")
    assert text.startswith("Rank 2 on host-1 costs 10% of every iteration: fetch (data.py:3), slow_input.")
    (name, text), (end, _) = told["platform"]
    assert (name, end) == ("firing EroicaLocalizerFailing", "resolved EroicaLocalizerFailing")
    assert text.startswith("Failed in the last 8s: judge")


def counts(stack: Stack) -> dict[str, int]:
    return {receiver: len(said) for receiver, said in stack.told().items()}


def mails(told: list[tuple[str, str]]) -> None:
    (subject, text), (end, after) = told
    assert subject == "[critical] Training job a is slowed by one worker."
    assert re.fullmatch(
        r"Rank 1 on host-0 costs 30% of every iteration: gemm, gpu_throttled\. Workers that wait for it: 3\. Advice: "
        rf"[^\n]+\.\n{AT}\nTeam: nlp\. Runbook: {RUNBOOK}#eroicaworkerslowsjob",
        text.strip().replace("\r", ""),
    )
    assert end == "[resolved] Training job a is slowed by one worker."
    assert re.match(rf"Over: rank 1 on host-0, {OVER}", after)


def chats(told: list[tuple[str, str]]) -> None:
    titles = sorted(title for title, _ in told)
    slowed = {"c": "on all of its workers alike", "d": "by one worker"}
    assert titles == sorted(
        f"[{status}] Training job {name} is slowed {how}."
        for name, how in slowed.items()
        for status in ("critical" if name == "c" else "warning", "resolved")
    )
    texts = dict(told)
    assert re.match(
        rf"Rank 3 on host-1 costs 10% of every iteration: augment \(train\.py:41\), python_overhead\.(.|\n)+{AT}",
        texts["[warning] Training job d is slowed by one worker."],
    )
    assert re.match(
        rf"Over, {OVER}\nTeam: vision\.", texts["[resolved] Training job c is slowed on all of its workers alike."]
    )
