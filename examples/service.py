"""A REST service around a bundle, with FastAPI.

    pip install fastapi uvicorn
    EDGEOPT_BUNDLE=model.edgeopt uvicorn service:app
    curl -s localhost:8000/infer -H 'content-type: application/json' -d '{"inputs": {"x": [[0.5, 1.5]]}}'

Inputs and outputs are nested lists, by the names in the model. The description is at /docs.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel

import edgeopt
from edgeopt.errors import InputError, OverloadError, UsageError

MAX_WAITING = 64


class Query(BaseModel):
    inputs: dict[str, list[Any]]


class Answer(BaseModel):
    outputs: dict[str, list[Any]]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Loads the bundle once. It runs in a worker process: a crash fails one request, and a new worker starts."""
    worker = edgeopt.load(os.environ.get("EDGEOPT_BUNDLE", "model.edgeopt"), isolate=True)
    app.state.types = {tensor.name: tensor.dtype for tensor in worker.inputs}
    with edgeopt.Pool([worker], queue_size=MAX_WAITING) as pool:
        app.state.pool = pool
        yield


app = FastAPI(title="edgeopt", lifespan=lifespan)


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ready"}


@app.post("/infer")
async def infer(query: Query, request: Request) -> Answer:
    types = request.app.state.types
    if unknown := query.inputs.keys() - types.keys():
        raise HTTPException(422, f"unknown inputs: {', '.join(sorted(unknown))}")
    try:
        feeds = {name: np.array(value, types[name]) for name, value in query.inputs.items()}
        outputs = await request.app.state.pool.run_async(feeds, deadline_s=10)
    except (ValueError, TypeError) as error:  # not numbers, or lists of unequal length
        raise HTTPException(422, str(error)) from error
    except (InputError, UsageError) as error:  # a wrong shape, or a missing input
        raise HTTPException(422, error.message) from error
    except OverloadError as error:
        raise HTTPException(503, error.message, headers={"Retry-After": "1"}) from error
    return Answer(outputs={name: array.tolist() for name, array in outputs.items()})
