import itertools

import networkx
from hypothesis import given
from hypothesis import strategies as st

from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.report.plan_layout import ROOM, direct_edges, layout


@st.composite
def graphs(draw: st.DrawFn) -> PlanGraph:
    steps = []
    for i in range(draw(st.integers(1, 12))):
        names = [f"s{j}" for j in range(i)]
        strong = draw(st.lists(st.sampled_from(names), unique=True, max_size=3)) if names else []
        weak = draw(st.lists(st.sampled_from(names), unique=True, max_size=1)) if names else []
        steps.append(PlanStep(f"s{i}", depends_on=tuple(strong), weak_depends_on=tuple(weak)))
    return PlanGraph(tuple(steps))


@given(graphs())
def test_only_implied_edges_are_left_out(graph: PlanGraph) -> None:
    whole = networkx.DiGraph()
    whole.add_nodes_from(step.id for step in graph.steps)
    whole.add_edges_from((name, step.id) for step in graph.steps for name in step.depends_on)
    assert set(direct_edges(graph)) == set(networkx.transitive_reduction(whole).edges)


@given(graphs(), st.integers(1, 5))
def test_steps_stand_in_their_generation_and_never_on_each_other(graph: PlanGraph, most_columns: int) -> None:
    plan = layout(graph, most_columns)
    assert {id: column for id, (column, _) in plan.places.items()} == {
        id: number for number, wave in enumerate(graph.waves()) for id in wave
    }
    for (_, (column, height)), (_, (other, place)) in itertools.combinations(plan.places.items(), 2):
        assert column != other or abs(height - place) >= ROOM - 1e-9
    assert 1 <= plan.per_band <= most_columns


@given(graphs())
def test_edges_go_from_step_to_step_and_past_no_other_step(graph: PlanGraph) -> None:
    plan = layout(graph, 100)
    taken = {place: id for id, place in plan.places.items()}
    for edge in plan.edges:
        assert (edge.places[0], edge.places[-1]) == (plan.places[edge.source], plan.places[edge.target])
        for place in edge.places[1:-1]:
            assert place not in taken
            near = [height for column, height in taken if column == place[0]]
            assert all(abs(height - place[1]) > ROOM / 2 for height in near)


def test_a_fan_has_no_crossing() -> None:
    chains = [(f"a{i}", f"b{i}") for i in range(4)]
    steps = [PlanStep(a) for a, _ in chains] + [PlanStep(b, depends_on=(a,)) for a, b in reversed(chains)]
    places = layout(PlanGraph(tuple(steps)), 7).places
    order = sorted(chains, key=lambda pair: places[pair[0]][1])
    assert order == sorted(chains, key=lambda pair: places[pair[1]][1])
    assert all(abs(places[a][1] - places[b][1]) < 0.01 for a, b in chains)
