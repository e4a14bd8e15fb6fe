"""Small GPUs whose times can be worked out by hand."""

from hypothesis import strategies as st

from dsascape.hw_models import Gpu

TENSOR = {"macs_per_cycle": 256, "rows": 16, "columns": 8, "depth": 16, "warps": 1, "latency_cycles": 16.0}
SHARED = {
    "capacity": "16 KiB", "per_block": "16 KiB", "reserved": "0 B", "unit": "256 B", "bytes_per_cycle": 64.0,
    "latency_cycles": 20.0,
}  # fmt: skip


def sms(**changes: object) -> dict[str, object]:
    """Return four SMs of 1 GHz with 32 lanes, which issue two instructions of warps a cycle."""
    return {
        "count": 4, "clock": "1 GHz", "lanes": {"fp32": 32, "fp16": 64}, "tensor": {"fp16": TENSOR}, "warp": 32,
        "issued_per_cycle": 2, "fma_latency_cycles": 4.0, "special_per_cycle": 8, "accesses_per_cycle": 32,
        "l2_bytes_per_cycle": 32.0, "shared": SHARED, "registers": 16384, "registers_unit": 256,
        "registers_per_thread": 128, "threads": 512, "threads_per_block": 256, "blocks": 8,
    } | changes  # fmt: skip


def gpu(**changes: object) -> Gpu:
    """Return a GPU of such SMs: the L2 moves 64 GB/s, DRAM 16; ``changes`` replace whole entries of it."""
    entries: dict[str, object] = {
        "kind": "gpu", "name": "small", "sms": sms(),
        "l2": {"capacity": "256 KiB", "sector": "32 B", "bandwidth": "64 GB/s", "latency": "100 ns"},
        "dram": {"capacity": "1 GiB", "bandwidth": "16 GB/s", "latency": "400 ns"},
        "launch": "2 us",
        "energy": {"node": "16 nm", "mac": {"fp32": "2 pJ", "fp16": "1 pJ"}, "vector_op": "1 pJ", "special_op": "10 pJ",
                   "dram": "40 pJ/B", "static_power": "1 W"},
    }  # fmt: skip
    return Gpu.model_validate(entries | changes)


@st.composite
def gpus(draw: st.DrawFn) -> Gpu:
    """Return a GPU of any size."""
    shared_kib = draw(st.sampled_from([8, 16, 64]))
    has_tensor = draw(st.booleans())
    return gpu(
        name="drawn",
        sms=sms(
            count=draw(st.integers(1, 12)), clock=draw(st.sampled_from(["500 MHz", "2 GHz"])),
            tensor={"fp16": TENSOR} if has_tensor else {},
            shared=SHARED | {"capacity": f"{shared_kib} KiB", "per_block": f"{shared_kib} KiB"},
            registers=draw(st.sampled_from([8192, 65536])),
        ),
        l2={"capacity": f"{draw(st.sampled_from([16, 256, 4096]))} KiB", "latency": "100 ns",
            "sector": draw(st.sampled_from(["32 B", "64 B"])),
            "bandwidth": draw(st.sampled_from(["8 GB/s", "200 GB/s"]))},
        dram={"capacity": "1 GiB", "bandwidth": draw(st.sampled_from(["1 GB/s", "60 GB/s"])), "latency": "400 ns"},
        launch=draw(st.sampled_from(["0 us", "5 us"])),
        sustained_factor=draw(st.sampled_from([0.5, 1.0])),
    )  # fmt: skip
