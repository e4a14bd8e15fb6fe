"""The loops of a kernel, printed where they are asked for."""

import pytest

from tests.experiments.terminal import Terminal

RUN = ("simulate", "mobilenet-v2", "--hardware", "kirin990", "--policy", "fixed-pattern", "--dtype", "fp32")


class TestLoops:
    def test_are_those_of_the_kernel_with_that_name_or_number(self, terminal: Terminal) -> None:
        by_number = terminal.out(*RUN, "--loops", "3")
        by_name = terminal.out(*RUN, "--loops", "hardtanh_2")

        assert by_number == by_name
        assert by_number.splitlines()[0].startswith("# hardtanh_2: tile ")
        assert "  register getitem_9.sum[1, 1, 14, 8]  # 448 bytes" in by_number

    def test_are_in_the_answer_as_json(self, terminal: Terminal) -> None:
        data = terminal.json(*RUN, "--loops", "3")

        assert data["loops"].startswith("# hardtanh_2")

    @pytest.mark.parametrize(("machine", "kernel", "message"), [
        ("kirin990", "54", "--loops: no kernel is called '54'; there are 54, numbered from 0"),
        ("h100", "3", "--loops prints kernels of a CPU; h100 is none"),
        ("stcp920", "3", "--loops prints kernels of a CPU; stcp920 is none"),
    ])  # fmt: skip
    def test_of_no_kernel_end_with_one_message(
        self, machine: str, kernel: str, message: str, terminal: Terminal
    ) -> None:
        model = "mobilenet-v2" if machine == "kirin990" else "bert-tiny"

        assert message in terminal.refused(
            "simulate", model, "--hardware", machine, "--policy", "fixed-pattern", "--loops", kernel
        )
