"""Contract tests, with which a third party proves its own codec, value type, path, mailbox or transport.

    contract   an abstract test class that states the behaviour of one extension point: `CodecContract`,
               `ValueContract`, `PathContract`, `MailboxContract`, `DatagramsContract`, `TransportContract`
    samples    inputs for the tests of a contract; the subclass supplies them, or a fixture
    element    the type of an array's items, for a codec (`ELEMENTS` in `data/codecs/element.py`)
    fault      an interference with a running duet, group or link, for tests of failures (`faults.py`)

A contract is used by subclassing it in a test file; pytest collects the inherited tests. For a value type:

    from duetlink.testing.values import ValueContract

    class TestFractions(ValueContract):
        def samples(self):
            return {"a half": Fraction(1, 2), "negative": Fraction(-7, 3)}

        def equal(self, left, right):
            return left == right
"""
