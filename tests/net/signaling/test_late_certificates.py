from __future__ import annotations

import asyncio
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from duetlink.net.flight.certificate import create_identity
from duetlink.net.signaling.late_certificates import late_certificates


def made_late() -> ssl.SSLContext:
    with late_certificates():
        return ssl.create_default_context()


def count(context: ssl.SSLContext) -> int:
    """The certificates that are in a context by now."""
    return ssl.SSLContext.cert_store_stats(context)["x509"]


@pytest.fixture
def system() -> int:
    """The number of certificates of this system, in the way that a plain context reads them."""
    return count(ssl.create_default_context())


def test_a_context_has_no_certificates_before_it_is_used() -> None:
    assert count(made_late()) == 0


def test_a_context_verifies_as_a_plain_one_does() -> None:
    plain, late = ssl.create_default_context(), made_late()
    assert (late.verify_mode, late.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (late.options, late.verify_flags) == (plain.options, plain.verify_flags)


def test_the_first_connection_reads_the_certificates(system: int) -> None:
    late = made_late()
    late.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="example.org")
    assert count(late) == system
    assert "wrap_bio" not in vars(late)


def test_whoever_asks_for_the_certificates_gets_them() -> None:
    plain = ssl.create_default_context()
    assert made_late().get_ca_certs() == plain.get_ca_certs()
    assert made_late().cert_store_stats() == plain.cert_store_stats()


def test_threads_that_connect_at_once_find_the_certificates(system: int) -> None:
    late, found, barrier = made_late(), [], threading.Barrier(4)

    def connect() -> None:
        barrier.wait(10)
        late.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="example.org")
        found.append(count(late))

    threads = [threading.Thread(target=connect) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == [system] * 4


def test_a_context_that_is_used_within_the_block_reads_the_certificates(system: int) -> None:
    with late_certificates():
        context = ssl.create_default_context()
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="example.org")
    assert count(context) == system


def test_another_thread_makes_plain_contexts_meanwhile(system: int) -> None:
    with late_certificates(), ThreadPoolExecutor(1) as pool:
        assert count(pool.submit(ssl.create_default_context).result(10)) == system


def test_somebody_elses_way_to_find_certificates_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[ssl.SSLContext] = []
    changed = lambda context: read.append(context)  # noqa: E731
    monkeypatch.setattr(ssl.SSLContext, "set_default_verify_paths", changed)
    with late_certificates():
        context = ssl.create_default_context()
    assert read == [context]
    assert vars(ssl.SSLContext)["set_default_verify_paths"] is changed


def test_contexts_made_later_are_plain(system: int) -> None:
    with pytest.raises(ZeroDivisionError), late_certificates():
        1 / 0  # noqa: B018
    assert "set_default_verify_paths" not in vars(ssl.SSLContext)
    assert count(ssl.create_default_context()) == system


def test_a_late_context_refuses_a_server_that_no_one_vouches_for(tmp_path: Path) -> None:
    identity = create_identity()
    (tmp_path / "pem").write_bytes(identity.private_key_pem + identity.certificate_pem)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "pem")

    async def dial() -> None:
        async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=serving) as server:
            port = server.sockets[0].getsockname()[1]
            await asyncio.open_connection("127.0.0.1", port, ssl=made_late(), server_hostname="localhost")

    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(asyncio.wait_for(dial(), 20))
