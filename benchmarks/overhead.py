"""What agentlab itself costs: CPU of a model call, runs in flight, memory, import. Prints a table (Markdown).

    python benchmarks/overhead.py            all sections, each in a process of its own
    python benchmarks/overhead.py http       one section: http, inprocess, inflight, memory, imports

CPU is `time.process_time` of the client process, all its threads together; the fake server is another process.
What is compared is measured in turn in one process (A B A B) and shown as the median. A "call" is one `ask` of the
model and the `act` that follows it; the last call of a run hands in the answer. "Engine" is the whole of
`run_experiment`: planning, strategy, tools, judging, trace, every write to the SQLite store.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import functools
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import psutil
from boxes.suite import load_suite
from chat_server import turns

from agentlab.budget import Budget
from agentlab.models.scripted import ScriptedModel
from agentlab.records import Message, ModelRequest
from agentlab.runner.experiment import run_experiment
from agentlab.runner.rows import call_rows, step_rows
from agentlab.runner.run_one import RunResult, run_one
from agentlab.runner.spec import Experiment
from agentlab.session import SessionSettings
from agentlab.strategies.base import build_strategy
from agentlab.trace import pack

HERE = Path(__file__).parent
SUITE = load_suite()
MODEL = "gpt-4o-mini"
OBSERVATION = (
    '{"success": true, "passed": true, "check": "box_valid", "subject": "BOX-7", "data": {"name": "BOX-7", "value": 7}}'
)
"""What the tool loop sees of one check: the bare loop appends as much."""
MOST_RUNS_IN_FLIGHT = 256

Post = Callable[[openai.AsyncOpenAI, dict[str, Any]], Awaitable[dict[str, Any]]]


@dataclasses.dataclass
class Row:
    """One line of the table."""

    section: str
    what: str
    value: str
    target: str = ""
    met: bool | None = None


class Server:
    """The fake server in a process of its own."""

    def __init__(self) -> None:
        command = [sys.executable, str(HERE / "chat_server.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._address = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def base_url(self, steps: int, latency_ms: int = 0) -> str:
        """Return the address under which runs of so many calls are played."""
        return f"{self._address}/steps-{steps}/latency-{latency_ms}/v1"

    def most_in_flight(self) -> int:
        """Return the most requests at once since the last look."""
        with urllib.request.urlopen(f"{self._address}/stats") as response:
            return int(json.load(response)["most_in_flight"])

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def first_request(strategy: str) -> ModelRequest:
    """Return the request that a strategy sends first: the bare loops start from its messages and tools."""
    seen: list[ModelRequest] = []
    script = turns(1, native=strategy == "tool_loop")[0]

    def reply(request: ModelRequest) -> dict[str, Any]:
        seen.append(dataclasses.replace(request, messages=list(request.messages)))
        return script

    asyncio.run(_one_run(strategy, ScriptedModel(reply), "first"))
    return seen[0]


async def _one_run(strategy: str, model: ScriptedModel, run_id: str) -> RunResult:
    environment = SUITE.make_environment({})
    return await run_one(
        SUITE.tasks[0], environment, build_strategy(strategy), model, SessionSettings(), Budget(), run_id=run_id
    )


async def post_dict(client: openai.AsyncOpenAI, body: dict[str, Any]) -> dict[str, Any]:
    """Send a plain dict and read the reply's bytes: what a bare loop of one's own would do."""
    response = await client.post("/chat/completions", cast_to=httpx2.Response, body=body)
    message: dict[str, Any] = json.loads(response.content)["choices"][0]["message"]
    return message


async def post_bytes(client: openai.AsyncOpenAI, body: dict[str, Any]) -> dict[str, Any]:
    """The same with the body encoded here."""
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    response = await client.post("/chat/completions", cast_to=httpx2.Response, content=content)
    message: dict[str, Any] = json.loads(response.content)["choices"][0]["message"]
    return message


async def create(client: openai.AsyncOpenAI, body: dict[str, Any]) -> dict[str, Any]:
    """The openai package's own typed call."""
    completion = await client.chat.completions.create(**body)
    return completion.choices[0].message.model_dump(exclude_none=True)


