import hashlib

from duetlink.net.signaling.wordlist import EVEN, ODD, words_of


def test_both_lists_have_256_different_lower_case_words() -> None:
    assert len(EVEN) == len(ODD) == 256
    assert len({*EVEN, *ODD}) == 512
    assert all(word.isascii() and word.isalpha() and word.islower() for word in EVEN + ODD)


def test_known_words_are_in_their_lists() -> None:
    assert "clockwork" in EVEN
    assert "crossover" in ODD
    assert (EVEN[0], ODD[0], EVEN[0x80], ODD[0x80], EVEN[0xFF], ODD[0xFF]) == (
        *("aardvark", "adroitness", "merit", "intention", "zulu", "yucatan"),
    )


def test_the_lists_never_change() -> None:
    # taken after a comparison, word by word, with the list that magic-wormhole ships
    digest = hashlib.sha256("\n".join(EVEN + ODD).encode()).hexdigest()
    assert digest == "41db18a831d9c40dc35b374ef36f0bf616d4f563768fcc1a5aa11c7b6530cf5e"


def test_bytes_become_words_starting_with_three_syllables() -> None:
    assert words_of(b"\x3c\x3b") == "crossover-clockwork"
    assert words_of(b"") == ""
