"""Events that are passed on at once, where SimPy would schedule them for later in the same instant."""

import simpy


class Signal(simpy.Event):
    """An event for one process, fired from a callback: the process goes on there and then."""

    def fire(self, value: object = None) -> None:
        """Let whoever waits for the signal go on with ``value``; to be called once, and not from within a process."""
        self._ok, self._value = True, value
        callbacks, self.callbacks = self.callbacks, None
        for callback in callbacks:
            callback(self)
