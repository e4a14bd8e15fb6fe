"""Every byte that a core computes with has been delivered, in all networks of the zoo."""

import pytest

from dsascape.hw_models import ClusteredDsa, load_hardware, with_values
from dsascape.scheduler import make_policy
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.view import DsaView
from dsascape.workloads import exported_names, load_network
from tests.scheduler.dsa.delivery import Needs, check_delivery
from tests.scheduler.runs import schedule_of

Changes = dict[str, str]
"""Values of a machine file."""
PRESET: Changes = {}
SMALL: Changes = {"local_buffer.capacity": "100 KiB"}
"""Changes to the preset stcp920."""
BOTH_SIMPLE = (("unfused", PRESET), ("fixed-pattern", SMALL))
IN_TURN = ((("unfused", SMALL), ("astitch", PRESET)), (("fixed-pattern", SMALL), ("graphturbo", PRESET)))
LONG = {
    "bert-base", "bert-base-128", "bert-base-256", "bert-large-384", "c3d", "conformer", "densenet121",
    "distilbert", "faster-rcnn", "inception-resnet-v2-1d", "mask-rcnn", "mobilebert", "mobilevit", "r2plus1d-18",
    "resnet3d-18", "s3d", "vgg16", "vit-b16",
}  # fmt: skip
"""Networks for which astitch and graphturbo simulate more candidate schedules than a test has time for."""


def cases(number: int, network: str) -> tuple[tuple[str, Changes], ...]:
    """Return under which policies, and on which machines, a network is looked at."""
    is_long = network in LONG or network.endswith("-raw")
    return BOTH_SIMPLE if is_long else IN_TURN[number % len(IN_TURN)]


@pytest.fixture(scope="module")
def needs() -> Needs:
    """Needs of all networks together: many share layers."""
    return Needs()


@pytest.mark.sampled(5, long=["mobilevit-raw", "mask-rcnn"])
@pytest.mark.parametrize(("number", "network"), list(enumerate(exported_names())), ids=exported_names())
def test_every_network_gets_what_it_computes_with(number: int, network: str, needs: Needs) -> None:
    graph = load_network(network)
    for policy, changes in cases(number, network):
        spec = with_values(load_hardware("stcp920"), changes)
        assert isinstance(spec, ClusteredDsa)
        schedule = schedule_of(make_policy(policy), graph, spec)
        check_delivery(schedule, lower(schedule, DsaView(spec, spec.clusters)), needs)
    assert needs.nests
    assert not needs.skipped, "nests that are not traced back are not checked"
