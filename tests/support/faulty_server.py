"""A server whose endpoints, threads, models and streams raise random exceptions.

python faulty_server.py --settings FILE
"""

import asyncio
import builtins
import concurrent.futures
import random
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from starlette.requests import Request as HTTPRequest
from starlette.responses import Response

import uwaga.errors
import uwaga_server.api_errors
from uwaga.translator import Request
from uwaga_server.api_errors import ApiError, run_in_thread
from uwaga_server.context import Dialect, ServerContext
from uwaga_server.dialects import libretranslate
from uwaga_server.http import EventStream, json_response
from uwaga_server.routing import Routes
from uwaga_server.serve import run_server
from uwaga_server.settings import read_server_settings

FAULT_LOCATIONS = ("endpoint", "thread", "translator", "inspection", "stream", "usage")
ERROR_MODULES = (builtins, asyncio, concurrent.futures, uwaga.errors, uwaga_server.api_errors)
EXCEPTION_CLASSES = [
    kind
    for module in ERROR_MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, BaseException)
]


def random_exception(number: int) -> BaseException:
    """Return the random exception with the given number; its causes and contexts may form cycles."""
    rng = random.Random(number)

    def new() -> BaseException:
        kind = rng.choice(EXCEPTION_CLASSES)
        for arguments in (("broken",), (503, "busy", "broken"), ("broken", [ValueError()]), ()):
            try:
                return kind(*arguments)
            except TypeError:
                continue
        return UnicodeDecodeError("utf-8", b"\xff", 0, 1, "broken")

    errors = [new() for _ in range(rng.choice([1, 2, 5]))]
    for error in errors:
        if rng.random() < 0.5:
            error.__cause__ = rng.choice(errors)
        if rng.random() < 0.5:
            object.__setattr__(error, "__context__", rng.choice(errors))
    return errors[0]


def routes(context: ServerContext) -> Routes:
    """Return routes that raise exceptions, one for each location."""
    routes = Routes("faults")

    def fail(number: int) -> None:
        raise random_exception(number)

    async def pieces(number: int) -> AsyncGenerator[tuple[str, object], None]:
        yield "piece", "Das"
        fail(number)

    @routes.add("POST", "/fault/{place}/{number}")
    async def fault(request: HTTPRequest, place: str, number: str) -> Response:
        """Raise the exception with a number at a location."""
        text = Request("A dog.", source="en", target="de")
        if place == "endpoint":
            fail(int(number))
        elif place == "thread":
            await run_in_thread(fail, int(number))
        elif place == "inspection":
            await context.service.inspect(text, lambda *_: fail(int(number)))
        elif place == "translator":
            async with context.service.pool.translator(context.service.route("en", "de")) as translator:
                await translator.call(lambda _: fail(int(number)))
        elif place == "stream":
            await request.body()
            return EventStream(request, pieces(int(number)), lambda error: error.message)
        elif place == "usage":
            add = context.stores.usage.add
            context.stores.usage.add = lambda *_: fail(int(number))  # type: ignore[method-assign]
            try:
                await context.charge_usage(context.anonymous_client(""), 1)
            finally:
                context.stores.usage.add = add  # type: ignore[method-assign]
        return json_response("nothing failed")

    return routes


def render(error: ApiError, number: str) -> Response:
    """Return the JSON response for an error."""
    return json_response({"error": error.message}, error.status)


if __name__ == "__main__":
    faults = Dialect("faults", lambda path: path.startswith("/fault"), routes, render)
    run_server(read_server_settings(Path(sys.argv[2])), [faults, libretranslate.DIALECT])
