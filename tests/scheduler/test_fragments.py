"""A code fragment keeps its internal dependencies wherever it is placed."""

from dataclasses import replace

from dsascape.hw_models import (
    ClusteredDsa,
    Compute,
    Launch,
    Machine,
    Program,
    Transfer,
    Work,
    dsa_machine,
    load_hardware,
)
from dsascape.hw_models.simulation.columns import Rows
from dsascape.scheduler.programs.builder import ProgramBuilder
from dsascape.scheduler.programs.fragments import Fragment, FragmentBuffer, FragmentWriter, Outside

DONE = Outside("done")
MOVE = Transfer(source="ddr", destination="global_buffer", size_bytes=64)
LOAD = Work(unit="dma_load", payload=MOVE)
PASS = Work(unit="path_load", payload=Transfer(source="global_buffer", destination="local_buffer", size_bytes=16))


def machine() -> Machine:
    return dsa_machine(load_hardware("stcp920", ClusteredDsa))


def by_size(unit: str, size_bytes: int) -> tuple[int, int]:
    """Return a picosecond a byte, and a nanosecond more until the end."""
    del unit
    return size_bytes, size_bytes + 1000


def loaded_and_passed_on() -> Fragment:
    """Return a load that waits for nothing, and what passes that on when something outside is done as well."""
    writer = FragmentWriter()
    load = writer.add(writer.work(LOAD), (0, " load"))
    held = writer.allocate(load, FragmentBuffer("global_buffer", 64, (1, ""), addresses=0, version=3, offset_bytes=8))
    passed = writer.add(writer.work(PASS), (0, " pass"), (load, writer.outside(DONE)))
    writer.free(passed, held)
    return writer.written()


def placed_twice() -> Program:
    builder, fragment = ProgramBuilder(by_size), loaded_and_passed_on()
    builder.add(builder.work(Work(unit="launch", payload=Launch())), "launch")
    builder.place(fragment, ("a", "x"), [(100, 200)], Rows.of([()]), (0,))
    builder.place(fragment, ("b", "y"), [()], Rows.of([(1, 2)]), (0, 2))
    return builder.build(machine(), interleaved=False)


def test_instructions_wait_for_their_own_fragment_and_for_what_lies_outside_of_it() -> None:
    after = placed_twice().instructions.after

    assert after[1:3] == ((0,), (1,))
    assert after[3:] == ((0, 2), (3, 1, 2))


def test_instructions_without_dependencies_wait_for_the_entry() -> None:
    builder, writer = ProgramBuilder(by_size), FragmentWriter()
    writer.add(writer.work(LOAD), (0, ""), (writer.outside(DONE),))
    builder.add(builder.work(Work(unit="launch", payload=Launch())), "launch")
    builder.place(writer.written(), ("a",), (), Rows.of([()]), (0,))

    assert builder.build(machine(), interleaved=False).instructions.after[1] == (0,)


def test_names_and_addresses_are_those_of_the_place() -> None:
    program = placed_twice()

    assert program.instructions.labels[1:] == ("a load", "a pass", "b load", "b pass")
    assert [(buffer.label, buffer.address) for buffer in program.buffers] == [("x", 208), ("y", None)]


def test_buffers_are_those_of_the_place() -> None:
    table = placed_twice().instructions

    assert table.allocates[1:] == ((0,), (), (1,), ())
    assert table.frees[1:] == ((), (0,), (), (1,))


def test_equal_instructions_of_a_program_are_one_work() -> None:
    assert len(placed_twice().instructions.works) == 3


def test_the_place_knows_how_long_transfers_take_and_the_fragment_how_long_computing_does() -> None:
    """The vector unit is busy for 500 ps; a load of 64 bytes takes 64 ps here, and one of 32 bytes 32 ps."""
    writer = FragmentWriter()
    for size_bytes in (64, 32):
        load = Work(unit="dma_load", payload=replace(MOVE, size_bytes=size_bytes))
        writer.add(writer.work(load), (0, " load"))
    add = Work(unit="vector", payload=Compute(dtype="fp16", simple=8))
    for keeps_ps in (500, 400):
        writer.add(writer.work(add, keeps_ps), (0, " add"))
    builder = ProgramBuilder(by_size)
    builder.place(writer.written(), ("a",), (), Rows(), ())
    program = builder.build(machine(), interleaved=True)

    assert program.instructions.labels == ("a load", "a add", "a load", "a add")
    assert len(program.instructions.works) == 4
