"""An architect's own NPU, from nothing to a finding: what limits it, and what would help.

    python examples/architect_npu.py

``npu.yaml``, beside this file, states the machine. One network runs on it under two policies; then one value at a time
is doubled, and the table says what each doubling is worth and what it costs in area. Area is that of arrays and
memories: that of wider DDR and vector units is unknown.
"""

from pathlib import Path

import dsascape

NPU = Path(__file__).with_name("npu.yaml")
NETWORK, BATCH = "mobilenet-v2", 1
DOUBLED: dict[str, dict[str, object]] = {
    "more DDR bandwidth": {
        "ddr.bandwidth": "25.6 GB/s",
        "dma.load.bandwidth": "25.6 GB/s",
        "dma.store.bandwidth": "25.6 GB/s",
    },
    "larger local buffers": {"local_buffer.capacity": "512 KiB"},
    "larger global buffer": {"global_buffer.capacity": "4 MiB"},
    "twice the array": {"units.matrix.macs_per_cycle.int8": 2048, "units.matrix.native_tile": [64, 32, 1]},
    "twice the lanes": {"units.vector.lanes.int8": 128},
    "twice the cores": {"cores_per_cluster": 8},
}


def main() -> None:
    """Print what limits the NPU and what each doubling is worth."""
    npu = dsascape.load_hardware(NPU)
    layer_by_layer = dsascape.simulate(NETWORK, npu, "fixed-pattern", batch=BATCH).record
    base = dsascape.simulate(NETWORK, npu, "graphturbo", batch=BATCH).record

    print(f"{NETWORK} on {npu.name}, {npu.area_mm2:.1f} mm2")
    for record in (layer_by_layer, base):
        print(
            f"  {record.policy:<13} {record.latency_s * 1e3:6.3f} ms, {record.energy_j * 1e3:5.2f} mJ, "
            f"{record.traffic_bytes['ddr'] / 2**20:5.1f} MiB through DDR, limited by {record.bottleneck}"
        )
    print("Shares of the critical path under graphturbo:")
    for name, share in sorted(base.critical.items(), key=lambda each: -each[1])[:4]:
        print(f"  {name:<18} {share:6.1%}")

    print("One thing doubled:")
    gains = {}
    for what, values in DOUBLED.items():
        changed = dsascape.with_values(npu, values)
        record = dsascape.simulate(NETWORK, changed, "graphturbo", batch=BATCH).record
        gains[what] = base.latency_s / record.latency_s
        area = (changed.area_mm2 or 0) - (npu.area_mm2 or 0)
        cost = f"{area:+6.2f} mm2" if area else "area unknown"
        print(f"  {what:<21} {gains[what]:5.2f} times as fast, {cost}, then limited by {record.bottleneck}")

    best = max(gains, key=lambda what: gains[what])
    print(f"Finding: {base.bottleneck} sets the pace; of these, {best} helps most ({gains[best]:.2f} times as fast).")


if __name__ == "__main__":
    main()
