"""The loops of a kernel, printed where they are asked for."""

import pytest

from tests.experiments.terminal import Terminal

RUN = ("simulate", "mobilenet-v2", "--hardware", "kirin990", "--policy", "fixed-pattern", "--dtype", "fp32")


class TestLoops:
    def test_are_those_of_the_kernel_with_that_name_or_number(self, terminal: Terminal) -> None:
        by_number = terminal.out(*RUN, "--loops", "3")
        by_name = terminal.out(*RUN, "--loops", "hardtanh_2")

        assert by_number == by_name
        assert by_number.splitlines()[0].startswith("# hardtanh_2: tiles ")
        assert "  register getitem_9.sum[1, 1, 14, 8]  # 448 bytes" in by_number

    def test_of_a_gpu_have_blocks_threads_and_copies_in_shared_memory(self, terminal: Terminal) -> None:
        text = terminal.out(
            "simulate", "resnet18", "--hardware", "v100", "--policy", "fixed-pattern", "--dtype", "fp32", "--loops", "4"
        )
        lines = text.splitlines()

        assert lines[0].startswith("# relu_3: ")
        assert lines[1].startswith("block ")
        assert any(line.strip().startswith("thread ") for line in lines)
        assert any(line.strip().startswith("shared getitem_9.sum.staged0[1, ") for line in lines)
        assert "iterations of " in text

    def test_on_tensor_units_are_loops_of_warps(self, terminal: Terminal) -> None:
        text = terminal.out(
            "simulate", "bert-tiny", "--hardware", "v100", "--policy", "unfused", "--dtype", "fp16", "--loops", "13"
        )

        assert "  warp " in text
        assert "tensor m" in text

    def test_are_in_the_answer_as_json(self, terminal: Terminal) -> None:
        data = terminal.json(*RUN, "--loops", "3")

        assert data["loops"].startswith("# hardtanh_2")

    @pytest.mark.parametrize(("machine", "kernel", "message"), [
        ("kirin990", "54", "--loops: no kernel is called '54'; there are 54, numbered from 0"),
        ("stcp920", "3", "--loops prints kernels of a CPU or a GPU; stcp920 is neither"),
    ])  # fmt: skip
    def test_of_no_kernel_end_with_one_message(
        self, machine: str, kernel: str, message: str, terminal: Terminal
    ) -> None:
        model = "mobilenet-v2" if machine == "kirin990" else "bert-tiny"

        assert message in terminal.refused(
            "simulate", model, "--hardware", machine, "--policy", "fixed-pattern", "--loops", kernel
        )
