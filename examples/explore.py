"""Exploring from Python: a sweep over two values of a machine under two policies, and what comes of it as a table.

    python examples/explore.py

``dsascape.sweep`` returns a pandas table with a row for each point, so that questions about it are questions to pandas.
With ``folder=...`` results are kept, and not computed again the next time.
"""

import dsascape

SWEPT = {
    "local_buffer.capacity": ["256 KiB", "512 KiB", "1.25 MiB"],
    "ddr.bandwidth": ["60 GB/s", "119.4 GB/s"],
}


def main() -> None:
    """Print the fastest policy of each machine, and where more local buffer pays."""
    points = dsascape.sweep("mobilenet-v2", "stcp920", SWEPT, ("fixed-pattern", "graphturbo"), batch=16, workers=1)
    points["latency, ms"] = (points["latency_s"] * 1e3).round(3)
    points["energy, mJ"] = (points["energy_j"] * 1e3).round(1)
    print(points[[*SWEPT, "policy", "latency, ms", "energy, mJ", "bottleneck"]].to_string(index=False))

    latency = points.pivot_table("latency_s", list(SWEPT), "policy", sort=False)
    gain = (latency["fixed-pattern"] / latency["graphturbo"]).unstack()
    print("\nTimes as fast with graphturbo as with fixed-pattern:")
    print(gain.loc[SWEPT["local_buffer.capacity"]].round(2).to_string())


if __name__ == "__main__":
    main()
