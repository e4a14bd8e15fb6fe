"""Untrusted archives: anything but a bundle is rejected quickly, with one kind of error and nothing written."""

import hashlib
import io
import json
import lzma
import resource
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsascape.experiments.shell.cli import main
from dsascape.tuner.bundle import BundleError, Manifest, unpacked
from dsascape.tuner.bundle.archive import packed
from dsascape.tuner.bundle.contents import CODE, DATA, MANIFEST, START
from dsascape.tuner.bundle.plain_tar import is_plain_name
from tests.tiers import examples

BLOCK = 512
FILES = {CODE: b"code", DATA: bytes(700), START: b"print()", "lib/one.so": b"1", "tuner/bundle/runner.py": b""}


def manifest(files: dict[str, bytes] | None = None) -> Manifest:
    sums = {name: hashlib.sha256(text).hexdigest() for name, text in (FILES if files is None else files).items()}
    return Manifest("net", "p", 1, "llvm", "x86_64", (), (), (), (), 0.1, 1, False, "origin \n", sums)


def tar_of(folder: Path) -> bytes:
    """Return a good bundle, unpacked from xz."""
    packed(folder / "good.tar.xz", manifest(), FILES)
    return lzma.decompress((folder / "good.tar.xz").read_bytes())


def member(name: str, content: bytes = b"", **header: bytes) -> bytes:
    """Return a plain ustar member; ``header`` replaces bytes at ``at_OFFSET`` before the checksum is made."""
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    block = bytearray(entry.tobuf(tarfile.USTAR_FORMAT)[:BLOCK])
    for place, text in header.items():
        offset = int(place.removeprefix("at_"))
        block[offset : offset + len(text)] = text
    return with_checksum(bytes(block)) + content + bytes(-len(content) % BLOCK)


def with_checksum(block: bytes) -> bytes:
    total = sum(block) - sum(block[148:156]) + 8 * 32
    return block[:148] + b"%06o\0 " % total + block[156:]


def bundle_of(folder: Path, *members: bytes, end: bytes = bytes(2 * BLOCK)) -> Path:
    path = folder / "strange.tar.xz"
    path.write_bytes(lzma.compress(b"".join(members) + end, preset=1))
    return path


def begun(files: dict[str, bytes] | None = None) -> bytes:
    """Return the member that a bundle begins with."""
    return member(MANIFEST, manifest(files).to_json().encode())


def everything(files: dict[str, bytes] | None = None) -> list[bytes]:
    return [member(name, text) for name, text in (FILES if files is None else files).items()]


def refused(path: Path, folder: Path) -> str:
    """Return why ``path`` is refused, of which nothing is written."""
    inside = folder / "inside"
    inside.mkdir()
    with pytest.raises(BundleError) as error:
        unpacked(path, inside)
    assert not list(inside.iterdir())
    assert str(path) in str(error.value)
    return str(error.value)


class TestWhatIsBuilt:
    def test_is_plain_ustar_and_is_read(self, tmp_path: Path) -> None:
        plain = tar_of(tmp_path)

        assert unpacked(tmp_path / "good.tar.xz", tmp_path) == manifest()
        assert {name: (tmp_path / name).read_bytes() for name in FILES} == FILES
        assert plain[257:265] == b"ustar\x0000"

    def test_is_read_when_gnu_tar_has_packed_it_again_as_ustar(self, tmp_path: Path) -> None:
        assert unpacked(bundle_of(tmp_path, begun(), *everything(), end=bytes(20 * BLOCK)), tmp_path) == manifest()

    def test_the_manifest_is_written_as_it_was_checked(self, tmp_path: Path) -> None:
        text = json.dumps({**json.loads(manifest().to_json()), "threads": "1", "more": [1]})
        path = bundle_of(tmp_path, member(MANIFEST, text.encode()), *everything())

        assert unpacked(path, tmp_path) == manifest()
        assert Manifest.from_trusted((tmp_path / MANIFEST).read_text()) == manifest()

    def test_a_file_that_cannot_be_written_leaves_the_one_before(self, tmp_path: Path) -> None:
        tar_of(tmp_path)
        before = (tmp_path / "good.tar.xz").read_bytes()

        with pytest.raises(ValueError, match="too long"):
            packed(tmp_path / "good.tar.xz", manifest(), {"x" * 300: b""})

        assert (tmp_path / "good.tar.xz").read_bytes() == before
        assert len(list(tmp_path.iterdir())) == 1


