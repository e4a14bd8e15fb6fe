"""A fragment is written once: wherever it is placed, its instructions wait for each other as they do in it."""

from hw_models import Launch, Machine, Program, Transfer, Work, dsa_machine, load_hardware
from scheduler.fragments import Fragment, FragmentBuffer, FragmentWriter, Outside
from scheduler.program_builder import ProgramBuilder

DONE = Outside("done")
LOAD = Work(unit="dma_load", payload=Transfer(source="ddr", destination="global_buffer", size_bytes=64))
PASS = Work(unit="path_load", payload=Transfer(source="global_buffer", destination="local_buffer", size_bytes=16))


def machine() -> Machine:
    spec = load_hardware("stcp920")
    assert spec.kind == "clustered_dsa"
    return dsa_machine(spec)


def loaded_and_passed_on() -> Fragment:
    """Return a load that waits for nothing, and what passes that on when something outside is done as well."""
    writer = FragmentWriter()
    load = writer.add(writer.work(LOAD), (0, " load"), is_transfer=True)
    held = writer.allocate(load, FragmentBuffer("global_buffer", 64, (1, ""), addresses=0, version=3, offset_bytes=8))
    passed = writer.add(writer.work(PASS), (0, " pass"), (load, writer.outside(DONE)), is_transfer=True)
    writer.free(passed, held)
    return writer.written()


def placed_twice() -> Program:
    builder, fragment = ProgramBuilder(), loaded_and_passed_on()
    builder.add(builder.work(Work(unit="launch", payload=Launch())), "launch")
    builder.place(fragment, ("a", "x"), [(100, 200)], [()], (0,))
    builder.place(fragment, ("b", "y"), [()], [(1, 2)], (0, 2))
    return builder.build(machine(), interleaved=False)


def test_instructions_wait_for_their_own_fragment_and_for_what_lies_outside_of_it() -> None:
    after = placed_twice().instructions.after

    assert after[1:3] == ((0,), (1,))
    assert after[3:] == ((0, 2), (3, 1, 2))


def test_what_waits_for_nothing_waits_for_the_entry() -> None:
    builder, writer = ProgramBuilder(), FragmentWriter()
    writer.add(writer.work(LOAD), (0, ""), (writer.outside(DONE),))
    builder.add(builder.work(Work(unit="launch", payload=Launch())), "launch")
    builder.place(writer.written(), ("a",), (), [()], (0,))

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
