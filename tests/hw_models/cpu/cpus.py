"""Small CPUs whose times can be worked out by hand."""

from hypothesis import strategies as st

from dsascape.hw_models import Cpu


def core(**changes: object) -> dict[str, object]:
    """Return a core of 1 GHz that issues four instructions a cycle, two of them on vectors."""
    return {
        "count": 2, "clock": "1 GHz", "order": "out_of_order", "issue_width": 4, "fma_pipes": 2,
        "fma_latency_cycles": 4.0, "loads_per_cycle": 2.0, "stores_per_cycle": 1.0, "special_cycles": 8.0,
        "l1": {"capacity": "32 KiB", "associativity": 8, "bytes_per_cycle": 32.0, "latency_cycles": 4.0},
        "l2": {"capacity": "256 KiB", "associativity": 8, "bytes_per_cycle": 16.0, "latency_cycles": 10.0},
        "dram_bandwidth": "4 GB/s", "overlap": 1.0,
    } | changes  # fmt: skip


def cpu(**changes: object) -> Cpu:
    """Return a CPU of two such cores; ``changes`` replace whole entries of it."""
    entries: dict[str, object] = {
        "kind": "cpu", "name": "small", "cores": {"big": core()},
        "simd": {"lanes": {"fp32": 4, "fp16": 8}, "register": "16 B", "registers": 32, "multiplies_by_lane": True},
        "line": "64 B",
        "l3": {"capacity": "2 MiB", "bandwidth": "16 GB/s", "bytes_per_cycle": 8.0, "latency": "20 ns"},
        "dram": {"capacity": "1 GiB", "bandwidth": "6 GB/s", "latency": "100 ns"},
        "write_allocate": False, "kernel_call": "1 us", "parallel_region": "2 us",
        "energy": {
            "node": "7 nm", "mac": {"fp32": "2 pJ", "fp16": "1 pJ"}, "vector_op": "1 pJ", "special_op": "10 pJ",
            "dram": "50 pJ/B", "static_power": "1 W",
        },
    }  # fmt: skip
    return Cpu.model_validate(entries | changes)


def big_and_little(**changes: object) -> Cpu:
    """Return the CPU with two LITTLE cores besides: in order, one pipe, half the clock."""
    little = core(clock="500 MHz", order="in_order", issue_width=2, fma_pipes=1, loads_per_cycle=0.5)
    return cpu(cores={"little": little, "big": core()}, **changes)


@st.composite
def cpus(draw: st.DrawFn) -> Cpu:
    """Draw a CPU: one or two kinds of cores, with and without shared caches, small and large."""

    def kind() -> dict[str, object]:
        l1 = {
            "capacity": f"{draw(st.sampled_from([1, 4, 32]))} KiB", "associativity": draw(st.sampled_from([1, 4, 8])),
            "bytes_per_cycle": 32.0, "latency_cycles": 4.0,
        }  # fmt: skip
        l2 = {
            "capacity": f"{draw(st.sampled_from([8, 64, 512]))} KiB", "associativity": 8, "bytes_per_cycle": 16.0,
            "latency_cycles": 10.0, "shared_by": draw(st.sampled_from([1, 2])),
        }  # fmt: skip
        return core(
            count=draw(st.integers(1, 4)), clock=draw(st.sampled_from(["500 MHz", "2 GHz"])), l1=l1,
            l2=l2 if has_l2 else None, order=draw(st.sampled_from(["in_order", "out_of_order"])),
            fma_pipes=draw(st.integers(1, 2)), dram_bandwidth=draw(st.sampled_from(["1 GB/s", "20 GB/s"])),
        )  # fmt: skip

    has_l2 = draw(st.booleans())
    l3 = {"capacity": f"{draw(st.sampled_from([64, 4096]))} KiB", "bandwidth": "16 GB/s", "bytes_per_cycle": 8.0,
          "latency": "20 ns"}  # fmt: skip
    lanes = draw(st.sampled_from([1, 4, 16]))
    return cpu(
        name="drawn",
        cores={name: kind() for name in ["one", "other"][: draw(st.integers(1, 2))]},
        simd={"lanes": {"fp32": lanes, "fp16": 2 * lanes}, "register": f"{4 * lanes} B",
              "registers": draw(st.sampled_from([16, 32])), "multiplies_by_lane": draw(st.booleans())},
        l3=l3 if draw(st.booleans()) else None,
        dram={"capacity": "1 GiB", "bandwidth": draw(st.sampled_from(["1 GB/s", "30 GB/s"])), "latency": "100 ns"},
        write_allocate=draw(st.booleans()),
        sustained_factor=draw(st.sampled_from([0.5, 1.0])),
        active_clock=draw(st.sampled_from([{}, {1: 1.0, 2: 0.8}, {2: 0.9, 4: 0.3}])),
    )  # fmt: skip