class TestOtherMembers:
    @pytest.mark.parametrize("kind", [bytes([number]) for number in range(128) if number != ord("0")])
    def test_of_every_kind_but_plain_files_are_refused(self, tmp_path: Path, kind: bytes) -> None:
        strange = member("lib/one.so", b"1", at_156=kind)

        assert "not a regular file" in refused(bundle_of(tmp_path, begun(), strange, *everything()), tmp_path)

    @pytest.mark.parametrize(
        ("header", "message"),
        [
            ({"at_124": b"\x80" + bytes(10) + b"\x01"}, "without a size"),
            ({"at_124": b"-0000000001\0"}, "without a size"),
            ({"at_124": b"77777777777\0"}, "cut off|too large"),
            ({"at_157": b"/etc/passwd"}, "not a regular file"),
            ({"at_257": b"ustar  \0"}, "another dialect"),
            ({"at_257": bytes(8)}, "another dialect"),
            ({"at_345": b"/etc"}, "not a valid name"),
            ({"at_110": b"1"}, None),  # what it says of the owner is not read
        ],
    )
    def test_of_another_header_are_refused(
        self, tmp_path: Path, header: dict[str, bytes], message: str | None
    ) -> None:
        files = [member(DATA, FILES[DATA], **header), *everything({n: t for n, t in FILES.items() if n != DATA})]
        path = bundle_of(tmp_path, begun(), *files)

        if message is None:
            assert unpacked(path, tmp_path) == manifest()
        else:
            said = refused(path, tmp_path)
            assert any(part in said for part in message.split("|"))

    @pytest.mark.parametrize(
        "dialect", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"]
    )
    def test_of_long_names_are_refused_at_once(self, tmp_path: Path, dialect: int) -> None:
        path = tmp_path / "long.tar.xz"
        with tarfile.open(path, "w:xz", format=dialect) as archive:
            entry = tarfile.TarInfo("folder/" * 30 + "file")
            archive.addfile(entry, io.BytesIO())

        said = refused(path, tmp_path)
        assert "not a regular file" in said or "another dialect" in said

    def test_after_the_end_are_refused(self, tmp_path: Path) -> None:
        path = bundle_of(tmp_path, begun(), *everything(), bytes(2 * BLOCK), *everything())

        assert "does not end where its files end" in refused(path, tmp_path)

    def test_behind_the_compressed_stream_are_refused(self, tmp_path: Path) -> None:
        path = bundle_of(tmp_path, begun(), *everything())
        path.write_bytes(2 * path.read_bytes())

        assert "has data after its end" in refused(path, tmp_path)


class TestNames:
    @pytest.mark.parametrize(
        "name",
        [
            "./bundle.json", "bundle.json/", "BUNDLE.JSON", "lib/../bundle.json", "/bundle.json", "bundle.json",
            "Run.py", "./run.py", "run.py/x", "lib", "a//b", "..", ".hidden", "a\\b", "bundle\uff0ejson", "caf\u00e9",
            "x\x1b[2J", "a b", "1/2/3/4/5/6/7/8/9", "n" * 100, "",
        ],
    )  # fmt: skip
    def test_of_another_spelling_or_place_are_refused_also_where_the_manifest_lists_them(
        self, tmp_path: Path, name: str
    ) -> None:
        files = {**FILES, name: b"mine"}
        text = manifest(files).to_json().encode()
        raw = member("placeholder", b"mine", at_0=name.encode().ljust(100, b"\0")[:100])

        refused(bundle_of(tmp_path, member(MANIFEST, text), *everything(), raw), tmp_path)

    def test_that_come_twice_are_refused(self, tmp_path: Path) -> None:
        path = bundle_of(tmp_path, begun(), *everything(), member(MANIFEST, manifest().to_json().encode()))

        assert "which its manifest does not list, or has it twice" in refused(path, tmp_path)

    @given(st.text(max_size=120))
    def test_that_are_plain_stay_below_their_folder(self, name: str) -> None:
        place = Path("/folder") / name
        if is_plain_name(name):
            assert place.relative_to("/folder").as_posix() == name
            assert name.isascii()
            assert ".." not in place.parts


