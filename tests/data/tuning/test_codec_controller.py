"""The decisions of a codec controller: settings, pins, failures, chunk sizes, trials, and loading."""

from __future__ import annotations

import threading

import pytest

from duetlink.data.codecs.base import Array, Codec, Octets
from duetlink.data.codecs.element import FLOAT32, UINT8, Element
from duetlink.data.codecs.registry import named
from duetlink.data.tuning import CodecController, Compression, History, Tuner
from duetlink.data.tuning.choice import Choice
from tests.data.tuning.conftest import Bench, MakeBench
from tests.data.tuning.simulation import DATA, MIB, FakeCodec, Link

WEIGHTS = DATA["1.2x"]


def manual(**codec: str) -> Compression:
    return Compression(mode="manual", codec=codec)


def send(controller: CodecController, chunks: int, now_s: float, rate: float) -> list[Choice]:
    """Chunks over a link of that many bytes per second, without buffers."""
    chosen = []
    for _ in range(chunks):
        size = controller.chunk_bytes
        choice = controller.choose(WEIGHTS[: size // 4], FLOAT32, now_s)
        now_s += size / rate
        controller.sent(size, size, size / rate, now_s)
        chosen.append(choice)
    return chosen


def test_manual_uses_what_is_named_for_the_role() -> None:
    history = History()
    tuner = Tuner(manual(tensor="zstd", bytes="raw"), frozenset({"raw", "zstd"}), 2, history.add)
    controller = CodecController(tuner, "x", "tcp", MIB, 0.0)
    assert str(controller.choose(WEIGHTS, FLOAT32, 0.0)) == "zstd 1"
    assert controller.choose(WEIGHTS.view(UINT8.storage), UINT8, 0.0).raw
    assert [decision.why for decision in history] == [
        "the settings name zstd for tensor",
        "the settings name raw for bytes",
    ]


def test_manual_with_a_level() -> None:
    compression = manual(tensor="zstd").changed(level={"tensor": 7})
    tuner = Tuner(compression, frozenset({"raw", "zstd"}), 2, History().add)
    assert CodecController(tuner, "x", "tcp", MIB, 0.0).choose(WEIGHTS, FLOAT32, 0.0).level == 7


def test_manual_leaves_a_role_to_the_tuner(make_bench: MakeBench) -> None:
    bench = make_bench(1.25, compression=manual(bytes="raw"))
    bench.world.kind = "1.2x"
    assert not bench.controller().choose(WEIGHTS, FLOAT32, 0.0).raw


def test_a_codec_that_the_peer_lacks_is_not_used() -> None:
    history = History()
    tuner = Tuner(manual(tensor="zstd"), frozenset({"raw"}), 2, history.add)
    assert CodecController(tuner, "x", "tcp", MIB, 0.0).choose(WEIGHTS, FLOAT32, 0.0).raw
    assert "cannot be used for float32 here" in next(iter(history)).why


def test_auto_chooses_only_what_both_have(make_bench: MakeBench) -> None:
    bench = make_bench(1.25)
    names = frozenset({"raw", "zlib"})
    tuner = Tuner(Compression(), names, 2, bench.history.add)
    tuner.goodput["tcp"] = 1.25e6
    controller = CodecController(tuner, "x", "tcp", 64 * MIB, 0.0)
    bench.world.kind = "1.2x"
    assert {choice.codec.name for choice in send(controller, 30, 0.0, 1.25e6)} <= names


def test_a_change_of_settings_takes_effect_at_the_next_chunk() -> None:
    tuner = Tuner(manual(tensor="raw"), frozenset({"raw", "zstd"}), 2, History().add)
    controller = CodecController(tuner, "x", "tcp", MIB, 0.0)
    assert controller.choose(WEIGHTS, FLOAT32, 0.0).raw
    tuner.compression = manual(tensor="zstd")
    assert str(controller.choose(WEIGHTS, FLOAT32, 0.1)) == "zstd 1"


def test_a_pinned_plan_stays_and_holds_for_later_transfers(make_bench: MakeBench) -> None:
    bench = make_bench(12.5)
    bench.world.kind = "1.2x"
    controller = bench.controller()
    first = controller.choose(WEIGHTS, FLOAT32, 0.0)
    assert not first.raw
    bench.tuner.compression = Compression(pin=True)
    bench.tuner.goodput["tcp"] = 800e6
    assert set(send(controller, 40, 0.0, 800e6)) == {first}
    assert set(send(bench.controller(), 10, 1.0, 800e6)) == {first}


def test_a_codec_that_failed_is_not_chosen_again(make_bench: MakeBench) -> None:
    bench = make_bench(1.25)
    bench.world.kind = "2x"
    controller = bench.controller()
    first = controller.choose(DATA["2x"], FLOAT32, 0.0)
    assert first.codec.name == "pcodec"
    controller.failed(first)
    later = {controller.choose(DATA["2x"], FLOAT32, 0.1).codec.name for _ in range(40)}
    assert "pcodec" not in later
    assert any("pcodec failed to encode a chunk" in decision.why.lower() for decision in bench.history)


def test_a_named_codec_that_failed_gives_way_to_raw() -> None:
    tuner = Tuner(manual(tensor="zstd"), frozenset({"raw", "zstd"}), 2, History().add)
    controller = CodecController(tuner, "x", "tcp", MIB, 0.0)
    controller.failed(controller.choose(WEIGHTS, FLOAT32, 0.0))
    assert controller.choose(WEIGHTS, FLOAT32, 0.1).raw


class Broken(Codec):
    """Raises whatever it is given."""

    number, name, kind = 0x9001, "broken", "bytes"

    def encode(self, array: Array, element: Element, level: int) -> Octets:
        raise RuntimeError("out of order")

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        raise NotImplementedError


def test_a_codec_that_fails_on_the_sample_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetlink.data.tuning.tuner.codecs", lambda: (named("raw"), Broken()))
    tuner = Tuner(Compression(), frozenset({"raw", "broken"}), 2, History().add)
    tuner.goodput["tcp"] = 1e6
    assert all(choice.raw for choice in send(CodecController(tuner, "x", "tcp", 64 * MIB, 0.0), 30, 0.0, 1e6))


@pytest.mark.parametrize(
    ("speed", "expected"), [(0.1, 64), (0.5, 64), (1.25, 256), (125, 1024), (800, 2048)], ids=str
)
def test_a_chunk_takes_a_quarter_of_a_second_at_most(
    make_bench: MakeBench, speed: float, expected: int
) -> None:
    assert make_bench(speed).controller().chunk_bytes == expected * 1024


def test_a_rate_cap_counts_as_the_link(make_bench: MakeBench) -> None:
    bench = make_bench(800, compression=Compression(rate_cap_bytes_per_s=1e6))
    bench.world.kind = "2x"
    assert bench.controller().choose(DATA["2x"], FLOAT32, 0.0).codec.name == "pcodec"


def test_busy_processors_speak_against_encoding(make_bench: MakeBench) -> None:
    bench = make_bench(125)
    bench.world.kind = "1.2x"
    idle = bench.controller().choose(WEIGHTS, FLOAT32, 0.0, others_load=0.0)
    busy = bench.controller().choose(WEIGHTS, FLOAT32, 0.0, others_load=0.95)
    assert not idle.raw
    assert busy.codec.name != "pcodec"


def test_the_small_end_of_an_array_goes_the_way_of_the_rest(make_bench: MakeBench) -> None:
    bench = make_bench(12.5)
    bench.world.kind = "2x"
    controller = bench.controller()
    whole = controller.choose(DATA["2x"], FLOAT32, 0.0)
    assert whole.codec.name == "pcodec"
    assert controller.choose(DATA["2x"][:100], FLOAT32, 0.1) == whole
    controller.encoded(whole, 400, 400, 0.1)  # of so little, neither the size nor the time says anything
    assert controller.choose(DATA["2x"], FLOAT32, 0.2) == whole


def test_link_changed_forgets_the_speed(make_bench: MakeBench) -> None:
    bench = make_bench(800)
    bench.tuner.link_changed()
    assert bench.controller().chunk_bytes == 256 * 1024


def test_an_empty_chunk_of_a_large_object_goes_as_it_is(make_bench: MakeBench) -> None:
    bench = make_bench(1.25)
    assert bench.controller().choose(WEIGHTS[:0], FLOAT32, 0.0).raw
    assert bench.world.trials == 0


def test_empty_chunks_and_nothing_sent(make_bench: MakeBench) -> None:
    controller = CodecController(make_bench().tuner, "x", "tcp", 0, 0.0)
    assert controller.choose(WEIGHTS[:0], FLOAT32, 0.0).raw
    controller.sent(0, 0, 0.0, 0.0)
    controller.finished(0.0)


def test_nothing_is_tried_that_takes_more_than_a_small_share_of_the_transfer(make_bench: MakeBench) -> None:
    bench = make_bench(125)
    bench.world.kind = "2x"
    controller = CodecController(bench.tuner, "x", "tcp", 64 * 1024, 0.0)
    assert controller.choose(DATA["2x"][: 16 * 1024], FLOAT32, 0.0).raw
    assert bench.world.trials == 0


def test_threads_may_call_at_once() -> None:
    history = History()
    tuner = Tuner(Compression(), frozenset({"raw", "zstd"}), 2, history.add)
    tuner.goodput["tcp"] = 5e6
    controller = CodecController(tuner, "x", "tcp", 64 * MIB, 0.0)
    zstd = Choice(named("zstd"), 1)
    errors: list[BaseException] = []

    def report() -> None:
        try:
            for _ in range(300):
                controller.encoded(zstd, MIB, MIB // 2, 0.002)
                controller.decoded("zstd", MIB, 0.001)
                tuner.goodput["tcp"] = 5e6
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=report) for _ in range(4)]
    for thread in threads:
        thread.start()
    send(controller, 100, 0.0, 5e6)
    for thread in threads:
        thread.join()
    assert not errors


def test_a_transfer_that_ends_early_leaves_what_it_measured(make_bench: MakeBench) -> None:
    bench = make_bench()
    run = bench.transfer([(0, "noise")], Link([(0.0, 12.5)]), 32 * MIB)
    run.run()
    assert bench.controller().chunk_bytes == 1024 * 1024


def test_a_rest_of_the_senders_own_takes_no_choice_back(make_bench: MakeBench) -> None:
    bench = make_bench(10)
    bench.world.kind = "2x"
    controller = bench.controller()

    def send_encoded(chunks: int, now_s: float) -> None:
        for _ in range(chunks):
            size = controller.chunk_bytes
            choice = controller.choose(DATA["2x"][: size // 4], FLOAT32, now_s)
            wire = size if choice.raw else size // 2
            controller.encoded(choice, size, wire, size / 1e9)
            now_s += wire / 10e6
            controller.sent(size, wire, wire / 10e6, now_s)

    send_encoded(5, 0.0)  # too few to judge by
    for _ in range(3):  # made ahead, and dropped when the transfer was paused
        controller.choose(DATA["2x"][: controller.chunk_bytes // 4], FLOAT32, 1.0)
    controller.rested(3600.0)
    send_encoded(60, 3600.0)
    (decision,) = bench.history
    assert decision.after.codec == "pcodec"
    assert decision.measured == pytest.approx(20e6)


class Unloaded(FakeCodec):
    """Its library is not there before somebody asks for it."""

    there = broken = False

    @property
    def ready(self) -> bool:
        return self.there

    def load(self) -> None:
        if self.broken:
            raise ImportError("libbeauty.so.3: cannot open shared object file")
        self.there = True


def unload(bench: Bench, name: str) -> Unloaded:
    """Let a codec of the bench be one whose library is not loaded."""
    (index,) = [place for place, codec in enumerate(bench.codecs) if codec.name == name]
    codec = bench.codecs[index]
    codec.__class__ = Unloaded
    assert isinstance(codec, Unloaded)
    return codec


def loaded() -> None:
    """Return when nothing is being loaded any more."""
    for thread in threading.enumerate():
        if thread.name == "duetlink-load":
            thread.join()


def used(bench: Bench, kind: str, speed: float) -> set[str]:
    """The codecs of a transfer."""
    run = bench.transfer([(0, kind)], Link([(0.0, speed)]))
    run.run()
    return {choice.codec.name for _, _, choice in run.log}


@pytest.mark.parametrize(("speed", "before_the_end"), [(12.5, False), (1.25, True)])
def test_a_codec_that_could_win_is_loaded_beside_a_long_transfer_and_after_a_short_one(
    make_bench: MakeBench, speed: float, before_the_end: bool
) -> None:
    bench = make_bench(speed)
    codec = unload(bench, "pcodec")
    controller = bench.controller()
    controller.choose(DATA["2x"], FLOAT32, 0.0)
    loaded()
    assert codec.there == before_the_end
    controller.finished(1.0)
    loaded()
    assert codec.there
    assert "pcodec" in used(bench, "2x", speed)


def test_what_is_loaded_here_is_loaded_by_the_peer(make_bench: MakeBench) -> None:
    bench = make_bench(12.5)
    codec = unload(bench, "pcodec")
    for _ in range(2):
        used(bench, "2x", 12.5)
    assert bench.wanted == ["pcodec"]
    loaded()
    codec.there = False  # as it is at the peer
    peer = Tuner(Compression(), frozenset({"pcodec"}), 2, History().add)
    for name in ("nonesuch", "zstd", "pcodec"):  # zstd: not for both
        peer.load_for_peer(name)
    loaded()
    assert codec.there


class Wordy(FakeCodec):
    """Each of its calls takes a third of a millisecond, however few the items."""

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        self._world.advance(0.0003)
        return super().encode(array, element, level)


def test_what_a_call_takes_is_not_what_items_take(make_bench: MakeBench) -> None:
    bench = make_bench(125)
    (codec,) = [codec for codec in bench.codecs if codec.name == "planes"]
    codec.__class__ = Wordy
    run = bench.transfer([(0, "1.2x")], Link([(0.0, 125)]))
    bench.world.kind = "1.2x"
    run.controller.choose(DATA["1.2x"], FLOAT32, 0.0)
    (decision,) = bench.history
    assert "planes encodes it at 476 MB/s per worker" in decision.why


class Cold(FakeCodec):
    """Its first run takes a hundred times as long as the others."""

    warm = False

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        for _ in range(1 if self.warm else 100):
            encoded = super().encode(array, element, level)
        self.warm = True
        return encoded


def test_a_codec_is_not_judged_by_its_first_run(make_bench: MakeBench) -> None:
    bench = make_bench(12.5)
    (codec,) = [codec for codec in bench.codecs if codec.name == "pcodec"]
    codec.__class__ = Cold
    assert "pcodec" in used(bench, "2x", 12.5)


@pytest.mark.parametrize(("kind", "speed"), [("noise", 12.5), ("2x", 800)])
def test_a_codec_that_could_not_is_never_loaded(make_bench: MakeBench, kind: str, speed: float) -> None:
    bench = make_bench(speed)
    codec = unload(bench, "pcodec")
    bench.transfer([(0, kind)], Link([(0.0, speed)])).run()
    loaded()
    assert not codec.there


def test_a_codec_that_does_not_load_is_left_alone(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make_bench(12.5)
    codec = unload(bench, "pcodec")
    codec.broken = True
    for _ in range(3):
        assert "pcodec" not in used(bench, "2x", 12.5)
        loaded()
    assert [record.getMessage() for record in caplog.records] == [
        "codec pcodec is installed, but does not load: libbeauty.so.3: cannot open shared object file"
    ]
