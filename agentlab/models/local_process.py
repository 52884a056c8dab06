"""The process that serves one file of weights; started by `agentlab.models.local_server`.

The engine must not share a process with the runs: a crash of its C++ code would take them along. It lives as long as
its standard input is open and its parent is there, so it ends with the parent however that ends.

Reads one JSON line of settings from standard input (model, template, alias, api_key, context_tokens, slots, threads)
and writes one JSON line to standard output when it is ready: the address.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

PARENT_CHECK_S = 1.0
PROMPT_CACHE_MIB = 1024
"""Memory for the states of prompts that no slot holds any more; runs of one strategy begin alike."""
_LOG_WARNINGS = 2


def serve(start: Callable[[dict[str, Any]], str]) -> None:
    """Start what serves, report its address, and stay until the parent is gone; does not return.

    Args:
        start: gets the settings and returns the address it listens at.
    """
    parent = os.getppid()
    # Ctrl-C reaches the whole terminal group; the parent decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    report = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever the engine prints is log
    address = start(settings)
    report.write(json.dumps({"address": address}) + "\n")
    report.close()
    threading.Event().wait()


def start_engine(settings: dict[str, Any]) -> str:
    """Load the model and return the address of llama.cpp's server."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.model_alias = {settings["alias"]}
    if settings["template"] is not None:
        params.chat_template = settings["template"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["api_key"]]
    params.ui = False
    params.endpoint_slots = False
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["context_tokens"] * settings["slots"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.verbosity = _LOG_WARNINGS
    server = xllamacpp.Server(params)
    _engines.append(server)
    return str(server.listening_address)


_engines: list[Any] = []
"""Keeps the engine alive: it stops when nobody refers to it."""


def _end_with_input() -> None:
    while sys.stdin.read(1):
        pass
    os._exit(0)


def _end_with_parent(parent: int) -> None:
    """End when the parent is gone although somebody still holds the other end of standard input (a fork of it)."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    os._exit(0)


if __name__ == "__main__":
    serve(start_engine)
