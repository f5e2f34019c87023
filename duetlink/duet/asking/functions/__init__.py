"""Objects and functions that go to the owner: `@duet.remote`, `duet.remote(obj)`, private training."""
