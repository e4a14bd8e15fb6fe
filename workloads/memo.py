"""Memos: results of pure functions, stored by the arguments that they were computed from.

`memoized` stores results for as long as the function's first argument keeps them: those of a network in its `Analysis`.
`memoized_in_process` stores them for the whole process. The arguments are the key, so a function cannot depend on
anything that its key lacks, provided that it is pure. `memo_figures` tells entries, hits and misses of all of them.
"""

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache, partial, wraps
from operator import add, attrgetter
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, TypeVarTuple, cast, overload
from weakref import WeakSet

MOST_ENTRIES = 50_000
"""Entries of one table at most, unless it has a bound of its own."""

_MISSING = object()

_Args = TypeVarTuple("_Args")
_P = ParamSpec("_P")
_T = TypeVar("_T")
_R_co = TypeVar("_R_co", covariant=True)


class MemoFigures(NamedTuple):
    """Use of one function's stored results, summed over all tables of a process, or of several."""

    module: str
    name: str
    entries: int
    """Results stored now."""
    hits: int
    """Calls answered by a stored result."""
    misses: int
    """Calls that computed one."""

    @property
    def hit_rate(self) -> float:
        """Share of calls answered by a stored result; 0 without calls."""
        return self.hits / max(self.hits + self.misses, 1)


class _Memo:
    """Counters of one function's tables, and the tables that still exist."""

    __slots__ = ("hits", "misses", "tables")

    def __init__(self) -> None:
        self.hits = self.misses = 0
        self.tables: WeakSet[Table[Any]] = WeakSet()


_memos: dict[tuple[str, str], _Memo] = {}
"""Registry of this process by module and qualified name."""
_UNCOUNTED = _Memo()
"""Counters of tables that are not in the registry."""
_in_process: dict[tuple[str, str], "KeptInProcess[..., Any]"] = {}


class Table(Generic[_T]):
    """Bounded memo: values by hashable key; beyond ``most`` entries the oldest are evicted.

    ``function``: what the values come from, under whose name the registry counts them; without, they are not counted.
    """

    __slots__ = ("__weakref__", "_memo", "_most", "_values", "known")

    def __init__(self, most: int = MOST_ENTRIES, function: Callable[..., object] | None = None) -> None:
        self._most = most
        self._values: dict[Hashable, Any] = {}
        self._memo = _UNCOUNTED if function is None else _memo_of(function)
        if function is not None:
            self._memo.tables.add(self)
        self.known = self._values.get
        """Returns the stored value of a key, or else the second argument."""

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return the value of ``key``; where there is none, call ``make`` and store its result."""
        values = self._values
        stored: _T = values.get(key, _MISSING)  # keys are long: they are hashed once
        if stored is not _MISSING:
            self._memo.hits += 1
            return stored
        value = make()
        self.put(key, value)
        return value

    def put(self, key: Hashable, value: _T) -> None:
        """Store the value of a key that has none."""
        self._memo.misses += 1
        if len(self._values) >= self._most:
            del self._values[next(iter(self._values))]
        self._values[key] = value

    def peek(self, key: Hashable) -> _T | None:
        """Return the stored value of ``key``, None if there is none; not counted."""
        return self._values.get(key)

    def values(self) -> Iterable[_T]:
        """Return all stored values, oldest first."""
        return self._values.values()

    def __len__(self) -> int:
        return len(self._values)


Memos = dict[Callable[..., Any], Table[Any]]
"""Tables of one owner, by function."""


class Owner(Protocol):
    """First argument of a memoized function: keeps the results, and says when another argument is as good."""

    @property
    def memos(self) -> Memos:
        """Tables in which results are stored."""

    @property
    def memo_key(self) -> Hashable:
        """Key that owners with the same ``memos`` share if functions have equal results for them."""

    @property
    def memo_identity(self) -> Hashable:
        """Key that tells owners with the same ``memos`` apart even so, for results that name what they belong to."""


_Owner = TypeVar("_Owner", bound=Owner)


@overload
def memoized(function: Callable[[_Owner, *_Args], _T], /) -> Callable[[_Owner, *_Args], _T]: ...


@overload
def memoized(
    *, most: int = MOST_ENTRIES, by_identity: bool = False, stores: Callable[[Any], bool] | None = None
) -> Callable[[Callable[[_Owner, *_Args], _T]], Callable[[_Owner, *_Args], _T]]: ...


def memoized(
    function: Callable[..., Any] | None = None, /, *, most: int = MOST_ENTRIES, by_identity: bool = False,
    stores: Callable[[Any], bool] | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return ``function`` with its results stored by its first argument, the `Owner`; a decorator.

    All arguments are positional and hashable. ``most``: entries of one owner's table at most, beyond which the oldest
    are evicted. ``by_identity``: owners with equal keys do not share results, which name tensors or operators.
    ``stores``: whether a result is stored, for functions some of whose results are too large; by default all are.
    Raises ``TypeError`` for a function with default values, as equal calls would have several keys.
    """
    if function is None:
        return partial(memoized, most=most, by_identity=by_identity, stores=stores)
    if function.__defaults__ or function.__kwdefaults__:
        raise TypeError(f"{function.__qualname__} has default values; a memoized function has none")
    return _memoized(function, most, attrgetter("memo_identity" if by_identity else "memo_key"), stores)