class TestSizes:
    def test_of_a_bomb_are_refused_before_anything_is_written(self, tmp_path: Path) -> None:
        zeros = bytes(300 * 2**20)
        files = {**FILES, DATA: zeros}
        path = bundle_of(tmp_path, begun(files), *everything(files))
        del zeros, files
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        assert path.stat().st_size < 2**20
        assert "too large unpacked" in refused(path, tmp_path)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 64 * 2**10  # KiB

    def test_of_the_memory_that_xz_asks_for_are_bounded(self, tmp_path: Path) -> None:
        filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 768 * 2**20, "mode": lzma.MODE_FAST, "mf": lzma.MF_HC3}]
        path = tmp_path / "dictionary.tar.xz"
        with lzma.open(path, "wb", filters=filters) as file:
            file.write(begun())

        assert "not xz-compressed" in refused(path, tmp_path)

    @pytest.mark.parametrize("open_bracket", [b"[", b'{"a":'])
    def test_of_a_deep_manifest_are_refused(self, tmp_path: Path, open_bracket: bytes) -> None:
        assert "bundle.json is not a valid manifest" in refused(
            bundle_of(tmp_path, member(MANIFEST, open_bracket * 10**6)), tmp_path
        )

    def test_of_long_lists_of_files_are_refused(self, tmp_path: Path) -> None:
        many = {**FILES, **{f"f{number}": b"" for number in range(300)}}

        assert "too many files" in refused(bundle_of(tmp_path, begun(many), *everything(many)), tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 0}, "batch is 0"), ({"threads": -1}, "threads is -1"),
        ({"tolerance": float("nan")}, "tolerance is nan"),
        ({"buffers": (-1,)}, "buffers.0 is -1"), ({"model": "\x1b[2J"}, "model has unprintable characters"),
        ({"threads": 10**400}, "threads is 1000"), ({"format": "dsascape bundle 1"}, "needs 'dsascape bundle 2'"),
    ],
)  # fmt: skip
def test_a_manifest_with_absurd_values_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    absurd = replace(manifest(), **change)  # type: ignore[arg-type]

    assert message in refused(bundle_of(tmp_path, member(MANIFEST, absurd.to_json().encode()), *everything()), tmp_path)


@pytest.mark.parametrize("name", ["folder", "/dev/zero", "not-there"])
def test_a_path_that_is_no_file_is_refused(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder").mkdir()

    assert main(["bundle", "run", str(tmp_path / name), "--out", str(tmp_path / "r.json")]) == 2
    assert main(["bundle", "import", str(tmp_path / name), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count("\n") == 2


FUZZ = settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def tried(path: Path, folder: Path) -> Manifest | str:
    """Return what a changed bundle is, or the reason why it is refused: one line, and nothing has been written."""
    inside = folder / "fuzzed"
    inside.mkdir(exist_ok=True)
    try:
        found = unpacked(path, inside)
    except BundleError as error:
        reason = str(error)
    else:
        assert Manifest.from_trusted((inside / MANIFEST).read_text()) == found
        shutil.rmtree(inside)
        return found
    assert reason.isprintable()
    assert not list(inside.iterdir())
    return reason


@FUZZ
@given(
    header=st.integers(0, len(FILES)),
    changes=st.lists(st.tuples(st.integers(0, 511), st.integers(0, 255)), max_size=4),
    is_valid=st.booleans(),
)
def test_changed_headers_are_refused_or_do_not_matter(
    tmp_path: Path, header: int, changes: list[tuple[int, int]], is_valid: bool
) -> None:
    members = [begun(), *everything()]
    block = bytearray(members[header][:BLOCK])
    for place, value in changes:
        block[place] = value
    members[header] = (with_checksum(bytes(block)) if is_valid else bytes(block)) + members[header][BLOCK:]

    found = tried(bundle_of(tmp_path, *members), tmp_path)

    assert isinstance(found, str) or found == manifest()


@FUZZ
@given(place=st.integers(0, 10**6), value=st.binary(min_size=1, max_size=3), kept=st.integers(0, 10**6))
def test_changed_and_cut_compressed_bytes_are_refused_or_do_not_matter(
    tmp_path: Path, place: int, value: bytes, kept: int
) -> None:
    path = bundle_of(tmp_path, begun(), *everything())
    content = bytearray(path.read_bytes())
    content[place % len(content) : place % len(content) + len(value)] = value
    path.write_bytes(content[: max(kept % (2 * len(content)), 1)])

    found = tried(path, tmp_path)

    assert isinstance(found, str) or found == manifest()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@FUZZ
@given(JSON, st.sampled_from([*json.loads(manifest().to_json()), "more"]))
def test_changed_manifests_are_refused_or_understood(tmp_path: Path, value: object, name: str) -> None:
    text = json.dumps({**json.loads(manifest().to_json()), name: value})
    tried(bundle_of(tmp_path, member(MANIFEST, text.encode("utf-8", "replace")), *everything()), tmp_path)
