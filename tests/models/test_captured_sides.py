"""Sides of branches in captured loops that are much work run where they are taken alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.ir import graph
from minicc.ir.core import walk

Function = Callable[[Any, Any, int], Any]
ROUNDS, EXTENT = 40, 60


def one_side(x: Any, a: Any, n: int) -> Any:
    s = np.zeros(3)
    for i in range(n):
        if x[i] > 0.5:
            s[0] += (a @ a).sum()
            s[1] += 1
        else:
            s[2] += x[i]
    return s


def three_ways(x: Any, a: Any, n: int) -> Any:
    y = a[0]
    for i in range(n):
        if x[i] > 0.7:
            y = np.tanh(a @ a.T @ y / EXTENT)
        elif x[i] > 0.3:
            y = np.sin(a.T @ a @ y / EXTENT) + x[i]
        else:
            y = y * 0.5
    return y


def within(x: Any, a: Any, n: int) -> Any:
    t = a[0, 0]
    for i in range(n):
        if x[i] > 0.3:
            c = a @ a
            t += c[0, 0]
            if x[i] > 0.6:
                t += np.abs(c @ a).max()
    return t


def rows_of_loops(x: Any, a: Any, n: int) -> Any:
    total = np.zeros_like(a)
    for i in range(n):
        for j in range(4):
            if x[i] * j > 1:
                total += a @ a.T
            if x[j] > 0.5:
                total[j] = np.exp(a @ a).sum(0)
    return total


def until(x: Any, a: Any, n: int) -> Any:
    total, b = x[0], a.copy()
    while total < n:
        if np.floor(total * 7) % 2 == 0:
            b = b @ a / np.abs(b).max()
        total = total + 0.37
    return b, total


def clusters(x: Any, a: Any, n: int) -> Any:
    points = np.concatenate([a] * 20)
    centres = a[:5].copy()
    for _ in range(n):
        near = ((points[:, None] - centres[None]) ** 2).sum(-1).argmin(1)
        for k in range(5):
            members = near == k
            if members.any():
                centres[k] = points[members].mean(0)
    return centres, near


ALL: list[Function] = [one_side, three_ways, within, rows_of_loops, until, clusters]


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_as_numpy(f: Function) -> None:
    compiled = minicc.jit(f, threads=2)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        args = rng.random(ROUNDS), rng.random((EXTENT, EXTENT)) - 0.5, ROUNDS
        wanted, got = f(*copy.deepcopy(args)), compiled(*args)
        several = isinstance(wanted, tuple)
        for w, g in zip(wanted if several else [wanted], got if several else [got], strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-8)


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_a_branch_of_the_graph(f: Function) -> None:
    args = np.ones(ROUNDS), np.ones((EXTENT, EXTENT)), ROUNDS
    ops = walk(minicc.jit(f).lower(*args).module.main.body)
    assert any(isinstance(op, graph.If) for op in ops)
    assert sum(isinstance(op, graph.Scan | graph.While) for op in ops) <= 2


def test_little_work_is_chosen() -> None:
    def f(x: Any, n: int) -> Any:
        y = np.zeros_like(x)
        for i in range(n):
            y[i] = x[i] * 2 if x[i] > 0.5 else np.exp(x[i])
        return y

    ops = walk(minicc.jit(f).lower(np.ones(ROUNDS), ROUNDS).module.main.body)
    assert not any(isinstance(op, graph.If) for op in ops)