class KeptInProcess(Protocol[_P, _R_co]):
    """Function whose results are stored in this process, as by `functools.lru_cache`."""

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...

    def cache_info(self) -> tuple[int, int, int | None, int]:
        """Return hits, misses, the bound of entries, and entries."""

    def cache_clear(self) -> None:
        """Forget all results."""


def memoized_in_process(
    most: int | None,
) -> Callable[[Callable[_P, _R_co]], KeptInProcess[_P, _R_co]]:
    """Return a decorator that stores the ``most`` results used last, for as long as the process runs; None: all."""

    def decorate(function: Callable[_P, _R_co]) -> KeptInProcess[_P, _R_co]:
        kept = cast(KeptInProcess[_P, _R_co], lru_cache(maxsize=most)(function))
        _in_process[function.__module__, function.__qualname__] = kept
        return kept

    return decorate


def memo_figures() -> tuple[MemoFigures, ...]:
    """Return the use of every memoized function of this process, most entries first, then most calls."""
    found = [
        MemoFigures(module, name, sum(map(len, memo.tables)), memo.hits, memo.misses)
        for (module, name), memo in _memos.items()
    ]
    for (module, name), kept in _in_process.items():
        hits, misses, _, entries = kept.cache_info()
        found.append(MemoFigures(module, name, entries, hits, misses))
    return _most_first(found)


def memo_figures_since(before: Iterable[MemoFigures]) -> tuple[MemoFigures, ...]:
    """Return the changes since this process' `memo_figures` were ``before``: entries are those stored less evicted."""
    return summed_memo_figures([memo_figures(), [MemoFigures(m, n, -e, -h, -x) for m, n, e, h, x in before]])


def summed_memo_figures(several: Iterable[Iterable[MemoFigures]]) -> tuple[MemoFigures, ...]:
    """Return the sums of several processes' figures, or of changes of one process, by function."""
    sums: dict[tuple[str, str], MemoFigures] = {}
    for figures in several:
        for module, name, *counts in figures:
            _, _, *before = sums.get((module, name), MemoFigures(module, name, 0, 0, 0))
            sums[module, name] = MemoFigures(module, name, *map(add, before, counts))
    return _most_first(sums.values())


def _most_first(figures: Iterable[MemoFigures]) -> tuple[MemoFigures, ...]:
    """Return the figures of functions that were called, those with most entries first, then those called most."""
    called = [each for each in figures if each.hits or each.misses]
    return tuple(sorted(called, key=lambda each: (-each.entries, -each.hits - each.misses, each.module, each.name)))


def _memo_of(function: Callable[..., object]) -> _Memo:
    """Return the counters of a function, or of a class or callable object, by its module and qualified name."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return _memos.setdefault((named.__module__, named.__qualname__), _Memo())


def _memoized(
    function: Callable[..., Any], most: int, key_of: Callable[[Owner], Hashable],
    stores: Callable[[Any], bool] | None,
) -> Callable[..., Any]:  # fmt: skip
    """Return ``function`` with its results stored by its owner's key and its further arguments."""
    memo = _memo_of(function)

    @wraps(function)
    def memoized_call(owner: Owner, *args: Hashable) -> Any:
        table = owner.memos.get(function)
        if table is None:
            table = owner.memos[function] = Table(most, function)
        key = (key_of(owner), *args)
        value = table.known(key, _MISSING)
        if value is not _MISSING:
            memo.hits += 1
            return value
        value = function(owner, *args)
        if stores is None or stores(value):
            table.put(key, value)
        else:
            memo.misses += 1
        return value

    return memoized_call
