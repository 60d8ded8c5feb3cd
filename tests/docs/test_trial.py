"""docs/howto/trial.md, followed from an empty folder to a release, with real processes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from docs.services import await_providers, service
from docs.walkthrough import DOCS, Block, Reader, commands
from masquerade.demo.scene import free_addresses

pytestmark = pytest.mark.system

WRITTEN = ("127.0.0.1:7000", "127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:8080")


def test_a_trial_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    addresses = dict(zip(WRITTEN, free_addresses(len(WRITTEN)), strict=True))

    with ExitStack() as services:

        def account(reader: Reader, block: Block) -> None:
            add, token = commands(block)
            assert reader.run(f"echo 'a long password' | {add} --password-stdin") == 0, reader.said
            assert reader.run(token) == 0, reader.said

        def start(reader: Reader, block: Block) -> None:
            for command in commands(block):
                services.enter_context(service(reader.folder, command))
            token = (reader.folder / "token").read_text().strip()
            await_providers(f"http://{addresses['127.0.0.1:8080']}", token, 2)

        monkeypatch.chdir(tmp_path)
        special = {"Make an account": account, "Start each in a terminal": start}
        reader = Reader(tmp_path, capsys, special, replaced=addresses)
        reader.follow(DOCS / "howto" / "trial.md")
        assert (reader.folder / "release.csv").read_text().startswith("birth_date,sex,education,salary,disease,")
        assert (reader.folder / "report.html").exists()
