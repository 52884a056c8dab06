from hypothesis import given
from hypothesis import strategies as st

from agentlab.planning.structure import ancestor_bits, closure, dependents_of, execution_order, find_cycles

Edges = list[list[int]]


@st.composite
def graphs(draw: st.DrawFn) -> Edges:
    n = draw(st.integers(0, 8))
    return [draw(st.lists(st.integers(0, n - 1), max_size=3)) for _ in range(n)]


def reaches(edges: Edges, start: int, goal: int) -> bool:
    return goal in closure([start], edges)


@given(edges=graphs())
def test_cycles_are_cycles_and_every_cycle_is_met(edges: Edges) -> None:
    cycles = find_cycles(edges)
    on_cycles = {position for position in range(len(edges)) if reaches(edges, position, position)}
    assert bool(cycles) == bool(on_cycles)
    for cycle in cycles:
        assert all(later in edges[position] for position, later in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        assert len(set(cycle)) == len(cycle)
    removed = {position for cycle in cycles for position in cycle}
    left = [[earlier for earlier in before if earlier not in removed] for before in edges]
    assert [
        position for position in range(len(left)) if position not in removed and reaches(left, position, position)
    ] == []


@given(edges=graphs())
def test_the_order_holds_every_step_that_no_cycle_keeps_back(edges: Edges) -> None:
    order = execution_order(edges)
    place = {position: index for index, position in enumerate(order)}
    assert all(place[earlier] < place[position] for position in order for earlier in edges[position])
    kept_back = {p for p in range(len(edges)) if any(reaches(edges, q, q) for q in {p, *closure([p], edges)})}
    assert set(order) == set(range(len(edges))) - kept_back


@given(edges=graphs())
def test_bits_name_the_ancestors(edges: Edges) -> None:
    acyclic = [[earlier for earlier in before if earlier < position] for position, before in enumerate(edges)]
    for position, bits in enumerate(ancestor_bits(acyclic)):
        assert {p for p in range(len(acyclic)) if bits >> p & 1} == closure([position], acyclic)
    assert dependents_of([[], [0], [0, 1]]) == [[1, 2], [2], []]


def test_a_cycle_beside_another_step_is_named_exactly() -> None:
    assert find_cycles([[2], [0], [1], [], [0], [4]]) == [[0, 2, 1]]
    assert find_cycles([[0], [2], [1]]) == [[0], [1, 2]]


def test_long_chains_need_no_recursion_and_many_cycles_no_patience() -> None:
    n = 50_000
    chain = [[position - 1] if position else [] for position in range(n)]
    assert execution_order(chain) == list(range(n))
    ring = [[(position + 1) % n] for position in range(n)]
    assert len(find_cycles(ring)[0]) == n
    assert len(find_cycles([[position ^ 1] for position in range(2_000)])) == 20