def bare(
    base_url: str, runs: int, concurrency: int, first: ModelRequest, post: Post = post_dict, *, aiohttp: bool = True
) -> None:
    """Run bare loops: post, append the reply and an observation, until the answer comes. Nothing else."""

    async def loop(client: openai.AsyncOpenAI) -> None:
        messages: list[Message] = list(first.messages)
        body = {"model": MODEL, "messages": messages, "temperature": 0.0, "seed": 7}
        body |= {"tools": first.tool_schemas, "tool_choice": "auto"}
        while True:
            message = await post(client, body)
            calls = message["tool_calls"]
            if calls[0]["function"]["name"] == "submit":
                return
            messages.append({"role": "assistant", "content": message["content"], "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": OBSERVATION} for call in calls]

    async def work(client: openai.AsyncOpenAI, queue: deque[int]) -> None:
        while queue:
            queue.popleft()
            await loop(client)

    async def main() -> None:
        transport = openai.DefaultAioHttpClient(trust_env=False) if aiohttp else None
        async with openai.AsyncOpenAI(
            api_key="no-key", base_url=base_url, max_retries=0, timeout=None, http_client=transport
        ) as client:
            queue = deque(range(runs))
            await asyncio.gather(*(work(client, queue) for _ in range(concurrency)))

    asyncio.run(main())


def engine(base_url: str, runs: int, concurrency: int) -> None:
    """Run an experiment of so many tool loops over HTTP, with a store of its own."""
    os.environ |= {"LLM_BASE_URL": base_url, "LLM_API_KEY": ""}
    with _folder() as folder:
        _experiment("tool_loop", f"openai:{MODEL}", runs, concurrency, folder / "results")


def _experiment(strategy: str, model: str, runs: int, concurrency: int, out: Path) -> None:
    declared = Experiment(
        name="overhead",
        suites=(str(HERE / "boxes"),),
        strategies=(strategy,),  # type: ignore[arg-type]
        models=(model,),
        repeats=runs,
        concurrency=concurrency,
        budget=Budget(),
    )
    summary = run_experiment(declared, out=out, is_quiet=True)
    assert summary.errors == summary.infrastructure == 0, summary


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="overhead-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def cpu_s(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of this process while it does the work."""
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started


def in_turn(variants: dict[str, Callable[[], Any]], rounds: int, measure: Callable[..., float]) -> dict[str, float]:
    """Return the median measure of each variant; they take turns, and the first round of each does not count."""
    values: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        for name, work in variants.items():
            value = measure(work)
            if number:
                values[name].append(value)
    return {name: statistics.median(found) for name, found in values.items()}


