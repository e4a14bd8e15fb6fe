"""Bundles run on other machines with Python alone, and nothing else is accepted as a bundle."""

import hashlib
import io
import json
import lzma
import os
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.experiments.shell.cli import main
from dsascape.fusion import fixed_pattern_plan
from dsascape.tuner.bundle import BundleError, Manifest, build_bundle, read_results, unpacked
from dsascape.tuner.bundle.archive import packed
from dsascape.tuner.bundle.contents import MANIFEST
from dsascape.tuner.measure import Job
from tests.graphs import Net
from tests.scheduler.kernels.drawn import LANES
from tests.tuner.runs import loops_of, written_onnx

pytestmark = [pytest.mark.tvm, pytest.mark.usefixtures("forked_children")]

QUICK = ["--kernel-seconds", "0.02", "--network-seconds", "0.05", "--threads", "1"]

CRASHING = """
#include <stdlib.h>
#include <unistd.h>
int __tvm_ffi_kernel0_conv_relu(void *self, void *arguments, int count, void *result) { abort(); }
int __tvm_ffi_kernel1_conv_tanh(void *self, void *arguments, int count, void *result) { sleep(60); return 0; }
"""
"""Kernels as TVM exports them, the first of which ends its process and the second of which does not end."""


def job() -> Job:
    net = Net()
    x = net.relu(net.conv(net.input(1, 4, 8, 8), 8))
    plan = fixed_pattern_plan(net.graph(net.unary("Tanh", net.conv(x, 4, 1)), dtype="fp32"))
    return Job(plan, loops_of(plan), LANES, 1)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "small.tar.xz"
    build_bundle(job(), "small", "fixed-pattern", path)
    return path


def content(bundle: Path) -> tuple[Manifest, dict[str, bytes]]:
    """Return the manifest and all other files of a bundle."""
    with tarfile.open(bundle) as archive:
        files = {entry.name: file.read() for entry in archive if (file := archive.extractfile(entry)) is not None}
    return Manifest.from_trusted(files.pop(MANIFEST).decode()), files


def run_alone(bundle: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a bundle as a device does: no package but Python's own, an environment without anything."""
    with tarfile.open(bundle) as archive:
        archive.extractall(folder, filter="data")
    out = ["--out", str(folder / "results.json")]
    command = [sys.executable, "-I", "-S", str(folder / "run.py"), *QUICK, *out, *options]
    return subprocess.run(command, capture_output=True, text=True, env={"PATH": os.defpath}, check=False)


class TestOnTheDevice:
    def test_python_alone_runs_it_and_every_kernel_is_right(self, bundle: Path, tmp_path: Path) -> None:
        done = run_alone(bundle, tmp_path)

        assert done.returncode == 0, done.stderr
        found = read_results(tmp_path / "results.json")
        assert found.measurement.correct is True
        assert [kernel.operators for kernel in found.measurement.kernels] == [("conv1", "relu1"), ("conv2", "tanh1")]
        assert found.measurement.network.timing is not None
        assert (found.measurement.model, found.measurement.threads, found.batch) == ("small", 1, 1)

    def test_a_kernel_that_computes_something_else_is_named(self, bundle: Path, tmp_path: Path) -> None:
        manifest, files = content(bundle)
        weight = next(array for array in manifest.arrays if array.buffer < 0 and array.values is not None)
        assert weight.values is not None
        data = bytearray(files["data.bin"])
        data[weight.values.offset : weight.values.offset + 4] = b"\0\0\xc8\x42"  # a hundred
        changed = tmp_path / "changed.tar.xz"
        packed(changed, with_sums(manifest, files | {"data.bin": bytes(data)}), files | {"data.bin": bytes(data)})

        done = run_alone(changed, tmp_path)

        assert done.returncode == 1
        first, second = read_results(tmp_path / "results.json").measurement.kernels
        assert "another result than onnxruntime" in str(first.error)
        assert "its inputs come from kernel0_conv_relu" in str(second.error)

    def test_kernels_that_crash_or_hang_are_records_with_the_reason(self, bundle: Path, tmp_path: Path) -> None:
        manifest, files = content(bundle)
        source = tmp_path / "kernels.c"
        source.write_text(CRASHING, encoding="ascii")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "kernels.so", source], check=True)
        files["kernels.so"] = (tmp_path / "kernels.so").read_bytes()
        packed(tmp_path / "crashing.tar.xz", with_sums(manifest, files), files)

        done = run_alone(tmp_path / "crashing.tar.xz", tmp_path, "--kernel-timeout", "1")

        assert done.returncode == 1
        found = read_results(tmp_path / "results.json").measurement
        first, second = found.kernels
        assert (first.error, second.error) == ("its process was ended by SIGABRT", "took longer than 1 s")
        assert found.network.error == "does not run without: kernel0_conv_relu, kernel1_conv_tanh"

    def test_code_for_another_architecture_is_refused(self, bundle: Path, tmp_path: Path) -> None:
        manifest, files = content(bundle)
        other = tmp_path / "other.tar.xz"
        packed(other, replace(manifest, architecture="aarch64"), files)

        done = run_alone(other, tmp_path)

        assert (done.returncode, done.stdout) == (2, "")
        assert "the code is for aarch64; this machine is" in done.stderr

    def test_results_that_cannot_be_written_are_a_failure_with_one_line(self, bundle: Path, tmp_path: Path) -> None:
        done = run_alone(bundle, tmp_path, "--out", str(tmp_path / "no-folder" / "results.json"))

        assert done.returncode == 1
        assert "cannot be written; a file there is from an earlier run: No such file" in done.stderr
        assert done.stderr.count("\n") == 1


