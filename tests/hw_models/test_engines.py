"""Conformance of simulation engines: every one runs the same programs with the same trace, occupancy, waits, energy."""

import logging

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsascape.hw_models import (
    Buffer,
    ClusteredDsa,
    Program,
    dsa_energy,
    dsa_machine,
    simulate,
    unrolled,
    with_values,
)
from dsascape.hw_models.in_c import log_once
from dsascape.hw_models.simulation.demands import Demands
from dsascape.hw_models.simulation.engine import Engine, EngineLimitError
from dsascape.hw_models.simulation.engines import ENGINES, available_engines
from tests.hw_models.crew import ENERGY, Crew, blocks, bound, work
from tests.hw_models.every_engine import REFERENCE, outcome
from tests.hw_models.story import SPEC, add, fetch, load, program
from tests.hw_models.test_repeats import repeating
from tests.hw_models.test_simulate import Case, cases
from tests.tiers import examples

OTHERS = [
    pytest.param(engine, id=name, marks=pytest.mark.skipif(bool(engine.absence()), reason=engine.absence()))
    for name, engine in ENGINES.items()
    if engine is not REFERENCE
]
RANDOM = settings(max_examples=examples(1000), phases=(Phase.explicit, Phase.generate))
CREWS = st.builds(Crew, kinds=st.integers(1, 5).map(lambda count: ((count, 1),)), clusters=st.integers(1, 2))


def check(engine: Engine, made: Program, spec: ClusteredDsa) -> None:
    """Check that an engine comes to what the reference comes to: the run, or the message of what is wrong."""
    machine, energy = dsa_machine(spec), dsa_energy(spec)
    told, expected = (outcome(made, machine, energy, one) for one in (engine, REFERENCE))
    assert told == expected
    if not isinstance(told, str):
        assert told.engine == engine.name
        assert made.instructions is told.trace.instructions


@pytest.mark.parametrize("engine", OTHERS)
class TestEveryEngineRunsAsTheReferenceDoes:
    @RANDOM
    @given(case=cases())
    def test_random_programs(self, engine: Engine, case: Case) -> None:
        check(engine, case.program, case.spec)

    @settings(RANDOM, max_examples=examples(250))
    @given(case=cases())
    def test_random_programs_with_every_member_written_out(self, engine: Engine, case: Case) -> None:
        check(engine, unrolled(case.program), case.spec)

    @settings(RANDOM, max_examples=examples(500))
    @given(drawn=repeating())
    def test_programs_whose_kernels_come_again(self, engine: Engine, drawn: tuple[Program, ClusteredDsa]) -> None:
        check(engine, *drawn)

    @given(crew=CREWS, amounts=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 60)), min_size=1, max_size=6))
    def test_work_bound_to_the_cores_of_a_cluster(
        self, engine: Engine, crew: Crew, amounts: list[tuple[int, int]]
    ) -> None:
        made = crew.program(*[bound(str(number), work(*amount)) for number, amount in enumerate(amounts)])

        assert outcome(made, crew.machine, ENERGY, engine) == outcome(made, crew.machine, ENERGY, REFERENCE)

    @pytest.mark.parametrize(
        ("made", "wrong"),
        [
            pytest.param(
                program(load("first", 5, allocates=(0,)), load("second", 5, allocates=(1,)),
                        buffers=(Buffer("global_buffer", 600),) * 2),
                "dma_load waits with 'second' for 600 B of global_buffer",
                id="deadlock",
            ),
            pytest.param(
                program(fetch("in", 5, allocates=(0,)), buffers=(Buffer("local_buffer", 101),)),
                "buffer '' needs 101 B, a local_buffer holds 100 B",
                id="too large",
            ),
            pytest.param(
                program(load("late", 9), fetch("in", 5, after=(0,), allocates=(0,)), add("use", 1, frees=(0,)),
                        buffers=(Buffer("local_buffer", 10),)),
                "use frees buffer '' before it is allocated; add a dependency",
                id="freed early",
            ),
        ],
    )  # fmt: skip
    def test_what_is_wrong_with_a_program(self, engine: Engine, made: Program, wrong: str) -> None:
        told = outcome(made, dsa_machine(SPEC), dsa_energy(SPEC), engine)

        assert isinstance(told, str)
        assert wrong in told
        check(engine, made, SPEC)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    log_once.cache_clear()
    caplog.set_level(logging.INFO)
    return caplog


class TestAProgramThatAnEngineDoesNotRun:
    def test_is_run_by_the_reference_and_the_log_says_why_once(self, log: pytest.LogCaptureFixture) -> None:
        crew = Crew()
        made = crew.program(blocks("k", 5, work(10)))

        assert [crew.simulated(made).engine for _ in range(2)] == ["simpy"] * 2
        if "compiled" in available_engines():
            assert [(one.levelname, one.getMessage()) for one in log.records] == [
                ("INFO", "engine compiled: it runs no dispatched work; a slower engine runs such programs")
            ]

    def test_because_of_a_limit_is_named_in_a_warning(self, log: pytest.LogCaptureFixture) -> None:
        engine = ENGINES["compiled"]
        if engine.absence():
            pytest.skip(engine.absence())
        spec = with_values(SPEC, {"clusters": 9, "cores_per_cluster": 8})
        made = unrolled(dsa_machine(spec).program((add("a", 3), add("b", 3)), (), cluster=9, core=8))

        with pytest.raises(EngineLimitError, match="memories"):
            engine.run(made, Demands(made, dsa_machine(spec)))
        results = [simulate(made, dsa_machine(spec), dsa_energy(spec)) for _ in range(2)]

        assert [(result.engine, result.makespan_ps) for result in results] == [("simpy", 6)] * 2
        [line] = log.records
        assert line.levelname == "WARNING"
        assert line.getMessage().startswith("engine compiled: ")
        assert "memories" in line.getMessage()
