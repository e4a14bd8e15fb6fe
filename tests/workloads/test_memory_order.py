"""The memory layout of tensors follows from the operators that produce them: images with channels innermost."""

import pytest

from tests.graphs import Net

ROW_MAJOR = (0, 1, 2, 3)
CHANNELS_LAST = (0, 2, 3, 1)


@pytest.mark.parametrize("first", [True, False])
def test_a_sum_of_an_image_and_a_transposed_one_lies_as_the_image_does(first: bool) -> None:
    net = Net()
    transposed = net.transpose(net.input(1, 8, 8, 4), 0, 3, 1, 2)
    image = net.conv(net.input(1, 4, 8, 8), 4)
    total = net.add(image, transposed) if first else net.add(transposed, image)
    tensors = net.graph(total).tensors

    assert tensors[transposed].order == ROW_MAJOR
    assert tensors[image].order == tensors[total].order == CHANNELS_LAST


def test_what_is_put_together_lies_as_its_first_part() -> None:
    net = Net()
    plain, image = net.transpose(net.input(1, 8, 8, 4), 0, 3, 1, 2), net.conv(net.input(1, 4, 8, 8), 4)
    one, other = net.concat(plain, image), net.concat(image, plain)
    tensors = net.graph(one, other).tensors

    assert tensors[one].order == ROW_MAJOR
    assert tensors[other].order == CHANNELS_LAST