def with_sums(manifest: Manifest, files: Mapping[str, bytes]) -> Manifest:
    return replace(manifest, files={name: hashlib.sha256(text).hexdigest() for name, text in files.items()})


def rewritten(bundle: Path, path: Path, **changed: bytes | None) -> Path:
    """Return a bundle with other files: names have two underscores where paths have a slash; None leaves one out."""
    manifest, files = content(bundle)
    for name, text in changed.items():
        files[name.replace("__", "/")] = text or b""
        if text is None:
            del files[name.replace("__", "/")]
    packed(path, manifest, files)
    return path


class TestForeignArchives:
    def test_a_bundle_unpacks_to_its_contents(self, bundle: Path, tmp_path: Path) -> None:
        manifest = unpacked(bundle, tmp_path)

        assert manifest == content(bundle)[0]
        assert (tmp_path / "data.bin").read_bytes() == content(bundle)[1]["data.bin"]

    def test_equal_plans_give_equal_data(self, bundle: Path, tmp_path: Path) -> None:
        again = tmp_path / "again.tar.xz"

        assert build_bundle(job(), "small", "fixed-pattern", again).arrays == content(bundle)[0].arrays

    @pytest.mark.parametrize("name", ["../out.txt", "/tmp/out.txt", "lib/../../out.txt", "..\\out.txt"])
    def test_paths_cannot_climb_out(self, bundle: Path, tmp_path: Path, name: str) -> None:
        manifest, files = content(bundle)
        files[name] = b"mine"
        packed(tmp_path / "climbing.tar.xz", with_sums(manifest, files), files)
        inside = tmp_path / "a" / "b"
        inside.mkdir(parents=True)

        with pytest.raises(BundleError, match="not a valid name of a bundle's file"):
            unpacked(tmp_path / "climbing.tar.xz", inside)

        assert not list(tmp_path.rglob("out.txt"))

    def test_links_are_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "link.tar.xz"
        with tarfile.open(path, "w:xz") as archive:
            entry = tarfile.TarInfo(MANIFEST)
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(entry)

        with pytest.raises(BundleError, match="which is not a regular file"):
            unpacked(path, tmp_path)

    def test_a_changed_file_is_refused(self, bundle: Path, tmp_path: Path) -> None:
        with pytest.raises(BundleError, match=r"'kernels\.so' damaged"):
            unpacked(rewritten(bundle, tmp_path / "changed.tar.xz", **{"kernels.so": b"other code"}), tmp_path)

    def test_an_added_file_is_refused(self, bundle: Path, tmp_path: Path) -> None:
        with pytest.raises(BundleError, match=r"has 'mine\.py', which its manifest does not list"):
            unpacked(rewritten(bundle, tmp_path / "added.tar.xz", **{"mine.py": b"import os"}), tmp_path)

    def test_a_lacking_file_is_named(self, bundle: Path, tmp_path: Path) -> None:
        with pytest.raises(BundleError, match=r"lacks data\.bin"):
            unpacked(rewritten(bundle, tmp_path / "lacking.tar.xz", **{"data.bin": None}), tmp_path)

    @pytest.mark.parametrize("kept", [0, 20, 1000, 100_000])
    def test_a_file_that_is_cut_off_is_refused(self, bundle: Path, tmp_path: Path, kept: int) -> None:
        path = tmp_path / "cut.tar.xz"
        path.write_bytes(bundle.read_bytes()[:kept])

        with pytest.raises(BundleError):
            unpacked(path, tmp_path)

    @pytest.mark.parametrize("value", [{}, {"format": "other"}, [], {"format": "dsascape bundle 1", "kernels": 3}])
    def test_another_manifest_is_refused(self, tmp_path: Path, value: Any) -> None:
        path, text = tmp_path / "other.tar.xz", json.dumps(value).encode()
        entry = tarfile.TarInfo(MANIFEST)
        entry.size = len(text)
        with lzma.open(path, "wb") as file, tarfile.open(fileobj=file, mode="w|") as archive:
            archive.addfile(entry, io.BytesIO(text))

        with pytest.raises(BundleError, match=r"bundle\.json is not a valid manifest"):
            unpacked(path, tmp_path)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a bundle that was built and run here."""
    here = tmp_path_factory.mktemp("measured")
    net = Net()
    x = net.relu(net.conv(net.input(1, 4, 8, 8), 8))
    written_onnx(net.graph(net.unary("Tanh", net.conv(x, 4, 1)), dtype="fp32"), here / "net.onnx")
    build = ["bundle", "build", str(here / "net.onnx"), "--policy", "fixed-pattern", "--threads", "1", "--flush-caches"]
    assert main([*build, "--out", str(here / "net.tar.xz")]) == 0
    assert main(["bundle", "run", str(here / "net.tar.xz"), "--out", str(here / "results.json")]) == 0
    return here / "results.json"


def rows_of(store: Path, table: str = "runs") -> list[dict[str, Any]]:
    with closing(sqlite3.connect(store / "results.sqlite")) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]


class TestImport:
    def test_results_are_stored_as_those_of_measure(self, measured: Path, tmp_path: Path) -> None:
        assert main(["bundle", "import", str(measured), "--out", str(tmp_path / "out")]) == 0
        (row,) = rows_of(tmp_path / "out")
        kernels = rows_of(tmp_path / "out", "kernels")

        assert (row["model"], row["policy"], row["tuning.threads"]) == ("net", "fixed-pattern", "1")
        assert row["measured_s"] > 0
        assert row["latency_s"] > 0
        assert (row["is_correct"], row["flushed_caches"], row["error"]) == (1, 1, None)
        assert json.loads(row["device_facts"])["processor"] == row["device"]
        assert row["measured_at"].startswith("20")
        assert [kernel["kernel"] for kernel in kernels] == ["kernel0_conv_relu", "kernel1_conv_tanh"]
        assert all(kernel["key"] == row["key"] and kernel["flushed_caches"] == 1 for kernel in kernels)
        assert all(kernel["measured_s"] > 0 and kernel["predicted_s"] > 0 for kernel in kernels)
        assert len(rows_of(tmp_path / "out", "layers")) == 2

    def test_the_report_shows_them(
        self, measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        main(["bundle", "import", str(measured), "--out", str(tmp_path)])
        capsys.readouterr()

        assert main(["report", str(tmp_path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["points"] == 1
        assert "Predicted beside measured" in (tmp_path / "report.html").read_text(encoding="utf-8")

    def test_the_same_file_again_changes_nothing_and_a_later_run_takes_its_place(
        self, measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        later = tmp_path / "later.json"
        found = json.loads(measured.read_text())
        found["measurement"]["network"]["timing"]["seconds"] *= 2
        later.write_text(json.dumps(found))
        changes, rows = [], []
        for path in (measured, measured, later):
            capsys.readouterr()
            assert main(["bundle", "import", str(path), "--out", str(tmp_path / "out"), "--json"]) == 0
            changes.append(json.loads(capsys.readouterr().out)["stored"])
            rows.append((rows_of(tmp_path / "out"), rows_of(tmp_path / "out", "kernels")))

        assert changes == ["added", "unchanged", "replaced"]
        assert rows[0] == rows[1]
        assert len(rows[2][0]) == 1
        assert rows[2][0][0]["measured_s"] == 2 * rows[0][0][0]["measured_s"]

    def test_on_other_threads_than_the_schedule_is_for_nothing_is_compared(
        self, measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        capsys.readouterr()
        found = json.loads(measured.read_text())
        found["measurement"]["threads"] = 3
        (tmp_path / "three.json").write_text(json.dumps(found))

        assert main(["bundle", "import", str(tmp_path / "three.json"), "--out", str(tmp_path / "out"), "--json"]) == 0
        assert main(["bundle", "import", str(measured), "--out", str(tmp_path / "out")]) == 0

        three, one = rows_of(tmp_path / "out")
        told = json.loads(capsys.readouterr().out.splitlines()[0])
        assert told["predicted_s"] is told["mape"] is None
        assert "run on 3 threads, its schedule is for 1" in three["error"]
        assert (three["mape"], one["error"], three["key"] == one["key"]) == (None, None, False)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda found: found.update(origin="{}"), "origin does not say what was measured"),
            (lambda found: found.update(origin=found["origin"].replace("fixed", "mixed", 1)), "its origin of net"),
            (lambda found: found["measurement"].update(model="other"), "is of other under fixed-pattern"),
            (lambda found: found["measurement"]["network"]["timing"].update(seconds=-1.0), "seconds is -1.0"),
            (lambda found: found["measurement"]["kernels"][0]["timing"].update(seconds=1e999), "seconds is inf"),
            (lambda found: found.update(origin=found["origin"].replace('"dram"', '"a; b"')), "columns that a bundle"),
            (lambda found: found.update(origin=found["origin"].replace('"l2":', '"l2":1e999,"l4":', 1)), "l2 is inf"),
            (lambda found: found.update(origin=found["origin"].replace('_s":', '_s":1e999,"x":', 1)), "_s is inf"),
        ],
    )
    def test_a_damaged_or_foreign_file_changes_nothing(
        self,
        change: Callable[[dict[str, Any]], None],
        message: str,
        measured: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        found = json.loads(measured.read_text())
        change(found)
        (tmp_path / "wrong.json").write_text(json.dumps(found))
        main(["bundle", "import", str(measured), "--out", str(tmp_path / "out")])
        before = rows_of(tmp_path / "out"), rows_of(tmp_path / "out", "kernels")
        capsys.readouterr()

        assert main(["bundle", "import", str(tmp_path / "wrong.json"), "--out", str(tmp_path / "out")]) == 2

        told = capsys.readouterr().err
        assert message in told
        assert told.count("\n") == 1
        assert (rows_of(tmp_path / "out"), rows_of(tmp_path / "out", "kernels")) == before


class TestCommands:
    @pytest.mark.parametrize("ending", ["", "sys.exit(1)", "sys.exit(3)", "raise OSError('no\\nspace')", "os.abort()"])
    def test_a_runner_that_writes_no_results_has_failed_whatever_an_earlier_one_wrote(
        self, bundle: Path, measured: Path, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        manifest, files = content(bundle)
        files["run.py"] = f"import os, sys\n{ending}\n".encode()
        packed(tmp_path / "idle.tar.xz", with_sums(manifest, files), files)
        results = tmp_path / "results.json"
        results.write_bytes(measured.read_bytes())
        capsys.readouterr()

        assert main(["bundle", "run", str(tmp_path / "idle.tar.xz"), "--out", str(results)]) == 1
        told = capsys.readouterr()
        assert "the bundle's runner has written no results" in told.err
        assert (told.out, told.err.count("\n")) == ("", 1)
        assert results.read_bytes() == measured.read_bytes()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["idle.tar.xz", "results.json"]

    def test_a_runner_s_refusal_is_a_user_error(
        self, bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["bundle", "run", str(bundle), "--threads", "4096", "--out", str(tmp_path / "results.json")]) == 2
        assert "the bundle's runner refuses: run.py: threads has 4096" in capsys.readouterr().err
