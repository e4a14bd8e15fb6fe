"""Events that are passed on at once, where SimPy would schedule them for later in the same instant."""

import simpy


class Signal(simpy.Event):
    """An event that one process waits for, fired from a callback: the process goes on there and then."""

    def fire(self, value: object = None) -> None:
        """Let the process that waits go on with ``value``: once, and not from within another process."""
        self._ok, self._value = True, value
        for callback in self.callbacks:
            callback(self)