def http_section(rounds: int, calls: int) -> list[Row]:
    """CPU of a model call over HTTP: the engine against bare loops with the same growth of the messages."""
    rows = []
    own: dict[int, float] = {}
    first = first_request("tool_loop")
    server = Server()
    for steps in (5, 20):
        url, runs = server.base_url(steps), calls // steps
        few = max(8, runs // 4)
        variants: dict[str, tuple[int, Callable[[], Any]]] = {
            "bare": (runs, functools.partial(bare, url, runs, 8, first)),
            "engine": (runs, functools.partial(engine, url, runs, 8)),
            "bytes": (runs, functools.partial(bare, url, runs, 8, first, post_bytes)),
            "create": (few, functools.partial(bare, url, few, 8, first, create)),
            "create, default transport": (few, functools.partial(bare, url, few, 8, first, create, aiohttp=False)),
        }
        medians = in_turn({name: work for name, (_, work) in variants.items()}, rounds, cpu_s)
        ms = {name: 1000 * medians[name] / (count * steps) for name, (count, _) in variants.items()}
        own[steps] = ms["engine"]
        ratio = ms["engine"] / ms["bare"]
        rows += [
            Row("http", f"k={steps}: bare loop on client.post(body=dict)", f"{ms['bare']:.3f} ms"),
            Row("http", f"k={steps}: bare loop on client.post(content=bytes)", f"{ms['bytes']:.3f} ms"),
            Row("http", f"k={steps}: engine", f"{ms['engine']:.3f} ms"),
            Row("http", f"k={steps}: engine / bare loop", f"{ratio:.2f}", "<= 1.5", ratio <= 1.5),
        ]
        for name in ("create", "create, default transport"):
            text = f"{ms['engine'] / ms[name]:.2f} ({ms[name]:.2f} ms)"
            rows.append(Row("http", f"k={steps}: engine / chat.completions.{name}", text))
    server.close()
    growth = own[20] / own[5]
    rows.append(Row("http", "engine k=20 / engine k=5, per call", f"{growth:.2f}", "<= 1.2", growth <= 1.2))
    return rows


def inprocess_section(rounds: int, calls: int) -> list[Row]:
    """CPU of a call without a network: scripted model, toy tools inline; with and without the SQLite store."""
    return [row for steps in (20, 100) for row in _inprocess_rows(rounds, calls // steps, steps)]


def _inprocess_rows(rounds: int, runs: int, steps: int) -> list[Row]:
    def without_store(strategy: str) -> None:
        model = ScriptedModel(turns(steps, native=strategy == "tool_loop"))

        async def main() -> None:
            for number in range(runs):
                events = (await _one_run(strategy, model, f"run-{number}")).events
                step_rows(events), call_rows(events), pack(events)

        asyncio.run(main())

    def whole(strategy: str) -> None:
        with _folder() as folder:
            script = folder / "script.json"
            script.write_text(json.dumps(turns(steps, native=strategy == "tool_loop")), encoding="utf-8")
            _experiment(strategy, f"scripted:{script}", runs, 8, folder / "results")

    rows = []
    for name, limit in (("tool_loop", 0.1), ("react", 0.15)):
        variants = {"rows and packed trace made, no database": without_store, "engine with its SQLite store": whole}
        found = in_turn({what: functools.partial(work, name) for what, work in variants.items()}, rounds, cpu_s)
        for what, seconds in found.items():
            ms = 1000 * seconds / (runs * steps)
            rows.append(Row("inprocess", f"{name}, k={steps}: {what}", f"{ms:.3f} ms", f"<= {limit} ms", ms <= limit))
    return rows


def inflight_section(rounds: int, steps: int) -> list[Row]:
    """Wall time of many runs at once against a bare loop, and against the latency alone."""
    runs = MOST_RUNS_IN_FLIGHT
    first = first_request("tool_loop")
    server = Server()
    fast, slow = server.base_url(steps, 200), server.base_url(steps, 2000)
    walls = in_turn(
        {
            "bare": functools.partial(bare, fast, runs, runs, first),
            "engine": functools.partial(engine, fast, runs, runs),
        },
        rounds,
        _wall_s,
    )
    at_200_ms = server.most_in_flight()
    ratio = walls["engine"] / walls["bare"]
    slow_s = in_turn({"engine": functools.partial(engine, slow, runs, runs)}, 1, _wall_s)["engine"]
    to_ideal = slow_s / (2.0 * steps)
    server.close()
    what = f"{runs} runs of {steps} calls"
    return [
        Row("inflight", f"{what} at 200 ms: ideal", f"{0.2 * steps:.2f} s"),
        Row("inflight", f"{what} at 200 ms: bare loop", f"{walls['bare']:.2f} s"),
        Row("inflight", f"{what} at 200 ms: engine (most in flight: {at_200_ms})", f"{walls['engine']:.2f} s"),
        Row("inflight", f"{what} at 200 ms: engine / bare loop", f"{ratio:.2f}", "<= 1.3", ratio <= 1.3),
        Row("inflight", f"{what} at 2 s: engine", f"{slow_s:.2f} s"),
        Row("inflight", f"{what} at 2 s: engine / ideal", f"{to_ideal:.2f}", "<= 1.3", to_ideal <= 1.3),
    ]


def _wall_s(work: Callable[[], Any]) -> float:
    gc.collect()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def memory_section(few: int = 200, many: int = 5_000, steps: int = 20) -> list[Row]:
    """Growth of the highest resident memory (RSS) when one experiment grows from few to many finished runs."""
    peaks = []
    with _folder() as folder:
        script = folder / "script.json"
        script.write_text(json.dumps(turns(steps, native=True)), encoding="utf-8")
        for runs in (few, many, many):
            with _PeakMemory() as memory:
                _experiment("tool_loop", f"scripted:{script}", runs, 8, folder / "results")
            peaks.append(memory.peak_mb)
    growth, again = peaks[1] - peaks[0], peaks[2] - peaks[0]
    what = f"{few} to {many} finished runs of {steps} calls"
    return [
        Row("memory", f"highest RSS after {few} runs", f"{peaks[0]:.1f} MB"),
        Row("memory", f"growth from {what}", f"{growth:.1f} MB", "< 10 MB", growth < 10),
        Row("memory", f"the same after looking at all {many} again (resume)", f"{again:.1f} MB"),
    ]


class _PeakMemory:
    """Samples the resident memory of this process in a thread."""

    def __enter__(self) -> "_PeakMemory":
        gc.collect()
        self.peak_mb = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        process = psutil.Process()
        while not self._ended.wait(0.02):
            self.peak_mb = max(self.peak_mb, process.memory_info().rss / 1e6)


def imports_section(rounds: int) -> list[Row]:
    """CPU of a fresh interpreter that imports one thing."""

    def run(module: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    names = {name: functools.partial(run, name) for name in ("sys", "asyncio", "agentlab")}
    found = in_turn(names, rounds, lambda work: work())
    return [Row("imports", f'python -c "import {name}"', f"{1000 * value:.0f} ms") for name, value in found.items()]


SECTIONS: dict[str, Callable[[argparse.Namespace], list[Row]]] = {
    "http": lambda given: http_section(given.rounds, given.calls),
    "inprocess": lambda given: inprocess_section(given.rounds, given.in_process_calls),
    "inflight": lambda given: inflight_section(min(given.rounds, 3), given.steps),
    "memory": lambda given: memory_section(),
    "imports": lambda given: imports_section(2 * given.rounds),
}


def markdown(rows: list[Row]) -> str:
    """Return the rows as a table."""
    verdicts = {True: "yes", False: "**no**", None: ""}
    lines = ["| section | what | measured | target | met |", "|---|---|---|---|---|"]
    lines += [f"| {row.section} | {row.what} | {row.value} | {row.target} | {verdicts[row.met]} |" for row in rows]
    return "\n".join(lines)


def machine() -> str:
    """Return what the numbers were measured on, without names of machines."""
    versions = ", ".join(f"{name} {_version(name)}" for name in ("openai", "aiohttp", "SQLAlchemy", "pydantic"))
    load = f", load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{time.strftime('%Y-%m-%d')}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores{load}, "
        f"Python {platform.python_version()}, {versions}"
    )


def _version(distribution: str) -> str:
    from importlib.metadata import version

    return version(distribution)


def _in_own_process(section: str, given: argparse.Namespace) -> list[Row]:
    options = [
        f"--{name.replace('_', '-')}={value}" for name, value in vars(given).items() if name not in ("sections", "json")
    ]
    command = [sys.executable, __file__, section, "--json", *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return [Row(**row) for row in json.loads(done.stdout)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS), help=", ".join(SECTIONS))
    parser.add_argument("--rounds", type=int, default=5, help="turns of each variant, of which the median is shown")
    parser.add_argument("--calls", type=int, default=1_200, help="http: model calls of one turn")
    parser.add_argument("--in-process-calls", type=int, default=4_000, help="inprocess: model calls of one turn")
    parser.add_argument("--steps", type=int, default=10, help="inflight: model calls of one run")
    parser.add_argument("--json", action="store_true", help="print rows as JSON, sections in this process")
    given = parser.parse_args()
    if unknown := set(given.sections) - set(SECTIONS):
        parser.error(f"unknown section {sorted(unknown)[0]!r}; valid: {', '.join(SECTIONS)}")
    if given.json:
        print(json.dumps([dataclasses.asdict(row) for name in given.sections for row in SECTIONS[name](given)]))
        return
    about = machine()
    print(markdown([row for name in given.sections for row in _in_own_process(name, given)]))
    print(f"\n{about}")


if __name__ == "__main__":
    main()
