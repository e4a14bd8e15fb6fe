"""Bundles: what is built here runs elsewhere with nothing but Python, and nothing foreign is taken for one."""

import hashlib
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from experiments.cli import main
from fusion import fixed_pattern_plan
from tests.graphs import Net
from tests.tuner.runs import LANES, tiles_of
from tuner.bundle import BundleError, Manifest, build_bundle, read_results, unpacked
from tuner.bundle.archive import packed
from tuner.bundle.contents import MANIFEST
from tuner.bundle.linking import architecture_of
from tuner.measure import Job

pytestmark = pytest.mark.tvm

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
    return Job(plan, tiles_of(plan), LANES, 1)


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
    command = [sys.executable, "-I", "-S", str(folder / "run.py"), *QUICK, *options]
    out = ["--out", str(folder / "results.json")]
    return subprocess.run([*command, *out], capture_output=True, text=True, env={"PATH": os.defpath}, check=False)


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
    def test_what_is_built_is_unpacked_as_it_was(self, bundle: Path, tmp_path: Path) -> None:
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

        with pytest.raises(BundleError, match="which its manifest does not list, or not there"):
            unpacked(tmp_path / "climbing.tar.xz", inside)

        assert not list(tmp_path.rglob("out.txt"))

    def test_links_are_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "link.tar.xz"
        with tarfile.open(path, "w:xz") as archive:
            entry = tarfile.TarInfo(MANIFEST)
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(entry)

        with pytest.raises(BundleError, match="is no plain file"):
            unpacked(path, tmp_path)

    def test_a_changed_file_is_refused(self, bundle: Path, tmp_path: Path) -> None:
        with pytest.raises(BundleError, match=r"kernels\.so is damaged"):
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

        with pytest.raises(BundleError, match=r"bundle\.json is not as a bundle has it"):
            unpacked(path, tmp_path)


class TestCommands:
    def test_build_run_and_import(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        archive, results = tmp_path / "tiny.tar.xz", tmp_path / "results.json"
        build = ["bundle", "build", "bert-tiny", "--sequence", "8", "--policy", "fixed-pattern", "--json"]

        assert main([*build, "--out", str(archive)]) == 0
        built = json.loads(capsys.readouterr().out)
        assert main(["bundle", "run", str(archive), "--out", str(results), "--threads", "1", "--json"]) == 0
        ran = json.loads(capsys.readouterr().out)
        assert main(["bundle", "import", str(results), "--out", str(tmp_path / "store"), "--json"]) == 0
        taken = json.loads(capsys.readouterr().out)

        assert built["missing"] == []
        assert built["size_bytes"] < 60e6
        assert len(ran["kernels"]) == built["kernels"]
        assert ran["correct"] is True
        assert {key: value for key, value in taken.items() if key != "file"} == {
            key: value for key, value in ran.items() if key != "file"
        }
        assert Path(taken["file"]).is_file()

    @pytest.mark.parametrize("text", ["", "{}", '{"format": "dsascape results 2"}', "\x80"])
    def test_other_files_are_no_results(
        self, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "results.json"
        path.write_text(text, encoding="latin-1")

        assert main(["bundle", "import", str(path), "--out", str(tmp_path / "store")]) == 2
        assert str(path) in capsys.readouterr().err
        assert not (tmp_path / "store").exists()

    def test_a_runtime_of_another_architecture_is_refused(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        build = ["bundle", "build", "bert-tiny", "--policy", "unfused", "--target", "aarch64-cortex-a76"]

        assert main([*build, "--out", str(tmp_path / "arm.tar.xz")]) == 2
        assert f"is for {architecture_of(Path(sys.executable))}, the code for aarch64" in capsys.readouterr().err
